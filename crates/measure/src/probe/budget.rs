//! Octets, or answers, that may be spent: so many a second, and so many at once. Pure: it takes times as numbers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};

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

/// Whoever may choose among these addresses: one of IPv4, a /64 of IPv6.
pub(super) fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Budgets of all sources together.
const SHARES: usize = 4096;

/// A budget for each source of datagrams: an IPv4 address, or a /64 of IPv6. Sources fall onto [`SHARES`] budgets by a secret
/// hash, so strangers take no memory, push nobody out, and cannot aim at the budget of another source. Each source has two halves
/// in different places: whoever has one of them in common with a flood keeps the other.
#[derive(Debug)]
pub(super) struct Shares {
    all: Vec<Budget>,
    keys: RandomState,
}

impl Shares {
    /// Full ones.
    pub(super) fn new(per_second: u64, most: u64) -> Self {
        let half = Budget::new(per_second.div_ceil(2), most.div_ceil(2));
        Self { all: vec![half; SHARES], keys: RandomState::new() }
    }

    /// Spend from the budget of this source, if there is enough at this time, in ns.
    pub(super) fn spend(&mut self, from: IpAddr, cost: usize, now: u64) -> bool {
        let hash = self.keys.hash_one(source(from)) as usize;
        let (one, other) = (hash % SHARES, hash / SHARES % (SHARES - 1));
        // Never the same place twice.
        let other = if other >= one { other + 1 } else { other };
        self.all[one].spend(cost, now) || self.all[other].spend(cost, now)
    }
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

    #[test]
    fn each_source_has_its_share_whatever_others_spend() {
        let mut shares = Shares::new(10, 100);
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        let spent = (0..=1_000_000).filter(|n| shares.spend(ip(7), 1, n * 1000)).count();
        assert!((109..=110).contains(&spent), "100 at once, and 10 in a second: {spent}");
        // Another source has both halves in common with it once in 8 million; all three never.
        let others: Vec<bool> = (100..103).map(|n| shares.spend(ip(n), 1, 1_000_000_000)).collect();
        assert!(others.contains(&true), "{others:?}");
        let of_net = |host: u128| IpAddr::from(((0x2001_0db8u128 << 96) | host).to_be_bytes());
        let spent = (0..1000).filter(|host| shares.spend(of_net(*host), 1, 0)).count();
        assert!(spent <= 100, "one network of IPv6 is one source: {spent}");
        assert_eq!(shares.all.len(), SHARES);
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
