//! Reading an index that may be torn, rotten, growing or hostile.
//!
//! The reader takes lines that check and counts the others. A line without an end is the torn tail of a killed
//! recorder, or one that is just being written: it is left for the next reading.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::record::{LONGEST_LINE, Record};

/// How much of an index could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Lines that check.
    pub records: u64,
    /// Lines that do not.
    pub garbage: u64,
    /// Bytes after the last end of line.
    pub torn_bytes: u64,
}

/// Reads an index from its beginning, and again as it grows.
#[derive(Debug)]
pub struct IndexReader {
    file: File,
    /// Where the first line begins that was not read.
    offset: u64,
    pending: Vec<u8>,
    /// In a line that is too long to be honest.
    overlong: bool,
    tally: Tally,
}

impl IndexReader {
    /// Open an index.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<IndexReader> {
        let file = File::open(path)?;
        Ok(IndexReader { file, offset: 0, pending: Vec::new(), overlong: false, tally: Tally::default() })
    }

    /// Give every record that came since the last call to `take`.
    ///
    /// # Errors
    /// The system's; what was read until then was given.
    pub fn read(&mut self, mut take: impl FnMut(Record)) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.offset))?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.offset += n as u64;
            self.feed(&buffer[..n], &mut take);
        }
        self.tally.torn_bytes = self.pending.len() as u64;
        Ok(())
    }

    fn feed(&mut self, mut bytes: &[u8], take: &mut impl FnMut(Record)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.pending.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let record = if self.overlong { None } else { Record::parse(&self.pending) };
            match record {
                Some(record) => {
                    self.tally.records += 1;
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
        if self.pending.len() > LONGEST_LINE {
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
    use super::super::record::{ChunkMeta, ChunkRecord, Event};
    use super::*;

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
    fn garbage_is_counted_and_memory_stays_small() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.index");
        let mut bytes = vec![b'x'; LONGEST_LINE + 100_000];
        bytes.extend(b"\n00000000 {}\nzzzzzzzz {}\n\n\xff\xfe\n");
        bytes.extend(records()[2].to_line().bytes());
        std::fs::write(&path, &bytes).unwrap();
        let (found, tally) = read(&path);
        assert_eq!((found, tally.garbage), (vec![records()[2].clone()], 4));
    }
}
