//! Where a sender's packets come from: each is made from its number alone.

use super::{HEAD, Packetize};
use skyhaul_core::pattern;
use skyhaul_core::synth::{self, Signal};
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::vdif::{self, Extended, Header, Vdif};
use skyhaul_core::wire::{Format, RestampError, Restamper};
use skyhaul_core::wire::{fila10g, vtp};
use skyhaul_io::file::MappedFile;
use std::io;
use std::path::Path;

/// A sender's packets, made from their numbers as they become available.
pub trait Supply: Packetize + Send {
    /// How many packets there are by now, and whether more may come. All before `next` were asked for already; what
    /// lies more than some megabytes before it need not be there any more.
    fn available(&mut self, next: u64) -> (u64, bool);
    /// What it is, in words.
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
        head[..8].copy_from_slice(&vtp::write(self.first.wrapping_add(n), order));
        8
    }
}

/// Why something cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its frames cannot be given times.
    #[error("{path}: {why}\nhint: name the format with --format, or look at the file with `skyhaul inspect`")]
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

/// How a file's frames are put into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    /// A sequence number and a whole frame.
    Frames(Sequence),
    /// Mark 5B in halves, as FILA10G sends it.
    Halves { first: u64 },
}

/// The frames of a file, as often as is wanted, with the time running on.
#[derive(Debug)]
pub struct FileSupply {
    file: MappedFile,
    stamps: Restamper,
    packing: Packing,
    loops: u64,
    name: String,
}

impl FileSupply {
    /// Frames of the file at `path`, `loops` times. `halves` sends Mark 5B as FILA10G does.
    ///
    /// # Errors
    /// The file cannot be read, or is of no format that can be sent.
    pub fn open(
        path: &Path,
        format: Format,
        frames_per_second: Option<u32>,
        sequence: Sequence,
        loops: u64,
    ) -> Result<Self, SupplyError> {
        use skyhaul_core::wire::Format;
        let file = MappedFile::open(path)?;
        let halves = format == Format::Fila10g;
        let of_file = if halves { Format::Mark5b } else { format };
        let stamps = Restamper::new(&file, of_file, frames_per_second)
            .map_err(|why| SupplyError::Restamp { path: path.display().to_string(), why })?;
        let packing =
            if halves { Packing::Halves { first: sequence.first } } else { Packing::Frames(sequence) };
        Ok(Self { file, stamps, packing, loops, name: path.display().to_string() })
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
        let per_loop = self.stamps.frames_per_loop().max(1) as u64;
        match self.packing {
            Packing::Frames(sequence) => {
                let number = sequence.write(n, head);
                let header = self.stamps.header(n / per_loop, (n % per_loop) as usize, &mut head[number..]);
                (number + header, &self.file[self.stamps.payload((n % per_loop) as usize)])
            }
            Packing::Halves { first } => {
                let frame = n / 2;
                head[..4].fill(0);
                head[4..8].copy_from_slice(&(first.wrapping_add(n) as u32).to_le_bytes());
                let payload = self.stamps.payload((frame % per_loop) as usize);
                let header =
                    self.stamps.header(frame / per_loop, (frame % per_loop) as usize, &mut head[8..]);
                let middle = payload.start + fila10g::HALF - header;
                if n.is_multiple_of(2) {
                    (8 + header, &self.file[payload.start..middle])
                } else {
                    (8, &self.file[middle..payload.end])
                }
            }
        }
    }

    fn packet_bytes(&self) -> usize {
        match self.packing {
            Packing::Frames(sequence) => self.frame_bytes() + if sequence.order.is_some() { 8 } else { 0 },
            Packing::Halves { .. } => fila10g::DATAGRAM,
        }
    }
}

impl Supply for FileSupply {
    fn available(&mut self, _: u64) -> (u64, bool) {
        let frames = (self.stamps.frames_per_loop() as u64).saturating_mul(self.loops);
        let packets =
            if matches!(self.packing, Packing::Halves { .. }) { frames.saturating_mul(2) } else { frames };
        (packets, false)
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

/// VDIF frames of two-bit noise with a tone, or of the self-verifying pattern.
#[derive(Debug)]
pub struct SynthSupply {
    options: SynthOptions,
    template: Header,
    /// Noise of some frames, used in turn.
    noise: Vec<u8>,
}

/// Frames of noise that are kept.
const NOISE_FRAMES: usize = 61;

impl SynthSupply {
    /// Prepare the stream.
    ///
    /// # Errors
    /// A shape that VDIF does not allow.
    pub fn new(options: SynthOptions) -> Result<Self, SupplyError> {
        let wrong = |why: &str| SupplyError::Synth(why.to_string());
        let payload = options.payload;
        let vdif = Vdif::shape(payload, 1, 2, false, false)
            .ok_or_else(|| wrong("payloads are multiples of 8 bytes\nhint: such as --payload 8000"))?;
        if payload > pattern::LONGEST || options.threads == 0 || options.threads > 1024 {
            return Err(wrong(
                "1 to 1024 threads, payloads of at most 131072 bytes\nhint: such as --payload 8000 --threads 4",
            ));
        }
        if options.frames_per_second == 0 || options.frames_per_second > 1 << 24 {
            return Err(wrong("1 to 16777216 frames per second\nhint: such as --frame-rate 62500"));
        }
        let station =
            vdif::station(&options.station).ok_or_else(|| wrong("a station is two ASCII characters"))?;
        let samples = payload as u64 * 4 * u64::from(options.frames_per_second);
        let extended =
            Extended::nict(samples, false, "SKYHAUL").unwrap_or(Extended::Plain(Default::default()));
        let mut noise = Vec::new();
        if !options.pattern {
            noise.resize(payload * NOISE_FRAMES, 0);
            synth::two_bit(&Signal::default(), 0, &mut noise);
        }
        let template = Header { vdif: Vdif { station, ..vdif }, extended };
        Ok(Self { options, template, noise })
    }
}

impl Packetize for SynthSupply {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        let o = &self.options;
        let threads = u64::from(o.threads);
        let (frame, thread) = (n / threads, (n % threads) as u16);
        let fps = u64::from(o.frames_per_second);
        let (second, frame) = (o.start + (frame / fps) as i64, (frame % fps) as u32);
        let vdif = self.template.vdif.at(second, frame).unwrap_or(self.template.vdif);
        let header = Header { vdif: Vdif { thread: u32::from(thread), ..vdif }, ..self.template };
        let number = o.sequence.write(n, head);
        let (bytes, length) = header.write();
        head[number..number + length].copy_from_slice(&bytes[..length]);
        let payload = if o.pattern {
            pattern::slice(pattern::frame_object(second, frame, thread), 0, o.payload)
        } else {
            let at = (n % NOISE_FRAMES as u64) as usize * o.payload;
            &self.noise[at..at + o.payload]
        };
        (number + length, payload)
    }

    fn packet_bytes(&self) -> usize {
        self.template.vdif.frame_bytes() + if self.options.sequence.order.is_some() { 8 } else { 0 }
    }
}

impl Supply for SynthSupply {
    fn available(&mut self, _: u64) -> (u64, bool) {
        (self.options.packets.unwrap_or(u64::MAX), false)
    }

    fn describe(&self) -> String {
        let o = &self.options;
        let what = if o.pattern { "pattern" } else { "noise" };
        format!(
            "{what}: VDIF, {} threads, {} B frames, {} frames/s",
            o.threads,
            self.template.vdif.frame_bytes(),
            o.frames_per_second
        )
    }
}
