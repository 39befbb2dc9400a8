//! Looking into the frames of a recording: what format they are, whether they are legal, fill, or the pattern.

use crate::recording::{Datastream, DatastreamInfo, FrameReader, FrameSeen};
use skyhaul_core::pattern;
use skyhaul_core::wire::vdif::Header;
use skyhaul_core::wire::{Format, Keep, LearnOptions, Learner, Place, StreamFormat, Thread, mark5b};

/// What the index says of a stream's format, for who reads the recording.
#[must_use]
pub fn described(format: &StreamFormat) -> serde_json::Value {
    serde_json::json!({
        "format": format.format.name(),
        "describe": format.describe(),
        "header_at": format.header_at(),
        "threads": format.threads.iter().map(|t| t.id).collect::<Vec<_>>(),
        "edv": format.edv,
        "station": format.station,
        "near": format.near,
    })
}

/// The format of a datastream again, as far as its index tells: enough to predict headers. `None` where no frame has one.
#[must_use]
pub fn stream_format(datastream: &Datastream) -> Option<StreamFormat> {
    let (of, info) = (&datastream.info.format, &datastream.info);
    let format: Format = of.get("format")?.as_str()?.parse().ok()?;
    let network_bytes = usize::try_from(of.get("header_at")?.as_u64()?).ok()?;
    let packet_bytes = info.unit_bytes as usize;
    let frame_bytes = packet_bytes.checked_sub(network_bytes).filter(|&bytes| bytes > 0)?;
    let ids = of.get("threads").and_then(serde_json::Value::as_array).into_iter().flatten();
    let ids = ids.filter_map(|id| u16::try_from(id.as_u64()?).ok());
    let edv = of.get("edv").and_then(serde_json::Value::as_u64).and_then(|edv| u8::try_from(edv).ok());
    let legacy = format == Format::Vdif && edv.is_none();
    matches!(format, Format::Vdif | Format::Mark5b | Format::Fila10g).then(|| StreamFormat {
        format,
        keep: Keep::All,
        place: Place::Sequence,
        object_bytes: u64::from(info.unit_bytes) * u64::from(info.units),
        network_bytes,
        sequence: None,
        packet_bytes,
        frame_bytes,
        header_bytes: if legacy || format != Format::Vdif { 16 } else { 32 },
        threads: ids.map(|id| Thread { id, shift: 0, header: Vec::new() }).collect(),
        frames_per_second: info.frames_per_second,
        station: None,
        edv,
        bits: 0,
        channels: 0,
        complex: false,
        phase: None,
        flavour: None,
        data_ids: Vec::new(),
        quirks: Vec::new(),
        near: of.get("near").and_then(serde_json::Value::as_i64).unwrap_or_default(),
    })
}

/// What frames a file of `bytes` bytes holds, by its first bytes: VDIF or Mark 5B frames one after the other, nothing
/// else.
#[must_use]
pub fn learn(head: &[u8], bytes: u64) -> Option<DatastreamInfo> {
    let vdif = Header::read_alone(head).ok().map(|header| header.vdif.frame_bytes());
    let mark5b = mark5b::Mark5b::read(head).filter(|(header, _)| header.sync == mark5b::SYNC);
    let unit = if mark5b.is_some() { mark5b::FRAME } else { vdif? };
    if !bytes.is_multiple_of(unit as u64) || head.len() < unit {
        return None;
    }
    let mut learner = Learner::new(LearnOptions::default());
    head.chunks_exact(unit).for_each(|frame| learner.observe(frame));
    let format = learner.conclude(true)?.ok()?;
    let whole = matches!(format.format, Format::Vdif | Format::Mark5b) && format.unit_bytes() == unit;
    whole.then(|| DatastreamInfo {
        suffix: String::new(),
        sender: None,
        unit_bytes: unit as u32,
        units: u32::try_from(bytes / unit as u64).unwrap_or(u32::MAX),
        frames_per_second: format.frames_per_second,
        lanes: format.group() as u32,
        format: described(&format),
    })
}

