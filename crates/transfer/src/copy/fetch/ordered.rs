//! Digests that can only be computed of bytes in order, such as MD5 and SHA-256, of files whose ranges come in any order.
//!
//! ```text
//!   ranges come    0  2  1  3  5  6  4
//!   digest         0     1 2 3        4 5 6       2, 5 and 6 are kept until their turn
//! ```
//!
//! A range that comes early is copied, as far as [`EARLY_BYTES`] last for all files. What was not kept, and what an earlier attempt has brought,
//! is read from the file at the end, from the first range that is lacking.

use super::server::{DigestMismatch, OrderedDigest};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory for ranges that came early, of all files together.
const EARLY_BYTES: u64 = 64 << 20;

/// What may still be kept.
#[derive(Debug)]
pub(super) struct EarlyBudget(AtomicU64);

impl EarlyBudget {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(EARLY_BYTES))
    }

    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The digest of one file so far.
pub(super) struct OrderedSum {
    digest: Option<Box<dyn OrderedDigest>>,
    /// The range that is lacking.
    next: u64,
    early: BTreeMap<u64, Vec<u8>>,
}

impl OrderedSum {
    pub(super) fn new(digest: Box<dyn OrderedDigest>) -> Self {
        Self { digest: Some(digest), next: 0, early: BTreeMap::new() }
    }

    /// The range that is lacking; all came if there is none of this number.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// A range came.
    pub(super) fn add(&mut self, range: u64, bytes: &[u8], budget: &EarlyBudget) {
        if range > self.next {
            if !self.early.contains_key(&range) && budget.take(bytes.len() as u64) {
                self.early.insert(range, bytes.to_vec());
            }
            return;
        }
        if range < self.next {
            return;
        }
        self.update(bytes);
        while let Some(early) = self.early.remove(&self.next) {
            budget.give(early.len() as u64);
            self.update(&early);
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        self.next += 1;
    }

    /// Compares the digest of all ranges; once.
    pub(super) fn compare(&mut self, budget: &EarlyBudget) -> Result<(), DigestMismatch> {
        self.forget(budget);
        // What was compared once is not right for ever.
        let gone =
            || DigestMismatch { expected: "one comparison".to_owned(), found: "another one".to_owned() };
        self.digest.take().ok_or_else(gone)?.compare()
    }

    /// Lets go of what is kept.
    pub(super) fn forget(&mut self, budget: &EarlyBudget) {
        budget.give(std::mem::take(&mut self.early).into_values().map(|early| early.len() as u64).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    struct Seen(Arc<Mutex<Vec<u8>>>);

    impl OrderedDigest for Seen {
        fn update(&mut self, bytes: &[u8]) {
            self.0.lock().unwrap().extend_from_slice(bytes);
        }

        fn compare(self: Box<Self>) -> Result<(), DigestMismatch> {
            Ok(())
        }
    }

    #[test]
    fn ranges_in_any_order_are_summed_up_in_order() {
        let budget = EarlyBudget::new();
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let mut sum = OrderedSum::new(Box::new(Seen(Arc::clone(&seen))));
        for range in [0u8, 2, 1, 1, 3, 5, 6, 0, 4, 8] {
            sum.add(u64::from(range), &[range; 10], &budget);
        }
        let all: Vec<u8> = (0..7).flat_map(|range| [range; 10]).collect();
        assert_eq!((sum.next(), &*seen.lock().unwrap()), (7, &all));
        assert_eq!(budget.0.load(Ordering::Relaxed), EARLY_BYTES - 10);
        sum.forget(&budget);
        assert_eq!(budget.0.load(Ordering::Relaxed), EARLY_BYTES);
    }

    #[test]
    fn what_there_is_no_memory_for_is_lacking_later() {
        let budget = EarlyBudget(AtomicU64::new(25));
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let mut sum = OrderedSum::new(Box::new(Seen(Arc::clone(&seen))));
        for range in [3u8, 2, 1, 0] {
            sum.add(u64::from(range), &[range; 10], &budget);
        }
        // 1 was not kept; 2 and 3 are still there, for when it is read.
        assert_eq!((sum.next(), seen.lock().unwrap().len()), (1, 10));
        sum.add(1, &[1; 10], &budget);
        assert_eq!((sum.next(), budget.0.load(Ordering::Relaxed)), (4, 25));
    }
}
