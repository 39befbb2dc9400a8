//! Writes placed by a program in the kernel, while this process sleeps.
//!
//! ```text
//!   peer ─▶ socket connected to it ─ program ─┬▶ regions (arena), slots: a message each     nobody is woken
//!                                             └▶ what it does not know ─▶ train ─▶ endpoint
//!   slots: complete, overtaken, or asked for by a train ─▶ closed ─▶ RdmaEndpoint::handle_placed ─▶ opened for a later message
//! ```
//!
//! The endpoint learns of a message when its slot is closed, so it never decides about bytes that the program still places:
//!
//! * a message that is complete is handed over when the next train, wake or turn comes; its slot is opened for a later one;
//! * before a train goes to the endpoint, so do the messages before those of the train, and what is there of its own;
//! * one that is overtaken by [`slots::BEHIND`] others is handed over as it is; the rest of it goes up the socket.
//!
//! Each connection has a socket and a program, so the kernel itself holds off other addresses. Limits: [`PEERS`] connections; those beyond,
//! and messages of more segments than a slot has, are placed by the `stage` tier. A datagram that went up the socket is placed after
//! newer ones that the program placed meanwhile: bytes of newer messages are left, and the program pauses for that moment. While most
//! Writes come up, it is [set aside](suspension).

mod programs;
mod slots;
mod suspension;

use super::placing::Placing;
use programs::{Programs, unit_of};
use skyhaul_core::rdma::MemorySlice;
use skyhaul_core::wire::rdma::rules::{CONNECTION, PlacedWrite};
use skyhaul_io::source::Source;
use skyhaul_io::udp::bpf::{CannotPlace, PlacementArena};
use skyhaul_io::udp::peer::beside;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use slots::Slots;
pub(super) use slots::{Hands, Target};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// The longest datagram if the path would carry more: larger ones are no faster, and a lost one costs more.
pub(super) const MAX_DATAGRAM_BYTES: usize = 8972;
/// Connections with a program.
const PEERS: usize = 16;
/// Times that a socket is read in a turn, at most.
const POLLS: usize = 64;
/// An arena in one piece is below this; larger ones have elements of a power of two.
const ONE_ELEMENT: u64 = 1 << 29;
const ELEMENT: u64 = 1 << 28;
/// Behind the last region, so that the longest payload fits wherever it begins.
const SLACK: u64 = 64 << 10;
/// Where regions begin, a multiple of this.
const PAGE: u64 = 4096;

/// Memory in the kernel, and the programs that write it.
#[derive(Debug)]
pub(super) struct Kernel {
    arena: Arc<PlacementArena>,
    /// Bytes given to regions.
    given: u64,
    programs: Programs,
    peers: Vec<Peer>,
    ended: Placing,
}

/// A connection whose Writes a program places.
struct Peer {
    socket: OwnedFd,
    source: UdpSource,
    slots: Slots,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("connection", &self.slots.connection).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Memory for regions of these lengths together, and a program for peers with datagrams of this length.
    ///
    /// # Errors
    /// Why the kernel does not place.
    pub(super) fn open(regions: &[u64], datagram_bytes: u16) -> Result<Kernel, CannotPlace> {
        let sum: u64 = regions.iter().map(|bytes| bytes.next_multiple_of(PAGE)).sum();
        let bytes = sum + SLACK;
        if bytes > PlacedWrite::MAX_ARENA_BYTES {
            return Err(
                io::Error::new(io::ErrorKind::OutOfMemory, "regions of more than 4 GiB together").into()
            );
        }
        let (element, elements) = match bytes < ONE_ELEMENT {
            true => (bytes, 1),
            false => (ELEMENT, bytes.div_ceil(ELEMENT)),
        };
        let arena = Arc::new(PlacementArena::new(element as usize, elements as u32)?);
        let longest = regions.iter().copied().max().unwrap_or_default();
        let (elements, unit) = ((element as u32, elements as u32), unit_of(datagram_bytes));
        let programs = Programs::new(Arc::clone(&arena), elements, longest, unit)?;
        let (given, peers, ended) = Default::default();
        Ok(Kernel { arena, given, programs, peers, ended })
    }

    /// Memory for the next region, and where it begins in the arena.
    pub(super) fn region(&mut self, length: u64) -> (skyhaul_io::memory::remote::RemoteMemory, u64) {
        let start = self.given;
        self.given += length.next_multiple_of(PAGE);
        (self.arena.memory(start, length), start)
    }

    /// Whether the program for a peer with datagrams of this length is being loaded.
    pub(super) fn is_loading(&mut self, datagram_bytes: u16) -> bool {
        self.peers.len() < PEERS && self.programs.is_awaited(unit_of(datagram_bytes))
    }

