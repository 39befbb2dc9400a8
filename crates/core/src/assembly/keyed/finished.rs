//! The objects that retired last, so that a late or duplicate packet does not begin one of them again.
//!
//! ```text
//!   oldest ─▶ │ 36 │ 37 │ 39 │ 41 │ 40 │ 43 │ 42 │ 44 │ ◀─ newest      each has an entry in the index
//!               └─ leaves when `remember_for` is over
//! ```
//!
//! Each object is remembered by its whole key, for `remember_for` and at most a quarter of its counter's period, so a new
//! object is never taken for a finished one. The queue grows with the rate of objects, up to `remember` of them: only beyond
//! that is one forgotten before its time, and counted. A table that evicts on collision would need no queue, but then the
//! time for which an object is remembered would depend on chance, and an attacker could choose it.

use super::KeyedConfig;
use super::index::{Index, Known};
use crate::placement::{Key, Nanos, Reject};
use std::collections::{BTreeMap, VecDeque};

/// Entries that there is room for from the beginning.
pub(super) const PREPARED: usize = 4096;
/// Entries are numbered modulo this, which an index entry has room for.
pub(super) const NUMBERS: u32 = 1 << 31;
/// Most entries that leave when one comes: so the queue shrinks again, and no packet waits for that.
const LEAVE: usize = 2;

/// See [`KeyedWindow::RESTART`](super::KeyedWindow::RESTART).
pub(super) const RESTART: Nanos = Nanos(100_000_000);

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    key: Key,
    when: Nanos,
    bytes: u64,
    /// Bytes rejected since the object last arrived again in full.
    refused: u64,
    turn: Turn,
    /// Of its key, in the index.
    hash: u32,
    complete: bool,
    forgotten: bool,
    /// It may still lose to a rival: see [`contest`](super::contest).
    held: bool,
    contested: bool,
}

impl Entry {
    #[inline]
    pub(super) fn new((key, hash): (Key, u32), complete: bool, bytes: u64, turn: Turn, now: Nanos) -> Self {
        let (forgotten, held, contested) = Default::default();
        Self { key, when: now, bytes, refused: 0, turn, hash, complete, forgotten, held, contested }
    }

    /// The same entry for an object that may still lose to a rival.
    pub(super) fn held(self) -> Self {
        Self { held: true, ..self }
    }
}

#[derive(Debug)]
pub(super) struct Finished {
    entries: VecDeque<Entry>,
    /// The number of the oldest.
    first: u32,
    most: usize,
    keep: Nanos,
    /// Total number of finished objects.
    count: u64,
    /// Source and count of the last call of `forget`: all older objects of that source are forgotten.
    forgotten: (u64, u64),
    /// Objects that arrived again in full.
    pub(super) repeated: u64,
    /// Objects that were forgotten before their time, because `most` newer ones were finished.
    pub(super) forgotten_early: u64,
}

impl Finished {
    pub(super) fn new(config: &KeyedConfig) -> Self {
        let entries = VecDeque::with_capacity(config.remember.min(PREPARED));
        let (most, keep) = (config.remember, config.remember_for);
        let (first, count, forgotten, repeated, forgotten_early) = Default::default();
        Self { entries, first, most, keep, count, forgotten, repeated, forgotten_early }
    }

    /// The place of the entry with this number; beyond the end if it has left.
    #[inline]
    fn place(&self, at: u32) -> usize {
        (at.wrapping_sub(self.first) % NUMBERS) as usize
    }

    /// An entry that the index has.
    #[inline]
    fn entry(&self, at: u32) -> &Entry {
        &self.entries[self.place(at)]
    }

    fn entry_mut(&mut self, at: u32) -> Option<&mut Entry> {
        let place = self.place(at);
        self.entries.get_mut(place)
    }

    /// Whether the entry at `at` has this `key` and is still remembered.
    #[inline]
    pub(super) fn is(&self, at: u32, key: Key, now: Nanos, laps: &Laps) -> bool {
        let entry = self.entry(at);
        entry.key == key
            && !entry.forgotten
            && (entry.held || now.since(entry.when) < self.keep)
            && !laps.is_forgotten(key.source, entry.turn)
    }

    /// Whether a packet that states `size` belongs to the object at `at`. While that is held, another size is a rival.
    #[inline]
    pub(super) fn may_be(&self, at: u32, size: u64) -> bool {
        let entry = self.entry(at);
        !entry.held || entry.bytes == size
    }

    /// Whether the object at `at` had another size.
    pub(super) fn differs(&self, at: u32, size: u64) -> bool {
        self.entry(at).bytes != size
    }

