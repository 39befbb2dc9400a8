//! A histogram of fixed size over all of `u64`, with buckets no wider than 1/8 of their value.

use std::ops::Range;

/// Sub-buckets of each power of two.
const SUB: usize = 8;
const BUCKETS: usize = 62 * SUB;

/// Counts values in logarithmic buckets: values below 8 exactly, others to within 12.5 %.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    sum: u128,
    max: u64,
    min: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), total: 0, sum: 0, max: 0, min: u64::MAX }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let power = value.ilog2() as usize; // at least 3
    (power - 2) * SUB + ((value >> (power - 3)) as usize & (SUB - 1))
}

/// The smallest value of a bucket.
fn floor(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    ((SUB + bucket % SUB) as u64) << (bucket / SUB - 1)
}

impl Histogram {
    /// Count one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Count a value `n` times. Counts saturate at [`u64::MAX`]: they may be read from a damaged file.
    pub fn record_many(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let count = &mut self.counts[bucket(value)];
        *count = count.saturating_add(n);
        self.total = self.total.saturating_add(n);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(n));
        self.max = self.max.max(value);
        self.min = self.min.min(value);
    }

    /// Add all of `other`'s values.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.total = self.total.saturating_add(other.total);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
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

    /// The value below or at which a fraction `q` (0 to 1) of all values lie, to within a bucket.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let want = ((self.total as f64 * q).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0u64;
        for (b, &n) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(n);
            if seen >= want && n > 0 {
                return if b + 1 < BUCKETS { (floor(b + 1) - 1).min(self.max) } else { self.max };
            }
        }
        0
    }

    /// The non-empty buckets: (range of values, count). The last bucket includes [`u64::MAX`].
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let end = |bucket| if bucket < BUCKETS { floor(bucket) } else { u64::MAX };
        self.counts.iter().enumerate().filter(|&(_, &n)| n > 0).map(move |(b, &n)| (floor(b)..end(b + 1), n))
    }

    /// The non-empty buckets: (smallest value, count).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|&(_, &n)| n > 0).map(|(b, &n)| (floor(b), n))
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
        assert!(h.mean() > 0.0);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_to_an_eighth(v in any::<u64>()) {
            let b = bucket(v);
            prop_assert!(floor(b) <= v && v - floor(b) <= v / 8);
            prop_assert!(b + 1 == BUCKETS || floor(b + 1) > v);
            let mut h = Histogram::default();
            h.record_many(v, 3);
            let buckets: Vec<_> = h.buckets().collect();
            prop_assert_eq!(buckets.len(), 1);
            prop_assert!(buckets[0].0.contains(&v) || v == u64::MAX);
            prop_assert_eq!(buckets[0].1, 3);
        }

        #[test]
        fn quantiles_are_within_a_bucket_of_the_sorted_list(mut values in proptest::collection::vec(0u64..1_000_000, 1..200), q in 0.0f64..1.0) {
            let mut h = Histogram::default();
            values.iter().for_each(|&v| h.record(v));
            values.sort_unstable();
            let at = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1;
            prop_assert_eq!(bucket(h.quantile(q)), bucket(values[at]));
        }
    }
}
