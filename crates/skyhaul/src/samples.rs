//! The samples of a datastream: any range of time as numbers, from recordings and from plain files.
//!
//! ```text
//!   recording   chunk · chunk · gap · chunk ┐            by the headers            by instructions of the CPU
//!   files       file · file                 ┴─▶ Pieces ──▶ frame (time, thread) ──▶ rows (time; thread, channel)
//! ```
//!
//! Every header is checked before its frame is decoded: the frame is used if it belongs to this stream and its samples
//! are marked valid. All other frames are missing: NaN, or the lowest integer. A part of a recording is
//! verified by its checksum before its first sample is used: of each chunk, only the parts that are read.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use skyhaul_core::wire::vdif::Vdif;
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("scan.vdif");
//! # let shape = Vdif::shape(8000, 8, 2, false, true).ok_or("shape")?;
//! # let frame = |n| [&shape.at(1_767_225_600, n).unwrap().write()[..], &[0b11_10_01_00; 8000]].concat();
//! # std::fs::write(&path, (0..4).flat_map(frame).collect::<Vec<u8>>())?;
//! use skyhaul::samples::{Options, Samples};
//! let options = Options { sample_rate: Some(32_000_000), ..Options::default() };
//! let samples = Samples::of_files([&path], &options)?;
//! let mut rows = vec![0f32; 100 * samples.row()];
//! let read = samples.read(50, &mut rows)?;
//! assert_eq!(rows[..4], [-3.316505, -1.0, 1.0, 3.316505]);
//! assert!(read.is_whole());
//! # Ok(())
//! # }
//! ```
//!
//! Limits: frames in files may be out of order by at most 128 places. Where no index gives a checksum, a flipped bit in
//! the samples cannot be noticed.

pub mod export;
mod frames;
mod open;
mod read;
pub mod survey;
mod timing;
mod write;

pub use read::Read;
pub use skyhaul_core::samples::{Coding, Number, Tracks};
pub use skyhaul_core::wire::Written;
pub use skyhaul_io::samples::Vectored;
pub use write::{FrameMaker, Headers};

use crate::recording::{Gap, Pieces};
use crate::time::format_exact;
use frames::{FrameReader, Kept};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::StreamFormat;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// Properties of the samples that the headers do not state, and how to read them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Complete samples per second, if the headers do not state it; overrides them.
    pub sample_rate: Option<u64>,
    /// Threads, in the order of their columns; all that were seen, ascending, if not given.
    pub threads: Option<Vec<u16>>,
    /// Bits of an elementary sample of Mark 5B; 2 if not given.
    pub bits: Option<u32>,
    /// Channels of Mark 5B: the recorded bitstreams are these and no others.
    pub channels: Option<u32>,
    /// Bitstreams of Mark 5B, instead of `channels`.
    pub tracks: Option<Tracks>,
    /// A Unix time within 500 days of the data, to complete the dates of Mark 5B; that of the recording, or now, if not given.
    pub near: Option<i64>,
    /// Verify each part of a recording before its first sample is used.
    pub verify: bool,
    /// Worker threads that decode; 0 for one per CPU.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sample_rate: None,
            threads: None,
            bits: None,
            channels: None,
            tracks: None,
            near: None,
            verify: true,
            workers: 0,
        }
    }
}

/// Number of a piece's first frame, when it is known; `None` if it has none.
type First = OnceLock<Option<i64>>;

/// The samples of a datastream. A *row* has all elementary samples of one instant: for each thread, for each channel, for
/// each component.
#[derive(Debug)]
pub struct Samples {
    pieces: Pieces<First>,
    frames: FrameReader,
    format: StreamFormat,
    threads: Vec<u16>,
    coding: Coding,
    channels: u32,
    complex: bool,
    tracks: Option<Tracks>,
    frames_per_second: u32,
    /// The rate was given.
    given_rate: bool,
    /// What was found of rate and clocks when they were opened.
    notes: Vec<String>,
    rate_doubt: Option<String>,
    /// Rows of a frame.
    frame_rows: u64,
    /// First frame, and one past the last, since 1970.
    extent: (i64, i64),
    /// No piece begins before the one in front of it.
    ordered: bool,
    /// The threads were chosen: others are left out on purpose.
    chosen: bool,
    verify: bool,
    workers: usize,
    kept: Kept,
}

