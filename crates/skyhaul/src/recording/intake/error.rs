//! Why a file does not become a recording.

use crate::recording::contents::LabelError;
use crate::recording::write::options::WriterError;
use std::io;
use std::path::PathBuf;

/// Why a file does not become a recording.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// Its name cannot be that of a scan.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// A scan of this name exists.
    #[error("File exists: there is a scan {0}, and scans are not replaced")]
    Exists(String),
    /// It is not made of whole, valid frames.
    #[error("it is no recording: {0}")]
    NotFrames(String),
    /// No disk has room for it.
    #[error(
        "No space left on device: {bytes} bytes are to be recorded, and no disk has more than {free} bytes for a scan"
    )]
    Full {
        /// Its size.
        bytes: u64,
        /// The most that a disk has.
        free: u64,
    },
    /// A disk does not respond: whether it has a scan of this name is not known.
    #[error("{} does not respond", .0.display())]
    Silent(PathBuf),
    /// The scan cannot be begun.
    #[error(transparent)]
    Begin(#[from] WriterError),
    /// A disk fails, or is full.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

impl IntakeError {
    /// Whether there is no space for it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Begin(WriterError::Full { .. }) => true,
            Self::Disk(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}
