//! Consecutive packets, as in files and over TCP, and heads for new ones.
//!
//! ```text
//!   │ head of heap 7 │ payload │ head of heap 8 │ payload, up to a gap │ head of heap 8 │ payload after it │ …
//! ```
//!
//! A heap may be one packet or many; a missing part of it is in no packet, so exactly the received data are stored.

use super::{Flavour, Head, id};
use crate::{
    placement::{Placement, Reject},
    wire::frame::{Divided, Packets},
};

/// Packets as they are stored.
#[derive(Debug)]
pub(super) struct Stored;

impl Packets for Stored {
    fn place(&self, bytes: &[u8]) -> Result<Option<Placement>, Reject> {
        Ok(Head::peek(bytes)?.map(|head| head.placement(0)))
    }

    fn is_data(&self, head: &[u8]) -> bool {
        let Ok(Some(head)) = Head::peek(head) else { return false };
        let mut items = head.kept().map(|pointer| head.flavour.parts(pointer));
        // Descriptors, and the padding of trials and of empty heaps.
        items.all(|item| item.immediate || item.id > id::DTYPE)
    }

    fn divide(&self, head: &[u8], done: Divided, most: usize, to: &mut Vec<u8>) -> Option<Divided> {
        let stored = Head::peek(head).ok()??;
        let mut pointers: Vec<u64> = stored.kept().skip(done.items).collect();
        let left = stored.length.saturating_sub(done.payload);
        if done.packets > 0 && pointers.is_empty() && left == 0 {
            return None;
        }
        // In whole words, as in spead2; at least one item or eight bytes of payload.
        let room = (most & !7).saturating_sub(NewHead::bytes(0)).max(8);
        pointers.truncate((room / 8).min(NewHead::MOST));
        let items = done.items + pointers.len();
        // Packets with payload have no items, except the first.
        let all = stored.kept().nth(items).is_none();
        let beside = (room - 8 * pointers.len()) as u64;
        let length = if all { left.min(beside) } else { 0 };
        let (flavour, counter) = (stored.flavour, stored.counter);
        // A heap without payload is complete as soon as its size is known.
        let size = stored.size.filter(|_| all);
        let offset = stored.offset + done.payload;
        NewHead { flavour, counter, size, offset, length, pointers: &pointers }.write(to);
        Some(Divided { packets: done.packets + 1, items, payload: done.payload + length })
    }
}

/// The head of a new packet.
#[derive(Clone, Copy, Debug)]
pub struct NewHead<'a> {
    /// How its pointers divide.
    pub flavour: Flavour,
    /// Counter of its heap.
    pub counter: u64,
    /// Bytes of the heap's payload, if known.
    pub size: Option<u64>,
    /// Where its payload belongs in the heap.
    pub offset: u64,
    /// Bytes of its payload.
    pub length: u64,
    /// Further pointers, in native byte order: at most [`MOST`](Self::MOST).
    pub pointers: &'a [u64],
}

