//! What was copied, and what bounded it.

use super::bounds::Bounds;
use super::message::Side;
use super::predicted::Plan;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A file that was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its path at the destination.
    pub path: PathBuf,
    /// Why.
    pub error: String,
}

/// A file that was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Its path at the destination.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// CRC-32C of the whole file.
    pub crc32c: Option<u32>,
}

/// What happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CopyReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// Files that are whole now.
    pub files: usize,
    /// Of these, those that were there already.
    pub kept_files: usize,
    /// Directories.
    pub directories: usize,
    /// Symbolic links.
    pub links: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of those that were there already.
    pub kept_bytes: u64,
    /// Bytes of ranges that an earlier attempt had brought.
    pub resumed_bytes: u64,
    /// Bytes moved in this session.
    pub moved_bytes: u64,
    /// Bytes of holes, which were not moved.
    pub hole_bytes: u64,
    /// Ranges moved.
    pub ranges: u64,
    /// Ranges moved again because their checksum was wrong.
    pub again: u64,
    /// From the first range until everything is durable.
    pub seconds: f64,
    /// Of what was moved.
    pub bits_per_second: f64,
    /// Connections.
    pub flows: usize,
    /// Bytes of a range.
    pub range: u64,
    /// Round trip of the control connection in seconds: the shortest of some.
    pub rtt_seconds: f64,
    /// What bounded it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<Bounds>,
    /// The end that read.
    pub sender: Side,
    /// The end that wrote.
    pub receiver: Side,
    /// Each file, with its digest.
    pub copied: Vec<Copied>,
    /// Only compared, and nothing was copied: each file that is the same at both ends, with its digest.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub compared: Vec<Copied>,
    /// Whether files were compared, and not copied.
    #[serde(default)]
    pub verified: bool,
    /// Set-user-ID, set-group-ID or the sticky bit of these was not copied.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub dropped_bits: Vec<PathBuf>,
    /// What was not copied, or differs.
    pub failed: Vec<Failed>,
    /// FIFOs, sockets and devices, which are not copied.
    pub special: Vec<PathBuf>,
    /// What was predicted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan: Option<Plan>,
    /// Why it ended early; it may be resumed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<String>,
}

impl CopyReport {
    /// Whether everything is at the destination.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.stopped.is_none() && self.failed.is_empty()
    }
}
