//! The objects that retired last, so that a late or duplicate packet does not begin one of them again.
//!
//! ```text
//!   ring of the last `remember` objects          ▼ next to be overwritten
//!   │ 41 │ 40 │ 43 │ 42 │ 44 │ 36 │ 37 │ 39 │      each has an entry in the index
//! ```
//!
//! Exactly the last `remember` objects are remembered by their whole key, each for `remember_for` and at most
//! a quarter of its counter's period, so a new object is never taken for a finished one. A table that evicts
//! on collision would need no ring, but then the time for which an object is remembered would depend on
//! chance, and an attacker could choose it.

use super::config::KeyedConfig;
use super::index::{Index, Known};
use super::laps::{Laps, Turn};
use crate::placement::{Key, Nanos, Reject};

/// See [`Keyed::RESTART`](super::Keyed::RESTART).
pub(super) const RESTART: Nanos = Nanos(100_000_000);

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    key: Key,
    when: Nanos,
    bytes: u64,
    /// Bytes rejected since the object last arrived again in full.
    refused: u64,
    turn: Turn,
    complete: bool,
    forgotten: bool,
    /// It may still lose to a rival: see [`contest`](super::contest).
    held: bool,
    contested: bool,
}

impl Entry {
    #[inline]
    pub(super) fn new(key: Key, complete: bool, bytes: u64, turn: Turn, now: Nanos) -> Self {
        let (forgotten, held, contested) = Default::default();
        Self { key, when: now, bytes, refused: 0, turn, complete, forgotten, held, contested }
    }

    /// The same entry for an object that may still lose to a rival.
    pub(super) fn held(self) -> Self {
        Self { held: true, ..self }
    }
}

#[derive(Debug)]
pub(super) struct Finished {
    ring: Vec<Entry>,
    most: usize,
    keep: Nanos,
    next: usize,
    /// Total number of finished objects.
    count: u64,
    /// Source and count of the last call of `forget`: all older objects of that source are forgotten.
    forgotten: (u64, u64),
    /// Objects that arrived again in full.
    pub(super) repeated: u64,
}

impl Finished {
    pub(super) fn new(config: &KeyedConfig) -> Self {
        let ring = Vec::with_capacity(config.remember);
        let (most, keep) = (config.remember, config.remember_for);
        Self { ring, most, keep, next: 0, count: 0, forgotten: (0, 0), repeated: 0 }
    }

    /// Whether the entry at `at` has this `key` and is still remembered.
    #[inline]
    pub(super) fn is(&self, at: u32, key: Key, now: Nanos, laps: &Laps) -> bool {
        let entry = &self.ring[at as usize];
        entry.key == key
            && !entry.forgotten
            && now.since(entry.when) < self.keep
            && !laps.is_forgotten(key.source, entry.turn)
    }

    /// Whether a packet that states `size` belongs to the object at `at`. While that is held, another size is a rival.
    #[inline]
    pub(super) fn may_be(&self, at: u32, size: u64) -> bool {
        let entry = &self.ring[at as usize];
        !entry.held || entry.bytes == size
    }

    /// Whether the object at `at` had another size.
    pub(super) fn differs(&self, at: u32, size: u64) -> bool {
        self.ring[at as usize].bytes != size
    }

    /// A rival of the object at `at` has arrived.
    pub(super) fn contest(&mut self, at: u32) {
        self.ring[at as usize].contested = true;
    }

    /// The object at `at` is no longer held. Returns whether it was contested; `false` if its entry has been
    /// overwritten.
    pub(super) fn release(&mut self, at: u32, key: Key) -> bool {
        let entry = &mut self.ring[at as usize];
        entry.key == key && std::mem::take(&mut entry.held) && entry.contested
    }

    /// Another object with this key begins: forget the entry at `at` if it has this key.
    pub(super) fn give_way(&mut self, at: u32, key: Key) {
        let entry = &mut self.ring[at as usize];
        entry.forgotten |= entry.key == key;
    }

    /// Reject a packet with `bytes` of the object at `at`; returns the reason.
    #[cold]
    pub(super) fn refuse(&mut self, at: u32, bytes: u64, now: Nanos, laps: &mut Laps) -> Reject {
        let entry = &mut self.ring[at as usize];
        // One packet is all of an empty object.
        entry.refused = entry.refused.saturating_add(bytes.max(1));
        if entry.refused >= entry.bytes {
            entry.refused = 0;
            laps.again(entry.key, entry.turn);
            // Duplicates made by a network arrive sooner.
            self.repeated += u64::from(now.since(entry.when) >= RESTART);
        }
        if entry.complete { Reject::Duplicate } else { Reject::Late }
    }

    /// Returns its index.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, index: &mut Index) -> u32 {
        if self.most == 0 {
            return 0;
        }
        let (key, now) = (entry.key, entry.when);
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
        let here = self.next as u32;
        self.next = if self.next + 1 == self.most { 0 } else { self.next + 1 };
        here
    }

    /// When the object at `at` was finished.
    pub(super) fn when(&self, at: u32) -> Nanos {
        self.ring[at as usize].when
    }

    /// Forget all objects of `source`. Repeated calls only search the objects finished since the last one.
    pub(super) fn forget(&mut self, source: u64) {
        let from = if self.forgotten.0 == source { self.forgotten.1 } else { 0 };
        let since = (self.count - from).min(self.ring.len() as u64) as usize;
        // From newest to oldest: back from `next`, then back from the end of the ring.
        let (newer, older) = self.ring.split_at_mut(self.next);
        for entry in newer.iter_mut().rev().chain(older.iter_mut().rev()).take(since) {
            entry.forgotten |= entry.key.source == source;
        }
        self.forgotten = (source, self.count);
    }
}