impl NewHead<'_> {
    /// Maximum number of further pointers.
    pub const MOST: usize = u16::MAX as usize - 4;

    /// Bytes of a head with `pointers` further pointers; an upper bound if the size is unknown.
    #[must_use]
    pub const fn bytes(pointers: usize) -> usize {
        8 * (5 + pointers)
    }

    /// Append it to `to`. Values are truncated to the flavour's bits.
    ///
    /// # Panics
    /// If there are more than [`MOST`](Self::MOST) pointers.
    pub fn write(&self, to: &mut Vec<u8>) {
        let own = [
            Some((id::HEAP_COUNTER, self.counter)),
            self.size.map(|size| (id::HEAP_SIZE, size)),
            Some((id::HEAP_OFFSET, self.offset)),
            Some((id::PAYLOAD_LENGTH, self.length)),
        ];
        let own = own.into_iter().flatten();
        let count = own.clone().count() + self.pointers.len();
        let count = u16::try_from(count).expect("no more pointers than a head may have").to_be_bytes();
        let width = self.flavour.address_bits() / 8;
        to.extend([0x53, 4, 8 - width, width, 0, 0, count[0], count[1]]);
        let own = own.map(|(id, value)| self.flavour.immediate(id, value));
        own.chain(self.pointers.iter().copied()).for_each(|pointer| to.extend(pointer.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(bits in 1u8..8, counter: u64, sized: bool, offset in 0u64..100, length in 0u64..100, more in 0usize..40) {
            let flavour = Flavour::new(8 * bits).unwrap();
            let pointers: Vec<u64> = (0..more as u64).map(|n| flavour.addressed(0x20 + n, n)).collect();
            let size = sized.then_some(200);
            let head = NewHead { flavour, counter, size, offset, length, pointers: &pointers };
            let mut octets = Vec::new();
            head.write(&mut octets);
            prop_assert_eq!(octets.len() + if sized { 0 } else { 8 }, NewHead::bytes(more));
            prop_assert_eq!(Stored.place(&octets[..octets.len() - 1]), Ok(None));
            let read = Head::peek(&octets).unwrap().unwrap();
            prop_assert_eq!((read.counter, read.size, read.offset, read.length), (counter & flavour.max_value(), size, offset, length));
            prop_assert_eq!(read.kept().collect::<Vec<_>>(), pointers.iter().copied().filter(|p| flavour.keeps(*p)).collect::<Vec<_>>());
            prop_assert_eq!(Stored.place(&octets), Ok(Some(read.placement(0))));
        }
    }

    /// The packets that a stored one is divided into.
    fn divided(stored: &[u8], most: usize) -> Vec<Vec<u8>> {
        let place = Stored.place(stored).unwrap().unwrap();
        let (head, payload) = stored.split_at(place.start as usize);
        let (mut done, mut packets) = (Divided::default(), Vec::new());
        loop {
            let mut packet = Vec::new();
            let Some(next) = Stored.divide(head, done, most, &mut packet) else { return packets };
            assert!(next > done, "it goes on");
            packet.extend_from_slice(&payload[done.payload as usize..next.payload as usize]);
            packets.push(packet);
            done = next;
        }
    }

    proptest! {
        #[test]
        fn a_stored_packet_is_divided_without_loss(items in 0usize..60, offset in 0u64..50, length in 0usize..3000, most in 40usize..1500, sized: bool) {
            let flavour = Flavour::SPEAD_64_48;
            let pointers: Vec<u64> = (0..items as u64).map(|n| flavour.addressed(0x1000 + n, n)).collect();
            let size = sized.then_some(offset + length as u64 + 9);
            let head = NewHead { flavour, counter: 7, size, offset, length: length as u64, pointers: &pointers };
            let mut stored = Vec::new();
            head.write(&mut stored);
            let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
            stored.extend_from_slice(&payload);
            let (mut at, mut kept) = (offset, Vec::new());
            for packet in divided(&stored, most) {
                prop_assert!(packet.len() <= most.max(48) && !packet.is_empty());
                let head = Head::read(&packet).unwrap();
                prop_assert_eq!((head.counter, head.offset), (7, at));
                prop_assert_eq!(head.size, size.filter(|_| kept.len() + head.kept().count() == items));
                prop_assert_eq!(&packet[head.start..], &payload[(at - offset) as usize..][..head.length as usize]);
                kept.extend(head.kept());
                at += head.length;
            }
            prop_assert_eq!(at, offset + length as u64);
            prop_assert_eq!(kept, pointers);
            prop_assert_eq!(divided(&stored, usize::MAX).len(), 1);
        }
    }

    #[test]
    fn descriptors_are_no_data() {
        let flavour = Flavour::SPEAD_64_48;
        let is_data = |pointers: &[u64]| {
            let mut octets = Vec::new();
            NewHead { flavour, counter: 1, size: Some(8), offset: 0, length: 8, pointers }.write(&mut octets);
            Stored.is_data(&octets)
        };
        assert!(
            is_data(&[])
                && is_data(&[flavour.addressed(0x1000, 0), flavour.immediate(id::STREAM_CONTROL, 0)])
        );
        assert!(!is_data(&[flavour.addressed(id::DESCRIPTOR, 0)]) && !Stored.is_data(b"none"));
    }
}
