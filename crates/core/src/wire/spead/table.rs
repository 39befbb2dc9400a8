//! The places of heaps in stored packets, found from the heads alone, without reading payloads.
//!
//! ```text
//!   file    │ head 7 │ payload │ head 8 │ payload, up to a gap │ head 8 │ payload after it │ head 9 │ …
//!   table   heap 7: pointers, one part    heap 8: pointers, two parts: (place in the file, offset in the heap, length)
//! ```
//!
//! A packet continues the heap before it if it has the same counter, and if the recorder could have written it that
//! way: its payload comes after the existing part of the heap, the heap is incomplete, and no item pointer follows
//! payload. So two heaps with one counter, from a restarted sender or from two senders, stay separate.

use super::{Flavour, Head, RawItem, items};
use std::ops::Range;

/// Where a part of a heap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file, as a number of the caller's.
    pub file: u32,
    /// Its first byte in the file.
    pub at: u64,
    /// Where it belongs in the heap.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Part {
    /// One past its last byte in the heap.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    counter: u64,
    flavour: Flavour,
    size: Option<u64>,
    /// Where its parts and its pointers begin; they end where those of the next one begin.
    parts: usize,
    pointers: usize,
}

/// The heaps of consecutive packets.
#[derive(Clone, Debug, Default)]
pub struct Table {
    heaps: Vec<Entry>,
    parts: Vec<Part>,
    pointers: Vec<u64>,
}

impl Table {
    /// Add the next packet, whose payload is at `at` of file `file`.
    pub fn add(&mut self, head: &Head<'_>, file: u32, at: u64) {
        if !self.is_continued_by(head) {
            let (parts, pointers) = (self.parts.len(), self.pointers.len());
            let Head { counter, flavour, size, .. } = *head;
            self.heaps.push(Entry { counter, flavour, size, parts, pointers });
        }
        if let Some(heap) = self.heaps.last_mut() {
            heap.size = heap.size.or(head.size);
        }
        if head.length > 0 {
            self.parts.push(Part { file, at, offset: head.offset, length: head.length });
        }
        if head.has_items {
            self.pointers.extend(head.kept());
        }
    }

    /// Whether a packet with this head belongs to the last heap.
    #[must_use]
    pub fn is_continued_by(&self, head: &Head<'_>) -> bool {
        let Some(heap) = self.len().checked_sub(1).and_then(|last| self.heap(last)) else { return false };
        let is_same = (heap.counter, heap.flavour) == (head.counter, head.flavour);
        let end = heap.parts.last().map_or(0, Part::end);
        let fits = head.offset >= end
            && heap.size.zip(head.size).is_none_or(|(one, other)| one == other)
            && heap.size.is_none_or(|size| end < size && head.offset + head.length <= size);
        is_same && fits && (heap.parts.is_empty() || !head.has_items || head.kept().next().is_none())
    }

    /// Number of heaps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heaps.len()
    }

    /// Whether it has no heaps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heaps.is_empty()
    }

    /// Its size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.heaps.capacity() * size_of::<Entry>()
            + self.parts.capacity() * size_of::<Part>()
            + self.pointers.capacity() * size_of::<u64>()
    }

    /// Release memory that is not in use: no packet follows.
    pub fn shrink(&mut self) {
        self.heaps.shrink_to_fit();
        self.parts.shrink_to_fit();
        self.pointers.shrink_to_fit();
    }

    /// A heap, by its place.
    #[must_use]
    pub fn heap(&self, number: usize) -> Option<StoredHeap<'_>> {
        let (this, next) = (self.heaps.get(number)?, self.heaps.get(number + 1));
        let parts = this.parts..next.map_or(self.parts.len(), |next| next.parts);
        let pointers = this.pointers..next.map_or(self.pointers.len(), |next| next.pointers);
        Some(StoredHeap {
            counter: this.counter,
            flavour: this.flavour,
            size: this.size,
            parts: self.parts.get(parts)?,
            pointers: self.pointers.get(pointers)?,
        })
    }
}

/// A heap of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct StoredHeap<'a> {
    /// Its counter.
    pub counter: u64,
    /// How its pointers divide.
    pub flavour: Flavour,
    /// Bytes of its payload, if a packet states them.
    pub size: Option<u64>,
    /// What there is of its payload, ascending and disjoint.
    pub parts: &'a [Part],
    /// Its item pointers, in native byte order.
    pub pointers: &'a [u64],
}

