//! Calendars: the owner of each slot.
//!
//! A calendar has [`SLOTS`] slots. Consecutive ticks use consecutive slots, so the slots of each member are spread
//! evenly. A new calendar changes the owner of as few slots as possible.

use super::member::Seat;

/// Number of slots of a calendar.
pub const SLOTS: usize = 512;
/// Marks an unassigned slot, as in ESnet's calendars.
const UNASSIGNED: u16 = u16::MAX;

/// The owner of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar(Box<[u16; SLOTS]>);

impl Default for Calendar {
    /// All slots are unassigned.
    fn default() -> Calendar {
        Calendar(Box::new([UNASSIGNED; SLOTS]))
    }
}

impl Calendar {
    /// The owner of `slot`; only its low bits are used.
    #[inline]
    #[must_use]
    pub fn member(&self, slot: u16) -> Option<Seat> {
        let owner = self.0[usize::from(slot) & (SLOTS - 1)];
        (owner != UNASSIGNED).then_some(Seat(owner))
    }

    /// Assigns `slot`, of which only the low bits count, to a member or to nobody.
    pub fn set(&mut self, slot: u16, member: Option<Seat>) {
        self.0[usize::from(slot) & (SLOTS - 1)] = member.map_or(UNASSIGNED, |seat| seat.0);
    }

    /// Unassigns all slots of `member`.
    pub fn release(&mut self, member: Seat) {
        self.0.iter_mut().filter(|owner| **owner == member.0).for_each(|owner| *owner = UNASSIGNED);
    }

    /// The slots of `member` as ranges: first slot and length.
    pub fn ranges(&self, member: Seat) -> impl Iterator<Item = (u16, u16)> {
        let mut from = 0;
        self.0.chunk_by(move |a, b| (*a == member.0) == (*b == member.0)).filter_map(move |run| {
            let first = from;
            from += run.len() as u16;
            (run[0] == member.0).then_some((first, run.len() as u16))
        })
    }

    /// The owner of each slot: the number of a seat, or 65535 for nobody.
    pub(super) fn owners(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Number of slots of `member`.
    #[must_use]
    pub fn count(&self, member: Seat) -> u16 {
        self.0.iter().filter(|&&owner| owner == member.0).count() as u16
    }

    /// Whether `member` has any slot.
    #[must_use]
    pub fn names(&self, member: Seat) -> bool {
        self.0.contains(&member.0)
    }

    /// Number of slots whose owner differs.
    #[must_use]
    pub fn differences(&self, other: &Calendar) -> usize {
        self.0.iter().zip(&*other.0).filter(|(mine, theirs)| mine != theirs).count()
    }

    /// Returns a calendar in which each member has its number of slots, and other members have none. Slots in
    /// `demanded` go to the member that demands them and count towards its number. The `numbers` must add up to at most
    /// [`SLOTS`]. As few slots as possible change owner: a member whose number does not shrink keeps all of its slots
    /// that others do not demand.
    #[must_use]
    pub fn with(&self, numbers: &[(Seat, u16)], demanded: &Calendar) -> Calendar {
        let mut next = demanded.clone();
        let mut members: Vec<Wanting> = numbers
            .iter()
            .map(|&(seat, number)| {
                let is_had = |&slot: &usize| self.0[slot] == seat.0 && demanded.0[slot] == UNASSIGNED;
                let had: Vec<usize> = (0..SLOTS).filter(is_had).collect();
                let wants = usize::from(number).saturating_sub(usize::from(demanded.count(seat)));
                let gains = wants >= had.len();
                if gains {
                    had.iter().for_each(|&slot| next.0[slot] = seat.0);
                }
                let (wants, may_keep) = if gains { (wants - had.len(), 0) } else { (wants, had.len()) };
                Wanting { seat, number: number.into(), gains, wants, may_keep, due: 0 }
            })
            .collect();
        for slot in 0..SLOTS {
            members.iter_mut().for_each(|member| member.due += member.number);
            let owner = next.0[slot];
            let chosen = if owner == UNASSIGNED {
                let chosen = most_overdue(&mut members, self.0[slot]);
                if let Some(member) = &chosen {
                    next.0[slot] = member.seat.0;
                }
                chosen
            } else {
                members.iter_mut().find(|member| member.seat.0 == owner)
            };
            if let Some(chosen) = chosen {
                chosen.due -= SLOTS as i64;
            }
        }
        next
    }
}

/// A member while slots are assigned.
struct Wanting {
    seat: Seat,
    number: i64,
    /// Whether it keeps all slots that it had and can take any other. Otherwise it can only keep slots that it had.
    gains: bool,
    /// Number of slots still to be assigned to it.
    wants: usize,
    /// If it does not gain: slots that it had and that have not been visited yet.
    may_keep: usize,
    /// How far it is behind an even spread, in units of 1/512 of a slot.
    due: i64,
}

/// Chooses the member for a slot of `holder`: the most overdue of the gaining members and the holder; of equals, the
/// one that wants most slots. If the holder needs all slots that it can still keep, it is chosen.
fn most_overdue(members: &mut [Wanting], holder: u16) -> Option<&mut Wanting> {
    let holder = members.iter().position(|member| member.seat.0 == holder && !member.gains);
    let must = holder.filter(|&at| members[at].wants == members[at].may_keep);
    if let Some(at) = holder {
        members[at].may_keep -= 1;
    }
    let may = |&at: &usize| members[at].wants > 0 && (members[at].gains || Some(at) == holder);
    let first = |&at: &usize| (members[at].due, members[at].wants);
    let at = must.or_else(|| (0..members.len()).filter(may).max_by_key(first))?;
    members[at].wants -= 1;
    Some(&mut members[at])
}

/// A claim on slots.
///
/// Divides slots by weight: exactly, by the method of largest remainders (Hamilton), within bounds.
///
/// ```text
///   quota = weight · slots / all weights       3.7      5.2      0.1
///   whole part                                 3        5        0
///   left: 1, to the largest remainder          4        5        0    bounds are met first
/// ```
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

