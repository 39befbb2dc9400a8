//! Entries of a scan: its chunks, files and datastreams.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::recording::index::record::{ChunkRecord, Datastream, LostChunk};
use crate::recording::write::ledger::DatastreamReport;

/// State of a scan's recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is recording now.
    Live,
    /// It ended normally.
    Ended,
    /// It was killed, or the machine crashed.
    Interrupted,
    /// Without an index: recorded by other software.
    Unindexed,
}

impl State {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::Live => "live",
            State::Ended => "ended",
            State::Interrupted => "interrupted",
            State::Unindexed => "unindexed",
        }
    }
}

/// One chunk of a datastream.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkEntry {
    /// Its number.
    pub number: u32,
    /// The disk it is on, as an index into the recording's disks.
    pub disk: usize,
    /// Its file.
    pub path: PathBuf,
    /// Where in the file it begins: 0, except for a block of a [Mark 6](super::mark6).
    pub offset: u64,
    /// Length of the file, or of the block in it; `None` if it is missing.
    pub bytes: Option<u64>,
    /// Its index record: it is acknowledged if it has one.
    pub record: Option<ChunkRecord>,
    /// The record is in the index of another disk than the file is on.
    pub moved: bool,
}

impl ChunkEntry {
    /// Its file, and where in it the chunk begins.
    pub(in crate::recording) fn place(&self) -> (PathBuf, u64) {
        (self.path.clone(), self.offset)
    }

    /// Whether it is in the index and the file has the recorded length.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.record.as_ref().is_some_and(|record| self.bytes == Some(record.bytes))
    }
}

/// A regular file in one of the scan's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The disk it is on, as an index into the recording's disks.
    pub disk: usize,
    /// Where.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// One datastream of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatastreamEntry {
    /// Its name on disk.
    pub name: String,
    /// Its description by the recorder; `None` without an index.
    pub datastream: Option<Datastream>,
    /// Its chunks by number.
    pub chunks: BTreeMap<u32, ChunkEntry>,
    /// Further files or records of numbers that are in `chunks` already.
    pub copies: Vec<ChunkEntry>,
    /// Chunks that the recorder could not write.
    pub lost: BTreeMap<u32, LostChunk>,
    /// Files that were being written when the recorder died.
    pub partial: Vec<PathBuf>,
    /// The recorder's report of it at the end.
    pub account: Option<DatastreamReport>,
}

impl DatastreamEntry {
    /// Ranges of numbers without file and record, from the first number on.
    #[must_use]
    pub fn gaps(&self) -> Vec<Range<u32>> {
        let (mut next, mut gaps) = (0, Vec::new());
        for &number in self.chunks.keys() {
            if number > next {
                gaps.push(next..number);
            }
            next = number.saturating_add(1);
        }
        gaps
    }

    /// Numbers of files that are in no index (or with another length).
    pub fn unacknowledged(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.values().filter(|chunk| !chunk.is_acknowledged()).map(|chunk| chunk.number)
    }

    /// Whether anything is known of it.
    pub(in crate::recording) fn is_something(&self) -> bool {
        let known = self.datastream.is_some() || self.account.is_some();
        known || !self.chunks.is_empty() || !self.lost.is_empty()
    }

    /// Bytes of all chunk files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.values().filter_map(|chunk| chunk.bytes).sum()
    }
}