impl Samples {
    /// Its format.
    #[must_use]
    pub fn format(&self) -> &StreamFormat {
        &self.format
    }

    /// Threads, in the order of their columns.
    #[must_use]
    pub fn threads(&self) -> &[u16] {
        &self.threads
    }

    /// Channels of a thread.
    #[must_use]
    pub fn channels(&self) -> u32 {
        self.channels
    }

    /// Samples have a real and an imaginary part: two elementary samples.
    #[must_use]
    pub fn is_complex(&self) -> bool {
        self.complex
    }

    /// How an elementary sample is written.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Rows per second.
    #[must_use]
    pub fn sample_rate(&self) -> u64 {
        u64::from(self.frames_per_second) * self.frame_rows
    }

    /// Frames of a thread per second.
    #[must_use]
    pub fn frames_per_second(&self) -> u32 {
        self.frames_per_second
    }

    /// Rows of a frame.
    #[must_use]
    pub fn frame_rows(&self) -> u64 {
        self.frame_rows
    }

    /// Elementary samples of a row.
    #[must_use]
    pub fn row(&self) -> usize {
        self.threads.len() * self.each()
    }

    /// Elementary samples of a thread in a row.
    pub(super) fn each(&self) -> usize {
        self.channels as usize * (1 + usize::from(self.complex))
    }

    /// Number of the first frame: Unix second of its time, times the frames per second, plus its number in the second.
    #[must_use]
    pub fn first_frame(&self) -> i64 {
        self.extent.0
    }

    /// Rows from the first frame to the last, missing ones included.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.extent.1.abs_diff(self.extent.0) * self.frame_rows
    }

    /// Unix second and frame in it of the first frame.
    #[must_use]
    pub fn start(&self) -> (i64, u32) {
        let fps = i64::from(self.frames_per_second);
        (self.extent.0.div_euclid(fps), self.extent.0.rem_euclid(fps) as u32)
    }

    /// Chunks that are missing, damaged or unproven by the index, and those found while reading.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        self.pieces.gaps()
    }

    /// Notes for users of the samples: threads whose clocks are wrong and are repaired, rates that were disproved,
    /// other deviations from the standard.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Why the rate that was given may be too high, if the data have too few ends of seconds to prove it. It is one of the
    /// [`notes`](Self::notes).
    #[must_use]
    pub fn rate_doubt(&self) -> Option<&str> {
        self.rate_doubt.as_deref()
    }

    /// Frames that were used so far with a repaired time, because the clock of their thread is wrong. A frame that is read
    /// twice counts twice.
    #[must_use]
    pub fn repaired(&self) -> u64 {
        self.frames.repaired()
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.all().iter().map(|piece| piece.bytes).sum()
    }

    /// The approximate first row of each piece of the recording: good places to divide it.
    #[must_use]
    pub fn piece_rows(&self) -> Vec<u64> {
        let begin = |piece: usize| {
            let frame = self.first_of(piece)?.max(self.extent.0);
            Some(frame.abs_diff(self.extent.0) * self.frame_rows)
        };
        (0..self.pieces.all().len()).filter_map(begin).collect()
    }
}

