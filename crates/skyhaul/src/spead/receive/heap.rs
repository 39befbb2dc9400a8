//! A received heap, and what it is while its packets come.

use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::spead::{BugCompat, Descriptor, DescriptorError};
use skyhaul_core::wire::spead::{Flavour, Head, RawItem, id, items};
use skyhaul_io::memory::heap::HeapBytes;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::Range;

/// A heap as it came: payload, item pointers, and what is known about it.
#[derive(Debug)]
pub struct Heap {
    /// Its number.
    pub counter: u64,
    /// How its pointers divide.
    pub flavour: Flavour,
    /// Who sent its first packet.
    pub sender: SocketAddr,
    /// Whether nothing is missing. A heap that never told its size is complete if there is no hole in it.
    pub complete: bool,
    /// Bytes of the payload that did not come, ascending and disjoint. They are zero.
    pub missing: Vec<Range<u64>>,
    /// Bytes that came.
    pub received: u64,
    /// Bytes of the payload, if a packet told.
    pub size: Option<u64>,
    /// When its first packet came: nanoseconds since 1970 by this host's clock.
    pub first: Nanos,
    /// When its last packet came.
    pub last: Nanos,
    /// Why it was handed on.
    pub cause: Cause,
    kept: Kept,
    payload: HeapBytes,
}

impl Heap {
    /// The payload: as long as the heap's size, or up to the last byte that came.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Its item pointers in this machine's byte order, each once, in order of arrival; without those that every packet
    /// has (counter, size, offset, length).
    #[must_use]
    pub fn pointers(&self) -> &[u64] {
        self.kept.as_slice()
    }

    /// Its items: addressed ones by address, then immediate ones.
    #[must_use]
    pub fn items(&self) -> Vec<RawItem> {
        items::items(self.flavour, self.pointers(), self.payload.len() as u64)
    }

    /// The bytes of an addressed item of this heap; empty for an immediate one.
    #[must_use]
    pub fn item_bytes(&self, item: &RawItem) -> &[u8] {
        let (start, end) = (usize::try_from(item.range.start), usize::try_from(item.range.end));
        start.ok().zip(end.ok()).and_then(|(start, end)| self.payload.get(start..end)).unwrap_or_default()
    }

    /// The value of the last immediate item with this id.
    #[must_use]
    pub fn immediate(&self, id: u64) -> Option<u64> {
        let mut parts = self.pointers().iter().map(|&pointer| self.flavour.parts(pointer));
        parts.rfind(|item| item.immediate && item.id == id).map(|item| item.value)
    }

    /// Its descriptors, each read on its own: one that is wrong does not hide the others.
    ///
    /// # Errors
    /// Each of them: what is wrong with it.
    pub fn descriptors(
        &self,
        compat: BugCompat,
    ) -> impl Iterator<Item = Result<Descriptor, DescriptorError>> + '_ {
        let found = self.items().into_iter().filter(|item| item.id == id::DESCRIPTOR && !item.immediate);
        found.map(move |item| Descriptor::read(self.item_bytes(&item), compat))
    }

    /// Whether an immediate stream control says so: 0, a stream begins.
    #[must_use]
    pub fn is_start_of_stream(&self) -> bool {
        self.has_control(0)
    }

    /// Whether an immediate stream control says so: 2, the stream ends.
    #[must_use]
    pub fn is_end_of_stream(&self) -> bool {
        self.has_control(2)
    }

    fn has_control(&self, value: u64) -> bool {
        let control = self.flavour.immediate(id::STREAM_CONTROL, value);
        self.pointers().contains(&control)
    }

    /// The payload's memory, to be kept beyond the heap.
    #[must_use]
    pub fn into_payload(self) -> HeapBytes {
        self.payload
    }

    /// Missing bytes become zero: what stands there is of another heap.
    pub(super) fn blank(&mut self) {
        for hole in &self.missing {
            let (start, end) = (hole.start as usize, hole.end as usize);
            if let Some(hole) = self.payload.get_mut(start..end) {
                hole.fill(0);
            }
        }
    }

    pub(super) fn new(retired: Retired<Partial>, wall: Nanos) -> Heap {
        let (received, bytes) = (retired.received(), retired.range.end);
        let Retired { key, block, size, missing, first, last, cause, .. } = retired;
        let Partial { bytes: mut payload, kept, flavour, sender } = block;
        payload.set_len((bytes as usize).min(payload.capacity()));
        Heap {
            counter: key.number,
            flavour,
            sender,
            complete: missing.is_empty(),
            missing,
            received,
            size,
            first: wall.plus(first),
            last: wall.plus(last),
            cause,
            kept,
            payload,
        }
    }
}

