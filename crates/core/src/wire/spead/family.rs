//! SPEAD as a member of the registry; its fuzzing: heads, items, descriptors, values, and division into packets.

use super::bits::BitFormat;
use super::descriptor::NumpyHeader;
use super::items::items;
use super::packets::{HeapPackets, HeapShape, Split};
use super::stored::{NewHead, Stored};
use super::table::Table;
use super::{BugCompat, Descriptor, Flavour, Head, Items, Packet, Pointer, Spead, SpeadWire, inspect};
use crate::placement::Reject;
use crate::wire::family::{Family, FamilyRef, Known, Particulars, Seen, Shape, StreamFormat};
use crate::wire::frame::{Objects, Packets};
use crate::wire::fuzzing::parser::Parser;
use crate::wire::inspect::reader::Reader;
use crate::wire::keyed::KnownKeyed;
use crate::wire::layout::Place;
use crate::wire::spead::{Control, id};

/// SPEAD-64-XX.
#[derive(Debug)]
pub struct SpeadFamily;

impl Family for SpeadFamily {
    fn name(&self) -> &'static str {
        "spead"
    }

    fn title(&self) -> &'static str {
        "SPEAD"
    }

    fn objects(&self) -> Objects {
        Objects::Heaps
    }

    fn has_magic(&self) -> bool {
        true
    }

    /// The variant is the number of address bits.
    fn shape(&self, packet: &[u8]) -> Option<Shape> {
        let variant = Packet::read(packet).ok()?.flavour.address_bits();
        let shape = Shape { family: SpeadStream::FAMILY, network: 0, length: 0, variant };
        (packet.len() > Spead::LEN).then_some(shape)
    }

    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
        let flavour = Flavour::new(seen.shape.variant).ok_or(Reject::Unrecognised)?;
        Ok(StreamFormat { place: Place::Sequence, ..seen.blank(SpeadStream { flavour }) })
    }

    fn packets(&self) -> Option<&'static dyn Packets> {
        Some(&Stored)
    }

    fn inspect(&self, reader: &mut Reader<'_>, _: Option<Shape>) {
        inspect::packet(reader);
    }

    /// A packet's items are written back unchanged, and its head agrees with them.
    fn fuzz(&self, _: u8, packet: &[u8]) {
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
    fn seeds(&self) -> Vec<Vec<u8>> {
        let packet = |flavour: Flavour| {
            let like =
                NewHead { flavour, counter: 7, size: Some(4096), offset: 64, length: 16, pointers: &[] };
            let mut packet = Vec::new();
            like.write(&mut packet);
            packet.extend([0x22; 16]);
            packet
        };
        [40, 48, 32].into_iter().filter_map(Flavour::new).map(packet).collect()
    }

    fn parsers(&self) -> &'static [Parser] {
        PARSERS
    }
}

/// Particulars of a SPEAD stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeadStream {
    /// How its item pointers divide.
    pub flavour: Flavour,
}

impl Known for SpeadStream {
    const FAMILY: FamilyRef = FamilyRef::new(&SpeadFamily);
}

impl KnownKeyed for SpeadStream {
    type Wire = SpeadWire;
}

impl Particulars for SpeadStream {
    fn details(&self, _: &StreamFormat) -> Vec<String> {
        vec![format!("SPEAD-64-{}", self.flavour.address_bits())]
    }
}

/// Parsers for which a whole packet is seldom the best beginning.
pub(super) const PARSERS: &[Parser] = &[
    Parser { name: "spead_head", weight: 1, run: spead_head, seeds: packet_seeds },
    Parser { name: "spead_items", weight: 1, run: spead_items, seeds: items_seeds },
    Parser { name: "spead_descriptor", weight: 2, run: spead_descriptor, seeds: descriptor_seeds },
    Parser { name: "spead_bits", weight: 2, run: spead_bits, seeds: bits_seeds },
    Parser { name: "spead_table", weight: 2, run: spead_table, seeds: table_seeds },
    Parser { name: "spead_packets", weight: 8, run: spead_packets, seeds: shape_seeds },
];

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

/// What is described.
fn descriptors() -> Vec<Descriptor> {
    let plain = Descriptor {
        id: 0x35,
        name: "gains".into(),
        description: "of all antennas".into(),
        shape: vec![Some(2), None],
        format: vec![('u', 4), ('i', 12), ('b', 1), ('f', 32), ('c', 8)],
        numpy: None,
    };
    let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 4)}".to_owned();
    let numpy =
        Descriptor { numpy: Some(header), shape: vec![Some(3), Some(4)], format: vec![], ..plain.clone() };
    vec![Descriptor { shape: vec![], format: vec![('u', 8)], ..plain.clone() }, plain, numpy]
}

