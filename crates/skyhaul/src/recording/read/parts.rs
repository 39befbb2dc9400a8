//! Verifies a chunk part by part: each part once, before its first byte is used.
//!
//! ```text
//!   record   CRC-32C of each part     a1 ┊ b2 ┊ c3 ┊ d4
//!   chunk    read(range)              ───┊─▒▒▒▒▒▒─┊───     only the parts that the range touches are verified
//! ```
//!
//! If a part does not match, the bytes of the whole chunk are sought under every other name, once. If no file has them, that
//! part is damaged, and no other: it is in the gap of its chunk, and none of its bytes is read.
//!
//! Limits: what is verified is what the file held then. Records without the checksums of parts verify whole chunks only.

use crate::recording::index::record::ChunkRecord;
use crate::recording::open::entry::ChunkEntry;
use crate::recording::plan::gap::{Gap, Lack};
use crate::recording::read::ground::Ground;
use crate::recording::verify::proof::Prover;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes that are read at once: they stay in the cache until their checksum is made.
const READ_BYTES: usize = 256 << 10;
/// Parts of a chunk, at most: others are verified as a whole.
const MOST_PARTS: usize = 1 << 14;
/// Damaged ranges that a gap names.
const MOST_NAMED: usize = 8;

/// A chunk whose record has the checksums of its parts.
#[derive(Debug)]
pub(in crate::recording) struct Parts {
    ground: Arc<Ground>,
    entry: ChunkEntry,
    part_bytes: u64,
    sums: Vec<u32>,
    sound: Vec<OnceLock<bool>>,
    /// Another file that has all bytes of the chunk, if its own has not; sought at the first damaged part.
    elsewhere: OnceLock<Option<PathBuf>>,
    damaged: Mutex<BTreeSet<usize>>,
}

impl Parts {
    /// `None`: only the whole of this chunk can be verified.
    pub(in crate::recording) fn of(ground: &Arc<Ground>, entry: &ChunkEntry) -> Option<Self> {
        let record = entry.record.as_ref().filter(|_| entry.bytes.is_some_and(|bytes| bytes > 0))?;
        let part_bytes = record.part_bytes();
        let count = record.bytes.div_ceil(part_bytes);
        if !(2..=MOST_PARTS).contains(&record.parts.len()) || record.parts.len() as u64 != count {
            return None;
        }
        if whole(record) != record.crc32c {
            return None;
        }
        Some(Self {
            ground: Arc::clone(ground),
            part_bytes,
            sums: record.parts.clone(),
            sound: record.parts.iter().map(|_| OnceLock::new()).collect(),
            elsewhere: OnceLock::new(),
            damaged: Mutex::default(),
            entry: ChunkEntry { record: record.clone().into(), ..entry.clone() },
        })
    }

    /// The chunk's own file.
    pub(in crate::recording) fn path(&self) -> &Path {
        &self.entry.path
    }

    /// The file that has its bytes instead.
    pub(in crate::recording) fn elsewhere(&self) -> Option<&Path> {
        self.elsewhere.get()?.as_deref()
    }

    /// Bytes of the chunk, as recorded.
    pub(in crate::recording) fn bytes(&self) -> u64 {
        self.entry.record.as_ref().map_or(0, |record| record.bytes)
    }

    /// The first byte from `from` to before `to` that is verified; its part is verified if it was not yet. `own` is the
    /// chunk's file.
    pub(in crate::recording) fn begin(&self, own: &File, from: u64, to: u64) -> Option<u64> {
        let mut at = from;
        while at < to {
            let part = usize::try_from(at / self.part_bytes).ok()?;
            if self.is_sound(own, part) {
                return Some(at);
            }
            at = self.range(part).end.max(at + 1);
        }
        None
    }

    /// Where the verified bytes end that begin at `from`, at most `to`.
    pub(in crate::recording) fn end(&self, own: &File, from: u64, to: u64) -> u64 {
        let mut at = from;
        while at < to {
            let part = (at / self.part_bytes) as usize;
            if !self.is_sound(own, part) {
                return at;
            }
            at = self.range(part).end;
        }
        to
    }

    fn range(&self, part: usize) -> Range<u64> {
        let from = part as u64 * self.part_bytes;
        from..self.bytes().min(from + self.part_bytes)
    }

    fn is_sound(&self, own: &File, part: usize) -> bool {
        self.sound.get(part).is_some_and(|sound| *sound.get_or_init(|| self.verify(own, part)))
    }

    fn verify(&self, own: &File, part: usize) -> bool {
        if let Some(elsewhere) = self.elsewhere.get() {
            // The whole chunk was verified there.
            if elsewhere.is_some() {
                return true;
            }
        }
        match checksum(own, self.range(part)) {
            Ok(crc) if self.sums.get(part) == Some(&crc) => return true,
            _ => {}
        }
        let found = self.elsewhere.get_or_init(|| self.ground.prover()?.find_elsewhere(&self.entry));
        if found.is_none() {
            self.note(part);
        }
        found.is_some()
    }

    /// The gap of the chunk grows by a part.
    fn note(&self, part: usize) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.gap(&damaged);
        damaged.insert(part);
        let now = self.gap(&damaged);
        self.ground.replace(before.as_ref(), now);
    }

    fn gap(&self, damaged: &BTreeSet<usize>) -> Option<Gap> {
        let (record, number) = (self.entry.record.as_ref()?, self.entry.number);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for &part in damaged {
            let range = self.range(part);
            match runs.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range),
            }
        }
        let shown = runs.iter().take(MOST_NAMED);
        let mut named: Vec<String> =
            shown.map(|run| format!("{} to {}", run.start, run.end.saturating_sub(1))).collect();
        if runs.is_empty() {
            return None;
        }
        if runs.len() > MOST_NAMED {
            named.push(format!("{} more ranges", runs.len() - MOST_NAMED));
        }
        let mut why =
            format!("damaged: the CRC-32C of its index record is not that of bytes {}", named.join(", "));
        if let Some(bytes) = self.entry.bytes.filter(|&bytes| bytes < record.bytes) {
            why = format!("{why}; it has {bytes} bytes, but its index record says {}", record.bytes);
        }
        let name = self.ground.prover().map_or("", Prover::name);
        let gap = Gap::new(name, number..number.saturating_add(1), Lack::Damaged, why);
        let bytes = runs.iter().map(|run| run.end - run.start).sum();
        Some(Gap { from: record.meta.first_time, to: record.meta.last_time, bytes: Some(bytes), ..gap })
    }
}

/// The CRC-32C of a chunk, of those of its parts.
fn whole(record: &ChunkRecord) -> u32 {
    let (size, mut left) = (record.part_bytes(), record.bytes);
    record.parts.iter().fold(0, |crc, &part| {
        let length = size.min(left);
        left -= length;
        crc32c::crc32c_combine(crc, part, length as usize)
    })
}

/// CRC-32C of a range of a file.
fn checksum(file: &File, range: Range<u64>) -> io::Result<u32> {
    let mut buffer = vec![0; READ_BYTES.min((range.end - range.start) as usize)];
    let (mut at, mut crc) = (range.start, 0);
    while at < range.end {
        let most = buffer.len().min((range.end - at) as usize);
        match file.read_at(&mut buffer[..most], at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                crc = crc32c::crc32c_append(crc, &buffer[..n]);
                at += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(crc)
}
