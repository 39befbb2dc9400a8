//! The engine: objects under construction, each handed on exactly once.
//!
//! A [`Window`] is told where a payload belongs ([`Placement`]) and gives a [`Slot`] for it, or says why it has none, before a
//! byte is written; what is finished comes out as [`Retired`], with what is missing of it. There are two policies:
//!
//! | | [`Ordered`] | [`Keyed`] |
//! |---|---|---|
//! | for | streams: blocks of frames, one after the other | heaps, events, messages |
//! | hands on | in the order of the stream, each part of it once | whatever is complete, at once |
//! | a gap in the numbers | is loss, and counted | says nothing: [`Sequence`] learns how a sender counts |
//! | a number far away | is followed when those after it agree | is a key like any other |
//! | memory of an object | a block, the same for all | as much as it needs; it may grow |
//! | why | decision 0002 | decision 0007 |
//!
//! Both never block, read no clock, know no format and never hold more than their limits allow. They know nothing of what a
//! block is, either: the caller hands blocks in (`room`) and gets them back in [`Retired`].

pub mod coverage;
pub mod keyed;
pub mod ordered;
mod sequence;

pub use keyed::{Keyed, KeyedConfig};
pub use ordered::{Ordered, OrderedConfig};
pub use sequence::Sequence;

use crate::placement::{Key, Nanos, Placement, Reject};
use std::ops::Range;

/// Objects under construction. See the [module](self) for the two there are.
pub trait Window<B> {
    /// Room for one payload.
    type Slot<'a>: Slot<B>
    where
        Self: 'a;

    /// Find the place of a payload that came at `now`.
    ///
    /// `room(bytes, old)` hands out memory for an object of at least `bytes`; `old` is the block that a growing object
    /// outgrew, whose content must be kept. `Err` gives `old` back: there is no memory. An object whose `old` does not
    /// come back is gone, and never handed on.
    ///
    /// # Errors
    /// Why it has no place; no byte was or may be written.
    fn reserve(
        &mut self,
        placement: Placement,
        now: Nanos,
        room: impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<Self::Slot<'_>, Reject>;

    /// The next finished object.
    fn poll_retired(&mut self) -> Option<Retired<B>>;

    /// When [`handle_timeout`](Self::handle_timeout) next has something to do, if nothing comes before.
    fn poll_timeout(&self) -> Option<Nanos>;

    /// Retire what time has finished.
    fn handle_timeout(&mut self, now: Nanos);

    /// The stream has ended: retire everything as it stands.
    fn finish(&mut self, now: Nanos);

    /// Blocks that it holds now.
    fn held(&self) -> usize;
}

/// Room for one payload in its object. Dropped uncommitted, it never happened.
pub trait Slot<B> {
    /// The object's block, to write into.
    fn block(&mut self) -> &mut B;

    /// The bytes of the block that are this payload's.
    fn range(&self) -> Range<u64>;

    /// The payload is there. Retires its object if it was the last of it.
    fn commit(self, now: Nanos);
}

/// An object, or a part of one, that nothing more will be added to.
#[derive(Debug)]
pub struct Retired<B> {
    /// Which one it is, as its packets said it.
    pub key: Key,
    /// Counts the restarts of the stream's counter; 0 for keyed objects.
    pub epoch: u32,
    /// The block that holds it.
    pub block: B,
    /// The bytes of the block that are this object's. What is neither here nor missing was retired before; of an object
    /// whose size nobody told, it ends where the furthest part that came (or was refused for its order) does.
    pub range: Range<u64>,
    /// Its size in bytes, if any of its packets told it.
    pub size: Option<u64>,
    /// What of `range` did not come: ascending, disjoint byte ranges, never adjacent.
    pub missing: Vec<Range<u64>>,
    /// Where the part of the stream that was retired before this one (in this epoch) ended; `None` for keyed objects.
    pub after: Option<Mark>,
    /// Arrival of its first payload.
    pub first: Nanos,
    /// Arrival of its latest payload.
    pub last: Nanos,
    /// Why now.
    pub cause: Cause,
}

impl<B> Retired<B> {
    /// Whether all of the object is there: its size is known, and nothing of it is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.cause == Cause::Complete
    }

    /// Bytes of `range` that came.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.range.end - self.range.start - self.missing.iter().map(|m| m.end - m.start).sum::<u64>()
    }

    /// Whether nothing is missing up to the furthest part that came. The size may be unknown.
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
    /// The byte in it.
    pub offset: u64,
}

/// Why an object was retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// All of it is there.
    Complete,
    /// The window moved on: as many objects as it holds began after this one, or so many that its counter came round.
    Window,
    /// Its deadline came, or it was [given up](Keyed::give_up).
    Timeout,
    /// The stream has ended, or its sender began anew.
    Finish,
    /// Nothing more came for it while its successor was filling.
    Linger,
    /// The stream fell silent.
    Idle,
    /// It was filling slowly; this is the part so far.
    Flush,
    /// The stream's counter restarted: this is as far as the old epoch came.
    Restart,
    /// It was a suspect that nothing confirmed, or nothing came for it after all: not part of the stream. Count what
    /// it holds as [`Reject::Stray`] and give the block back.
    Stray,
}

impl Cause {
    /// Every cause, in order of its number.
    pub const ALL: [Cause; 9] = [
        Cause::Complete,
        Cause::Window,
        Cause::Timeout,
        Cause::Finish,
        Cause::Linger,
        Cause::Idle,
        Cause::Flush,
        Cause::Restart,
        Cause::Stray,
    ];
    /// Those for which a keyed object retires.
    pub const KEYED: [Cause; 4] = [Cause::Complete, Cause::Window, Cause::Timeout, Cause::Finish];

    /// Its name in reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Complete => "complete",
            Cause::Window => "window",
            Cause::Timeout => "timeout",
            Cause::Finish => "finish",
            Cause::Linger => "linger",
            Cause::Idle => "idle",
            Cause::Flush => "flush",
            Cause::Restart => "restart",
            Cause::Stray => "stray",
        }
    }
}

#[cfg(test)]
mod tests;
