//! How to copy.

use super::budget::SESSION_BLOCKS;
use super::message::Exists;
use skyhaul::stop::StopFlag;
use skyhaul_io::disk::{DiskOptions, Engine, Faults};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Smallest and largest range.
pub(super) const RANGES: std::ops::RangeInclusive<u64> = 64 << 10..=256 << 20;
/// Most flows of one copy.
pub(super) const FLOWS: usize = 256;

/// What both ends use alike.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Connections that carry ranges.
    pub flows: usize,
    /// Bytes of a range; a multiple of 4096.
    pub range: u64,
    /// Requests in flight at the disk.
    pub depth: usize,
    /// Past the page cache.
    pub direct: bool,
    /// Which system calls.
    pub engine: Engine,
    /// Socket buffers, in bytes; None: the system's own.
    pub window: Option<u64>,
    /// Congestion control; None: the system's own.
    pub congestion: Option<String>,
    /// Bits a second of all flows together.
    pub limit: Option<u64>,
    /// How long a peer may make no progress.
    pub patience: Duration,
    /// Injected faults of the receiving disk, for tests.
    pub faults: Faults,
}

impl Tuning {
    /// How a disk is read: without the faults of the one that is written to.
    pub(super) fn reads(&self) -> DiskOptions {
        DiskOptions { faults: Faults::default(), ..self.disk() }
    }

    /// How a disk is read or written.
    pub(super) fn disk(&self) -> DiskOptions {
        DiskOptions {
            engine: self.engine,
            direct: self.direct,
            depth: self.depth,
            faults: self.faults.clone(),
            ..DiskOptions::default()
        }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            flows: 4,
            range: 4 << 20,
            depth: 8,
            direct: true,
            engine: Engine::Auto,
            window: None,
            congestion: None,
            limit: None,
            patience: Duration::from_secs(30),
            faults: Faults::default(),
        }
    }
}

impl Tuning {
    /// Whether a peer may ask for it.
    pub(super) fn check(&self) -> Result<(), String> {
        if !RANGES.contains(&self.range) || !self.range.is_multiple_of(4096) {
            return Err(format!("a range has 64 KiB to 256 MiB, whole pages; {} bytes are not", self.range));
        }
        if !(1..=FLOWS).contains(&self.flows) {
            return Err(format!("1 to {FLOWS} flows are possible; {} are not", self.flows));
        }
        Ok(())
    }

    /// Requests in flight: fewer of large ranges, so that memory stays bounded.
    pub(super) fn bounded(mut self) -> Self {
        self.depth = self.depth.min((SESSION_BLOCKS / self.range.max(1)) as usize).max(1);
        self
    }

    /// Blocks of an end with so many flows: one for each request at the disk, and two for each flow, as far as its memory
    /// goes.
    pub(super) fn blocks(&self, flows: usize) -> usize {
        (self.depth + flows * 2).min((SESSION_BLOCKS / self.range.max(1)) as usize).max(1)
    }
}

/// A copy, as a client asks for it.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// The addresses of the server: the first that answers is used.
    pub server: Vec<SocketAddr>,
    /// Files and directories to copy from.
    pub sources: Vec<PathBuf>,
    /// Directories to copy into: the first source into the first, and so on in turn.
    pub into: Vec<PathBuf>,
    /// Sources are on the server, directories to copy into are here.
    pub pull: bool,
    /// What to do with files that exist and differ.
    pub exists: Exists,
    /// How.
    pub tuning: Tuning,
    /// Predict first, and compare at the end.
    pub plan: bool,
    /// Predict, and copy nothing.
    pub dry_run: bool,
    /// Compare the files at both ends, and copy nothing.
    pub verify: bool,
    /// Ends it; it may be resumed.
    pub stop: StopFlag,
}
