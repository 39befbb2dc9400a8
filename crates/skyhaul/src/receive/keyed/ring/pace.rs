//! How fast batches come into a ring, and so whether to let some gather: a rule of times alone, without the ring's locks.

use std::time::{Duration, Instant};

/// How fast batches come, and so whether to let some gather.
///
/// ```text
///   batches        │ │ │ │ │ │ │ │ │ │ │      one every 13 µs: heaps of 64 KiB at 40 Gb/s
///   woken at once  ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲
///   patient        ▲             ▲            after 200 µs, or when an eighth of the queue is full
/// ```
///
/// A single quick answer makes nobody patient, and who waited in vain is not patient again for a while: a sender that
/// waits for what its heap brings about would look slow, and be let gather for ever.
#[derive(Debug)]
pub(super) struct Pace {
    /// Batches since somebody last began to wait, and when that was.
    pub(super) batches: u32,
    pub(super) since: Option<Instant>,
    /// Nanoseconds between two batches, averaged over some.
    pub(super) gap: u64,
}

/// Longest that somebody patient sleeps.
pub(super) const GATHER: Duration = Duration::from_micros(200);
/// Below this many nanoseconds between batches it pays.
const FAST: u64 = 50_000;
/// Longer gaps count as this: some twenty quick ones make a stream fast.
pub(super) const SLOW: u64 = 1_000_000;

impl Pace {
    pub(super) const fn new() -> Self {
        Self { batches: 0, since: None, gap: SLOW }
    }

    /// Somebody is about to wait: may some gather first?
    pub(super) fn is_fast(&mut self, now: Instant) -> bool {
        let took = self.since.replace(now).map_or(SLOW, |since| now.duration_since(since).as_nanos() as u64);
        let gap = (took / u64::from(self.batches.max(1))).min(SLOW);
        self.batches = 0;
        self.gap = (self.gap * 7 + gap) / 8;
        self.gap < FAST
    }

    /// Somebody was patient for the whole time; was that in vain?
    pub(super) fn gathered(&mut self) {
        if self.batches < 2 {
            self.gap = SLOW;
        }
    }
}
