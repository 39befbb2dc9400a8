//! Looking into the frames of a recording: are they legal, are they fill, are they the pattern?

use crate::recording::{Datastream, FrameReader, FrameSeen};
use skyhaul_core::pattern;
use skyhaul_core::wire::vdif::Header;
use skyhaul_core::wire::{Format, mark5b};

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
