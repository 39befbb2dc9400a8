//! A histogram over all of `u64`, exact to three significant digits, that takes memory only where it counted.
//!
//! Buckets are logarithmic: 1024 to each power of two, as in an HDR histogram. They lie in rows of 128, and a row exists
//! only if a value fell into it:
//!
//! ```text
//!   value   0 ─────────── 2047 │ 2048 ──── 4095 │ 4096 ──── 8191 │ …      below 2048: one bucket for each value
//!   width         1            │       2        │       4        │ …      above: at most 1/1024 of the value
//!   rows    0 ··· 7 │ 8 ··· 15 │   16 ··· 23    │   24 ··· 31    │ …      1 KiB each
//! ```
//!
//! An empty histogram holds no memory, one of latencies between 10 µs and 1 ms at most 60 KiB, any histogram at most 444 KiB.
//! Limits: the first value of a row allocates it, at most 440 times in the life of a histogram; where even that is too
//! much on the data path, [`Histogram::prepare`] allocates a range before.

use std::ops::Range;

/// Buckets of each power of two, as a power of two.
const SUB_BITS: usize = 10;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (65 - SUB_BITS) * SUB;
/// Buckets of a row.
const ROW: usize = 128;

type Row = Option<Box<[u64; ROW]>>;

/// Counts values in logarithmic buckets: values below 2048 exactly, others to within 1/1024.
#[derive(Clone)]
pub struct Histogram {
    rows: Vec<Row>,
    total: u64,
    sum: u128,
    max: u64,
    min: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { rows: Vec::new(), total: 0, sum: 0, max: 0, min: u64::MAX }
    }
}

impl PartialEq for Histogram {
    /// Rows without a count make no difference.
    fn eq(&self, other: &Histogram) -> bool {
        let numbers = |h: &Histogram| (h.total, h.sum, h.max, h.min);
        numbers(self) == numbers(other) && self.filled().eq(other.filled())
    }
}

impl Eq for Histogram {}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let power = value.ilog2() as usize; // at least SUB_BITS
    (power - SUB_BITS + 1) * SUB + ((value >> (power - SUB_BITS)) as usize & (SUB - 1))
}

/// The smallest value of a bucket.
fn floor(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    ((SUB + bucket % SUB) as u64) << (bucket / SUB - 1)
}

/// The smallest value of the next bucket; of the last, [`u64::MAX`].
fn ceiling(bucket: usize) -> u64 {
    if bucket + 1 < BUCKETS { floor(bucket + 1) } else { u64::MAX }
}

/// The range of values around `value` that is an eighth of its power of two; below 8, the value alone.
fn eighth(value: u64) -> Range<u64> {
    if value < 8 {
        return value..value + 1;
    }
    let width = 1 << (value.ilog2() - 3);
    let start = value & !(width - 1);
    start..start.saturating_add(width)
}

