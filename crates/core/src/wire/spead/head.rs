//! The head of a packet: all that a receiver needs to place its payload, read in one pass over the item pointers.
//!
//! ```text
//!   ┌ 8 octets ┬ pointers, 8 octets each ─────────────────────┬ payload ────────────┐
//!   │  header  │ counter │ size │ offset │ length │ items …   │                     │
//!   0          8                                              ▲ start       length  ▲ end of the packet
//! ```
//!
//! A datagram is exactly one packet ([`Head::read`]); in TCP and in files packets follow each other with nothing
//! between them ([`Head::peek`], then `start + length` octets).
//!
//! The pass has no branch that depends on a pointer: every pointer's value is stored under its id, and ids that do not
//! matter share one place. (Asking first for the usual order of the four was measured, and was slower.) Nothing is
//! allocated. It is inlined by force: a head that is returned through memory is copied by wide loads across narrow
//! stores, and such a load waits until everything stored before it, the last payload too, has left the store buffer: a
//! sixth of the receiver's time with packets of 1472 octets. A length of 0 is legal here, for a heap of immediate items only; spead2 never sends it and takes it.

use super::{Control, Flavour, Spead, id};
use crate::placement::{Key, Placement, Reject};

/// What a packet says about itself (§8.1, §8.2). Where an item occurs more than once, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// How its pointers divide.
    pub flavour: Flavour,
    /// Which heap it belongs to.
    pub counter: u64,
    /// Octets of the heap's payload, where the packet tells.
    pub size: Option<u64>,
    /// Where its payload belongs in the heap.
    pub offset: u64,
    /// Octets of its payload.
    pub length: u64,
    /// All its pointers as they lie in it, 8 octets each; see [`kept`](Self::kept).
    pub pointers: &'a [u8],
    /// Octets from the packet's start to its payload.
    pub start: usize,
    /// Immediate stream control: 0 start, 1 descriptors again, 2 stop, 3 descriptors changed. Stop if any says so.
    pub control: Option<u64>,
    /// Whether any pointer may be of interest to the heap; `false`: [`kept`](Self::kept) gives none.
    pub has_items: bool,
}

impl<'a> Head<'a> {
    /// Octets of the longest head there can be: a longer one is no SPEAD.
    pub const LONGEST: usize = Spead::LEN + 8 * u16::MAX as usize;

