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

    /// Returns its number.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, index: &mut Index) -> u32 {
        if self.most == 0 {
            return 0;
        }
        let (key, now) = (entry.key, entry.when);
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
            index.remove(oldest.key, Known::Finished(self.first));
            self.entries.pop_front();
            self.first = (self.first + 1) % NUMBERS;
        }
        let here = ((u64::from(self.first) + self.entries.len() as u64) % u64::from(NUMBERS)) as u32;
        self.entries.push_back(entry);
        index.insert(key, Known::Finished(here), now);
        here
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

/// What a key refers to, with the number of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Live(u32),
    Finished(u32),
}

impl Known {
    fn word(self) -> u32 {
        match self {
            Known::Live(at) => at,
            Known::Finished(at) => at | FINISHED,
        }
    }

    fn of(word: u32) -> Self {
        if word & FINISHED == 0 { Known::Live(word) } else { Known::Finished(word & !FINISHED) }
    }
}

const FINISHED: u32 = 1 << 31;
/// The golden ratio: odd, without a pattern in its bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Index of objects by key: one look-up finds a live object, a finished one, or neither.
///
/// ```text
///   entry, 8 bytes:   hash of the key, 32 bits │ finished? │ number of the slot, 31 bits        0 = nothing here
/// ```
///
/// Open addressing with linear probing: eight neighbours share a cache line, and equal hashes nearly always
/// mean equal keys, so a new object touches nothing else. Removal moves the neighbours back: there are no
/// tombstones.
///
/// An attacker who can predict the hash could make all keys collide. So the hash is seeded with the arrival
/// time of the first packet: an attacker does not know it to the nanosecond, but a simulation reproduces it.
#[derive(Debug)]
pub(super) struct Index {
    /// Their number is a power of two, and some are always free.
    entries: Vec<u64>,
    /// Shift that leaves the highest bits of a hash: its home position.
    shift: u32,
    used: usize,
    secret: Option<u64>,
}

impl Index {
    /// Room for `keys` without growing.
    pub(super) fn new(keys: usize) -> Self {
        let size = (keys + keys / 2).max(16).next_power_of_two();
        Self { entries: vec![0; size], shift: 32 - size.trailing_zeros(), used: 0, secret: None }
    }

    /// The hash of a key; never 0, so no entry is 0.
    #[inline]
    pub(super) fn hash(&self, key: Key) -> u32 {
        let secret = self.secret.unwrap_or(GOLDEN);
        let source = key.source.wrapping_mul(GOLDEN) ^ secret.rotate_left(32);
        let product = u128::from(key.number ^ secret) * u128::from(source | 1);
        (((product >> 64) as u64 ^ product as u64) >> 32) as u32 | 1
    }

    /// The first entry with this hash that is `wanted`.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut wanted: impl FnMut(Known) -> bool) -> Option<Known> {
        let mask = self.entries.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let entry = self.entries[at & mask];
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == hash {
                let known = Known::of(entry as u32);
                if wanted(known) {
                    return Some(known);
                }
            }
            at += 1;
        }
    }

    /// Insert `key`; if it is the first, `now` becomes the seed of the hash.
    #[inline]
    pub(super) fn insert(&mut self, key: Key, known: Known, now: Nanos) {
        self.secret.get_or_insert((now.0 ^ GOLDEN).wrapping_mul(GOLDEN));
        if (self.used + 1) * 3 > self.entries.len() * 2 {
            self.grow();
        }
        self.place(u64::from(self.hash(key)) << 32 | u64::from(known.word()));
        self.used += 1;
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mask = self.entries.len() - 1;
        let mut at = (entry >> 32 >> self.shift) as usize & mask;
        while self.entries[at] != 0 {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    /// The number of keys, and the capacity.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.used, self.entries.len())
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.entries.len() * 2;
        self.shift -= 1;
        for entry in std::mem::replace(&mut self.entries, vec![0; size]) {
            if entry != 0 {
                self.place(entry);
            }
        }
    }

    /// Remove the entry of `key` that refers to `known`, if there is one.
    #[inline]
    pub(super) fn remove(&mut self, key: Key, known: Known) {
        let mask = self.entries.len() - 1;
        let hash = self.hash(key);
        let entry = u64::from(hash) << 32 | u64::from(known.word());
        let mut hole = (hash >> self.shift) as usize & mask;
        while self.entries[hole] != entry {
            if self.entries[hole] == 0 {
                return;
            }
            hole = (hole + 1) & mask;
        }
        self.used -= 1;
        // The following entries move into the hole, unless it lies before their home.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry == 0 {
                break;
            }
            let home = (entry >> 32 >> self.shift) as usize;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = 0;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// A small index, so that many keys are neighbours; insertions and removals in any order.
        #[test]
        fn it_is_a_map(first in any::<u64>(), steps in proptest::collection::vec((0u64..40, any::<bool>()), 0..400)) {
            let mut index = Index::new(4);
            let mut map = BTreeMap::new();
            let key = |n: u64| Key { source: n % 3, number: n << 40 };
            for (n, insert) in steps {
                let known = if n % 2 == 0 { Known::Live(n as u32) } else { Known::Finished(n as u32) };
                if insert && map.insert(n, known).is_none() {
                    index.insert(key(n), known, Nanos(first));
                } else if !insert {
                    map.remove(&n);
                    index.remove(key(n), known);
                }
                prop_assert_eq!(index.used, map.len());
                for n in 0..40 {
                    let at = index.find(index.hash(key(n)), |k| matches!(k, Known::Live(at) | Known::Finished(at) if at == n as u32));
                    prop_assert_eq!(at, map.get(&n).copied());
                }
            }
        }
    }
}