/// Bug-compat bits and a nested packet.
fn descriptor_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (bits, bug_compat) in [(40, 0), (48, 0), (48, 7), (56, 3), (16, 2)] {
        let Some(flavour) = Flavour::new(bits) else { continue };
        let written = descriptors().into_iter().filter_map(|d| d.write(flavour, BugCompat(bug_compat)).ok());
        seeds.extend(written.map(|nested| [&[bug_compat][..], &nested].concat()));
    }
    seeds
}

/// Whole packets of heaps with descriptors and stream control, one packet or several.
fn packet_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (bits, packet_bytes, repeat_pointers) in [(40, 1472, false), (48, 200, true), (48, 1472, true)] {
        let Some(flavour) = Flavour::new(bits) else { continue };
        let (mut payload, mut pointers) = (Vec::new(), vec![Control::Start.pointer(flavour)]);
        for nested in descriptors().iter().filter_map(|d| d.write(flavour, BugCompat(0)).ok()) {
            pointers.push(flavour.addressed(id::DESCRIPTOR, payload.len() as u64));
            payload.extend(nested);
        }
        pointers.extend([flavour.immediate(0x35, 77), flavour.addressed(0x36, payload.len() as u64)]);
        payload.extend([0x55; 40]);
        let shape = HeapShape {
            flavour,
            counter: 3,
            pointers: &pointers,
            payload_bytes: payload.len() as u64,
            packet_bytes,
            repeat_pointers,
            split: Split::Even,
        };
        let Ok(packets) = HeapPackets::new(shape) else { continue };
        let mut head = vec![0; packets.head_bytes_max()];
        for n in 0..packets.count().min(3) {
            let part = packets.packet(n, &mut head);
            let payload = &payload[part.payload.start as usize..part.payload.end as usize];
            seeds.push([&head[..part.head], payload].concat());
        }
    }
    seeds
}

/// Flavour, heap size, pointers.
fn items_seeds() -> Vec<Vec<u8>> {
    let Some(flavour) = Flavour::new(48) else { return Vec::new() };
    let pointers = [
        flavour.addressed(0x1000, 40),
        flavour.immediate(0x1001, 7),
        flavour.addressed(0x1002, 0),
        flavour.addressed(id::NULL, 90),
        flavour.addressed(0x1003, 40),
        flavour.addressed(0x1004, 900),
    ];
    let pointers: Vec<u8> = pointers.iter().flat_map(|pointer| pointer.to_be_bytes()).collect();
    vec![[&[5, 20][..], &pointers].concat(), [&[4, 255][..], &pointers].concat()]
}

/// Fields, then values.
fn bits_seeds() -> Vec<Vec<u8>> {
    let values: Vec<u8> = (0..90).map(|n: u8| n.wrapping_mul(77)).collect();
    let formats: [&[u8]; 5] = [
        &[1, 0, 12],
        &[1, 0, 16],
        &[3, 0, 4, 1, 12, 2, 1],
        &[2, 1, 70, 0, 65],
        &[4, 3, 8, 4, 32, 4, 64, 2, 90],
    ];
    formats.iter().map(|format| [*format, &values].concat()).collect()
}

/// A heap's shape, then pointers.
fn shape_seeds() -> Vec<Vec<u8>> {
    let pointers = &items_seeds()[0][2..];
    let shape = |choice, payload: [u8; 3], packet: [u8; 3]| {
        [&[5, choice][..], &payload, &packet, &[0, 0, 0, 9], pointers].concat()
    };
    (0..4).flat_map(|c| [shape(c, [0, 16, 0], [0, 5, 0xC0]), shape(c, [0, 0, 3], [0, 0, 120])]).collect()
}

/// Stored packets: heaps whole, with gaps, and again.
fn table_seeds() -> Vec<Vec<u8>> {
    let all = packet_seeds();
    vec![
        all.concat(),
        all.iter().step_by(2).flatten().copied().collect(),
        [all.concat(), all.concat()].concat(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_entry_returns(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            let run: fn(&[u8]) = |packet| SpeadFamily.fuzz(0, packet);
            for entry in [run, spead_head, spead_items, spead_table, spead_descriptor, spead_bits, spead_packets] {
                entry(&input);
            }
        }
    }
}