    /// Has the Writes of a connection placed, from its first message on, if there is room for one more.
    ///
    /// # Errors
    /// There is no program for it, or the kernel refuses the socket.
    pub(super) fn begin(
        &mut self,
        on: SocketAddr,
        (address, connection): (SocketAddr, u32),
        datagram_bytes: u16,
        target: Target,
        buffer: u64,
    ) -> io::Result<()> {
        if self.peers.len() >= PEERS || self.peers.iter().any(|peer| peer.slots.address == address) {
            return Ok(());
        }
        let (program, shape) = self.programs.take(unit_of(datagram_bytes)).map_err(io::Error::other)?;
        let slots = Slots::new((address, connection), target, (program, shape));
        let socket = beside(on, address, buffer, |socket| slots.program.attach(socket))?;
        let options = UdpOptions { tier: Tier::Stage, timestamps: false, ..UdpOptions::default() };
        let (fd, source) = (socket.try_clone()?.into(), UdpSource::from_fd(socket.into(), &options)?);
        self.peers.push(Peer { socket: fd, source, slots });
        Ok(())
    }

    /// The sockets to wait for.
    pub(super) fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.peers.iter().map(|peer| peer.socket.as_fd()).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.peers.is_empty()
    }

    /// Takes what came up, and hands over what was placed before; all of it, if nothing came for a turn. Returns the datagrams taken.
    ///
    /// # Errors
    /// A socket fails.
    pub(super) fn receive(&mut self, is_quiet: bool, hands: &mut Hands<'_, '_>) -> io::Result<usize> {
        self.peers.iter_mut().try_fold(0, |taken, peer| Ok(taken + peer.receive(is_quiet, hands)?))
    }

    /// Hands over all that is there, before the endpoint decides by its timers.
    pub(super) fn settle(&mut self, hands: &mut Hands<'_, '_>) {
        self.peers.iter_mut().for_each(|peer| peer.slots.settle(hands));
    }

    /// A connection is about to end, or has: its program stops, and all that it placed is handed over.
    ///
    /// # Errors
    /// Its socket fails.
    pub(super) fn end(&mut self, connection: u32, hands: &mut Hands<'_, '_>) -> io::Result<()> {
        let Some(at) = self.peers.iter().position(|peer| peer.slots.connection == connection) else {
            return Ok(());
        };
        let mut peer = self.peers.swap_remove(at);
        // From here on all goes up.
        peer.slots.is_ending = true;
        peer.slots.program.set_parameter(CONNECTION, 0);
        peer.slots.program.quiesce();
        peer.receive(false, hands)?;
        peer.slots.settle(hands);
        let placing = peer.slots.placing(hands.arrived);
        self.ended.add(&placing);
        self.programs.give_back((peer.slots.program, peer.slots.shape));
        Ok(())
    }

    /// The connections that have a program.
    pub(super) fn connections(&self) -> Vec<u32> {
        self.peers.iter().map(|peer| peer.slots.connection).collect()
    }

    /// What the programs of ended connections did.
    pub(super) fn placing(&self) -> Placing {
        self.ended
    }

    /// For each connection that a program places, the message from which on nothing was placed yet.
    pub(super) fn untouched(&self) -> Vec<(u32, u64)> {
        self.peers.iter().map(|peer| (peer.slots.connection, peer.slots.newest(peer.slots.next))).collect()
    }

    /// Ranges of a place, in its memory, that were written and not yet handed over. Of older messages, too: their packets may have come
    /// last.
    pub(super) fn not_handed(&self, place: MemorySlice) -> Vec<Range<u64>> {
        // What was copied before is no newer than what is read now.
        fence(Ordering::Acquire);
        let range = place.start..place.start + place.length;
        let of =
            self.peers.iter().map(|peer| &peer.slots).filter(|slots| slots.target.memory == place.memory);
        of.flat_map(|slots| slots.claims(0, &range)).map(|(_, range)| range).collect()
    }
}

impl Peer {
    fn receive(&mut self, is_quiet: bool, hands: &mut Hands<'_, '_>) -> io::Result<usize> {
        let Peer { source, slots, .. } = self;
        let (read, mut is_empty) = (slots.placing.read, false);
        // What was placed before the socket was found empty: all that went up before it has been taken then.
        let newest = if slots.is_idle { slots.next } else { slots.newest(slots.next) };
        for _ in 0..POLLS {
            let trains = slots.placing.trains;
            source.poll(Duration::ZERO, &mut |train| {
                slots.placing.trains += 1;
                // An empty datagram is a wake: real ones are refused by the program.
                if !train.bytes.is_empty() {
                    slots.take(&train, hands);
                }
            })?;
            is_empty = slots.placing.trains == trains;
            if is_empty {
                break;
            }
        }
        if is_empty {
            slots.hand_over(newest, hands);
            slots.rest_or_rise(hands);
            // What goes up from here on is newer than all that was handed over before.
            slots.recent.clear();
            slots.resume();
        }
        let placed = slots.program.counts().placed;
        if is_quiet && placed == slots.before {
            slots.settle(hands);
        }
        slots.before = placed;
        Ok((slots.placing.read - read) as usize)
    }
}
