//! Octets that may be spent: so many a second, and so many at once. Pure: it takes times as numbers.

/// What is left to spend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    per_second: u64,
    /// Octets that are saved up at most.
    most: u64,
    /// Octets × 10⁹.
    left: u128,
    /// Until when it was filled up, ns.
    last: Option<u64>,
}

const NANO: u128 = 1_000_000_000;

impl Budget {
    /// A full one.
    pub(super) fn new(per_second: u64, most: u64) -> Self {
        Self { per_second, most, left: u128::from(most) * NANO, last: None }
    }

    /// Spend, if there is enough at this time, in ns.
    pub(super) fn spend(&mut self, octets: usize, now: u64) -> bool {
        let passed = now.saturating_sub(self.last.unwrap_or(now));
        self.last = Some(now);
        let gained = u128::from(passed) * u128::from(self.per_second);
        self.left = (self.left + gained).min(u128::from(self.most) * NANO);
        let cost = octets as u128 * NANO;
        let enough = cost <= self.left;
        if enough {
            self.left -= cost;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_spent_comes_back_with_time() {
        let mut budget = Budget::new(1000, 500);
        assert!(budget.spend(500, 7) && !budget.spend(1, 7));
        assert!(!budget.spend(101, 100_000_007) && budget.spend(100, 100_000_007));
        assert!(!budget.spend(501, u64::MAX) && budget.spend(500, 3), "a clock that goes back gives nothing");
        assert!(!budget.spend(1, 2));
    }

    proptest! {
        #[test]
        fn no_more_is_spent_than_time_gives(all in proptest::collection::vec((0usize..2000, 0u64..1_000_000_000), 1..200)) {
            let (mut budget, mut now, mut spent) = (Budget::new(10_000, 3000), 0, 0);
            for (octets, passed) in all {
                now += passed;
                if budget.spend(octets, now) {
                    spent += octets as u128;
                }
                prop_assert!(spent <= 3000 + u128::from(now) * 10_000 / NANO + 1);
            }
        }
    }
}
