//! Bytes of a scan from any offset on, in order: those of its [`ScanLayout`], each unit verified before it is given.
//!
//! ```text
//!   layout   chunk 0 │ chunk 1 │ gap 2 │ chunk 3       range ───▶ rest of 1, fill, 3, …
//! ```
//!
//! What is known to be missing is fill (0x11223344), as in a mount with fill, so that every byte keeps its offset. A chunk that cannot be
//! read or verified ends the stream with an error: a reader that comes back later continues at that offset.

use crate::recording::layout::{ExtentContent, ScanLayout};
use crate::recording::open::Recording;
use crate::recording::read::unit::{ChunkFile, ChunkVerifier, UNIT_BLOCK_BYTES, UnitBytes, UnitError};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::read_buffers;
use skyhaul_io::memory::{ALIGN, Pool, View};
use std::io;
use std::sync::Arc;

/// Bytes that stand for missing ones.
const FILL: [u8; 4] = [0x44, 0x33, 0x22, 0x11];
/// Bytes of fill that are given at a time.
const FILL_BYTES: u64 = 1 << 20;
/// Units for which there is memory besides what the consumer holds: one is read while another is kept.
const OWN_UNITS: usize = 2;

/// Bytes that follow each other in a scan.
#[derive(Debug)]
pub enum RangePiece {
    /// Verified bytes.
    Data(View),
    /// Fill in place of missing bytes.
    Fill(Vec<u8>),
}

impl std::ops::Deref for RangePiece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Data(view) => view,
            Self::Fill(bytes) => bytes,
        }
    }
}

/// Reads a range of a datastream, in order.
#[derive(Debug)]
pub struct RangeReader {
    layout: ScanLayout,
    verifier: Arc<ChunkVerifier>,
    pool: Pool,
    at: u64,
    end: u64,
    /// The chunk that is read, by its place in the layout.
    chunk: Option<(usize, ChunkFile)>,
    /// Units of it that are in memory.
    kept: Vec<(u64, UnitBytes)>,
    /// Pieces that are next.
    ready: std::collections::VecDeque<View>,
}

impl Recording {
    /// A reader of the datastream with this place in `datastreams`, from its first byte to its end. The consumer may hold
    /// `held` pieces at a time; for these and what is read there is memory.
    ///
    /// # Errors
    /// There is no memory to read into.
    pub fn range_reader(&self, datastream: usize, held: usize) -> io::Result<RangeReader> {
        let layout = self.layout(datastream);
        let verifier = Arc::new(ChunkVerifier::new(self, datastream, true));
        let chunks = layout.extents.iter().filter_map(|extent| match &extent.content {
            ExtentContent::Chunk(entry) => Some(ChunkFile::new(&verifier, (**entry).clone()).unit_bytes()),
            ExtentContent::Missing(_) => None,
        });
        let unit = usize::try_from(chunks.max().unwrap_or(0)).unwrap_or(usize::MAX);
        let blocks = unit.saturating_add(ALIGN).div_ceil(UNIT_BLOCK_BYTES);
        let pool = read_buffers(blocks.saturating_mul(held + OWN_UNITS), UNIT_BLOCK_BYTES)?;
        let end = layout.bytes();
        let (kept, ready) = (Vec::new(), std::collections::VecDeque::new());
        Ok(RangeReader { layout, verifier, pool, at: 0, end, chunk: None, kept, ready })
    }
}

impl RangeReader {
    /// Where every byte lies.
    #[must_use]
    pub fn layout(&self) -> &ScanLayout {
        &self.layout
    }

    /// Continues at the byte `from`, and ends before `to` or the end of the scan.
    pub fn seek(&mut self, from: u64, to: u64) {
        (self.at, self.end) = (from, to.min(self.layout.bytes()));
        self.ready.clear();
    }

    /// Returns the next bytes; `None`: the end.
    ///
    /// # Errors
    /// A chunk cannot be read or verified, or the consumer holds too many pieces.
    pub fn next_piece(&mut self) -> io::Result<Option<RangePiece>> {
        loop {
            if let Some(view) = self.ready.pop_front() {
                self.at += view.len() as u64;
                return Ok(Some(RangePiece::Data(view)));
            }
            let Some(extent) = self.layout.find(self.at).filter(|_| self.at < self.end) else {
                return Ok(None);
            };
            let of = &self.layout.extents[extent];
            let ExtentContent::Chunk(entry) = &of.content else {
                let bytes = (of.end().min(self.end) - self.at).min(FILL_BYTES) as usize;
                let phase = ((self.at - of.offset) % FILL.len() as u64) as usize;
                self.at += bytes as u64;
                return Ok(Some(RangePiece::Fill(
                    FILL.iter().copied().cycle().skip(phase).take(bytes).collect(),
                )));
            };
            if self.chunk.as_ref().is_none_or(|(at, _)| *at != extent) {
                self.kept.clear();
                self.chunk = Some((extent, ChunkFile::new(&self.verifier, (**entry).clone())));
            }
            let begin = of.offset;
            self.load(begin)?;
        }
    }

