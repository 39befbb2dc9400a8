//! FILA10G half frames as a member of the registry: Mark 5B except for the bytes before each half.

use super::{DATAGRAM, Fila10g, Fila10gLayout, HALF, Phase, read, trial};
use crate::{
    placement::Reject,
    wire::{
        family::{Family, FamilyRef, Framed, Known, Particulars, Recalled, Seen, Shape, StreamFormat},
        frame::{Ahead, Expected, FILL, FrameSeen, FrameTime, Frames, Framing},
        fuzzing::placed::place,
        header::Order,
        inspect::reader::{Reader, number},
        layout::{Blocks, Place},
        mark5b::{self, Mark5b},
        numbering::Numbering,
        stamps::{Counted, Move, Numbered, Stamps},
        trial::{Draw, Trial},
    },
};
use std::sync::Arc;

/// Mark 5B half frames of a FILA10G.
#[derive(Debug)]
pub struct Fila10gFamily;

/// Datagrams of a frame.
const PARTS: usize = 2;
/// The counter before each half.
const COUNTER: Numbering = Numbering::last_four(Order::Little);

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
        trial::KINDS
    }
}

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

    fn time(&self, frame: &[u8], near: i64) -> Option<FrameTime> {
        mark5b::STAMPS.time(frame, near)
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
