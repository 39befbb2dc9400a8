//! When the next packet is due, without drift: by bits at a rate ([`Pacer`]), or by gaps between packets ([`GapPacer`]).
//!
//! The ideal time of a packet is `t0 + bits_before_it / rate`, computed from the whole count each time, so
//! rounding never adds up: after a day at 16 Gb/s the last packet is still within a nanosecond of its place.
//!
//! A sender that was delayed may catch up, but not without limit. It may be at most `slack` behind its ideal; a longer
//! delay is given up and counted. [`Pacer::new`] lets it catch up at once; [`Pacer::smooth`] lets it catch up by a
//! tolerance at once, and for the rest sends at a rate 5 % higher. Where packets are farther apart than the tolerance, each
//! may be late by more, if the host wakes its sender late: [`Pacer::bursting`] lets it catch up at once by a burst of so many
//! bytes, or a slow sender would fall behind with each packet.
//!
//! ```text
//!   bytes │        ideal ╱ ╱ 1.05 × the rate, until the debt is paid
//!         │            ╱ ╱
//!         │          ╱  ╱
//!         │        ╱┌──┘
//!         │      ╱──┘held up
//!         └────────────────── time
//! ```
//!
//! The rate may change at any moment ([`Pacer::set_rate`]), or from one object to the next ([`Pacer::switch`]).

use crate::placement::Nanos;

/// Decides when bytes may be sent. It has no clock.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// Bits per second; 0 is as fast as possible.
    rate: u64,
    t0: Nanos,
    /// 2⁻³² ns to add to `t0`, so that changing the rate loses nothing.
    t0_fraction: u32,
    bits: u128,
    /// Delay after a pause that is none.
    tolerance: Nanos,
    /// Bytes that may be made up at once.
    burst: u64,
    /// Delay that is made up at once, and the maximum that is made up.
    at_once: Nanos,
    slack: Nanos,
    /// Time by which the schedule is behind the ideal and that will be made up.
    debt: Nanos,
    forgiven: Nanos,
}

/// While there is debt, 1/21 of the time of each packet is gained on the ideal: 1.05 times the rate.
const GAIN: u64 = 21;

impl Pacer {
    /// A pacer of `bits_per_second` (0: as fast as possible) that starts at `t0`.
    #[must_use]
    pub fn new(bits_per_second: u64, t0: Nanos) -> Self {
        let slack = Nanos(10_000_000);
        Self::smooth(bits_per_second, t0, slack, slack)
    }

    /// The same, but a delay beyond `tolerance` is made up slowly, and beyond `slack` not at all.
    #[must_use]
    pub fn smooth(bits_per_second: u64, t0: Nanos, tolerance: Nanos, slack: Nanos) -> Self {
        Self {
            rate: bits_per_second,
            t0,
            t0_fraction: 0,
            bits: 0,
            tolerance,
            burst: 0,
            at_once: tolerance,
            slack: slack.max(tolerance),
            debt: Nanos(0),
            forgiven: Nanos(0),
        }
    }

    /// The same, but a delay of up to so many bytes is made up at once, too, if it is not beyond the slack.
    #[must_use]
    pub fn bursting(self, bytes: u64) -> Self {
        let mut pacer = Self { burst: bytes, ..self };
        pacer.follow_rate();
        pacer
    }

    /// Bits per second; 0 is as fast as possible.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// The ideal time of the next packet.
    #[must_use]
    pub fn due(&self) -> Nanos {
        if self.rate == 0 {
            return self.t0;
        }
        let elapsed = self.bits * 1_000_000_000 / u128::from(self.rate);
        self.t0.plus(Nanos(u64::try_from(elapsed).unwrap_or(u64::MAX)))
    }