    /// Makes the rest of the unit at `at` ready; `begin` is where its chunk begins.
    fn load(&mut self, begin: u64) -> io::Result<()> {
        let Some((_, chunk)) = &self.chunk else { return Ok(()) };
        let within = self.at - begin;
        let unit = within / chunk.unit_bytes().max(1);
        if self.kept.iter().all(|(number, _)| *number != unit) {
            self.kept.clear();
            self.kept = read(chunk, unit, &self.pool)?;
        }
        let (first, last) = chunk.range(unit);
        let (mut skip, mut left) = (within - first, (last - within).min(self.end - self.at));
        let Some(at) = self.kept.iter().position(|(number, _)| *number == unit) else {
            return Err(io::Error::other("a unit was read and is not there"));
        };
        for part in self.kept.swap_remove(at).1 {
            let from = skip.min(part.len() as u64);
            let to = (from + left).min(part.len() as u64);
            (skip, left) = (skip - from, left - (to - from));
            if from < to {
                self.ready.push_back(part.part(from as usize..to as usize));
            }
        }
        match self.ready.is_empty() {
            true => Err(io::Error::other("a unit is shorter than its chunk says")),
            false => Ok(()),
        }
    }
}

/// Reads a unit, from another place if it is not in its own file.
fn read(chunk: &ChunkFile, unit: u64, pool: &Pool) -> io::Result<Vec<(u64, UnitBytes)>> {
    let mut has_searched = false;
    loop {
        match chunk.read(unit, || pool.take()) {
            Ok(read) => return Ok(read.units),
            Err(UnitError::NoMemory) => {
                return Err(io::Error::new(
                    io::ErrorKind::OutOfMemory,
                    "all blocks of this reader are in use",
                ));
            }
            Err(UnitError::NotHere(_)) if !std::mem::replace(&mut has_searched, true) && chunk.search() => {}
            Err(UnitError::NotHere(gap)) => {
                let (hint, why) = (Hint("`skyhaul check` lists all damage"), &gap.why);
                let why = format!("chunk {} of {}: {why}{hint}", gap.chunks.0, gap.datastream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const FRAMES: u32 = 40;

    /// A VDIF frame of 1032 bytes: frame `n` of a stream of 1000 a second.
    fn frame(n: u32) -> Vec<u8> {
        let words = [
            1000 + n / 1000,
            (53 << 24) | (n % 1000),
            (1 << 29) | (1032 / 8),
            (1 << 26) | 0x4d68,
            0,
            0,
            0,
            0,
        ];
        let payload = (0..1000u32).map(|at| (at.wrapping_mul(n + 7) >> 3) as u8);
        words.iter().flat_map(|word: &u32| word.to_le_bytes()).chain(payload).collect()
    }

    /// Chunks without an index in a scan, and the bytes of each.
    fn scan(directory: &Path, chunks: &[u32]) -> (Recording, Vec<Vec<u8>>) {
        let scan = directory.join("s");
        std::fs::create_dir_all(&scan).unwrap();
        let bytes = |chunk: &u32| (chunk * FRAMES..(chunk + 1) * FRAMES).flat_map(frame).collect::<Vec<u8>>();
        let all: Vec<Vec<u8>> = chunks.iter().map(bytes).collect();
        for (chunk, bytes) in chunks.iter().zip(&all) {
            std::fs::write(scan.join(format!("s.{chunk:08}")), bytes).unwrap();
        }
        (Recording::open([directory], "s").unwrap(), all)
    }

    fn range(reader: &mut RangeReader, from: u64, to: u64) -> io::Result<Vec<u8>> {
        reader.seek(from, to);
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next_piece()? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    #[test]
    fn every_range_has_the_bytes_of_the_scan_and_fill_for_what_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let (recording, chunks) = scan(directory.path(), &[0, 1, 3]);
        let size = chunks[0].len();
        let fill: Vec<u8> = FILL.iter().copied().cycle().take(size).collect();
        let all = [&chunks[0], &chunks[1], &fill, &chunks[2]].map(|part| part.as_slice()).concat();
        let mut reader = recording.range_reader(0, 1).unwrap();
        assert_eq!(reader.layout().bytes(), all.len() as u64);
        let size = size as u64;
        let ends =
            [0, 1, size - 1, size, size + 1, 2 * size + 2, 3 * size - 3, 3 * size, 4 * size - 1, 4 * size];
        for (at, &from) in ends.iter().enumerate() {
            for &to in &ends[at..] {
                let found = range(&mut reader, from, to).unwrap();
                assert!(found == all[from as usize..to as usize], "{from} to {to}: {} bytes", found.len());
            }
        }
        assert_eq!(range(&mut reader, 4 * size - 8, u64::MAX).unwrap(), all[all.len() - 8..]);
        assert_eq!(range(&mut reader, 9 * size, 10 * size).unwrap(), Vec::<u8>::new());
    }

    #[test]
    fn a_damaged_chunk_ends_the_stream_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let (recording, chunks) = scan(directory.path(), &[0, 1]);
        let mut damaged = chunks[1].clone();
        damaged[5 * 1032..6 * 1032].fill(0);
        std::fs::write(directory.path().join("s/s.00000001"), damaged).unwrap();
        let mut reader = recording.range_reader(0, 1).unwrap();
        let size = chunks[0].len() as u64;
        assert!(range(&mut reader, 0, size).unwrap() == chunks[0]);
        let error = range(&mut reader, size + 1, size + 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}
