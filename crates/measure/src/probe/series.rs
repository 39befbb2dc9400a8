//! A series of values over time that never grows past its limit: when it is full, every other value is dropped, and from
//! then on only every second one, every fourth one, … is kept.
//!
//! Values must be cumulative, or readings of a moment, so that the difference of any two is true.

/// Values in order.
#[derive(Clone, Debug)]
pub(crate) struct Series<T> {
    kept: Vec<T>,
    limit: usize,
    /// Values offered so far.
    offered: u64,
    /// One in so many is kept.
    every: u64,
}

impl<T> Series<T> {
    /// At most `limit` values, at least two.
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit: limit.max(2), offered: 0, every: 1 }
    }

    pub(crate) fn push(&mut self, value: T) {
        let due = self.offered.is_multiple_of(self.every);
        self.offered += 1;
        if !due {
            return;
        }
        if self.kept.len() == self.limit {
            let mut n = 0;
            self.kept.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.every *= 2;
            if !(self.offered - 1).is_multiple_of(self.every) {
                return;
            }
        }
        self.kept.push(value);
    }

    /// Keep this one in any case: the end.
    pub(crate) fn finish(&mut self, value: T) {
        if self.kept.len() == self.limit {
            self.kept.pop();
        }
        self.kept.push(value);
    }

    pub(crate) fn into_values(self) -> Vec<T> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_every_nth_value_from_the_first_on() {
        let mut series = Series::new(10);
        (0..1000u32).for_each(|n| series.push(n));
        series.finish(1000);
        let kept = series.into_values();
        assert!(kept.len() <= 10 && kept.len() > 5, "{kept:?}");
        assert_eq!((kept[0], *kept.last().unwrap()), (0, 1000));
        let steps: Vec<u32> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps[..steps.len() - 1].iter().all(|&step| step == 128), "{kept:?}");
    }
}
