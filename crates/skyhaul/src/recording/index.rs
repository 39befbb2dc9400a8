//! Reads an index that may be truncated, corrupt, growing or hostile.
//!
//! The reader accepts lines with a correct checksum and counts the others. A line without an end is the torn tail of a
//! killed recorder, or is being written: it is left for the next reading. A line whose end was changed to CR LF is still
//! valid, and counted as changed.
//!
//! Limits: reading ends after 64 MiB without a valid line, so that a file of terabytes that is not an index does not
//! delay opening the scan.

pub(super) mod record;

use crate::recording::index::record::{MAX_LINE_BYTES, Record};
use skyhaul_io::disk::open_regular;
use std::fs::File;
use std::io;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::index::record::{ChunkMeta, ChunkRecord};
    use crate::recording::report::Event;

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
}