    /// A rival of the object at `at` has arrived.
    pub(super) fn contest(&mut self, at: u32) {
        if let Some(entry) = self.entry_mut(at) {
            entry.contested = true;
        }
    }

    /// Whether the entry at `at` is of a held object with this `key`.
    pub(super) fn is_held(&self, at: u32, key: Key) -> bool {
        let entry = self.entry(at);
        entry.held && entry.key == key
    }

    /// Whether the entry at `at` has left, so that rivals of its object are no longer recognised.
    pub(super) fn has_left(&self, at: u32) -> bool {
        self.place(at) >= self.entries.len()
    }

    /// The one of two entries that was finished first.
    pub(super) fn earlier(&self, one: u32, other: u32) -> u32 {
        if self.place(other) < self.place(one) { other } else { one }
    }

    /// Whether a rival of the object at `at` may have arrived.
    pub(super) fn is_contested(&self, at: u32) -> bool {
        self.entries.get(self.place(at)).is_none_or(|entry| entry.contested)
    }

    /// The object at `at` is no longer held. If it was contested, it is remembered from now on, as if its last packet came
    /// now: those of its rivals may still come.
    pub(super) fn release(&mut self, at: u32, now: Nanos) {
        if let Some(entry) = self.entry_mut(at) {
            entry.held = false;
            entry.when = if entry.contested { now } else { entry.when };
        }
    }

    /// The held object at `at` has lost.
    pub(super) fn lose(&mut self, at: u32) {
        if let Some(entry) = self.entry_mut(at) {
            (entry.held, entry.forgotten) = (false, true);
        }
    }

    /// Another object with this key begins: forget the entry at `at` if it has this key.
    pub(super) fn give_way(&mut self, at: u32, key: Key) {
        if let Some(entry) = self.entry_mut(at) {
            entry.forgotten |= entry.key == key;
        }
    }

    /// Reject a packet with `bytes` of the object at `at`; returns the reason.
    #[cold]
    pub(super) fn refuse(&mut self, at: u32, bytes: u64, now: Nanos, laps: &mut Laps) -> Reject {
        let place = self.place(at);
        let entry = &mut self.entries[place];
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

    /// Remember an object, whose entry in the index refers to `live` if it was under construction. Returns its number.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, live: Option<Known>, index: &mut Index) -> u32 {
        if self.most == 0 {
            live.into_iter().for_each(|live| index.remove(entry.hash, live));
            return 0;
        }
        let Entry { key, hash, when: now, .. } = entry;
        self.count += 1;
        for _ in 0..LEAVE {
            let is_full = self.entries.len() >= self.most;
            let Some(oldest) = self.entries.front() else { break };
            let is_due = oldest.forgotten || now.since(oldest.when) >= self.keep;
            // One that waits to be contradicted has its entry for as long as there is room.
            if !is_full && (!is_due || oldest.held) {
                break;
            }
            self.forgotten_early += u64::from(!is_due);
            index.remove(oldest.hash, Known::Finished(self.first));
            self.entries.pop_front();
            self.first = (self.first + 1) % NUMBERS;
        }
        let here = ((u64::from(self.first) + self.entries.len() as u64) % u64::from(NUMBERS)) as u32;
        let known = Known::Finished(here);
        if !live.is_some_and(|live| index.replace(hash, live, known)) {
            index.insert(key, hash, known);
        }
        self.entries.push_back(entry);
        here
    }

    /// The hash of an object that will soon be forgotten, as are all that are remembered for long enough.
    #[inline]
    pub(super) fn leaves_soon(&self) -> Option<u32> {
        const AHEAD: usize = 8;
        self.entries.get(AHEAD).map(|entry| entry.hash)
    }

    /// When the object at `at` was finished.
    pub(super) fn when(&self, at: u32) -> Nanos {
        self.entry(at).when
    }

    /// Forget all objects of `source`. Repeated calls only search the objects finished since the last one.
    pub(super) fn forget(&mut self, source: u64) {
        let from = if self.forgotten.0 == source { self.forgotten.1 } else { 0 };
        let since = (self.count - from).min(self.entries.len() as u64) as usize;
        for entry in self.entries.iter_mut().rev().take(since) {
            entry.forgotten |= entry.key.source == source;
        }
        self.forgotten = (source, self.count);
    }
}

/// Counters of more bits do not wrap around while an object is remembered.
const FEW: u8 = 32;
/// The step between counters is measured over this many objects, in the current stretch and the previous one.
const STRETCH: u32 = 16;
/// With this many steps, two may lead to an object out of sequence and back: a control object or a forged
/// one.
const ENOUGH: u32 = 8;
const OUT_OF_ROW: u32 = 2;

