//! Streams of frames for simulated senders: generates any packet, and its place without using the layout.
//!
//! ```text
//!   position   0   1   2   3   4 …      the n-th packet of the stream as it was meant: what its object follows from
//! ```

use super::{header::Order, vtp};
use std::{fmt, ops::Range};

/// Draws a number below the one it is given.
pub type Draw<'a> = &'a mut dyn FnMut(u64) -> u64;

/// A stream of one family, before its first packet.
pub struct Trial {
    /// What it is, in words.
    pub name: &'static str,
    /// The threads in the order of their ranks, if the receiver must be given them.
    pub threads: Option<Vec<u16>>,
    /// Frames per second of one thread, if the receiver knows them.
    pub frames_per_second: Option<u32>,
    /// Where each second begins an object: positions in a second, and how many the numbers of its frames could count.
    pub seconds: Option<(u64, u64)>,
    /// Positions at which it may begin.
    pub first: Range<u64>,
    /// The packet at a position: always the same.
    pub packet: Box<dyn Fn(u64) -> Vec<u8>>,
}

impl Trial {
    /// A stream for which the receiver needs only the position.
    pub(super) fn new(
        name: &'static str,
        first: Range<u64>,
        packet: impl Fn(u64) -> Vec<u8> + 'static,
    ) -> Trial {
        let packet = Box::new(packet);
        Trial { name, threads: None, frames_per_second: None, seconds: None, first, packet }
    }

    /// These frames, each after a sequence number.
    pub(super) fn numbered(name: &'static str, order: Order, frame: fn(u64) -> Vec<u8>) -> Trial {
        Trial::new(name, 1..1 << 20, move |n| [&vtp::write(n, order)[..], &frame(n)].concat())
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trial { name, threads, frames_per_second, .. } = self;
        write!(f, "{name}, threads {threads:?}, {frames_per_second:?} frames/s known")
    }
}

/// The second in which these streams are made: 2026-01-01 and some hours, Unix time.
pub(super) const SECOND: i64 = 1_767_225_600 + 12_345;
