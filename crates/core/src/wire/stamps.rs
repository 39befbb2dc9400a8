//! The times in the headers of frames: read, counted, and moved by a constant.
//!
//! To send a file, the times are needed to pace its frames, to number its packets so that gaps show, and to give frames
//! new times on request. A new time is the old one plus a constant, so gaps, threads and their order do not change.
//!
//! ```text
//!   file       A0 B0 A1 B1    A3 B3         thread, frame in the second; number 2 is missing
//!   by 2 s     A0 B0 A1 B1    A3 B3         the same frames, two seconds later
//!   by 4       A4 B4 A5 B5    A7 B7         the next pass of a loop: four frames later
//! ```

use super::{
    frame::{FrameTime, Frames},
    numbering::Numbering,
};

/// By how much frames are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// Whole seconds.
    pub seconds: i64,
    /// Frames of a thread, after that.
    pub frames: i64,
    /// Packets of all threads: for counters of packets in the headers.
    pub packets: i64,
    /// Frames of a thread in a second; needed if `frames` is not 0.
    pub fps: Option<u32>,
    /// Unix time at which the moved frames begin, for formats whose reference epoch follows from it.
    pub begin: Option<i64>,
}

/// How the packets of a family are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// With a sequence number before each frame, or without, as the sender wishes.
    ByChoice,
    /// Never.
    Never,
    /// Always: each frame is cut into this many packets of one size, numbered in this way.
    InParts(usize, Numbering),
}

/// A frame in the count of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its thread; 0 if the format has none.
    pub thread: u16,
    /// Frames of the thread since 1970.
    pub number: i64,
}

/// The times of a family's frames.
pub trait Stamps: Sync {
    /// Where frames end.
    fn frames(&self) -> &'static dyn Frames;

    /// The units of its recordings: frames, or parts of frames if these are recorded as they arrive.
    fn units(&self) -> &'static dyn Frames {
        self.frames()
    }

    /// How its packets are numbered.
    fn numbered(&self) -> Numbered {
        Numbered::ByChoice
    }

    /// The time in the header of `frame`; `None` without a valid header. `near`: a Unix time within 500 days of the data.
    fn time(&self, frame: &[u8], near: i64) -> Option<FrameTime>;

    /// Frames of a thread and the whole seconds that they take, if the header of `frame` states that. `fps`: the number
    /// per second, if it is known otherwise.
    fn pace(&self, frame: &[u8], fps: Option<u32>) -> Option<(u64, u64)>;

    /// Frames per second, if only several headers together give it.
    fn found_rate(&self, _frames: &[&[u8]]) -> Option<u32> {
        None
    }

    /// The frame in the count of its thread, at this rate.
    fn count(&self, frame: &[u8], near: i64, fps: u32) -> Option<Counted> {
        let time = self.time(frame, near)?;
        let number = time.unix_seconds.checked_mul(i64::from(fps))?.checked_add(i64::from(time.frame))?;
        Some(Counted { thread: time.thread, number })
    }

    /// The highest rate that the header can count.
    fn max_rate(&self) -> u32;

    /// The header of `frame` with its time moved, and its length; `None` if the header cannot represent that time.
    fn moved(&self, frame: &[u8], by: &Move) -> Option<([u8; 32], usize)>;
}
