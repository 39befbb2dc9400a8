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
//! * An [`Intake`] makes a recording of a file that arrives: frames in order, as a reader gives them.
//!
//! Limits: at most 10⁸ chunks per datastream (eight digits in the file name); a label has no `.` or `/`.

mod asked;
mod claims;
mod contents;
mod copies;
mod copy_entries;
mod facts;
mod holes;
mod index;
mod intake;
mod layout;
mod list;
pub mod mark6;
mod open;
mod pattern;
mod plan;
mod read;
mod report;
mod survey;
mod verify;
mod write;

pub use crate::frames::FrameReader;
pub use asked::{DISK_ANSWER_TIMEOUT, ask as ask_disks, is_hanging as is_disk_hanging};
pub use contents::{ChunkEntry, DatastreamEntry, FileEntry, Finding, Gap, Instead, Lack, State, Verdict};
pub use contents::{Label, LabelError};
pub use copies::{CopyCounts, MAX_COPIES};
pub use facts::ScanFacts;
pub use index::record::HeapsOf;
pub use index::record::{
    ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, LostChunk, MemoryFile, PART_BYTES, Record, Session,
};
pub use index::{IndexReader, Tally};
pub use intake::{ArrivedScan, Intake, IntakeError, IntakeSite, STAGE};
pub use layout::{ExtentContent, ScanExtent, ScanLayout};
pub use list::{ScanNames, ScanSummary, ls, scan_summary, scan_summary_within, scans_on};
pub use open::{OpenError, Recording};
pub use pattern::ScanPattern;
pub use read::account::Account;
pub use read::piece::{Damaged, Missing, Piece, PieceBytes, ReadOptions, Times};
pub(crate) use read::pieces::{OpenPiece, Piece as FilePiece, Pieces};
pub use read::range::{RangePiece, RangeReader};
pub use read::unit::{ChunkFile, ChunkVerifier, UNIT_BLOCK_BYTES, UnitBytes, UnitError, UnitRead};
pub use read::{Next, Reader};
pub use report::{
    DatastreamReport, DiskState, DiskStatus, Event, Latency, RecordingReport, SpaceReport, in_words,
};
pub use skyhaul_core::wire::FrameSeen;
pub use survey::{ScanPart, ScanSurvey, scan_fingerprint, scan_parts};
pub use verify::adopt_stream::Repaired;
pub use verify::judge::{DatastreamCheck, HeapsCheck, UncountedFile};
pub use verify::repair::repair;
pub use verify::repair::{Prover, unverified_chunks};
pub use verify::{CheckOptions, CheckReport, Frames};
pub use write::Writer;
pub use write::options::{
    Chunk, DatastreamId, Existing, Fill, Refusal, Refused, SyncPolicy, WriterError, WriterOptions,
};

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
