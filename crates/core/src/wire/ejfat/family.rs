//! EJFAT as a member of the registry.

use super::keyed::StoredEvents;
use super::{
    Addressing, BalancerV2, BalancerV3, BalancerVersion, Dialect, EjfatLabels, EjfatWire, EventPackets,
    EventShape, OldReassembly, PortRule, Reassembly, Segment, SlotRule, SyncMessage, Uri, balancer_bytes,
    data_id, read,
};
use crate::packetize::Divided;
use crate::placement::Reject;
use crate::wire::family::{Family, FamilyRef, Known, Particulars, Seen, Shape, StreamFormat};
use crate::wire::frame::{Objects, Packets};
use crate::wire::fuzzing::parser::Parser;
use crate::wire::inspect::{Reader, number};
use crate::wire::keyed::{Keyed, KnownKeyed, Part};
use crate::wire::labelled::{KnownLabelled, Labelled, Sync};
use crate::wire::layout::Place;

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
        PARSERS
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

/// Parsers that a packet of segments does not reach.
pub(super) const PARSERS: &[Parser] = &[
    Parser { name: "ejfat_label", weight: 1, run: label, seeds: label_seeds },
    Parser { name: "ejfat_sync", weight: 1, run: sync, seeds: sync_seeds },
    Parser { name: "ejfat_uri", weight: 2, run: uri, seeds: uri_seeds },
    Parser { name: "ejfat_packets", weight: 8, run: packets, seeds: packets_seeds },
];

/// A label agrees with the header of its version.
fn label(packet: &[u8]) {
    let _ = OldReassembly::recognise(packet);
    let Ok(label) = EjfatLabels::label(packet) else { return };
    let (Some((v2, _)), Some((v3, _))) = (BalancerV2::read(packet), BalancerV3::read(packet)) else {
        panic!("a label of nothing")
    };
    assert_eq!((label.tick, usize::from(label.bytes)), (v2.tick, BalancerV2::LEN));
    match v2.version {
        2 => assert_eq!((label.slot, label.port), (v2.tick as u16, v2.entropy)),
        3 => assert_eq!((label.slot, label.port), (v3.slot_select, v3.port_select)),
        version => panic!("version {version} was read"),
    }
}

fn label_seeds() -> Vec<Vec<u8>> {
    let versions = [BalancerVersion::V2, BalancerVersion::V3];
    let one = |version| Addressing { version, ..Addressing::default() }.header(77, 5).to_vec();
    versions.map(one).to_vec()
}

/// What is read is written back unchanged.
fn sync(datagram: &[u8]) {
    if let Ok(read) = SyncMessage::parse(datagram) {
        assert_eq!(read.write(), datagram);
    }
    if let Ok(read) = EjfatLabels::sync(datagram) {
        assert_eq!(EjfatLabels::sync(&EjfatLabels::write_sync(&read)), Ok(read));
    }
}

fn sync_seeds() -> Vec<Vec<u8>> {
    vec![EjfatLabels::write_sync(&Sync { source: 1, tick: 1 << 50, rate: 1_000_000, sent: 1 << 60 })]
}

/// What was parsed gives the same result when its text form is parsed again.
fn uri(octets: &[u8]) {
    let Ok(uri) = String::from_utf8_lossy(octets).parse::<Uri>() else { return };
    assert_eq!(uri.to_string().parse::<Uri>().as_ref(), Ok(&uri));
    for dialect in [Dialect::E2sar, Dialect::Jlab, Dialect::Udplbd] {
        if let Ok(text) = uri.to(dialect) {
            assert!(text.parse::<Uri>().is_ok(), "{text}");
        }
    }
}

fn uri_seeds() -> Vec<Vec<u8>> {
    [
        "ejfats://tok%2Fen@lb.example.net:18008/lb/17?sync=192.0.2.6:19010&data=192.0.2.10&data=[2001:db8::10]:10000",
        "ejfat://[2001:db8::1]:1/?data=192.0.2.10:16384-32767&sync=[2001:db8::6]:19531&sessionid=s",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Divide an event: 12 bytes of shape. Its packets can be read, and cover it.
fn packets(input: &[u8]) {
    let Some((&[choice, a, b, c, d, e, id, port, tick @ ..], _)) = input.split_first_chunk::<12>() else {
        return;
    };
    let rule =
        [PortRule::Fixed(port.into()), PortRule::Source, PortRule::Event][usize::from(choice >> 4) % 3];
    let addressing = Addressing {
        version: if choice & 1 == 0 { BalancerVersion::V2 } else { BalancerVersion::V3 },
        slot: if choice & 2 == 0 { SlotRule::Tick } else { SlotRule::Spread },
        port: rule,
    };
    let shape = EventShape {
        tick: u64::from(u32::from_be_bytes(tick)) << (choice >> 4),
        data_id: id.into(),
        event_bytes: u32::from_be_bytes([0, a, b, c]).into(),
        packet_bytes: u16::from_be_bytes([d, e]).into(),
        addressing: (choice & 4 == 0).then_some(addressing),
        version: choice % 3,
    };
    let Ok(event) = EventPackets::new(&shape) else { return };
    let mut packet = vec![0; shape.packet_bytes.max(event.head_bytes_max())];
    let mut at = 0;
    // Large events in small packets would take long: their first packets, and their last.
    let all = event.count();
    for n in (0..all.min(500)).chain(all.saturating_sub(3).max(500)..all) {
        let part = event.packet(n, &mut packet);
        let Ok(read) = Segment::read(&packet[..part.bytes() as usize]) else {
            panic!("packet {n} is not read")
        };
        let range = u64::from(read.offset)..u64::from(read.offset) + u64::from(read.length);
        assert_eq!((read.start, range, read.tick), (part.head, part.payload.clone(), shape.tick));
        assert!(part.payload.start == at || n >= 500);
        at = part.payload.end;
    }
    assert_eq!(at, shape.event_bytes);
}

fn packets_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0, 0, 0x5B, 0xA8, 0x05, 0xC0, 1, 2, 0, 0, 0, 77],
        vec![7, 1, 0, 0, 0, 40, 0, 0, 1, 2, 3, 4],
        vec![0x23, 0, 0, 9, 0x23, 0x0C, 3, 0, 9, 9, 9, 9],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seeds_hold() {
        for parser in PARSERS {
            (parser.seeds)().iter().for_each(|seed| (parser.run)(seed));
        }
    }

    proptest! {
        #[test]
        fn every_entry_returns(input in proptest::collection::vec(any::<u8>(), 0..100)) {
            PARSERS.iter().for_each(|parser| (parser.run)(&input));
        }
    }
}
