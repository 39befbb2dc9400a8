//! VDIF given any bytes.

use super::{Extended, Header, Vdif, VdifLayout};
use crate::wire::{
    fuzzing::placed::place,
    header::Order,
    layout::Blocks,
    mark5b::{Mark5b, Time},
    vtp,
};

/// Small frames are cheap to make and to mutate.
const FRAME: usize = 40;

/// By time or by number, according to `choice`. A header that was read is written back unchanged.
pub(super) fn run(choice: u8, packet: &[u8]) {
    if let Ok(header) = Header::read(packet) {
        let (octets, length) = header.write();
        assert_eq!(&octets[..length], &packet[..length], "a header does not write back");
        let vdif = header.vdif;
        let _ =
            (vdif.samples(), vdif.channels(), vdif.station_text(), vdif.unix_seconds(), vdif.payload_bytes());
        let _ =
            (header.extended.edv(), header.extended.psn(), header.extended.sample_rate(vdif.complex == 1));
    }
    let network = if choice & 1 == 1 { 8 } else { 0 };
    let (frame, head) = (packet.len().saturating_sub(network), if choice & 2 == 2 { 16 } else { 32 });
    let Some(shape) = frame.checked_sub(head).and_then(|p| Vdif::shape(p, 1, 2, false, head == 16)) else {
        return;
    };
    let threads: Vec<(u16, i64)> =
        (0..u16::from(choice >> 4) + 1).map(|t| (t, i64::from(choice) - 9)).collect();
    let Ok(blocks) = Blocks::new(packet.len(), network, threads.len(), 1 << 20) else { return };
    let by_time = VdifLayout::by_time(blocks, &shape, &threads, (choice & 4 == 4).then_some(1600));
    let by_number = VdifLayout::by_sequence(blocks, &shape, Order::Big);
    let legal = Vdif::read(packet.get(network..).unwrap_or_default()).map(|(vdif, _)| {
        let mut legal = packet.to_vec();
        let vdif = Vdif { length8: shape.length8, legacy: shape.legacy, ..vdif };
        legal[network..network + 16].copy_from_slice(&vdif.write());
        legal
    });
    for layout in [by_time, by_number].into_iter().flatten() {
        place(&layout, packet);
        legal.iter().for_each(|packet| place(&layout, packet));
    }
}

/// One frame of each extended data version, each with and without a sequence number.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    const ORDERS: [Order; 2] = [Order::Little, Order::Big];
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
        let header = if matches!(extended, Extended::Legacy) { 16 } else { 32 };
        let shape = Vdif::shape(FRAME - header, 1, 2, false, header == 16);
        let Some(vdif) = shape.and_then(|shape| shape.at(1_795_231_799 + n as i64, n as u32 % 5)) else {
            continue;
        };
        let (octets, length) = Header { vdif: Vdif { thread: n as u32 % 2, ..vdif }, extended }.write();
        let mut frame = octets[..length].to_vec();
        frame.resize(FRAME, 0x11);
        seeds.push([&vtp::write(1000 + n as u64, ORDERS[n % 2])[..], &frame[..]].concat());
        seeds.push(frame);
    }
    seeds
}
