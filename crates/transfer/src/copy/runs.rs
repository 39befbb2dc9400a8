//! A set of range numbers, as runs: memory is that of the runs, not of the file.

use std::collections::BTreeMap;

/// Numbers, by the first and the end of each run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    pub(super) fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// Whether it was not in it.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let (mut first, mut end) = (number, number + 1);
        if let Some((&before, _)) = self.0.range(..number).next_back().filter(|(_, end)| **end == number) {
            first = before;
        }
        if let Some(after) = self.0.remove(&end) {
            end = after;
        }
        self.0.insert(first, end);
        true
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some((&first, &end)) = self.0.range(..=number).next_back().filter(|(_, end)| number < **end)
        else {
            return;
        };
        self.0.remove(&first);
        if first < number {
            self.0.insert(first, number);
        }
        if number + 1 < end {
            self.0.insert(number + 1, end);
        }
    }

    /// Runs below `all` that are not in it: the first number and how many.
    pub(super) fn gaps(&self, all: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut at) = (Vec::new(), 0);
        for (&first, &end) in &self.0 {
            if first > at {
                gaps.push((at, first - at));
            }
            at = end;
        }
        if at < all {
            gaps.push((at, all - at));
        }
        gaps
    }

    /// How many runs it has.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((0u64..20, any::<bool>()), 0..200)) {
            let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
            for (number, inserts) in steps {
                if inserts {
                    prop_assert_eq!(runs.insert(number), set.insert(number));
                } else {
                    runs.remove(number);
                    set.remove(&number);
                }
                prop_assert!((0..20).all(|n| runs.contains(n) == set.contains(&n)));
            }
            let gaps: BTreeSet<u64> = runs.gaps(20).into_iter().flat_map(|(first, n)| first..first + n).collect();
            prop_assert_eq!(gaps, (0..20).filter(|n| !set.contains(n)).collect::<BTreeSet<_>>());
            prop_assert!(runs.len() <= 10);
        }
    }
}
