//! Where a sender's packets come from: each is made from its number alone.

use super::clock::{OwnPace, SentTimes};
use super::{HEAD, Packetize};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::{FAMILIES, Format, Generated, Made, Numbering, Order, PREFIX, PositionsError};
use std::io;

/// A sender's packets, made from their numbers as they become available.
pub trait Supply: Packetize + Send {
    /// How many packets there are by now, and whether more may come. All before `next` were asked for already; what
    /// lies more than some megabytes before it need not be there any more.
    fn available(&mut self, next: u64) -> (u64, bool);
    /// A description as text.
    fn describe(&self) -> String;
    /// Why what it gave so far is not all, or not what it should be.
    fn failure(&self) -> Option<String> {
        None
    }
    /// The pace of its own times, if it is to be sent so.
    fn pace(&self) -> Option<OwnPace> {
        None
    }
    /// The position of packet `n` in its stream, and the first packet after it that does not follow without a gap.
    fn place(&self, n: u64) -> (u64, u64) {
        (n, u64::MAX)
    }
    /// The times of what it gives, if they are those of recorded data.
    fn times(&self) -> Option<SentTimes> {
        None
    }
    /// What a reader of the report must know.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The sequence number in front of each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its byte order; `None` sends frames without one.
    pub order: Option<Order>,
    /// The number of the first packet.
    pub first: u64,
}

impl Sequence {
    /// Write the number of packet `n`; how many bytes that took.
    pub(super) fn write(self, n: u64, head: &mut [u8]) -> usize {
        let Some(order) = self.order else { return 0 };
        head[..PREFIX].copy_from_slice(&Numbering::whole(order).write(self.first.wrapping_add(n)));
        PREFIX
    }
}

fn hint(why: &PositionsError) -> &'static str {
    match why {
        PositionsError::BadRate(_) | PositionsError::Disproved(..) => "correct --frame-rate, or omit it",
        _ => "give the format with --format, or examine the file with `skyhaul inspect`",
    }
}

/// Why something cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no file of frames.
    #[error("{path}: {why}{}", Hint(hint(why)))]
    Frames {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: PositionsError,
    },
    /// The headers cannot give the new times.
    #[error("{path}: its headers cannot give the new times{}", Hint("send it without --restamp"))]
    Restamp {
        /// The file.
        path: String,
    },
    /// Further passes have new times, which need a rate.
    #[error("{path}: the frame rate is unknown{}", Hint("set it with --frame-rate"))]
    RateUnknown {
        /// The file.
        path: String,
    },
    /// A synthesised stream that cannot be.
    #[error("no such stream: {0}")]
    Synth(String),
}

/// A stream made from nothing.
#[derive(Clone, Debug)]
pub struct SynthOptions {
    /// Payload bytes of a frame: a multiple of 8.
    pub payload: usize,
    /// Threads, numbered from 0; each frame number is sent once for each.
    pub threads: u16,
    /// Frames per second of each thread.
    pub frames_per_second: u32,
    /// Time of the first frame, UNIX seconds.
    pub start: i64,
    /// Two ASCII characters.
    pub station: String,
    /// Payloads that verify themselves, instead of noise.
    pub pattern: bool,
    /// The sequence number in front.
    pub sequence: Sequence,
    /// Packets to send; `None` is without end.
    pub packets: Option<u64>,
}

/// Frames of noise, or of the self-verifying pattern.
#[derive(Debug)]
pub struct SynthSupply {
    frames: Box<dyn Generated>,
    sequence: Sequence,
    packets: Option<u64>,
}

impl SynthSupply {
    /// Prepare a stream of the first family that can be made.
    ///
    /// # Errors
    /// The format does not allow this shape.
    pub fn new(options: SynthOptions) -> Result<Self, SupplyError> {
        Self::of(Format::Auto, options)
    }

    /// Prepare a stream of this format.
    ///
    /// # Errors
    /// Streams of this format cannot be generated, or it does not allow this shape.
    pub fn of(format: Format, options: SynthOptions) -> Result<Self, SupplyError> {
        let SynthOptions { payload, threads, frames_per_second, start, station, pattern, sequence, packets } =
            options;
        let asked = FAMILIES.iter().filter(|&&family| format.family().is_none_or(|asked| asked == family));
        let generator = asked.copied().find_map(|family| family.generator());
        let generator = generator
            .ok_or_else(|| SupplyError::Synth(format!("streams of {format} cannot be generated")))?;
        let order = sequence.order.filter(|_| generator.takes_sequence());
        let sequence = Sequence { order, ..sequence };
        let made = Made { payload, threads, frames_per_second, start, station, pattern };
        let frames = generator.begin(made).map_err(SupplyError::Synth)?;
        Ok(Self { frames, sequence, packets })
    }
}

impl Packetize for SynthSupply {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        let number = self.sequence.write(n, head);
        let (length, payload) = self.frames.frame(n, &mut head[number..]);
        (number + length, payload)
    }

    fn packet_bytes(&self) -> usize {
        self.frames.frame_bytes() + if self.sequence.order.is_some() { PREFIX } else { 0 }
    }
}

impl Supply for SynthSupply {
    fn available(&mut self, _: u64) -> (u64, bool) {
        (self.packets.unwrap_or(u64::MAX), false)
    }

    fn describe(&self) -> String {
        self.frames.describe()
    }
}
