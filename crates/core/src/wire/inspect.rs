//! Packets field by field, for the human who asks what is in them.
//!
//! The rows come from the header tables, so what is shown is what is read. Where a packet ends early or lies, the
//! [`Problem`] says in which layer, at which octet, how much was needed and how much there was; the rows before it
//! are still given.

use super::{
    ejfat::{self, BalancerV2, BalancerV3, Reassembly},
    fila10g::{self, Fila10g},
    format::Format,
    header::{Field, Order},
    learn::Shape,
    mark5b::{self, Mark5b},
    vdif::{
        Extended, Header, Vdif,
        extended::{Alma, Multiplexed, Nict, R2dbe, Vlba, Words},
    },
    vtp::{Vtp, VtpBig},
};
use crate::placement::Reject;

mod meaning;
mod spead;

/// One field of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The header it is in: "VTP", "VDIF", "EDV 3", "item".
    pub section: &'static str,
    /// The standard's name for it.
    pub name: &'static str,
    /// First octet of its word, from the start of the packet.
    pub byte: usize,
    /// Octets of its word.
    pub width: usize,
    /// Its lowest bit in the word.
    pub lsb: u32,
    /// How many bits it has.
    pub bits: u32,
    /// Its value.
    pub value: u64,
    /// What the value means, in words and units; may be empty.
    pub meaning: String,
}

/// Why a packet cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The header that cannot be read, or whose claim is not true.
    pub layer: &'static str,
    /// Its first octet in the packet.
    pub at: usize,
    /// Octets that are needed from there on; 0 where length is not the problem.
    pub needed: usize,
    /// Octets that are there.
    pub had: usize,
    /// The reason for which a receiver would refuse it.
    pub reason: Reject,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at octet {}: {}", self.layer, self.at, self.reason.name())?;
        if self.needed > 0 { write!(f, ", needs {} octets, has {}", self.needed, self.had) } else { Ok(()) }
    }
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What it was taken for; [`Format::Auto`] where it is none that is known.
    pub format: Format,
    /// Its fields, in order.
    pub rows: Vec<Row>,
    /// The first thing that is wrong.
    pub problem: Option<Problem>,
    /// Where its payload starts; its length if there is none.
    pub payload: usize,
}

/// The fields of `packet`. [`Format::Auto`] takes it for what it looks like; a packet alone does not tell everything
/// (the byte order of a sequence number is shown as little-endian unless that is absurd).
#[must_use]
pub fn inspect(format: Format, packet: &[u8]) -> Inspection {
    let mut reader = Reader { packet, at: 0, rows: Vec::new(), problem: None };
    let shape = Shape::of(packet, format);
    let format = match shape {
        Some(Shape::Vdif { .. }) => Format::Vdif,
        Some(Shape::Mark5b { .. }) => Format::Mark5b,
        Some(Shape::Fila10g) => Format::Fila10g,
        Some(Shape::Spead(_)) => Format::Spead,
        Some(Shape::Ejfat) => Format::Ejfat,
        None => format,
    };
    match (format, shape) {
        (Format::Vdif, Some(Shape::Vdif { network, .. })) => reader.vdif(network),
        (Format::Vdif, _) => reader.vdif(0),
        (Format::Mark5b, Some(Shape::Mark5b { network })) => reader.mark5b(network),
        (Format::Mark5b, _) => reader.mark5b(0),
        (Format::Fila10g, _) => reader.fila10g(),
        (Format::Spead, _) => reader.spead(),
        (Format::Ejfat, _) => reader.ejfat(),
        (Format::Auto, _) => reader.fail("packet", Reject::Unrecognised, 0),
    }
    let Reader { at, rows, problem, .. } = reader;
    Inspection { format, rows, problem, payload: at.min(packet.len()) }
}

struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
    rows: Vec<Row>,
    problem: Option<Problem>,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        self.packet.get(self.at..).unwrap_or_default()
    }

    fn fail(&mut self, layer: &'static str, reason: Reject, needed: usize) {
        let had = self.rest().len();
        self.problem.get_or_insert(Problem { layer, at: self.at, needed, had, reason });
    }

    /// All fields of a table that are there; whether it is whole.
    fn table(&mut self, section: &'static str, fields: &[Field], length: usize) -> bool {
        let header = self.rest();
        for field in fields {
            let Some(value) = field.value(header) else { break };
            self.rows.push(Row {
                section,
                name: field.name,
                byte: self.at + field.byte,
                width: field.width,
                lsb: field.lsb,
                bits: field.bits,
                value,
                meaning: meaning::of(section, field.name, value, header),
            });
        }
        let whole = header.len() >= length;
        if whole {
            self.at += length;
        } else {
            self.fail(section, Reject::Truncated, length);
        }
        whole
    }

    fn sequence(&mut self, network: usize) {
        if network == Vtp::LEN {
            match likely_order(self.packet) {
                Order::Little => self.table("VTP", Vtp::FIELDS, Vtp::LEN),
                Order::Big => self.table("VTP", VtpBig::FIELDS, VtpBig::LEN),
            };
        }
    }

    fn vdif(&mut self, network: usize) {
        self.sequence(network);
        let start = self.at;
        let Some((vdif, _)) = Vdif::read(self.rest()) else {
            self.table("VDIF", Vdif::FIELDS, Vdif::LEN);
            return;
        };
        self.table("VDIF", Vdif::FIELDS, Vdif::LEN);
        if vdif.legacy == 0 {
            let (section, fields) = match Extended::read(self.rest()) {
                None | Some(Extended::Plain(_) | Extended::Legacy) => ("EDV 0", Words::FIELDS),
                Some(Extended::Nict(_)) => ("EDV 1", Nict::FIELDS),
                Some(Extended::Alma(_)) => ("EDV 2 ALMA", Alma::FIELDS),
                Some(Extended::R2dbe(_)) => ("EDV 2 R2DBE", R2dbe::FIELDS),
                Some(Extended::Vlba(_)) => ("EDV 3", Vlba::FIELDS),
                Some(Extended::Multiplexed(_)) => ("EDV 4", Multiplexed::FIELDS),
                Some(Extended::Mark5b(_)) => ("EDV 0xAB", Mark5b::FIELDS),
                Some(Extended::Unknown(_)) => ("EDV unknown", Words::FIELDS),
            };
            self.table(section, fields, Words::LEN);
        }
        let frame = self.packet.get(start..).unwrap_or_default();
        if let Err(reason) = Header::read(frame) {
            let end = std::mem::replace(&mut self.at, start);
            self.fail("VDIF", reason, if reason == Reject::Truncated { vdif.frame_bytes() } else { 0 });
            self.at = end;
        }
    }

    fn mark5b(&mut self, network: usize) {
        self.sequence(network);
        self.mark5b_header();
        let needed = network + mark5b::FRAME;
        if self.packet.len() < needed {
            self.at = 0;
            self.fail("Mark 5B", Reject::Truncated, needed);
            self.at = network + Mark5b::LEN;
        }
    }

    fn mark5b_header(&mut self) {
        if let Some(Err(reason)) = Mark5b::read(self.rest()).map(|(header, _)| header.time()) {
            self.fail("Mark 5B", reason, 0);
        }
        self.table("Mark 5B", Mark5b::FIELDS, Mark5b::LEN);
    }

    fn fila10g(&mut self) {
        if self.table("FILA10G", Fila10g::FIELDS, Fila10g::LEN) {
            if self.rest().starts_with(&mark5b::SYNC.to_le_bytes()) {
                self.mark5b_header();
            }
            if self.packet.len() != fila10g::DATAGRAM {
                let reason =
                    if self.packet.len() < fila10g::DATAGRAM { Reject::Truncated } else { Reject::WrongSize };
                let end = std::mem::take(&mut self.at);
                self.fail("FILA10G", reason, fila10g::DATAGRAM);
                self.at = end;
            }
        }
    }

    fn ejfat(&mut self) {
        match ejfat::balancer_bytes(self.packet) {
            Ok(0) => {}
            found => {
                if let Err(reason) = found {
                    self.fail("load balancer", reason, 0);
                }
                let v3 = BalancerV2::read(self.packet).is_some_and(|(lb, _)| lb.version == 3);
                let fields = if v3 { BalancerV3::FIELDS } else { BalancerV2::FIELDS };
                self.table("load balancer", fields, BalancerV2::LEN);
            }
        }
        let segment = Reassembly::read(self.rest());
        if segment.is_some_and(|(header, _)| header.version > 2) {
            self.fail("reassembly", Reject::BadVersion, 0);
        }
        self.table("reassembly", Reassembly::FIELDS, Reassembly::LEN);
        if let Some((header, payload)) = segment
            && u64::from(header.offset) + payload.len() as u64 > u64::from(header.length)
        {
            self.fail("payload", Reject::Outside, 0);
        }
    }
}

