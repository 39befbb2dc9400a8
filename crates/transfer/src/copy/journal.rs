//! Which ranges of a file are on the disk, so that only the others are sent after a kill.
//!
//! A text file beside the one being made, one line for each range, each behind its own checksum. A line is written after
//! the range is durable, and counts when it is durable itself. What a kill left half written is no line.
//!
//! ```text
//!   .exp.00000012.skyhaul-journal
//!   5f0c9b1e skyhaul-copy 2 268435456 4194304 1760000000.000000000 2049 1234 1760000000.000000000
//!   b2a7d4c0 0 9d3e1f77
//!   0c91ab35 3 1a2b3c4d          range 3 with the CRC-32C of its bytes
//! ```
//!
//! The first line says of what: size, range, and last change of the source; its device, inode and last change of anything there.
//! The checksum of every other line covers the first one, too: no line counts for another file, or for the same one after it
//! changed. And no line counts before the range was read again.

use super::message::Origin;
use skyhaul_io::disk::Faults;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// A line has at most so many bytes: what is longer is none.
const LINE: u64 = 256;

/// What a journal is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of a range.
    pub range: u64,
    /// Last change of the source.
    pub modified: (i64, u32),
    /// Which file the source is, and when it changed last in any way.
    pub origin: Origin,
}

impl Identity {
    /// Ranges of the file.
    #[must_use]
    pub fn ranges(&self) -> u64 {
        self.size.div_ceil(self.range.max(1))
    }

    fn text(&self) -> String {
        let Origin { device, inode, changed } = self.origin;
        let time = |(seconds, nanos): (i64, u32)| format!("{seconds}.{nanos:09}");
        format!(
            "skyhaul-copy 2 {} {} {} {device} {inode} {}",
            self.size,
            self.range,
            time(self.modified),
            time(changed)
        )
    }

    /// The first line, and where the checksums of the others begin.
    fn begin(&self) -> (String, u32) {
        let text = self.text();
        (line(0, &text), crc32c::crc32c(text.as_bytes()))
    }
}

fn line(seed: u32, text: &str) -> String {
    format!("{:08x} {text}\n", crc32c::crc32c_append(seed, text.as_bytes()))
}

/// The text of a line whose checksum is right.
fn checked(seed: u32, line: &str) -> Option<&str> {
    let (check, text) = line.split_once(' ')?;
    let right = u32::from_str_radix(check, 16).ok()? == crc32c::crc32c_append(seed, text.as_bytes());
    (check.len() == 8 && right).then_some(text)
}

/// Ranges that a journal says are durable, with their checksums; none if it is of another file. Reading ends at the first
/// line that is none.
#[must_use]
pub fn parse(bytes: &[u8], of: &Identity) -> BTreeMap<u64, u32> {
    lines(bytes, of)
}

fn lines(mut from: impl BufRead, of: &Identity) -> BTreeMap<u64, u32> {
    let (begin, seed) = of.begin();
    let mut done = BTreeMap::new();
    let mut bytes = Vec::new();
    let mut next = || {
        bytes.clear();
        (&mut from).take(LINE).read_until(b'\n', &mut bytes).ok()?;
        let text = bytes.strip_suffix(b"\n")?;
        String::from_utf8(text.to_vec()).ok()
    };
    if next().as_deref() != Some(begin.trim_end_matches('\n')) {
        return done;
    }
    // Each range may stand there more than once, but not without end.
    for _ in 0..of.ranges().saturating_mul(2).saturating_add(8) {
        let range = next().and_then(|line| {
            let (range, crc) = checked(seed, &line)?.split_once(' ')?;
            Some((range.parse::<u64>().ok()?, u32::from_str_radix(crc, 16).ok()?))
        });
        match range.filter(|(range, _)| *range < of.ranges()) {
            Some((range, crc)) => done.insert(range, crc),
            None => break,
        };
    }
    done
}

/// Read a journal's file.
pub(super) fn read(file: &File, of: &Identity) -> BTreeMap<u64, u32> {
    lines(BufReader::new(file), of)
}

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    length: u64,
    seed: u32,
    faults: Faults,
}

impl Journal {
    /// Begin it anew with what is `done`, which leaves out what a kill tore.
    pub(super) fn begin(
        file: File,
        of: &Identity,
        done: &BTreeMap<u64, u32>,
        faults: &Faults,
    ) -> io::Result<Self> {
        let (mut text, seed) = of.begin();
        for (range, crc) in done {
            text.push_str(&line(seed, &format!("{range} {crc:08x}")));
        }
        // A kill within this leaves the old lines or fewer of them, never wrong ones: each has its checksum, which is that of
        // this file only.
        faults.write_all_at(&file, text.as_bytes(), 0)?;
        let length = text.len() as u64;
        faults.set_len(&file, length)?;
        faults.sync_data(&file)?;
        Ok(Self { file, length, seed, faults: faults.clone() })
    }

    /// These ranges are durable.
    ///
    /// # Errors
    /// The lines may be lost. The journal is not to be used any more.
    pub(super) fn add(&mut self, ranges: &[(u64, u32)]) -> io::Result<()> {
        let mut text = String::new();
        for (range, crc) in ranges {
            text.push_str(&line(self.seed, &format!("{range} {crc:08x}")));
        }
        self.faults.write_all_at(&self.file, text.as_bytes(), self.length)?;
        self.length += text.len() as u64;
        self.faults.sync_data(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORIGIN: Origin = Origin { device: 3, inode: 12, changed: (9, 1) };
    const OF: Identity = Identity { size: 1000, range: 100, modified: (-5, 7), origin: ORIGIN };

    fn written() -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = BTreeMap::from([(9, 1)]);
        let mut journal = Journal::begin(file.reopen().unwrap(), &OF, &before, &Faults::default()).unwrap();
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
            Identity { origin: Origin { device: 4, ..ORIGIN }, ..OF },
            Identity { origin: Origin { inode: 13, ..ORIGIN }, ..OF },
            Identity { origin: Origin { changed: (9, 2), ..ORIGIN }, ..OF },
        ] {
            assert!(parse(&bytes, &other).is_empty(), "{other:?}");
        }
    }

    /// A new first line over an old one, and a kill before the rest was cut off.
    #[test]
    fn lines_of_another_file_do_not_count_behind_the_first_line_of_this_one() {
        let mut bytes = written();
        let other = Identity { modified: (-5, 8), ..OF };
        let (begin, _) = other.begin();
        bytes[..begin.len()].copy_from_slice(begin.as_bytes());
        assert!(parse(&bytes, &other).is_empty());
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
