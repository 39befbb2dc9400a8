//! Records of the index: one per line, `crc32c SPACE json NEWLINE`.
//!
//! ```text
//!   8d5e2f01 {"record":"chunk","datastream":0,"number":12,"bytes":255995904,"crc32c":…,"missing":[[3,9]],…}
//! ```
//!
//! The checksum (eight hexadecimal digits, of the JSON's bytes) distinguishes a torn or corrupt line from a valid one, so
//! a reader needs no structure other than lines: it skips invalid ones. JSON makes a recording self-describing.
//!
//! A chunk's record has the CRC-32C of the whole chunk, and of its parts of 4 MiB, so that a reader of a few samples
//! verifies only the parts that it reads.
//!
//! A chunk's record may list its heaps:
//!
//! ```text
//!   "heaps":{"count":4096,"incomplete":1,"counters":[[70000,1,4096]],"missing":[[70013,2880,4320]],"items":[5,4096,4097]}
//! ```
//!
//! Counters mostly increase by a constant step, so a chunk of thousands of heaps has one entry. For senders without a step, the
//! first [`MAX_RUNS`] entries are kept; the heaps' heads in the chunk have all of them.

use crate::ledger::Discard;
use crate::recording::report::{Event, RecordingReport};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;

/// Version of the index's records.
pub(crate) const VERSION: u32 = 1;
/// Maximum length of a line in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 8 << 20;

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
    /// An event for the operator.
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
    /// Copies of each chunk that were asked for, on different disks.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub copies: u32,
    /// Metadata of the caller.
    #[serde(default)]
    pub metadata: Value,
}

fn one() -> u32 {
    1
}

// Serde gives a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_one(copies: &u32) -> bool {
    *copies <= 1
}

/// A shared pool: see `skyhaul_io::memory::peek`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFile {
    /// Descriptor in the recorder's process.
    pub fd: i32,
    /// Identity of the pool.
    pub id: u64,
}

/// Description of a datastream by the caller.
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
    /// Parameters for the format's reader.
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
    /// The caller's description.
    #[serde(flatten)]
    pub info: DatastreamInfo,
}

/// Contents of a chunk.
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
    /// More may have been lost there: the gap goes across the end of a second, and the frame rate was not known then. Where the
    /// description of the datastream has it, the times around the gap tell how many; the account at the end counts them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gap_is_lower_bound: bool,
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

    /// The counts of this chunk, which has `bytes` bytes.
    pub(in crate::recording) fn given(&self, bytes: u64) -> ChunkCounts {
        ChunkCounts {
            bytes,
            units: self.units,
            missing: self.missing_units(),
            gap: self.gap.unwrap_or(0),
            gap_is_lower_bound: self.gap_is_lower_bound,
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
    /// CRC-32C of each part; empty if there is only one, or they are not known.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        with = "crate::recording::index::record::hexadecimal"
    )]
    pub parts: Vec<u32>,
    /// Bytes of a part, the last one excepted; 16 MiB if it is not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_bytes: Option<NonZeroU64>,
    /// True if the record was made from the file afterwards, not by the recorder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// Its contents.
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
    /// Why, for programs. Older recorders did not write this field and the following ones.
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
    /// As [`ChunkMeta::gap_is_lower_bound`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gap_is_lower_bound: bool,
    /// Unix second and frame number of the first unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_time: Option<(i64, u32)>,
    /// Unix second and frame number of the last unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_time: Option<(i64, u32)>,
}

