//! VDIF for simulated senders.

use super::{UNIX_2000, Vdif};
use crate::{
    pattern,
    wire::{
        header::Order,
        layout::Place,
        trial::{Draw, NUMBERED, SECOND, Trial},
        vtp,
    },
};

/// Octets of samples in a frame: small, so that many frames are cheap.
const SAMPLES: usize = 64;

pub(super) const KINDS: &[fn(Draw<'_>) -> Trial] = &[
    |_| numbered("vdif by sequence, little-endian", Order::Little),
    |_| numbered("vdif by sequence, big-endian", Order::Big),
    |draw| timed("vdif by time", draw, true),
    |draw| timed("vdif by time, rate unknown", draw, false),
];

/// Behind a sequence number, which alone places: a thread comes and goes.
fn numbered(name: &'static str, order: Order) -> Trial {
    let packet = move |position: u64| {
        let threads = if (position / 500).is_multiple_of(2) { 2 } else { 3 };
        let frame = (position / threads % 1000) as u32;
        let frame = octets(SECOND, frame, (position % threads) as u16, position);
        [&vtp::write(position, order)[..], &frame].concat()
    };
    Trial {
        name,
        place: Place::Sequence,
        threads: None,
        frames_per_second: None,
        seconds: None,
        first: NUMBERED,
        packet: Box::new(packet),
    }
}

/// Placed by time and thread.
fn timed(name: &'static str, draw: Draw<'_>, rated: bool) -> Trial {
    let threads = [3, 0, 700, 1023][..=draw(4) as usize].to_vec();
    let (count, fps) = (threads.len() as u64, 5 + draw(1995));
    let first = (SECOND - UNIX_2000) as u64 * fps * count;
    let ranks = threads.clone();
    let packet = move |position: u64| {
        let frame = position / count;
        let unix = UNIX_2000 + (frame / fps) as i64;
        octets(unix, (frame % fps) as u32, ranks[(position % count) as usize], position)
    };
    Trial {
        name,
        place: Place::Time,
        threads: Some(threads),
        frames_per_second: rated.then_some(fps as u32),
        seconds: (!rated).then_some((fps * count, count << 24)),
        first: first..first + fps,
        packet: Box::new(packet),
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
