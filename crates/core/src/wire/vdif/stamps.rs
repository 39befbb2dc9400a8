//! The times of VDIF frames.

use super::{EPOCH_SECONDS, Extended, Header, UNIX_2000, Vdif, VdifFamily};
use crate::wire::{
    frame::{FrameTime, Frames, step},
    stamps::{Move, Stamps},
};

impl Stamps for VdifFamily {
    fn frames(&self) -> &'static dyn Frames {
        &VdifFamily
    }

    fn time(&self, frame: &[u8], _: i64) -> Option<FrameTime> {
        let (vdif, _) = Vdif::read(frame)?;
        let fits = vdif.frame_bytes() == frame.len() && vdif.frame_bytes() > vdif.header_bytes();
        // A header of zeros, as some recorders fill with, has no time.
        let stated = (vdif.seconds, vdif.epoch, vdif.frame) != (0, 0, 0) || vdif.invalid == 0;
        (fits && stated).then(|| FrameTime {
            unix_seconds: vdif.unix_seconds(),
            frame: vdif.frame,
            thread: vdif.thread as u16,
        })
    }

    fn pace(&self, frame: &[u8], fps: Option<u32>) -> Option<(u64, u64)> {
        let stated = || Header::read(frame).ok()?.frames_per_second();
        fps.or_else(stated).map(|fps| (u64::from(fps), 1))
    }

    fn max_rate(&self) -> u32 {
        1 << 24
    }

    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)> {
        let mut header = Header::read(frame).ok()?;
        if by.seconds != 0 {
            let new = header.vdif.unix_seconds().checked_add(by.seconds)?;
            let begin = by.begin.and_then(|begin| Vdif::default().at(begin, 0));
            let epoch = begin.map_or(header.vdif.epoch, |begin| begin.epoch);
            let since = new.checked_sub(UNIX_2000 + i64::from(EPOCH_SECONDS[epoch as usize & 63]))?;
            header.vdif.seconds = u32::try_from(since).ok().filter(|&second| second < 1 << 30)?;
            header.vdif.epoch = epoch;
            if let Extended::Mark5b(inner) = &mut header.extended {
                *inner = inner.moved(by.seconds, inner.frame16(), None);
            }
        }
        if by.frames != 0 {
            let fps = by.fps?;
            let (second, number) =
                step(u64::from(header.vdif.seconds), header.vdif.frame, by.frames, Some(fps))?;
            let second = u32::try_from(second).ok().filter(|&second| second < 1 << 30)?;
            header = header.moved(by.packets, second, number, Some(fps));
        }
        Some(header.write())
    }
}
