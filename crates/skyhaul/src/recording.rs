//! Recordings: written to many disks in parallel, and verifiable afterwards.
//!
//! ```text
//!   submit(chunk) ─▶ striping ─▶ disk 0 ┐  fill gaps · checksum · write (O_DIRECT) · fdatasync
//!                            ├─▶ disk 1 │  then one durable index record per chunk = acknowledged
//!                            └─▶ disk n ┘
//!
//!   <disk>/<scan>/<scan>.00000012      raw frames: what FlexBuff, DiFX and baseband read as it is
//!   <disk>/<scan>_ds1/<scan>_ds1.0…    a further datastream of the same scan
//!   <disk>/<scan>/<scan>.index         one self-checking record a line, on every disk
//! ```
//!
//! * A [`Writer`] takes chunks and never blocks its caller. A slow disk gets less, a full, broken or
//!   missing one nothing; its pending chunks are written elsewhere, from memory, under the same number.
//! * A chunk is *acknowledged* when its data and its index record are durable. Opening after `kill -9` or power
//!   loss finds every acknowledged chunk, and lists the others.
//! * A [`Recording`] reads, follows, lists and checks scans, with or without an index (plain FlexBuff). All readers follow
//!   one plan of what must exist: missing, damaged or unverified data are a [`Gap`], and are never skipped silently.
//!
//! Limits: at most 10⁸ chunks per datastream (eight digits in the file name); a label has no `.` or `/`.

mod contents;
mod index;
pub mod mark6;
#[cfg(test)]
mod measure;
mod open;
mod plan;
mod read;
mod verify;
mod write;

pub use crate::frames::FrameReader;
pub use contents::{ChunkEntry, DatastreamEntry, FileEntry, Finding, Gap, Instead, Lack, State, Verdict};
pub use index::HeapsOf;
pub use index::record::{
    ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, LostChunk, MemoryFile, PART_BYTES, Record, Session,
};
pub use index::{IndexReader, Tally};
pub use open::{OpenError, Recording};
pub use open::{ScanSummary, ls};
pub(crate) use read::pieces::{OpenPiece, Piece as FilePiece, Pieces};
pub use read::{Account, Damaged, Missing, Piece, PieceBytes, ReadOptions, Times};
pub use read::{Next, Reader};
pub use skyhaul_core::wire::FrameSeen;
pub use verify::judge::{DatastreamCheck, HeapsCheck};
pub use verify::repair::{Repaired, repair};
pub use verify::{CheckOptions, CheckReport, Frames};
pub use verify::{Prover, unverified_chunks};
pub use write::Writer;
pub use write::options::{
    Chunk, DatastreamId, Existing, Fill, Refusal, Refused, SyncPolicy, WriterError, WriterOptions,
};

use crate::ledger::FrameLedger;
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use skyhaul_core::measure::Histogram;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum chunk number: eight digits.
pub(crate) const MAX_CHUNK_NUMBER: u32 = 99_999_999;
/// First number of datastreams that no recorder numbered; recorders count from 0.
const FIRST_ADOPTED_NUMBER: u32 = 1_000_000;
const MAX_LABEL_BYTES: usize = 200;

/// A scan's label that can be a directory and a file name: no `.` and `/` (FlexBuff readers stumble over them),
/// nothing unprintable, 1 to 200 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

/// Why a text is not a valid label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid scan name `{label}`: {reason}{}",
    Hint("use letters, digits, `_` and `-`, such as exp_st_no0001")
)]
pub struct LabelError {
    label: String,
    reason: &'static str,
}

impl Label {
    /// Check `text`.
    ///
    /// # Errors
    /// The name is empty, too long, or contains a character that names on disk cannot have.
    pub fn new(text: &str) -> Result<Label, LabelError> {
        let reason = match text {
            "" => "it is empty",
            _ if text.len() > MAX_LABEL_BYTES => "it is longer than 200 bytes",
            _ if text.contains(['.', '/']) => "it contains a `.` or a `/`",
            _ if text.chars().any(|c| c.is_control()) => "it contains an unprintable character",
            _ if text.starts_with('-') => "it begins with a `-`",
            _ => return Ok(Label(text.to_owned())),
        };
        Err(LabelError { label: text.escape_debug().to_string(), reason })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Labels to try when this one is taken: a letter behind it, a-z then A-Z, as FlexBuff does.
    pub(crate) fn variants(&self) -> impl Iterator<Item = Label> + '_ {
        let letters = ('a'..='z').chain('A'..='Z');
        std::iter::once(self.clone()).chain(letters.map(|letter| Label(format!("{}{letter}", self.0))))
    }

