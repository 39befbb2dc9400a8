//! Records of the index: one per line, `crc32c SPACE json NEWLINE`.
//!
//! ```text
//!   8d5e2f01 {"record":"chunk","datastream":0,"number":12,"bytes":255995904,"crc32c":…,"missing":[[3,9]],…}
//! ```
//!
//! The checksum (eight hexadecimal digits, of the JSON's bytes) distinguishes a torn or corrupt line from a valid one, so
//! a reader needs no other structure than lines: it skips invalid ones. JSON makes a recording self-describing.

use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ledger::Discard;
use crate::recording::index::checksums::UNSTATED_PART_BYTES;
use crate::recording::index::event::Event;
use crate::recording::index::heaps::{HeapsOf, is_zero};
use crate::recording::write::given::Given;
use crate::recording::write::report::RecordingReport;

/// Version of the index's records.
pub(crate) const VERSION: u32 = 1;
/// Maximum length of a line in bytes.
pub(crate) const LONGEST_LINE: usize = 8 << 20;

/// One line of the index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// A recorder began.
    Session(Session),
    /// A datastream is part of the scan.
    Datastream(Datastream),
    /// A chunk is durable on this disk.
    Chunk(ChunkRecord),
    /// A chunk was given to the recorder, and no disk could take it.
    Lost(LostChunk),
    /// Something an operator should know.
    Event(Event),
    /// The recorder ended in order, or `check --repair` closed what a killed one left.
    End(Box<RecordingReport>),
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

/// A recorder's beginning, on each of its disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Version of the index's records.
    pub index: u32,
    /// A random number, in hexadecimal: equal on all disks of one session.
    pub session: String,
    /// Version of the software.
    pub version: String,
    /// The scan's label.
    pub scan: String,
    /// All disks of the session.
    pub disks: Vec<PathBuf>,
    /// Which of them this index is on.
    pub disk: usize,
    /// When it began (RFC 3339).
    pub started: String,
    /// The recorder's process.
    pub pid: u32,
    /// Where the chunks are still in its memory, if others may read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryFile>,
    /// What the caller wants to be remembered.
    #[serde(default)]
    pub metadata: Value,
}

/// A shared pool: see `skyhaul_io::memory::peek`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFile {
    /// Descriptor in the recorder's process.
    pub fd: i32,
    /// Identity of the pool.
    pub id: u64,
}

/// What a caller says of a datastream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatastreamInfo {
    /// Behind the scan's label in names: empty for the first one, then `_ds1`, …
    pub suffix: String,
    /// Who sends it.
    pub sender: Option<String>,
    /// Bytes of a unit (frame) on disk; 0 if the units differ.
    pub unit_bytes: u32,
    /// Units of a whole chunk.
    pub units: u32,
    /// Frames a second of one thread: makes time gaps countable.
    pub frames_per_second: Option<u32>,
    /// Units that share one frame number (threads); 0 counts as 1.
    #[serde(default)]
    pub lanes: u32,
    /// Bytes of the largest chunk, if the units do not give it; otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chunk_bytes: u64,
    /// Frames were placed by the packets' sequence numbers, not by the times in their headers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbered: bool,
    /// What the format's reader needs.
    #[serde(default)]
    pub format: Value,
}

impl DatastreamInfo {
    /// Bytes of a whole chunk, or of the largest there can be; 0 where that is not known.
    #[must_use]
    pub fn whole_chunk(&self) -> u64 {
        self.chunk_bytes.max(u64::from(self.unit_bytes) * u64::from(self.units))
    }
}

/// A datastream of the scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Datastream {
    /// Its number in the session.
    pub datastream: u32,
    /// Its directory and file name.
    pub name: String,
    /// What the caller said of it.
    #[serde(flatten)]
    pub info: DatastreamInfo,
}

/// What a chunk holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChunkMeta {
    /// Number of the object (block of frames) it is.
    pub object: u64,
    /// The stream's epoch: it steps when a stream jumps (a formatter was restarted).
    #[serde(default)]
    pub epoch: u64,
    /// Units in it, missing ones included.
    pub units: u32,
    /// Ranges of units that never arrived: they are filled, or left out of the file ([`packed`](Self::packed)).
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "pairs")]
    pub missing: Vec<Range<u32>>,
    /// Units that never arrived between the chunk before it in the stream and this one. Older recorders did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<u64>,
    /// Missing units are not in the file: what arrived lies one behind the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub packed: bool,
    /// Unix second and frame number of the first unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_time: Option<(i64, u32)>,
    /// Unix second and frame number of the last unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_time: Option<(i64, u32)>,
    /// Arrival of its first packet: Unix time in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_at: Option<i64>,
    /// Which heaps begin in it, if it holds heaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heaps: Option<HeapsOf>,
}

