//! Measures how fast batches enter a ring, and decides whether to let some gather, independent of the ring's locks.

use std::time::{Duration, Instant};

/// Decides from the rate of batches whether to let some gather.
///
/// ```text
///   batches        │ │ │ │ │ │ │ │ │ │ │      one every 13 µs: heaps of 64 KiB at 40 Gb/s
///   woken at once  ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲
///   patient        ▲             ▲            after 200 µs, or when an eighth of the queue is full
/// ```
///
/// A single quick reply is not enough, and after an unsuccessful wait gathering stops for a while: a sender that waits
/// for a reply to its heap would otherwise be delayed for ever.
#[derive(Debug)]
pub(super) struct Pace {
    /// Batches since the last wait began, and the time of that.
    pub(super) batches: u32,
    pub(super) since: Option<Instant>,
    /// Nanoseconds between two batches, averaged over some.
    pub(super) gap: u64,
}

/// Maximum sleep of a patient call.
pub(super) const GATHER: Duration = Duration::from_micros(200);
/// Gathering pays below this many nanoseconds between batches.
const FAST: u64 = 50_000;
/// Longer gaps count as this, so that about twenty quick ones make a stream fast.
pub(super) const SLOW: u64 = 1_000_000;

impl Pace {
    pub(super) const fn new() -> Self {
        Self { batches: 0, since: None, gap: SLOW }
    }

    /// A call is about to wait: returns whether to let batches gather.
    pub(super) fn is_fast(&mut self, now: Instant) -> bool {
        let took = self.since.replace(now).map_or(SLOW, |since| now.duration_since(since).as_nanos() as u64);
        let gap = (took / u64::from(self.batches.max(1))).min(SLOW);
        self.batches = 0;
        self.gap = (self.gap * 7 + gap) / 8;
        self.gap < FAST
    }

    /// A patient call slept for the whole time: check whether that was useful.
    pub(super) fn gathered(&mut self) {
        if self.batches < 2 {
            self.gap = SLOW;
        }
    }
}
