//! A heap of a run: as it is given, and begun.

use super::config::HeapOptions;
use super::heap::Heap;
use skyhaul_core::wire::spead::packets::Plan;
use std::ops::Range;

/// Heap counters, as they are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) next: u64,
    pub(super) step: u64,
}

impl Sequence {
    pub(super) fn take(&mut self) -> u64 {
        let now = self.next;
        self.next = now.wrapping_add(self.step);
        now
    }
}

/// A heap of a run.
#[derive(Clone, Copy)]
pub(super) struct Entry<'h> {
    pub(super) heap: &'h Heap,
    pub(super) options: HeapOptions,
    /// How it is divided, where that is known.
    pub(super) plan: Option<&'h Plan>,
    /// The job it belongs to, whether it is its last heap, and the counters of a job that begins here.
    pub(super) job: usize,
    pub(super) last: bool,
    pub(super) sequence: Option<Sequence>,
}

/// A heap that is begun.
pub(super) struct Part<'h> {
    pub(super) entry: usize,
    pub(super) heap: &'h Heap,
    pub(super) plan: Plan,
    pub(super) next: u64,
    /// Of a packet that goes out in pieces: payload and dummies to come.
    pub(super) rest: Option<(Range<u64>, usize)>,
    /// The chunk that the next payload begins in, or one before.
    pub(super) chunk: usize,
    pub(super) substream: usize,
    pub(super) rate: Option<u64>,
    pub(super) job: usize,
    pub(super) last: bool,
}

impl Part<'_> {
    pub(super) fn is_finished(&self) -> bool {
        self.next == self.plan.count()
    }

    /// Bytes of the next packet, or of what is left of it.
    #[inline]
    pub(super) fn next_bytes(&self) -> u64 {
        match &self.rest {
            Some((payload, dummy)) => payload.end - payload.start + *dummy as u64,
            None => self.plan.bytes_of(self.next),
        }
    }
}
