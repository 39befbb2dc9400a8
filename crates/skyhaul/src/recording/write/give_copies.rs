//! How the further copies of a chunk are given to disks, acknowledged, and given up.

use crate::recording::report::Event;
use crate::recording::write::account::CopyStep;
use crate::recording::write::copies::Copies;
use crate::recording::write::dispatch::Dispatch;
use crate::recording::write::queue::{Ready, Work};
use skyhaul_core::hint::Hint;
use skyhaul_io::lock::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Copies of safe chunks are given up while at most this part of the memory is free: from there on new streams are not taken, and what is
/// forwarded or mirrored is left out later still.
const SHORT_MEMORY_PART: usize = 2;

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
        copies.set_safe();
        self.after_copy(ready, step);
        // Now that it is safe, its other copies may be given up: no chunk may come that asks for it.
        self.shed_copies();
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
        let kind = lock(&self.copy_alarm).observe(has_all, Instant::now());
        let Some(kind) = kind else { return };
        let wanted = self.copies;
        let text = match has_all {
            true => format!("chunks have {wanted} copies again"),
            false => format!(
                "chunks have fewer than {wanted} copies from now on: too few disks work, have room, or are fast enough; nothing is lost by this alone{}",
                Hint("the report and `skyhaul check` give the number of these chunks")
            ),
        };
        self.event(Event::now(kind, None, text), None);
    }

    /// Whether so little memory is free that data come before copies.
    pub(super) fn is_memory_short(&self) -> bool {
        let memory = self.memory().filter(|_| self.copies > 1);
        memory.is_some_and(|(free, blocks)| free <= blocks / SHORT_MEMORY_PART)
    }

    /// Before a chunk is given, and when one is safe: if memory is short, copies of safe chunks that wait for a disk are given up.
    pub(super) fn shed_copies(&self) {
        let Some((free, blocks)) = self.memory().filter(|_| self.copies > 1) else { return };
        let mut wanted = (blocks / SHORT_MEMORY_PART + 1).saturating_sub(free);
        for (index, disk) in self.disks.iter().enumerate() {
            if wanted == 0 {
                return;
            }
            let shed = disk.state().shed(Work::is_spare, wanted);
            wanted = wanted.saturating_sub(shed.len());
            for work in shed {
                work.leave(index);
                self.give_copy_up(&work);
            }
        }
    }
}
