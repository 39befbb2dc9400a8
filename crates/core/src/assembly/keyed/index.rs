//! Index of objects by key: one look-up finds a live object, a finished one, or neither.
//!
//! ```text
//!   entry, 8 bytes:   hash of the key, 32 bits │ finished? │ number of the slot, 31 bits        0 = nothing here
//! ```
//!
//! Open addressing with linear probing: eight neighbours share a cache line, and equal hashes nearly always
//! mean equal keys, so a new object touches nothing else. Removal moves the neighbours back: there are no
//! tombstones.
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