/// The position of an object among those of its source, where counters wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    number: u32,
    /// Bits of its counter; 0: it never wraps around.
    bits: u8,
}

impl Turn {
    /// Whether its counter wraps around.
    #[inline]
    pub(super) fn is_counted(self) -> bool {
        self.bits != 0
    }
}

/// A source whose counters have few bits.
#[derive(Debug)]
struct Lap {
    /// Objects begun.
    count: u32,
    /// Objects that arrived again in full, and were rejected, since the last one began.
    refused: u32,
    last: u64,
    /// Number of steps that left the lowest n bits unchanged, in this stretch and the previous one.
    still: [[u8; FEW as usize]; 2],
}

impl Lap {
    fn begin(&mut self, counter: u64) {
        let differ = counter ^ self.last;
        if let Some(steps) = self.still[0].get_mut(differ.trailing_zeros() as usize) {
            *steps += 1;
        }
        self.count = self.count.wrapping_add(1);
        (self.last, self.refused) = (counter, 0);
        if self.count.is_multiple_of(STRETCH) {
            self.still = [[0; FEW as usize], self.still[0]];
        }
    }

    /// Objects until a counter is used again.
    fn heaps(&self, bits: u8) -> u64 {
        let steps = || self.still[0].iter().zip(&self.still[1]).map(|(a, b)| u32::from(a + b));
        let ignored = if steps().sum::<u32>() >= ENOUGH { OUT_OF_ROW } else { 0 };
        let seen = steps().scan(0, |seen, steps| {
            *seen += steps;
            Some(*seen)
        });
        let still =
            { seen }.position(|seen| seen > ignored).unwrap_or(usize::from(bits)).min(usize::from(bits));
        1 << (usize::from(bits) - still)
    }
}

/// The sources whose counters wrap around, with the number of bits that their packets state.
///
/// Counters of few bits wrap around; then a new object has the counter of a finished one.
///
/// ```text
///   8 bits, in steps of 1:   0 ─── 64 ─── 128 ─── 192 ─── 255 ─ 0     a lap of 256 objects
///                  in steps of 4:   0, 4, 8, … 252, 0                 a lap of 64
///                                   ◀ ¼ ▶ remembered   ◀── ½ ──▶ may be under construction
/// ```
///
/// A packet delayed by the network is a few objects late; a reused counter is a whole lap late. A quarter of
/// a lap separates the two. It is counted in objects that the source began, not in the distance of counters:
/// several senders may share a source, and one object with a distant (or forged) counter must not discard the
/// memory of the others.
#[derive(Debug, Default)]
pub(super) struct Laps {
    sources: BTreeMap<(u64, u8), Lap>,
}

impl Laps {
    /// A finished object arrived again in full and was rejected. If only such objects arrive, they count as
    /// begun, because otherwise the source would be rejected for ever; duplicates made by a network are
    /// interleaved with new objects.
    pub(super) fn again(&mut self, key: Key, turn: Turn) {
        if let Some(lap) = self.sources.get_mut(&(key.source, turn.bits)) {
            let refused = lap.refused.saturating_add(1);
            if refused > STRETCH {
                lap.begin(key.number);
            }
            lap.refused = refused;
        }
    }

    /// An object begins.
    #[inline]
    pub(super) fn begin(&mut self, key: Key, bits: u8) -> Turn {
        if bits == 0 || bits > FEW { Turn::default() } else { self.count(key, bits) }
    }

    #[cold]
    fn count(&mut self, key: Key, bits: u8) -> Turn {
        let fresh = || Lap { count: 0, refused: 0, last: key.number, still: [[0; FEW as usize]; 2] };
        let lap = self.sources.entry((key.source, bits)).or_insert_with(fresh);
        lap.begin(key.number);
        Turn { number: lap.count, bits }
    }

    /// Whether a finished object is so old that its counter may now belong to a new object.
    #[inline]
    pub(super) fn is_forgotten(&self, source: u64, turn: Turn) -> bool {
        turn.bits != 0 && self.is_back(source, turn, 4)
    }

    /// Whether an object under construction is so old that a packet with its counter belongs to a new one.
    #[inline]
    pub(super) fn is_given_up(&self, source: u64, turn: Turn) -> bool {
        turn.bits != 0 && self.is_back(source, turn, 2)
    }

    /// Whether it began at least 1/`part` of a lap ago.
    #[cold]
    fn is_back(&self, source: u64, turn: Turn, part: u64) -> bool {
        let Some(lap) = self.sources.get(&(source, turn.bits)) else { return false };
        u64::from(lap.count.wrapping_sub(turn.number)) >= (lap.heaps(turn.bits) / part).max(1)
    }
}
