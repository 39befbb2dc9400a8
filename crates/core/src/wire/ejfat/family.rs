//! EJFAT as a member of the registry.

use super::{
    BalancerV2, BalancerV3, EjfatLabels, EjfatWire, OldReassembly, Reassembly, Segment, balancer_bytes,
    data_id, fuzzing, read, stored::StoredEvents,
};
use crate::{
    placement::Reject,
    wire::{
        family::{Family, FamilyRef, Known, Particulars, Seen, Shape, StreamFormat},
        frame::{Objects, Packets},
        fuzzing::parser::Parser,
        inspect::reader::{Reader, number},
        keyed::{Keyed, KnownKeyed, Part},
        labelled::KnownLabelled,
        layout::Place,
    },
};

/// EJFAT reassembly segments, with or without the load balancer's header.
#[derive(Debug)]
pub struct EjfatFamily;

impl Family for EjfatFamily {
    fn name(&self) -> &'static str {
        "ejfat"
    }

    fn title(&self) -> &'static str {
        "EJFAT"
    }

    fn objects(&self) -> Objects {
        Objects::Events
    }

    /// A segment must lie within its event; without the balancer's header there is no magic number.
    fn shape(&self, packet: &[u8]) -> Option<Shape> {
        let (header, payload) = read(packet).ok()?;
        let end = u64::from(header.offset) + payload.len() as u64;
        let fits = header.reserved == 0 && !payload.is_empty() && end <= u64::from(header.length);
        fits.then_some(Shape { family: EjfatStream::FAMILY, network: 0, length: 0, variant: 0 })
    }

    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
        let mut data_ids: Vec<u16> =
            seen.samples.iter().map(|sample| sample.head()).filter_map(data_id).collect();
        data_ids.sort_unstable();
        data_ids.dedup();
        Ok(StreamFormat { place: Place::Sequence, ..seen.blank(EjfatStream { data_ids }) })
    }

    fn packets(&self) -> Option<&'static dyn Packets> {
        Some(&StoredEvents)
    }

    fn inspect(&self, reader: &mut Reader<'_>, _: Option<Shape>) {
        match balancer_bytes(reader.packet()) {
            Ok(0) => {}
            found => {
                if let Err(reason) = found {
                    reader.fail("load balancer", reason, 0);
                }
                let v3 = BalancerV2::read(reader.packet()).is_some_and(|(lb, _)| lb.version == 3);
                let fields = if v3 { BalancerV3::FIELDS } else { BalancerV2::FIELDS };
                reader.table("load balancer", fields, BalancerV2::LEN, number);
            }
        }
        if OldReassembly::recognise(reader.rest()).is_some() {
            reader.fail("old reassembly", Reject::BadVersion, 0);
            reader.table("old reassembly", OldReassembly::FIELDS, OldReassembly::LEN, number);
            return;
        }
        let segment = Reassembly::read(reader.rest());
        if segment.is_some_and(|(header, _)| header.version > 2) {
            reader.fail("reassembly", Reject::BadVersion, 0);
        }
        reader.table("reassembly", Reassembly::FIELDS, Reassembly::LEN, meaning);
        if let Some((header, payload)) = segment
            && u64::from(header.offset) + payload.len() as u64 > u64::from(header.length)
        {
            reader.fail("payload", Reject::Outside, 0);
        }
    }

    /// With and without the balancer's header. A header that was read is written back unchanged.
    fn fuzz(&self, _: u8, packet: &[u8]) {
        let _ = data_id(packet);
        if let Ok((header, payload)) = read(packet) {
            let at = packet.len() - payload.len() - Reassembly::LEN;
            assert_eq!(header.write(), packet[at..at + Reassembly::LEN], "a header does not write back");
        }
        if let Ok(segment) = Segment::read(packet) {
            let place = segment.placement(0);
            assert_eq!(u64::from(place.start) + place.length, packet.len() as u64);
            assert!(place.size.is_some_and(|size| place.offset + place.length <= size));
        }
    }

    /// In each form, and in the versions of other writers.
    fn seeds(&self) -> Vec<Vec<u8>> {
        let part = Part {
            own: 5,
            number: 99,
            size: Some(4096),
            offset: 64,
            payload: &[0x33; 24],
            ..Part::default()
        };
        let mut seeds: Vec<_> = (0..3).filter_map(|form| EjfatWire::packet(form, &part)).collect();
        for version in [0, 2] {
            let mut bare = seeds[0].clone();
            bare[0] = version << 4;
            seeds.push(bare);
        }
        seeds
    }

    fn parsers(&self) -> &'static [Parser] {
        fuzzing::PARSERS
    }
}

fn meaning(_: &str, name: &str, value: u64, _: &[u8]) -> Option<String> {
    let writer = match (name, value) {
        ("version", 0) => "as udplbd writes it",
        ("version", 1) => "as E2SAR writes it",
        ("version", 2) => "as packetBlaster writes it",
        ("version", _) => "unknown",
        _ => return None,
    };
    Some(writer.to_owned())
}

/// Particulars of an EJFAT stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EjfatStream {
    /// Data ids seen, ascending.
    pub data_ids: Vec<u16>,
}

impl Known for EjfatStream {
    const FAMILY: FamilyRef = FamilyRef::new(&EjfatFamily);
}

impl KnownKeyed for EjfatStream {
    type Wire = EjfatWire;
}

impl KnownLabelled for EjfatStream {
    type Labels = EjfatLabels;
}

impl Particulars for EjfatStream {
    fn details(&self, _: &StreamFormat) -> Vec<String> {
        if self.data_ids.is_empty() { Vec::new() } else { vec![format!("data ids {:?}", self.data_ids)] }
    }
}