    /// The head of a datagram, which is exactly one packet.
    ///
    /// # Errors
    /// [`Reject::Truncated`] where header, pointers or payload are not all there, [`Reject::WrongSize`] where more is
    /// there, [`Reject::BadMagic`], [`Reject::BadVersion`] (also for widths that do not make 8), [`Reject::BadField`]
    /// without heap counter, heap offset and payload length, [`Reject::Outside`] where the payload passes the end of
    /// the heap.
    #[inline(always)]
    pub fn read(packet: &'a [u8]) -> Result<Head<'a>, Reject> {
        let Some(head) = Head::peek(packet)? else { return Err(Reject::Truncated) };
        let here = (packet.len() - head.start) as u64;
        if head.length == here {
            Ok(head)
        } else {
            Err(if head.length > here { Reject::Truncated } else { Reject::WrongSize })
        }
    }

    /// The head of the packet at the front of `stream`, whose payload need not be there yet: the packet has
    /// [`bytes`](Self::bytes) octets. `None`: the head is not all there; no more than [`LONGEST`](Self::LONGEST)
    /// octets are ever needed.
    ///
    /// # Errors
    /// As [`read`](Self::read), but for lengths. What can be refused from the octets that are there is refused.
    #[inline(always)]
    pub fn peek(stream: &'a [u8]) -> Result<Option<Head<'a>>, Reject> {
        let Some((header, rest)) = stream.split_first_chunk::<8>() else {
            return match stream {
                [magic, ..] if *magic != 0x53 => Err(Reject::BadMagic),
                [_, version, ..] if *version != 4 => Err(Reject::BadVersion),
                _ => Ok(None),
            };
        };
        let flavour = flavour(*header)?;
        let pointers = usize::from(u16::from_be_bytes([header[6], header[7]])) * 8;
        let Some(pointers) = rest.get(..pointers) else { return Ok(None) };
        scan(flavour, pointers).map(Some)
    }

    /// How packets look that go on with this heap where this one, which is `packet`, ends. `None`: no packet does.
    #[inline(always)]
    #[must_use]
    pub fn sequel(&self, packet: &'a [u8]) -> Option<Sequel<'a>> {
        if self.length == 0 || self.control.is_some() {
            return None;
        }
        let bits = u32::from(self.flavour.address_bits);
        let mut offsets = self
            .raw_pointers()
            .enumerate()
            .filter(|(_, pointer)| pointer >> bits == 1 << (63 - bits) | id::HEAP_OFFSET);
        let (at, _) = offsets.next()?;
        // The last of several counts, which is of no use to look for.
        if offsets.next().is_some() {
            return None;
        }
        let most = ((u64::MAX >> (64 - bits)) - self.offset) / self.length;
        let octets = packet.get(..self.start)?;
        Some(Sequel { octets, at: at + 1, length: self.length, most: most.saturating_sub(1) })
    }

    /// Where its payload belongs, of the heaps of sender number `source`.
    #[inline(always)]
    #[must_use]
    pub fn placement(&self, source: u64) -> Placement {
        Placement {
            key: Key { source, number: self.counter },
            offset: self.offset,
            start: self.start as u32,
            length: self.length,
            size: self.size,
            number_bits: self.flavour.address_bits,
        }
    }

    /// Octets of the whole packet.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.start as u64 + self.length
    }

    /// Whether it ends the stream.
    #[inline]
    #[must_use]
    pub fn is_stop(&self) -> bool {
        self.control == Some(2)
    }

    /// Its pointers, in order, in this machine's byte order.
    #[inline]
    pub fn raw_pointers(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.pointers
            .chunks_exact(8)
            .map(|octets| octets.first_chunk().map_or(0, |octets| u64::from_be_bytes(*octets)))
    }

    /// The pointers that its heap keeps: what is left without counter, size, offset, length and padding.
    #[inline]
    pub fn kept(&self) -> impl Iterator<Item = u64> + 'a {
        let flavour = self.flavour;
        self.raw_pointers().filter(move |&pointer| flavour.keeps(pointer))
    }
}

/// What tells the packets that go on with a heap one after the other: their heads are equal but for the offset, which grows
/// by the length. To see that is cheaper than to read them. See [`Head::sequel`].
#[derive(Clone, Copy, Debug)]
pub struct Sequel<'a> {
    /// Header and pointers of the first.
    octets: &'a [u8],
    /// Which word of it is the offset's pointer.
    at: usize,
    length: u64,
    /// So many more, and their offsets still have room in a pointer.
    most: u64,
}

impl Sequel<'_> {
    /// Whether `packet` is the `n`th after the first, which must be as long.
    #[inline(always)]
    #[must_use]
    pub fn is(&self, n: u64, packet: &[u8]) -> bool {
        let Some(octets) = packet.get(..self.octets.len()) else { return false };
        if n > self.most {
            return false;
        }
        let mut differs = 0;
        for (at, (word, first)) in
            octets.as_chunks::<8>().0.iter().zip(self.octets.as_chunks::<8>().0).enumerate()
        {
            let (word, first) = (u64::from_be_bytes(*word), u64::from_be_bytes(*first));
            let grown = if at == self.at { n * self.length } else { 0 };
            differs |= word ^ (first + grown);
        }
        differs == 0
    }
}

/// The flavour a header announces.
#[inline(always)]
fn flavour(header: [u8; 8]) -> Result<Flavour, Reject> {
    let [magic, version, item, address, ..] = header;
    if magic != 0x53 {
        return Err(Reject::BadMagic);
    }
    // Widths of 1 to 7 that make 8: no other flavour has pointers of 64 bits.
    if version != 4 || !(1..=7).contains(&address) || item != 8 - address {
        return Err(Reject::BadVersion);
    }
    Ok(Flavour { address_bits: address * 8 })
}

