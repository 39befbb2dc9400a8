//! Inspection of SPEAD packets: their items and descriptors.
//!
//! A single packet need not have all pointers of its heap, so an item may end before the next pointer of this packet. A
//! descriptor states its length, and is shown if it lies entirely in this packet's payload.

use super::items::items;
use super::{BugCompat, Descriptor, Head, Item, Packet, Pointer, RawItem, Spead, id};
use crate::placement::Reject;
use crate::wire::inspect::{Problem, Reader, Row, number};

/// Maximum number of descriptors shown of one packet: they are searched for each item.
const MOST: usize = 1000;

/// The fields of a packet.
pub(super) fn packet(reader: &mut Reader<'_>) {
    let header = Spead::read(reader.packet()).map(|(header, _)| header);
    let parts = Packet::read(reader.packet());
    if let (Err(reason), Some(header)) = (parts.as_ref(), header) {
        let needed = Spead::LEN + usize::from(header.items) * Pointer::LEN;
        reader.fail("SPEAD", *reason, if *reason == Reject::Truncated { needed } else { 0 });
    }
    reader.table("SPEAD", Spead::FIELDS, Spead::LEN, number);
    let Ok(parts) = parts else { return };
    let described = descriptors(reader.packet());
    let bits = u32::from(parts.flavour.address_bits());
    let mut length = None;
    for item in parts.items() {
        let section = if item.immediate { "item" } else { "item address" };
        let (name, words) = of_item(item);
        let (byte, width, lsb) = (reader.at(), Pointer::LEN, 0);
        let meaning = described.words(item).unwrap_or(words);
        reader.row(Row { section, name, byte, width, lsb, bits, value: item.value, meaning }, Pointer::LEN);
        if item.immediate && item.id == id::PAYLOAD_LENGTH {
            length = Some(item.value as usize);
        }
    }
    match length {
        None => reader.fail("SPEAD", Reject::BadField, 0),
        Some(length) if length > reader.rest().len() => reader.fail("payload", Reject::Truncated, length),
        Some(length) if length < reader.rest().len() => reader.fail("payload", Reject::WrongSize, length),
        Some(_) => {}
    }
    if let Some((at, reason)) = described.bad {
        reader.problem(Problem { layer: "descriptor", at, needed: 0, had: 0, reason });
    }
}

/// The descriptors in this packet.
fn descriptors(packet: &[u8]) -> Described {
    let mut described = Described::default();
    let Ok(Some(head)) = Head::peek(packet) else { return described };
    let payload = packet.get(head.start..).unwrap_or_default();
    let pointers: Vec<u64> = head.kept().collect();
    let heap = head.size.unwrap_or(head.offset + head.length);
    for item in items(head.flavour, &pointers, heap) {
        if item.id != id::DESCRIPTOR || item.immediate || described.found.len() >= MOST {
            continue;
        }
        let Some(octets) = inside(&item, head.offset, payload) else { continue };
        match Descriptor::read(octets, BugCompat(0)) {
            Ok(descriptor) => described.found.push((item.value, descriptor)),
            // A descriptor cut off here may continue in the next packet.
            Err(_) if item.range.end > head.offset + payload.len() as u64 => {}
            Err(_) => {
                let at = head.start + (item.range.start - head.offset) as usize;
                described.bad.get_or_insert((at, Reject::BadField));
            }
        }
    }
    described
}

/// The bytes of an item in a packet's payload, if its first byte is there.
fn inside<'a>(item: &RawItem, offset: u64, payload: &'a [u8]) -> Option<&'a [u8]> {
    let from = usize::try_from(item.range.start.checked_sub(offset)?).ok()?;
    let to = usize::try_from(item.range.end - offset).ok()?.min(payload.len());
    payload.get(from..to).filter(|octets| !octets.is_empty())
}

/// The descriptors of a packet.
#[derive(Default)]
struct Described {
    /// Address and meaning.
    found: Vec<(u64, Descriptor)>,
    /// The first that cannot be read.
    bad: Option<(usize, Reject)>,
}

impl Described {
    /// A description of an item, beyond its id.
    fn words(&self, item: Item) -> Option<String> {
        if item.id == id::DESCRIPTOR && !item.immediate {
            let (_, descriptor) = self.found.iter().find(|(address, _)| *address == item.value)?;
            return Some(of_descriptor(descriptor));
        }
        let (_, descriptor) = self.found.iter().find(|(_, descriptor)| descriptor.id == item.id)?;
        Some(format!("id {:#x}, {}", item.id, shown(&descriptor.name)))
    }
}

/// Name and meaning of a SPEAD item.
fn of_item(item: Item) -> (&'static str, String) {
    let known = match item.id {
        id::NULL => "null",
        id::HEAP_COUNTER => "heap counter",
        id::HEAP_SIZE => "heap size",
        id::HEAP_OFFSET => "heap offset",
        id::PAYLOAD_LENGTH => "payload length",
        id::DESCRIPTOR => "descriptor",
        id::STREAM_CONTROL => "stream control",
        id::NAME => "descriptor name",
        id::DESCRIPTION => "descriptor description",
        id::SHAPE => "descriptor shape",
        id::TYPE => "descriptor type",
        id::ID => "descriptor id",
        id::DTYPE => "descriptor dtype",
        _ => return ("user item", format!("id {:#x}", item.id)),
    };
    let control = ["start", "descriptors again", "stop", "descriptors changed"];
    let meaning = match item.id {
        id::STREAM_CONTROL if item.immediate => control.get(item.value as usize).copied().unwrap_or_default(),
        _ => "",
    };
    (known, meaning.to_owned())
}

