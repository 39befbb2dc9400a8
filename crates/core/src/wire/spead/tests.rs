use super::*;
use crate::placement::{Key, Placement};
use crate::wire::header::tests::round_trip;
use proptest::prelude::*;

#[test]
fn tables_round_trip() {
    round_trip!(Spead, Pointer);
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Sent by spead2 4.5.1: an empty heap, 64-48, counter 7.
const EMPTY: &str = "53 04 02 06 00 00 00 05 | 80 01 00 00 00 00 00 07 | 80 02 00 00 00 00 00 01 |
    80 03 00 00 00 00 00 00 | 80 04 00 00 00 00 00 01 | 00 00 00 00 00 00 00 00 | 00";
/// Sent by spead2 4.5.1: 64-40, counter 7, an immediate and an addressed item.
const ITEMS: &str = "53 04 03 05 00 00 00 06 | 80 00 01 00 00 00 00 07 | 80 00 02 00 00 00 00 02 |
    80 00 03 00 00 00 00 00 | 80 00 04 00 00 00 00 02 | 80 10 01 00 00 01 02 03 | 00 10 02 00 00 00 00 00 | 68 69";

fn place(packet: &[u8]) -> Result<Placement, Reject> {
    Ok(Head::read(packet)?.placement(0))
}

#[test]
fn golden_packets_are_placed() {
    let at = |start, length, bits| Placement {
        key: Key::of(7),
        offset: 0,
        start,
        length,
        size: Some(length),
        number_bits: bits,
    };
    assert_eq!(place(&bytes(EMPTY)), Ok(at(48, 1, 48)));
    assert_eq!(place(&bytes(ITEMS)), Ok(at(56, 2, 40)));
    let packet = bytes(ITEMS);
    let items: Vec<Item> = Packet::read(&packet).unwrap().items().collect();
    assert_eq!(items[4], Item { immediate: true, id: 0x1001, value: 0x01_0203 });
    assert_eq!(items[5], Item { immediate: false, id: 0x1002, value: 0 });
    assert!(!Packet::read(&packet).unwrap().is_stop());
}

#[test]
fn a_stop_heap_is_known() {
    let stop = EMPTY
        .replace("00 05 |", "00 06 |")
        .replace("| 00 00 00 00 00 00 00 00", "| 80 06 00 00 00 00 00 02 | 00 00 00 00 00 00 00 00");
    assert!(Packet::read(&bytes(&stop)).unwrap().is_stop());
}

/// A packet of any flavour with these immediate items and `payload` bytes.
fn packet(bits: u8, items: &[(u64, u64)], payload: usize) -> Vec<u8> {
    let flavour = Flavour::new(bits).unwrap();
    let header = Spead {
        magic: 0x53,
        version: 4,
        item_width: 8 - bits / 8,
        address_width: bits / 8,
        reserved: 9,
        items: items.len() as u16,
    };
    let mut packet = header.write().to_vec();
    for &(id, value) in items {
        packet.extend(flavour.write(Item { immediate: true, id, value }));
    }
    packet.resize(packet.len() + payload, 0);
    packet
}

#[test]
fn each_refusal() {
    let good = bytes(EMPTY);
    let with = |at: usize, octet: u8| {
        let mut p = good.clone();
        p[at] = octet;
        place(&p).unwrap_err()
    };
    assert_eq!(with(0, 0), Reject::BadMagic);
    assert_eq!(with(1, 3), Reject::BadVersion);
    assert_eq!(with(2, 3), Reject::BadVersion);
    assert_eq!(with(7, 200), Reject::Truncated, "more items than there is room for");
    assert_eq!(place(&good[..7]), Err(Reject::Truncated));
    assert_eq!(place(&good[..48]), Err(Reject::Truncated), "payload cut off");
    assert_eq!(place(&[&good[..], &[0]].concat()), Err(Reject::WrongSize));
    assert_eq!(with(9, 0x0F), Reject::BadField, "no heap counter");
    let of = |items: &[(u64, u64)], payload| place(&packet(48, items, payload));
    assert_eq!(of(&[(1, 7), (2, 9), (3, 4), (4, 6)], 6), Err(Reject::Outside), "beyond the heap's size");
    assert_eq!(of(&[(4, 6), (3, 4), (1, 7)], 6).unwrap().size, None);
}

proptest! {
    #[test]
    fn every_flavour_carries_its_items(width in 1u8..8, id: u64, value: u64, immediate: bool) {
        let flavour = Flavour::new(width * 8).unwrap();
        let item = Item { immediate, id: id >> (8 * width) >> 1 << (8 * width) >> (8 * width), value: value & (u64::MAX >> (64 - 8 * width)) };
        let item = Item { id: item.id & (u64::MAX >> (8 * width + 1)), ..item };
        prop_assert_eq!(flavour.item(Pointer::read(&flavour.write(item)).unwrap().0), item);
    }

    #[test]
    fn any_octets_are_placed_inside_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..120),
            items in proptest::collection::vec((0u64..6, 0u64..200), 0..8), payload in 0usize..50, made: bool) {
        let raw = if made { packet(48, &items, payload) } else { raw };
        if let Ok(place) = place(&raw) {
            prop_assert!(u64::from(place.start) + place.length == raw.len() as u64);
            prop_assert!(place.offset + place.length <= place.size.unwrap_or(u64::MAX));
        }
    }
}

#[test]
fn control_has_four_values() {
    assert_eq!(Control::Stop.pointer(Flavour::new(48).unwrap()), 0x8006_0000_0000_0002);
    let known: Vec<u64> = (0..9).filter_map(Control::of).map(|c| c as u64).collect();
    assert_eq!(known, [0, 1, 2, 3]);
}

#[test]
fn flavours_are_whole_octets() {
    assert_eq!([0, 12, 64].map(Flavour::new), [None; 3]);
    assert_eq!(Flavour::new(40).unwrap().address_bits(), 40);
}
