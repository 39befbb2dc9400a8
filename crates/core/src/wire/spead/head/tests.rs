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
    assert!(Head::read(&packet(48, &[(true, 1, 7), (true, 3, 0), (true, 4, 0)], 0)).is_ok(), "no payload");
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

/// A packet of a heap of `each` bytes a packet, the `n`th of those behind `offset`.
fn nth(width: u8, extra: &[(bool, u64, u64)], offset: u64, each: u64, n: u64) -> Vec<u8> {
    let usual = [(true, 1, 7), (true, 2, 250), (true, 3, offset + n * each), (true, 4, each)];
    packet(width * 8, &[&usual[..], extra].concat(), each as usize)
}

proptest! {
    /// A packet recognised as a sequel also parses as one, and every sequel is recognised; with one byte changed, it
    /// is not.
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
            let expected = Head { offset: offset + n * each, pointers: read.pointers, packet: &next, ..head };
            prop_assert_eq!(read, expected);
        }
        prop_assert!(!sequel.is(n + 1, &next) && !sequel.is(n - 1, &next));
        let at = at.index(head.start);
        next[at] ^= flip;
        prop_assert!(!sequel.is(n, &next));
        prop_assert!(!sequel.is(n, &next[..head.start - 1]));
    }
}

proptest! {
    /// A packet that continues a heap with another head is recognised, and only such a packet.
    #[test]
    fn what_continues_is_the_next_part_of_the_same_heap(width in 1u8..8, offset in 0u64..50, each in 1u64..40, next_each in 0u64..60, step in 0u64..2,
            extra in proptest::collection::vec((any::<bool>(), 5u64..9, 0u64..40), 0..2), own in proptest::collection::vec((Just(true), prop_oneof![Just(0u64), 0u64..9], 0u64..40), 0..3),
            change in proptest::option::of((any::<proptest::sample::Index>(), 1u8..=255))) {
        let first = nth(width, &extra, offset, each, 0);
        let head = Head::read(&first).unwrap();
        let end = offset + each;
        let usual = [(true, 1, 7), (true, 2, 250), (true, 3, end + step), (true, 4, next_each)];
        let mut next = packet(width * 8, &[&usual[..], &own].concat(), next_each as usize);
        if let Some((at, flip)) = change {
            let at = at.index(next.len());
            next[at] ^= flip;
        }
        let found = head.continued(end, &next);
        let wanted = Head::read(&next).ok().filter(|next| {
            let is_same = (next.flavour, next.counter, next.size, next.offset) == (head.flavour, 7, Some(250), end);
            is_same && next.length > 0 && head.control.is_none() && next.control.is_none() && !next.has_items
        });
        // One that begins with another pointer is read for itself, though it may continue the heap.
        prop_assert_eq!(found, wanted.filter(|_| next[8..16] == first[8..16]));
        prop_assert!(found.is_none_or(|found| found.kept().next().is_none()));
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