impl StoredHeap<'_> {
    /// Bytes of its payload: its size, or up to the last byte received.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.size.unwrap_or_else(|| self.parts.last().map_or(0, Part::end))
    }

    /// Bytes received of a range of its payload.
    #[must_use]
    pub fn received(&self, range: Range<u64>) -> u64 {
        let common = |part: &Part| part.end().min(range.end).saturating_sub(part.offset.max(range.start));
        self.parts.iter().map(common).sum()
    }

    /// Whether nothing is missing. A heap of unknown size is complete if it has no gap.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let length = self.length();
        self.received(0..length) == length
    }

    /// Its last item with this id.
    #[must_use]
    pub fn item(&self, id: u64) -> Option<RawItem> {
        items::item(self.flavour, self.pointers, self.length(), id)
    }

    /// All its items, in order.
    #[must_use]
    pub fn items(&self) -> Vec<RawItem> {
        items::items(self.flavour, self.pointers, self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored::NewHead;
    use super::*;

    const FLAVOUR: Flavour = Flavour::SPEAD_64_48;

    /// Counter, size of the heap, offset, length, pointers.
    type Packet<'a> = (u64, Option<u64>, u64, u64, &'a [u64]);

    fn table(packets: &[Packet<'_>]) -> Table {
        let (mut table, mut at) = (Table::default(), 0);
        for &(counter, size, offset, length, pointers) in packets {
            let mut octets = Vec::new();
            NewHead { flavour: FLAVOUR, counter, size, offset, length, pointers }.write(&mut octets);
            let head = Head::peek(&octets).unwrap().unwrap();
            at += octets.len() as u64;
            table.add(&head, 0, at);
            at += length;
        }
        table
    }

    fn counters(table: &Table) -> Vec<(u64, usize)> {
        (0..table.len())
            .map(|n| table.heap(n).unwrap())
            .map(|heap| (heap.counter, heap.parts.len()))
            .collect()
    }

    #[test]
    fn parts_of_a_heap_are_found_together() {
        let pointers = [FLAVOUR.addressed(0x1000, 0), FLAVOUR.addressed(0x1001, 60)];
        let table = table(&[
            (7, Some(100), 0, 100, &pointers),
            (8, Some(100), 10, 20, &pointers),
            (8, Some(100), 50, 30, &[]),
            (9, Some(0), 0, 0, &[]),
        ]);
        assert_eq!(counters(&table), [(7, 1), (8, 2), (9, 0)]);
        let heap = table.heap(1).unwrap();
        assert_eq!((heap.length(), heap.is_complete()), (100, false));
        let item = heap.item(0x1001).unwrap();
        assert_eq!((item.range.clone(), heap.received(item.range)), (60..100, 20));
        assert!(table.heap(0).unwrap().is_complete() && table.heap(2).unwrap().is_complete());
        assert_eq!(heap.parts[1].at - heap.parts[0].at, 20 + NewHead::bytes(0) as u64);
        assert!(table.heap(3).is_none() && table.bytes() > 0);
    }

    #[test]
    fn heaps_with_one_counter_are_told_apart() {
        let pointers = [FLAVOUR.addressed(0x1000, 0)];
        // A whole one and another; an incomplete one whose successor begins before its end; one that brings items again.
        let whole = table(&[(1, Some(10), 0, 10, &pointers), (1, Some(10), 0, 10, &pointers)]);
        assert_eq!(counters(&whole), [(1, 1), (1, 1)]);
        let back = table(&[(1, Some(10), 5, 3, &pointers), (1, Some(10), 0, 10, &[])]);
        assert_eq!(counters(&back), [(1, 1), (1, 1)]);
        let again = table(&[(1, Some(20), 0, 5, &pointers), (1, Some(20), 10, 10, &pointers)]);
        assert_eq!(counters(&again), [(1, 1), (1, 1)]);
        let other = table(&[(1, Some(20), 0, 5, &pointers), (1, Some(30), 10, 10, &[])]);
        assert_eq!(counters(&other), [(1, 1), (1, 1)]);
        // Pointers that need a packet of their own precede payload.
        let many =
            table(&[(1, None, 0, 0, &pointers), (1, Some(10), 0, 10, &[FLAVOUR.immediate(0x1002, 4)])]);
        assert_eq!(counters(&many), [(1, 1)]);
        assert_eq!(many.heap(0).unwrap().item(0x1002).unwrap().value, 4);
    }
}
