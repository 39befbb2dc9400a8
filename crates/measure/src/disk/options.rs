//! What is measured.

use serde::{Deserialize, Serialize};
use skyhaul::stop::StopFlag;
use skyhaul_io::disk::{Engine, Faults};
use std::path::PathBuf;

/// Writing or reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Write new files, until they are durable.
    Write,
    /// Read files.
    Read,
}

/// How files are opened, and what the page cache holds of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache; before a read it forgets the file.
    Buffered,
    /// Reads through a page cache that holds what fits of the file.
    Cached,
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// A directory on each disk. All are measured at once.
    pub disks: Vec<PathBuf>,
    /// What is done, in this order.
    pub operations: Vec<Operation>,
    /// Bytes of a file, each in turn.
    pub sizes: Vec<u64>,
    /// Bytes of a request, each in turn; multiples of 4096.
    pub blocks: Vec<usize>,
    /// Requests in flight for each file, each in turn.
    pub depths: Vec<usize>,
    /// Files on each disk at a time, each in turn.
    pub streams: Vec<usize>,
    /// Modes, each in turn.
    pub modes: Vec<Mode>,
    /// Times all of this is done.
    pub rounds: usize,
    /// Which system calls.
    pub engine: Engine,
    /// Bytes to leave free on each disk.
    pub reserve: u64,
    /// A network rate in bits per second to compare the disks with.
    pub against: Option<u64>,
    /// Injected faults of disks, for tests.
    pub faults: Vec<(PathBuf, Faults)>,
    /// Ends it early.
    pub stop: StopFlag,
}

impl MeasureOptions {
    /// A first look at these disks: seconds, not hours.
    #[must_use]
    pub fn new(disks: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            disks: disks.into_iter().map(Into::into).collect(),
            operations: vec![Operation::Write, Operation::Read],
            sizes: vec![1 << 30],
            blocks: vec![1 << 20],
            depths: vec![16],
            streams: vec![1],
            modes: vec![Mode::Direct],
            rounds: 1,
            engine: Engine::Auto,
            reserve: 64 << 20,
            against: None,
            faults: Vec::new(),
            stop: StopFlag::default(),
        }
    }

    /// The faults to inject into a disk.
    pub(super) fn faults_of(&self, disk: &std::path::Path) -> Faults {
        let fault = self.faults.iter().find(|(path, _)| path == disk);
        fault.map(|(_, faults)| faults.clone()).unwrap_or_default()
    }
}
