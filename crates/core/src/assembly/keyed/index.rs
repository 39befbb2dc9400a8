//! From a key to what is known of it: one look-up finds a live object, a finished one, or that there is neither.
//!
//! ```text
//!   entry, 8 bytes:   hash of the key, 32 bits │ finished? │ number of the slot, 31 bits        0 = nothing here
//! ```
//!
//! Open addressing with linear probing: eight neighbours share a cache line, and equal hashes are nearly always equal
//! keys, so that a new object touches nothing else. Removal moves the neighbours back: there are no tombstones to gather.
//!
//! Who knew the hash could make all keys neighbours and each look-up a walk. So the hash has a secret: the moment at which
//! the first packet came, which a stranger does not know to the nanosecond and a simulation repeats.

use crate::placement::{Key, Nanos};

/// What a key leads to, with the number of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Live(u32),
    Finished(u32),
}

const FINISHED: u32 = 1 << 31;
/// Odd, with no pattern in its bits: the golden ratio.
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
    /// A power of two of them, never full.
    entries: Vec<u64>,
    /// A hash has its home at its highest bits.
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

    /// The hash of a key. Never 0, so that no entry is.
    #[inline]
    pub(super) fn hash(&self, key: Key) -> u32 {
        let secret = self.secret.unwrap_or(GOLDEN);
        let source = key.source.wrapping_mul(GOLDEN) ^ secret.rotate_left(32);
        let product = u128::from(key.number ^ secret) * u128::from(source | 1);
        (((product >> 64) as u64 ^ product as u64) >> 32) as u32 | 1
    }

    /// What the entries with this hash lead to, the first that is `wanted`.
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

    /// Note where `key` leads; `now` becomes the secret if it is the first.
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

    /// How many keys lead somewhere, and for how many there is memory.
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

    /// Forget that `key` leads there. Nothing happens if it does not.
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
        // What follows moves into the hole, unless that lies before its home.
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
        /// Small, so that neighbours are many; the order of insertions and removals is any.
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
