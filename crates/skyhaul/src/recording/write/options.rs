//! What a writer is given: its options, and chunks.
//!
//! A [`Chunk`] is a finished block of memory with its description. The writer takes it and never copies it; the block is free
//! again when the chunk is durable.

use crate::recording::contents::LabelError;
use crate::recording::copies::{MAX_COPIED_DISKS, MAX_COPIES};
use crate::recording::index::record::ChunkMeta;
use serde_json::Value;
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::{Engine, Faults, Log};
use skyhaul_io::memory::{Block, Pool};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When data are made durable, and so when a chunk counts as acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Each chunk as soon as it is written; simultaneous chunks share one sync.
    #[default]
    Chunk,
    /// At most this often; memory holds the chunks until then.
    Interval(Duration),
    /// Never: acknowledged chunks survive a crash of the recorder, but not of the machine.
    None,
}

/// What to do when the scan's label is on a disk already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Append a letter, a-z then A-Z, as FlexBuff does.
    #[default]
    Letter,
    /// Refuse.
    Refuse,
}

/// What to record to, and how.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Existing directories, each on a disk of its own.
    pub disks: Vec<PathBuf>,
    /// The scan's label.
    pub scan: String,
    /// When data are made durable.
    pub sync: SyncPolicy,
    /// Which system calls write.
    pub engine: Engine,
    /// Write past the page cache where the file system allows it.
    pub direct: bool,
    /// What to do when the label is taken.
    pub existing: Existing,
    /// Kept in the index's session record.
    pub metadata: Value,
    /// Bytes to leave free on each disk.
    pub reserve_bytes: u64,
    /// Warn the operator when the disks will be full within this time, and again at a tenth of it.
    pub space_alarm: Duration,
    /// Copies of each chunk, on as many different disks; 1 to [`MAX_COPIES`](crate::recording::MAX_COPIES).
    pub copies: u32,
    /// A chunk whose write takes longer is given to another disk.
    pub stall: Duration,
    /// A disk that cannot be recorded to is a reason not to begin. Otherwise the scan begins on the others. One that does not respond
    /// is never a reason, if another does.
    pub needs_all: bool,
    /// Where the chunks come from: registered with the kernel, and read from by followers if it is shared.
    pub pool: Option<Pool>,
    /// A directory below each of the disks into which the scan is written, to be moved from there when it is whole. The index names the
    /// disks themselves. Nothing arrives in a hurry then: such a scan has no [priority](skyhaul_io::disk::WriteClaim) at the disks.
    pub staged_in: Option<PathBuf>,
    /// Faults to inject into disks (by index in `disks`), for tests.
    pub faults: Vec<(usize, Faults)>,
}

impl WriterOptions {
    /// `scan` to `disks`, the rest as usual.
    pub fn new<P: Into<PathBuf>>(disks: impl IntoIterator<Item = P>, scan: &str) -> Self {
        Self {
            disks: disks.into_iter().map(Into::into).collect(),
            scan: scan.to_owned(),
            sync: SyncPolicy::default(),
            engine: Engine::Auto,
            direct: true,
            existing: Existing::default(),
            metadata: Value::Null,
            reserve_bytes: 64 << 20,
            space_alarm: Duration::from_secs(600),
            copies: 1,
            stall: Duration::from_secs(5),
            needs_all: true,
            pool: None,
            staged_in: None,
            faults: Vec::new(),
        }
    }

    /// The same, with the directories into which the scan is written as its disks.
    pub(super) fn at_stage(&self) -> Self {
        let stage = |disk: &PathBuf| self.staged_in.as_ref().map_or(disk.clone(), |stage| disk.join(stage));
        Self { disks: self.disks.iter().map(stage).collect(), ..self.clone() }
    }

    /// Bytes of a chunk, where that is known.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.pool.as_ref().map_or(0, |pool| pool.block_bytes() as u64)
    }
}

/// Bytes as a message has them.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn copies_refused(copies: u32, disks: usize) -> String {
    if !(1..=MAX_COPIES).contains(&copies) {
        return format!(
            "{copies} copies of each chunk{}",
            Hint(format_args!("1 to {MAX_COPIES} are possible"))
        );
    }
    if disks > MAX_COPIED_DISKS {
        return format!(
            "{copies} copies of each chunk on {disks} disks{}",
            Hint(format_args!("name at most {MAX_COPIED_DISKS} disks, or record one copy"))
        );
    }
    let given = if disks == 1 { "1 is".to_owned() } else { format!("{disks} are") };
    format!(
        "{copies} copies of each chunk need {copies} disks, and {given} given{}",
        Hint("name more with --disk, or ask for fewer --copies")
    )
}