    /// `<disk>/<scan>/<scan>.index`
    pub(crate) fn index(&self, disk: &Path) -> PathBuf {
        disk.join(&self.0).join(format!("{}.index", self.0))
    }

    /// Directories on `disk` that belong to this scan by name: the scan's own and `<scan>_ds…`.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn directories(&self, disk: &Path) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(disk)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with("_ds")) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The name of a datastream whose own record is missing: as a recorder would name it.
    pub(crate) fn datastream(&self, number: u32) -> String {
        if number == 0 { self.0.clone() } else { format!("{}_ds{number}", self.0) }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `<disk>/<name>/<name>.%08u`
pub(crate) fn chunk_path(disk: &Path, name: &str, number: u32) -> PathBuf {
    disk.join(name).join(format!("{name}.{number:08}"))
}

/// The number of a chunk file called `file` in directory `name`.
pub(crate) fn chunk_number(name: &str, file: &str) -> Option<u32> {
    let digits = file.strip_prefix(name)?.strip_prefix('.')?;
    (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// State of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// It accepts chunks.
    #[default]
    Active,
    /// A write has been pending for long: it gets no chunks until that has finished.
    Stalled,
    /// No space is left for a chunk, down to the reserve.
    Full,
    /// It returned an error, and is not used for the rest of the scan.
    Failed,
}

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Its directory.
    pub path: PathBuf,
    /// Its state.
    pub state: DiskState,
    /// `io_uring` or `pwrite`.
    pub engine: String,
    /// Written past the page cache.
    pub direct: bool,
    /// Written from memory that is registered with the kernel.
    pub registered: bool,
    /// Options that could not be applied, with the remedy.
    pub notes: Vec<String>,
    /// Chunks written.
    pub chunks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Of these, durable with their index record.
    pub acknowledged_bytes: u64,
    /// Chunks waiting or being written.
    pub queue_chunks: u64,
    /// Bytes waiting or being written.
    pub queue_bytes: u64,
    /// Measured while busy, in bytes a second.
    pub rate: f64,
    /// From a chunk's first write to its name.
    pub latency: Latency,
    /// Bytes free on it.
    pub free_bytes: u64,
    /// Of these, bytes that chunks may still fill: beyond the reserve and the waiting chunks; 0 if the disk is not used.
    #[serde(default)]
    pub room_bytes: u64,
    /// Its last error.
    pub error: Option<String>,
}

/// A recorder's account, written at the end of each index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingReport {
    /// The scan's label, as it is on disk.
    pub scan: String,
    /// The session's number.
    pub session: String,
    /// When it began (RFC 3339).
    pub started: String,
    /// When it ended (RFC 3339).
    pub ended: String,
    /// How long it took.
    pub seconds: f64,
    /// Each datastream.
    pub datastreams: Vec<DatastreamReport>,
    /// Each disk.
    pub disks: Vec<DiskStatus>,
    /// Events for the operator.
    pub events: Vec<Event>,
    /// Events that were not kept, because there were too many.
    pub events_dropped: u64,
    /// Free space, and how long it lasts.
    #[serde(default)]
    pub space: SpaceReport,
    /// The fate of all frames: the sum over the datastreams, except those of heaps and events.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Made from the files by `check --repair`, after the recorder had died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

impl RecordingReport {
    /// Whether every chunk that was given is durable, and was still there at the end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.datastreams.iter().all(|stream| {
            stream.acknowledged == stream.submitted && stream.gone == 0 && stream.ledger.discarded == 0
        })
    }

    /// Sums that do not hold, as text. There are some only if this program counts wrongly.
    #[must_use]
    pub fn imbalance(&self) -> Vec<String> {
        let of = |stream: &DatastreamReport| stream.ledger.imbalance(&stream.name);
        self.datastreams.iter().flat_map(of).chain(self.ledger.imbalance(&self.scan)).collect()
    }

    /// Bytes that are durable.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.datastreams.iter().map(|stream| stream.acknowledged_bytes).sum()
    }
}