/// Why samples cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplesError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no data.
    #[error("there is no data in it")]
    Empty,
    /// Its beginning and its end are not frames of one time axis.
    #[error("{}: the frames at its beginning are not continued at its end{}", .0.display(), Hint("bytes may be missing or too many in between: `skyhaul inspect` shows each frame"))]
    NotContinued(PathBuf),
    /// No frames of a known format were found.
    #[error("no frames of a known format at the beginning of {}{}", .0.display(), Hint("`skyhaul inspect` shows what it holds"))]
    Unrecognised(PathBuf),
    /// The format has frames, and none that are decoded.
    #[error("samples of {0} are not decoded")]
    NotDecoded(String),
    /// Samples of this width are not decoded.
    #[error("{0} are not decoded{hint}", hint = Hint("1, 2, 4, 8, 16 and 32 bits are (Mark 5B: 1 and 2)"))]
    Width(String),
    /// The header does not state the channels.
    #[error("{0} does not state its channels{hint}", hint = Hint("give channels (and bits, if not 2), or tracks"))]
    Channels(String),
    /// Options and data contradict each other.
    #[error("{0}")]
    Options(String),
    /// The rate is unknown.
    #[error(
        "the sample rate is unknown: its headers do not state it, and the data are too short to measure it{}",
        Hint("give the sample rate in Hz")
    )]
    Rate,
    /// Frame numbers show that the rate is wrong.
    #[error(
        "{fps} frames/s are too few: the data have frame number {frame} in a second{}",
        Hint(if *given { "correct the sample rate, or omit it" } else { "give the sample rate in Hz" })
    )]
    Disproved {
        /// Frames per second.
        fps: u32,
        /// A frame number.
        frame: u32,
        /// The rate was given, and is not that of headers or index.
        given: bool,
    },
    /// The ends of seconds show that the rate that was given is too high.
    #[error(
        "{fps} frames/s are too many: the seconds of the data end with frame number {last}{}",
        Hint("correct the sample rate, or omit it")
    )]
    TooFast {
        /// Frames per second.
        fps: u32,
        /// The last frame number of a second.
        last: u32,
    },
    /// A frame with the rate would have a part of a sample, or a second a part of a frame.
    #[error("{rate} samples/s are no whole number of frames of {frame} samples per second")]
    Uneven {
        /// Samples per second.
        rate: u64,
        /// Samples of a frame.
        frame: u64,
    },
}

/// Where a range begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a time: nanoseconds since 1970.
    At(i128),
    /// This long after the first sample.
    After(Duration),
}

const BILLION: i128 = 1_000_000_000;

impl Samples {
    /// The time of a row, to the nanosecond before.
    #[must_use]
    pub fn time_of(&self, row: u64) -> String {
        format_exact((self.row_since_1970() + i128::from(row)) * BILLION / self.rate())
    }

    /// Returns the rows of a range of time; a bound that is not given is that of all data.
    ///
    /// # Errors
    /// [`SamplesError::Options`]: a part of it is not within the data.
    pub fn range(
        &self,
        start: Option<Start>,
        duration: Option<Duration>,
    ) -> Result<Range<u64>, SamplesError> {
        let rows_in = |nanoseconds: i128| (nanoseconds * self.rate() + BILLION / 2).div_euclid(BILLION);
        let length =
            |duration: Duration| rows_in(i128::try_from(duration.as_nanos()).unwrap_or(i64::MAX.into()));
        let first = match start {
            None => 0,
            Some(Start::After(duration)) => length(duration),
            Some(Start::At(nanoseconds)) => rows_in(nanoseconds) - self.row_since_1970(),
        };
        let past = duration.map_or(i128::from(self.rows()), |duration| first + length(duration));
        let rows = u64::try_from(first).ok().zip(u64::try_from(past).ok());
        let rows = rows.map(|(first, past)| first..past).filter(|rows| rows.end <= self.rows());
        rows.filter(|rows| !rows.is_empty()).ok_or_else(|| {
            let (from, to) = (self.time_of(0), self.time_of(self.rows()));
            SamplesError::Options(format!("this range is not in the data: they are from {from} to {to}"))
        })
    }

    fn rate(&self) -> i128 {
        i128::from(self.sample_rate())
    }

    fn row_since_1970(&self) -> i128 {
        i128::from(self.first_frame()) * i128::from(self.frame_rows())
    }
}

#[cfg(test)]
mod tests;