/// A SPEAD descriptor in one line.
fn of_descriptor(descriptor: &Descriptor) -> String {
    let mut words = format!("id {:#x}, {}", descriptor.id, shown(&descriptor.name));
    match &descriptor.numpy {
        Some(header) => words += &format!(", numpy {}", shown(header)),
        None => {
            let fields: Vec<String> = descriptor
                .format
                .iter()
                .take(MANY)
                .map(|(code, bits)| format!("{}{bits}", code.escape_default()))
                .collect();
            let size = |size: &Option<u64>| size.map_or("?".to_owned(), |size| size.to_string());
            let sizes: Vec<String> = descriptor.shape.iter().take(MANY).map(size).collect();
            words += &format!(", {}, shape ({})", fields.join(" "), sizes.join(", "));
        }
    }
    if descriptor.description.is_empty() {
        words
    } else {
        format!("{words}: {}", shown(&descriptor.description))
    }
}

/// Maximum number of characters, fields and dimensions shown of a descriptor.
const MANY: usize = 160;

/// Text from the network, made safe for a terminal.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(MANY) {
        if letter.is_ascii_graphic() || letter == ' ' {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_default());
        }
    }
    if text.chars().nth(MANY).is_some() { shown + "…" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::inspect::inspect;
    use crate::wire::spead::{
        Flavour, SpeadStream,
        packets::{HeapPackets, HeapShape, Split},
    };
    use crate::wire::{Format, Known};

    /// The packets of a heap: a descriptor, 20 bytes, and an immediate.
    fn packets(packet_bytes: usize, descriptor: &[u8]) -> Vec<Vec<u8>> {
        let flavour = Flavour::new(48).unwrap();
        let payload = [descriptor, &[7; 20]].concat();
        let pointers = [
            flavour.addressed(id::DESCRIPTOR, 0),
            flavour.addressed(0x1001, descriptor.len() as u64),
            flavour.immediate(0x1002, 5),
        ];
        let shape = HeapShape {
            flavour,
            counter: 1,
            pointers: &pointers,
            payload_bytes: payload.len() as u64,
            packet_bytes,
            repeat_pointers: false,
            split: Split::Full,
        };
        let packets = HeapPackets::new(shape).unwrap();
        let mut head = [0; 200];
        let one = |n| {
            let part = packets.packet(n, &mut head);
            let payload = &payload[part.payload.start as usize..part.payload.end as usize];
            [&head[..part.head], payload].concat()
        };
        (0..packets.count()).map(one).collect()
    }

    fn descriptor() -> Vec<u8> {
        let described = Descriptor {
            id: 0x1001,
            name: "gains\u{1b}[31m".into(),
            description: "of all \"antennas\"".into(),
            shape: vec![None, Some(4)],
            format: vec![('u', 4), ('i', 12)],
            numpy: None,
        };
        described.write(Flavour::new(48).unwrap(), BugCompat(0)).unwrap()
    }

    fn meanings(packet: &[u8]) -> Vec<String> {
        let seen = inspect(Format::Auto, packet);
        assert_eq!(seen.problem, None);
        let of = |row: &Row| ["descriptor", "user item"].contains(&row.name);
        seen.rows.into_iter().filter(of).map(|row| row.meaning).collect()
    }

    #[test]
    fn descriptors_name_items() {
        let want = [
            "id 0x1001, gains\\u{1b}[31m, u4 i12, shape (?, 4): of all \"antennas\"",
            "id 0x1001, gains\\u{1b}[31m",
            "id 0x1002",
        ];
        assert_eq!(meanings(&packets(1472, &descriptor())[0]), want);
    }

    #[test]
    fn what_lies_in_other_packets_is_not_shown_and_not_wrong() {
        let all = packets(128, &descriptor());
        assert_eq!(all.len(), 2);
        assert_eq!(meanings(&all[0]), ["", "id 0x1001", "id 0x1002"]);
        assert_eq!(meanings(&all[1]), [""; 0]);
    }

    #[test]
    fn a_descriptor_that_cannot_be_read_is_located() {
        let problem = inspect(SpeadStream::FAMILY.into(), &packets(1472, &[9; 30])[0]).problem.unwrap();
        assert_eq!(problem.to_string(), "descriptor at octet 64: bad_field");
    }

    #[test]
    fn items_have_names() {
        let stop = Item { immediate: true, id: 6, value: 2 };
        assert_eq!(of_item(stop), ("stream control", "stop".to_owned()));
        assert_eq!(of_item(Item { id: 0x1001, ..stop }), ("user item", "id 0x1001".to_owned()));
    }
}
