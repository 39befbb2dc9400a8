//! SPEAD as a family of keyed objects, and the item pointers that a heap keeps.

use super::{
    Control, Flavour, Head, id,
    items::{self, items},
    stored::NewHead,
};
use crate::{
    placement::{Placement, Reject},
    wire::keyed::{self, Data, Keyed, Left, Part, Stored},
};
use std::collections::HashSet;

/// Maximum number of item pointers of a packet in a byte stream: a connection reserves room for these.
const POINTERS: usize = 16_384;

/// How SPEAD packets are read.
#[derive(Debug)]
pub struct SpeadWire;

impl Keyed for SpeadWire {
    type Head<'a> = Head<'a>;
    type Kept = Items;
    const MAGIC: &'static [u8] = &[0x53, 4];
    const IS_PLACED: bool = true;
    const LONGEST_HEAD: usize = 8 + 8 * POINTERS;

    #[inline(always)]
    fn read(packet: &[u8]) -> Result<Head<'_>, Reject> {
        Head::read(packet)
    }

    #[inline(always)]
    fn peek(stream: &[u8]) -> Result<Option<Head<'_>>, Reject> {
        Head::peek(stream)
    }

    #[inline(always)]
    fn placement(head: &Head<'_>, sender: u64) -> Placement {
        head.placement(sender)
    }

    #[inline(always)]
    fn following<'a>(head: &Head<'a>, packet: &'a [u8]) -> Option<impl Fn(u64, &[u8]) -> bool> {
        let sequel = head.sequel(packet)?;
        Some(
            #[inline(always)]
            move |n, packet: &[u8]| sequel.is(n, packet),
        )
    }

    #[inline(always)]
    fn continues<'a>(first: &Head<'_>, end: u64, packet: &'a [u8]) -> Option<Head<'a>> {
        first.continued(end, packet)
    }

    #[inline(always)]
    fn is_control(head: &Head<'_>) -> bool {
        head.control.is_some()
    }

    #[inline(always)]
    fn is_start(head: &Head<'_>) -> bool {
        head.control == Some(0)
    }

    #[inline(always)]
    fn is_stop(head: &Head<'_>) -> bool {
        head.is_stop()
    }

    fn examined(stream: &[u8]) -> usize {
        stream.get(6..8).map_or(0, |count| 8 * usize::from(u16::from_be_bytes([count[0], count[1]])))
    }

    /// Descriptors, stream control and the padding of trials are not data, and an empty heap has a byte of padding. A
    /// heap whose first packet is lost has no items: most likely it was data.
    fn data(kept: &Items, bytes: u64, is_whole: bool) -> Data {
        let flavour = kept.flavour;
        let addressed = || kept.pointers().iter().map(|&p| flavour.parts(p)).filter(|item| !item.immediate);
        if addressed().next().is_none() {
            return if is_whole { Data::None } else { Data::All };
        }
        if addressed().all(|item| item.id <= id::DTYPE) {
            return Data::None;
        }
        let is_all = addressed().all(|item| item.id > id::DTYPE);
        // The usual heap, without an allocation.
        if is_all && bytes != 1 {
            return Data::All;
        }
        let of_items = items(flavour, kept.pointers(), bytes).into_iter().filter(|item| !item.immediate);
        let data: Vec<_> = of_items.filter(|item| item.id > id::DTYPE).map(|item| item.range).collect();
        if is_all && !data.is_empty() { Data::All } else { Data::Parts(data) }
    }

    #[inline]
    fn items_outside(kept: &Items, bytes: u64) -> u64 {
        let mut outside = 0;
        for &pointer in kept.pointers() {
            outside += u64::from(items::is_outside(&kept.flavour.parts(pointer), bytes));
        }
        outside
    }

    fn describe(kept: &Items) -> String {
        format!("SPEAD-64-{}", kept.flavour.address_bits())
    }

    fn heads_bytes(kept: &Items, parts: usize) -> usize {
        parts.max(1) * NewHead::bytes(0) + 8 * kept.pointers().len()
    }

    fn items(kept: &Items, each: &mut dyn FnMut(u64)) {
        let ids = kept.pointers().iter().map(|&pointer| kept.flavour.parts(pointer).id);
        ids.filter(|&id| id != id::NULL).for_each(each);
    }

    /// All pointers precede the payload, so the first packet with payload is the last with pointers.
    fn store(kept: &Items, left: &Left, to: &mut Vec<u8>) -> Option<Stored> {
        let pointers = kept.pointers().get(left.items..).unwrap_or_default();
        let least = NewHead::bytes(pointers.len().min(1)) + usize::from(!left.payload.is_empty());
        let room = left.room.checked_sub(NewHead::bytes(0)).filter(|_| left.room >= least)?;
        let count = pointers.len().min(room / 8).min(NewHead::MOST);
        let (these, others) = pointers.split_at(count);
        let payload = if others.is_empty() { left.payload.len().min(room - 8 * count) } else { 0 };
        let head = NewHead {
            flavour: kept.flavour,
            counter: left.number,
            // A heap without payload is complete as soon as its size is known.
            size: left.size.filter(|_| others.is_empty()),
            offset: left.payload.start as u64,
            length: payload as u64,
            pointers: these,
        };
        head.write(to);
        let is_all = others.is_empty() && payload == left.payload.len();
        Some(Stored { items: left.items + count, payload, is_all })
    }

    /// The forms are flavours.
    fn head(form: u8, part: &Part<'_>) -> Option<Vec<u8>> {
        let flavour = Flavour::new(*[48, 40, 56, 8].get(usize::from(form))?)?;
        let control = part.control.map(|control| match control {
            keyed::Control::Start => Control::Start,
            keyed::Control::Stop => Control::Stop,
        });
        let mut pointers: Vec<u64> = control.iter().map(|control| control.pointer(flavour)).collect();
        if part.items {
            pointers.extend([flavour.immediate(0x1600, part.number & 0xFF), flavour.addressed(0x1601, 0)]);
        }
        let (size, length) = (part.size, part.payload.len() as u64);
        let like =
            NewHead { flavour, counter: part.number, size, offset: part.offset, length, pointers: &pointers };
        let mut head = Vec::new();
        like.write(&mut head);
        Some(head)
    }

    #[inline]
    fn begin(head: &Head<'_>) -> Items {
        Items::new(head.flavour)
    }

    #[inline]
    fn keep(kept: &mut Items, head: &Head<'_>) -> Result<u64, Reject> {
        if kept.flavour != head.flavour {
            return Err(Reject::BadVersion);
        }
        Ok(kept.add(head))
    }

    fn join(into: &mut Items, from: &Items) -> Result<u64, Reject> {
        if into.flavour != from.flavour {
            return Err(Reject::BadVersion);
        }
        Ok(from.pointers().iter().map(|&pointer| u64::from(!into.add_new(pointer))).sum())
    }
}

