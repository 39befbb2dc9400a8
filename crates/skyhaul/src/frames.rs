//! Inspects the frames of a recording: their format, and whether they are valid, fill, or the pattern.

use crate::recording::{Datastream, DatastreamInfo, FrameSeen};
use skyhaul_core::wire::{
    Expected, FamilyRef, Format, Framing, Keep, LearnOptions, Learner, Packets, Place, StreamFormat, Thread,
};

/// The description of a stream's format in the index, for readers of the recording.
#[must_use]
pub fn described(format: &StreamFormat) -> serde_json::Value {
    let mut described = serde_json::json!({
        "format": format.family.name(),
        "describe": format.describe(),
        "header_at": format.header_at(),
        "threads": format.threads.iter().map(|t| t.id).collect::<Vec<_>>(),
        "edv": null,
        "station": format.station,
        "near": format.near,
    });
    for (name, number) in format.own.numbers() {
        described[name] = number.into();
    }
    described
}

/// The family of a datastream, from its index.
#[must_use]
pub fn family(datastream: &Datastream) -> Option<FamilyRef> {
    datastream.info.format.get("format")?.as_str()?.parse::<Format>().ok()?.family()
}

/// The packets of a datastream, if they state their own length.
#[must_use]
pub fn packets_of(datastream: &Datastream) -> Option<&'static dyn Packets> {
    family(datastream)?.packets()
}

/// Packets in which a frame of a datastream comes: more than 1 where its units are parts of frames.
#[must_use]
pub fn packets_per_frame(info: &DatastreamInfo) -> u32 {
    let about = Datastream { info: info.clone(), ..Datastream::default() };
    stream_format(&about).map_or(1, |format| u32::try_from(format.parts.max(1)).unwrap_or(1))
}

/// The format of a datastream, restored from its index: enough to predict headers. `None` if its frames have no headers.
#[must_use]
pub fn stream_format(datastream: &Datastream) -> Option<StreamFormat> {
    let (of, info) = (&datastream.info.format, &datastream.info);
    let family = family(datastream)?;
    let network_bytes = usize::try_from(of.get("header_at")?.as_u64()?).ok()?;
    let packet_bytes = info.unit_bytes as usize;
    let frame_bytes = packet_bytes.checked_sub(network_bytes).filter(|&bytes| bytes > 0)?;
    let ids = of.get("threads").and_then(serde_json::Value::as_array).into_iter().flatten();
    let ids = ids.filter_map(|id| u16::try_from(id.as_u64()?).ok());
    let recalled = family.recall(&|name| of.get(name)?.as_u64())?;
    Some(StreamFormat {
        family,
        keep: Keep::All,
        place: Place::Sequence,
        object_bytes: u64::from(info.unit_bytes) * u64::from(info.units),
        network_bytes,
        sequence: None,
        packet_bytes,
        frame_bytes,
        header_bytes: recalled.header_bytes,
        parts: recalled.parts,
        threads: ids.map(|id| Thread { id, shift: 0, header: Vec::new() }).collect(),
        frames_per_second: info.frames_per_second,
        station: None,
        quirks: Vec::new(),
        near: of.get("near").and_then(serde_json::Value::as_i64).unwrap_or_default(),
        own: recalled.own,
    })
}

/// The description in the index of a stream of packets that state their own length.
#[must_use]
pub fn described_packets(family: FamilyRef, describe: &str) -> serde_json::Value {
    serde_json::json!({ "format": family.name(), "describe": describe })
}

/// Whether a file of `bytes` bytes that begins with `head` may consist of packets of this family.
fn begins_with_packets(family: FamilyRef, head: &[u8], bytes: u64) -> bool {
    let Some(packets) = family.packets() else { return false };
    let mut at = 0;
    while let Some(rest) =
        usize::try_from(at).ok().and_then(|at| head.get(at..)).filter(|rest| !rest.is_empty())
    {
        match packets.place(rest) {
            Ok(Some(place)) => at = u64::from(place.start).saturating_add(place.length).saturating_add(at),
            Ok(None) => break,
            Err(_) => return false,
        }
    }
    (1..=bytes).contains(&at)
}

