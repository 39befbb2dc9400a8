//! Payloads of consecutive packets of one heap, and why they were not placed.

use super::placing::PlacedAt;
use skyhaul_core::placement::Reject;

/// Payloads of consecutive packets of one heap, each of which begins where the one before ends. The table looks the heap
/// up once for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// From the first payload to the end of the last, with the heads between.
    pub(crate) bytes: &'a [u8],
    /// Distance from one payload to the next.
    pub(crate) stride: usize,
    /// Bytes of each payload.
    pub(crate) payload: usize,
    pub(crate) count: usize,
    /// A program has placed them, and `bytes` is empty.
    pub(crate) placed: Option<PlacedAt>,
}

/// Why a run was not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRejected {
    pub(crate) why: Reject,
    /// Number of leading packets for which the reason is known to hold. They are rejected; the others have to be tried one
    /// by one.
    pub(crate) packets: usize,
}

impl RunRejected {
    /// Whether only memory is missing.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.why == Reject::NoBuffer && self.packets > 0
    }
}

impl<'a> Run<'a> {
    /// One payload.
    #[inline]
    pub(crate) fn one(bytes: &'a [u8]) -> Self {
        Run { bytes, stride: bytes.len(), payload: bytes.len(), count: 1, placed: None }
    }

    /// `bytes` are `count` packets of `stride` bytes; the first has its payload at `start`.
    ///
    /// # Panics
    /// If `bytes` is shorter than that.
    #[inline]
    pub(crate) fn of(start: usize, bytes: &'a [u8], stride: usize, count: usize) -> Self {
        Run { bytes: &bytes[start..stride * count], stride, payload: stride - start, count, placed: None }
    }

    /// `count` packets with so much payload each, which a program has placed.
    #[inline]
    pub(crate) fn placed(payload: usize, count: usize, at: PlacedAt) -> Self {
        Run { bytes: &[], stride: payload, payload, count, placed: Some(at) }
    }

    /// Bytes of all payloads.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.bytes_of(self.count)
    }

    #[inline]
    pub(crate) fn bytes_of(&self, packets: usize) -> u64 {
        self.payload as u64 * packets as u64
    }

    /// The run is rejected for a reason found for all of it.
    pub(crate) fn rejected(&self, why: Reject) -> RunRejected {
        let packets = match why {
            Reject::Duplicate | Reject::Late | Reject::BeforeStart | Reject::AfterStop => self.count,
            // Some of its packets may have a place, or another reason to be rejected.
            _ if self.count > 1 => 0,
            _ => 1,
        };
        RunRejected { why, packets }
    }

    /// The table has no place for it. `no_memory` is the store's reason if it gave no memory.
    pub(crate) fn without_place(&self, why: Reject, no_memory: Reject, is_sized: bool) -> RunRejected {
        match (why, no_memory) {
            // Each of its packets needs the same memory.
            (Reject::NoBuffer, Reject::NoBuffer) if is_sized => RunRejected { why, packets: self.count },
            // A heap that grows may have memory for some of them.
            (Reject::NoBuffer, why @ (Reject::NoBuffer | Reject::Late)) => self.rejected(why),
            // The store was asked for the first packet. The answer may be another for the next.
            (Reject::NoBuffer, why) => RunRejected { why, packets: 1 },
            _ => self.rejected(why),
        }
    }

    #[inline]
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &'a [u8]> {
        let Run { bytes, stride, payload, count, .. } = *self;
        (0..count).map(move |n| &bytes[n * stride..][..payload])
    }
}
