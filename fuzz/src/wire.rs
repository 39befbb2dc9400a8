//! Targets for the wire formats: what is read writes back, what is placed lies inside.

use skyhaul_core::placement::{Layout, Reject};
use skyhaul_core::wire::ejfat::{self, BalancerV2, EjfatLayout, Reassembly};
use skyhaul_core::wire::fila10g::{self, Fila10gLayout, Phase};
use skyhaul_core::wire::layout::Blocks;
use skyhaul_core::wire::mark5b::{self as m5b, Mark5b, Mark5bLayout, Time};
use skyhaul_core::wire::spead::{Flavour, Item, Packet, Spead, SpeadLayout, id};
use skyhaul_core::wire::vdif::{Extended, Header, Vdif, VdifLayout};
use skyhaul_core::wire::{Order, vtp as transport};

const ORDERS: [Order; 2] = [Order::Little, Order::Big];
/// Small frames, so that whole ones are cheap to make and to mutate.
const FRAME: usize = 40;
const UNIX: i64 = 1_795_231_799;

/// A payload that was given a place lies in its packet and in its object.
pub(crate) fn placed(layout: &impl Layout, packet: &[u8]) {
    if let Ok(place) = layout.place(packet) {
        assert!(place.length > 0, "nothing was placed");
        assert!(place.start as usize + place.length as usize <= packet.len(), "{place:?} leaves the packet");
        let end = place.offset.checked_add(u64::from(place.length)).expect("no wrap");
        assert!(end <= layout.geometry().object_bytes, "{place:?} leaves the largest object");
        assert!(place.size.is_none_or(|size| end <= size), "{place:?} leaves its object");
    }
}

fn made<L>(layout: Result<L, Reject>) -> L {
    layout.unwrap_or_else(|why| panic!("a legal layout was refused: {why:?}"))
}

fn blocks(packet: usize, start: usize, group: usize) -> Blocks {
    made(Blocks::new(packet, start, group, 1 << 20))
}

pub(crate) fn vdif(bytes: &[u8]) {
    if let Ok(header) = Header::read(bytes) {
        let (octets, length) = header.write();
        assert_eq!(&octets[..length], &bytes[..length], "a header does not write back");
        let vdif = header.vdif;
        let _ =
            (vdif.samples(), vdif.channels(), vdif.station_text(), vdif.unix_seconds(), vdif.payload_bytes());
        let _ =
            (header.extended.edv(), header.extended.psn(), header.extended.sample_rate(vdif.complex == 1));
    }
    let Some(shape) = Vdif::shape(FRAME - 32, 1, 2, false, false) else { return };
    for fps in [None, Some(5)] {
        placed(&made(VdifLayout::by_time(blocks(FRAME, 0, 2), &shape, &[(0, 0), (1, -7)], fps)), bytes);
    }
    for order in ORDERS {
        placed(&made(VdifLayout::by_sequence(blocks(FRAME + 8, 8, 1), &shape, order)), bytes);
    }
}

pub(crate) fn vdif_seeds() -> Vec<Vec<u8>> {
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
    // A whole frame is large: its header is mutated, the samples behind it do not matter.
    let mut packet = bytes.to_vec();
    for fps in [None, Some(200), Some(51_200)] {
        packet.resize(m5b::FRAME, 0);
        placed(&made(Mark5bLayout::new(blocks(m5b::FRAME, 0, 1), None, fps)), &packet);
        packet.resize(m5b::FRAME + 8, 0);
        placed(&made(Mark5bLayout::new(blocks(m5b::FRAME + 8, 8, 1), Some(Order::Little), fps)), &packet);
    }
    placed(&made(Mark5bLayout::new(blocks(m5b::FRAME, 0, 1), None, None)), bytes);
}

pub(crate) fn mark5b_seeds() -> Vec<Vec<u8>> {
    let header =
        |frame: u32, fraction| Mark5b::new(Time { day: 821, second: 19_801, frame }, fraction).write();
    let three = [header(0, 0), header(1, 1), header(2, 3)].concat();
    vec![header(0, 0).to_vec(), header(40_000, 7812).to_vec(), three, [&[7; 8][..], &header(5, 250)].concat()]
}

pub(crate) fn fila10g(bytes: &[u8]) {
    let mut packet = bytes.to_vec();
    packet.resize(fila10g::DATAGRAM, 0);
    for datagram in [bytes, &packet[..]] {
        let _ = fila10g::read(datagram);
        for phase in [Phase::Even, Phase::Odd] {
            placed(&made(Fila10gLayout::new(blocks(fila10g::DATAGRAM, 8, 2), phase)), datagram);
        }
    }
}

pub(crate) fn fila10g_seeds() -> Vec<Vec<u8>> {
    let datagram = |counter: u32, word: u32| [0, counter, word].map(u32::to_le_bytes).concat();
    vec![datagram(40, m5b::SYNC), datagram(41, m5b::SYNC), datagram(u32::MAX, 7)]
}

pub(crate) fn spead(bytes: &[u8]) {
    if let Ok(packet) = Packet::read(bytes) {
        for item in packet.items() {
            assert_eq!(
                packet.flavour.item(made_pointer(packet.flavour, item)),
                item,
                "an item does not write back"
            );
        }
        let _ = packet.is_stop();
    }
    for flavour in (1..8).filter_map(|octets| Flavour::new(octets * 8)) {
        placed(&SpeadLayout { flavour, heap_bytes: 1 << 20 }, bytes);
    }
}

fn made_pointer(flavour: Flavour, item: Item) -> skyhaul_core::wire::spead::Pointer {
    let octets = flavour.write(item);
    skyhaul_core::wire::spead::Pointer::read(&octets).map(|(pointer, _)| pointer).expect("eight octets")
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
    for data_id in [None, Some(5)] {
        placed(&EjfatLayout { data_id, event_bytes: 1 << 20 }, bytes);
    }
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
