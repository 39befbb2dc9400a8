//! How a sender counts: after how many heaps its steps repeat, and by how much it has counted then.

use std::cmp::Reverse;

/// Positions behind the newest heap whose heap may still arrive.
pub(super) const WINDOW: u64 = 64;
/// Heaps remembered to learn a pattern.
pub(super) const REMEMBER: usize = 64;
/// Maximum length of a pattern in heaps.
const LONGEST: usize = 8;

/// Sorted and deduplicated.
pub(super) fn ascending(values: &mut [i64]) -> &[i64] {
    values.sort_unstable();
    let mut kept = 0;
    for at in 0..values.len() {
        if kept == 0 || values[kept - 1] != values[at] {
            values[kept] = values[at];
            kept += 1;
        }
    }
    &values[..kept]
}

/// A pattern of counters: the same `places`, ascending, in each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) period: i64,
    pub(super) places: [i64; LONGEST],
    pub(super) count: usize,
}

impl Pattern {
    /// The pattern that most of these ascending counters follow, and whether they are evenly spaced.
    pub(super) fn of(sorted: &[i64]) -> Option<(Self, bool)> {
        let mut best: Option<(Self, Fit)> = None;
        for n in (1..=LONGEST).take_while(|n| n * 3 <= sorted.len()) {
            let mut apart = [0; REMEMBER];
            let apart = &mut apart[..sorted.len() - n];
            for (at, apart) in apart.iter_mut().enumerate() {
                *apart = sorted[at + n].saturating_sub(sorted[at]);
            }
            let (_, Reverse(period)) = runs(apart).max()?;
            let pattern = Self::at(period, n, sorted);
            let fit = pattern.fit(sorted);
            // A longer pattern must explain more than half of the mismatches, which chance does not.
            if best.is_none_or(|(_, best)| fit.wrong() * 2 + 2 < best.wrong()) {
                best = Some((pattern, fit));
            }
        }
        let (pattern, fit) = best?;
        (fit.wrong() * 5 <= (sorted.len() as u64 + fit.missing) * 2)
            .then_some((pattern, fit.wrong() == 0 && pattern.count == 1))
    }

    /// The pattern with the `n` most frequent places.
    pub(super) fn at(period: i64, n: usize, sorted: &[i64]) -> Self {
        let mut places = [0; REMEMBER];
        let places = &mut places[..sorted.len()];
        for (place, counter) in places.iter_mut().zip(sorted) {
            *place = counter.rem_euclid(period);
        }
        let (mut commonest, mut count) = ([(0, Reverse(0)); REMEMBER], 0);
        for (to, run) in commonest.iter_mut().zip(runs(places)) {
            (*to, count) = (run, count + 1);
        }
        let commonest = &mut commonest[..count];
        commonest.sort_unstable_by(|a, b| b.cmp(a));
        let mut pattern = Self { period, places: [0; LONGEST], count: count.min(n) };
        for (place, &(_, Reverse(at))) in pattern.places.iter_mut().zip(commonest.iter()).take(n) {
            *place = at;
        }
        pattern.places[..pattern.count].sort_unstable();
        pattern
    }

    pub(super) fn fit(&self, sorted: &[i64]) -> Fit {
        let mut fit = Fit { missing: 0, strangers: 0 };
        let mut before: Option<i64> = None;
        for &counter in sorted {
            let Some(number) = self.number(counter) else {
                fit.strangers += 1;
                continue;
            };
            let between = before.map_or(0, |before| number.saturating_sub(before).unsigned_abs() - 1);
            // A jump counts as one mismatch.
            fit.missing += if between < WINDOW { between } else { 1 };
            before = Some(number);
        }
        fit
    }

    /// The position in the sequence of a counter, given as its distance from the first.
    #[inline]
    pub(super) fn number(&self, counter: i64) -> Option<i64> {
        if self.count == 1 {
            let from = counter.wrapping_sub(self.places[0]);
            return (from % self.period == 0).then(|| from / self.period);
        }
        let place = counter.rem_euclid(self.period);
        let at = self.places[..self.count].iter().position(|&known| known == place)?;
        counter.div_euclid(self.period).checked_mul(self.count as i64)?.checked_add(at as i64)
    }
}

/// Mismatches of a pattern.
#[derive(Clone, Copy)]
pub(super) struct Fit {
    pub(super) missing: u64,
    pub(super) strangers: u64,
}

impl Fit {
    pub(super) fn wrong(self) -> u64 {
        self.missing + self.strangers
    }
}

/// The number of occurrences of each value, and the value.
fn runs(values: &mut [i64]) -> impl Iterator<Item = (usize, Reverse<i64>)> {
    values.sort_unstable();
    values.chunk_by(|a, b| a == b).map(|run| (run.len(), Reverse(run[0])))
}
