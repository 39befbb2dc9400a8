//! Mark 5B as a member of the registry; code shared by whole frames and halves.

use super::{
    FRAME, Mark5b, Mark5bLayout, SYNC, frames_per_second, fuzzing, inspect, trial, unix_seconds, written,
};
use crate::{
    placement::Reject,
    samples::Coded,
    wire::{
        family::{Family, FamilyRef, Framed, Known, Particulars, Recalled, Seen, Shape, StreamFormat},
        frame::{Ahead, Expected, FILL, FrameSeen, FrameTime, Frames, Framing, Quirk, Thread, step},
        header::Field,
        inspect::reader::Reader,
        stamps::Stamps,
        trial::{Draw, Trial},
        vtp::{self, Vtp},
        written::{Headers, Written},
    },
};
use std::sync::Arc;

/// Whole Mark 5B frames, with or without a sequence number.
#[derive(Debug)]
pub struct Mark5bFamily;

impl Family for Mark5bFamily {
    fn name(&self) -> &'static str {
        "mark5b"
    }

    fn title(&self) -> &'static str {
        "Mark 5B"
    }

    fn has_magic(&self) -> bool {
        true
    }

    fn shape(&self, packet: &[u8]) -> Option<Shape> {
        let network = packet.len().checked_sub(FRAME).filter(|n| [0, Vtp::LEN].contains(n))?;
        let (header, _) = Mark5b::read(packet.get(network..)?)?;
        let shape = Shape { family: Mark5bStream::FAMILY, network, length: FRAME, variant: 0 };
        (header.sync == SYNC).then_some(shape)
    }

    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
        let headers: Vec<Mark5b> = seen.frames().filter_map(|frame| Some(Mark5b::read(frame)?.0)).collect();
        let network = seen.shape.network;
        let (sequence, place) = seen.sequence()?;
        let mut quirks = quirks(&headers);
        quirks.extend((network > 0 && sequence.is_none()).then(|| Quirk::new(&vtp::NO_SEQUENCE)));
        Ok(StreamFormat {
            place,
            sequence,
            network_bytes: network,
            packet_bytes: FRAME + network,
            frame_bytes: FRAME,
            quirks,
            ..learned(seen, Mark5bStream, &headers, seen.frames().next().unwrap_or_default())
        })
    }

    fn recall(&self, _: &dyn Fn(&str) -> Option<u64>) -> Option<Recalled> {
        Some(Recalled { header_bytes: Mark5b::LEN, parts: 1, own: Arc::new(Mark5bStream) })
    }

    fn frames(&self) -> Option<&'static dyn Frames> {
        Some(&Mark5bFamily)
    }

    fn inspect(&self, reader: &mut Reader<'_>, shape: Option<Shape>) {
        inspect::packet(reader, shape.map_or(0, |shape| shape.network));
    }

    fn stamps(&self) -> Option<&'static dyn Stamps> {
        Some(&Mark5bFamily)
    }

    fn fuzz(&self, _: u8, packet: &[u8]) {
        fuzzing::run(packet);
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        fuzzing::seeds()
    }

    fn trials(&self) -> &'static [fn(Draw<'_>) -> Trial] {
        trial::KINDS
    }
}

impl Frames for Mark5bFamily {
    fn framing(&self, bytes: &[u8]) -> Framing {
        match bytes.first_chunk() {
            None => Framing::Incomplete,
            Some(word) if u32::from_le_bytes(*word) == SYNC => Framing::Length(FRAME),
            Some(_) => Framing::Unknown,
        }
    }

    fn see(&self, frame: &[u8], expected: &Expected) -> FrameSeen {
        let Some((header, payload)) = Mark5b::read(frame) else {
            return FrameSeen::illegal("no Mark 5B header");
        };
        if header.sync != SYNC {
            return if frame.starts_with(&FILL) {
                FrameSeen { filled: true, ..FrameSeen::default() }
            } else {
                FrameSeen::illegal("no sync word")
            };
        }
        let Ok(time) = header.time() else { return FrameSeen::illegal("no valid time") };
        let seconds = unix_seconds(time.day, time.second, expected.near);
        let filled = payload.starts_with(&FILL) && payload.ends_with(&FILL);
        FrameSeen { filled, time: Some((seconds, time.frame)), ..FrameSeen::default() }
    }