/// The content of a file of `bytes` bytes, from its first bytes: only frames, or only packets, of one family. `near` is a Unix time within
/// 500 days of its data, for formats without a year.
#[must_use]
pub fn learn(head: &[u8], bytes: u64, near: i64) -> Option<DatastreamInfo> {
    if let Some(family) = Format::Auto.families().find(|family| begins_with_packets(*family, head, bytes)) {
        let format = described_packets(family, family.title());
        return Some(DatastreamInfo { format, ..DatastreamInfo::default() });
    }
    Format::Auto.families().find_map(|family| learn_frames(family, head, Some(bytes), near))
}

/// The content of a file whose beginning is known: frames of one family, or packets of one. How many there are is not known. `near` is a Unix
/// time within 500 days of its data.
#[must_use]
pub(crate) fn learn_beginning(head: &[u8], near: i64) -> Option<Beginning> {
    let packets = |family: &FamilyRef| begins_with_packets(*family, head, u64::MAX);
    if let Some(family) = Format::Auto.families().find(packets) {
        return Some(Beginning::Packets(family));
    }
    Format::Auto.families().find_map(|family| learn_frames(family, head, None, near)).map(Beginning::Frames)
}

/// What a file begins with.
pub(crate) enum Beginning {
    /// Frames of one length.
    Frames(DatastreamInfo),
    /// Packets that state their own length, of this family.
    Packets(FamilyRef),
}

/// The same for frames of this family. The header of another one may state a length, too: the file must consist of such frames.
fn learn_frames(family: FamilyRef, head: &[u8], bytes: Option<u64>, near: i64) -> Option<DatastreamInfo> {
    let Framing::Length(unit) = family.frames()?.framing(head) else { return None };
    let is_multiple = |bytes: u64| bytes.is_multiple_of(unit as u64);
    if unit == 0 || !bytes.is_none_or(is_multiple) || head.len() < unit {
        return None;
    }
    let bytes = bytes.unwrap_or(head.len() as u64);
    let mut learner = Learner::new(LearnOptions { near, ..LearnOptions::default() });
    head.chunks_exact(unit).for_each(|frame| learner.observe(frame));
    let format = learner.conclude(true)?.ok()?;
    let whole = format.family == family && format.unit_bytes() == unit;
    whole.then(|| DatastreamInfo {
        suffix: String::new(),
        sender: None,
        unit_bytes: unit as u32,
        units: u32::try_from(bytes / unit as u64).unwrap_or(u32::MAX),
        frames_per_second: format.frames_per_second,
        lanes: format.group() as u32,
        chunk_bytes: 0,
        numbered: false,
        format: described(&format),
    })
}

/// Reads the frames of one chunk, in order.
pub trait FrameReader {
    /// Check `frame`.
    fn see(&mut self, frame: &[u8]) -> FrameSeen;
}

/// Reads the frames of a chunk in place.
#[derive(Clone, Copy, Debug)]
pub struct FramesOf {
    family: FamilyRef,
    header_at: usize,
    expected: Expected,
}

impl FramesOf {
    /// A reader for a datastream, if its index has a format whose frames keep their headers; with `verify`, payloads must
    /// be the pattern.
    #[must_use]
    pub fn datastream(datastream: &Datastream, verify: bool) -> Option<Self> {
        let of = &datastream.info.format;
        let family = family(datastream)?;
        let header_at = usize::try_from(of.get("header_at")?.as_u64()?).ok()?;
        let near = of.get("near").and_then(serde_json::Value::as_i64).unwrap_or_default();
        let frame_bytes = (datastream.info.unit_bytes as usize).checked_sub(header_at)?;
        let expected =
            Expected { frame_bytes, near, fps: datastream.info.frames_per_second, pattern: verify };
        family.stamps().map(|_| Self { family, header_at, expected })
    }

    /// A reader for frames of a live stream.
    #[must_use]
    pub fn stream(format: &StreamFormat, verify: bool) -> Option<Self> {
        let header_at = format.header_at()?;
        let expected = Expected {
            frame_bytes: format.frame_bytes,
            near: format.near,
            fps: format.frames_per_second,
            pattern: verify,
        };
        format.family.frames().map(|_| Self { family: format.family, header_at, expected })
    }

    /// Check `unit`: a frame with the octets kept before it.
    #[must_use]
    pub fn see(&self, unit: &[u8]) -> FrameSeen {
        match (unit.get(self.header_at..), self.family.stamps()) {
            (Some(frame), Some(stamps)) => stamps.units().see(frame, &self.expected),
            _ => FrameSeen::illegal("shorter than its header"),
        }
    }
}