impl Histogram {
    /// Count one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Count a value `n` times. Counts saturate at [`u64::MAX`]: they may be read from a damaged file.
    #[inline]
    pub fn record_many(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let bucket = bucket(value);
        let count = match self.rows.get_mut(bucket / ROW) {
            Some(Some(row)) => &mut row[bucket % ROW],
            _ => &mut self.new_row(bucket / ROW)[bucket % ROW],
        };
        *count = count.saturating_add(n);
        self.total = self.total.saturating_add(n);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(n));
        self.max = self.max.max(value);
        self.min = self.min.min(value);
    }

    #[cold]
    fn new_row(&mut self, at: usize) -> &mut [u64; ROW] {
        if self.rows.len() <= at {
            self.rows.resize(at + 1, None);
        }
        self.rows[at].get_or_insert_with(|| Box::new([0; ROW]))
    }

    /// Allocates the buckets for values in this range, so that counting them allocates nothing.
    pub fn prepare(&mut self, values: Range<u64>) {
        if !values.is_empty() {
            let (first, last) = (bucket(values.start) / ROW, bucket(values.end - 1) / ROW);
            (first..=last).for_each(|row| {
                self.new_row(row);
            });
        }
    }

    /// Add all of `other`'s values.
    pub fn merge(&mut self, other: &Histogram) {
        for (at, theirs) in other.rows.iter().enumerate() {
            let Some(theirs) = theirs else { continue };
            for (mine, theirs) in self.new_row(at).iter_mut().zip(theirs.iter()) {
                *mine = mine.saturating_add(*theirs);
            }
        }
        self.total = self.total.saturating_add(other.total);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
    }

    /// Restores a histogram from the values of [`iter`](Self::iter), [`min`](Self::min), [`max`](Self::max) and
    /// [`sum`](Self::sum). Inconsistent values from a damaged file are corrected: the smallest and the largest value
    /// lie in their buckets.
    #[must_use]
    pub fn restore(
        buckets: impl IntoIterator<Item = (u64, u64)>,
        min: u64,
        max: u64,
        sum: u128,
    ) -> Histogram {
        let mut all = Histogram::default();
        buckets.into_iter().for_each(|(value, n)| all.record_many(value, n));
        if all.total > 0 {
            let last = |b: usize| if b + 1 < BUCKETS { ceiling(b) - 1 } else { u64::MAX };
            let (low, high) = (bucket(all.min), bucket(all.max));
            all.min = min.clamp(floor(low), last(low));
            all.max = max.clamp(floor(high).max(all.min), last(high));
            let n = u128::from(all.total);
            all.sum = sum.clamp(u128::from(all.min) * n, u128::from(all.max).saturating_mul(n));
        }
        all
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The sum of all values.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The largest value, 0 if there is none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The smallest value, 0 if there is none.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min }
    }

    /// The arithmetic mean, 0 if there is no value.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// The standard deviation of the values at the resolution of the buckets, 0 if there is no value.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let (n, mean) = (self.total.max(1) as f64, self.mean());
        let middle = |b: usize| floor(b) as f64 + (ceiling(b) - floor(b) - 1) as f64 / 2.0;
        let squares = self.filled().map(|(b, count)| (middle(b) - mean).powi(2) * count as f64);
        (squares.sum::<f64>() / n).sqrt()
    }

    /// The value below or at which a fraction `q` (0 to 1) of all values lie, to within a bucket.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let want = ((self.total as f64 * q).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0u64;
        for (b, n) in self.filled() {
            seen = seen.saturating_add(n);
            if seen >= want {
                return if b + 1 < BUCKETS { (ceiling(b) - 1).min(self.max) } else { self.max };
            }
        }
        0
    }

    /// Numbers and counts of the buckets that counted.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let rows = self.rows.iter().enumerate().filter_map(|(at, row)| Some((at, row.as_ref()?)));
        rows.flat_map(|(at, row)| row.iter().enumerate().map(move |(n, &count)| (at * ROW + n, count)))
            .filter(|&(_, count)| count > 0)
    }

    /// The non-empty buckets: (range of values, count). The last bucket includes [`u64::MAX`].
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.filled().map(|(b, n)| (floor(b)..ceiling(b), n))
    }

    /// The non-empty buckets: (smallest value, count).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.filled().map(|(b, n)| (floor(b), n))
    }

    /// The same counts in buckets of an eighth of a power of two, at most 496: for a drawing, and for a report that is
    /// written often.
    pub fn eighths(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let mut fine = self.iter().peekable();
        std::iter::from_fn(move || {
            let (value, mut count) = fine.next()?;
            let range = eighth(value);
            // The last range has no representable end.
            let inside = |v: u64| v < range.end || range.end == u64::MAX;
            while let Some((_, n)) = fine.next_if(|&(v, _)| inside(v)) {
                count = count.saturating_add(n);
            }
            Some((range, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_whole_range_has_a_bucket() {
        let mut h = Histogram::default();
        for v in [0, 1, 7, 8, 9, 1 << 40, u64::MAX] {
            h.record(v);
        }
        assert_eq!((h.count(), h.min(), h.max()), (7, 0, u64::MAX));
        assert_eq!(h.quantile(1.0), u64::MAX);
        assert_eq!(Histogram::default().quantile(0.5), 0);
        assert_eq!(h.eighths().last(), Some((0xF << 60..u64::MAX, 1)));
    }

    #[test]
    fn memory_is_taken_where_values_are() {
        let rows = |h: &Histogram| h.rows.iter().flatten().count();
        let mut h = Histogram::default();
        assert_eq!((rows(&h), h.rows.capacity()), (0, 0));
        (10_000..1_000_000).step_by(7).for_each(|v| h.record(v));
        assert!(rows(&h) <= 60, "{}", rows(&h));
        let mut ready = Histogram::default();
        ready.prepare(10_000..1_000_000);
        let before = rows(&ready);
        (10_000..1_000_000).step_by(7).for_each(|v| ready.record(v));
        assert_eq!((rows(&ready), &ready), (before, &h), "nothing was added, and it is equal");
        ready.prepare(0..u64::MAX);
        assert_eq!((rows(&ready), &ready), (BUCKETS / ROW, &h));
        ready.prepare(9..9);
    }

    #[test]
    fn counts_of_a_damaged_file_do_not_overflow() {
        let mut h = Histogram::default();
        for v in [5, 5, 900, u64::MAX] {
            h.record_many(v, u64::MAX);
        }
        let other = h.clone();
        h.merge(&other);
        h.record(7);
        assert_eq!((h.count(), h.min(), h.max()), (u64::MAX, 5, u64::MAX));
        assert_eq!(h.quantile(0.5), 5);
        assert!(h.mean() > 0.0 && h.deviation() >= 0.0);
        let odd = Histogram::restore([(5000, u64::MAX), (9, 2)], u64::MAX, 0, 7);
        assert_eq!((odd.min(), odd.max(), odd.count()), (9, 5000, u64::MAX));
        assert_eq!(Histogram::restore([], 3, 9, 7), Histogram::default());
    }

    #[test]
    fn the_deviation_is_that_of_the_values() {
        let mut h = Histogram::default();
        [2u64, 4, 4, 4, 5, 5, 7, 9].iter().for_each(|&v| h.record(v));
        assert_eq!((h.mean(), h.deviation()), (5.0, 2.0));
        assert_eq!(Histogram::default().deviation(), 0.0);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_to_three_digits(v in any::<u64>(), shift in 0u32..64) {
            let v = v >> shift;
            let b = bucket(v);
            prop_assert!(floor(b) <= v && v - floor(b) <= v / 1024);
            prop_assert!(b + 1 == BUCKETS || floor(b + 1) > v);
            let mut h = Histogram::default();
            h.record_many(v, 3);
            let buckets: Vec<_> = h.buckets().collect();
            prop_assert_eq!(buckets.len(), 1);
            prop_assert!(buckets[0].0.contains(&v) || v == u64::MAX);
            prop_assert_eq!(buckets[0].1, 3);
            let (coarse, n) = h.eighths().next().unwrap();
            prop_assert!((coarse.contains(&v) || v == u64::MAX) && n == 3);
            prop_assert!(coarse.end - coarse.start <= (v / 8).max(1) || coarse.end == u64::MAX);
        }

        #[test]
        fn quantiles_are_within_a_bucket_of_the_sorted_list(mut values in proptest::collection::vec(0u64..1_000_000, 1..200), q in 0.0f64..1.0) {
            let mut h = Histogram::default();
            values.iter().for_each(|&v| h.record(v));
            values.sort_unstable();
            let at = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1;
            prop_assert_eq!(bucket(h.quantile(q)), bucket(values[at]));
        }

        #[test]
        fn parts_merge_to_the_whole_and_what_is_written_is_read(
            values in proptest::collection::vec((any::<u64>(), 0u32..64), 0..200), cut in 0usize..200,
        ) {
            let (mut whole, mut a, mut b) = <(Histogram, Histogram, Histogram)>::default();
            for (n, &(v, shift)) in values.iter().enumerate() {
                whole.record(v >> shift);
                if n < cut { a.record(v >> shift) } else { b.record(v >> shift) }
            }
            a.merge(&b);
            prop_assert_eq!(&a, &whole);
            let read = Histogram::restore(whole.iter(), whole.min(), whole.max(), whole.sum());
            prop_assert_eq!(&read, &whole);
            prop_assert_eq!(whole.eighths().map(|(_, n)| n).sum::<u64>(), whole.count());
        }
    }
}
