//! Recordings: written to many disks at once, and verifiable afterwards.
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

mod index;
pub mod mark6;
mod open;
mod plan;
mod read;
mod scan;
mod verify;
mod write;

pub use crate::frames::FrameReader;
pub use index::checksums::PART_BYTES;
pub use index::event::Event;
pub use index::heaps::HeapsOf;
pub use index::record::{
    ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, LostChunk, MemoryFile, Record, Session,
};
pub use index::{IndexReader, Tally};
pub use open::entry::{ChunkEntry, DatastreamEntry, FileEntry, State};
pub use open::{OpenError, Recording};
pub use plan::gap::{Gap, Instead, Lack};
pub use read::account::{Account, Damaged};
pub use read::piece::{Missing, Piece, PieceBytes, ReadOptions, Times};
pub(crate) use read::pieces::{OpenPiece, Piece as FilePiece, Pieces};
pub use read::{Next, Reader};
pub use scan::names::{Label, LabelError};
pub use scan::{ScanSummary, ls};
pub use skyhaul_core::wire::FrameSeen;
pub use verify::finding::{Finding, Verdict};
pub use verify::judge::{DatastreamCheck, HeapsCheck};
pub use verify::proof::{Prover, unverified_chunks};
pub use verify::repair::{Repaired, repair};
pub use verify::{CheckOptions, CheckReport, Frames};
pub use write::Writer;
pub use write::chunk::{Chunk, DatastreamId, Fill, Refusal, Refused};
pub use write::ledger::DatastreamReport;
pub use write::options::{Existing, SyncPolicy, WriterError, WriterOptions};
pub use write::report::{DiskState, DiskStatus, Latency, RecordingReport};
pub use write::space::{SpaceReport, in_words};

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
