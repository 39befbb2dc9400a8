//! Why the frames of a file have no positions.

use std::fmt;

/// Why the frames of a file cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionsError {
    /// The file has no frame.
    Empty,
    /// At this byte no frame begins.
    NoFrame(usize),
    /// The frame that begins at this byte is longer than the file.
    Truncated(usize),
    /// Files of this format have no frames.
    NoFrames(&'static str),
    /// A rate outside the range of the header.
    BadRate(u32),
    /// A frame number shows that the requested rate is wrong: rate, number.
    Disproved(u32, u32),
}

impl fmt::Display for PositionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PositionsError::Empty => f.write_str("no frame in the file"),
            PositionsError::NoFrame(at) => write!(f, "no frame begins at byte {at}"),
            PositionsError::Truncated(at) => {
                write!(f, "the frame at byte {at} is cut short by the end of the file")
            }
            PositionsError::NoFrames(family) => write!(f, "{family} has no frames"),
            PositionsError::BadRate(most) => write!(f, "frames per second must be 1 to {most}"),
            PositionsError::Disproved(fps, frame) => {
                write!(
                    f,
                    "{fps} frames per second are too few: the file has frame number {frame} in a second"
                )
            }
        }
    }
}

impl std::error::Error for PositionsError {}
