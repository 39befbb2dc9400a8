//! Reads an index that may be truncated, corrupt, growing or hostile.
//!
//! The reader accepts lines with a correct checksum and counts the others. A line without an end is the torn tail of a
//! killed recorder, or is being written: it is left for the next reading. A line whose end was changed to CR LF is still
//! valid, and counted as changed.
//!
//! A chunk's record may list its heaps:
//!
//! ```text
//!   "heaps":{"count":4096,"incomplete":1,"counters":[[70000,1,4096]],"missing":[[70013,2880,4320]],"items":[5,4096,4097]}
//! ```
//!
//! Counters mostly increase by a constant step, so a chunk of thousands of heaps has one entry. For senders without a step, the
//! first [`MAX_RUNS`] entries are kept; the heaps' heads in the chunk have all of them.
//!
//! Limits: reading ends after 64 MiB without a valid line, so that a file of terabytes that is not an index does not
//! delay opening the scan.

pub(super) mod record;

use record::{MAX_LINE_BYTES, Record};
use serde::{Deserialize, Serialize};
use skyhaul_io::disk::open_regular;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes without a line that checks, behind which an index is not read on.
const MAX_INVALID_BYTES: u64 = 64 << 20;

/// How much of an index could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Valid lines.
    pub records: u64,
    /// Invalid lines.
    pub garbage: u64,
    /// Bytes after the last end of line.
    pub torn_bytes: u64,
    /// Lines that check, but end in CR LF.
    #[serde(default)]
    pub changed: u64,
    /// It has a recorder's account: on this disk the recording ended in order.
    #[serde(default)]
    pub closed: bool,
    /// Too many bytes were invalid: the rest was not read.
    #[serde(default)]
    pub given_up: bool,
}

/// Reads an index from its beginning, and again as it grows.
#[derive(Debug)]
pub struct IndexReader {
    file: File,
    /// Where the first line begins that was not read.
    offset: u64,
    pending: Vec<u8>,
    /// Bytes read since the last line that checks.
    junk: u64,
    /// In a line beyond the maximum length.
    overlong: bool,
    tally: Tally,
}

impl IndexReader {
    /// Open an index.
    ///
    /// # Errors
    /// A system error, or the file is not a regular file.
    pub fn open(path: &Path) -> io::Result<IndexReader> {
        Ok(Self::of(open_regular(path)?))
    }

    /// Read `file`, which may have lost its name.
    pub(super) fn of(file: File) -> IndexReader {
        let pending = Vec::new();
        IndexReader { file, offset: 0, pending, junk: 0, overlong: false, tally: Tally::default() }
    }

    /// Give every record appended since the last call to `take`.
    ///
    /// # Errors
    /// A system error; records read before it were delivered.
    pub fn read(&mut self, mut take: impl FnMut(Record)) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            if self.junk > MAX_INVALID_BYTES {
                self.tally.given_up = true;
                break;
            }
            let n = match self.file.read_at(&mut buffer, self.offset) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.offset += n as u64;
            self.junk += n as u64;
            self.feed(&buffer[..n], &mut take);
        }
        self.tally.torn_bytes = self.pending.len() as u64;
        Ok(())
    }

    fn feed(&mut self, mut bytes: &[u8], take: &mut impl FnMut(Record)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.pending.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let unchanged = self.pending.strip_suffix(b"\r").unwrap_or(&self.pending);
            let record = if self.overlong { None } else { Record::parse(unchanged) };
            match record {
                Some(record) => {
                    self.tally.records += 1;
                    self.tally.changed += u64::from(unchanged.len() < self.pending.len());
                    self.tally.closed |= matches!(record, Record::End(_));
                    self.junk = bytes.len() as u64;
                    take(record);
                }
                // An empty line ends a torn one before records were appended to it.
                None if self.pending.is_empty() && !self.overlong => {}
                None => self.tally.garbage += 1,
            }
            self.pending.clear();
            self.overlong = false;
        }
        if !self.overlong {
            self.pending.extend_from_slice(bytes);
        }
        if self.pending.len() > MAX_LINE_BYTES {
            self.pending = Vec::new();
            self.overlong = true;
        }
    }

    /// What was read so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
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
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests;
