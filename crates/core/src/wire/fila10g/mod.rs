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

use super::layout::{Blocks, wrong_size};
use super::mark5b;
use super::stamps::Numbering;
use crate::pattern;
use crate::placement::{Geometry, Layout, Placement, Reject};
use crate::wire::family::{
    Family, FamilyRef, Framed, Known, Particulars, Recalled, Seen, Shape, StreamFormat,
};
use crate::wire::frame::{Ahead, Expected, FILL, FrameSeen, FrameTime, Frames, Framing};
use crate::wire::fuzzing::parser::place;
use crate::wire::header::Order;
use crate::wire::inspect::{Reader, number};
use crate::wire::layout::Place;
use crate::wire::mark5b::{Mark5b, Time};
use crate::wire::stamps::{Counted, Move, Numbered, Stamps};
use crate::wire::trial::{Draw, Trial};
use std::sync::Arc;

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

/// Mark 5B half frames of a FILA10G.
#[derive(Debug)]
pub struct Fila10gFamily;

impl Family for Fila10gFamily {
    fn name(&self) -> &'static str {
        "fila10g"
    }

    fn title(&self) -> &'static str {
        "FILA10G"
    }

    fn shape(&self, packet: &[u8]) -> Option<Shape> {
        let shape = Shape { family: Fila10gStream::FAMILY, network: Fila10g::LEN, length: HALF, variant: 0 };
        read(packet).map(|_| shape)
    }

    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
        // First halves begin with the sync word: their counters must agree in parity.
        let firsts: Vec<(Phase, Mark5b, &[u8])> = seen
            .samples
            .iter()
            .filter_map(|sample| {
                let (prefix, half) = Fila10g::read(sample.head())?;
                let (header, _) = Mark5b::read(half)?;
                (header.sync == mark5b::SYNC).then_some((Phase::of(prefix.counter), header, half))
            })
            .collect();
        let even = firsts.iter().filter(|(phase, ..)| *phase == Phase::Even).count();
        let odd = firsts.len() - even;
        if firsts.len() * 8 < seen.samples.len() || even == odd || seen.options.place == Place::Time {
            return Err(Reject::Unrecognised);
        }
        let headers: Vec<Mark5b> = firsts.iter().map(|(_, header, _)| *header).collect();
        let phase = Some(if even > odd { Phase::Even } else { Phase::Odd });
        Ok(StreamFormat {
            place: Place::Sequence,
            network_bytes: Fila10g::LEN,
            packet_bytes: DATAGRAM,
            frame_bytes: HALF,
            parts: PARTS,
            ..mark5b::learned(seen, Fila10gStream { phase }, &headers, firsts[0].2)
        })
    }

    fn recall(&self, _: &dyn Fn(&str) -> Option<u64>) -> Option<Recalled> {
        let own = Fila10gStream { phase: None };
        Some(Recalled { header_bytes: Mark5b::LEN, parts: PARTS, own: Arc::new(own) })
    }

    fn inspect(&self, reader: &mut Reader<'_>, _: Option<Shape>) {
        if !reader.table("FILA10G", Fila10g::FIELDS, Fila10g::LEN, number) {
            return;
        }
        if reader.rest().starts_with(&mark5b::SYNC.to_le_bytes()) {
            mark5b::inspect_header(reader);
        }
        let length = reader.packet().len();
        if length != DATAGRAM {
            let reason = if length < DATAGRAM { Reject::Truncated } else { Reject::WrongSize };
            reader.fail_at(0, "FILA10G", reason, DATAGRAM);
        }
    }

    fn stamps(&self) -> Option<&'static dyn Stamps> {
        Some(&Fila10gFamily)
    }

    fn fuzz(&self, _: u8, packet: &[u8]) {
        let mut packet = packet.to_vec();
        packet.resize(DATAGRAM, 0);
        for phase in [Phase::Even, Phase::Odd] {
            let blocks = Blocks::new(DATAGRAM, Fila10g::LEN, PARTS, 1 << 20);
            let layout = blocks.and_then(|blocks| Fila10gLayout::new(blocks, phase));
            layout.iter().for_each(|layout| place(layout, &packet));
        }
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let header = Mark5b::new(mark5b::Time { day: 821, second: 19_801, frame: 5 }, 250).write();
        [40, 41].map(|counter| [&Fila10g { filler: 9, counter }.write()[..], &header].concat()).to_vec()
    }

    fn trials(&self) -> &'static [fn(Draw<'_>) -> Trial] {
        TRIALS
    }
}

