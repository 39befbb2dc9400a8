//! Coalesces wake-ups at high rates.
//!
//! Sleeping and waking costs a thread some µs on a virtual machine (about 3, according to the figures of single packets
//! in `docs/benchmarks.md`), half the cost of receiving a whole train. A receiver that is faster than its sender would
//! pay that for every train. So at high rates it sleeps a little longer, and receives everything that arrived meanwhile
//! at once, like interrupt moderation of network cards:
//!
//! ```text
//!   arrivals   │   │   │   │   │   │   │   │          16 Gb/s: a train every 33 µs
//!   at once    ▲   ▲   ▲   ▲   ▲   ▲   ▲   ▲          wake for each
//!   gathered   ▲               ▲               ▲      wake for each 512 KiB
//! ```
//!
//! That would slow a sender that waits for its receiver, and every measurement would find the low rate that the sleep
//! itself causes. So from time to time a stretch is received without sleeps, and if it was faster, nothing gathers for
//! a while.
//!
//! Limits: gathers at most 512 KiB and an eighth of the socket's buffer, at most for
//! [`UdpOptions::gather`](super::UdpOptions::gather), and not at all below two arrivals in that time, or above about
//! 21 Gb/s.

use std::time::{Duration, Instant};

/// Maximum number of bytes that gather: more would not save much, and what they complete would not stay in the cache.
const MOST: u64 = 512 << 10;
/// Bytes per second above which nothing gathers (21 Gb/s): a thread that busy hardly sleeps.
const FAST: f64 = (256 << 10) as f64 / 100e-6;
/// Shorter sleeps consist mostly of overhead.
const SHORTEST: Duration = Duration::from_micros(100);
/// Arrivals and bytes between two measurements of the rate: several times what gathers.
const ARRIVALS: u64 = 128;
const BYTES: u64 = 4 << 20;
/// Measurements with sleeps between two without.
const STRETCH: u32 = 64;
/// A sender is held back if it is slower than this fraction of its rate without sleeps.
const HELD: f64 = 0.8;
/// Maximum number of measurements without sleeps after one that found a sender held back.
const LONGEST_REST: u32 = 1024;

/// Measures the arrival rate, and decides how long to let packets gather.
pub(super) struct Gather {
    longest: Duration,
    room: u64,
    since: Instant,
    arrivals: u64,
    bytes: u64,
    sleep: Option<Duration>,
    /// Bytes per second when nothing gathered.
    free: f64,
    /// Measurements until this stretch, with or without sleeps, ends.
    left: u32,
    /// Length of the last rest.
    rest: u32,
}

impl Gather {
    pub(super) fn new(longest: Duration, buffer: u64) -> Self {
        let room = MOST.min(buffer / 8);
        let since = Instant::now();
        Self { longest, room, since, arrivals: 0, bytes: 0, sleep: None, free: 0.0, left: 0, rest: 0 }
    }

    /// Count the arrivals of a call.
    #[inline]
    pub(super) fn took(&mut self, arrivals: usize, bytes: usize) {
        self.arrivals += arrivals as u64;
        self.bytes += bytes as u64;
        if self.arrivals >= ARRIVALS && self.bytes >= BYTES {
            self.look(self.since.elapsed());
        }
    }

    fn look(&mut self, took: Duration) {
        let seconds = took.as_secs_f64().max(1e-9);
        let rate = self.bytes.max(1) as f64 / seconds;
        let gathered = self.sleep.take().is_some();
        let stretch_ends = self.left == 0;
        self.left = self.left.saturating_sub(1);
        if gathered && rate < HELD * self.free {
            self.rest = (self.rest * 2).clamp(1, LONGEST_REST);
            self.left = self.rest;
        } else if gathered && stretch_ends {
            self.rest = 0;
        } else if gathered {
            self.sleep = self.wanted(rate, seconds);
        } else if stretch_ends {
            self.free = rate;
            self.sleep = self.wanted(rate, seconds);
            self.left = STRETCH;
        }
        self.start();
    }

    /// How long to sleep at this rate, which was measured over this many seconds.
    fn wanted(&self, rate: f64, seconds: f64) -> Option<Duration> {
        let sleep = Duration::from_secs_f64((self.room as f64 / rate).min(1.0)).min(self.longest);
        let arrivals = self.arrivals as f64 * sleep.as_secs_f64() / seconds;
        (sleep >= SHORTEST && rate <= FAST && arrivals >= 2.0).then_some(sleep)
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
        (self.sleep, self.left) = (None, 0);
        self.start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Make several measurements of trains at this many Gb/s; returns the last decision.
    fn at(gather: &mut Gather, looks: u32, gbps: f64) -> Option<Duration> {
        arrivals(gather, looks, gbps, 65_000)
    }

    fn arrivals(gather: &mut Gather, looks: u32, gbps: f64, each: u64) -> Option<Duration> {
        for _ in 0..looks {
            (gather.arrivals, gather.bytes) = (BYTES / each, BYTES);
            gather.look(Duration::from_secs_f64(BYTES as f64 * 8e-9 / gbps));
        }
        gather.sleep()
    }

    fn gather(buffer: u64) -> Gather {
        Gather::new(1000 * US, buffer)
    }

    #[test]
    fn fast_arrivals_gather_and_slow_ones_are_taken_at_once() {
        let sleep = at(&mut gather(64 << 20), 1, 16.0).unwrap();
        assert!((255 * US..265 * US).contains(&sleep), "{sleep:?}");
        assert_eq!(at(&mut gather(64 << 20), 1, 80.0), None, "never idle for long");
        assert_eq!(at(&mut gather(64 << 20), 1, 22.0), None);
        assert!(at(&mut gather(64 << 20), 1, 20.0).is_some());
        assert_eq!(arrivals(&mut gather(64 << 20), 1, 1.0, 1472), Some(1000 * US), "small single packets");
        assert_eq!(arrivals(&mut gather(64 << 20), 1, 0.02, 1472), None, "a slow stream");
        assert_eq!(at(&mut gather(212_992), 1, 16.0), None, "a small buffer must not overflow");
        assert_eq!(at(&mut Gather::new(Duration::ZERO, 64 << 20), 1, 8.0), None, "switched off");
        let mut gather = gather(64 << 20);
        assert!(at(&mut gather, 1, 8.0).is_some());
        gather.stop();
        assert_eq!(gather.sleep(), None);
    }

    #[test]
    fn a_steady_stream_gathers_most_of_the_time() {
        let mut gather = gather(64 << 20);
        let gathered = (0..1000).filter(|_| at(&mut gather, 1, 8.0).is_some()).count();
        assert!((980..1000).contains(&gathered), "{gathered}");
    }

    #[test]
    fn a_sender_that_waits_is_not_held_back() {
        let mut gather = gather(64 << 20);
        // At 8 Gb/s without sleeps, at 2 with them.
        let held = (0..5000)
            .filter(|_| {
                let rate = if gather.sleep().is_some() { 2.0 } else { 8.0 };
                at(&mut gather, 1, rate);
                rate < 8.0
            })
            .count();
        assert!((5..15).contains(&held), "{held}");
        // Once the sender no longer waits, packets gather again.
        at(&mut gather, LONGEST_REST + 1, 8.0);
        assert!((0..3).any(|_| at(&mut gather, 1, 8.0).is_some()));
    }
}