impl FrameReader for FramesOf {
    fn see(&mut self, frame: &[u8]) -> FrameSeen {
        FramesOf::see(self, frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::mark5b::{self, Mark5b};
    use skyhaul_core::wire::vdif::{Extended, Header, Vdif};
    use skyhaul_core::wire::{Order, fila10g, vtp};

    /// What an index says of the stream of these packets.
    fn told(packet: impl Fn(u32) -> Vec<u8>) -> String {
        let mut learner = Learner::new(LearnOptions { keep: Keep::All, ..LearnOptions::default() });
        (0..64).for_each(|n| learner.observe(&packet(n)));
        described(&learner.conclude(true).unwrap().unwrap()).to_string()
    }

    fn vdif(n: u32, extended: Extended) -> Vec<u8> {
        let legacy = extended == Extended::Legacy;
        let vdif = Vdif::shape(5000, 1, 2, false, legacy).unwrap().at(1_767_225_600, n / 2).unwrap();
        let (octets, length) =
            Header { vdif: Vdif { thread: n % 2 * 3, station: 0x577A, ..vdif }, extended }.write();
        [&octets[..length], &[1; 5000]].concat()
    }

    fn mark5b(n: u32) -> Vec<u8> {
        let header = Mark5b::new(mark5b::Time { day: 60, second: 100, frame: n }, n * 10_000 / 6400);
        [&header.write()[..], &[5; mark5b::PAYLOAD]].concat()
    }

    /// A Mark 5B date is a day of a thousand: the year is that of the file, not of this program.
    #[test]
    fn dates_without_a_year_are_near_the_time_that_is_given() {
        let head: Vec<u8> = (0..8).flat_map(mark5b).collect();
        let day = 86_400;
        let time = |near| {
            let info = learn(&head, head.len() as u64, near).unwrap();
            let stream = stream_format(&Datastream { datastream: 0, name: String::new(), info }).unwrap();
            stream.frame_time(&head).unwrap().unix_seconds
        };
        let first = time(0);
        assert!((-500 * day..500 * day).contains(&first), "{first}");
        assert_eq!(time(first + 20_499 * day), first + 20_000 * day);
        assert_eq!(time(first + 20_501 * day), first + 21_000 * day);
    }

    /// Recordings are read for decades: what an index says of a format stays as it was.
    #[test]
    fn an_index_says_what_it_always_said() {
        let numbered = |n: u32| vtp::write(u64::from(n), Order::Big).to_vec();
        let vlba = Extended::vlba(32_000_000, false).unwrap();
        assert_eq!(told(|n| [numbered(n), vdif(n, vlba)].concat()), VDIF);
        assert_eq!(told(|n| vdif(n, Extended::Legacy)), LEGACY);
        assert_eq!(told(mark5b), MARK5B);
        let half = |n: u32| {
            let prefix = fila10g::Fila10g { filler: 7, counter: n }.write();
            [&prefix[..], &mark5b(n / 2)[n as usize % 2 * fila10g::HALF..][..fila10g::HALF]].concat()
        };
        assert_eq!(told(half), FILA10G);
    }

    const VDIF: &str = r#"{"describe":"vdif over VTP (big-endian), EDV 0x3, 5032-byte frames, 2 bit × 1 channels, threads 0,3, 1600 frames/s, station Wz","edv":3,"format":"vdif","header_at":8,"near":1767225600,"station":"Wz","threads":[0,3]}"#;
    const LEGACY: &str = r#"{"describe":"vdif, legacy, 5016-byte frames, 2 bit × 1 channels, threads 0,3, frame rate unknown, station Wz","edv":null,"format":"vdif","header_at":0,"near":1767225600,"station":"Wz","threads":[0,3]}"#;
    const MARK5B: &str = r#"{"describe":"mark5b, 10016-byte frames, 6400 frames/s","edv":null,"format":"mark5b","header_at":0,"near":1767225600,"station":null,"threads":[0]}"#;
    const FILA10G: &str = r#"{"describe":"fila10g, 5008-byte frames, 6400 frames/s","edv":null,"format":"fila10g","header_at":8,"near":1767225600,"station":null,"threads":[0]}"#;
}
