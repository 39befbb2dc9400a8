//! The frame rate of a stream: learned where it is not stated, and what is known once it is.

use super::stream::Stream;
use skyhaul_core::wire::{FrameTime, Place, RateWatch};

impl Stream {
    /// Frames between the last frame that arrived and this one, by their times.
    pub(super) fn gap_in_time(&self, to: Option<FrameTime>) -> Option<u64> {
        let fps = i64::from(self.report.frames_per_second?);
        let threads = &self.info.format.threads;
        let place = |time: FrameTime| {
            let rank = threads.iter().position(|t| t.id == time.thread).unwrap_or(0) as i64;
            let frame = time.unix_seconds.checked_mul(fps)?.checked_add(i64::from(time.frame))?;
            frame.checked_mul(threads.len().max(1) as i64)?.checked_add(rank)
        };
        let between = place(to?)?.checked_sub(place(self.last_time?)?)?;
        u64::try_from(between - 1).ok()
    }

    /// The frame rate by which it was placed is wrong: it is learned.
    pub(super) fn forget_rate(&mut self, rate: u32) {
        self.report.frames_per_second = None;
        self.rate = RateWatch::default();
        self.watch.forget_rate(&self.info, rate);
    }

    /// Learn the frames per second, if not given: by the numbers of the packets, or from the ends of seconds.
    pub(super) fn learn_rate(&mut self, last: Option<FrameTime>) {
        if self.info.format.own.rate().is_some() {
            return;
        }
        if self.info.format.place != Place::Time {
            self.report.frames_per_second = self.watch.frames_per_second().or(self.report.frames_per_second);
        } else if self.report.frames_per_second.is_none()
            && let Some(time) = last
        {
            // Objects end where seconds do, so the last frame of each object is enough.
            self.report.frames_per_second = self.rate.observe(time);
            self.report.frames_per_second.into_iter().for_each(|frames| self.watch.set_rate(frames));
        }
    }
}
