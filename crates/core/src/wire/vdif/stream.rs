//! How a VDIF stream is described, timed and predicted.

use super::{Header, Vdif};
use crate::wire::{
    family::{Particulars, StreamFormat},
    frame::{Ahead, FrameTime, step},
    header::{Field, Order},
};

/// The variant of shapes with the short header.
pub(super) const LEGACY: u8 = 1;

/// Particulars of a VDIF stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VdifStream {
    /// Extended data version; `None` for legacy headers.
    pub edv: Option<u8>,
    /// Bits per sample, or component of a complex one; 0 if unknown.
    pub bits: u32,
    /// Channels in a thread; 0 if unknown.
    pub channels: u64,
    /// Samples are complex.
    pub complex: bool,
}

/// Name of the extended data version in an index.
pub(super) const EDV: &str = "edv";

/// The field with the thread.
const THREAD: &Field = {
    let mut at = 0;
    while !matches!(Vdif::FIELDS[at].name.as_bytes(), b"thread") {
        at += 1;
    }
    &Vdif::FIELDS[at]
};

impl Particulars for VdifStream {
    fn title(&self, stream: &StreamFormat) -> String {
        match stream.sequence {
            Some(Order::Little) => "vdif over VTP (little-endian)".to_owned(),
            Some(Order::Big) => "vdif over VTP (big-endian)".to_owned(),
            None => stream.family.to_string(),
        }
    }

    fn version(&self) -> Option<String> {
        Some(self.edv.map_or("legacy".to_owned(), |edv| format!("EDV {edv:#x}")))
    }

    fn details(&self, stream: &StreamFormat) -> Vec<String> {
        let mut details = Vec::new();
        if self.bits > 0 {
            let complex = if self.complex { " complex" } else { "" };
            details.push(format!("{} bit{complex} × {} channels", self.bits, self.channels));
        }
        let ids: Vec<String> = stream.threads.iter().take(16).map(|t| t.id.to_string()).collect();
        let more = if stream.threads.len() > ids.len() { "…" } else { "" };
        details.push(format!("threads {}{more}", ids.join(",")));
        details
    }

    fn numbers(&self) -> Vec<(&'static str, Option<u64>)> {
        vec![(EDV, self.edv.map(u64::from))]
    }

    fn short_objects(&self, stream: &StreamFormat) -> bool {
        stream.placed_by().is_none() && stream.frames_per_second.is_none()
    }

    fn thread_field(&self) -> Option<&'static Field> {
        Some(THREAD)
    }

    fn frame_time(&self, stream: &StreamFormat, frame: &[u8]) -> Option<FrameTime> {
        let (vdif, _) = Vdif::read(frame)?;
        let thread = vdif.thread as u16;
        let shift = stream.threads.iter().find(|t| t.id == thread).map_or(0, |t| t.shift);
        let unix_seconds = vdif.unix_seconds().checked_add(shift)?;
        Some(FrameTime { unix_seconds, frame: vdif.frame, thread })
    }

    fn has_header(&self, stream: &StreamFormat, frame: &[u8]) -> bool {
        Header::read_alone(frame).is_ok_and(|header| {
            header.vdif.frame_bytes() == stream.frame_bytes
                && header.vdif.header_bytes() == stream.header_bytes
        })
    }

    fn predicted(&self, ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
        let clock = Header::read_alone(ahead.clock).ok()?.vdif;
        let mut like = Header::read_alone(ahead.like).ok()?;
        like.vdif.epoch = clock.epoch;
        like.vdif.thread = ahead.thread.map_or(like.vdif.thread, u32::from);
        let shifted = u32::try_from(i64::from(clock.seconds).checked_add(ahead.shift)?).ok()?;
        let (second, frame) = step(u64::from(shifted), clock.frame, ahead.frames, ahead.fps)?;
        let seconds = u32::try_from(second).ok().filter(|second| *second < 1 << 30)?;
        let mut header = like.moved(ahead.packets, seconds, frame, ahead.fps);
        header.vdif.invalid = 1;
        (frame < 1 << 24).then(|| header.write())
    }
}
