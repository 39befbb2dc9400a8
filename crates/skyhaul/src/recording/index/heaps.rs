//! The heaps of a chunk, in its index record.
//!
//! ```text
//!   "heaps":{"count":4096,"incomplete":1,"counters":[[70000,1,4096]],"missing":[[70013,2880,4320]],"items":[5,4096,4097]}
//! ```
//!
//! Counters mostly increase by a constant step, so a chunk of thousands of heaps has one entry. For senders without a step, the first
//! [`MAX_RUNS`] entries are kept. The chunk's own heads have all of it in any case.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Runs of counters that are kept for a chunk.
const MAX_RUNS: usize = 4096;
/// Missing ranges that are kept for a chunk.
const MAX_MISSING_RANGES: usize = 16_384;

/// Items that are kept for a chunk.
const MAX_ITEMS: usize = 1024;

/// The heaps that begin in a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapsOf {
    /// How many.
    pub count: u64,
    /// Number of incomplete heaps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub incomplete: u64,
    /// Bytes that are missing in these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_bytes: u64,
    /// Their counters, in order of arrival: the first, from one to the next, and how many.
    pub counters: Vec<(u64, i64, u32)>,
    /// Missing bytes: counter of the heap, first byte, one past the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<(u64, u64, u64)>,
    /// Ids of all items that its heaps carry, ascending: what is not here, a reader need not look for in the chunk. `None` if
    /// not known, or too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<u64>>,
    /// Entries of the lists of counters and missing bytes that were omitted because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// A counter was left out: no run continues after it.
    #[serde(skip)]
    broken: bool,
}

impl HeapsOf {
    /// The first one's counter.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.counters.first().map(|&(first, ..)| first)
    }

    /// Whether one of them may carry this item.
    #[must_use]
    pub fn may_carry(&self, item: u64) -> bool {
        self.count > 0 && self.items.as_ref().is_none_or(|items| items.binary_search(&item).is_ok())
    }

    /// The counter of each heap, in order of arrival; `None` if some were omitted.
    pub fn all_counters(&self) -> Option<impl Iterator<Item = u64> + '_> {
        let told = self.counters.iter().try_fold(0u64, |sum, run| sum.checked_add(run.2.into()));
        let run = |&(first, step, length): &(u64, i64, u32)| {
            (0..length).map(move |n| first.wrapping_add_signed(step.wrapping_mul(i64::from(n))))
        };
        (told == Some(self.count)).then(|| self.counters.iter().flat_map(run))
    }

    /// The one that was added last carries this item.
    pub(crate) fn add_item(&mut self, id: u64) {
        if let Some(items) = &mut self.items
            && let Err(at) = items.binary_search(&id)
        {
            items.insert(at, id);
            self.items.take_if(|items| items.len() > MAX_ITEMS);
        }
    }

    /// One more begins.
    pub(crate) fn add(&mut self, counter: u64, missing: &[Range<u64>]) {
        if self.count == 0 {
            self.items = Some(Vec::new());
        }
        self.count += 1;
        self.add_counter(counter);
        self.incomplete += u64::from(!missing.is_empty());
        for gap in missing {
            self.missing_bytes = self.missing_bytes.saturating_add(gap.end.saturating_sub(gap.start));
            if self.missing.len() < MAX_MISSING_RANGES {
                self.missing.push((counter, gap.start, gap.end));
            } else {
                self.left_out += 1;
            }
        }
    }

    fn add_counter(&mut self, counter: u64) {
        if !self.broken
            && let Some((first, step, length)) = self.counters.last_mut()
        {
            let last = first.wrapping_add_signed(step.wrapping_mul(i64::from(*length - 1)));
            let next = counter.wrapping_sub(last).cast_signed();
            if *length == 1 || next == *step {
                *step = next;
                *length += 1;
                return;
            }
        }
        if self.counters.len() < MAX_RUNS {
            self.counters.push((counter, 0, 1));
        } else {
            self.broken = true;
            self.left_out += 1;
        }
    }
}

// Serde gives a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_counters_are_told_in_order(steps in proptest::collection::vec(prop_oneof![5 => Just(4i64), 1 => any::<i64>()], 0..300), begin: u64) {
            let mut heaps = HeapsOf::default();
            let mut counter = begin;
            let mut given = Vec::new();
            for step in steps {
                given.push(counter);
                heaps.add(counter, &[]);
                counter = counter.wrapping_add_signed(step);
            }
            prop_assert_eq!(heaps.all_counters().unwrap().collect::<Vec<_>>(), given);
            let json = serde_json::to_string(&heaps).unwrap();
            prop_assert_eq!(serde_json::from_str::<HeapsOf>(&json).unwrap(), heaps);
        }
    }

    #[test]
    fn items_are_listed_once_or_not_at_all() {
        let mut heaps = HeapsOf::default();
        assert!(!heaps.may_carry(5), "there is no heap");
        heaps.add(1, &[]);
        [0x1001, 5, 0x1000, 5].into_iter().for_each(|id| heaps.add_item(id));
        assert_eq!(heaps.items, Some(vec![5, 0x1000, 0x1001]));
        assert!(heaps.may_carry(5) && !heaps.may_carry(6));
        (0..2000).for_each(|id| heaps.add_item(id));
        assert!(heaps.items.is_none() && heaps.may_carry(5000), "too many to tell");
        let older = r#"{"count":2,"counters":[[1,1,2]]}"#;
        assert!(serde_json::from_str::<HeapsOf>(older).unwrap().may_carry(5), "older indexes do not tell");
    }

    #[test]
    fn regular_counters_are_one_entry_and_there_is_a_bound() {
        let mut heaps = HeapsOf::default();
        (0..4096).for_each(|n| heaps.add(70_000 + 3 * n, &[]));
        assert_eq!(heaps.counters, [(70_000, 3, 4096)]);
        let mut heaps = HeapsOf::default();
        for n in 0..100_000u64 {
            heaps.add(n * n * n, &[5..7, 9..10]);
        }
        assert_eq!((heaps.count, heaps.incomplete, heaps.missing_bytes), (100_000, 100_000, 300_000));
        assert!(
            heaps.counters.len() <= MAX_RUNS
                && heaps.missing.len() <= MAX_MISSING_RANGES
                && heaps.left_out > 0
        );
        assert!(heaps.all_counters().is_none());
        assert!(
            serde_json::to_string(&heaps).unwrap().len()
                < crate::recording::index::record::MAX_LINE_BYTES / 4
        );
    }
}
