//! VDIF for simulated senders.

use super::{UNIX_2000, Vdif};
use crate::{
    pattern,
    wire::{
        header::Order,
        trial::{Draw, SECOND, Trial},
    },
};

/// Bytes of samples in a frame: small, so that many frames are cheap.
const SAMPLES: usize = 64;

pub(super) const KINDS: &[fn(Draw<'_>) -> Trial] = &[
    |_| Trial::numbered("vdif by sequence, little-endian", Order::Little, behind_number),
    |_| Trial::numbered("vdif by sequence, big-endian", Order::Big, behind_number),
    |draw| timed("vdif by time", draw, true),
    |draw| timed("vdif by time, rate unknown", draw, false),
];

/// The number alone places: a thread comes and goes.
fn behind_number(position: u64) -> Vec<u8> {
    let threads = if (position / 500).is_multiple_of(2) { 2 } else { 3 };
    octets(SECOND, (position / threads % 1000) as u32, (position % threads) as u16, position)
}

/// Placed by time and thread.
fn timed(name: &'static str, draw: Draw<'_>, rated: bool) -> Trial {
    let threads = [3, 0, 700, 1023][..=draw(4) as usize].to_vec();
    let (count, fps) = (threads.len() as u64, 5 + draw(1995));
    let (first, ranks) = ((SECOND - UNIX_2000) as u64 * fps * count, threads.clone());
    let packet = move |position: u64| {
        let frame = position / count;
        let unix = UNIX_2000 + (frame / fps) as i64;
        octets(unix, (frame % fps) as u32, ranks[(position % count) as usize], position)
    };
    Trial {
        threads: Some(threads),
        frames_per_second: rated.then_some(fps as u32),
        seconds: (!rated).then_some((fps * count, count << 24)),
        ..Trial::new(name, first..first + fps, packet)
    }
}

fn octets(unix: i64, frame: u32, thread: u16, position: u64) -> Vec<u8> {
    let shape = Vdif::shape(SAMPLES, 1, 2, false, false).unwrap_or_default();
    let header = Vdif { thread: u32::from(thread), ..shape.at(unix, frame).unwrap_or(shape) };
    let mut packet = header.write().to_vec();
    packet.resize(shape.frame_bytes(), 0);
    pattern::fill(position, 0, &mut packet[shape.header_bytes()..]);
    packet
}
