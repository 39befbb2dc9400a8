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

mod gap;

pub use gap::GapPacer;

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
}