impl ChunkMeta {
    /// Units that never arrived.
    #[must_use]
    pub fn missing_units(&self) -> u64 {
        self.missing.iter().map(|range| u64::from(range.end.saturating_sub(range.start))).sum()
    }

    /// What is counted of it as a chunk of so many bytes.
    pub(in crate::recording) fn given(&self, bytes: u64) -> Given {
        Given {
            bytes,
            units: self.units,
            missing: self.missing_units(),
            gap: self.gap.unwrap_or(0),
            keyed: self.heaps.is_some(),
            first_time: self.first_time,
            last_time: self.last_time,
        }
    }

    /// Units that arrived.
    #[must_use]
    pub fn received_units(&self) -> u64 {
        u64::from(self.units).saturating_sub(self.missing_units())
    }
}

/// A durable chunk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChunkRecord {
    /// Its datastream.
    pub datastream: u32,
    /// Its number: the file's.
    pub number: u32,
    /// Length of the file.
    pub bytes: u64,
    /// CRC-32C of the file.
    pub crc32c: u32,
    /// CRC-32C of each of its parts; none if it has but one, or they are not known.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        with = "crate::recording::index::checksums::hexadecimal"
    )]
    pub parts: Vec<u32>,
    /// Bytes of a part, the last one excepted; 16 MiB if it is not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_bytes: Option<NonZeroU64>,
    /// True if the record was made from the file afterwards, not by the recorder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// What it holds.
    #[serde(flatten)]
    pub meta: ChunkMeta,
}

impl ChunkRecord {
    /// Bytes of a part, the last one excepted.
    pub(in crate::recording) fn part_bytes(&self) -> u64 {
        self.part_bytes.map_or(UNSTATED_PART_BYTES, NonZeroU64::get)
    }
}

/// A chunk that no disk could take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostChunk {
    /// Its datastream.
    pub datastream: u32,
    /// Its number.
    pub number: u32,
    /// Why.
    pub reason: String,
    /// Why, for programs; older recorders did not say this and what follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Discard>,
    /// Its bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Units in it, missing ones included.
    #[serde(default)]
    pub units: u32,
    /// Of these, units that never arrived.
    #[serde(default)]
    pub missing_units: u64,
    /// As [`ChunkMeta::gap`].
    #[serde(default)]
    pub gap: u64,
    /// Unix second and frame number of the first unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_time: Option<(i64, u32)>,
    /// Unix second and frame number of the last unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_time: Option<(i64, u32)>,
}

impl LostChunk {
    /// A chunk that was given up, with its contents.
    pub(in crate::recording) fn new(datastream: u32, number: u32, why: Discard, of: &Given) -> LostChunk {
        LostChunk {
            datastream,
            number,
            reason: why.text().to_owned(),
            cause: Some(why),
            bytes: of.bytes,
            units: of.units,
            missing_units: of.missing,
            gap: of.gap,
            first_time: of.first_time,
            last_time: of.last_time,
        }
    }
}

impl Record {
    /// The record as a line.
    #[must_use]
    pub fn to_line(&self) -> String {
        // Only maps with keys that are not text cannot be JSON, and no record has one.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))
    }

    /// The record of a line (without its end), or `None` if it does not check.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Record> {
        let (crc, rest) = line.split_at_checked(8)?;
        let json = rest.strip_prefix(b" ")?;
        let crc = std::str::from_utf8(crc).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
        if u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(json) {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

/// Ranges as `[[from, to], …]`: shorter and plainer than serde's own form.
mod pairs {
    use std::ops::Range;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::recording) fn serialize<S: Serializer>(
        ranges: &[Range<u32>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(ranges.iter().map(|range| (range.start, range.end)))
    }

    pub(in crate::recording) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Range<u32>>, D::Error> {
        let pairs = Vec::<(u32, u32)>::deserialize(from)?;
        Ok(pairs.into_iter().map(|(from, to)| from..to).collect())
    }
}
