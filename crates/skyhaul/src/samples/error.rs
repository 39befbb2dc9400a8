//! Errors of reading samples, and ranges of time as people write them.

use super::Samples;
use crate::time::format_exact;
use skyhaul_core::hint::Hint;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

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
    /// So long after the first sample.
    After(Duration),
}

const BILLION: i128 = 1_000_000_000;

impl Samples {
    /// The time of a row, to the nanosecond before.
    #[must_use]
    pub fn time_of(&self, row: u64) -> String {
        format_exact((self.row_since_1970() + i128::from(row)) * BILLION / self.rate())
    }

    /// The rows of a range of time; what is not given is that of all data.
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
