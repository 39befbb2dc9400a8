//! The heaps that were handed on last, so that a late or doubled packet does not begin one of them again.
//!
//! ```text
//!   ring of the last `remember` heaps          ▼ next to be written over
//!   │ 41 │ 40 │ 43 │ 42 │ 44 │ 36 │ 37 │ 39 │      each has an entry in the index
//! ```
//!
//! Exactly the last `remember` are remembered, each for `remember_for`, by its whole key: what was not finished is never
//! taken for finished. A table that throws out what shares a place would need no ring, but then how long a heap is
//! remembered would be chance, and a stranger's to choose.

use super::index::{Index, Known};
use super::{HeapKey, HeapsConfig};
use crate::placement::{Nanos, Reject};

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: HeapKey,
    when: Nanos,
    complete: bool,
    forgotten: bool,
}

#[derive(Debug)]
pub(super) struct Finished {
    ring: Vec<Entry>,
    most: usize,
    keep: Nanos,
    next: usize,
    /// How many were ever finished.
    count: u64,
    /// Of this source, all before this one are forgotten.
    forgotten: (u64, u64),
}

impl Finished {
    pub(super) fn new(config: &HeapsConfig) -> Self {
        let ring = Vec::with_capacity(config.remember);
        Self { ring, most: config.remember, keep: config.remember_for, next: 0, count: 0, forgotten: (0, 0) }
    }

    /// Whether the entry at `at` is still remembered, and of `key`.
    #[inline]
    pub(super) fn is(&self, at: u32, key: HeapKey, now: Nanos) -> bool {
        let entry = self.ring[at as usize];
        entry.key == key && !entry.forgotten && now.since(entry.when) < self.keep
    }

    /// Why a packet of the heap at `at` is refused.
    pub(super) fn why(&self, at: u32) -> Reject {
        if self.ring[at as usize].complete { Reject::Duplicate } else { Reject::Late }
    }

    #[inline]
    pub(super) fn push(&mut self, key: HeapKey, complete: bool, now: Nanos, index: &mut Index) {
        if self.most == 0 {
            return;
        }
        let entry = Entry { key, when: now, complete, forgotten: false };
        self.count += 1;
        let at = Known::Finished(self.next as u32);
        match self.ring.get_mut(self.next) {
            Some(old) => {
                index.remove(old.key, at);
                *old = entry;
            }
            None => self.ring.push(entry),
        }
        index.insert(key, at, now);
        self.next = if self.next + 1 == self.most { 0 } else { self.next + 1 };
    }

    /// When the heap at `at` was finished.
    pub(super) fn when(&self, at: u32) -> Nanos {
        self.ring[at as usize].when
    }

    /// Forget all of `source`. Who asks again and again has only what was finished since looked through.
    pub(super) fn forget(&mut self, source: u64) {
        let from = if self.forgotten.0 == source { self.forgotten.1 } else { 0 };
        let since = (self.count - from).min(self.ring.len() as u64) as usize;
        // The ring up to `next`, then from its end back.
        let (newer, older) = self.ring.split_at_mut(self.next);
        for entry in newer.iter_mut().rev().chain(older.iter_mut().rev()).take(since) {
            entry.forgotten |= entry.key.source == source;
        }
        self.forgotten = (source, self.count);
    }
}
