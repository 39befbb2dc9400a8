//! Which ranges of a file are on the disk, so that only the others are sent after a kill.
//!
//! A text file beside the one being made, one line for each range, each behind its own checksum. A line is written after
//! the range is durable, and counts when it is durable itself. What a kill left half written is no line.
//!
//! ```text
//!   .exp.00000012.skyhaul-journal
//!   5f0c9b1e skyhaul-copy 1 268435456 4194304 1760000000.000000000
//!   b2a7d4c0 0 9d3e1f77
//!   0c91ab35 3 1a2b3c4d          range 3 with the CRC-32C of its bytes
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};

/// A range takes at most so many bytes here: what is longer is no journal of this file.
const LINE: u64 = 64;

/// What a journal is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of a range.
    pub range: u64,
    /// Last change of the source.
    pub modified: (i64, u32),
}

impl Identity {
    /// Ranges of the file.
    #[must_use]
    pub fn ranges(&self) -> u64 {
        self.size.div_ceil(self.range.max(1))
    }

    fn line(&self) -> String {
        let (seconds, nanos) = self.modified;
        line(&format!("skyhaul-copy 1 {} {} {seconds}.{nanos:09}", self.size, self.range))
    }
}

fn line(text: &str) -> String {
    format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes()))
}

/// The text of a line whose checksum is right.
fn checked(line: &str) -> Option<&str> {
    let (check, text) = line.split_once(' ')?;
    let right = check.len() == 8 && u32::from_str_radix(check, 16).ok()? == crc32c::crc32c(text.as_bytes());
    right.then_some(text)
}

/// Ranges that a journal says are durable, with their checksums; none if it is of another file. Reading ends at the first
/// line that is none.
#[must_use]
pub fn parse(bytes: &[u8], of: &Identity) -> BTreeMap<u64, u32> {
    let mut done = BTreeMap::new();
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    if lines.next() != Some(&of.line()) {
        return done;
    }
    for line in lines {
        let range = checked(line.trim_end_matches('\n')).and_then(|text| {
            let (range, crc) = text.split_once(' ')?;
            Some((range.parse::<u64>().ok()?, u32::from_str_radix(crc, 16).ok()?))
        });
        match range.filter(|(range, _)| *range < of.ranges()) {
            Some((range, crc)) => done.insert(range, crc),
            None => break,
        };
    }
    done
}

/// Read a journal's file, as much as one of this file can be.
pub(super) fn read(file: &File, of: &Identity) -> io::Result<BTreeMap<u64, u32>> {
    let most = of.ranges().saturating_add(8).saturating_mul(LINE);
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(parse(&bytes, of))
}

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal(File);

impl Journal {
    /// Begin it anew with what is `done`, which leaves out what a kill tore.
    pub(super) fn begin(mut file: File, of: &Identity, done: &BTreeMap<u64, u32>) -> io::Result<Self> {
        use std::io::Seek;
        let mut text = of.line();
        for (range, crc) in done {
            text.push_str(&line(&format!("{range} {crc:08x}")));
        }
        // A kill within this leaves the old lines or fewer of them, never wrong ones: each has its checksum.
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        file.sync_data()?;
        Ok(Self(file))
    }

    /// These ranges are durable.
    pub(super) fn add(&mut self, ranges: &[(u64, u32)]) -> io::Result<()> {
        let mut text = String::new();
        for (range, crc) in ranges {
            text.push_str(&line(&format!("{range} {crc:08x}")));
        }
        self.0.write_all(text.as_bytes())?;
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OF: Identity = Identity { size: 1000, range: 100, modified: (-5, 7) };

    fn written() -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut journal = Journal::begin(file.reopen().unwrap(), &OF, &BTreeMap::from([(9, 1)])).unwrap();
        journal.add(&[(0, 0xDEAD_BEEF), (3, 0)]).unwrap();
        journal.add(&[(4, 5)]).unwrap();
        std::fs::read(file.path()).unwrap()
    }

    #[test]
    fn what_was_added_is_read_and_of_another_file_nothing() {
        let bytes = written();
        let all = BTreeMap::from([(9, 1), (0, 0xDEAD_BEEF), (3, 0), (4, 5)]);
        assert_eq!(parse(&bytes, &OF), all);
        for other in [
            Identity { size: 1001, ..OF },
            Identity { range: 101, ..OF },
            Identity { modified: (-5, 8), ..OF },
        ] {
            assert!(parse(&bytes, &other).is_empty(), "{other:?}");
        }
    }

    #[test]
    fn a_torn_journal_says_less_and_never_more() {
        let bytes = written();
        let all = parse(&bytes, &OF);
        for end in 0..bytes.len() {
            let some = parse(&bytes[..end], &OF);
            assert!(some.iter().all(|(range, crc)| all.get(range) == Some(crc)), "cut at {end}");
        }
    }

    proptest! {
        #[test]
        fn a_turned_bit_makes_no_range(at in 0usize..100, bit in 0u8..8) {
            let mut bytes = written();
            let all = parse(&bytes, &OF);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            let some = parse(&bytes, &OF);
            prop_assert!(some.iter().all(|(range, crc)| all.get(range) == Some(crc)));
        }
    }
}