/// Files have whole frames of Mark 5B; only their packets are halves.
impl Stamps for Fila10gFamily {
    fn frames(&self) -> &'static dyn Frames {
        mark5b::STAMPS.frames()
    }

    fn units(&self) -> &'static dyn Frames {
        &Halves
    }

    fn numbered(&self) -> Numbered {
        Numbered::InParts(PARTS, COUNTER)
    }

    fn time(&self, frame: &[u8], near: i64, fps: Option<u32>) -> Option<FrameTime> {
        mark5b::STAMPS.time(frame, near, fps)
    }

    fn pace(&self, frame: &[u8], fps: Option<u32>) -> Option<(u64, u64)> {
        mark5b::STAMPS.pace(frame, fps)
    }

    fn found_rate(&self, frames: &[&[u8]]) -> Option<u32> {
        mark5b::STAMPS.found_rate(frames)
    }

    fn count(&self, frame: &[u8], near: i64, fps: u32) -> Option<Counted> {
        mark5b::STAMPS.count(frame, near, fps)
    }

    fn max_rate(&self) -> u32 {
        mark5b::STAMPS.max_rate()
    }

    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)> {
        mark5b::STAMPS.moved(frame, by)
    }
}

/// Datagrams of a frame.
const PARTS: usize = 2;
/// The counter before each half.
const COUNTER: Numbering = Numbering::last_four(Order::Little);

/// Half frames as they are recorded. Only first ones have a header; any samples may be a second one.
struct Halves;

impl Frames for Halves {
    /// Files are of whole frames.
    fn framing(&self, _: &[u8]) -> Framing {
        Framing::Unknown
    }

    fn see(&self, half: &[u8], expected: &Expected) -> FrameSeen {
        if half.len() != HALF {
            return FrameSeen::illegal("not half a frame");
        }
        if mark5b::has_header(half) {
            return mark5b::STAMPS.frames().see(half, expected);
        }
        FrameSeen { filled: half.starts_with(&FILL) && half.ends_with(&FILL), ..FrameSeen::default() }
    }
}

/// Particulars of a stream of half frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fila10gStream {
    /// Which datagrams are first halves; `None` for a recording, where they are in order.
    pub phase: Option<Phase>,
}

impl Known for Fila10gStream {
    const FAMILY: FamilyRef = FamilyRef::new(&Fila10gFamily);
}

impl Framed for Fila10gStream {
    type Layout = Fila10gLayout;

    fn layout(&self, stream: &StreamFormat) -> Result<Fila10gLayout, Reject> {
        Fila10gLayout::new(stream.blocks()?, self.phase.ok_or(Reject::Unrecognised)?)
    }
}

impl Particulars for Fila10gStream {
    fn numbering(&self, _: &StreamFormat) -> Option<Numbering> {
        Some(COUNTER)
    }

    fn rephased(&self) -> Option<Arc<dyn Particulars>> {
        let phase = match self.phase? {
            Phase::Even => Phase::Odd,
            Phase::Odd => Phase::Even,
        };
        Some(Arc::new(Fila10gStream { phase: Some(phase) }))
    }

    fn frame_time(&self, stream: &StreamFormat, frame: &[u8]) -> Option<FrameTime> {
        mark5b::frame_time(stream, frame)
    }

    fn has_header(&self, _: &StreamFormat, frame: &[u8]) -> bool {
        mark5b::has_header(frame)
    }

    fn predicted(&self, ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
        mark5b::predicted(ahead)
    }
}

const TRIALS: &[fn(Draw<'_>) -> Trial] =
    &[|_| counted("fila10g, even", Phase::Even), |_| counted("fila10g, odd", Phase::Odd)];

fn counted(name: &'static str, phase: Phase) -> Trial {
    Trial::new(name, 2..1 << 31, move |position| {
        let counter = position.wrapping_sub(u64::from(phase == Phase::Odd)) as u32;
        let mut packet = Fila10g { filler: 7, counter }.write().to_vec();
        packet.resize(DATAGRAM, 0);
        pattern::fill(position, 0, &mut packet[Fila10g::LEN..]);
        if position.is_multiple_of(2) {
            let header = Mark5b::new(Time { day: 821, second: 19_801, frame: 0 }, 0);
            packet[Fila10g::LEN..][..Mark5b::LEN].copy_from_slice(&header.write());
        }
        packet
    })
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
