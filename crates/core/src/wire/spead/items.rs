//! The items of a heap: which octets of its payload each of them is.
//!
//! A pointer says where its item begins. Where it ends is said by the next one, so the items can only be told when the
//! pointers of all packets are there:
//!
//! ```text
//!   pointers   0x2000 @ 4     0x1004 = 1     0x2001 @ 0     NULL @ 7
//!   payload    ┌──── 0x2001 ────┬── 0x2000 ──┬ belongs to nothing ┐
//!              0                4            7                    8
//! ```
//!
//! Order: addressed items by address, then immediate ones by value, equal ones as they arrived. So the order of arrival
//! of packets does not show. spead2 4.5.1 gives the same order.
//!
//! Limits: an item that begins beyond the heap, and one that has no octets, is not there.

use super::{Flavour, Head, id};
use std::collections::BTreeSet;
use std::ops::Range;

/// An item of a heap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RawItem {
    /// Which item.
    pub id: u64,
    /// Its value is in the pointer; otherwise it is `range` of the payload.
    pub immediate: bool,
    /// The value of an immediate item, in the flavour's bits of address; the address of another.
    pub value: u64,
    /// Its octets of the heap's payload, never empty; empty for an immediate item.
    pub range: Range<u64>,
}

/// The items of a heap of `heap_bytes` octets, from the pointers it [keeps](Flavour::keeps) (others do no harm).
#[must_use]
pub fn items(flavour: Flavour, pointers: &[u64], heap_bytes: u64) -> Vec<RawItem> {
    let mut sorted: Vec<(bool, u64, u64)> = pointers
        .iter()
        .filter(|&&pointer| flavour.keeps(pointer))
        .map(|&pointer| flavour.parts(pointer))
        .map(|item| (item.immediate, item.value, item.id))
        .collect();
    // Stable: of items with one address the last takes the octets, the others have none.
    sorted.sort_by_key(|&(immediate, value, _)| (immediate, value));
    let mut found = Vec::with_capacity(sorted.len());
    for (at, &(immediate, value, id)) in sorted.iter().enumerate() {
        let end = match sorted.get(at + 1) {
            Some(&(false, next, _)) => next.min(heap_bytes),
            _ => heap_bytes,
        };
        if immediate {
            found.push(RawItem { id, immediate, value, range: 0..0 });
        } else if id != id::NULL && value < end {
            found.push(RawItem { id, immediate, value, range: value..end });
        }
    }
    found
}

/// The pointers a heap keeps, gathered from its packets: each value once, in order of arrival.
///
/// Packets mostly carry no pointer of their own, or the same ones as the packet before: both cost a comparison each and
/// no allocation. Many different ones cost a search each, and at most [`MOST`](Self::MOST) are kept.
#[derive(Clone, Debug, Default)]
pub struct Pointers {
    list: Vec<u64>,
    /// The same, to be searched; empty while the list is short.
    index: BTreeSet<u64>,
    refused: u64,
}

impl Pointers {
    /// Pointers that are kept at most: as many as one packet can have.
    pub const MOST: usize = u16::MAX as usize;
    /// Up to here the list itself is searched.
    const SHORT: usize = 16;

    /// None yet.
    #[must_use]
    pub fn new() -> Pointers {
        Pointers::default()
    }

    /// Take those of a packet.
    #[inline]
    pub fn add(&mut self, head: &Head<'_>) {
        if !head.has_items {
            return;
        }
        // Where packets repeat pointers, the next one is the one after the last that was found.
        let mut next = 0;
        for pointer in head.kept() {
            if self.list.get(next) == Some(&pointer) {
                next += 1;
            } else {
                next = self.add_new(pointer);
            }
        }
    }

    /// Where the pointer after this one is expected.
    fn add_new(&mut self, pointer: u64) -> usize {
        if self.list.len() <= Self::SHORT {
            if let Some(at) = self.list.iter().position(|&known| known == pointer) {
                return at + 1;
            }
        } else if self.index.contains(&pointer) {
            return self.list.len();
        }
        if self.list.len() >= Self::MOST {
            self.refused += 1;
            return self.list.len();
        }
        self.list.push(pointer);
        match self.list.len() - 1 {
            Self::SHORT => self.index.extend(&self.list),
            before if before > Self::SHORT => {
                self.index.insert(pointer);
            }
            _ => {}
        }
        self.list.len()
    }

    /// None any more; keeps the memory of a short list.
    pub fn clear(&mut self) {
        self.list.clear();
        self.list.shrink_to(4 * Self::SHORT);
        self.index.clear();
        self.refused = 0;
    }

