//! The assembly engine: objects under construction, each retired exactly once.
//!
//! A [`Window`] takes the [`Placement`] of a payload and returns a [`Slot`] to write it to, or rejects it
//! with a reason before a byte is written. Finished objects come out as [`Retired`], with the ranges that are
//! missing. There are two policies:
//!
//! | | [`Ordered`] | [`KeyedWindow`] |
//! |---|---|---|
//! | for | streams: consecutive blocks of frames | heaps, events, messages |
//! | retires | in stream order, each part once | each object as soon as it is complete |
//! | a gap in the numbers | is counted as loss | is not loss by itself: [`Sequence`] learns how a sender counts |
//! | a number far away | is followed when the next packets agree | is a key like any other |
//! | memory of an object | one block of fixed size | as much as it needs; it may grow |
//! | why | decision 0002 | decision 0007 |
//!
//! Neither blocks, reads a clock, depends on a format or exceeds its limits. The type of a block is the
//! caller's: blocks come from `room` and are returned in [`Retired`].

pub mod building;
pub mod coverage;
pub mod keyed;
pub mod ordered;
mod sequence;

pub use keyed::{Counting, KeyedConfig, KeyedWindow};
pub use ordered::{Ordered, OrderedConfig};
pub use sequence::Sequence;

use crate::placement::{Key, Nanos, Placement, Reject};
use std::ops::Range;

/// Objects under construction. See the [module](self) for the two implementations.
pub trait Window<B> {
    /// Room for one payload.
    type Slot<'a>: Slot<B>
    where
        Self: 'a;

    /// Find the place of a payload that arrived at `now`.
    ///
    /// `room(bytes, old)` returns memory for an object of at least `bytes`; `old` is the block that a growing
    /// object has outgrown, whose content must be kept. If there is no memory, `room` returns `Err(old)`. An
    /// object whose `old` is not returned is dropped, and never retired.
    ///
    /// # Errors
    /// The reason for which the payload is rejected; nothing has been written.
    fn reserve(
        &mut self,
        placement: Placement,
        now: Nanos,
        room: impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<Self::Slot<'_>, Reject>;

    /// The next finished object.
    fn poll_retired(&mut self) -> Option<Retired<B>>;

    /// When [`handle_timeout`](Self::handle_timeout) must be called next if no payload arrives before.
    fn poll_timeout(&self) -> Option<Nanos>;

    /// Retire the objects whose deadline has passed.
    fn handle_timeout(&mut self, now: Nanos);

    /// The stream has ended: retire every object as it is.
    fn finish(&mut self, now: Nanos);

    /// Number of blocks held now.
    fn held(&self) -> usize;
}

/// Room for one payload in its object. A slot that is dropped without a commit has no effect.
pub trait Slot<B> {
    /// The object's block, to write into.
    fn block(&mut self) -> &mut B;

    /// The bytes of the block for this payload.
    fn range(&self) -> Range<u64>;

    /// The payload has been written. Retires its object if that is now complete.
    fn commit(self, now: Nanos);
}

/// An object, or a part of one, to which nothing more will be added.
#[derive(Debug)]
pub struct Retired<B> {
    /// Its key, from its packets.
    pub key: Key,
    /// Restarts of the stream's counter before this object; 0 for keyed objects.
    pub epoch: u32,
    /// The block that holds it.
    pub block: B,
    /// The bytes of the block that belong to this object. Parts of the object before this range were retired
    /// earlier. If no packet stated the size, the range ends with the furthest part that arrived (or was
    /// rejected as out of order).
    pub range: Range<u64>,
    /// Its size in bytes, if any of its packets stated it.
    pub size: Option<u64>,
    /// The parts of `range` that did not arrive: ascending, disjoint, never adjacent byte ranges.
    pub missing: Vec<Range<u64>>,
    /// End of the part of the stream retired before this one in this epoch; `None` for keyed objects.
    pub after: Option<Mark>,
    /// Arrival of its first payload.
    pub first: Nanos,
    /// Arrival of its latest payload.
    pub last: Nanos,
    /// Why it was retired.
    pub cause: Cause,
}

impl<B> Retired<B> {
    /// Whether the object is complete: its size is known, and nothing is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.cause == Cause::Complete
    }

    /// Bytes of `range` that arrived.
    #[inline]
    #[must_use]
    pub fn received(&self) -> u64 {
        let mut received = self.range.end - self.range.start;
        for missing in &self.missing {
            received -= missing.end - missing.start;
        }
        received
    }

    /// Whether nothing is missing up to the furthest part that arrived. The size may be unknown.
    #[inline]
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        match self.missing.as_slice() {
            [] => true,
            [tail] => tail.end == self.range.end,
            _ => false,
        }
    }
}

/// A position in a stream of ordered objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The object's number.
    pub number: u64,
    /// The byte in that object.
    pub offset: u64,
}

crate::named! {
    /// Why an object was retired.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Cause {
        /// It is complete.
        Complete = "complete",
        /// The window moved on: a whole window of newer objects began, or enough for its counter to wrap around.
        Window = "window",
        /// Its deadline passed, or it was [given up](KeyedWindow::give_up).
        Timeout = "timeout",
        /// The stream has ended, or its sender restarted.
        Finish = "finish",
        /// Nothing more arrived for it while its successor was filling.
        Linger = "linger",
        /// The stream fell silent.
        Idle = "idle",
        /// It was filling slowly; this is the part received so far.
        Flush = "flush",
        /// The stream's counter restarted: this is the end of the old epoch.
        Restart = "restart",
        /// It was a suspect that was not confirmed, or nothing was committed to it: not part of the stream. Count
        /// its payloads as [`Reject::Stray`] and return the block to its pool.
        Stray = "stray",
    }
}

impl Cause {
    /// The causes that apply to keyed objects.
    pub const KEYED: [Cause; 4] = [Cause::Complete, Cause::Window, Cause::Timeout, Cause::Finish];
}

#[cfg(test)]
mod tests;