/// Reads VDIF or Mark 5B frames as they lie in a chunk.
#[derive(Clone, Copy, Debug)]
pub struct FramesOf {
    format: Format,
    header_at: usize,
    frame_bytes: usize,
    /// A UNIX time near the data, to complete Mark 5B dates.
    near: i64,
    /// Whether payloads are to be the pattern.
    verify: bool,
}

impl FramesOf {
    /// A reader for a datastream, if its index tells a format whose frames keep their headers.
    #[must_use]
    pub fn datastream(datastream: &Datastream, verify: bool) -> Option<Self> {
        let of = &datastream.info.format;
        let format = of.get("format")?.as_str()?.parse().ok()?;
        let header_at = usize::try_from(of.get("header_at")?.as_u64()?).ok()?;
        let near = of.get("near").and_then(serde_json::Value::as_i64).unwrap_or_default();
        let frame_bytes = (datastream.info.unit_bytes as usize).checked_sub(header_at)?;
        let known = matches!(format, Format::Vdif | Format::Mark5b);
        known.then_some(Self { format, header_at, frame_bytes, near, verify })
    }

    /// A reader for frames of a live stream.
    #[must_use]
    pub fn stream(format: &skyhaul_core::wire::StreamFormat, verify: bool) -> Option<Self> {
        let header_at = format.header_at()?;
        let known = matches!(format.format, Format::Vdif | Format::Mark5b);
        known.then_some(Self {
            format: format.format,
            header_at,
            frame_bytes: format.frame_bytes,
            near: format.near,
            verify,
        })
    }

    /// What `unit` is: a frame with whatever is kept in front of it.
    #[must_use]
    pub fn see(&self, unit: &[u8]) -> FrameSeen {
        let Some(frame) = unit.get(self.header_at..) else { return illegal("shorter than its header") };
        match self.format {
            Format::Vdif => self.vdif(frame),
            _ => self.mark5b(frame),
        }
    }

    fn vdif(&self, frame: &[u8]) -> FrameSeen {
        let Ok(header) = Header::read(frame) else { return illegal("no legal VDIF header") };
        let vdif = header.vdif;
        if vdif.frame_bytes() != self.frame_bytes {
            return illegal("a frame length that is not the stream's");
        }
        let filled = vdif.invalid == 1;
        let time = Some((vdif.unix_seconds(), vdif.frame));
        if self.verify && !filled {
            let object = pattern::frame_object(vdif.unix_seconds(), vdif.frame, vdif.thread as u16);
            if pattern::first_error(object, 0, &frame[vdif.header_bytes()..]).is_some() {
                return FrameSeen { illegal: Some("a payload that is not the pattern"), filled, time };
            }
        }
        FrameSeen { illegal: None, filled, time }
    }

    fn mark5b(&self, frame: &[u8]) -> FrameSeen {
        let Some((header, payload)) = mark5b::Mark5b::read(frame) else {
            return illegal("no Mark 5B header");
        };
        let fill = |octets: &[u8]| octets.starts_with(&skyhaul_core::wire::vdif::FILL);
        if header.sync != mark5b::SYNC {
            return if fill(frame) {
                FrameSeen { illegal: None, filled: true, time: None }
            } else {
                illegal("no sync word")
            };
        }
        let Ok(time) = header.time() else { return illegal("no legal time") };
        let seconds = mark5b::unix_seconds(time.day, time.second, self.near);
        let filled = fill(payload) && payload.ends_with(&skyhaul_core::wire::vdif::FILL);
        FrameSeen { illegal: None, filled, time: Some((seconds, time.frame)) }
    }
}

impl FrameReader for FramesOf {
    fn see(&mut self, frame: &[u8]) -> FrameSeen {
        FramesOf::see(self, frame)
    }
}

fn illegal(why: &'static str) -> FrameSeen {
    FrameSeen { illegal: Some(why), ..FrameSeen::default() }
}
