//! An object of a run: as it is given, and begun.

use super::object::Object;
use super::options::ObjectOptions;
use std::ops::Range;

/// Numbers of objects, as they are handed out.
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

/// An object of a run.
pub(super) struct Entry<'h, O: Object> {
    pub(super) object: &'h O,
    pub(super) options: ObjectOptions,
    /// How it is divided, where that is known.
    pub(super) plan: Option<&'h O::Plan>,
    /// The job it belongs to, whether it is its last object, and the numbers of a job that begins here.
    pub(super) job: usize,
    pub(super) last: bool,
    pub(super) sequence: Option<Sequence>,
}

/// An object that is begun.
pub(super) struct Part<'h, O: Object> {
    pub(super) entry: usize,
    pub(super) object: &'h O,
    pub(super) plan: O::Plan,
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

impl<O: Object> Part<'_, O> {
    pub(super) fn is_finished(&self) -> bool {
        self.next == O::count(&self.plan)
    }

    /// Bytes of the next packet, or of what is left of it.
    #[inline]
    pub(super) fn next_bytes(&self) -> u64 {
        match &self.rest {
            Some((payload, dummy)) => payload.end - payload.start + *dummy as u64,
            None => O::bytes_of(&self.plan, self.next),
        }
    }
}
