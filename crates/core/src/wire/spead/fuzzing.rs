//! Fuzzing of SPEAD: heads, items, descriptors, values, and packetising.

mod seeds;

use super::{
    BugCompat, Descriptor, Flavour, Head, Items, Packet, Pointer,
    bits::BitFormat,
    descriptor::NumpyHeader,
    items::items,
    packets::{HeapPackets, HeapShape, Split},
    stored::NewHead,
    table::Table,
};
use crate::{placement::Reject, wire::fuzzing::parser::Parser};

/// Parsers for which a whole packet is seldom the best beginning.
pub(super) const PARSERS: &[Parser] = &[
    Parser { name: "spead_head", weight: 1, run: spead_head, seeds: seeds::packet_seeds },
    Parser { name: "spead_items", weight: 1, run: spead_items, seeds: seeds::items_seeds },
    Parser { name: "spead_descriptor", weight: 2, run: spead_descriptor, seeds: seeds::descriptor_seeds },
    Parser { name: "spead_bits", weight: 2, run: spead_bits, seeds: seeds::bits_seeds },
    Parser { name: "spead_table", weight: 2, run: spead_table, seeds: seeds::table_seeds },
    Parser { name: "spead_packets", weight: 8, run: spead_packets, seeds: seeds::shape_seeds },
];

/// A packet's items are written back unchanged, and its head agrees with them.
pub(super) fn run(packet: &[u8]) {
    if let Ok(read) = Packet::read(packet) {
        for item in read.items() {
            let octets = read.flavour.write(item);
            let back = Pointer::read(&octets).map(|(pointer, _)| read.flavour.item(pointer));
            assert_eq!(back, Some(item), "an item does not write back");
        }
        let _ = read.is_stop();
    }
    spead_head(packet);
}

/// A packet of each of some flavours.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let packet = |flavour: Flavour| {
        let like = NewHead { flavour, counter: 7, size: Some(4096), offset: 64, length: 16, pointers: &[] };
        let mut packet = Vec::new();
        like.write(&mut packet);
        packet.extend([0x22; 16]);
        packet
    };
    [40, 48, 32].into_iter().filter_map(Flavour::new).map(packet).collect()
}

/// A head: the single pass gives the same result as the plain parser, and reads no byte after the head.
fn spead_head(packet: &[u8]) {
    let read = Head::read(packet);
    let Ok(Some(head)) = Head::peek(packet) else {
        assert!(read.is_err());
        return;
    };
    let alone = Head { packet: &packet[..head.start], ..head };
    assert_eq!(Head::peek(&packet[..head.start]), Ok(Some(alone)));
    assert!(head.packet.len() as u64 == head.bytes().min(packet.len() as u64));
    assert!(head.start <= packet.len() && head.pointers.len() == head.start - 8);
    assert!(head.size.is_none_or(|size| head.offset + head.length <= size));
    assert_eq!(read.is_ok(), head.bytes() == packet.len() as u64);
    assert!(matches!(read, Ok(_) | Err(Reject::Truncated | Reject::WrongSize)));
    let plain = Packet::read(packet).map(Packet::is_stop);
    assert_eq!(plain, Ok(head.is_stop()));
    let (mut kept, mut twice) = (Items::new(head.flavour), Items::new(head.flavour));
    kept.add(&head);
    twice.add(&head);
    twice.add(&head);
    assert_eq!(kept.pointers(), twice.pointers());
    told(head.flavour, kept.pointers(), head.size.unwrap_or(head.offset + head.length));
}

/// Items are within their heap and do not overlap.
fn told(flavour: Flavour, pointers: &[u64], heap_bytes: u64) {
    let mut end = 0;
    for item in items(flavour, pointers, heap_bytes) {
        if item.immediate {
            assert!(item.range.is_empty());
        } else {
            assert!(item.range.start >= end && !item.range.is_empty() && item.range.end <= heap_bytes);
            end = item.range.end;
        }
    }
}

/// Any pointers; the first byte chooses the flavour, the second the heap's size.
fn spead_items(input: &[u8]) {
    let [width, size, rest @ ..] = input else { return };
    let Some(flavour) = Flavour::new(8 * (width % 7 + 1)) else { return };
    let pointers: Vec<u64> = rest.as_chunks().0.iter().map(|octets| u64::from_be_bytes(*octets)).collect();
    told(flavour, &pointers, u64::from(*size) * 5);
}

/// Stored packets: parts ascend within their heap, no byte of the file is in two, and what is received of an item is there.
fn spead_table(file: &[u8]) {
    let (mut table, mut at, mut packets) = (Table::default(), 0, 0);
    while let Some(rest) = file.get(at..)
        && let Ok(Some(head)) = Head::peek(rest)
        && head.bytes() <= rest.len() as u64
    {
        table.add(&head, 0, (at + head.start) as u64);
        at += head.bytes() as usize;
        packets += 1;
    }
    assert!(table.len() <= packets && table.heap(table.len()).is_none());
    let mut last = 0;
    for heap in (0..table.len()).filter_map(|number| table.heap(number)) {
        let mut end = 0;
        for part in heap.parts {
            assert!(part.at >= last && part.offset >= end && part.at + part.length <= file.len() as u64);
            (last, end) = (part.at + part.length, part.end());
        }
        assert!(end <= heap.length());
        let items = heap.items();
        for item in &items {
            let one = heap.item(item.id);
            assert_eq!(one.as_ref(), items.iter().rfind(|other| other.id == item.id));
            let length = item.range.end - item.range.start;
            let received = heap.received(item.range.clone());
            assert!(received <= length && (received == length || !heap.is_complete()));
        }
    }
}

