//! Why samples cannot be read.

use std::io;
use std::path::PathBuf;

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
    #[error("no frames of a known format at the beginning of {}\nhint: `skyhaul inspect` shows what it holds", .0.display())]
    Unrecognised(PathBuf),
    /// The format has frames, and none that are decoded.
    #[error("samples of {0} are not decoded")]
    NotDecoded(String),
    /// Samples of this width are not decoded.
    #[error("{0} are not decoded\nhint: 1, 2, 4, 8, 16 and 32 bits are (Mark 5B: 1 and 2)")]
    Width(String),
    /// The header does not state the channels.
    #[error("{0} does not state its channels\nhint: give channels (and bits, if not 2), or tracks")]
    Channels(String),
    /// Options and data contradict each other.
    #[error("{0}")]
    Options(String),
    /// The rate is unknown.
    #[error(
        "the sample rate is unknown: its headers do not state it, and the data are too short to measure it\nhint: give the sample rate in Hz"
    )]
    Rate,
    /// Frame numbers show that the rate is wrong.
    #[error(
        "{fps} frames/s are too few: the data have frame number {frame} in a second\nhint: {}",
        if *given { "correct the sample rate, or omit it" } else { "give the sample rate in Hz" }
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
        "{fps} frames/s are too many: the seconds of the data end with frame number {last}\nhint: correct the sample rate, or omit it"
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
