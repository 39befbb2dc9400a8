//! The times of Mark 5B frames.

use super::{FRAME, FRAMES_15, Mark5b, Mark5bFamily, frames_per_second, unix_seconds};
use crate::wire::{
    frame::{FrameTime, Frames, step},
    stamps::{Counted, Move, Stamps},
};

/// For files whose packets are parts of such frames.
pub(crate) const STAMPS: &dyn Stamps = &Mark5bFamily;

/// The frame number, without the test bit where 15 bits are enough for it.
fn number(frame: u32, fps: Option<u32>) -> u32 {
    if fps.is_none_or(|fps| fps <= FRAMES_15) { frame & 0x7FFF } else { frame }
}

impl Stamps for Mark5bFamily {
    fn frames(&self) -> &'static dyn Frames {
        &Mark5bFamily
    }

    fn time(&self, frame: &[u8], near: i64) -> Option<FrameTime> {
        let time = Mark5b::read(frame)?.0.time().ok().filter(|_| frame.len() == FRAME)?;
        let unix_seconds = unix_seconds(time.day, time.second, near);
        Some(FrameTime { unix_seconds, frame: number(time.frame, None), thread: 0 })
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
