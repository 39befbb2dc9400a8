//! Index of objects by key: one look-up finds a live object, a finished one, or neither.
//!
//! ```text
//!   entry, 8 bytes:   hash of the key, 32 bits │ finished? │ number of the slot, 31 bits        0 = nothing here
//! ```
//!
//! Open addressing: an entry whose place is taken goes to the same place of the next line, so that eight consecutive numbers whose line
//! is taken go there side by side. Removal moves those behind it back, so there are no tombstones. An entry is marked when another's
//! place is searched beyond it: one that is not marked has none to move. Equal hashes nearly always mean equal keys, so a new object
//! touches nothing else.
//!
//! ```text
//!   cache line of (source, number / 8):   │ 5 │ 6 │ 7 │ 0 │ 1 │ 2 │ 3 │ 4 │   the place of number % 8, turned by the hash
//! ```
//!
//! Eight consecutive numbers share a cache line, because senders count: at 122 000 heaps a second the index of the last second has
//! 2 MiB, and with a place of its own for each number two of its lines were fetched from memory for each heap, a fifth of the
//! receiver's time. Numbers in larger steps fill the lines one after the other. Which line is next is known as well, and can be
//! prefetched ([`ahead`](Index::ahead)).
//!
//! An attacker who can predict the hash could make all keys collide. So the hash is seeded with the arrival
//! time of the first packet: an attacker does not know it to the nanosecond, but a simulation reproduces it.

use crate::placement::{Key, Nanos};

/// What a key refers to, with the number of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Live(u32),
    Finished(u32),
}

const FINISHED: u32 = 1 << 31;
/// The golden ratio: odd, without a pattern in its bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Odd, without a pattern in their bits, and without a relation to each other.
const SECOND: u64 = 0xD6E8_FEB8_6659_FD93;
const SOURCES: u64 = 0xA076_1D64_78BD_642F;
/// In the hash of an entry: the place of another was searched beyond this one.
const PASSED: u32 = 1 << 4;

impl Known {
    #[inline]
    fn word(self) -> u32 {
        match self {
            Known::Live(at) => at,
            Known::Finished(at) => at | FINISHED,
        }
    }

    #[inline]
    fn of(word: u32) -> Self {
        if word & FINISHED == 0 { Known::Live(word) } else { Known::Finished(word & !FINISHED) }
    }
}

/// Entries of a cache line.
const LINE: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; LINE]);

#[derive(Debug)]
pub(super) struct Index {
    /// The number of entries is a power of two, and at least half of them are free.
    lines: Vec<Line>,
    /// Shift that leaves the highest bits of a hash: the number of its line.
    shift: u32,
    used: usize,
    /// Entries at each place of a line.
    at_place: [usize; LINE],
    secret: Option<u64>,
    /// The last key that was inserted.
    last: Key,
    /// If it was the first of a line, the one that is expected a line of keys later.
    ahead: Option<Key>,
}

impl Index {
    /// Room for `keys` without growing.
    pub(super) fn new(keys: usize) -> Self {
        let lines = (2 * keys).div_ceil(LINE).max(2).next_power_of_two();
        Self {
            lines: vec![Line::default(); lines],
            shift: 32 - lines.trailing_zeros(),
            used: 0,
            at_place: [0; LINE],
            secret: None,
            last: Key::default(),
            ahead: None,
        }
    }

    #[inline]
    fn size(&self) -> usize {
        self.lines.len() * LINE
    }

    /// The entry at a position, which is taken modulo their number.
    #[inline(always)]
    fn at(&self, position: usize) -> u64 {
        self.lines[(position / LINE) & (self.lines.len() - 1)].0[position % LINE]
    }

    #[inline(always)]
    fn set(&mut self, position: usize, entry: u64) {
        let mask = self.lines.len() - 1;
        self.lines[(position / LINE) & mask].0[position % LINE] = entry;
    }

    /// The hash of a key: of its line, and its place there. Never 0, so no entry is 0. Without [`PASSED`].
    #[inline(always)]
    pub(super) fn hash(&self, key: Key) -> u32 {
        let secret = self.secret.unwrap_or(GOLDEN);
        let (group, place) = (key.number / LINE as u64, key.number as u32 % LINE as u32);
        // Two rounds: with one product, some secrets sent many consecutive groups to neighbouring lines.
        let first = (group ^ secret).wrapping_mul(GOLDEN);
        let mixed = first ^ first >> 32 ^ key.source.wrapping_mul(SOURCES) ^ secret.rotate_left(32);
        let line = (mixed.wrapping_mul(SECOND) >> 32) as u32;
        line & !31 | 8 | (place.wrapping_add(line >> 5) % LINE as u32)
    }

    /// The same of the first key that is looked up, which makes `now` the seed of all hashes.
    #[inline(always)]
    pub(super) fn seeded_hash(&mut self, key: Key, now: Nanos) -> u32 {
        self.secret.get_or_insert((now.0 ^ GOLDEN).wrapping_mul(GOLDEN));
        self.hash(key)
    }

