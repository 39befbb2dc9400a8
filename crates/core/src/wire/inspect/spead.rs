//! SPEAD packets: their items, and what the descriptors among them say.
//!
//! A packet alone need not have all pointers of its heap, so an item may end before the next pointer that is here; a
//! descriptor says its own length, and is shown where it lies in this packet's payload as a whole.

use super::{Problem, Reader, Row, meaning};
use crate::placement::Reject;
use crate::wire::spead::{
    BugCompat, Descriptor, Head, Item, Packet, Pointer, RawItem, Spead, id, items::items,
};

/// Descriptors of one packet that are shown: a search through them is made for each item.
const MOST: usize = 1000;

impl Reader<'_> {
    pub(super) fn spead(&mut self) {
        let header = Spead::read(self.packet).map(|(header, _)| header);
        let parts = Packet::read(self.packet);
        if let (Err(reason), Some(header)) = (parts.as_ref(), header) {
            let needed = Spead::LEN + usize::from(header.items) * Pointer::LEN;
            self.fail("SPEAD", *reason, if *reason == Reject::Truncated { needed } else { 0 });
        }
        self.table("SPEAD", Spead::FIELDS, Spead::LEN);
        let Ok(parts) = parts else { return };
        let described = self.descriptors();
        let value_bits = u32::from(parts.flavour.address_bits());
        let mut length = None;
        for item in parts.items() {
            let section = if item.immediate { "item" } else { "item address" };
            let (name, words) = meaning::of_item(item);
            let (byte, width, lsb) = (self.at, Pointer::LEN, 0);
            let meaning = described.words(item).unwrap_or(words);
            self.rows.push(Row {
                section,
                name,
                byte,
                width,
                lsb,
                bits: value_bits,
                value: item.value,
                meaning,
            });
            self.at += Pointer::LEN;
            if item.immediate && item.id == id::PAYLOAD_LENGTH {
                length = Some(item.value as usize);
            }
        }
        match length {
            None => self.fail("SPEAD", Reject::BadField, 0),
            Some(length) if length > self.rest().len() => self.fail("payload", Reject::Truncated, length),
            Some(length) if length < self.rest().len() => self.fail("payload", Reject::WrongSize, length),
            Some(_) => {}
        }
        if let Some((at, reason)) = described.bad {
            self.problem.get_or_insert(Problem { layer: "descriptor", at, needed: 0, had: 0, reason });
        }
    }

    /// The descriptors that lie in this packet.
    fn descriptors(&self) -> Described {
        let mut described = Described::default();
        let Ok(Some(head)) = Head::peek(self.packet) else { return described };
        let payload = self.packet.get(head.start..).unwrap_or_default();
        let pointers: Vec<u64> = head.kept().collect();
        let heap = head.size.unwrap_or(head.offset + head.length);
        for item in items(head.flavour, &pointers, heap) {
            if item.id != id::DESCRIPTOR || item.immediate || described.found.len() >= MOST {
                continue;
            }
            let Some(octets) = inside(&item, head.offset, payload) else { continue };
            match Descriptor::read(octets, BugCompat(0)) {
                Ok(descriptor) => described.found.push((item.value, descriptor)),
                // What is cut off may go on in the next packet.
                Err(_) if item.range.end > head.offset + payload.len() as u64 => {}
                Err(_) => {
                    let at = head.start + (item.range.start - head.offset) as usize;
                    described.bad.get_or_insert((at, Reject::BadField));
                }
            }
        }
        described
    }
}

/// The octets of an item that are in a packet's payload, if its first one is.
fn inside<'a>(item: &RawItem, offset: u64, payload: &'a [u8]) -> Option<&'a [u8]> {
    let from = usize::try_from(item.range.start.checked_sub(offset)?).ok()?;
    let to = usize::try_from(item.range.end - offset).ok()?.min(payload.len());
    payload.get(from..to).filter(|octets| !octets.is_empty())
}

/// What a packet says of items.
#[derive(Default)]
struct Described {
    /// Address and meaning.
    found: Vec<(u64, Descriptor)>,
    /// The first that cannot be read.
    bad: Option<(usize, Reject)>,
}

impl Described {
    /// What is known of an item beyond its id.
    fn words(&self, item: Item) -> Option<String> {
        if item.id == id::DESCRIPTOR && !item.immediate {
            let (_, descriptor) = self.found.iter().find(|(address, _)| *address == item.value)?;
            return Some(meaning::of_descriptor(descriptor));
        }
        let (_, descriptor) = self.found.iter().find(|(_, descriptor)| descriptor.id == item.id)?;
        Some(format!("id {:#x}, {}", item.id, meaning::shown(&descriptor.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Format;
    use crate::wire::inspect::inspect;
    use crate::wire::spead::{
        Flavour,
        packets::{HeapPackets, HeapShape, Split},
    };

    /// The packets of a heap: a descriptor, 20 octets, and an immediate.
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
        let problem = inspect(Format::Spead, &packets(1472, &[9; 30])[0]).problem.unwrap();
        assert_eq!(problem.to_string(), "descriptor at octet 64: bad_field");
    }
}