    /// Number of bytes that are due at `now`.
    #[must_use]
    pub fn allowance(&self, now: Nanos) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let ideal = u128::from(now.since(self.t0).0) * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(ideal.saturating_sub(self.bits) / 8).unwrap_or(u64::MAX)
    }

    /// `bytes` were sent at `now`.
    pub fn sent(&mut self, bytes: u64, now: Nanos) {
        let bits = u128::from(bytes) * 8;
        if self.rate == 0 {
            return;
        }
        let late = now.since(self.due());
        if late > self.at_once {
            let behind = late.since(self.at_once);
            self.t0 = self.t0.plus(behind);
            self.debt = self.debt.plus(behind);
            let given_up = self.debt.since(self.slack.since(self.at_once));
            self.debt = Nanos(self.debt.0 - given_up.0);
            self.forgiven = self.forgiven.plus(given_up);
        } else if self.debt.0 > 0 {
            let takes = bits * 1_000_000_000 / u128::from(self.rate);
            let gained = (u64::try_from(takes).unwrap_or(u64::MAX) / GAIN).min(self.debt.0).min(self.t0.0);
            self.debt = Nanos(self.debt.0 - gained);
            self.t0 = Nanos(self.t0.0 - gained);
        }
        self.bits += bits;
    }

    /// There was nothing to send until `now`: the delay is neither made up nor counted.
    pub fn rest(&mut self, now: Nanos) {
        if now.since(self.due()) > self.tolerance {
            (self.t0, self.t0_fraction, self.bits, self.debt) = (now, 0, 0, Nanos(0));
        }
    }

    /// Delays everything that follows by this time.
    pub fn delay(&mut self, by: Nanos) {
        self.t0 = self.t0.plus(by);
    }

    /// Change the rate for the bytes that follow; those already sent take their time at the old rate.
    pub fn switch(&mut self, bits_per_second: u64, now: Nanos) {
        if bits_per_second == self.rate {
            return;
        }
        if self.rate == 0 {
            self.t0 = self.t0.max(now);
        } else {
            let elapsed = self.bits * (1_000_000_000 << 32) / u128::from(self.rate);
            let elapsed = elapsed + u128::from(self.t0_fraction);
            self.t0_fraction = elapsed as u32;
            self.t0 = self.t0.plus(Nanos(u64::try_from(elapsed >> 32).unwrap_or(u64::MAX)));
        }
        self.bits = 0;
        self.rate = bits_per_second;
        self.follow_rate();
    }

    /// The time of a burst at this rate.
    fn follow_rate(&mut self) {
        let burst = (u128::from(self.burst) * 8_000_000_000).checked_div(u128::from(self.rate));
        let burst = Nanos(u64::try_from(burst.unwrap_or(0)).unwrap_or(u64::MAX));
        self.at_once = self.tolerance.max(burst.min(self.slack));
    }

    /// Changes the rate immediately: bytes sent early at the old rate are counted at the new one.
    pub fn set_rate(&mut self, bits_per_second: u64, now: Nanos) {
        if bits_per_second == self.rate {
            return;
        }
        let early = self.due().since(now);
        let bits = u128::from(early.0) * u128::from(self.rate) / 1_000_000_000;
        self.switch(bits_per_second, now);
        if bits_per_second != 0 && early.0 > 0 {
            (self.t0, self.bits) = (now, bits);
        } else if bits_per_second == 0 {
            self.t0 = now;
        }
    }

    /// Total delay that was given up.
    #[must_use]
    pub fn forgiven(&self) -> Nanos {
        self.forgiven
    }
}

/// Picoseconds in a nanosecond.
const PS: u128 = 1000;

