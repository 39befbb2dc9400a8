//! When the next packet is due, without drift.
//!
//! The ideal time of a packet is `t0 + bits_before_it / rate`, computed from the whole count each time, so
//! rounding never adds up: after a day at 16 Gb/s the last packet is still within a nanosecond of its place.
//!
//! A sender that was held up may catch up, but not in one burst: it may be at most `slack` behind its ideal;
//! what it is later than that is given up and counted.

use crate::placement::Nanos;

/// Says when bytes may go. Holds no clock.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// Bits per second; 0 is as fast as possible.
    rate: u64,
    t0: Nanos,
    bits: u128,
    slack: Nanos,
    forgiven: Nanos,
}

impl Pacer {
    /// A pacer of `bits_per_second` (0: as fast as possible) that starts at `t0`.
    #[must_use]
    pub fn new(bits_per_second: u64, t0: Nanos) -> Self {
        Self { rate: bits_per_second, t0, bits: 0, slack: Nanos(10_000_000), forgiven: Nanos(0) }
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

    /// How many bytes may go at `now` to be no more than on time.
    #[must_use]
    pub fn allowance(&self, now: Nanos) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let ideal = u128::from(now.since(self.t0).0) * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(ideal.saturating_sub(self.bits) / 8).unwrap_or(u64::MAX)
    }

    /// `bytes` went at `now`.
    pub fn sent(&mut self, bytes: u64, now: Nanos) {
        let late = now.since(self.due());
        if self.rate != 0 && late > self.slack {
            let given_up = Nanos(late.0 - self.slack.0);
            self.t0 = self.t0.plus(given_up);
            self.forgiven = self.forgiven.plus(given_up);
        }
        self.bits += u128::from(bytes) * 8;
    }

    /// Time by which the schedule was moved because the sender was held up.
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
