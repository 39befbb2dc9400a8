//! Payloads of consecutive packets of one heap, and why they were not placed.

use super::placing::PlacedAt;
use skyhaul_core::placement::Reject;

/// Payloads of one length, at one distance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series<'a> {
    /// From the first payload to the end of the last, with the heads between.
    pub(crate) bytes: &'a [u8],
    /// Distance from one payload to the next.
    pub(crate) stride: usize,
    /// Bytes of each payload.
    pub(crate) payload: usize,
    pub(crate) count: usize,
}

/// Payloads of consecutive packets of one heap, each beginning where the previous one ends. The table looks the heap
/// up once for all of them.
///
/// ```text
///   packets of a train    │ head, items │ payload │ head │ payload │ head │ payload │ head, padding │ payload │
///   series                └──── first ───────────┘└────── more[0]: count 2 ───────┘└───── more[1] ──────────┘
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    first: Series<'a>,
    /// Packets with other heads. The heap keeps nothing from those.
    more: &'a [Series<'a>],
    /// Of all series.
    pub(crate) count: usize,
    length: u64,
    /// A program has placed them, and their bytes are not here.
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

impl<'a> Series<'a> {
    /// Nothing.
    pub(crate) const NONE: Self = Series { bytes: &[], stride: 1, payload: 0, count: 0 };

    /// `bytes` begin with `count` packets of `stride` bytes; the first has its payload at `start`.
    ///
    /// # Panics
    /// If `bytes` is shorter than that.
    #[inline]
    pub(crate) fn of(start: usize, bytes: &'a [u8], stride: usize, count: usize) -> Self {
        Series { bytes: &bytes[start..stride * count], stride, payload: stride - start, count }
    }

    /// Bytes of all payloads.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.payload as u64 * self.count as u64
    }

    #[inline]
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Series { bytes, stride, payload, count } = *self;
        (0..count).map(move |n| &bytes[n * stride..][..payload])
    }
}

impl<'a> Run<'a> {
    /// One payload.
    #[inline]
    pub(crate) fn one(bytes: &'a [u8]) -> Self {
        Run::of(Series { bytes, stride: bytes.len(), payload: bytes.len(), count: 1 })
    }

    #[inline]
    pub(crate) fn of(first: Series<'a>) -> Self {
        Run { first, more: &[], count: first.count, length: first.length(), placed: None }
    }

    /// The same with what follows.
    #[inline]
    pub(crate) fn joined(self, more: &'a [Series<'a>]) -> Self {
        let (mut count, mut length) = (self.count, self.length);
        for series in more {
            (count, length) = (count + series.count, length + series.length());
        }
        Run { more, count, length, ..self }
    }

    /// `count` packets with so much payload each, which a program has placed.
    #[inline]
    pub(crate) fn placed(payload: usize, count: usize, at: PlacedAt) -> Self {
        Run { placed: Some(at), ..Run::of(Series { bytes: &[], stride: payload, payload, count }) }
    }

    /// What it consists of, in order. The packets of the first have the head of the run.
    #[inline]
    fn series(&self) -> impl Iterator<Item = &Series<'a>> {
        std::iter::once(&self.first).chain(self.more)
    }

    /// Gives each series to `place`, with the bytes of the payloads before it, until one is refused.
    #[inline(always)]
    pub(crate) fn place<E>(&self, mut place: impl FnMut(u64, &Series<'a>) -> Result<(), E>) -> Result<(), E> {
        place(0, &self.first)?;
        let mut before = self.first.length();
        for series in self.more {
            place(before, series)?;
            before += series.length();
        }
        Ok(())
    }

    /// Packets with the head of the run.
    #[inline]
    pub(crate) fn first(&self) -> &Series<'a> {
        &self.first
    }

    /// Bytes of all payloads.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of the first `packets` payloads.
    #[cold]
    pub(crate) fn bytes_of(&self, packets: usize) -> u64 {
        let (mut left, mut bytes) = (packets, 0);
        for series in self.series() {
            let count = left.min(series.count);
            (left, bytes) = (left - count, bytes + series.payload as u64 * count as u64);
        }
        bytes
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
        self.series().flat_map(Series::payloads)
    }
}
