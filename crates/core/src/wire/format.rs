//! The format of one sender's stream: plain data, from which its layout, its fill and its times follow.
//!
//! A [`Learner`](super::Learner) finds it from the first packets; every field may be changed before the layout is made (a
//! known frame rate, another way to place). Data of one family only are in its [`Particulars`].

use super::family::{Particulars, StreamFormat};
use super::frame::FrameTime;
use super::header::Order;
use super::layout::{Blocks, Place};
use super::stamps::Numbering;
use crate::placement::Reject;
use std::any::Any;

impl PartialEq for StreamFormat {
    fn eq(&self, other: &StreamFormat) -> bool {
        let common = |s: &StreamFormat| {
            let bytes =
                (s.object_bytes, s.network_bytes, s.packet_bytes, s.frame_bytes, s.header_bytes, s.parts);
            (s.family, s.keep, s.place, bytes, s.sequence, s.frames_per_second, s.near)
        };
        common(self) == common(other)
            && (&self.threads, &self.station, &self.quirks) == (&other.threads, &other.station, &other.quirks)
            && self.own.same(&*other.own)
    }
}

impl Eq for StreamFormat {}

impl StreamFormat {
    /// The particulars of its family, if they are a `T`.
    #[must_use]
    pub fn own<T: Particulars>(&self) -> Option<&T> {
        let own: &dyn Any = &*self.own;
        own.downcast_ref()
    }

    /// Where in a kept unit the frame's header starts; `None` if it was stripped.
    #[must_use]
    pub fn header_at(&self) -> Option<usize> {
        self.network_bytes.checked_sub(self.keep.stripped(self.network_bytes))
    }

    /// Bytes kept of each packet; 0 if packets differ in size.
    #[must_use]
    pub fn unit_bytes(&self) -> usize {
        self.packet_bytes.saturating_sub(self.keep.stripped(self.network_bytes))
    }

    /// Units that are never divided between objects: one frame of each thread, both halves of a frame.
    #[must_use]
    pub fn group(&self) -> usize {
        self.threads.len().max(1) * self.parts.max(1)
    }

    /// How its packets are divided into objects, if they have one size.
    ///
    /// # Errors
    /// As [`Blocks::new`].
    pub fn blocks(&self) -> Result<Blocks, Reject> {
        Blocks::new(
            self.packet_bytes,
            self.keep.stripped(self.network_bytes),
            self.group(),
            self.object_bytes,
        )
    }

    /// Byte order of the sequence number by which its packets are placed; `None` if they are placed by time.
    #[must_use]
    pub fn placed_by(&self) -> Option<Order> {
        self.sequence.filter(|_| self.place != Place::Time)
    }

    /// The sequence number before the frame.
    #[must_use]
    pub fn numbering(&self) -> Option<Numbering> {
        self.own.numbering(self)
    }

    /// Whether objects may end early without loss; see [`Particulars::short_objects`].
    #[must_use]
    pub fn short_objects(&self) -> bool {
        self.own.short_objects(self)
    }

    /// Set the frames of one thread per second.
    ///
    /// # Errors
    /// As [`visit`](Self::visit); the format is then unchanged.
    pub fn set_frames_per_second(&mut self, frames: u32) -> Result<(), Reject> {
        let before = self.frames_per_second.replace(frames);
        self.geometry().map(|_| ()).inspect_err(|_| self.frames_per_second = before)
    }

    /// When the samples of `unit` (the kept bytes of a packet) were taken; `None` if its header does not state it, or
    /// was stripped. The wrong clock of a thread is corrected.
    #[must_use]
    pub fn frame_time(&self, unit: &[u8]) -> Option<FrameTime> {
        self.own.frame_time(self, unit.get(self.header_at()?..)?)
    }

    /// A description in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut parts = vec![self.own.title(self)];
        parts.extend(self.own.version());
        if self.frame_bytes > 0 {
            parts.push(format!("{}-byte frames", self.frame_bytes));
        }
        parts.extend(self.own.details(self));
        match self.frames_per_second {
            Some(fps) => parts.push(format!("{fps} frames/s")),
            None if self.frame_bytes > 0 => parts.push("frame rate unknown".to_owned()),
            None => {}
        }
        parts.extend(self.station.as_ref().map(|station| format!("station {station}")));
        parts.join(", ")
    }
}
