//! The items of a heap, with their bytes of the payload.
//!
//! A pointer states where its item begins; the item ends where the next one begins. So the items are known only when the
//! pointers of all packets have arrived:
//!
//! ```text
//!   pointers   0x2000 @ 4     0x1004 = 1     0x2001 @ 0     NULL @ 7
//!   payload    ┌──── 0x2001 ────┬── 0x2000 ──┬ belongs to nothing ┐
//!              0                4            7                    8
//! ```
//!
//! Order: addressed items by address, then immediate ones by value, equal ones in order of arrival. So the order does not
//! depend on that of the packets. spead2 4.5.1 gives the same order.
//!
//! Limits: items that begin beyond the heap ([`outside`]), and items without bytes, are omitted.

use super::{Flavour, Item, id};
use std::ops::Range;

/// An item of a heap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RawItem {
    /// Id of the item.
    pub id: u64,
    /// Its value is in the pointer; otherwise it is `range` of the payload.
    pub immediate: bool,
    /// The value of an immediate item, in the flavour's address bits; the address of another item.
    pub value: u64,
    /// Its bytes of the heap's payload, never empty; empty for an immediate item.
    pub range: Range<u64>,
}

/// The items of a heap of `heap_bytes`, from the pointers it [keeps](Flavour::keeps) (others are ignored).
#[must_use]
pub fn items(flavour: Flavour, pointers: &[u64], heap_bytes: u64) -> Vec<RawItem> {
    let mut sorted: Vec<(bool, u64, u64)> = pointers
        .iter()
        .filter(|&&pointer| flavour.keeps(pointer))
        .map(|&pointer| flavour.parts(pointer))
        .map(|item| (item.immediate, item.value, item.id))
        .collect();
    // Stable: of several items with one address, the last gets the bytes, the others have none.
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

/// The items that begin beyond the end of a heap of `heap_bytes`, which [`items`] omits: (id, address).
pub fn outside(flavour: Flavour, pointers: &[u64], heap_bytes: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    let parts = pointers.iter().map(move |&pointer| flavour.parts(pointer));
    parts.filter(move |item| is_outside(item, heap_bytes)).map(|item| (item.id, item.value))
}

/// Whether it begins beyond the end of a heap of `heap_bytes`.
#[inline]
pub(super) fn is_outside(item: &Item, heap_bytes: u64) -> bool {
    !item.immediate && item.id != id::NULL && item.value > heap_bytes
}

/// The last of [`items`] with this id, found without a list of the others.
#[must_use]
pub fn item(flavour: Flavour, pointers: &[u64], heap_bytes: u64, id: u64) -> Option<RawItem> {
    let kept =
        || pointers.iter().filter(|&&pointer| flavour.keeps(pointer)).map(|&pointer| flavour.parts(pointer));
    if let Some(value) = kept().filter(|item| item.immediate && item.id == id).map(|item| item.value).max() {
        return Some(RawItem { id, immediate: true, value, range: 0..0 });
    }
    let begins = kept().enumerate().filter(|(_, item)| !item.immediate && item.id == id && id != id::NULL);
    let found = begins.filter_map(|(at, item)| {
        let others = kept().enumerate().filter(|(_, other)| !other.immediate);
        // Of several with one address, the last gets the bytes.
        let next = others
            .filter(|(n, other)| (other.value, *n) > (item.value, at))
            .map(|(_, other)| other.value)
            .min();
        let end = next.unwrap_or(heap_bytes).min(heap_bytes);
        (item.value < end).then_some(item.value..end)
    });
    let range = found.max_by_key(|range| range.start)?;
    Some(RawItem { id, immediate: false, value: range.start, range })
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

    /// The items that spead2 4.5.1 reports for the same packets.
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

    proptest! {
        /// One item is the last of its id in the list.
        #[test]
        fn one_item_is_as_in_the_list(told in proptest::collection::vec((any::<bool>(), 0u64..6, 0u64..20), 0..12), bytes in 0u64..24) {
            let of = |&(immediate, id, value): &(bool, u64, u64)| {
                let id = if id == 5 { 0 } else { 0x1000 + id };
                if immediate { F().immediate(id, value) } else { F().addressed(id, value) }
            };
            let pointers: Vec<u64> = told.iter().map(of).collect();
            for id in [0, 0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x2000] {
                let last = items(F(), &pointers, bytes).into_iter().rfind(|item| item.id == id);
                prop_assert_eq!(item(F(), &pointers, bytes, id), last);
            }
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
