//! Mark 5B given any bytes.

use super::{FRAME, Mark5b, Mark5bLayout, Time, frames_per_second, unix_seconds};
use crate::wire::{fuzzing::placed::place, layout::Blocks};

/// The time near which dates are resolved.
const NEAR: i64 = 1_795_231_799;

/// A header that was read is written back unchanged; short packets are extended, so that headers are reached.
pub(super) fn run(packet: &[u8]) {
    if let Some((header, _)) = Mark5b::read(packet) {
        assert_eq!(header.write(), packet[..Mark5b::LEN], "a header does not write back");
        if let Ok(time) = header.time() {
            let near = unix_seconds(time.day, time.second, NEAR);
            assert!((near - NEAR).abs() <= 501 * 86_400, "{time:?} was put {near} far from now");
        }
        let headers: Vec<Mark5b> =
            packet.chunks_exact(Mark5b::LEN).filter_map(|c| Some(Mark5b::read(c)?.0)).collect();
        let _ = frames_per_second(&headers);
    }
    let mut packet = packet.to_vec();
    packet.resize(FRAME, 0);
    for fps in [None, Some(6400), Some(51_200)] {
        let layout =
            Blocks::new(FRAME, 0, 1, 1 << 20).and_then(|blocks| Mark5bLayout::new(blocks, None, fps));
        layout.iter().for_each(|layout| place(layout, &packet));
    }
}

/// Headers with and without the high bit of the frame number, and several of them.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let header = |frame, fraction| Mark5b::new(Time { day: 821, second: 19_801, frame }, fraction).write();
    let three = [header(0, 0), header(1, 1), header(2, 3)].concat();
    vec![header(0, 0).to_vec(), header(40_000, 7812).to_vec(), three]
}