    /// Where an entry with this hash belongs.
    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize * LINE + hash as usize % LINE
    }

    /// The first entry with this hash that is `wanted`.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut wanted: impl FnMut(Known) -> bool) -> Option<Known> {
        let mut at = self.home(hash);
        loop {
            let entry = self.at(at);
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 & !PASSED == hash {
                let known = Known::of(entry as u32);
                if wanted(known) {
                    return Some(known);
                }
            }
            at += LINE;
        }
    }

    /// Insert `key`, which has this hash.
    #[inline(always)]
    pub(super) fn insert(&mut self, key: Key, hash: u32, known: Known) {
        let at_place = self.at_place[hash as usize % LINE] + 1;
        // The same place of some line is always free.
        if (self.used + 1) * 2 > self.size() || at_place * 4 > self.lines.len() * 3 {
            self.grow();
        }
        self.at_place[hash as usize % LINE] = at_place;
        self.place(hash, known.word());
        self.used += 1;
        let group = |key: Key| (key.source, key.number / LINE as u64);
        self.ahead = None;
        if group(key) != group(self.last) {
            let is_next = key.source == self.last.source;
            let step = if is_next { key.number.wrapping_sub(self.last.number) } else { 1 };
            let number = key.number.wrapping_add(step.wrapping_mul(LINE as u64));
            self.ahead = Some(Key { number, ..key });
        }
        self.last = key;
    }

    /// Where the entry of a key with this hash is, or will be: to prefetch.
    #[inline(always)]
    pub(super) fn line(&self, hash: u32) -> &[u64] {
        &self.lines[self.home(hash) / LINE].0
    }

    /// The same for the key that will be inserted eight keys after the last, if the sender counts on. `None`: the line of the last
    /// key was in use before.
    #[inline]
    pub(super) fn ahead(&self) -> Option<&[u64]> {
        self.ahead.map(|key| self.line(self.hash(key)))
    }

    #[inline]
    fn place(&mut self, hash: u32, word: u32) {
        let mut at = self.home(hash);
        loop {
            let entry = self.at(at);
            if entry == 0 {
                break;
            }
            self.set(at, entry | u64::from(PASSED) << 32);
            at += LINE;
        }
        self.set(at, u64::from(hash) << 32 | u64::from(word));
    }

    /// The number of keys, and the capacity.
    #[cfg(test)]
    pub(super) fn used_and_size(&self) -> (usize, usize) {
        (self.used, self.size())
    }

    #[cold]
    fn grow(&mut self) {
        let lines = self.lines.len() * 2;
        self.shift -= 1;
        for line in std::mem::replace(&mut self.lines, vec![Line::default(); lines]) {
            for entry in line.0.into_iter().filter(|&entry| entry != 0) {
                self.place((entry >> 32) as u32 & !PASSED, entry as u32);
            }
        }
    }

    /// Where the entry of a key with this hash that refers to `known` is, if there is one.
    #[inline(always)]
    fn position(&self, hash: u32, known: Known) -> Option<usize> {
        let entry = u64::from(hash) << 32 | u64::from(known.word());
        let mut at = self.home(hash);
        loop {
            match self.at(at) {
                0 => return None,
                here if here & !(u64::from(PASSED) << 32) == entry => return Some(at),
                _ => at += LINE,
            }
        }
    }

    /// Let the entry with this hash that refers to `known` refer to `new`. Returns whether there is one.
    #[inline]
    pub(super) fn replace(&mut self, hash: u32, known: Known, new: Known) -> bool {
        let position = self.position(hash, known);
        if let Some(at) = position {
            self.set(at, self.at(at) >> 32 << 32 | u64::from(new.word()));
        }
        position.is_some()
    }

    /// Remove the entry with this hash that refers to `known`, if there is one.
    #[inline]
    pub(super) fn remove(&mut self, hash: u32, known: Known) {
        let Some(hole) = self.position(hash, known) else { return };
        self.used -= 1;
        self.at_place[hash as usize % LINE] -= 1;
        if self.at(hole) & u64::from(PASSED) << 32 == 0 {
            self.set(hole, 0);
        } else {
            self.close_up(hole);
        }
    }

    /// Let the following entries move into the hole, unless it lies before their home.
    #[inline]
    fn close_up(&mut self, mut hole: usize) {
        let mask = self.size() - 1;
        let mut at = hole & mask;
        loop {
            at = (at + LINE) & mask;
            let entry = self.at(at);
            if entry == 0 {
                break;
            }
            let home = self.home((entry >> 32) as u32);
            if home != at && at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                // Others may have passed over the hole, too.
                self.set(hole, entry | u64::from(PASSED) << 32);
                hole = at;
            }
        }
        self.set(hole, 0);
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
            let mut map: BTreeMap<u64, Known> = BTreeMap::new();
            // Neighbours, and numbers in large steps.
            let key = |n: u64| Key { source: n % 3, number: if n < 20 { n } else { n << 40 } };
            for (n, insert) in steps {
                // Live, then finished, then removed.
                let (live, finished) = (Known::Live(n as u32), Known::Finished(n as u32));
                match map.get(&n) {
                    None if insert => {
                        map.insert(n, live);
                        let hash = index.seeded_hash(key(n), Nanos(first));
                        index.insert(key(n), hash, live);
                    }
                    known if insert => {
                        prop_assert_eq!(index.replace(index.hash(key(n)), live, finished), known == Some(&live));
                        map.insert(n, finished);
                    }
                    known => {
                        index.remove(index.hash(key(n)), known.copied().unwrap_or(live));
                        map.remove(&n);
                    }
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
