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
mod tests {
    use super::*;
    use crate::recording::Event;
    use crate::recording::index::record::{ChunkMeta, ChunkRecord};
    use proptest::prelude::*;

    fn records() -> Vec<Record> {
        let chunk = |number: u32| {
            let meta = ChunkMeta {
                object: u64::from(number),
                units: 9,
                missing: vec![1..2, 5..9],
                ..Default::default()
            };
            let crc32c = number.wrapping_mul(0x9e37_79b9);
            Record::Chunk(ChunkRecord { number, bytes: u64::MAX, crc32c, meta, ..Default::default() })
        };
        let event = Record::Event(Event::now("note", None, "a \"quoted\"\nline, ünïcode".into()));
        vec![chunk(0), event, chunk(1), chunk(u32::MAX)]
    }

    fn read(path: &Path) -> (Vec<Record>, Tally) {
        let mut all = Vec::new();
        let mut reader = IndexReader::open(path).unwrap();
        reader.read(|record| all.push(record)).unwrap();
        (all, reader.tally())
    }

    /// Property: cut anywhere, an index gives exactly the records whose line end is still there; appended to
    /// after that (behind a line end), it gives those and the new ones.
    #[test]
    fn an_index_torn_at_any_byte_keeps_all_whole_records() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        let records = records();
        let text: String = records.iter().map(Record::to_line).collect();
        for cut in 0..=text.len() {
            std::fs::write(&path, &text.as_bytes()[..cut]).unwrap();
            let whole = text.as_bytes()[..cut].iter().filter(|&&b| b == b'\n').count();
            let (found, tally) = read(&path);
            assert_eq!(found, records[..whole], "cut at {cut}");
            let tail = text.as_bytes()[..cut].rsplit(|&b| b == b'\n').next().map_or(0, <[u8]>::len);
            assert_eq!((tally.records, tally.garbage, tally.torn_bytes), (whole as u64, 0, tail as u64));
            let mut more = text.as_bytes()[..cut].to_vec();
            more.push(b'\n');
            more.extend(records[0].to_line().bytes());
            std::fs::write(&path, &more).unwrap();
            let (found, _) = read(&path);
            // Cut just before a line end, the appended end makes that record whole again.
            assert!(found.len() == whole + 1 || found.len() == whole + 2, "cut at {cut}");
            assert_eq!(found.last(), Some(&records[0]));
        }
    }

    /// Property: any one byte changed costs at most the records of the lines it touches, never another.
    #[test]
    fn a_rotten_byte_costs_one_record_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        let records = records();
        let text: Vec<u8> = records.iter().map(Record::to_line).collect::<String>().into_bytes();
        for at in 0..text.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut rotten = text.clone();
                rotten[at] ^= flip;
                std::fs::write(&path, &rotten).unwrap();
                let (found, tally) = read(&path);
                let line = text[..at].iter().filter(|&&b| b == b'\n').count();
                let kept: Vec<_> = found.iter().filter(|r| records.contains(r)).collect();
                // A changed line end joins two lines. Upper case digits of the checksum still say the same.
                assert_eq!(kept.len(), found.len(), "byte {at}: nothing is invented");
                assert!(found.len() >= records.len() - 2, "byte {at} of line {line}: {tally:?}");
            }
        }
    }

    #[test]
    fn a_growing_index_is_read_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        let records = records();
        let text: String = records.iter().map(Record::to_line).collect();
        let mut reader = {
            std::fs::write(&path, "").unwrap();
            IndexReader::open(&path).unwrap()
        };
        let mut found = Vec::new();
        for end in (0..text.len()).step_by(7).chain([text.len()]) {
            std::fs::write(&path, &text.as_bytes()[..end]).unwrap();
            reader.read(|record| found.push(record)).unwrap();
        }
        assert_eq!(found, records);
    }

    #[test]
    fn line_ends_that_were_changed_are_counted_and_the_records_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        let records = records();
        let text: String = records.iter().map(Record::to_line).collect();
        std::fs::write(&path, text.replace('\n', "\r\n")).unwrap();
        let (found, tally) = read(&path);
        assert_eq!((found, tally.changed, tally.garbage), (records, 4, 0));
    }

    #[test]
    fn a_kind_of_record_that_is_not_known_is_no_garbage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        let json = r#"{"record":"of_a_later_version","a":1}"#;
        std::fs::write(&path, format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))).unwrap();
        let (found, tally) = read(&path);
        assert_eq!((found, tally.records, tally.garbage), (vec![Record::Other], 1, 0));
    }

    #[test]
    fn a_file_that_is_no_index_is_not_read_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        std::fs::write(&path, records()[1].to_line()).unwrap();
        // Eight exabytes, if the file system counts that far: reading them would take years.
        let file = File::options().write(true).open(&path).unwrap();
        let long = [1 << 62, 1 << 43].into_iter().any(|length| file.set_len(length).is_ok());
        assert!(long, "no sparse file can be made here");
        let (found, tally) = read(&path);
        assert_eq!((found.len(), tally.given_up), (1, true));
    }

    #[test]
    fn a_fifo_with_the_name_of_an_index_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let said = IndexReader::open(&path).unwrap_err().to_string();
        assert_eq!(said, "it is a FIFO, not a regular file");
    }

    #[test]
    fn garbage_is_counted_and_memory_stays_small() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        let mut bytes = vec![b'x'; MAX_LINE_BYTES + 100_000];
        bytes.extend(b"\n00000000 {}\nzzzzzzzz {}\n\n\xff\xfe\n");
        bytes.extend(records()[2].to_line().bytes());
        std::fs::write(&path, &bytes).unwrap();
        let (found, tally) = read(&path);
        assert_eq!((found, tally.garbage), (vec![records()[2].clone()], 4));
    }

    proptest! {
        #[test]
        fn the_counters_are_told_in_order(steps in proptest::collection::vec(prop_oneof![5 => Just(4i64), 1 => any::<i64>()], 0..300), begin: u64) {
            let mut heaps = HeapsOf::default();
            let mut counter = begin;
            let mut given = Vec::new();
            for step in steps {
                given.push(counter);
                heaps.add(counter, &[]);
                counter = counter.wrapping_add_signed(step);
            }
            prop_assert_eq!(heaps.all_counters().unwrap().collect::<Vec<_>>(), given);
            let json = serde_json::to_string(&heaps).unwrap();
            prop_assert_eq!(serde_json::from_str::<HeapsOf>(&json).unwrap(), heaps);
        }
    }

    #[test]
    fn items_are_listed_once_or_not_at_all() {
        let mut heaps = HeapsOf::default();
        assert!(!heaps.may_carry(5), "there is no heap");
        heaps.add(1, &[]);
        [0x1001, 5, 0x1000, 5].into_iter().for_each(|id| heaps.add_item(id));
        assert_eq!(heaps.items, Some(vec![5, 0x1000, 0x1001]));
        assert!(heaps.may_carry(5) && !heaps.may_carry(6));
        (0..2000).for_each(|id| heaps.add_item(id));
        assert!(heaps.items.is_none() && heaps.may_carry(5000), "too many to tell");
        let older = r#"{"count":2,"counters":[[1,1,2]]}"#;
        assert!(serde_json::from_str::<HeapsOf>(older).unwrap().may_carry(5), "older indexes do not tell");
    }

    #[test]
    fn regular_counters_are_one_entry_and_there_is_a_bound() {
        let mut heaps = HeapsOf::default();
        (0..4096).for_each(|n| heaps.add(70_000 + 3 * n, &[]));
        assert_eq!(heaps.counters, [(70_000, 3, 4096)]);
        let mut heaps = HeapsOf::default();
        for n in 0..100_000u64 {
            heaps.add(n * n * n, &[5..7, 9..10]);
        }
        assert_eq!((heaps.count, heaps.incomplete, heaps.missing_bytes), (100_000, 100_000, 300_000));
        assert!(
            heaps.counters.len() <= MAX_RUNS
                && heaps.missing.len() <= MAX_MISSING_RANGES
                && heaps.left_out > 0
        );
        assert!(heaps.all_counters().is_none());
        assert!(
            serde_json::to_string(&heaps).unwrap().len()
                < crate::recording::index::record::MAX_LINE_BYTES / 4
        );
    }
}
