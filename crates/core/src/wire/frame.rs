//! Frames: their times, their ends, what is wrong with them, what stands where one was lost.

use crate::placement::{Placement, Reject};
use std::fmt;

/// What the packets of a family are parts of.
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
    /// More bytes are needed to tell.
    Incomplete,
    /// After this many bytes.
    Length(usize),
    /// It is no frame of this family.
    Unknown,
}

/// What a frame is held against.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Octets of a frame of its stream.
    pub frame_bytes: usize,
    /// A Unix time not more than 500 days from the data.
    pub near: i64,
    /// Whether the payload is to be the [pattern](crate::pattern) of its time.
    pub pattern: bool,
}

/// Frames that stand one after the other in files and in TCP.
pub trait Frames: Sync {
    /// Where the frame with which `bytes` begin ends.
    fn framing(&self, bytes: &[u8]) -> Framing;
    /// Whether a frame is legal, and what it tells.
    fn see(&self, frame: &[u8], expected: &Expected) -> FrameSeen;
}

/// Packets of different lengths that stand one after the other, in files and in TCP: each tells its own end.
pub trait Packets: Sync {
    /// The place of the packet with which `bytes` begin; it ends `start + length` octets on. `None`: more octets are
    /// needed to tell, never more than half a megabyte.
    ///
    /// # Errors
    /// It is no packet of this family.
    fn place(&self, bytes: &[u8]) -> Result<Option<Placement>, Reject>;

    /// Whether the payload of a packet with this head may be the [pattern](crate::pattern) of its object: it is data, and
    /// no description of any.
    fn is_data(&self, head: &[u8]) -> bool;

    /// The stored packet with this head in packets of at most `most` octets: write the head of the one behind what is `done`
    /// to the end of `to`, and say what is done with it; its payload goes on where that of the one before ended. `None` when
    /// nothing is left. A packet too small for any head is made as small as can be.
    fn divide(&self, head: &[u8], done: Divided, most: usize, to: &mut Vec<u8>) -> Option<Divided>;
}

/// How much of a stored packet lies in the packets that were made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Divided {
    /// Packets.
    pub packets: u64,
    /// Items of its head that are of its object.
    pub items: usize,
    /// Octets of its payload.
    pub payload: u64,
}

/// When the samples of a frame were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameTime {
    /// Unix time of the second it lies in.
    pub unix_seconds: i64,
    /// Frame in that second.
    pub frame: u32,
    /// Thread; 0 where the format has none.
    pub thread: u16,
}

/// What one frame is, to who knows its format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSeen {
    /// Why it is no legal frame.
    pub illegal: Option<&'static str>,
    /// It is marked as invalid: fill.
    pub filled: bool,
    /// Unix second and frame number.
    pub time: Option<(i64, u32)>,
}

impl FrameSeen {
    /// A frame that is not legal.
    #[must_use]
    pub fn illegal(why: &'static str) -> FrameSeen {
        FrameSeen { illegal: Some(why), ..FrameSeen::default() }
    }
}

/// A thread of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number; 0 where the format has none.
    pub id: u16,
    /// Seconds to add to its clock.
    pub shift: i64,
    /// The header of one of its frames; empty where none was seen.
    pub header: Vec<u8>,
}

/// Something about a stream that its standard does not allow, or that makes it harder to use, in words. It is
/// survived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quirk(String);

impl Quirk {
    /// In these words.
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

/// Payload word by which correlators know data that was never recorded.
pub const FILL: [u8; 4] = 0x1122_3344u32.to_le_bytes();

/// Which frame's header is to be predicted, and from what.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    /// The frame whose header it is like but for the time.
    pub like: &'a [u8],
    /// The frame whose time is known.
    pub clock: &'a [u8],
    /// Seconds that the lost frame's thread tells more than the thread of `clock`.
    pub shift: i64,
    /// Packets from `clock` to the lost frame.
    pub packets: i64,
    /// Frames of one thread from `clock` to the lost frame.
    pub frames: i64,
    /// Frames of one thread in a second, where that is known.
    pub fps: Option<u32>,
}

/// Second and frame number of the frame `steps` further on, of the same thread. Where the rate is unknown the second
/// stays; `None` where that cannot be, or no such time is.
#[must_use]
pub(crate) fn step(second: u64, frame: u32, steps: i64, fps: Option<u32>) -> Option<(u64, u32)> {
    let Some(fps) = fps.filter(|&fps| fps > 0).map(u64::from) else {
        return Some((second, u32::try_from(i64::from(frame).checked_add(steps)?).ok()?));
    };
    let linear = second.checked_mul(fps)?.checked_add(u64::from(frame))?.checked_add_signed(steps)?;
    Some((linear / fps, (linear % fps) as u32))
}
