//! RSP packets given any bytes.

use super::{LofarLayout, Rsp, SLICES};
use crate::wire::{fuzzing::placed::place, layout::Blocks};

/// A header that was read is written back unchanged, with the same time; short packets are extended, so that headers are
/// reached.
pub(super) fn run(choice: u8, packet: &[u8]) {
    let Some((header, _)) = Rsp::read(packet) else { return };
    assert_eq!(header.write(), packet[..Rsp::LEN], "a header does not write back");
    if let Ok(slices) = header.time() {
        assert_eq!(header.at(slices), Some(header), "its time is another one");
    }
    let Some(payload) = header.payload_bytes() else { return };
    let mut packet = packet.to_vec();
    packet.resize(Rsp::LEN + payload, 0);
    let lanes: Vec<u16> = (0..=u16::from(choice % 32)).collect();
    let layout = Blocks::new(packet.len(), 0, lanes.len(), 1 << 20)
        .and_then(|blocks| LofarLayout::new(blocks, &header, &lanes));
    layout.iter().for_each(|layout| place(layout, &packet));
}

/// A packet of each mode.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let header = |clock, sample, beamlets| {
        let second = 1_795_402_800;
        let like = Rsp { version: 3, clock, sample, beamlets, slices: SLICES, second, ..Rsp::default() };
        Rsp { slice: 156_000, lane: 2, station: 214, ..like }.write().to_vec()
    };
    vec![header(0, 0, 61), header(1, 1, 122), header(1, 2, 244)]
}
