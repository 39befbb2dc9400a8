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

mod account;
mod check;
mod checksums;
mod chunk;
mod commit;
mod count;
mod cutter;
mod dispatch;
mod drive;
mod entry;
mod event;
mod feed;
mod feeder;
mod filling;
mod finding;
mod follow;
mod full;
mod gap;
mod gather;
mod given;
mod ground;
mod heaps;
mod index;
mod judge;
mod lane;
mod ledger;
mod list;
mod lost;
pub mod mark6;
mod names;
mod open;
mod options;
mod parts;
mod piece;
mod pieces;
mod plan;
mod presence;
mod proof;
mod prove;
mod rate;
mod read;
mod record;
mod repair;
mod report;
mod search;
mod seen;
mod space;
mod striping;
mod times;
mod unpack;
mod work;
mod writer;

pub use crate::frames::FrameReader;
pub use account::{Account, Damaged};
pub use check::{CheckOptions, CheckReport, Frames};
pub use checksums::PART_BYTES;
pub use chunk::{Chunk, DatastreamId, Fill, Refusal, Refused};
pub use entry::{ChunkEntry, DatastreamEntry, FileEntry, State};
pub use event::Event;
pub use finding::{Finding, Verdict};
pub use gap::{Gap, Instead, Lack};
pub use heaps::HeapsOf;
pub use index::{IndexReader, Tally};
pub use judge::{DatastreamCheck, HeapsCheck};
pub use ledger::DatastreamReport;
pub use list::{ScanSummary, ls};
pub use names::{Label, LabelError};
pub use open::{OpenError, Recording};
pub use options::{Existing, SyncPolicy, WriterError, WriterOptions};
pub use piece::{Missing, Piece, PieceBytes, ReadOptions, Times};
pub(crate) use pieces::{OpenPiece, Piece as FilePiece, Pieces};
pub use proof::{Prover, unverified_chunks};
pub use read::{Next, Reader};
pub use record::{
    ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, LostChunk, MemoryFile, Record, Session,
};
pub use repair::{Repaired, repair};
pub use report::{DiskState, DiskStatus, Latency, RecordingReport};
pub use skyhaul_core::wire::FrameSeen;
pub use space::{SpaceReport, in_words};
pub use writer::Writer;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