/// Decides when packets may be sent, by their number. It has no clock.
///
/// When the next of equally spaced packets, or bursts of them, is due: exact to the picosecond.
///
/// [`Pacer`] counts bits at a rate, because its packets have any length. A measurement needs *gaps*:
/// packet n is due at `t0 + n × spacing`, whatever its size, and a gap of 123.456 ns is not a whole number of bits per
/// second. So these are two types; both compute each time from the whole count, so rounding errors never accumulate.
///
/// ```text
///   every packet alone       │▏    ▏    ▏    ▏    ▏    ▏          one per period, period = spacing
///   trains of 3              │▏▏▏            ▏▏▏            ▏▏▏    together, period = 3 × spacing: the mean gap is the same
///   bursts of 3              │▏ ▏ ▏              ▏ ▏ ▏             `within` apart, then nothing until the period ends
/// ```
///
/// A delayed sender is at most `slack` behind; a longer delay moves the schedule, and is counted. With a slack of 0, no
/// gap is ever shorter than requested, as in udpmon; with some slack, the mean rate survives short delays. A delay is
/// made up immediately, or, with [`smooth`](GapPacer::smooth), a little in each gap:
///
/// ```text
///   asked             │▏    ▏    ▏    ▏    ▏    ▏    ▏
///   held up           │▏    ▏       ▏ ▏    ▏    ▏    ▏     two gaps are wrong
///   the same, smooth  │▏    ▏       ▏   ▏   ▏    ▏   ▏     one is
/// ```
///
/// ```
/// use skyhaul_core::{pace::GapPacer, placement::Nanos};
///
/// // 1472 bytes at 100 Gb/s: one packet each 123.04 ns.
/// let mut pacer = GapPacer::even(123_040, Nanos(1000), Nanos(50_000));
/// pacer.sent(1_000_000_000, Nanos(1000));
/// assert_eq!(pacer.due(), Nanos(1000 + 123_040_000_000));
/// // The loop: wait until `due`, send what `allowance` permits at that time, tell it `sent`.
/// assert_eq!(pacer.allowance(pacer.due()), 1);
/// ```
///
/// Limits: gaps and periods of less than 213 days; with both, no time of the next 500 years overflows.
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

    #[test]
    fn a_day_at_an_awkward_rate_has_no_drift() {
        let mut pacer = Pacer::new(15_999_999_989, Nanos(5));
        let packets = 86_400u64 * 15_999_999_989 / 8 / 8032;
        pacer.bits = u128::from(packets) * 8032 * 8;
        let day = 86_400_000_000_000u64;
        assert!(pacer.due().0.abs_diff(5 + day) < 5000, "{}", pacer.due().0);
        assert_eq!(pacer.allowance(pacer.due()), 0);
    }

    #[test]
    fn a_held_up_sender_catches_up_only_the_slack() {
        let mut pacer = Pacer::new(8_000_000_000, Nanos(0));
        let late = Nanos(1_000_000_000);
        pacer.sent(1000, late);
        assert_eq!(pacer.forgiven(), Nanos(990_000_000));
        assert!(pacer.allowance(late) <= 10_000_000);
    }

    /// Send `packets` of 1000 bytes as a sender that sleeps until each is due, and a little longer.
    fn run(pacer: &mut Pacer, clock: &mut Nanos, packets: u64) {
        for n in 0..packets {
            *clock = (*clock).max(pacer.due()).plus(Nanos(n * 7919 % 500));
            pacer.sent(1000, *clock);
        }
    }

    #[test]
    fn a_hold_up_is_made_up_slowly_and_wholly() {
        // 1000 bytes take 1 µs.
        let mut pacer = Pacer::smooth(8_000_000_000, Nanos(0), Nanos(10_000), Nanos(2_000_000));
        let mut clock = Nanos(0);
        run(&mut pacer, &mut clock, 1000);
        clock = Nanos(2_000_000);
        pacer.sent(1000, clock);
        assert_eq!(pacer.forgiven(), Nanos(0));
        // Behind by a millisecond: the tolerance is made up immediately; then 1.05 packets are sent in the time of one.
        let start = clock;
        run(&mut pacer, &mut clock, 5000);
        let took = clock.since(start).0;
        assert!((4_700_000..4_800_000).contains(&took), "{took}");
        run(&mut pacer, &mut clock, 20_000);
        assert!(clock.0.abs_diff(26_001_000) < 2000, "{clock:?}: as if nothing had been");
        clock = clock.plus(Nanos(50_000_000));
        pacer.sent(1000, clock);
        assert!(pacer.forgiven().0.abs_diff(48_000_000) < 2000, "{:?}", pacer.forgiven());
    }

    /// A few hundred packets a second, on a host that wakes the sender 5 ms late each time.
    #[test]
    fn a_slow_sender_that_is_always_woken_late_does_not_drift() {
        const PACKETS: u64 = 3000;
        const LATE: u64 = 5_000_000;
        for bytes in [1000u64, 8032] {
            let rate = bytes * 8 * 300;
            let mut pacer =
                Pacer::smooth(rate, Nanos(0), Nanos(1_000_000), Nanos(100_000_000)).bursting(65_536);
            let mut clock = Nanos(0);
            for _ in 0..PACKETS {
                if clock < pacer.due() {
                    clock = pacer.due().plus(Nanos(LATE));
                }
                pacer.sent(bytes, clock);
            }
            let ideal = PACKETS * 1_000_000_000 / 300;
            assert!(pacer.due().0.abs_diff(ideal) < 1000, "{bytes}: {:?}", pacer.due());
            assert!(clock.0 <= ideal + LATE, "{bytes}: {clock:?}");
            assert_eq!(pacer.forgiven(), Nanos(0), "{bytes}");
        }
    }

    #[test]
    fn no_more_than_a_burst_is_made_up_at_once() {
        // 1000 bytes take 1 ms, and a burst of 20 of them 20 ms.
        let of = |slack: u64| {
            let mut pacer =
                Pacer::smooth(8_000_000, Nanos(0), Nanos(1_000_000), Nanos(slack)).bursting(20_000);
            pacer.sent(1000, Nanos(500_000_000));
            (pacer.allowance(Nanos(500_000_000)) / 1000, pacer.forgiven().0 / 1_000_000)
        };
        assert_eq!(of(100_000_000), (19, 400), "the rest of the slack slowly, and what is beyond never");
        assert_eq!(of(5_000_000), (4, 495), "not beyond the slack");
        let mut pacer = Pacer::smooth(0, Nanos(0), Nanos(1_000_000), Nanos(100_000_000)).bursting(20_000);
        for (rate, at_once) in [(8_000_000, 20), (80_000_000, 2), (800_000_000, 1), (8, 100), (0, 1)] {
            pacer.switch(rate, Nanos(0));
            assert_eq!(pacer.at_once, Nanos(at_once * 1_000_000), "{rate}");
        }
    }

    #[test]
    fn rates_change_between_objects_without_drift() {
        let mut pacer = Pacer::new(3_000_000_007, Nanos(0));
        for n in 0..300_000u64 {
            let rate = [3_000_000_007, 999_999_937, 7_777_777_777][n as usize % 3];
            pacer.switch(rate, pacer.due());
            pacer.sent(1001, pacer.due());
        }
        let ideal = 1e5 * 8008.0 * (1.0 / 3.000_000_007 + 1.0 / 0.999_999_937 + 1.0 / 7.777_777_777);
        assert!((pacer.due().0 as f64 - ideal).abs() < 3.0, "{} {ideal}", pacer.due().0);
    }

    #[test]
    fn a_pause_is_no_debt() {
        let mut pacer = Pacer::smooth(8_000_000_000, Nanos(0), Nanos(1000), Nanos(1_000_000));
        pacer.sent(1000, Nanos(0));
        pacer.rest(Nanos(1500));
        assert_eq!(pacer.due(), Nanos(1000), "no pause worth the name");
        pacer.rest(Nanos(5_000_000));
        pacer.sent(1000, Nanos(5_000_000));
        assert_eq!((pacer.due(), pacer.forgiven()), (Nanos(5_001_000), Nanos(0)));
    }

    #[test]
    fn a_delay_moves_what_follows_and_is_no_debt() {
        let mut pacer = Pacer::smooth(8_000_000_000, Nanos(0), Nanos(1000), Nanos(1_000_000));
        pacer.sent(1000, Nanos(0));
        pacer.delay(Nanos(60_000_000_000));
        assert_eq!(pacer.due(), Nanos(60_000_001_000));
        pacer.sent(1000, pacer.due());
        assert_eq!((pacer.due(), pacer.forgiven()), (Nanos(60_000_002_000), Nanos(0)));
    }

    #[test]
    fn a_new_rate_holds_at_once() {
        let mut pacer = Pacer::new(8_000, Nanos(0));
        pacer.sent(10_000, Nanos(0));
        assert_eq!(pacer.due(), Nanos(10_000_000_000));
        // After half of the time, the other half of the bytes is sent at the new rate.
        pacer.set_rate(8_000_000, Nanos(5_000_000_000));
        assert_eq!(pacer.due(), Nanos(5_005_000_000));
        pacer.set_rate(0, Nanos(5_001_000_000));
        assert_eq!(pacer.due(), Nanos(5_001_000_000));
        pacer.sent(1 << 40, Nanos(6_000_000_000));
        pacer.set_rate(8_000, Nanos(6_500_000_000));
        assert_eq!(
            (pacer.due(), pacer.rate()),
            (Nanos(6_500_000_000), 8_000),
            "what was not paced is no debt"
        );
    }

    proptest! {
        #[test]
        fn what_is_allowed_is_never_early(rate in 1u64..400_000_000_000, t in 0u64..10_000_000_000, n in 1u64..65_536) {
            let mut pacer = Pacer::new(rate, Nanos(0));
            let allowed = pacer.allowance(Nanos(t));
            pacer.bits += u128::from(allowed) * 8;
            prop_assert!(pacer.due() <= Nanos(t));
            pacer.bits += u128::from(n) * 8 + 8;
            prop_assert!(pacer.due() >= Nanos(t) || pacer.allowance(Nanos(t)) == 0);
        }
    }

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
