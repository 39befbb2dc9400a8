//! When the next of equally spaced packets, or bursts of them, is due: exact to the picosecond.
//!
//! [`Pacer`](super::Pacer) counts bits at a rate, because its packets have any length. A measurement needs *gaps*:
//! packet n is due at `t0 + n × spacing`, whatever its size, and a gap of 123.456 ns is not a whole number of bits per
//! second. So these are two types; both compute each time from the whole count, so rounding errors never accumulate.
//!
//! ```text
//!   every packet alone       │▏    ▏    ▏    ▏    ▏    ▏          one per period, period = spacing
//!   trains of 3              │▏▏▏            ▏▏▏            ▏▏▏    together, period = 3 × spacing: the mean gap is the same
//!   bursts of 3              │▏ ▏ ▏              ▏ ▏ ▏             `within` apart, then nothing until the period ends
//! ```
//!
//! A delayed sender is at most `slack` behind; a longer delay moves the schedule, and is counted. With a slack of 0, no
//! gap is ever shorter than requested, as in udpmon; with some slack, the mean rate survives short delays. A delay is
//! made up immediately, or, with [`smooth`](GapPacer::smooth), a little in each gap:
//!
//! ```text
//!   asked             │▏    ▏    ▏    ▏    ▏    ▏    ▏
//!   held up           │▏    ▏       ▏ ▏    ▏    ▏    ▏     two gaps are wrong
//!   the same, smooth  │▏    ▏       ▏   ▏   ▏    ▏   ▏     one is
//! ```
//!
//! ```
//! use skyhaul_core::{pace::GapPacer, placement::Nanos};
//!
//! // 1472 bytes at 100 Gb/s: one packet each 123.04 ns.
//! let mut pacer = GapPacer::even(123_040, Nanos(1000), Nanos(50_000));
//! pacer.sent(1_000_000_000, Nanos(1000));
//! assert_eq!(pacer.due(), Nanos(1000 + 123_040_000_000));
//! // The loop: wait until `due`, send what `allowance` permits at that time, tell it `sent`.
//! assert_eq!(pacer.allowance(pacer.due()), 1);
//! ```
//!
//! Limits: gaps and periods of less than 213 days; with both, no time of the next 500 years overflows.

use crate::placement::Nanos;

/// Picoseconds in a nanosecond.
const PS: u128 = 1000;

/// Decides when packets may be sent, by their number. It has no clock.
#[derive(Clone, Copy, Debug)]
pub struct GapPacer {
    /// Time of packet 0, ps.
    start: u128,
    /// From the first packet of a burst to the first of the next, ps.
    period: u64,
    /// Packets of a burst.
    burst: u32,
    /// Between the packets of a burst, ps.
    within: u64,
    sent: u64,
    slack: u128,
    forgiven: u128,
    /// Shortest gap while a delay is made up, ps.
    shortest: u64,
    /// Earliest time at which the gap is long enough, ps.
    soonest: u128,
}

impl GapPacer {
    /// One packet each `spacing` picoseconds (0: as fast as possible), the first at `t0`.
    #[must_use]
    pub fn even(spacing: u64, t0: Nanos, slack: Nanos) -> GapPacer {
        GapPacer::bursts(1, 0, spacing, t0, slack)
    }

    /// Trains of `packets` that are given to the kernel together; the mean gap is `spacing` picoseconds.
    #[must_use]
    pub fn trains(packets: u32, spacing: u64, t0: Nanos, slack: Nanos) -> GapPacer {
        GapPacer::bursts(packets, 0, spacing.saturating_mul(u64::from(packets.max(1))), t0, slack)
    }

    /// Bursts of `packets` that are `within` picoseconds apart; a burst begins each `period` picoseconds, or when the one before
    /// has ended.
    #[must_use]
    pub fn bursts(packets: u32, within: u64, period: u64, t0: Nanos, slack: Nanos) -> GapPacer {
        let burst = packets.max(1);
        let period = period.max(within.saturating_mul(u64::from(burst)));
        let (start, slack) = (u128::from(t0.0) * PS, u128::from(slack.0) * PS);
        GapPacer { start, period, burst, within, sent: 0, slack, forgiven: 0, shortest: 0, soonest: 0 }
    }

