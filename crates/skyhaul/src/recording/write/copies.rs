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
//! Data come before copies: a further copy is not given to a disk that hangs, and those of safe chunks that wait for a slow disk are given
//! up when memory becomes short. Such a chunk is counted as one with fewer copies ([`Ledger`](super::account::Ledger)).

use crate::recording::report::Event;
use crate::recording::write::account::CopyStep;
use crate::recording::write::dispatch::Dispatch;
use crate::recording::write::queue::{Ready, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Copies of safe chunks are given up when less than this part of the memory is free, until twice as much is.
const SHORT_MEMORY_PART: usize = 8;
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

    /// Whether one is durable, or another disk has one as well.
    fn is_further(&self) -> bool {
        self.is_safe() || self.held.load(Ordering::Acquire) != 0
    }

    fn is_safe(&self) -> bool {
        self.is_safe.load(Ordering::Acquire)
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
    fn observe(&mut self, has_all: bool, now: Instant) -> Option<&'static str> {
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

impl Work {
    /// The copies of its chunk, where more than one was asked for.
    fn copies(&self) -> Option<&Copies> {
        match self {
            Work::Fresh(_) => None,
            Work::Again(ready) => ready.copies.as_ref(),
        }
    }

    /// Whether a disk has a copy of its chunk.
    pub(super) fn is_on(&self, disk: usize) -> bool {
        self.copies().is_some_and(|copies| copies.has(disk))
    }

    /// A disk gets it. False if that has a copy of its chunk already.
    pub(super) fn take(&self, disk: usize) -> bool {
        self.copies().is_none_or(|copies| copies.take(disk))
    }

    /// A disk has it no more.
    pub(super) fn leave(&self, disk: usize) {
        self.copies().into_iter().for_each(|copies| copies.leave(disk));
    }

    /// Whether it is a further copy: its chunk has another one, or will have. One that waits for a disk that hangs would only keep memory.
    pub(super) fn is_further(&self) -> bool {
        self.copies().is_some_and(Copies::is_further)
    }

    /// Whether another copy of its chunk is durable: its memory is worth more than it is.
    fn is_spare(&self) -> bool {
        self.copies().is_some_and(Copies::is_safe)
    }
}

impl Dispatch {
    /// Gives the further copies of a chunk, which a disk has just made ready, to others.
    pub(super) fn give_copies(&self, ready: &Arc<Ready>) {
        let more = if ready.copies.is_some() { self.copies.saturating_sub(1) } else { 0 };
        if more == 0 {
            return;
        }
        self.ledger().expect_copies(ready.datastream, ready.number, more);
        for _ in 0..more {
            if let Err(work) = self.give(Work::Again(Arc::clone(ready)), 0) {
                self.give_copy_up(&work);
            }
        }
    }

    /// A copy of a chunk is durable on a disk, beside others.
    pub(super) fn acknowledge_copy(&self, ready: &Ready, copies: &Copies) {
        let bytes = ready.view.len() as u64;
        let step = self.ledger().copy_written(ready.datastream, ready.number, bytes);
        copies.is_safe.store(true, Ordering::Release);
        self.after_copy(ready, step);
    }

    /// No disk takes a copy. If the chunk has no other, it is lost.
    pub(super) fn give_copy_up(&self, work: &Work) {
        let Work::Again(ready) = work else { return };
        let step = self.ledger().copy_given_up(ready.datastream, ready.number);
        self.after_copy(ready, step);
    }

    fn after_copy(&self, ready: &Ready, step: CopyStep) {
        match step {
            CopyStep::UnderWay => return self.note_settled(),
            CopyStep::None => return self.lose(ready.datastream, ready.number, self.why_none()),
            CopyStep::All | CopyStep::Fewer => {}
        }
        ready.settled.store(true, Ordering::Release);
        self.note_settled();
        self.note_copies(step == CopyStep::All);
    }

    /// A chunk has all copies, or fewer: the operator must know when that changes.
    pub(super) fn note_copies(&self, has_all: bool) {
        let kind = skyhaul_io::lock::lock(&self.copy_alarm).observe(has_all, Instant::now());
        let Some(kind) = kind else { return };
        let wanted = self.copies;
        let text = match has_all {
            true => format!("chunks have {wanted} copies again"),
            false => format!(
                "chunks have fewer than {wanted} copies from now on: too few disks work, have room, or are fast enough; nothing is lost by this alone{}",
                skyhaul_core::hint::Hint("the report and `skyhaul check` give the number of these chunks")
            ),
        };
        self.event(Event::now(kind, None, text), None);
    }

    /// Before a chunk is given: if memory is short, copies of safe chunks that wait for a disk are given up.
    pub(super) fn shed_copies(&self) {
        let Some((free, blocks)) = self.memory().filter(|_| self.copies > 1) else { return };
        if free * SHORT_MEMORY_PART >= blocks {
            return;
        }
        let mut wanted = (2 * blocks / SHORT_MEMORY_PART).saturating_sub(free);
        for (index, disk) in self.disks.iter().enumerate() {
            let shed = disk.state().shed(Work::is_spare, wanted);
            wanted = wanted.saturating_sub(shed.len());
            for work in shed {
                work.leave(index);
                self.give_copy_up(&work);
            }
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
        assert!(!copies.has(0) && copies.take(0) && copies.is_further() && !copies.is_safe());
    }
}
