//! What a reader gives the table: payloads that lie side by side, and who sent them.

use skyhaul_core::placement::{Key, Reject};
use skyhaul_core::wire::keyed::{Keyed, own_source};
use std::net::SocketAddr;

/// A sender as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) address: SocketAddr,
    /// Part of a heap's key: 0 where heaps are known by their counter alone.
    pub(crate) number: u64,
    /// Which reader has it.
    pub(crate) reader: usize,
}

impl Sender {
    /// Who counts objects with such a key, in the books of what is missing.
    pub(crate) fn counts<W: Keyed>(&self, key: Key) -> (usize, SocketAddr, u16) {
        if W::COUNTED_BY_SENDER {
            (self.reader, self.address, own_source(key))
        } else {
            (0, SocketAddr::from(([0; 4], 0)), own_source(key))
        }
    }
}

/// Payloads of packets of one heap that go on one where the other ends ([`Sequel`](skyhaul_core::wire::spead::Sequel)).
/// They are looked up and noted once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// The first payload, and behind it what lies up to the end of the last.
    pub(crate) bytes: &'a [u8],
    /// From one payload to the next.
    pub(crate) stride: usize,
    /// Bytes of each payload.
    pub(crate) each: usize,
    pub(crate) count: usize,
}

/// Why a run was not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) why: Reject,
    /// Of so many of its packets, from the first on, this is known to be true: those are refused, and counted by the store
    /// where it counts such. The others are to be placed by themselves.
    pub(crate) packets: usize,
}

impl Refused {
    /// Whether all that is missing is memory.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.why == Reject::NoBuffer && self.packets > 0
    }
}

impl<'a> Run<'a> {
    /// One payload.
    pub(crate) fn one(bytes: &'a [u8]) -> Self {
        Run { bytes, stride: bytes.len(), each: bytes.len(), count: 1 }
    }

    /// `bytes` are `count` packets of `stride` bytes, of which the first has its payload at `start`.
    ///
    /// # Panics
    /// If they are not all there.
    pub(crate) fn of(start: usize, bytes: &'a [u8], stride: usize, count: usize) -> Self {
        Run { bytes: &bytes[start..stride * count], stride, each: stride - start, count }
    }

    /// Bytes of all payloads.
    pub(crate) fn length(&self) -> u64 {
        self.bytes_of(self.count)
    }

    /// Bytes of so many payloads.
    pub(crate) fn bytes_of(&self, packets: usize) -> u64 {
        self.each as u64 * packets as u64
    }

    /// A reason that was found for the run as a whole.
    pub(crate) fn refused(&self, why: Reject) -> Refused {
        let packets = match why {
            Reject::Duplicate | Reject::Late | Reject::BeforeStart | Reject::AfterStop => self.count,
            // Some of them may have a place, or another reason to have none.
            _ if self.count > 1 => 0,
            _ => 1,
        };
        Refused { why, packets }
    }

    /// Why the table has no place for it; `room`: why there was no room, if there was none.
    pub(crate) fn without_place(&self, why: Reject, room: Reject, is_sized: bool) -> Refused {
        if why == Reject::NoBuffer { self.without_room(room, is_sized) } else { self.refused(why) }
    }

    /// A reason that was found when room for its heap was asked for.
    fn without_room(&self, why: Reject, is_sized: bool) -> Refused {
        match why {
            // Each of them needs the same.
            Reject::NoBuffer if is_sized => Refused { why, packets: self.count },
            // A heap that grows may have room for some.
            Reject::NoBuffer | Reject::Late => self.refused(why),
            // That was the first packet's question. The others ask for themselves: the answer may change.
            _ => Refused { why, packets: 1 },
        }
    }

    #[inline]
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &'a [u8]> {
        let Run { bytes, stride, each, count } = *self;
        (0..count).map(move |n| &bytes[n * stride..][..each])
    }
}