impl LostChunk {
    /// A chunk that was given up, with its contents.
    pub(in crate::recording) fn new(
        datastream: u32,
        number: u32,
        why: Discard,
        of: &ChunkCounts,
    ) -> LostChunk {
        LostChunk {
            datastream,
            number,
            reason: why.text().to_owned(),
            cause: Some(why),
            bytes: of.bytes,
            units: of.units,
            missing_units: of.missing,
            gap: of.gap,
            gap_is_lower_bound: of.gap_is_lower_bound,
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

    pub(super) fn serialize<S: Serializer>(ranges: &[Range<u32>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ranges.iter().map(|range| (range.start, range.end)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Range<u32>>, D::Error> {
        let pairs = Vec::<(u32, u32)>::deserialize(from)?;
        Ok(pairs.into_iter().map(|(from, to)| from..to).collect())
    }
}

/// Bytes of a part; the last one may be shorter. Verifying one takes about a millisecond, and a record of 256 MiB has half a
/// kilobyte of checksums.
pub const PART_BYTES: u64 = 4 << 20;
/// Bytes of a part in records that do not state them.
pub(super) const UNSTATED_PART_BYTES: u64 = 16 << 20;

/// CRC-32C of a chunk and of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::recording) struct Checksums {
    pub(in crate::recording) whole: u32,
    /// None for a chunk of one part.
    pub(in crate::recording) parts: Vec<u32>,
}

impl Checksums {
    /// Bytes of a part, if there are several.
    pub(in crate::recording) fn part_bytes(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(PART_BYTES).filter(|_| !self.parts.is_empty())
    }

    /// Reads each byte once.
    pub(in crate::recording) fn of(octets: &[u8]) -> Self {
        if octets.len() as u64 <= PART_BYTES {
            return Self { whole: crc32c::crc32c(octets), parts: Vec::new() };
        }
        let mut parts = Vec::new();
        let whole = octets.chunks(PART_BYTES as usize).fold(0, |whole, part| {
            let crc = crc32c::crc32c(part);
            parts.push(crc);
            crc32c::crc32c_combine(whole, crc, part.len())
        });
        Self { whole, parts }
    }
}

/// Parts as one text of eight hexadecimal digits each.
pub(super) mod hexadecimal {
    use super::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(parts: &[u32], to: S) -> Result<S::Ok, S::Error> {
        let text: String = parts.iter().map(|part| format!("{part:08x}")).collect();
        to.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        let part = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 8)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let parts: Option<Vec<u32>> = text.as_bytes().chunks(8).map(part).collect();
        parts.ok_or_else(|| de::Error::custom("not eight hexadecimal digits for each part"))
    }
}

/// Bytes and units of a chunk, and its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::recording) struct ChunkCounts {
    pub(in crate::recording) bytes: u64,
    pub(in crate::recording) units: u32,
    /// Units of these that never arrived.
    pub(in crate::recording) missing: u64,
    /// Units that never arrived before it.
    pub(in crate::recording) gap: u64,
    pub(in crate::recording) gap_is_lower_bound: bool,
    /// The units are heaps or events.
    pub(in crate::recording) keyed: bool,
    pub(in crate::recording) first_time: Option<(i64, u32)>,
    pub(in crate::recording) last_time: Option<(i64, u32)>,
}

impl ChunkCounts {
    /// Units that arrived.
    pub(in crate::recording) fn received(&self) -> u64 {
        u64::from(self.units).saturating_sub(self.missing)
    }
}

/// Runs of counters that are kept for a chunk.
const MAX_RUNS: usize = 4096;
/// Missing ranges that are kept for a chunk.
const MAX_MISSING_RANGES: usize = 16_384;

/// Items that are kept for a chunk.
const MAX_ITEMS: usize = 1024;

/// The heaps that begin in a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapsOf {
    /// How many.
    pub count: u64,
    /// Number of incomplete heaps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub incomplete: u64,
    /// Bytes that are missing in these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_bytes: u64,
    /// Their counters, in order of arrival: the first, from one to the next, and how many.
    pub counters: Vec<(u64, i64, u32)>,
    /// Missing bytes: counter of the heap, first byte, one past the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<(u64, u64, u64)>,
    /// Ids of all items that its heaps carry, ascending: what is not here, a reader need not look for in the chunk. `None` if
    /// not known, or too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<u64>>,
    /// Entries of the lists of counters and missing bytes that were omitted because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// A counter was left out: no run continues after it.
    #[serde(skip)]
    broken: bool,
}

impl HeapsOf {
    /// The first one's counter.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.counters.first().map(|&(first, ..)| first)
    }

    /// Whether one of them may carry this item.
    #[must_use]
    pub fn may_carry(&self, item: u64) -> bool {
        self.count > 0 && self.items.as_ref().is_none_or(|items| items.binary_search(&item).is_ok())
    }

    /// The counter of each heap, in order of arrival; `None` if some were omitted.
    pub fn all_counters(&self) -> Option<impl Iterator<Item = u64> + '_> {
        let told = self.counters.iter().try_fold(0u64, |sum, run| sum.checked_add(run.2.into()));
        let run = |&(first, step, length): &(u64, i64, u32)| {
            (0..length).map(move |n| first.wrapping_add_signed(step.wrapping_mul(i64::from(n))))
        };
        (told == Some(self.count)).then(|| self.counters.iter().flat_map(run))
    }

    /// The one that was added last carries this item.
    pub(crate) fn add_item(&mut self, id: u64) {
        if let Some(items) = &mut self.items
            && let Err(at) = items.binary_search(&id)
        {
            items.insert(at, id);
            self.items.take_if(|items| items.len() > MAX_ITEMS);
        }
    }

    /// One more begins.
    pub(crate) fn add(&mut self, counter: u64, missing: &[Range<u64>]) {
        if self.count == 0 {
            self.items = Some(Vec::new());
        }
        self.count += 1;
        self.add_counter(counter);
        self.incomplete += u64::from(!missing.is_empty());
        for gap in missing {
            self.missing_bytes = self.missing_bytes.saturating_add(gap.end.saturating_sub(gap.start));
            if self.missing.len() < MAX_MISSING_RANGES {
                self.missing.push((counter, gap.start, gap.end));
            } else {
                self.left_out += 1;
            }
        }
    }

    fn add_counter(&mut self, counter: u64) {
        if !self.broken
            && let Some((first, step, length)) = self.counters.last_mut()
        {
            let last = first.wrapping_add_signed(step.wrapping_mul(i64::from(*length - 1)));
            let next = counter.wrapping_sub(last).cast_signed();
            if *length == 1 || next == *step {
                *step = next;
                *length += 1;
                return;
            }
        }
        if self.counters.len() < MAX_RUNS {
            self.counters.push((counter, 0, 1));
        } else {
            self.broken = true;
            self.left_out += 1;
        }
    }
}

// Serde gives a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests;
