//! Senders of frames, each able to make any packet of its stream, and to say where it belongs
//! with arithmetic of its own: what the layouts of the core say is held against it.
//!
//! ```text
//!   position   0   1   2   3   4 …      the n-th packet of the stream as it was meant
//!   place      (object, offset, length) of what is kept of it
//! ```

use crate::random::Random;
use skyhaul_core::pattern;
use skyhaul_core::placement::Layout;
use skyhaul_core::wire::fila10g::{self, Fila10g, Fila10gLayout, Phase};
use skyhaul_core::wire::mark5b::{self, Mark5b, Mark5bLayout, Time};
use skyhaul_core::wire::vdif::{UNIX_2000, Vdif, VdifLayout};
use skyhaul_core::wire::{Blocks, Order, vtp};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A family of senders.
#[derive(Clone, Debug)]
pub enum Family {
    /// VDIF behind a sequence number; the threads change while it sends.
    VdifSequence(Order),
    /// VDIF placed by time and thread; `rated`: the receiver knows the frames per second.
    VdifTime {
        /// Threads by rank.
        threads: Vec<u16>,
        /// Frames of a thread in a second.
        fps: u64,
        /// Whether the receiver knows that.
        rated: bool,
    },
    /// Mark 5B frames placed by time.
    Mark5bTime {
        /// Frames in a second.
        fps: u64,
    },
    /// Mark 5B frames behind a sequence number.
    Mark5bSequence(Order),
    /// Half frames of a FILA10G.
    Fila10g(Phase),
}

/// Where what is kept of a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Object.
    pub object: u64,
    /// First byte in it.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// A layout of any family.
#[derive(Clone)]
pub struct SomeLayout(Arc<dyn Layout + Send + Sync>);

impl SomeLayout {
    fn of(layout: impl Layout + Send + Sync + 'static) -> SomeLayout {
        SomeLayout(Arc::new(layout))
    }
}

impl Deref for SomeLayout {
    type Target = dyn Layout + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for SomeLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.geometry())
    }
}

/// One sender's stream.
#[derive(Clone, Debug)]
pub struct Sender {
    /// What it sends.
    pub family: Family,
    /// How a receiver places it.
    pub layout: SomeLayout,
    /// Packets of an object: of the largest where they differ.
    pub units: u64,
    /// Position of its first packet.
    pub first: u64,
}

/// Octets of samples in a VDIF frame: small, so that worlds are many.
const SAMPLES: usize = 64;
const FRAME: usize = SAMPLES + 32;
/// 2026-01-01 and some hours.
const NOW: i64 = 1_767_225_600 + 12_345;

impl Sender {
    /// Some sender, whose objects hold about `units` packets.
    #[must_use]
    pub fn random(random: &mut Random, units: u64) -> Sender {
        let order = random.pick(&[Order::Little, Order::Big]);
        let family = match random.below(7) {
            0 | 1 => Family::VdifSequence(order),
            kind @ (2 | 3) => {
                let count = random.between(1, 4) as usize;
                let threads = [3, 0, 700, 1023][..count].to_vec();
                Family::VdifTime {
                    threads,
                    fps: random.between(5, 2000),
                    rated: kind == 2 || random.chance(0.5),
                }
            }
            4 => Family::Mark5bTime { fps: random.pick(&[200, 400, 25_600, 51_200]) },
            5 => Family::Mark5bSequence(order),
            _ => Family::Fila10g(random.pick(&[Phase::Even, Phase::Odd])),
        };
        let units = if family.is_large() { units.clamp(4, 40) } else { units };
        let first = random.between(1, 1 << 20);
        Sender::new(family, units, first)
    }

    /// A sender of `family` with about `units` packets to an object, that begins at about `position`.
    ///
    /// # Panics
    /// If `units` has no room for one frame of each thread.
    #[must_use]
    pub fn new(family: Family, units: u64, position: u64) -> Sender {
        let units = units.max(4);
        let shape = Vdif::shape(SAMPLES, 1, 2, false, false).unwrap_or_default();
        let blocks = |packet: usize, start: usize, group: usize| {
            Blocks::new(packet, start, group, units * (packet - start) as u64).expect("a group fits")
        };
        let seconds = (NOW - UNIX_2000) as u64;
        let (layout, blocks, first) = match &family {
            Family::VdifSequence(order) => {
                let blocks = blocks(FRAME + 8, 8, 1);
                (VdifLayout::by_sequence(blocks, &shape, *order).map(SomeLayout::of), blocks, position)
            }
            Family::VdifTime { threads, fps, rated } => {
                let blocks = blocks(FRAME, 0, threads.len());
                let named: Vec<(u16, i64)> = threads.iter().map(|&thread| (thread, 0)).collect();
                let layout = VdifLayout::by_time(blocks, &shape, &named, rated.then_some(*fps as u32));
                let first = (seconds * fps) * threads.len() as u64 + position % fps;
                (layout.map(SomeLayout::of), blocks, first)
            }
            Family::Mark5bTime { fps } => {
                let blocks = blocks(mark5b::FRAME, 0, 1);
                let layout = Mark5bLayout::new(blocks, None, Some(*fps as u32)).map(SomeLayout::of);
                (layout, blocks, (821 * 86_400 + 19_801) * fps + position % fps)
            }
            Family::Mark5bSequence(order) => {
                let blocks = blocks(mark5b::FRAME + 8, 8, 1);
                (Mark5bLayout::new(blocks, Some(*order), None).map(SomeLayout::of), blocks, position)
            }
            Family::Fila10g(phase) => {
                let blocks = blocks(fila10g::DATAGRAM, 8, 2);
                let first = position % (1 << 31) + 2;
                (Fila10gLayout::new(blocks, *phase).map(SomeLayout::of), blocks, first)
            }
        };
        Sender { units: blocks.units, layout: layout.expect("a legal layout"), family, first }
    }

