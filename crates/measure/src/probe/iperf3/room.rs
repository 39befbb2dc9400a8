//! What the tests of a server may take together, and those of one address: tests, streams, memory.
//!
//! A server of iperf3 has no token, so anyone may ask for as many streams as the protocol knows, 256 of a test, each with a
//! thread and buffers. One budget for all tests bounds them; one address may have three quarters of it, so that another one
//! is served, too. What a test took is free when its place is dropped, however it ended.

use super::params::{Params, Way};
use crate::probe::budget::source;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are kept of a stream's intervals: of TCP with what the kernel said, of UDP.
const KEPT: (u64, u64) = (1 << 20, 128 << 10);
/// Bytes into which a stream of datagrams receives.
const SCRATCH: u64 = 2200 << 10;
/// Receive buffer of a stream of datagrams for which none is asked, at most and at least; all of a test share an eighth of the memory.
const BUFFER: (u64, u64) = (16 << 20, 64 << 10);

/// What there is, or what is taken of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) tests: usize,
    pub(super) streams: usize,
    pub(super) bytes: u64,
}

impl Amount {
    fn plus(self, more: Amount) -> Amount {
        Amount {
            tests: self.tests + more.tests,
            streams: self.streams + more.streams,
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    fn less(self, part: Amount) -> Amount {
        Amount {
            tests: self.tests.saturating_sub(part.tests),
            streams: self.streams.saturating_sub(part.streams),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }

    fn fits(self, most: Amount) -> bool {
        self.tests <= most.tests && self.streams <= most.streams && self.bytes <= most.bytes
    }
}

/// The budget.
#[derive(Debug)]
pub(super) struct Room {
    all: Amount,
    of_one: Amount,
    taken: Mutex<(Amount, HashMap<IpAddr, Amount>)>,
}

impl Room {
    /// Of so much in all, and so many tests of one address.
    pub(super) fn new(all: Amount, tests_of_one: usize) -> Self {
        let of_one = Amount {
            tests: tests_of_one.max(1),
            streams: (all.streams - all.streams / 4).max(1),
            bytes: all.bytes - all.bytes / 4,
        };
        Self { all, of_one, taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, (Amount, HashMap<IpAddr, Amount>)> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, of: IpAddr, more: Amount) -> bool {
        let mut taken = self.taken();
        let (all, own) = (taken.0.plus(more), taken.1.get(&of).copied().unwrap_or_default().plus(more));
        let fits = all.fits(self.all) && own.fits(self.of_one);
        if fits {
            taken.0 = all;
            taken.1.insert(of, own);
        }
        fits
    }

    /// A test begins, if there may be one more.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let (of, one) = (source(peer), Amount { tests: 1, ..Amount::default() });
        self.take(of, one).then(|| Place { room: self.clone(), of, took: one })
    }

    /// Receive buffer of a stream of datagrams for which none is asked, if there are so many.
    pub(super) fn buffer(&self, streams: usize) -> u64 {
        (self.all.bytes / 8 / streams.max(1) as u64).clamp(BUFFER.1, BUFFER.0)
    }

    /// What is taken now.
    pub(super) fn used(&self) -> Amount {
        self.taken().0
    }
}

/// What one test has.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) room: Arc<Room>,
    of: IpAddr,
    took: Amount,
}

impl Place {
    /// The streams of the test, with the memory that they may need; false if there is not as much left.
    pub(super) fn take(&mut self, params: &Params) -> bool {
        let streams = params.connections();
        let block = params.block.bytes();
        let window = params.window.map(|window| window.bytes());
        let each = match params.udp {
            false => KEPT.0 + block + 2 * window.unwrap_or(0),
            true => {
                let receives = params.way != Way::Reverse;
                let scratch = if receives { SCRATCH } else { 0 };
                KEPT.1 + block + scratch + window.unwrap_or_else(|| self.room.buffer(streams))
            }
        };
        let more = Amount { tests: 0, streams, bytes: each.saturating_mul(streams as u64) };
        let fits = self.room.take(self.of, more);
        if fits {
            self.took = self.took.plus(more);
        }
        fits
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.0 = taken.0.less(self.took);
        let left = taken.1.get(&self.of).copied().unwrap_or_default().less(self.took);
        if left == Amount::default() {
            taken.1.remove(&self.of);
        } else {
            taken.1.insert(self.of, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::quantity::Size;

    fn room() -> Arc<Room> {
        Arc::new(Room::new(Amount { tests: 16, streams: 512, bytes: 1 << 30 }, 12))
    }

    fn ip(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    #[test]
    fn sixteen_tests_of_256_streams_of_one_address_leave_room_for_another() {
        let room = room();
        let most = Params { streams: 128, way: Way::Both, ..Params::default() };
        let mut places = Vec::new();
        let mut began = 0;
        for _ in 0..16 {
            let Some(mut place) = room.enter(ip(1)) else { continue };
            began += u32::from(place.take(&most));
            places.push(place);
        }
        assert_eq!(
            (places.len(), began),
            (12, 1),
            "12 tests of one address; 384 streams are one test of 256"
        );
        let mut honest = room.enter(ip(2)).unwrap();
        assert!(honest.take(&Params::default()));
        assert!(room.enter(ip(3)).unwrap().take(&Params { streams: 128, ..Params::default() }));
        assert_eq!(room.used(), Amount { tests: 13, ..room.used() });
        drop((places, honest));
        assert_eq!(room.used(), Amount::default());
        assert!(room.taken().1.is_empty(), "nothing is remembered of those that left");
    }

    #[test]
    fn memory_is_bounded_by_what_blocks_and_buffers_may_take() {
        let room = room();
        let begin = |params: &Params, n| {
            let mut place = room.enter(ip(n)).unwrap();
            place.take(params).then_some(place)
        };
        let udp = |way| Params { udp: true, way, streams: 128, ..Params::default() };
        for way in [Way::Forward, Way::Reverse, Way::Both] {
            assert!(begin(&udp(way), 1).is_some(), "every stream that the protocol knows, {way:?}");
        }
        assert_eq!((room.buffer(1), room.buffer(128), room.buffer(1 << 20)), (16 << 20, 1 << 20, 64 << 10));
        let large = Params { window: Some(Size::from_bytes(1 << 30)), ..Params::default() };
        assert!(begin(&large, 1).is_none(), "one stream with the largest window");
        assert!(begin(&Params { window: Some(Size::from_bytes(64 << 20)), ..large }, 1).is_some());
        let one: Vec<Place> = (0..4).filter_map(|n| begin(&udp(Way::Forward), n)).collect();
        assert!(one.len() >= 2 && room.used().bytes <= 1 << 30, "{:?}", room.used());
    }
}