    fn seats(numbers: &[u16]) -> Vec<(Seat, u16)> {
        (0u16..).zip(numbers).map(|(n, &number)| (Seat(n * 3), number)).collect()
    }

    /// The longest distance from one slot of a member to its next, relative to an even spread.
    fn gap(calendar: &Calendar, seat: Seat) -> f64 {
        let has: Vec<usize> = (0..SLOTS).filter(|&slot| calendar.0[slot] == seat.0).collect();
        let ways = has.iter().zip(has.iter().cycle().skip(1)).map(|(a, b)| (b + SLOTS - a - 1) % SLOTS + 1);
        ways.max().unwrap_or(0) as f64 * has.len() as f64 / SLOTS as f64
    }

    #[test]
    fn slots_are_spread_evenly() {
        let calendar = Calendar::default().with(&seats(&[128, 128, 128, 128]), &Calendar::default());
        for (seat, _) in seats(&[0; 4]) {
            assert!(gap(&calendar, seat) <= 1.0, "{}", gap(&calendar, seat));
        }
        assert_eq!(Calendar::default().with(&[], &Calendar::default()), Calendar::default());
        let one = Calendar::default().with(&[(Seat(7), 512)], &Calendar::default());
        assert_eq!(
            (one.count(Seat(7)), one.member(511), one.member(512)),
            (512, Some(Seat(7)), Some(Seat(7)))
        );
    }

    #[test]
    fn slots_in_a_row_are_a_range() {
        let mut calendar = Calendar::default();
        [0, 1, 2, 9, 511].into_iter().for_each(|slot| calendar.set(slot, Some(Seat(3))));
        calendar.set(3, Some(Seat(4)));
        assert_eq!(calendar.ranges(Seat(3)).collect::<Vec<_>>(), [(0, 3), (9, 1), (511, 1)]);
        calendar.release(Seat(3));
        assert_eq!((calendar.ranges(Seat(3)).count(), calendar.count(Seat(4))), (0, 1));
    }

    proptest! {
        #[test]
        fn what_is_demanded_is_had_and_numbers_hold(runs in proptest::collection::vec((0u16..6, 0u16..512, 0u16..120), 0..8), series in proptest::collection::vec(proptest::collection::vec(0u32..1000, 6), 1..8)) {
            let mut demanded = Calendar::default();
            for (n, first, length) in runs {
                (first..(first + length).min(512)).for_each(|slot| demanded.set(slot, Some(Seat(n * 3))));
            }
            let mut calendar = Calendar::default();
            for weights in series {
                let claims: Vec<_> = (0u16..).zip(weights).map(|(n, weight)| crate::balance::Claim { weight, least: demanded.count(Seat(n * 3)), most: 512 }).collect();
                let numbers = seats(&crate::balance::apportion(&claims, 512));
                calendar = calendar.with(&numbers, &demanded);
                for slot in 0..512 {
                    prop_assert!(demanded.member(slot).is_none() || calendar.member(slot) == demanded.member(slot));
                }
                for &(seat, number) in &numbers {
                    prop_assert_eq!(calendar.count(seat), number);
                }
            }
        }

        #[test]
        fn as_few_slots_as_possible_change_and_they_stay_spread(series in proptest::collection::vec(proptest::collection::vec(0u16..1000, 8), 1..30)) {
            let mut calendar = Calendar::default();
            let mut worst: f64 = 0.0;
            for weights in series {
                let claims: Vec<_> = weights.iter().map(|&w| crate::balance::Claim { weight: w.into(), least: 0, most: 512 }).collect();
                let numbers = seats(&crate::balance::apportion(&claims, 512));
                let next = calendar.with(&numbers, &Calendar::default());
                let gains: usize = numbers.iter().map(|&(seat, n)| usize::from(n.saturating_sub(calendar.count(seat)))).sum();
                prop_assert_eq!(calendar.differences(&next), gains);
                for &(seat, number) in &numbers {
                    prop_assert_eq!(next.count(seat), number);
                    if number > 8 { worst = worst.max(gap(&next, seat)); }
                }
                calendar = next;
            }
            // Not proven. In 20 000 series, the worst gap was below 3.2 in half, below 4.5 in 99.9 %, and below 5.1 in
            // all.
            prop_assert!(worst < 6.0, "{}", worst);
        }
    }

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
