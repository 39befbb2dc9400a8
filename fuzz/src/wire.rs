//! Targets for the wire formats: what is read writes back; the core's own entries hold the rest.

use skyhaul_core::wire::ejfat::{self, BalancerV2, Reassembly};
use skyhaul_core::wire::fuzzing;
use skyhaul_core::wire::mark5b::{self as m5b, Mark5b, Time};
use skyhaul_core::wire::spead::{Flavour, Item, Packet, Pointer, Spead, id};
use skyhaul_core::wire::vdif::{Extended, Header, Vdif};
use skyhaul_core::wire::{Order, fila10g::Fila10g, vtp as transport};

const ORDERS: [Order; 2] = [Order::Little, Order::Big];
/// Small frames, so that whole ones are cheap to make and to mutate.
const FRAME: usize = 40;
const UNIX: i64 = 1_795_231_799;

/// The first octet chooses the layout.
pub(crate) fn vdif(bytes: &[u8]) {
    let packet = bytes.get(1..).unwrap_or_default();
    if let Ok(header) = Header::read(packet) {
        let (octets, length) = header.write();
        assert_eq!(&octets[..length], &packet[..length], "a header does not write back");
        let vdif = header.vdif;
        let _ =
            (vdif.samples(), vdif.channels(), vdif.station_text(), vdif.unix_seconds(), vdif.payload_bytes());
        let _ =
            (header.extended.edv(), header.extended.psn(), header.extended.sample_rate(vdif.complex == 1));
    }
    fuzzing::vdif(bytes);
}

pub(crate) fn vdif_seeds() -> Vec<Vec<u8>> {
    let chosen = |(n, frame): (usize, Vec<u8>)| {
        let choice = ((n * 36) as u8) | u8::from(frame.len() > FRAME);
        [&[choice][..], &frame].concat()
    };
    frames().into_iter().enumerate().map(chosen).collect()
}

/// What is inspected: frames, and packets with descriptors.
pub(crate) fn inspect_seeds() -> Vec<Vec<u8>> {
    frames().into_iter().chain(crate::spead::packet_seeds()).collect()
}

/// One frame of each extended data version, each with and without a sequence number.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let extended = [
        Some(Extended::Legacy),
        Extended::nict(32_000_000, false, "backend"),
        Extended::vlba(32_000_000, true),
        Extended::read(&[0; 16]),
        Extended::read(&[0xEF, 0xA5, 0xA5, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        Extended::read(&[9, 0, 0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 5, 6, 7, 8, 9, 10, 11, 12]),
        Extended::read(&[0, 0, 8, 4, 0xED, 0xFE, 0xAB, 0xAC, 0xFF, 0, 0, 0, 0, 0, 0, 0]),
        Extended::read(&Mark5b::new(Time { day: 821, second: 19_801, frame: 3 }, 1).write()),
        Extended::read(&[1, 2, 3, 200, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
    ];
    for (n, extended) in extended.into_iter().flatten().enumerate() {
        let legacy = matches!(extended, Extended::Legacy);
        let Some(vdif) = Vdif::shape(FRAME - if legacy { 16 } else { 32 }, 1, 2, false, legacy) else {
            continue;
        };
        let Some(vdif) = vdif.at(UNIX + n as i64, n as u32 % 5) else { continue };
        let (octets, length) = Header { vdif: Vdif { thread: n as u32 % 2, ..vdif }, extended }.write();
        let mut frame = octets[..length].to_vec();
        frame.resize(FRAME, 0x11);
        let number = transport::write(1000 + n as u64, ORDERS[n % 2]);
        seeds.push([&number[..], &frame[..]].concat());
        seeds.push(frame);
    }
    seeds
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

/// Mark 5B and the half frames of a FILA10G.
pub(crate) fn mark5b(bytes: &[u8]) {
    if let Some((header, _)) = Mark5b::read(bytes) {
        assert_eq!(header.write(), bytes[..Mark5b::LEN], "a header does not write back");
        if let Ok(time) = header.time() {
            let near = m5b::unix_seconds(time.day, time.second, UNIX);
            assert!((near - UNIX).abs() <= 501 * 86_400, "{time:?} was put {near} far from now");
        }
        let headers: Vec<Mark5b> =
            bytes.chunks_exact(Mark5b::LEN).filter_map(|c| Some(Mark5b::read(c)?.0)).collect();
        let _ = m5b::frames_per_second(&headers);
    }
    fuzzing::mark5b(bytes);
}

pub(crate) fn mark5b_seeds() -> Vec<Vec<u8>> {
    let header =
        |frame: u32, fraction| Mark5b::new(Time { day: 821, second: 19_801, frame }, fraction).write();
    let three = [header(0, 0), header(1, 1), header(2, 3)].concat();
    let half = |counter| [&Fila10g { filler: 9, counter }.write()[..], &header(5, 250)].concat();
    vec![header(0, 0).to_vec(), header(40_000, 7812).to_vec(), three, half(40), half(41)]
}

pub(crate) fn spead(bytes: &[u8]) {
    if let Ok(packet) = Packet::read(bytes) {
        for item in packet.items() {
            let (pointer, _) = Pointer::read(&packet.flavour.write(item)).expect("eight octets");
            assert_eq!(packet.flavour.item(pointer), item, "an item does not write back");
        }
        let _ = packet.is_stop();
    }
    fuzzing::spead(bytes);
}

pub(crate) fn spead_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for bits in [40, 48, 32] {
        let Some(flavour) = Flavour::new(bits) else { continue };
        let items =
            [(id::HEAP_COUNTER, 7), (id::HEAP_SIZE, 4096), (id::HEAP_OFFSET, 64), (id::PAYLOAD_LENGTH, 16)];
        let header = Spead {
            magic: 0x53,
            version: 4,
            item_width: 8 - bits / 8,
            address_width: bits / 8,
            reserved: 0,
            items: items.len() as u16,
        };
        let mut packet = header.write().to_vec();
        for (id, value) in items {
            packet.extend(flavour.write(Item { immediate: true, id, value }));
        }
        packet.resize(packet.len() + 16, 0x22);
        seeds.push(packet);
    }
    seeds
}

pub(crate) fn ejfat(bytes: &[u8]) {
    let _ = ejfat::data_id(bytes);
    if let Ok((header, payload)) = ejfat::read(bytes) {
        let at = bytes.len() - payload.len() - Reassembly::LEN;
        assert_eq!(header.write(), bytes[at..at + Reassembly::LEN], "a header does not write back");
    }
    fuzzing::ejfat(bytes);
}

pub(crate) fn ejfat_seeds() -> Vec<Vec<u8>> {
    let bare = |version| {
        let header =
            Reassembly { version, data_id: 5, offset: 64, length: 4096, tick: 99, ..Reassembly::default() };
        [&header.write()[..], &[0x33; 24]].concat()
    };
    let balanced = |version| {
        let header = BalancerV2 {
            magic: ejfat::MAGIC,
            version,
            protocol: 1,
            entropy: 9,
            tick: 99,
            ..BalancerV2::default()
        };
        [&header.write()[..], &bare(1)].concat()
    };
    vec![bare(0), bare(1), bare(2), balanced(2), balanced(3)]
}

/// A file of whole frames, sent again with new times.
pub(crate) fn restamp_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        frames().into_iter().filter(|frame| frame.len() == FRAME).map(|frame| frame.repeat(3)).collect();
    let mut mark5b = Mark5b::new(Time { day: 821, second: 19_801, frame: 0 }, 0).write().to_vec();
    mark5b.resize(m5b::FRAME, 0);
    seeds.push(mark5b);
    seeds
}
