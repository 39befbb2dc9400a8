//! Mark 5B for simulated senders.

use super::{FRAME, Mark5b, Time};
use crate::{
    pattern,
    wire::{
        header::Order,
        trial::{Draw, Trial},
    },
};

/// Second of the 1000 days.
const SECOND: u64 = 821 * 86_400 + 19_801;

pub(super) const KINDS: &[fn(Draw<'_>) -> Trial] = &[
    |draw| timed("mark5b by time", draw, true),
    |draw| timed("mark5b by time, rate unknown", draw, false),
    |_| Trial::numbered("mark5b by sequence, little-endian", Order::Little, behind_number),
    |_| Trial::numbered("mark5b by sequence, big-endian", Order::Big, behind_number),
];

fn behind_number(position: u64) -> Vec<u8> {
    octets(SECOND, position % 200, 200, position)
}

fn timed(name: &'static str, draw: Draw<'_>, rated: bool) -> Trial {
    let fps = [200, 400, 25_600, 51_200][draw(4) as usize];
    let packet = move |position| octets(position / fps, position % fps, fps, position);
    Trial {
        frames_per_second: rated.then_some(fps as u32),
        seconds: (!rated).then_some((fps, 1 << 16)),
        ..Trial::new(name, SECOND * fps..(SECOND + 1) * fps, packet)
    }
}

fn octets(second: u64, frame: u64, fps: u64, position: u64) -> Vec<u8> {
    let (day, second) = ((second / 86_400) as u32 % 1000, (second % 86_400) as u32);
    let time = Time { day, second, frame: frame as u32 };
    let mut packet = Mark5b::new(time, (frame * 10_000 / fps) as u32).write().to_vec();
    packet.resize(FRAME, 0);
    pattern::fill(position, 0, &mut packet[Mark5b::LEN..]);
    packet
}