    /// All, in order of arrival, in this machine's byte order.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.list
    }

    /// How many were not kept, because there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const F: fn() -> Flavour = || Flavour::new(48).unwrap();

    /// Addressed items as (id, range), then immediate ones as (id, value).
    fn told(pointers: &[(bool, u64, u64)], bytes: u64) -> Vec<(u64, u64, u64)> {
        let of = |&(immediate, id, value): &(bool, u64, u64)| {
            if immediate { F().immediate(id, value) } else { F().addressed(id, value) }
        };
        let pointers: Vec<u64> = pointers.iter().map(of).collect();
        let shown = |i: RawItem| {
            if i.immediate { (i.id, i.value, 0) } else { (i.id, i.range.start, i.range.end) }
        };
        items(F(), &pointers, bytes).into_iter().map(shown).collect()
    }

    /// What spead2 4.5.1 tells of the same packets.
    #[test]
    fn told_as_spead2_tells_them() {
        let mixed =
            [(false, 0x2000, 4), (true, 0x1005, 3), (false, 0x2001, 0), (true, 0x1004, 1), (true, 0x1003, 2)];
        assert_eq!(
            told(&mixed, 8),
            [(0x2001, 0, 4), (0x2000, 4, 8), (0x1004, 1, 0), (0x1003, 2, 0), (0x1005, 3, 0)]
        );
        let same = [(false, 0x2000, 4), (false, 0x2001, 4), (false, 0x2002, 0), (false, 0x2003, 0)];
        assert_eq!(told(&same, 8), [(0x2003, 0, 4), (0x2001, 4, 8)]);
        assert_eq!(told(&[(false, 0x2000, 8), (false, 0x2001, 6), (false, 0, 7)], 8), [(0x2001, 6, 7)]);
        assert_eq!(told(&[(false, 1, 2), (false, 4, 5), (false, 0x2001, 0)], 8), [(0x2001, 0, 8)]);
        assert_eq!(told(&[(true, 0, 2), (true, 0, 0), (false, 0x2001, 0)], 8), [(0x2001, 0, 8)]);
        assert_eq!(told(&[(true, 6, 0), (true, 6, 2)], 8), [(6, 0, 0), (6, 2, 0)]);
    }

    #[test]
    fn beyond_the_heap_is_nothing() {
        assert_eq!(told(&[(false, 0x2000, 9), (false, 0x2001, 6), (false, 0x2002, 8)], 8), [(0x2001, 6, 8)]);
        assert_eq!(told(&[(false, 0x2000, 0)], 0), []);
    }

    fn packet(pointers: &[u64]) -> Vec<u8> {
        let f = F();
        let own = [f.immediate(1, 5), f.immediate(3, 0), f.immediate(4, 0)];
        let mut packet = vec![0x53, 4, 2, 6, 0, 0];
        packet.extend(((own.len() + pointers.len()) as u16).to_be_bytes());
        own.iter().chain(pointers).for_each(|p| packet.extend(p.to_be_bytes()));
        packet
    }

    #[test]
    fn too_many_are_counted() {
        let mut all = Pointers::new();
        for from in [0u64, 40_000] {
            let many: Vec<u64> = (from..from + 40_000).map(|n| F().addressed(0x1000, n)).collect();
            all.add(&Head::read(&packet(&many)).unwrap());
        }
        assert_eq!((all.as_slice().len(), all.refused()), (Pointers::MOST, 80_000 - Pointers::MOST as u64));
        all.clear();
        assert!(
            all.as_slice().is_empty() && all.list.capacity() <= 4 * Pointers::SHORT && all.refused() == 0
        );
    }

    proptest! {
        #[test]
        fn each_is_kept_once_in_order(packets in proptest::collection::vec(proptest::collection::vec(0u64..60, 0..40), 0..6)) {
            let mut all = Pointers::new();
            let mut model: Vec<u64> = Vec::new();
            for values in &packets {
                let pointers: Vec<u64> = values.iter().map(|&v| F().addressed(v % 9 * 0x100, v)).collect();
                all.add(&Head::read(&packet(&pointers)).unwrap());
                for pointer in pointers {
                    if !model.contains(&pointer) { model.push(pointer); }
                }
            }
            prop_assert_eq!(all.as_slice(), &model[..]);
        }

        /// Items never overlap, lie in the heap, and are sorted.
        #[test]
        fn items_do_not_overlap(pointers in proptest::collection::vec(any::<u64>(), 0..30), width in 1u8..8, bytes in 0u64..300) {
            let flavour = Flavour::new(width * 8).unwrap();
            let near: Vec<u64> = pointers.iter().map(|&p| if p & 1 == 0 { p & !(flavour.max_value() >> 8 << 8) } else { p }).collect();
            let mut end = 0;
            for item in items(flavour, &near, bytes).iter().filter(|item| !item.immediate) {
                prop_assert!(item.range.start >= end && item.range.end > item.range.start && item.range.end <= bytes);
                prop_assert_eq!(item.value, item.range.start);
                end = item.range.end;
            }
        }
    }
}