    fn written(&self, stream: &Written) -> Result<Box<dyn Headers>, String> {
        written::begin(stream)
    }

    fn tables(&self, frame: &[u8]) -> Vec<(usize, &'static [Field])> {
        if has_header(frame) { vec![(0, Mark5b::FIELDS)] } else { Vec::new() }
    }

    fn coded(&self, frame: &[u8]) -> Option<Coded> {
        // The schedule defines the bitstreams; the header does not.
        has_header(frame).then_some(Coded {
            coding: None,
            channels: None,
            complex: false,
            header: Mark5b::LEN,
            by_channel: false,
        })
    }
}

/// Particulars of a stream of whole frames: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark5bStream;

impl Known for Mark5bStream {
    const FAMILY: FamilyRef = FamilyRef::new(&Mark5bFamily);
}

impl Framed for Mark5bStream {
    type Layout = Mark5bLayout;

    fn layout(&self, stream: &StreamFormat) -> Result<Mark5bLayout, Reject> {
        Mark5bLayout::new(stream.blocks()?, stream.placed_by(), stream.frames_per_second)
    }
}

impl Particulars for Mark5bStream {
    fn short_objects(&self, stream: &StreamFormat) -> bool {
        stream.placed_by().is_none() && stream.frames_per_second.is_none()
    }

    fn frame_time(&self, stream: &StreamFormat, frame: &[u8]) -> Option<FrameTime> {
        frame_time(stream, frame)
    }

    fn has_header(&self, _: &StreamFormat, frame: &[u8]) -> bool {
        has_header(frame)
    }

    fn predicted(&self, ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
        predicted(ahead)
    }
}

/// The format of a stream of whole or half frames, from their headers.
pub(crate) fn learned<K: Known>(
    seen: &Seen<'_>,
    own: K,
    headers: &[Mark5b],
    template: &[u8],
) -> StreamFormat {
    let header = template.get(..Mark5b::LEN).unwrap_or_default().to_vec();
    StreamFormat {
        header_bytes: Mark5b::LEN,
        threads: vec![Thread { id: 0, shift: 0, header }],
        frames_per_second: seen.options.frames_per_second.or_else(|| frames_per_second(headers)),
        quirks: quirks(headers),
        ..seen.blank(own)
    }
}

fn quirks(headers: &[Mark5b]) -> Vec<Quirk> {
    let no_checksum = headers.iter().all(|header| header.crc == 0);
    no_checksum.then(|| Quirk::new(&"no Mark 5B CRC")).into_iter().collect()
}

/// The time in a frame's header.
pub(crate) fn frame_time(stream: &StreamFormat, frame: &[u8]) -> Option<FrameTime> {
    let time = Mark5b::read(frame)?.0.time().ok()?;
    let unix_seconds = unix_seconds(time.day, time.second, stream.near);
    // If 15 bits are enough for the frames of a second, bit 15 is the test bit.
    let fifteen = stream.frames_per_second.is_some_and(|fps| fps <= 1 << 15);
    let frame = if fifteen { time.frame & 0x7FFF } else { time.frame };
    Some(FrameTime { unix_seconds, frame, thread: 0 })
}

/// Whether a frame begins with a sync word.
pub(crate) fn has_header(frame: &[u8]) -> bool {
    Mark5b::read(frame).is_some_and(|(header, _)| header.sync == SYNC)
}

/// The predicted header of a lost frame.
pub(crate) fn predicted(ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
    let (header, _) = Mark5b::read(ahead.like)?;
    let fifteen = ahead.fps.is_some_and(|fps| fps <= 1 << 15);
    let number = if fifteen { header.frame } else { header.frame16() };
    // Any second will do: only the difference is added to the header's own.
    let (second, frame) = step(1 << 32, number, ahead.frames, ahead.fps)?;
    let mut out = [0; 32];
    let moved = header.moved(second as i64 - (1 << 32), frame, ahead.fps);
    out[..Mark5b::LEN].copy_from_slice(&moved.write());
    (frame < 1 << 16).then_some((out, Mark5b::LEN))
}