/// One datastream's account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatastreamReport {
    /// Its number in the session.
    pub datastream: u32,
    /// Its name on disk.
    pub name: String,
    /// Its sender.
    pub sender: Option<String>,
    /// Chunks given to the recorder.
    pub submitted: u64,
    /// Bytes given.
    pub submitted_bytes: u64,
    /// Chunks durable with their index record.
    pub acknowledged: u64,
    /// Bytes durable.
    pub acknowledged_bytes: u64,
    /// Units missing in chunks that were given.
    pub missing_units: u64,
    /// Times a chunk was given to a second disk because the first one failed it.
    pub rewritten: u64,
    /// Chunks that no disk could take.
    pub lost: u64,
    /// Bytes of these.
    #[serde(default)]
    pub lost_bytes: u64,
    /// Their numbers (the first 10 000).
    pub lost_numbers: Vec<u32>,
    /// Numbers of chunks that were still under way at the end.
    pub unacknowledged: Vec<u32>,
    /// Chunks that were durable, and are on no disk any more: looked for at the end.
    #[serde(default)]
    pub gone: u64,
    /// Their numbers (the first 10 000).
    #[serde(default)]
    pub gone_numbers: Vec<u32>,
    /// The fate of its frames; of its heaps or events if it is `keyed`.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Its chunks hold heaps or events, which the ledger counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keyed: bool,
}

/// Free space, and how long it lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpaceReport {
    /// Bytes that whole chunks may still fill on all working disks, beyond the reserves.
    pub free_bytes: u64,
    /// Bytes per second that were submitted lately.
    pub bytes_per_second: f64,
    /// Seconds until all disks are full at that rate; `None` if nothing is being submitted.
    pub seconds_left: Option<f64>,
}

impl SpaceReport {
    /// The alarm as text.
    fn alarm(&self) -> String {
        let megabytes = self.free_bytes as f64 / 1e6;
        match self.seconds_left {
            Some(left) => format!(
                "all disks will be full in {}: {megabytes:.0} MB are free beyond the reserve, {:.1} MB/s arrive",
                in_words(left),
                self.bytes_per_second / 1e6
            ),
            None => format!("all disks are nearly full: {megabytes:.0} MB are free beyond the reserve"),
        }
    }
}

/// A time as an operator reads it: `3 h 20 min`, `9 min 40 s`, `12 s`.
#[must_use]
pub fn in_words(seconds: f64) -> String {
    // A forecast of years is as good as any longer one.
    let all = seconds.clamp(0.0, 1e10) as u64;
    match (all / 86_400, all / 3600 % 24, all / 60 % 60, all % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, ..) => format!("{d} d {h} h"),
    }
}

/// Times, exact to three digits. Older reports counted them in eighths of a power of two; they are read as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Buckets", into = "Buckets")]
pub struct Latency(Histogram);

/// A latency as it is written: only buckets that counted.
#[derive(Serialize, Deserialize)]
struct Buckets {
    count: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    /// Upper end of the bucket in µs, and its count.
    buckets: Vec<(u64, u64)>,
}

impl Latency {
    /// Count one.
    pub fn add(&mut self, time: Duration) {
        self.0.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// The time that `part` (0 to 1) of them do not exceed.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_micros(self.0.quantile(part))
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }

    /// Each eighth of a power of two that counted, in µs, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.0.eighths()
    }
}

/// Equal if their written form is.
impl PartialEq for Latency {
    fn eq(&self, other: &Latency) -> bool {
        self.max() == other.max() && self.0.iter().eq(other.0.iter())
    }
}

impl From<Latency> for Buckets {
    fn from(latency: Latency) -> Buckets {
        let Latency(all) = latency;
        Buckets {
            count: all.count(),
            p50_us: all.quantile(0.5),
            p99_us: all.quantile(0.99),
            max_us: all.max(),
            buckets: all.buckets().map(|(bucket, count)| (bucket.end, count)).collect(),
        }
    }
}

impl From<Buckets> for Latency {
    fn from(buckets: Buckets) -> Latency {
        let mut all = Histogram::default();
        for (end, count) in buckets.buckets {
            // The longest is in the last bucket.
            all.record_many(end.saturating_sub(1).min(buckets.max_us), count);
        }
        Latency(all)
    }
}

/// An event that an operator should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When (RFC 3339).
    pub at: String,
    /// A short name: `disk_failed`, `disk_full`, `disk_stalled`, `disk_resumed`, `restart`, …
    pub kind: String,
    /// The disk, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<PathBuf>,
    /// The event in words.
    pub text: String,
}

impl Event {
    pub(crate) fn now(kind: &str, disk: Option<PathBuf>, text: String) -> Event {
        Event { at: jiff::Timestamp::now().to_string(), kind: kind.to_owned(), disk, text }
    }
}

#[cfg(test)]
mod tests;
