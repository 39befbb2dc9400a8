//! The least that a program in the kernel does: it places payloads by their heads and checks nothing, or drops them.

use crate::address::Endpoint;
use crate::bpf::{Map, Program, Words};
use crate::quantity::Size;
use crate::udp::{UdpOptions, open_socket, set_option};
use skyhaul_core::bytecode::Step;
use skyhaul_core::placement::rule::{BARE_SLACK, BareMap, BarePlacement};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// A socket whose datagrams end in such a program. Nobody reads it: they are placed, or dropped, on the way.
#[derive(Debug)]
pub struct BarePlacer {
    _socket: Socket,
    local: SocketAddr,
    count: Words,
    memory: Words,
    _program: Program,
}

impl BarePlacer {
    /// Binds, and places what arrives from now on; if `drops`, it is dropped instead.
    ///
    /// # Errors
    /// The kernel allows no programs, or the layout cannot be placed so, with the reason.
    pub fn open(at: &Endpoint, layout: &BarePlacement, drops: bool) -> io::Result<Self> {
        let code = if drops { layout.drop_all() } else { layout.place() };
        let code = code.map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why.to_string()))?;
        let bytes = if drops { 8 } else { (layout.memory + BARE_SLACK) as usize };
        let (memory_map, memory) = Map::mapped(bytes, 1)?;
        let (count_map, count) = Map::mapped(8, 1)?;
        let steps = code.steps(|map| match map {
            BareMap::Memory => memory_map.number(),
            BareMap::Count => count_map.number(),
        });
        let steps: Vec<[u8; 8]> = steps.into_iter().map(Step::octets).collect();
        let program = Program::load_filter(&steps)?;
        let udp =
            UdpOptions { buffer: Size::from_bytes(64 << 20), timestamps: false, ..UdpOptions::default() };
        let (socket, local) = open_socket(at, &udp)?;
        if layout.train > 1 {
            set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &1i32)
                .map_err(at.failing("set UDP_GRO on"))?;
        }
        program.filter(socket.as_fd()).map_err(at.failing("attach a program to"))?;
        Ok(Self { _socket: socket, local, count, memory, _program: program })
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Datagrams placed or dropped so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.get(0)
    }

    /// The words of its memory; one if it drops.
    #[must_use]
    pub fn memory(&self) -> &Words {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BareSender, Give, ScatterReceiver};
    use super::*;
    use std::time::{Duration, Instant};

    const PAYLOAD: usize = 64;
    const LAYOUT: BarePlacement =
        BarePlacement { datagram_bytes: 16 + 64, head_bytes: 16, offset_at: 8, train: 1, memory: 4096 };

    /// Datagrams for these slots, each full of its number in the list.
    fn datagrams(slots: &[u64]) -> Vec<u8> {
        let one = |(nth, slot): (usize, &u64)| {
            let offset = (slot * PAYLOAD as u64).to_be_bytes();
            [&[0; 8][..], &offset, &[1 + nth as u8; PAYLOAD]].concat()
        };
        slots.iter().enumerate().flat_map(one).collect()
    }

    fn send(to: SocketAddr, at: &Endpoint, train: u16, bytes: &[u8]) {
        let give = if train > 1 { Give::TrainsOf(train) } else { Give::Single };
        let size = usize::from(LAYOUT.datagram_bytes);
        let mut sender = BareSender::open(&at.at(to), give, size).unwrap();
        let batch = sender.batch_packets() * size;
        bytes.chunks(batch).for_each(|part| sender.send(part).unwrap());
    }

    fn opened(at: &Endpoint, train: u16, drops: bool) -> Option<BarePlacer> {
        match BarePlacer::open(at, &BarePlacement { train, ..LAYOUT }, drops) {
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied) => {
                println!("SKIPPED: {error}");
                None
            }
            placer => Some(placer.unwrap()),
        }
    }

    #[test]
    fn a_bare_program_places_by_the_head_and_one_that_drops_counts() {
        let at: Endpoint = "udp://127.0.0.1:0".parse().unwrap();
        for train in [1, 3] {
            let Some(placer) = opened(&at, train, false) else { return };
            // Beyond the memory an offset begins at its start again.
            send(placer.local(), &at, train, &datagrams(&[5, 2, 0, 64 + 1, 7]));
            assert_eq!(placer.count(), 5, "trains of {train}");
            let seen = |slot: usize| placer.memory().get(slot * PAYLOAD / 8).to_ne_bytes();
            for (slot, own) in [(5, 1), (2, 2), (0, 3), (1, 4), (7, 5), (3, 0)] {
                assert_eq!(seen(slot), [own; 8], "slot {slot}, trains of {train}");
            }
            let Some(dropper) = opened(&at, train, true) else { return };
            send(dropper.local(), &at, train, &datagrams(&[0, 1, 2, 3]));
            assert_eq!((dropper.count(), dropper.memory().get(0)), (4, 0), "trains of {train}");
        }
    }

    #[test]
    fn a_scattering_receiver_counts_what_is_where_its_head_says() {
        let at: Endpoint = "udp://127.0.0.1:0".parse().unwrap();
        for train in [1, 3] {
            let layout = BarePlacement { train, ..LAYOUT };
            let mut receiver = ScatterReceiver::open(&at, &layout, 8).unwrap();
            // Slot 5 is missing, so the rest of the call is one slot too early; later ones follow the last.
            send(receiver.local(), &at, train, &datagrams(&[0, 1, 2, 3, 4, 6]));
            let mut all = super::super::ScatterCounts::default();
            let mut take = |until: u64| {
                let limit = Instant::now() + Duration::from_secs(20);
                while all.placed + all.misplaced < until {
                    let more = receiver.poll().unwrap();
                    all.placed += more.placed;
                    all.misplaced += more.misplaced;
                    assert!(Instant::now() < limit, "trains of {train}: {all:?}");
                }
                all
            };
            let all = take(6);
            assert_eq!((all.placed, all.misplaced), (5, 1), "trains of {train}");
        }
        assert!(ScatterReceiver::open(&at, &LAYOUT, 65).is_err(), "more slots than memory");
    }
}
