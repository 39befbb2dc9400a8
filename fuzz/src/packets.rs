//! Packets of the families to begin from, and the number before them.

use skyhaul_core::wire::{FAMILIES, FamilyRef, Format, Framing, Order, probe::Probe, vtp as transport};

const ORDERS: [Order; 2] = [Order::Little, Order::Big];

/// Packets of every family.
pub(crate) fn all() -> Vec<Vec<u8>> {
    FAMILIES.iter().flat_map(|family| family.seeds()).collect()
}

/// Packets of one family, each behind an octet that chooses what a packet does not tell.
pub(crate) fn chosen(family: FamilyRef) -> Vec<Vec<u8>> {
    let numbered = family.seeds().into_iter().enumerate();
    let choices = |(n, packet): (usize, Vec<u8>)| {
        [0, 1].map(|low| [&[((n * 36) as u8) & !1 | low][..], &packet].concat())
    };
    numbered.flat_map(choices).collect()
}

/// What is inspected: packets of every family, and whatever else reaches deep in one.
pub(crate) fn inspect_seeds() -> Vec<Vec<u8>> {
    let deep = FAMILIES.iter().flat_map(|family| family.parsers()).flat_map(|parser| (parser.seeds)());
    all().into_iter().chain(deep).collect()
}

pub(crate) fn vtp(bytes: &[u8]) {
    for order in ORDERS {
        if let Some(number) = transport::psn(bytes, order) {
            assert_eq!(transport::write(number, order), bytes[..8], "a sequence number does not write back");
        }
    }
    let _ = transport::detect(bytes.chunks(9));
}

pub(crate) fn vtp_seeds() -> Vec<Vec<u8>> {
    let run = |order| (250u64..270).flat_map(|n| [&transport::write(n, order)[..], &[0]].concat()).collect();
    ORDERS.map(run).to_vec()
}

/// A packet of a measurement: whole, or refused. The first octet asks for a valid checksum, which mutations do not find.
pub(crate) fn probe(bytes: &[u8]) {
    let Some((seal, packet)) = bytes.split_first() else { return };
    let mut packet = packet.to_vec();
    if let Some((probe, _)) = Probe::read(&packet).filter(|_| seal & 1 == 1) {
        probe.put(&mut packet);
    }
    if let Ok(probe) = Probe::parse(&packet) {
        assert_eq!(usize::from(probe.octets), packet.len(), "a packet of another length passed");
        assert_eq!(probe.sealed(), packet[..Probe::LEN], "a header does not write back");
    }
}

pub(crate) fn probe_seeds() -> Vec<Vec<u8>> {
    let packet = |octets: usize| {
        let mut packet = vec![0; octets];
        Probe { run: 7, flow: 2, number: 41, sent: 1_000_000_000, ..Probe::of(octets) }.put(&mut packet);
        packet
    };
    let both = |octets| [0, 1].map(|seal| [&[seal][..], &packet(octets)].concat());
    [40, 64, 1472].into_iter().flat_map(both).collect()
}

/// Files of whole frames, sent again with new times.
pub(crate) fn restamp_seeds() -> Vec<Vec<u8>> {
    let whole = |mut packet: Vec<u8>| match Format::Auto.framing(&packet) {
        // What precedes a frame may look like another, of any length.
        Framing::Length(length) if length < 1 << 16 => {
            packet.resize(length, 0);
            Some(packet.repeat(if length < 100 { 3 } else { 1 }))
        }
        _ => None,
    };
    all().into_iter().filter_map(whole).collect()
}
