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
}