/// The byte order in which the number before `packet`'s frame is the smaller one.
fn likely_order(packet: &[u8]) -> Order {
    let read = |order| super::vtp::psn(packet, order);
    if read(Order::Big) < read(Order::Little) { Order::Big } else { Order::Little }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::spead::{self, Spead};
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
        assert_eq!((seen.format, seen.problem, seen.payload), (Format::Vdif, None, 40));
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
        let cut = inspect(Format::Vdif, &packet[8..5000]);
        let want = Problem { layer: "VDIF", at: 0, needed: 5032, had: 4992, reason: Reject::Truncated };
        assert_eq!(cut.problem, Some(want));
        assert_eq!(want.to_string(), "VDIF at octet 0: truncated, needs 5032 octets, has 4992");
        assert_eq!(inspect(Format::Vdif, &packet[8..20]).problem.unwrap().needed, 16);
        assert_eq!(inspect(Format::Auto, &[0; 30]).problem.unwrap().reason, Reject::Unrecognised);

        let mark = Mark5b::new(mark5b::Time { day: 60, second: 1, frame: 2 }, 3);
        let mut frame = mark.write().to_vec();
        frame.resize(mark5b::FRAME, 0);
        let seen = inspect(Format::Auto, &frame);
        assert_eq!((seen.problem, value(&seen, "Mark 5B", "crc").1), (None, "right".into()));
        frame[12] ^= 1;
        assert_eq!(inspect(Format::Auto, &frame).problem.unwrap().reason, Reject::BadChecksum);
        assert_eq!(inspect(Format::Mark5b, &frame[..99]).problem.unwrap().reason, Reject::BadChecksum);
        frame[12] ^= 1;
        assert_eq!(inspect(Format::Mark5b, &frame[..99]).problem.unwrap().needed, mark5b::FRAME);
        assert_eq!(inspect(Format::Fila10g, &frame[..99]).problem.unwrap().reason, Reject::Truncated);
    }

    #[test]
    fn spead_items_and_ejfat_segments() {
        let flavour = spead::Flavour::new(48).unwrap();
        let header =
            Spead { magic: 0x53, version: 4, item_width: 2, address_width: 6, reserved: 0, items: 2 };
        let item = |id, value| flavour.write(spead::Item { immediate: true, id, value });
        let packet = [&header.write()[..], &item(1, 77), &item(4, 5), &[0; 5]].concat();
        let seen = inspect(Format::Auto, &packet);
        assert_eq!((seen.format, seen.problem, seen.payload), (Format::Spead, None, 24));
        assert_eq!(value(&seen, "item", "heap counter").0, 77);
        assert_eq!(inspect(Format::Spead, &packet[..26]).problem.unwrap().layer, "payload");
        assert_eq!(inspect(Format::Spead, &packet[..20]).problem.unwrap().needed, 24);

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
        assert_eq!((seen.format, seen.problem, seen.payload), (Format::Ejfat, None, 36));
        assert_eq!(
            (value(&seen, "load balancer", "slot_select").0, value(&seen, "reassembly", "data_id").0),
            (4, 8)
        );
        let long = [&packet[..], &[0]].concat();
        assert_eq!(inspect(Format::Ejfat, &long).problem.unwrap().reason, Reject::Outside);
    }

    proptest! {
        #[test]
        fn any_octets_are_inspected(raw in proptest::collection::vec(any::<u8>(), 0..200), which in 0usize..6) {
            let seen = inspect(Format::ALL[which], &raw);
            prop_assert!(seen.payload <= raw.len());
            prop_assert!(seen.rows.iter().all(|row| row.byte + row.width <= raw.len()));
        }
    }
}
