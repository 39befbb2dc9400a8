//! Coalesces wake-ups at high rates.
//!
//! To sleep and wake costs a thread some µs on a virtual machine (about 3, by the figures of single packets in
//! `docs/benchmarks.md`), half the cost of receiving a whole train. A receiver that is faster than its sender would pay
//! that for every train. So at high rates it sleeps a little longer, and receives everything that arrived meanwhile at
//! once, like interrupt moderation of network cards:
//!
//! ```text
//!   arrivals   │   │   │   │   │   │   │   │          16 Gb/s: a train every 33 µs
//!   at once    ▲   ▲   ▲   ▲   ▲   ▲   ▲   ▲          wake for each
//!   gathered   ▲               ▲               ▲      wake for each MiB
//! ```
//!
//! Limits: gathers at most 1 MiB and an eighth of the socket's buffer, at most for
//! [`UdpOptions::gather`](super::UdpOptions::gather), and not at all below two arrivals in that time, or above about
//! 21 Gb/s.

use std::time::{Duration, Instant};

/// Maximum number of bytes that gather: more would not save much, and the memory of what they complete would not stay in
/// the cache.
const MOST: u64 = 1 << 20;
/// Bytes per second above which nothing gathers (21 Gb/s): a thread that busy hardly sleeps. A sender that waits for its
/// receiver would be delayed, look slower than it is, and be delayed for ever.
const FAST: f64 = (256 << 10) as f64 / 100e-6;
/// Shorter sleeps consist mostly of overhead.
const SHORTEST: Duration = Duration::from_micros(100);
/// Arrivals between two measurements of the rate.
const LOOK: u64 = 128;

/// Measures the arrival rate, and decides how long to let packets gather.
pub(super) struct Gather {
    longest: Duration,
    room: u64,
    since: Instant,
    arrivals: u64,
    bytes: u64,
    sleep: Option<Duration>,
}

impl Gather {
    pub(super) fn new(longest: Duration, buffer: u64) -> Self {
        let room = MOST.min(buffer / 8);
        Self { longest, room, since: Instant::now(), arrivals: 0, bytes: 0, sleep: None }
    }

    /// Count the arrivals of a call.
    #[inline]
    pub(super) fn took(&mut self, arrivals: usize, bytes: usize) {
        self.arrivals += arrivals as u64;
        self.bytes += bytes as u64;
        if self.arrivals >= LOOK {
            self.look(self.since.elapsed());
        }
    }

    fn look(&mut self, took: Duration) {
        let seconds = took.as_secs_f64().max(1e-9);
        let rate = self.bytes.max(1) as f64 / seconds;
        let sleep = Duration::from_secs_f64((self.room as f64 / rate).min(1.0)).min(self.longest);
        let gathered = self.arrivals as f64 * sleep.as_secs_f64() / seconds;
        self.sleep = (sleep >= SHORTEST && rate <= FAST && gathered >= 2.0).then_some(sleep);
        self.start();
    }

    fn start(&mut self) {
        (self.since, self.arrivals, self.bytes) = (Instant::now(), 0, 0);
    }

    /// How long to sleep before the next call, when the socket is empty.
    #[inline]
    pub(super) fn sleep(&self) -> Option<Duration> {
        self.sleep
    }

    /// Nothing arrived meanwhile: the fast sender has stopped.
    pub(super) fn stop(&mut self) {
        self.sleep = None;
        self.start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn after(gather: &mut Gather, arrivals: u64, bytes: u64, took: Duration) -> Option<Duration> {
        (gather.arrivals, gather.bytes) = (arrivals, bytes);
        gather.look(took);
        gather.sleep()
    }

    #[test]
    fn fast_arrivals_gather_and_slow_ones_are_taken_at_once() {
        let mut gather = Gather::new(1000 * US, 64 << 20);
        // 16 Gb/s in trains: 524 µs to gather 1 MiB.
        let sleep = after(&mut gather, 128, 128 * 65_000, 128 * 32 * US + 512 * US / 10).unwrap();
        assert!((510 * US..530 * US).contains(&sleep), "{sleep:?}");
        assert_eq!(after(&mut gather, 128, 128 * 65_000, 128 * 6 * US), None, "80 Gb/s: never idle for long");
        assert_eq!(after(&mut gather, 128, 128 * 65_000, 128 * 24 * US), None, "22 Gb/s");
        assert!(after(&mut gather, 128, 128 * 65_000, 128 * 26 * US).is_some(), "20 Gb/s");
        assert_eq!(after(&mut gather, 128, 128 * 1472, 128 * 15 * US), Some(1000 * US), "small single packets");
        assert_eq!(after(&mut gather, 128, 128 * 1472, 128 * 600 * US), None, "a slow stream");
        after(&mut gather, 128, 128 * 1472, 128 * 15 * US);
        gather.stop();
        assert_eq!(gather.sleep(), None);
        let mut small = Gather::new(1000 * US, 212_992);
        assert_eq!(
            after(&mut small, 128, 128 * 65_000, 128 * 33 * US),
            None,
            "a small buffer must not overflow"
        );
        assert_eq!(after(&mut Gather::new(Duration::ZERO, 64 << 20), 128, 128, US), None, "switched off");
    }
}