/// The item pointers of a heap, each value once. A few are stored inline: most heaps have few, and millions of heaps a
/// second cannot each have an allocation.
#[derive(Debug)]
pub struct Items {
    /// How they divide.
    pub flavour: Flavour,
    few: [u64; Items::FEW],
    count: u8,
    many: Option<Box<Many>>,
}

#[derive(Debug, Default)]
struct Many {
    list: Vec<u64>,
    known: HashSet<u64>,
}

impl Items {
    const FEW: usize = 8;
    /// Maximum number of pointers of one packet.
    const MOST: usize = u16::MAX as usize;

    /// No pointers.
    #[inline]
    #[must_use]
    pub fn new(flavour: Flavour) -> Self {
        Items { flavour, few: [0; Items::FEW], count: 0, many: None }
    }

    /// Add those of a packet. Returns how many exceed the limit.
    #[inline]
    pub(super) fn add(&mut self, head: &Head<'_>) -> u64 {
        if head.has_items { self.add_all(head) } else { 0 }
    }

    fn add_all(&mut self, head: &Head<'_>) -> u64 {
        // If packets repeat pointers, the next one follows the last one found.
        let (mut next, mut refused) = (0, 0);
        for pointer in head.others() {
            if !head.flavour.keeps(pointer) {
                continue;
            }
            if self.pointers().get(next) == Some(&pointer) {
                next += 1;
            } else {
                refused += u64::from(!self.add_new(pointer));
                next = self.pointers().len();
            }
        }
        refused
    }

    #[inline]
    fn add_new(&mut self, pointer: u64) -> bool {
        let count = usize::from(self.count);
        if self.many.is_some() {
            return self.add_to_many(pointer);
        }
        if self.few[..count].contains(&pointer) {
            return true;
        }
        if count == Self::FEW {
            return self.add_to_many(pointer);
        }
        self.few[count] = pointer;
        self.count += 1;
        true
    }

    #[cold]
    fn add_to_many(&mut self, pointer: u64) -> bool {
        let few = &self.few;
        let many =
            self.many.get_or_insert_with(|| Box::new(Many { list: few.to_vec(), known: (*few).into() }));
        if many.known.contains(&pointer) {
            return true;
        }
        if many.list.len() >= Self::MOST {
            return false;
        }
        many.known.insert(pointer);
        many.list.push(pointer);
        true
    }

    /// In native byte order, in order of arrival.
    #[inline]
    #[must_use]
    pub fn pointers(&self) -> &[u64] {
        match &self.many {
            Some(many) => &many.list,
            None => &self.few[..usize::from(self.count)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let mut kept = Items::new(flavour);
            for part in [&all[..], &all[..all.len() / 2], &all[all.len() / 3..], &all[..]] {
                let packet = packet(part);
                assert_eq!(kept.add(&Head::read(&packet).unwrap()), 0);
            }
            assert_eq!(kept.pointers(), all, "{count}");
        }
    }

    #[test]
    fn there_is_a_bound_to_what_a_stranger_can_make_us_keep() {
        let flavour = Flavour::new(40).unwrap();
        let mut kept = Items::new(flavour);
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
        assert_eq!((kept.pointers().len(), refused), (65_535, 120_000 - 65_535));
    }

    proptest! {
        #[test]
        fn each_is_kept_once_in_order(packets in proptest::collection::vec(proptest::collection::vec(0u64..60, 0..40), 0..6)) {
            let flavour = Flavour::SPEAD_64_48;
            let mut all = Items::new(flavour);
            let mut model: Vec<u64> = Vec::new();
            for values in &packets {
                let pointers: Vec<u64> = values.iter().map(|&v| flavour.addressed(v % 9 * 0x100, v)).collect();
                all.add(&Head::read(&packet(&pointers)).unwrap());
                for pointer in pointers {
                    if !model.contains(&pointer) { model.push(pointer); }
                }
            }
            prop_assert_eq!(all.pointers(), &model[..]);
        }
    }
}
