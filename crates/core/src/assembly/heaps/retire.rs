//! How heaps leave: what each is said to hold, why, and when time alone decides it.

use super::finished::Entry;
use super::index::Known;
use super::live::NONE;
use super::{HeapKey, Heaps};
use crate::placement::Nanos;
use std::ops::Range;

/// Why a heap was retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeapCause {
    /// All of it is there.
    Complete,
    /// As many heaps as the window holds began after it, or so many that its counter came round.
    Window,
    /// Its deadline came, or it was [given up](Heaps::give_up).
    Timeout,
    /// [`Heaps::finish`] was called, or its sender began anew.
    Finish,
}

impl HeapCause {
    /// Every cause.
    pub const ALL: [HeapCause; 4] =
        [HeapCause::Complete, HeapCause::Window, HeapCause::Timeout, HeapCause::Finish];

    /// Its name in reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HeapCause::Complete => "complete",
            HeapCause::Window => "window",
            HeapCause::Timeout => "timeout",
            HeapCause::Finish => "finish",
        }
    }
}

/// A heap that nothing more will be added to.
#[derive(Debug)]
pub struct RetiredHeap<B> {
    /// Which one it is.
    pub key: HeapKey,
    /// The block that holds it, from its byte 0 on.
    pub block: B,
    /// Its size in bytes, if any of its packets told it.
    pub size: Option<u64>,
    /// Its size, or the end of the furthest byte that came (with `in_order`, or was refused) if that was not told.
    pub bytes: u64,
    /// Bytes that came.
    pub received: u64,
    /// What of `0..bytes` did not come: ascending, disjoint, never adjacent.
    pub missing: Vec<Range<u64>>,
    /// When its first part came.
    pub first: Nanos,
    /// When its last part came.
    pub last: Nanos,
    /// Why it was retired.
    pub cause: HeapCause,
}

impl<B> RetiredHeap<B> {
    /// Whether its size is known and all of it is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.cause == HeapCause::Complete
    }

    /// Whether nothing is missing up to the furthest part that came. The size may be unknown.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        match self.missing.as_slice() {
            [] => true,
            [tail] => tail.end == self.bytes && tail.start == self.received,
            _ => false,
        }
    }
}

impl<B> Heaps<B> {
    /// The next heap that is finished.
    #[inline]
    pub fn poll_retired(&mut self) -> Option<RetiredHeap<B>> {
        self.retired.pop_front()
    }

    /// When [`Heaps::handle_timeout`] has something to do, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        Some(self.table.at(self.table.oldest()?).first.plus(self.config.timeout?))
    }

    /// Retire what is due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while self.poll_timeout().is_some_and(|due| due <= self.now) {
            let Some(oldest) = self.table.oldest() else { break };
            self.retire(oldest, HeapCause::Timeout);
        }
    }

    /// Nobody waits any longer for the rest of the heap of this key, though its deadline has not come. Not a live one:
    /// nothing happens.
    pub fn give_up(&mut self, key: HeapKey, now: Nanos) {
        self.now = self.now.max(now);
        if let Some(Known::Live(at)) = self.known(key) {
            self.retire(at, HeapCause::Timeout);
        }
    }

    /// The stream ends: everything retires, oldest first.
    pub fn finish(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some(oldest) = self.table.oldest() {
            self.retire(oldest, HeapCause::Finish);
        }
    }

    /// Retire a heap that came in one part and was never live.
    #[inline]
    pub(super) fn retire_whole(
        &mut self,
        key: HeapKey,
        block: B,
        bytes: u64,
        first: Nanos,
        counter_bits: u8,
    ) {
        let turn = self.take_turn(key, counter_bits);
        self.finished.push(Entry::new(key, true, bytes, turn, self.now), &mut self.index);
        self.retired.push_back(RetiredHeap {
            key,
            block,
            size: Some(bytes),
            bytes,
            received: bytes,
            missing: Vec::new(),
            first,
            last: self.now,
            cause: HeapCause::Complete,
        });
    }

    /// Retire the live heap at `at`.
    pub(super) fn retire(&mut self, at: u32, cause: HeapCause) {
        let live = self.table.at(at);
        let (key, size, first, last, turn) = (live.key, live.size, live.first, live.last, live.turn);
        let (received, bytes) = (live.seen.bytes(), live.bytes());
        let missing = if received == bytes { Vec::new() } else { live.seen.missing(0..bytes) };
        if let Some(block) = self.discard(at) {
            let complete = cause == HeapCause::Complete;
            self.finished.push(Entry::new(key, complete, bytes, turn, self.now), &mut self.index);
            let heap = RetiredHeap { key, block, size, bytes, received, missing, first, last, cause };
            self.retired.push_back(heap);
        }
    }

    /// End the live heap at `at` as if it had never been.
    pub(super) fn discard(&mut self, at: u32) -> Option<B> {
        if self.hint == at {
            self.hint = NONE;
        }
        self.index.remove(self.table.at(at).key, Known::Live(at));
        self.table.close(at)
    }
}