/// A descriptor; the first byte is the bug-compat bits. What is read is written, read again, and used.
fn spead_descriptor(input: &[u8]) {
    let Some((&bits, nested)) = input.split_first() else { return };
    let Ok(read) = Descriptor::read(nested, BugCompat(bits)) else { return };
    assert!(read.shape.len() + read.format.len() + read.name.chars().count() <= nested.len());
    for (flavour, bits) in [40, 48].into_iter().filter_map(Flavour::new).zip([0, bits]) {
        if let Ok(written) = read.write(flavour, BugCompat(bits)) {
            assert_eq!(Descriptor::read(&written, BugCompat(bits)).as_ref(), Ok(&read));
        }
    }
    if let Some(header) = read.numpy.as_deref().and_then(NumpyHeader::read) {
        assert_eq!(NumpyHeader::read(&header.to_string()).as_ref(), Some(&header));
        let _ = (header.simple(), header.elements());
    }
    if let Ok(format) = BitFormat::new(&read.format) {
        values(&format, &read.shape, nested);
    }
}

/// Elements of any bytes survive a round trip through memory.
fn values(format: &BitFormat, shape: &[Option<u64>], wire: &[u8]) {
    let Ok(shape) = format.shape(shape, wire.len() as u64) else { return };
    // If a dimension is 0, the others may have any size.
    let elements = if shape.contains(&0) { 0 } else { shape.iter().product::<u64>() as usize };
    let bytes = elements * format.stride();
    assert!(bytes <= 9 * wire.len());
    let (mut native, mut back) = (vec![0; bytes], vec![0; wire.len()]);
    assert_eq!(format.unpack(wire, elements, &mut native), Ok(()));
    assert_eq!(format.pack(&native, elements, &mut back), Ok(()));
    let mut again = vec![0; bytes];
    assert_eq!(format.unpack(&back, elements, &mut again), Ok(()));
    assert_eq!(native, again);
}

/// A format, two bytes a field, four at most; then values in it.
fn spead_bits(input: &[u8]) {
    let Some((&fields, rest)) = input.split_first() else { return };
    let (fields, wire) = rest.split_at(rest.len().min(usize::from(fields % 5) * 2));
    let codes = ['u', 'i', 'b', 'c', 'f', 'u', '0'];
    let field = |&[code, bits]: &[u8; 2]| (codes[usize::from(code) % codes.len()], u32::from(bits));
    let format: Vec<(char, u32)> = fields.as_chunks().0.iter().map(field).collect();
    if let Ok(format) = BitFormat::new(&format) {
        values(&format, &[None], wire);
        values(&format, &[None, Some(2)], wire);
        values(&format, &[], wire);
    }
}

/// Divide a heap: 12 bytes of shape, then pointers. The heads of its packets can be read, and the packets cover it.
fn spead_packets(input: &[u8]) {
    let Some((&[width, choice, a, b, c, d, e, f, counter @ ..], rest)) = input.split_first_chunk::<12>()
    else {
        return;
    };
    let Some(flavour) = Flavour::new(8 * (width % 7 + 1)) else { return };
    let mut pointers: Vec<u64> =
        rest.as_chunks().0.iter().map(|octets| u64::from_be_bytes(*octets)).collect();
    pointers.retain(|&pointer| flavour.keeps(pointer));
    let shape = HeapShape {
        flavour,
        counter: u32::from_be_bytes(counter).into(),
        pointers: &pointers,
        payload_bytes: u32::from_be_bytes([0, a, b, c]).into(),
        packet_bytes: u32::from_be_bytes([0, d & 1, e, f]) as usize,
        repeat_pointers: choice & 1 == 1,
        split: if choice & 2 == 2 { Split::Even } else { Split::Full },
    };
    let Ok(packets) = HeapPackets::new(shape) else { return };
    let mut head = vec![0; packets.head_bytes_max()];
    let (mut at, mut wire, mut seen) = (0, 0, Items::new(flavour));
    // Large heaps in small packets would take long, so only the first and the last packets are checked.
    let all = packets.count();
    for n in (0..all.min(500)).chain(all.saturating_sub(3).max(500)..all) {
        let part = packets.packet(n, &mut head);
        let Ok(Some(read)) = Head::peek(&head[..part.head]) else { panic!("a head that is not read") };
        assert_eq!(
            (read.start, read.bytes(), read.size),
            (part.head, part.bytes(), Some(packets.heap_bytes()))
        );
        assert!(read.length > 0 && part.bytes() <= shape.packet_bytes as u64);
        assert!(read.offset == at || n >= 500);
        assert_eq!(part.payload.end - part.payload.start + part.dummy as u64, read.length);
        assert!(part.payload.end <= shape.payload_bytes);
        (at, wire) = (read.offset + read.length, wire + part.bytes());
        seen.add(&read);
    }
    assert_eq!(at, packets.heap_bytes());
    assert!(all > 500 || wire == packets.bytes_on_wire());
    assert!(all > 500 || pointers.iter().all(|pointer| seen.pointers().contains(pointer)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_entry_returns(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            for entry in [run, spead_head, spead_items, spead_table, spead_descriptor, spead_bits, spead_packets] {
                entry(&input);
            }
        }
    }
}