    /// Whether every position is told, gaps over whole objects too.
    #[must_use]
    pub fn counts_gaps(&self) -> bool {
        !self.short_objects()
    }

    /// Whether the last object of a second may be shorter than the others.
    #[must_use]
    pub fn short_objects(&self) -> bool {
        matches!(self.family, Family::VdifTime { rated: false, .. })
    }

    /// How many objects beyond the newest may open at once.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        match &self.family {
            // A second without a known rate spans this many object numbers.
            Family::VdifTime { threads, rated: false, .. } => {
                (threads.len() as u64) * (1 << 24) / self.units + 2
            }
            _ => 1,
        }
    }

    /// Octets of the largest object.
    #[must_use]
    pub fn object_bytes(&self) -> u64 {
        self.layout.geometry().object_bytes
    }

    /// Where a packet belongs.
    #[must_use]
    pub fn spot(&self, position: u64) -> Spot {
        let unit = match &self.family {
            Family::VdifSequence(_) | Family::VdifTime { .. } => FRAME as u64,
            Family::Mark5bTime { .. } | Family::Mark5bSequence(_) => mark5b::FRAME as u64,
            Family::Fila10g(_) => fila10g::HALF as u64,
        };
        if let Family::VdifTime { threads, fps, rated: false } = &self.family {
            let in_second = fps * threads.len() as u64;
            let stride = ((1u64 << 24) * threads.len() as u64).div_ceil(self.units);
            let (second, within) = (position / in_second, position % in_second);
            let object = second * stride + within / self.units;
            return Spot { object, offset: within % self.units * unit, length: unit as u32 };
        }
        Spot { object: position / self.units, offset: position % self.units * unit, length: unit as u32 }
    }

    /// The packet at `position`. The same position always gives the same packet.
    #[must_use]
    pub fn packet(&self, position: u64) -> Vec<u8> {
        match &self.family {
            Family::VdifSequence(order) => {
                // A thread comes and goes; nothing but the sequence number places.
                let threads = if (position / 500).is_multiple_of(2) { 2 } else { 3 };
                let frame = Self::vdif(
                    NOW,
                    (position / threads % 1000) as u32,
                    (position % threads) as u16,
                    position,
                );
                [&vtp::write(position, *order)[..], &frame].concat()
            }
            Family::VdifTime { threads, fps, .. } => {
                let (count, frames) = (threads.len() as u64, position / threads.len() as u64);
                let unix = UNIX_2000 + (frames / fps) as i64;
                Self::vdif(unix, (frames % fps) as u32, threads[(position % count) as usize], position)
            }
            Family::Mark5bTime { fps } => Self::mark5b(position / fps, position % fps, *fps, position),
            Family::Mark5bSequence(order) => {
                let frame = Self::mark5b(821 * 86_400, position % 200, 200, position);
                [&vtp::write(position, *order)[..], &frame].concat()
            }
            Family::Fila10g(phase) => {
                let counter = position.wrapping_sub(u64::from(*phase == Phase::Odd)) as u32;
                let mut packet = Fila10g { filler: 7, counter }.write().to_vec();
                packet.resize(fila10g::DATAGRAM, 0);
                pattern::fill(position, 0, &mut packet[8..]);
                if position.is_multiple_of(2) {
                    packet[8..12].copy_from_slice(&mark5b::SYNC.to_le_bytes());
                }
                packet
            }
        }
    }

    fn vdif(unix: i64, frame: u32, thread: u16, position: u64) -> Vec<u8> {
        let shape = Vdif::shape(SAMPLES, 1, 2, false, false).unwrap_or_default();
        let header = Vdif { thread: u32::from(thread), ..shape.at(unix, frame).unwrap_or(shape) };
        let mut packet = header.write().to_vec();
        packet.resize(FRAME, 0);
        pattern::fill(position, 0, &mut packet[32..]);
        packet
    }

    fn mark5b(second: u64, frame: u64, fps: u64, position: u64) -> Vec<u8> {
        let (day, second) = ((second / 86_400) as u32 % 1000, (second % 86_400) as u32);
        let fraction = (frame * 10_000 / fps) as u32;
        let mut packet = Mark5b::new(Time { day, second, frame: frame as u32 }, fraction).write().to_vec();
        packet.resize(mark5b::FRAME, 0);
        pattern::fill(position, 0, &mut packet[Mark5b::LEN..]);
        packet
    }
}

impl Family {
    /// Its packets are of many octets.
    fn is_large(&self) -> bool {
        matches!(self, Family::Mark5bTime { .. } | Family::Mark5bSequence(_) | Family::Fila10g(_))
    }

    /// Its name in the log.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Family::VdifSequence(_) => "vdif by sequence",
            Family::VdifTime { rated: true, .. } => "vdif by time",
            Family::VdifTime { .. } => "vdif by time, rate unknown",
            Family::Mark5bTime { .. } => "mark5b by time",
            Family::Mark5bSequence(_) => "mark5b by sequence",
            Family::Fila10g(_) => "fila10g",
        }
    }
}
