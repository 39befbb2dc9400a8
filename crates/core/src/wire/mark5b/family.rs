//! Mark 5B as a member of the registry; code shared by whole frames and halves.

use super::{
    FRAME, FRAMES_15, Mark5b, Mark5bLayout, PAYLOAD, SYNC, Time, UNIX_EPOCH_MJD, frames_per_second, from_bcd,
    unix_seconds,
};
use crate::pattern;
use crate::placement::Reject;
use crate::samples::{Coded, Coding};
use crate::wire::family::{
    Family, FamilyRef, Framed, Known, Particulars, Recalled, Seen, Shape, StreamFormat,
};
use crate::wire::frame::{Ahead, Expected, FILL, FrameSeen, FrameTime, Frames, Framing, Quirk, Thread, step};
use crate::wire::fuzzing::parser::place;
use crate::wire::header::{Field, Order};
use crate::wire::inspect::Reader;
use crate::wire::layout::Blocks;
use crate::wire::stamps::{Counted, Move, Stamps};
use crate::wire::trial::{Draw, Trial};
use crate::wire::vtp::{self, Vtp};
use crate::wire::written::{Headers, Written};
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

    /// The fields of a packet whose frame begins after `network` bytes.
    fn inspect(&self, reader: &mut Reader<'_>, shape: Option<Shape>) {
        let network = shape.map_or(0, |shape| shape.network);
        reader.sequence(network);
        inspect_header(reader);
        let needed = network + FRAME;
        if reader.packet().len() < needed {
            reader.fail_at(0, "Mark 5B", Reject::Truncated, needed);
            reader.go_to(network + Mark5b::LEN);
        }
    }

    fn stamps(&self) -> Option<&'static dyn Stamps> {
        Some(&Mark5bFamily)
    }

    /// A header that was read is written back unchanged; short packets are extended, so that headers are reached.
    fn fuzz(&self, _: u8, packet: &[u8]) {
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
            let layout = Blocks::new(FRAME, 0, 1, 1 << 20)
                .and_then(|blocks| Mark5bLayout::new(blocks, None, fps, NEAR));
            layout.iter().for_each(|layout| place(layout, &packet));
        }
    }

    /// Headers with and without the high bit of the frame number, and several of them.
    fn seeds(&self) -> Vec<Vec<u8>> {
        let header =
            |frame, fraction| Mark5b::new(Time { day: 821, second: 19_801, frame }, fraction).write();
        let three = [header(0, 0), header(1, 1), header(2, 3)].concat();
        vec![header(0, 0).to_vec(), header(40_000, 7812).to_vec(), three]
    }

    fn trials(&self) -> &'static [fn(Draw<'_>) -> Trial] {
        TRIALS
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
        let frame = if expected.fps.is_some() { number(time.frame, expected.fps) } else { time.frame };
        FrameSeen { filled, time: Some((seconds, frame)), ..FrameSeen::default() }
    }

    /// Headers for this stream.
    fn written(&self, written: &Written) -> Result<Box<dyn Headers>, String> {
        let coding = Coding::SignMagnitude(written.bits);
        if !coding.is_known() || written.complex {
            return Err("Mark 5B has real samples of 1 or 2 bits".to_owned());
        }
        let streams = u64::from(written.channels) * u64::from(written.bits);
        if !streams.is_power_of_two() || streams > 32 {
            return Err(format!("{streams} bitstreams: Mark 5B has 1, 2, 4, 8, 16 or 32"));
        }
        if written.payload.is_some_and(|payload| payload != PAYLOAD) {
            return Err(format!("frames of Mark 5B hold {PAYLOAD} bytes of samples"));
        }
        if written.threads.len() != 1 || written.version.is_some() {
            return Err("Mark 5B has no threads and no versions".to_owned());
        }
        let (fps, frame) = written.frames(PAYLOAD)?;
        if fps > 1 << 16 {
            return Err(format!("{fps} frames/s: Mark 5B counts 65536 at most"));
        }
        let day = (written.start.0.div_euclid(86_400) + UNIX_EPOCH_MJD).rem_euclid(1000) as u32;
        let time = Time { day, second: written.start.0.rem_euclid(86_400) as u32, frame };
        let first = Mark5b::new(time, (u64::from(frame) * 10_000 / u64::from(fps)) as u32);
        Ok(Box::new(Mark5bHeaders { first, frame, fps, coding }))
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

impl Stamps for Mark5bFamily {
    fn frames(&self) -> &'static dyn Frames {
        &Mark5bFamily
    }

    fn time(&self, frame: &[u8], near: i64, fps: Option<u32>) -> Option<FrameTime> {
        let time = Mark5b::read(frame)?.0.time().ok().filter(|_| frame.len() == FRAME)?;
        let unix_seconds = unix_seconds(time.day, time.second, near);
        Some(FrameTime { unix_seconds, frame: number(time.frame, fps), thread: 0 })
    }

    fn pace(&self, _: &[u8], fps: Option<u32>) -> Option<(u64, u64)> {
        fps.map(|fps| (u64::from(fps), 1))
    }

    fn found_rate(&self, frames: &[&[u8]]) -> Option<u32> {
        let headers = frames.iter().filter_map(|frame| Some(Mark5b::read(frame)?.0));
        let headers: Vec<Mark5b> = headers.filter(|header| header.time().is_ok()).collect();
        frames_per_second(&headers).filter(|_| !headers.is_empty())
    }

    fn count(&self, frame: &[u8], near: i64, fps: u32) -> Option<Counted> {
        let time = Mark5b::read(frame)?.0.time().ok().filter(|_| frame.len() == FRAME)?;
        let second = unix_seconds(time.day, time.second, near).checked_mul(i64::from(fps))?;
        let number = second.checked_add(i64::from(number(time.frame, Some(fps))))?;
        Some(Counted { thread: 0, number })
    }

    fn max_rate(&self) -> u32 {
        1 << 16
    }

    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)> {
        let (mut header, _) = Mark5b::read(frame)?;
        header.time().ok()?;
        if by.seconds != 0 {
            header = header.moved(by.seconds, header.frame16(), None);
        }
        if by.frames != 0 {
            // Any second will do: only the difference is added to the header's own.
            let of = number(header.frame16(), by.fps);
            let (second, frame) = step(1 << 32, of, by.frames, by.fps)?;
            header = header.moved(second as i64 - (1 << 32), frame, by.fps);
        }
        let mut octets = [0; 32];
        octets[..Mark5b::LEN].copy_from_slice(&header.write());
        Some((octets, Mark5b::LEN))
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
        // Any time near the data will do: the first frame has one.
        let first = stream.threads.first().and_then(|thread| Mark5b::read(&thread.header)?.0.time().ok());
        let near = first.map_or(stream.near, |first| unix_seconds(first.day, first.second, stream.near));
        Mark5bLayout::new(stream.blocks()?, stream.placed_by(), stream.frames_per_second, near)
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

/// The time near which dates are resolved.
const NEAR: i64 = 1_795_231_799;

/// The fields of the header that begins here.
pub(crate) fn inspect_header(reader: &mut Reader<'_>) {
    if let Some(Err(reason)) = Mark5b::read(reader.rest()).map(|(header, _)| header.time()) {
        reader.fail("Mark 5B", reason, 0);
    }
    reader.table("Mark 5B", Mark5b::FIELDS, Mark5b::LEN, meaning);
}

/// The meaning of a header field.
pub(crate) fn meaning(_: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    let decimal = from_bcd(value as u32);
    let digits = || decimal.map_or("no BCD".to_owned(), |digits| digits.to_string());
    Some(match name {
        "day_bcd" => format!("MJD …{:0>3}", digits()),
        "second_bcd" => format!("{} s of the day", digits()),
        "fraction_bcd" => format!("0.{:0>4} s", digits()),
        "crc" if value == 0 => "none written".to_owned(),
        "crc" => match u64::from(Mark5b::read(header)?.0.computed_crc()) {
            right if right == value => "right".to_owned(),
            right => format!("should be {right:#06x}"),
        },
        _ => return None,
    })
}

/// For files whose packets are parts of such frames.
pub(crate) const STAMPS: &dyn Stamps = &Mark5bFamily;

/// The frame number, without the test bit where 15 bits are enough for it.
fn number(frame: u32, fps: Option<u32>) -> u32 {
    if fps.is_none_or(|fps| fps <= FRAMES_15) { frame & 0x7FFF } else { frame }
}

/// Seconds from MJD 0, near the time near which dates are resolved by default.
const SECOND: u64 = 60_821 * 86_400 + 19_801;

const TRIALS: &[fn(Draw<'_>) -> Trial] = &[
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

/// Mark 5B headers for frames made from samples.
#[derive(Debug)]
struct Mark5bHeaders {
    first: Mark5b,
    frame: u32,
    fps: u32,
    coding: Coding,
}

impl Headers for Mark5bHeaders {
    fn payload(&self) -> usize {
        PAYLOAD
    }

    fn coding(&self) -> Coding {
        self.coding
    }

    fn header(&self, n: u64, _: usize, _: bool) -> Option<([u8; 32], usize)> {
        // Any second will do: only the difference is added to the header's own.
        let (second, frame) = step(1 << 32, self.frame, i64::try_from(n).ok()?, Some(self.fps))?;
        let moved = self.first.moved(second as i64 - (1 << 32), frame, Some(self.fps));
        let mut out = [0; 32];
        out[..Mark5b::LEN].copy_from_slice(&moved.write());
        Some((out, Mark5b::LEN))
    }
}