/// A heap under construction.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) bytes: HeapBytes,
    pub(super) kept: Kept,
    pub(super) flavour: Flavour,
    pub(super) sender: SocketAddr,
}

/// Pointers a heap keeps, each value once. Few are kept in place: most heaps have few, and millions of heaps a second
/// cannot each have an allocation.
#[derive(Debug, Default)]
pub(super) struct Kept {
    few: [u64; Kept::FEW],
    count: u8,
    many: Option<Box<Many>>,
}

#[derive(Debug, Default)]
struct Many {
    list: Vec<u64>,
    known: HashSet<u64>,
}

impl Kept {
    const FEW: usize = 8;
    /// As many as one packet can have.
    const MOST: usize = u16::MAX as usize;

    /// Take those of a packet; how many were too many.
    #[inline]
    pub(super) fn add(&mut self, head: &Head<'_>) -> u64 {
        if !head.has_items {
            return 0;
        }
        // Where packets repeat pointers, the next one is the one after the last that was found.
        let (mut next, mut refused) = (0, 0);
        for pointer in head.kept() {
            if self.as_slice().get(next) == Some(&pointer) {
                next += 1;
            } else {
                refused += u64::from(!self.add_new(pointer));
                next = self.as_slice().len();
            }
        }
        refused
    }

    /// Take those of a part of the same heap that lay elsewhere.
    pub(super) fn join(&mut self, other: &Kept) {
        for &pointer in other.as_slice() {
            self.add_new(pointer);
        }
    }

    fn add_new(&mut self, pointer: u64) -> bool {
        let count = usize::from(self.count);
        if let Some(many) = &mut self.many {
            if many.known.contains(&pointer) {
                return true;
            }
            if many.list.len() >= Self::MOST {
                return false;
            }
            many.known.insert(pointer);
            many.list.push(pointer);
        } else if self.few[..count].contains(&pointer) {
        } else if count < Self::FEW {
            self.few[count] = pointer;
            self.count += 1;
        } else {
            let mut many = Many { list: self.few.to_vec(), known: self.few.into() };
            many.list.push(pointer);
            many.known.insert(pointer);
            self.many = Some(Box::new(many));
        }
        true
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u64] {
        match &self.many {
            Some(many) => &many.list,
            None => &self.few[..usize::from(self.count)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pointers: &[u64]) -> Vec<u8> {
        let flavour = Flavour::new(48).unwrap();
        let own = [(1, 5), (2, 0), (3, 0), (4, 0)].map(|(id, value)| flavour.immediate(id, value));
        let mut packet = vec![0x53, 4, 2, 6, 0, 0];
        packet.extend((own.len() as u16 + pointers.len() as u16).to_be_bytes());
        own.iter().chain(pointers).for_each(|pointer| packet.extend(pointer.to_be_bytes()));
        packet
    }

    #[test]
    fn pointers_are_kept_once_in_order_few_or_many() {
        for count in [0u64, 1, 7, 8, 9, 100] {
            let flavour = Flavour::new(48).unwrap();
            let all: Vec<u64> = (0..count).map(|n| flavour.addressed(0x1000 + n, n)).collect();
            let mut kept = Kept::default();
            for part in [&all[..], &all[..all.len() / 2], &all[all.len() / 3..], &all[..]] {
                let packet = packet(part);
                assert_eq!(kept.add(&Head::read(&packet).unwrap()), 0);
            }
            assert_eq!(kept.as_slice(), all, "{count}");
        }
    }

    #[test]
    fn there_is_a_bound_to_what_a_stranger_can_make_us_keep() {
        let flavour = Flavour::new(40).unwrap();
        let mut kept = Kept::default();
        let mut refused = 0;
        for packet_number in 0..3u64 {
            let all: Vec<u64> =
                (0..40_000).map(|n| flavour.addressed(0x1000, packet_number * 40_000 + n)).collect();
            let mut packet = packet(&all);
            packet[2..4].copy_from_slice(&[3, 5]);
            for (at, id) in [1u64, 2, 3, 4].into_iter().enumerate() {
                packet[8 + 8 * at..][..8].copy_from_slice(&flavour.immediate(id, 0).to_be_bytes());
            }
            refused += kept.add(&Head::read(&packet).unwrap());
        }
        assert_eq!((kept.as_slice().len(), refused), (65_535, 120_000 - 65_535));
    }
}
