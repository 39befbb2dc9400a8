//! Frames: their times, their ends, their validity, and fill for lost ones.

use super::header::Field;
use super::written::{Headers, Written};
use crate::{
    placement::{Placement, Reject},
    samples::Coded,
};
use std::fmt;

/// The kind of a family's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Objects {
    /// Frames of one size in a stream, each with its time.
    Frames,
    /// Heaps, each with its own size.
    Heaps,
    /// Events of many sources.
    Events,
}

impl Objects {
    /// Their name in the plural.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Objects::Frames => "frames",
            Objects::Heaps => "heaps",
            Objects::Events => "events",
        }
    }
}

/// Where a frame ends among bytes that begin with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// More bytes are needed.
    Incomplete,
    /// After this many bytes.
    Length(usize),
    /// It is not a frame of this family.
    Unknown,
}

/// The properties that a frame is checked for.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Bytes of a frame of its stream.
    pub frame_bytes: usize,
    /// A Unix time within 500 days of the data.
    pub near: i64,
    /// Frames of a thread per second, if known: a high rate takes another bit for the frame number.
    pub fps: Option<u32>,
    /// Whether the payload must be the [pattern](crate::pattern) of its time.
    pub pattern: bool,
}

/// Consecutive frames in files and TCP streams.
pub trait Frames: Sync {
    /// Where the first frame of `bytes` ends.
    fn framing(&self, bytes: &[u8]) -> Framing;
    /// Check a frame, and read its time.
    fn see(&self, frame: &[u8], expected: &Expected) -> FrameSeen;
    /// How the payload of a frame is written; `None` if it holds no samples that [`crate::samples`] decodes.
    fn coded(&self, _frame: &[u8]) -> Option<Coded> {
        None
    }
    /// Whether the header of a frame marks this channel as valid; called only if [`Coded::by_channel`].
    fn channel_is_valid(&self, _frame: &[u8], _channel: u32) -> bool {
        true
    }
    /// The tables of a frame's header, each with its offset in bytes; empty if it has no header.
    fn tables(&self, _frame: &[u8]) -> Vec<(usize, &'static [Field])> {
        Vec::new()
    }
    /// The station in the header of a frame, as it is coded there.
    fn station(&self, _frame: &[u8]) -> Option<u32> {
        None
    }
    /// A coded station as text.
    fn station_text(&self, station: u32) -> String {
        station.to_string()
    }
    /// Headers for frames made from samples.
    ///
    /// # Errors
    /// Why such a stream cannot be written.
    fn written(&self, _stream: &Written) -> Result<Box<dyn Headers>, String> {
        Err("samples of this format cannot be written".to_owned())
    }
}

/// Consecutive packets of variable length in files and TCP streams; each states its length.
pub trait Packets: Sync {
    /// The place of the first packet of `bytes`, which is `start + length` long. `None`: more bytes are needed, never
    /// more than half a megabyte.
    ///
    /// # Errors
    /// If it is not a packet of this family.
    fn place(&self, bytes: &[u8]) -> Result<Option<Placement>, Reject>;

    /// Whether the payload of a packet with this head may be the [pattern](crate::pattern) of its object: it is data, not
    /// a descriptor.
    fn is_data(&self, head: &[u8]) -> bool;

    /// Divide the stored packet with this head into packets of at most `most` bytes: append the head of the next one
    /// after `done` to `to`, and return what is done then; its payload continues where that of the previous one ended.
    /// `None` when nothing is left. If `most` is too small for a head, packets are as small as possible.
    fn divide(&self, head: &[u8], done: Divided, most: usize, to: &mut Vec<u8>) -> Option<Divided>;
}

/// How much of a stored packet has been divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Divided {
    /// Packets.
    pub packets: u64,
    /// Items of its head that belong to its object.
    pub items: usize,
    /// Bytes of its payload.
    pub payload: u64,
}

/// When the samples of a frame were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameTime {
    /// Unix time of the second it lies in.
    pub unix_seconds: i64,
    /// Frame in that second.
    pub frame: u32,
    /// Thread; 0 if the format has none.
    pub thread: u16,
}

/// The result of checking a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSeen {
    /// Why the frame is invalid.
    pub illegal: Option<&'static str>,
    /// It is marked as invalid: fill.
    pub filled: bool,
    /// Unix second and frame number.
    pub time: Option<(i64, u32)>,
    /// Frames of its thread from 1970 to that second, where seconds have no whole number of frames and the header gives it.
    pub before: Option<i64>,
    /// Its thread; 0 if the format has none.
    pub thread: u16,
    /// Its station, as it is coded in the header.
    pub station: Option<u32>,
}

impl FrameSeen {
    /// An invalid frame.
    #[must_use]
    pub fn illegal(why: &'static str) -> FrameSeen {
        FrameSeen { illegal: Some(why), ..FrameSeen::default() }
    }
}

/// A thread of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number; 0 if the format has none.
    pub id: u16,
    /// Seconds to add to its clock.
    pub shift: i64,
    /// The header of one of its frames; empty if none was seen.
    pub header: Vec<u8>,
}

/// A deviation of a stream from its standard, or a property that makes it harder to use, as text. It is tolerated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quirk(String);

impl Quirk {
    /// A quirk with this text.
    #[must_use]
    pub fn new(words: &dyn fmt::Display) -> Quirk {
        Quirk(words.to_string())
    }
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Payload word by which correlators recognise data that were never recorded.
pub const FILL: [u8; 4] = 0x1122_3344u32.to_le_bytes();

/// Input for the prediction of a lost frame's header.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    /// A frame with the same header except for the time.
    pub like: &'a [u8],
    /// A frame whose time is known.
    pub clock: &'a [u8],
    /// Seconds by which the clock of the lost frame's thread is ahead of that of `clock`.
    pub shift: i64,
    /// Packets from `clock` to the lost frame.
    pub packets: i64,
    /// Frames of one thread from `clock` to the lost frame.
    pub frames: i64,
    /// Frames of one thread per second, if known.
    pub fps: Option<u32>,
    /// The thread of the lost frame, if it is not that of `like`.
    pub thread: Option<u16>,
}

/// Second and frame number of the frame `steps` further on, of the same thread. If the rate is unknown, the second stays;
/// `None` if that is impossible or the time does not exist.
#[must_use]
pub(crate) fn step(second: u64, frame: u32, steps: i64, fps: Option<u32>) -> Option<(u64, u32)> {
    let Some(fps) = fps.filter(|&fps| fps > 0).map(u64::from) else {
        return Some((second, u32::try_from(i64::from(frame).checked_add(steps)?).ok()?));
    };
    let linear = second.checked_mul(fps)?.checked_add(u64::from(frame))?.checked_add_signed(steps)?;
    Some((linear / fps, (linear % fps) as u32))
}
