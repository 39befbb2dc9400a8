//! Divides slots by weight: exactly, by the method of largest remainders (Hamilton), within bounds.
//!
//! ```text
//!   quota = weight · slots / all weights       3.7      5.2      0.1
//!   whole part                                 3        5        0
//!   left: 1, to the largest remainder          4        5        0    bounds are met first
//! ```

/// A claim on slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Weight relative to the other claims.
    pub weight: u32,
    /// Minimum number of slots.
    pub least: u16,
    /// Maximum number of slots.
    pub most: u16,
}

/// Divides all `slots` among `claims` in proportion to their weights and within their bounds. Of equal remainders, the
/// earlier claim wins. If the minima add up to more than `slots`, the slots are divided in proportion to the minima; if
/// the maxima add up to less, they are ignored. Weights that are all 0 count as equal.
#[must_use]
pub fn apportion(claims: &[Claim], slots: u16) -> Vec<u16> {
    if claims.is_empty() {
        return Vec::new();
    }
    let all = u32::from(slots);
    let least: u32 = claims.iter().map(|claim| u32::from(claim.least)).sum();
    if least > all {
        let minima: Vec<u64> = claims.iter().map(|claim| claim.least.into()).collect();
        return by_remainder(&minima, slots);
    }
    let most: u32 = claims.iter().map(|claim| u32::from(claim.most.max(claim.least))).sum();
    let most = |claim: &Claim| if most < all { slots } else { claim.most.max(claim.least) };
    let equal = claims.iter().all(|claim| claim.weight == 0);
    let weight = |claim: &Claim| if equal { 1 } else { u64::from(claim.weight) };
    let mut given: Vec<Option<u16>> = vec![None; claims.len()];
    loop {
        let free: Vec<usize> = (0..claims.len()).filter(|&n| given[n].is_none()).collect();
        let left = slots - given.iter().flatten().sum::<u16>();
        let weights: Vec<u64> = free.iter().map(|&n| weight(&claims[n])).collect();
        let sum: u64 = weights.iter().sum();
        // How far the quotas exceed the bounds on either side, times the sum of weights.
        let (mut under, mut over) = (0u128, 0u128);
        let mut outside = Vec::new();
        for (&n, &weight) in free.iter().zip(&weights) {
            let quota = u128::from(weight) * u128::from(left);
            let bound = |slots: u16| u128::from(slots) * u128::from(sum);
            let (low, high) = (bound(claims[n].least), bound(most(&claims[n])));
            if quota < low {
                under += low - quota;
                outside.push((n, claims[n].least, true));
            } else if quota > high {
                over += quota - high;
                outside.push((n, most(&claims[n]), false));
            }
        }
        if outside.is_empty() || sum == 0 {
            let shares = by_remainder(&weights, left);
            free.iter().zip(shares).for_each(|(&n, share)| given[n] = Some(share));
            break;
        }
        // The side that exceeds its bounds by more still does so in the end.
        for (n, bound, is_under) in outside {
            if is_under == (under >= over) {
                given[n] = Some(bound);
            }
        }
    }
    given.into_iter().map(Option::unwrap_or_default).collect()
}

/// Divides by largest remainders, without bounds.
fn by_remainder(weights: &[u64], slots: u16) -> Vec<u16> {
    let sum: u64 = weights.iter().sum();
    let (sum, equal) = if sum == 0 { (weights.len() as u64, true) } else { (sum, false) };
    let quotas = weights.iter().map(|&weight| if equal { 1 } else { weight } * u64::from(slots));
    let (mut shares, mut remainders) = (Vec::new(), Vec::new());
    for (n, quota) in quotas.enumerate() {
        shares.push((quota / sum) as u16);
        remainders.push((quota % sum, n));
    }
    let left = slots - shares.iter().sum::<u16>();
    remainders.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    remainders.iter().take(left.into()).for_each(|&(_, n)| shares[n] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claims(weights: &[u32]) -> Vec<Claim> {
        weights.iter().map(|&weight| Claim { weight, least: 0, most: 512 }).collect()
    }

    #[test]
    fn remainders_decide() {
        assert_eq!(apportion(&claims(&[37, 52, 1]), 9), [4, 5, 0]);
        assert_eq!(apportion(&claims(&[1, 1, 1]), 512), [171, 171, 170]);
        assert_eq!(apportion(&claims(&[0, 0]), 512), [256, 256]);
        assert_eq!(apportion(&[], 512), [0u16; 0]);
    }

    #[test]
    fn bounds_come_first() {
        let claim = |weight, least, most| Claim { weight, least, most };
        assert_eq!(apportion(&[claim(1, 100, 512), claim(99, 0, 512)], 512), [100, 412]);
        assert_eq!(apportion(&[claim(99, 0, 100), claim(1, 0, 512)], 512), [100, 412]);
        assert_eq!(apportion(&[claim(1, 0, 100), claim(1, 0, 100)], 512), [256, 256], "nothing is left over");
        assert_eq!(apportion(&[claim(1, 400, 512), claim(9, 200, 512)], 512), [341, 171], "minima, divided");
        assert_eq!(apportion(&[claim(0, 5, 512), claim(0, 0, 1), claim(7, 0, 512)], 512), [5, 0, 507]);
    }

    proptest! {
        #[test]
        fn nearest_to_the_quota(weights in proptest::collection::vec(0u32..=u32::MAX, 1..40), slots in 0u16..=512) {
            let shares = apportion(&claims(&weights), slots);
            prop_assert_eq!(shares.iter().sum::<u16>(), slots);
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            if sum > 0 {
                for (&weight, &share) in weights.iter().zip(&shares) {
                    let (quota, share) = (u128::from(weight) * u128::from(slots), u128::from(share) * sum);
                    prop_assert!(quota.abs_diff(share) < sum, "less than a slot from the quota");
                }
            }
        }

        #[test]
        fn within_bounds_where_there_is_a_way(claims in proptest::collection::vec((any::<u16>(), 0u16..200, 0u16..600), 1..20)) {
            let claims: Vec<Claim> = claims.into_iter().map(|(weight, least, more)| Claim { weight: weight.into(), least, most: least + more }).collect();
            let shares = apportion(&claims, 512);
            prop_assert_eq!(shares.iter().sum::<u16>(), 512);
            let (least, most) = claims.iter().fold((0u32, 0u32), |(l, m), c| (l + u32::from(c.least), m + u32::from(c.most)));
            if (least..=most).contains(&512) {
                for (claim, share) in claims.iter().zip(&shares) {
                    prop_assert!((claim.least..=claim.most).contains(share), "{:?} {}", claim, share);
                }
                // Of two claims within their bounds, the one with more weight has at least as many slots.
                for (a, x) in claims.iter().zip(&shares) {
                    for (b, y) in claims.iter().zip(&shares) {
                        let free = |claim: &Claim, share: u16| claim.least < share && share < claim.most;
                        prop_assert!(!(a.weight > b.weight && free(a, *x) && free(b, *y) && x < y));
                    }
                }
            }
        }
    }
}