    /// Makes up delays in gaps of at least 7/8 of the requested ones: a delay makes one gap too long, but none after it
    /// much too short. For evenly spaced packets or trains; bursts keep their requested shape.
    #[must_use]
    pub fn smooth(self) -> GapPacer {
        GapPacer { shortest: if self.within == 0 { self.period / 8 * 7 } else { 0 }, ..self }
    }

    /// The mean gap, ps.
    #[must_use]
    pub fn spacing(&self) -> f64 {
        self.period as f64 / f64::from(self.burst)
    }

    /// Packets of a burst or train.
    #[must_use]
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// Packets sent.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sent
    }

    /// Ideal time of the next packet, ps.
    fn due_ps(&self) -> u128 {
        let (bursts, place) = (self.sent / u64::from(self.burst), self.sent % u64::from(self.burst));
        let elapsed =
            u128::from(bursts) * u128::from(self.period) + u128::from(place) * u128::from(self.within);
        self.start + elapsed
    }

    /// The time of the next packet: the first whole nanosecond at which it is not early.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Nanos {
        Nanos(u64::try_from(self.due_ps().max(self.soonest).div_ceil(PS)).unwrap_or(u64::MAX))
    }

    /// Number of packets that are due at `now`.
    #[must_use]
    pub fn allowance(&self, now: Nanos) -> u64 {
        let Some(elapsed) = (u128::from(now.0) * PS).checked_sub(self.start) else { return 0 };
        if self.period == 0 {
            return u64::MAX;
        }
        if u128::from(now.0) * PS < self.soonest {
            return 0;
        }
        let (bursts, into) = (elapsed / u128::from(self.period), elapsed % u128::from(self.period));
        let burst = u128::from(self.burst);
        let place = if self.within == 0 { burst } else { burst.min(into / u128::from(self.within) + 1) };
        u64::try_from((bursts * burst + place).saturating_sub(u128::from(self.sent))).unwrap_or(u64::MAX)
    }

    /// `packets` were sent at `now`.
    #[inline]
    pub fn sent(&mut self, packets: u64, now: Nanos) {
        let late = (u128::from(now.0) * PS).saturating_sub(self.due_ps());
        if late > self.slack {
            // A fraction of a nanosecond comes from the clock's resolution, not from a delay.
            let given_up = late - self.slack;
            self.start += given_up;
            self.forgiven += given_up;
        }
        self.sent = self.sent.saturating_add(packets);
        if self.shortest > 0 && self.sent.is_multiple_of(u64::from(self.burst)) {
            self.soonest = u128::from(now.0) * PS + u128::from(self.shortest);
        }
    }

    /// Total delay that was given up, by which the run is longer than requested.
    #[must_use]
    pub fn forgiven(&self) -> Nanos {
        Nanos(u64::try_from(self.forgiven / PS).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLACK: Nanos = Nanos(50_000);

    #[test]
    fn thirty_days_at_an_awkward_gap_have_no_drift() {
        let mut pacer = GapPacer::even(723_457, Nanos(5), SLACK);
        let packets = 30 * 86_400 * 1_000_000_000_000 / 723_457u64;
        // In steps, each sent when it is due.
        for _ in 0..1000 {
            pacer.sent(packets / 1000, pacer.due());
        }
        let ideal = u128::from(packets / 1000 * 1000) * 723_457;
        assert_eq!(u128::from(pacer.due().0), (ideal + 5000).div_ceil(1000));
        assert_eq!(pacer.forgiven(), Nanos(0));
    }

    #[test]
    fn trains_and_bursts_keep_their_shape() {
        let times = |mut pacer: GapPacer| {
            (0..7)
                .map(|_| {
                    let due = pacer.due();
                    pacer.sent(1, due);
                    due.0
                })
                .collect::<Vec<_>>()
        };
        let zero = Nanos(0);
        assert_eq!(times(GapPacer::even(1500, zero, SLACK)), [0, 2, 3, 5, 6, 8, 9], "never early");
        assert_eq!(times(GapPacer::trains(3, 10_000, zero, SLACK)), [0, 0, 0, 30, 30, 30, 60]);
        assert_eq!(times(GapPacer::bursts(3, 2000, 100_000, zero, SLACK)), [0, 2, 4, 100, 102, 104, 200]);
        assert_eq!(times(GapPacer::bursts(2, 5000, 0, zero, SLACK)), [0, 5, 10, 15, 20, 25, 30]);
        assert_eq!(times(GapPacer::even(0, Nanos(9), SLACK)), [9; 7]);
        assert_eq!(GapPacer::trains(3, 10_000, zero, SLACK).spacing(), 10_000.0);
    }

    #[test]
    fn what_was_held_up_is_made_up_or_counted() {
        let mut pacer = GapPacer::even(10_000, Nanos(0), Nanos(1000));
        pacer.sent(1, Nanos(0));
        pacer.sent(1, Nanos(900));
        assert_eq!((pacer.due(), pacer.forgiven(), pacer.allowance(Nanos(900))), (Nanos(20), Nanos(0), 89));
        pacer.sent(1, Nanos(51_020));
        assert_eq!((pacer.forgiven(), pacer.due()), (Nanos(50_000), Nanos(50_030)), "at most 1 µs behind");
        let mut strict = GapPacer::even(10_000, Nanos(0), Nanos(0));
        strict.sent(1, Nanos(0));
        strict.sent(1, Nanos(77));
        assert_eq!((strict.due(), strict.forgiven()), (Nanos(87), Nanos(67)), "no gap is shorter than asked");
    }

    #[test]
    fn a_hold_up_makes_one_gap_wrong_where_it_is_made_up_smoothly() {
        // Each thousandth packet is 7 µs late; gaps of 10 µs.
        let wrong = |mut pacer: GapPacer| {
            let (mut last, mut wrong, mut end) = (0u64, 0, 0);
            for number in 0..100_000u64 {
                let now = pacer.due().0 + if number % 1000 == 999 { 7000 } else { 0 };
                wrong += u64::from(number > 0 && (now - last).abs_diff(10_000) > 2000);
                pacer.sent(1, Nanos(now));
                (last, end) = (now, pacer.due().0);
            }
            (wrong, end)
        };
        let slack = Nanos(2_000_000);
        let plain = GapPacer::even(10_000_000, Nanos(0), slack);
        assert_eq!(wrong(plain), (199, 1_000_000_000), "the last has no gap behind it");
        let (smooth, end) = wrong(plain.smooth());
        assert_eq!(smooth, 100);
        // The last hold-up is not made up yet.
        assert_eq!(end, 1_000_000_000 - 10_000 + 7000 + 8750);
        let mut train = GapPacer::trains(4, 10_000_000, Nanos(0), slack).smooth();
        train.sent(4, Nanos(50_000));
        assert_eq!((train.due(), train.allowance(Nanos(84_999))), (Nanos(85_000), 0));
        assert!(train.allowance(train.due()) >= 4);
    }

    proptest! {
        #[test]
        fn what_is_allowed_is_what_is_due(
            burst in 1u32..70, within in 0u64..5000, period in 1u64..10_000_000, sent in 0u64..1 << 40, ahead in 0u64..100_000,
        ) {
            let mut pacer = GapPacer::bursts(burst, within, period, Nanos(1 << 40), SLACK);
            pacer.sent = sent;
            let now = Nanos(pacer.due().0 + ahead);
            let allowed = pacer.allowance(now);
            prop_assert!(allowed >= 1);
            if pacer.due().0 > 0 {
                prop_assert_eq!(pacer.allowance(Nanos(pacer.due().0 - 1)), 0, "not before");
            }
            pacer.sent += allowed - 1;
            prop_assert!(pacer.due() <= now);
            pacer.sent += 1;
            prop_assert!(pacer.due() > now);
        }
    }
}
