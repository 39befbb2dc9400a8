//! Packets field by field, for people.
//!
//! The rows come from the header tables that the parsers use. If a packet is truncated or inconsistent, the [`Problem`]
//! states the layer, the byte, and the needed and available length; the rows before it are still given.

pub mod reader;

pub use reader::{Meaning, Problem, Reader, Row, number};

use super::family::{Format, Shape};
use crate::placement::Reject;

/// The fields of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The detected format; [`Format::Auto`] if it is unknown.
    pub format: Format,
    /// Its fields, in order.
    pub rows: Vec<Row>,
    /// The first problem.
    pub problem: Option<Problem>,
    /// Where its payload starts; the packet's length if there is none.
    pub payload: usize,
    /// One past the last byte of its payload: what follows is padding or a checksum.
    pub payload_end: usize,
}

/// The fields of `packet`. [`Format::Auto`] detects the format; a single packet does not determine everything (a sequence
/// number is shown as little-endian unless that is implausible).
#[must_use]
pub fn inspect(format: Format, packet: &[u8]) -> Inspection {
    let mut reader = Reader::new(packet);
    let shape = Shape::of(packet, format);
    let family = shape.map(|shape| shape.family).or(format.family());
    match family {
        Some(family) => family.inspect(&mut reader, shape),
        None => reader.fail("packet", Reject::Unrecognised, 0),
    }
    let payload = reader.at().min(packet.len());
    let (rows, problem) = reader.finish();
    Inspection {
        format: family.map_or(Format::Auto, Format::Of),
        rows,
        problem,
        payload,
        payload_end: packet.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        Known,
        ejfat::{self, BalancerV3, EjfatStream, Reassembly},
        fila10g::Fila10gStream,
        mark5b::{self, Mark5b, Mark5bStream},
        spead::{self, Spead, SpeadStream},
        vdif::{Extended, Header, Vdif, VdifStream},
    };
    use proptest::prelude::*;

    fn value(inspection: &Inspection, section: &str, name: &str) -> (u64, String) {
        let found = inspection.rows.iter().find(|row| row.section == section && row.name == name);
        let row = found.unwrap_or_else(|| panic!("no {section} {name}"));
        (row.value, row.meaning.clone())
    }

    fn vdif() -> Vec<u8> {
        let vdif = Vdif::shape(5000, 1, 2, false, false).unwrap().at(1_767_225_600 + 3661, 7).unwrap();
        let vdif = Vdif { station: 0x577A, ..vdif };
        let (octets, _) = Header { vdif, extended: Extended::vlba(32_000_000, false).unwrap() }.write();
        [&99u64.to_be_bytes()[..], &octets, &[0; 5000]].concat()
    }

    #[test]
    fn vdif_in_words() {
        let seen = inspect(Format::Auto, &vdif());
        assert_eq!((seen.format, seen.problem, seen.payload), (VdifStream::FAMILY.into(), None, 40));
        assert_eq!(value(&seen, "VTP", "psn").0, 99);
        assert_eq!(value(&seen, "VDIF", "seconds"), (3661, "2026-01-01T01:01:01Z".into()));
        assert_eq!(value(&seen, "VDIF", "length8"), (629, "5032 octets".into()));
        assert_eq!(value(&seen, "VDIF", "station").1, "Wz");
        assert_eq!(value(&seen, "EDV 3", "rate"), (16, "16 MHz".into()));
        assert_eq!(seen.rows[1].byte, 8);
    }

    #[test]
    fn what_is_wrong_is_located() {
        let packet = vdif();
        let cut = inspect(VdifStream::FAMILY.into(), &packet[8..5000]);
        let want = Problem { layer: "VDIF", at: 0, needed: 5032, had: 4992, reason: Reject::Truncated };
        assert_eq!(cut.problem, Some(want));
        assert_eq!(want.to_string(), "VDIF at octet 0: truncated, needs 5032 octets, has 4992");
        assert_eq!(inspect(VdifStream::FAMILY.into(), &packet[8..20]).problem.unwrap().needed, 16);
        assert_eq!(inspect(Format::Auto, &[0; 30]).problem.unwrap().reason, Reject::Unrecognised);

        let mark = Mark5b::new(mark5b::Time { day: 60, second: 1, frame: 2 }, 3);
        let mut frame = mark.write().to_vec();
        frame.resize(mark5b::FRAME, 0);
        let seen = inspect(Format::Auto, &frame);
        assert_eq!((seen.problem, value(&seen, "Mark 5B", "crc").1), (None, "right".into()));
        frame[12] ^= 1;
        assert_eq!(inspect(Format::Auto, &frame).problem.unwrap().reason, Reject::BadChecksum);
        assert_eq!(
            inspect(Mark5bStream::FAMILY.into(), &frame[..99]).problem.unwrap().reason,
            Reject::BadChecksum
        );
        frame[12] ^= 1;
        assert_eq!(inspect(Mark5bStream::FAMILY.into(), &frame[..99]).problem.unwrap().needed, mark5b::FRAME);
        assert_eq!(
            inspect(Fila10gStream::FAMILY.into(), &frame[..99]).problem.unwrap().reason,
            Reject::Truncated
        );
    }

    #[test]
    fn spead_items_and_ejfat_segments() {
        let flavour = spead::Flavour::new(48).unwrap();
        let header =
            Spead { magic: 0x53, version: 4, item_width: 2, address_width: 6, reserved: 0, items: 2 };
        let item = |id, value| flavour.write(spead::Item { immediate: true, id, value });
        let packet = [&header.write()[..], &item(1, 77), &item(4, 5), &[0; 5]].concat();
        let seen = inspect(Format::Auto, &packet);
        assert_eq!((seen.format, seen.problem, seen.payload), (SpeadStream::FAMILY.into(), None, 24));
        assert_eq!(value(&seen, "item", "heap counter").0, 77);
        assert_eq!(inspect(SpeadStream::FAMILY.into(), &packet[..26]).problem.unwrap().layer, "payload");
        assert_eq!(inspect(SpeadStream::FAMILY.into(), &packet[..20]).problem.unwrap().needed, 24);

        let lb = BalancerV3 {
            magic: ejfat::MAGIC,
            version: 3,
            protocol: 1,
            slot_select: 4,
            port_select: 5,
            tick: 6,
        };
        let re = Reassembly { version: 1, data_id: 8, offset: 0, length: 3, tick: 6, reserved: 0 };
        let packet = [&lb.write()[..], &re.write(), &[0; 3]].concat();
        let seen = inspect(Format::Auto, &packet);
        assert_eq!((seen.format, seen.problem, seen.payload), (EjfatStream::FAMILY.into(), None, 36));
        assert_eq!(
            (value(&seen, "load balancer", "slot_select").0, value(&seen, "reassembly", "data_id").0),
            (4, 8)
        );
        let long = [&packet[..], &[0]].concat();
        assert_eq!(inspect(EjfatStream::FAMILY.into(), &long).problem.unwrap().reason, Reject::Outside);
    }

    proptest! {
        #[test]
        fn any_octets_are_inspected(raw in proptest::collection::vec(any::<u8>(), 0..200), which in 0usize..6) {
            let seen = inspect(Format::all().nth(which).unwrap_or_default(), &raw);
            prop_assert!(seen.payload <= raw.len());
            prop_assert!(seen.rows.iter().all(|row| row.byte + row.width <= raw.len()));
        }
    }
}