/// Why a recording cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// The label cannot be a name on disk.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// There is no disk to write to.
    #[error("no disk to record to{}", Hint("name one with --disk"))]
    NoDisk,
    /// More copies are asked for than there are disks, or none, or too many, or there are too many disks for copies.
    #[error("{}", copies_refused(*copies, *disks))]
    Copies {
        /// Copies of each chunk.
        copies: u32,
        /// Disks that are given.
        disks: usize,
    },
    /// More copies are asked for than disks respond and have room for a chunk.
    #[error(
        "{copies} copies of each chunk need {copies} disks that respond and have room, and {usable} of {} are: {disks}{}", .given,
        Hint("free space, add a --disk, or ask for fewer --copies"))]
    FewUsable {
        /// Copies of each chunk.
        copies: u32,
        /// Disks that can take a chunk.
        usable: usize,
        /// Disks that are given.
        given: usize,
        /// What is wrong with the others.
        disks: String,
    },
    /// The label is taken (and, with [`Existing::Letter`], also with every letter).
    #[error("scan {0} exists{hint}", hint = Hint("choose another name, or remove the old scan"))]
    Exists(String),
    /// One of the disks is given twice: its chunks would be taken for those of two disks.
    #[error("{} is the same directory as {}: the disk is given twice{}", .0.display(), .1.display(), Hint("name each disk once"))]
    Twice(PathBuf, PathBuf),
    /// No disk has room for a chunk.
    #[error(
        "No space left on any disk: {disks}; {} of each must remain free (--reserve){}{}",
        megabytes(*reserve),
        if *chunk > Log::AHEAD_BYTES + 1 { format!(", and a chunk and the index need {}", megabytes(*chunk)) } else { String::new() }, Hint("delete recordings that are safe elsewhere, add a --disk, or lower --reserve"))]
    Full {
        /// The free space of each.
        disks: String,
        /// Bytes of a chunk and of the index.
        chunk: u64,
        /// Bytes that must remain free on each disk.
        reserve: u64,
    },
    /// One of the disks cannot be recorded to.
    #[error(transparent)]
    Place(io::Error),
    /// No disk responds.
    #[error("no disk responds{}", Hint("see `dmesg`, and whether `ls` of their directories returns"))]
    Silent,
    /// One of the disks cannot be written to.
    #[error("{}: {error}{}", path.display(), Hint("check that the disk is mounted and writable"))]
    Disk {
        /// Its directory.
        path: PathBuf,
        /// The system error.
        #[source]
        error: io::Error,
    },
}

/// A datastream of a [`Writer`](super::Writer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatastreamId(pub u32);

/// Fills the gaps of a chunk, given its metadata, its block, and its range in the block. Called on a disk's thread. Parts
/// that arrived may be in use by views: only gaps are written ([`Block::part_mut`]).
pub type Fill = Arc<dyn Fn(&ChunkMeta, &mut Block, Range<usize>) + Send + Sync>;

/// One chunk: a block that is no longer written to.
pub struct Chunk {
    /// The datastream it belongs to.
    pub datastream: DatastreamId,
    /// Its place in the datastream, 0 to 99 999 999, given in stream order; each number once.
    pub number: u32,
    /// Its memory.
    pub block: Block,
    /// Its bytes in the block. A start that is not a multiple of 4096 makes writing slower.
    pub range: Range<usize>,
    /// Its description.
    pub meta: ChunkMeta,
    /// Fills the gaps.
    pub finish: Option<Fill>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({}.{:08}, {:?})", self.datastream.0, self.number, self.range)
    }
}

/// Why a chunk was refused, with the chunk.
#[derive(Debug, thiserror::Error)]
#[error("{chunk:?} was refused: {reason}")]
pub struct Refused {
    /// Why.
    pub reason: Refusal,
    /// The chunk.
    pub chunk: Box<Chunk>,
}

/// Why a chunk was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No disk can take it: it is counted (and recorded on the remaining disks) as lost.
    #[error("no disk can take it")]
    NoDisk,
    /// The recording is ending.
    #[error("the recording is ending")]
    Closed,
    /// The datastream does not exist, the number has more than eight digits or is in progress, or the range is outside its
    /// block.
    #[error("invalid datastream, number or range")]
    Invalid,
}
