//! What is mounted and how, what an operator has to know meanwhile, and what was served.

use serde::Serialize;
use skyhaul::recording::{Gap, ScanPattern};
use std::path::PathBuf;
use std::time::Duration;

/// What is mounted, and how it is read.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The disks of the recordings.
    pub disks: Vec<PathBuf>,
    /// Scans to show; none: all.
    pub patterns: Vec<ScanPattern>,
    /// Missing and damaged bytes are read as fill, not as errors.
    pub fill: bool,
    /// Only verified bytes are given.
    pub verify: bool,
    /// A disk that does not answer for this long is an error.
    pub timeout: Duration,
    /// Memory for units that are read ahead, in bytes.
    pub memory_bytes: u64,
    /// Each thread of a scan with several is a further file, `<scan>.thread<number>`.
    pub threads: bool,
    /// Other users may read, too.
    pub allow_other: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            disks: Vec::new(),
            patterns: Vec::new(),
            fill: false,
            verify: true,
            timeout: Duration::from_secs(10),
            memory_bytes: 256 << 20,
            threads: false,
            allow_other: false,
        }
    }
}

/// What an operator has to know.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum MountEvent {
    /// A mount whose process was gone was removed from the mount point.
    Removed {
        /// The mount point.
        point: PathBuf,
    },
    /// Bytes of a scan are missing, damaged or unverified.
    Gap {
        /// Which, and why.
        gap: Gap,
    },
    /// Nothing that was asked of a disk was answered within the time limit: reads from it are errors.
    DiskHangs {
        /// The disk.
        disk: PathBuf,
    },
    /// It answers again.
    DiskAnswers {
        /// The disk.
        disk: PathBuf,
    },
    /// A disk does not answer, or cannot be read, when scans are listed: scans that are on it alone are not shown, or keep their length.
    DiskLeftOut {
        /// The disk.
        disk: PathBuf,
    },
    /// Files were open when it was unmounted: they can be read until they are closed, or this process ends.
    StillOpen {
        /// Their number.
        files: u64,
    },
}

/// What was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MountReport {
    /// Files in the directory.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Files of scans that are being recorded.
    pub growing: u64,
    /// Files that are open.
    pub open: u64,
    /// Requests to read.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Damaged or unverified chunks that were met.
    pub gaps: u64,
}
