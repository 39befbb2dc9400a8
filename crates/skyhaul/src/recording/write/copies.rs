//! Which disks have a copy of a chunk, where more than one was asked for.
//!
//! ```text
//!   chunk ─▶ filled once, in one block of memory ─┬─▶ disk 0 ─▶ durable, with its record: the chunk is safe
//!                                                 └─▶ disk 2 ─▶ durable, with its record: it has all copies, the block is free
//! ```
//!
//! The disk that makes a chunk ready gives its further copies to other disks; all write the same memory. A disk never has two copies of a
//! chunk. A copy that a disk failed is given to another one that has none, as the only copy of a chunk is.
//!
//! Data come before copies: the further copy of a safe chunk is not given to a disk that hangs, and those that wait for a slow disk are given
//! up when half of the memory is used. Such a chunk is counted as one with fewer copies (`account`). While a chunk is not safe, any of its
//! copies may become the only one: it waits for a disk that hangs, if no other can take it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// All chunks have had all copies for so long when the operator is told that they have them again.
const RESTORED_AFTER: Duration = Duration::from_secs(10);

/// The disks that have a copy of one chunk.
#[derive(Debug)]
pub(super) struct Copies {
    /// One bit for each disk (modulo 64) that has one: it waits there, is being written, or is durable.
    held: AtomicU64,
    /// One is durable.
    is_safe: AtomicBool,
}

impl Copies {
    /// Of a chunk that is made ready on this disk.
    pub(super) fn on(disk: usize) -> Copies {
        Copies { held: AtomicU64::new(bit(disk)), is_safe: AtomicBool::new(false) }
    }

    /// Whether a disk has one.
    pub(super) fn has(&self, disk: usize) -> bool {
        self.held.load(Ordering::Acquire) & bit(disk) != 0
    }

    /// A disk gets one. False if it has one already.
    pub(super) fn take(&self, disk: usize) -> bool {
        self.held.fetch_or(bit(disk), Ordering::AcqRel) & bit(disk) == 0
    }

    /// A disk has none any more.
    pub(super) fn leave(&self, disk: usize) {
        self.held.fetch_and(!bit(disk), Ordering::AcqRel);
    }

    pub(super) fn is_safe(&self) -> bool {
        self.is_safe.load(Ordering::Acquire)
    }

    /// One is durable now.
    pub(super) fn set_safe(&self) {
        self.is_safe.store(true, Ordering::Release);
    }
}

fn bit(disk: usize) -> u64 {
    1 << (disk % 64)
}

/// Whether chunks have as many copies as were asked for, for the operator.
#[derive(Debug, Default)]
pub(super) struct CopyAlarm {
    /// When a chunk had fewer last, since it was said that there are fewer.
    reduced: Option<Instant>,
}

impl CopyAlarm {
    /// A chunk has all its copies, or fewer, at `now`. Returns the kind of event that is due.
    pub(super) fn observe(&mut self, has_all: bool, now: Instant) -> Option<&'static str> {
        match (has_all, self.reduced) {
            (false, before) => {
                self.reduced = Some(now);
                before.is_none().then_some("copies_reduced")
            }
            (true, Some(last)) if now.saturating_duration_since(last) >= RESTORED_AFTER => {
                self.reduced = None;
                Some("copies_restored")
            }
            (true, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_is_told_once_of_each_change() {
        let (mut alarm, begun) = (CopyAlarm::default(), Instant::now());
        let mut at = |has_all, seconds| alarm.observe(has_all, begun + Duration::from_secs(seconds));
        assert_eq!((at(true, 0), at(false, 1), at(false, 2)), (None, Some("copies_reduced"), None));
        // One that has them among others that have not is no change.
        assert_eq!((at(true, 3), at(false, 4), at(true, 13)), (None, None, None));
        assert_eq!((at(true, 14), at(true, 15)), (Some("copies_restored"), None));
        assert_eq!(at(false, 16), Some("copies_reduced"));
    }

    #[test]
    fn a_disk_takes_one_copy_of_a_chunk() {
        let copies = Copies::on(3);
        assert!(copies.has(3) && !copies.take(3) && copies.take(0) && !copies.take(0));
        copies.leave(0);
        assert!(!copies.has(0) && copies.take(0) && !copies.is_safe());
    }
}