/// One pass over the pointers.
#[inline(always)]
fn scan(flavour: Flavour, pointers: &[u8]) -> Result<Head<'_>, Reject> {
    const COUNTER: usize = id::HEAP_COUNTER as usize;
    const SIZE: usize = id::HEAP_SIZE as usize;
    const OFFSET: usize = id::HEAP_OFFSET as usize;
    const LENGTH: usize = id::PAYLOAD_LENGTH as usize;
    const CONTROL: usize = id::STREAM_CONTROL as usize;
    /// Where everything else goes.
    const OTHER: usize = 7;
    const NEEDED: u32 = 1 << COUNTER | 1 << OFFSET | 1 << LENGTH;

    let bits = u32::from(flavour.address_bits);
    let mask = u64::MAX >> (64 - bits);
    let immediate = 1 << (63 - bits);
    let stop = Control::Stop.pointer(flavour);
    let (mut values, mut seen, mut stops) = ([0u64; 8], 0u32, false);
    for octets in pointers.chunks_exact(8) {
        let Some(octets) = octets.first_chunk() else { break };
        let pointer = u64::from_be_bytes(*octets);
        // Addressed items get a high bit by this and so land among the others.
        let at = ((pointer >> bits) ^ immediate).min(OTHER as u64) as usize & OTHER;
        values[at] = pointer & mask;
        seen |= 1 << at;
        stops |= pointer == stop;
    }
    if seen & NEEDED != NEEDED {
        return Err(Reject::BadField);
    }
    let here = |at: usize| (seen >> at & 1 == 1).then_some(values[at]);
    let (size, offset, length) = (here(SIZE), values[OFFSET], values[LENGTH]);
    // Values have at most 56 bits: the sum does not overflow.
    if size.is_some_and(|size| offset + length > size) {
        return Err(Reject::Outside);
    }
    let control = if stops { Some(2) } else { here(CONTROL) };
    let start = Spead::LEN + pointers.len();
    let counter = values[COUNTER];
    let has_items = seen & !(NEEDED | 1 << SIZE | 1) != 0;
    Ok(Head { flavour, counter, size, offset, length, pointers, start, control, has_items })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::spead::{Item, Packet};
    use proptest::prelude::*;

    /// A packet of these items, each (immediate, id, value), and this payload.
    fn packet(bits: u8, items: &[(bool, u64, u64)], payload: usize) -> Vec<u8> {
        let mut packet = vec![0x53, 4, 8 - bits / 8, bits / 8, 0xAA, 0xBB];
        packet.extend((items.len() as u16).to_be_bytes());
        let flavour = Flavour::new(bits).unwrap();
        for &(immediate, id, value) in items {
            packet.extend(flavour.write(Item { immediate, id, value }));
        }
        packet.resize(packet.len() + payload, 0x77);
        packet
    }

    const PLAIN: [(bool, u64, u64); 4] = [(true, 1, 7), (true, 2, 90), (true, 3, 40), (true, 4, 10)];

    #[test]
    fn all_is_read() {
        let items = [&PLAIN[..], &[(true, 6, 1), (false, 0x1001, 3), (true, 0x1002, 5)]].concat();
        let packet = packet(48, &items, 10);
        let head = Head::read(&packet).unwrap();
        assert_eq!((head.counter, head.size, head.offset, head.length), (7, Some(90), 40, 10));
        assert_eq!((head.start, head.control, head.is_stop()), (8 + 56, Some(1), false));
        assert_eq!((head.bytes(), head.pointers), (74, &packet[8..64]));
        let f = head.flavour;
        assert_eq!(
            head.kept().collect::<Vec<_>>(),
            [f.immediate(6, 1), f.addressed(0x1001, 3), f.immediate(0x1002, 5)]
        );
    }

    #[test]
    fn order_is_free_and_the_last_counts() {
        let items = [(true, 4, 10), (true, 1, 6), (true, 3, 0), (true, 1, 8)];
        let head = Head::read(&packet(40, &items, 10)).map(|h| (h.counter, h.size));
        assert_eq!(head, Ok((8, None)));
    }

    #[test]
    fn addressed_items_are_no_header_fields() {
        for n in 0..4 {
            let mut items = PLAIN;
            items[n].0 = false;
            let want = if n == 1 { Ok(None) } else { Err(Reject::BadField) };
            assert_eq!(Head::read(&packet(48, &items, 10)).map(|h| h.size), want);
        }
        let items = [&PLAIN[..], &[(false, 6, 2)]].concat();
        assert_eq!(Head::read(&packet(48, &items, 10)).unwrap().control, None);
    }

    #[test]
    fn a_stop_is_seen_beside_other_control() {
        for controls in [[2, 0], [0, 2]] {
            let items = [&PLAIN[..], &controls.map(|value| (true, 6, value))].concat();
            assert!(Head::read(&packet(40, &items, 10)).unwrap().is_stop());
        }
    }

    #[test]
    fn each_refusal() {
        let good = packet(48, &PLAIN, 10);
        let with = |at: usize, octet: u8| {
            let mut packet = good.clone();
            packet[at] = octet;
            Head::read(&packet).unwrap_err()
        };
        assert_eq!(with(0, 0x54), Reject::BadMagic);
        assert_eq!(with(1, 5), Reject::BadVersion);
        assert_eq!([with(2, 3), with(3, 0), with(3, 255)], [Reject::BadVersion; 3]);
        assert_eq!(with(7, 200), Reject::Truncated);
        assert_eq!(Head::read(&good[..good.len() - 1]).unwrap_err(), Reject::Truncated);
        assert_eq!(Head::read(&[&good[..], &[1]].concat()).unwrap_err(), Reject::WrongSize);
        assert_eq!(Head::read(&packet(48, &PLAIN[1..], 10)).unwrap_err(), Reject::BadField);
        let beyond = [(true, 1, 7), (true, 2, 49), (true, 3, 40), (true, 4, 10)];
        assert_eq!(Head::read(&packet(48, &beyond, 10)).unwrap_err(), Reject::Outside);
        let most = (1 << 56) - 1;
        let edge = [(true, 1, most), (true, 3, most), (true, 4, most)];
        assert_eq!(Head::peek(&packet(56, &edge, 0)).unwrap().unwrap().bytes(), 32 + most);
        assert!(
            Head::read(&packet(48, &[(true, 1, 7), (true, 3, 0), (true, 4, 0)], 0)).is_ok(),
            "no payload"
        );
    }

    #[test]
    fn a_stream_is_peeked_octet_by_octet() {
        let packet = packet(48, &PLAIN, 10);
        for length in 0..packet.len() {
            let seen = Head::peek(&packet[..length]).unwrap();
            assert_eq!(seen.is_some(), length >= 40, "{length}");
            assert!(seen.is_none_or(|head| head.bytes() == 50));
        }
        assert_eq!(Head::peek(&[0x52]), Err(Reject::BadMagic));
        assert_eq!(Head::peek(&[0x53, 3]), Err(Reject::BadVersion));
    }

    proptest! {
        /// The one pass agrees with the plain reading of [`Packet`].
        #[test]
        fn agrees_with_the_plain_reading(width in 1u8..8,
                items in proptest::collection::vec((any::<bool>(), prop_oneof![0u64..9, Just(0x41)], 0u64..40), 0..12), payload in 0usize..40, in_order: bool) {
            let usual = [1, 2, 3, 4].map(|id| (true, id, [7, 60, 5, payload as u64][id as usize - 1]));
            let items = if in_order { [&usual[..], &items].concat() } else { items };
            let packet = packet(width * 8, &items, payload);
            let plain: Vec<Item> = Packet::read(&packet).unwrap().items().collect();
            let last = |id| plain.iter().rev().find(|i| i.immediate && i.id == id).map(|i| i.value);
            match Head::read(&packet) {
                Ok(head) => {
                    prop_assert_eq!(Some((head.counter, head.offset, head.length)),
                        last(1).zip(last(3)).zip(last(4)).map(|((c, o), l)| (c, o, l)));
                    prop_assert_eq!(head.size, last(2));
                    prop_assert_eq!(head.length as usize, payload);
                    prop_assert_eq!(head.is_stop(), Packet::read(&packet).unwrap().is_stop());
                    prop_assert!(head.is_stop() || head.control == last(6));
                    prop_assert!(head.has_items || head.kept().next().is_none());
                }
                Err(Reject::BadField) => prop_assert!([1, 3, 4].iter().any(|&id| last(id).is_none())),
                Err(Reject::Outside) => prop_assert!(last(3).unwrap() + last(4).unwrap() > last(2).unwrap()),
                Err(Reject::Truncated) => prop_assert!(last(4).unwrap() > payload as u64),
                Err(Reject::WrongSize) => prop_assert!(last(4).unwrap() < payload as u64),
                Err(other) => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn any_octets_are_read(raw in proptest::collection::vec(any::<u8>(), 0..90)) {
            let _ = Head::read(&raw);
            if let Ok(Some(head)) = Head::peek(&raw) {
                prop_assert!(head.start <= raw.len() && head.kept().count() <= head.raw_pointers().len());
            }
        }
    }

    /// A packet of a heap of `each` octets a packet, the `n`th of those behind `offset`.
    fn nth(width: u8, extra: &[(bool, u64, u64)], offset: u64, each: u64, n: u64) -> Vec<u8> {
        let usual = [(true, 1, 7), (true, 2, 250), (true, 3, offset + n * each), (true, 4, each)];
        packet(width * 8, &[&usual[..], extra].concat(), each as usize)
    }

    proptest! {
        /// Who is taken for a sequel reads as one; who is one, is taken for it; one octet changed, and it is none.
        #[test]
        fn sequels_are_what_they_seem(width in 1u8..8, offset in 0u64..50, each in 1u64..40, n in 1u64..5,
                extra in proptest::collection::vec((any::<bool>(), 5u64..9, 0u64..40), 0..4), at: proptest::sample::Index, flip in 1u8..=255) {
            let first = nth(width, &extra, offset, each, 0);
            let head = Head::read(&first).unwrap();
            let Some(sequel) = head.sequel(&first) else {
                prop_assert!(head.control.is_some());
                return Ok(());
            };
            let mut next = nth(width, &extra, offset, each, n);
            if offset + n * each + each <= 250 {
                prop_assert!(sequel.is(n, &next));
                let read = Head::read(&next).unwrap();
                let expected = Head { offset: offset + n * each, pointers: read.pointers, ..head };
                prop_assert_eq!(read, expected);
            }
            prop_assert!(!sequel.is(n + 1, &next) && !sequel.is(n - 1, &next));
            let at = at.index(head.start);
            next[at] ^= flip;
            prop_assert!(!sequel.is(n, &next));
            prop_assert!(!sequel.is(n, &next[..head.start - 1]));
        }
    }

    #[test]
    fn no_packet_follows_control_nothing_or_two_offsets_nor_the_last_offset_there_is() {
        for extra in [(true, 6, 0), (true, 3, 40)] {
            let packet = packet(48, &[&PLAIN[..], &[extra]].concat(), 10);
            assert!(Head::read(&packet).unwrap().sequel(&packet).is_none());
        }
        let empty = packet(48, &[(true, 1, 7), (true, 3, 0), (true, 4, 0)], 0);
        assert!(Head::read(&empty).unwrap().sequel(&empty).is_none());
        // Offsets of 8 bits: 255 is the last.
        let near = |offset| packet(8, &[(true, 1, 7), (true, 3, offset), (true, 4, 10)], 10);
        let first = near(236);
        let sequel = Head::read(&first).unwrap().sequel(&first).unwrap();
        assert!(!sequel.is(1, &near(246)), "it would end at 256");
        let first = near(230);
        let sequel = Head::read(&first).unwrap().sequel(&first).unwrap();
        assert!(sequel.is(1, &near(240)));
    }
}
