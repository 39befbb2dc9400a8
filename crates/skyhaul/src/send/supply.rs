//! Where a sender's packets come from: each is made from its number alone.

use super::{HEAD, Packetize};
use skyhaul_core::wire::{
    FAMILIES, Format, Generated, Made, Numbering, Order, PREFIX, RestampError, Restamper,
};
use skyhaul_io::file::MappedFile;
use std::io;
use std::path::Path;

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

/// Why something cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its frames cannot be given times.
    #[error("{path}: {why}\nhint: give the format with --format, or examine the file with `skyhaul inspect`")]
    Restamp {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: RestampError,
    },
    /// A synthesised stream that cannot be.
    #[error("no such stream: {0}")]
    Synth(String),
}

/// The frames of a file, as often as is wanted, with the time running on.
#[derive(Debug)]
pub struct FileSupply {
    file: MappedFile,
    stamps: Restamper,
    /// How packets are numbered before the frame, and the number of the first.
    numbering: Option<Numbering>,
    first: u64,
    loops: u64,
    name: String,
}

impl FileSupply {
    /// Frames of the file at `path`, `loops` times. A format that cuts frames into packets, with a number of its own before
    /// each, is sent so, whatever `sequence` says of one.
    ///
    /// # Errors
    /// The file cannot be read, or its format cannot be sent.
    pub fn open(
        path: &Path,
        format: Format,
        frames_per_second: Option<u32>,
        sequence: Sequence,
        loops: u64,
    ) -> Result<Self, SupplyError> {
        let file = MappedFile::open(path)?;
        let stamps = format
            .restamp(&file, frames_per_second)
            .map_err(|why| SupplyError::Restamp { path: path.display().to_string(), why })?;
        let numbering = stamps.numbering().or(sequence.order.map(Numbering::whole));
        Ok(Self { file, stamps, numbering, first: sequence.first, loops, name: path.display().to_string() })
    }
}

impl FileSupply {
    /// Bytes of the first frame.
    fn frame_bytes(&self) -> usize {
        let mut header = [0; HEAD];
        self.stamps.header(0, 0, &mut header) + self.stamps.payload(0).len()
    }

    /// Frames of one thread in a second.
    #[must_use]
    pub fn frames_per_second(&self) -> u32 {
        self.stamps.frames_per_second()
    }
}

impl Packetize for FileSupply {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        let (per_loop, parts) = (self.stamps.frames_per_loop().max(1) as u64, self.stamps.parts() as u64);
        let (frame, part) = (n / parts, (n % parts) as usize);
        let number = match self.numbering {
            Some(numbering) => {
                head[..PREFIX].copy_from_slice(&numbering.write(self.first.wrapping_add(n)));
                PREFIX
            }
            None => 0,
        };
        let index = (frame % per_loop) as usize;
        let payload = self.stamps.payload(index);
        let header = self.stamps.header(frame / per_loop, index, &mut head[number..]);
        if parts == 1 {
            return (number + header, &self.file[payload]);
        }
        // The parts are of one size; the header is in the first.
        let size = (header + payload.len()) / parts as usize;
        let at = |part: usize| payload.start + (part * size).saturating_sub(header);
        let length = if part == 0 { number + header } else { number };
        (length, &self.file[at(part)..at(part + 1)])
    }

    fn packet_bytes(&self) -> usize {
        self.frame_bytes() / self.stamps.parts() + if self.numbering.is_some() { PREFIX } else { 0 }
    }
}

impl Supply for FileSupply {
    fn available(&mut self, _: u64) -> (u64, bool) {
        let frames = (self.stamps.frames_per_loop() as u64).saturating_mul(self.loops);
        (frames.saturating_mul(self.stamps.parts() as u64), false)
    }

    fn describe(&self) -> String {
        format!("{} ({} frames, {} times)", self.name, self.stamps.frames_per_loop(), self.loops)
    }
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
