//! Mark 5B over UDP as a FILA10G sends it ("mark5bnet"): half a frame in each datagram.
//!
//! ```text
//!           ┌ filler ┬ counter ┬ half frame, 5008 octets ────────┐
//!   first   │ 4      │ 4, LE   │ Mark 5B header, 4992 of samples │
//!   second  │ 4      │ 4, LE   │ 5008 of samples                 │
//!           └────────┴─────────┴─────────────────────────────────┘
//! ```
//!
//! A datagram does not state which half it carries. The sync word identifies the first half, and the counter then the
//! second. Whether first halves are even or odd depends on when the board was started ([`Phase`]); if it is started again, that
//! may change, which a receiver must notice.
//!
//! Limit: the counter has 32 bits (5.8 hours at 8 Gb/s); when it wraps around, the stream is treated as restarted.

mod family;
mod trial;

pub use family::{Fila10gFamily, Fila10gStream};

use super::{
    layout::{Blocks, wrong_size},
    mark5b,
};
use crate::placement::{Geometry, Layout, Placement, Reject};

crate::header! {
    /// The bytes before each half frame.
    Fila10g [8] {
        le u32 @ 0 { /** Without meaning. */ filler }
        le u32 @ 4 { /** Counts datagrams. */ counter }
    }
}

/// Bytes of half a Mark 5B frame.
pub const HALF: usize = mark5b::FRAME / 2;
/// Bytes of a datagram.
pub const DATAGRAM: usize = Fila10g::LEN + HALF;

/// The parity of the counter at first halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// First halves have even counters.
    Even,
    /// First halves have odd counters.
    Odd,
}

impl Phase {
    /// The phase of a stream in which the datagram with this counter holds a first half.
    #[must_use]
    pub fn of(counter: u32) -> Phase {
        if counter.is_multiple_of(2) { Phase::Even } else { Phase::Odd }
    }

    /// The datagram's position, even for first halves.
    #[inline]
    #[must_use]
    pub fn position(self, counter: u32) -> u64 {
        u64::from(counter) + u64::from(self == Phase::Odd)
    }
}

/// Counter and half frame of a datagram, and whether it is a first half; `None` if it is not of this format.
#[inline]
#[must_use]
pub fn read(packet: &[u8]) -> Option<(u32, &[u8], bool)> {
    let (header, half) = Fila10g::read(packet).filter(|_| packet.len() == DATAGRAM)?;
    let (sync, _) = half.split_first_chunk()?;
    Some((header.counter, half, u32::from_le_bytes(*sync) == mark5b::SYNC))
}

/// The layout of a stream of half frames.
#[derive(Clone, Debug)]
pub struct Fila10gLayout {
    blocks: Blocks,
    phase: Phase,
}

impl Fila10gLayout {
    /// Objects of whole frames: `blocks` of an even number of datagrams.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] if `blocks` are not of such datagrams, [`Reject::Unpaired`] if they divide frames.
    pub fn new(blocks: Blocks, phase: Phase) -> Result<Fila10gLayout, Reject> {
        match blocks {
            _ if blocks.packet_bytes as usize != DATAGRAM => Err(Reject::WrongSize),
            _ if !blocks.units.is_multiple_of(2) => Err(Reject::Unpaired),
            _ => Ok(Fila10gLayout { blocks, phase }),
        }
    }
}

impl Layout for Fila10gLayout {
    #[inline]
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject> {
        let Some((counter, _, first)) = read(packet) else {
            return Err(wrong_size(DATAGRAM, || None, packet));
        };
        let position = self.phase.position(counter);
        // A sync word in a second half: the board was restarted in the other phase, or the counter is wrong.
        if first != position.is_multiple_of(2) {
            return Err(Reject::Unpaired);
        }
        Ok(self.blocks.place(0, position))
    }

    fn geometry(&self) -> Geometry {
        self.blocks.geometry()
    }

    fn units_between(&self, from: u64, to: u64) -> Option<u64> {
        self.blocks.between(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;

    #[test]
    fn table_round_trips() {
        round_trip!(Fila10g);
    }

    fn datagram(counter: u32, first: bool) -> Vec<u8> {
        let mut packet = Fila10g { filler: 0x5555_5555, counter }.write().to_vec();
        packet.extend(if first { mark5b::SYNC.to_le_bytes() } else { [1; 4] });
        packet.resize(DATAGRAM, 2);
        packet
    }

    fn layout(phase: Phase) -> Fila10gLayout {
        Fila10gLayout::new(Blocks::new(DATAGRAM, 8, 2, 21 * HALF as u64).unwrap(), phase).unwrap()
    }

    #[test]
    fn halves_meet_in_their_frame() {
        for (phase, counter) in [(Phase::Even, 42), (Phase::Odd, 41)] {
            let layout = layout(phase);
            let first = layout.place(&datagram(counter, true)).unwrap();
            let second = layout.place(&datagram(counter + 1, false)).unwrap();
            assert_eq!((first.key.number, first.offset, first.start), (2, 2 * HALF as u64, 8));
            assert_eq!((second.key.number, second.offset), (2, 3 * HALF as u64));
            assert_eq!(Phase::of(counter), phase);
        }
        assert_eq!(layout(Phase::Even).geometry().object_bytes, 20 * HALF as u64);
        assert_eq!(layout(Phase::Even).units_between(1, 3), Some(40));
    }

    #[test]
    fn each_refusal() {
        let layout = layout(Phase::Even);
        assert_eq!(layout.place(&datagram(41, true)), Err(Reject::Unpaired));
        assert_eq!(layout.place(&datagram(42, false)), Err(Reject::Unpaired));
        assert_eq!(layout.place(&datagram(42, true)[..5015]), Err(Reject::Truncated));
        assert_eq!(layout.place(&[datagram(42, true), vec![0]].concat()), Err(Reject::WrongSize));
        let odd = Blocks::new(DATAGRAM, 8, 1, 21 * HALF as u64).unwrap();
        assert_eq!(Fila10gLayout::new(odd, Phase::Even).unwrap_err(), Reject::Unpaired);
        let other = Blocks::new(100, 8, 2, 2000).unwrap();
        assert_eq!(Fila10gLayout::new(other, Phase::Even).unwrap_err(), Reject::WrongSize);
    }
}
