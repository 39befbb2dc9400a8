//! Chunks for readers that begin anywhere: read and verified in units of some megabytes, past the page cache.
//!
//! ```text
//!   record with the checksums of its parts   a unit is a part                          CRC-32C of the part
//!   record without them                      the whole chunk is verified once, first   CRC-32C of the chunk
//!   no record                                a unit is whole frames                    headers valid, times in order
//! ```
//!
//! What does not match is sought under every other name ([`ChunkFile::search`]), as every reader does. If it is nowhere, the
//! unit is a [`Gap`]: none of its bytes is given, unless unverified bytes are wanted.
//!
//! Each call reads one file and may wait for its disk; the caller decides on which thread.

use crate::frames;
use crate::recording::contents::{CUT, ChunkEntry, Gap, Lack};
use crate::recording::index::record::{ChunkRecord, Datastream};
use crate::recording::open::Recording;
use crate::recording::read::pieces::whole;
use crate::recording::verify::file::{Cutter, Seen};
use crate::recording::verify::repair::Prover;
use skyhaul_io::disk::Source;
use skyhaul_io::memory::{ALIGN, Block, View};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Bytes of a block into which units are read.
pub const UNIT_BLOCK_BYTES: usize = 4 << 20;
/// Bytes of a unit whose beginning or end is not aligned: with its surroundings it fits into one block.
const UNALIGNED_UNIT_BYTES: u64 = (UNIT_BLOCK_BYTES - 2 * ALIGN) as u64;

/// Verifies the chunks of a datastream.
#[derive(Debug)]
pub struct ChunkVerifier {
    about: Option<Datastream>,
    prover: Prover,
    verify: bool,
}

impl ChunkVerifier {
    /// For the datastream with this index in `datastreams`. Without `verify`, unverified bytes are given, and still reported
    /// as a gap.
    #[must_use]
    pub fn new(recording: &Recording, datastream: usize, verify: bool) -> Self {
        Self { about: recording.about(datastream), prover: Prover::new(recording, datastream), verify }
    }
}

/// The bytes of a unit: in order, in one block or, where the parts of an older recorder are longer, several.
pub type UnitBytes = Vec<View>;

/// Why a unit cannot be given.
#[derive(Debug)]
pub enum UnitError {
    /// There was no block to read into.
    NoMemory,
    /// Its own file does not have these bytes: another one may ([`ChunkFile::search`]).
    NotHere(Box<Gap>),
}

/// What was read.
#[derive(Debug, Default)]
pub struct UnitRead {
    /// Units by their number; the one that was asked for is among them.
    pub units: Vec<(u64, UnitBytes)>,
    /// What is not verified about it, although it is given.
    pub unverified: Option<Box<Gap>>,
}

/// A chunk whose units can be read in any order.
#[derive(Debug)]
pub struct ChunkFile {
    verifier: Arc<ChunkVerifier>,
    entry: ChunkEntry,
    bytes: u64,
    unit_bytes: u64,
    proof: Proof,
    /// Where all its bytes were found instead of in its own file.
    elsewhere: OnceLock<Option<PathBuf>>,
}

/// How its units are verified.
#[derive(Debug)]
enum Proof {
    /// Each by its own checksum.
    Parts,
    /// The whole chunk by its checksum or its packets, before the first one.
    Whole(OnceLock<()>),
    /// Each by the headers of its frames.
    Frames,
}

impl ChunkFile {
    /// The chunk of this entry.
    #[must_use]
    pub fn new(verifier: &Arc<ChunkVerifier>, entry: ChunkEntry) -> Self {
        let unit = verifier.about.as_ref().map_or(0, |about| u64::from(about.info.unit_bytes));
        let packets = verifier.about.as_ref().is_some_and(|about| frames::packets_of(about).is_some());
        let frames = (UNALIGNED_UNIT_BYTES / unit.max(1)) * unit;
        let (proof, unit_bytes) = match &entry.record {
            Some(record) if has_parts(record) => (Proof::Parts, record.part_bytes()),
            None if frames > 0 && !packets => (Proof::Frames, frames),
            _ => (Proof::Whole(OnceLock::new()), UNALIGNED_UNIT_BYTES),
        };
        let bytes = entry.record.as_ref().map(|record| record.bytes).or(entry.bytes).unwrap_or_default();
        Self { verifier: Arc::clone(verifier), entry, bytes, unit_bytes, proof, elsewhere: OnceLock::new() }
    }

    /// Its index entry.
    #[must_use]
    pub fn entry(&self) -> &ChunkEntry {
        &self.entry
    }

    /// Bytes of each unit but the last one.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    /// Bytes from the beginning of the chunk to that of a unit, and to its end.
    #[must_use]
    pub fn range(&self, unit: u64) -> (u64, u64) {
        let from = unit.saturating_mul(self.unit_bytes).min(self.bytes);
        (from, from.saturating_add(self.unit_bytes).min(self.bytes))
    }

    /// Read a unit from the chunk's own file, or from where [`search`](Self::search) found it. `next` gives blocks of
    /// [`UNIT_BLOCK_BYTES`].
    ///
    /// # Errors
    /// See [`UnitError`].
    pub fn read(&self, unit: u64, mut next: impl FnMut() -> Option<Block>) -> Result<UnitRead, UnitError> {
        let found = self.elsewhere.get().and_then(Option::as_deref);
        let (path, offset) = found.map_or((self.entry.path.as_path(), self.entry.offset), |path| (path, 0));
        match self.read_verified(path, offset, unit, &mut next) {
            Err(UnitError::NotHere(gap)) if !self.verifier.verify => {
                let (from, to) = self.range(unit);
                match read_range(path, offset + from, to - from, &mut next) {
                    Ok(bytes) => Ok(UnitRead { units: vec![(unit, bytes)], unverified: Some(gap) }),
                    Err(Fault::NoMemory) => Err(UnitError::NoMemory),
                    Err(Fault::Unreadable(_)) => Err(UnitError::NotHere(gap)),
                }
            }
            read => read,
        }
    }

    fn read_verified(
        &self,
        path: &Path,
        offset: u64,
        unit: u64,
        next: &mut dyn FnMut() -> Option<Block>,
    ) -> Result<UnitRead, UnitError> {
        let mut units = Vec::new();
        if let Proof::Whole(proven) = &self.proof
            && proven.get().is_none()
        {
            units = self.prove_whole(path, offset, unit, next)?;
            let _ = proven.set(());
        }
        if units.iter().all(|(number, _)| *number != unit) {
            let (from, to) = self.range(unit);
            let bytes = match read_range(path, offset + from, to - from, next) {
                Ok(bytes) => bytes,
                Err(Fault::NoMemory) => return Err(UnitError::NoMemory),
                Err(Fault::Unreadable(why)) => return Err(self.gap(&why)),
            };
            self.check(unit, &bytes).map_err(|why| self.gap(&why))?;
            units.push((unit, bytes));
        }
        Ok(UnitRead { units, unverified: None })
    }

    /// The CRC-32C or the frame headers of a unit.
    fn check(&self, unit: u64, bytes: &UnitBytes) -> Result<(), String> {
        match (&self.proof, &self.entry.record) {
            (Proof::Parts, Some(record)) => {
                let crc = bytes.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
                let (from, to) = self.range(unit);
                let sum = usize::try_from(unit).ok().and_then(|unit| record.parts.get(unit));
                if sum == Some(&crc) {
                    return Ok(());
                }
                let last = to.saturating_sub(1);
                Err(format!("the CRC-32C of its index record is not that of bytes {from} to {last}"))
            }
            (Proof::Frames, _) => {
                let mut seen = Seen::default();
                let Some(mut cutter) = Cutter::of(self.verifier.about.as_ref(), false) else {
                    return Err("its format is unknown".to_owned());
                };
                bytes.iter().for_each(|part| cutter.feed(part, &mut seen));
                cutter.finish(&mut seen);
                if seen.cut_bytes > 0 {
                    return Err(CUT.to_owned());
                }
                seen.proven_by_frames(None, None)
            }
            _ => Ok(()),
        }
    }

    /// Read the whole chunk, and keep as many of its units as there are blocks, the one that was asked for first.
    fn prove_whole(
        &self,
        path: &Path,
        offset: u64,
        wanted: u64,
        next: &mut dyn FnMut() -> Option<Block>,
    ) -> Result<Vec<(u64, UnitBytes)>, UnitError> {
        let record = self.entry.record.as_ref();
        let mut cutter = match record {
            Some(_) => None,
            None => Cutter::of(self.verifier.about.as_ref(), false),
        };
        let mut seen = Seen::default();
        seen.bytes = self.bytes;
        let mut kept: Vec<(u64, UnitBytes)> = Vec::new();
        for unit in 0..self.bytes.div_ceil(self.unit_bytes) {
            let (from, to) = self.range(unit);
            let bytes = loop {
                match read_range(path, offset + from, to - from, next) {
                    Ok(bytes) => break bytes,
                    Err(Fault::Unreadable(why)) => return Err(self.gap(&why)),
                    Err(Fault::NoMemory) => {
                        let Some(at) = kept.iter().position(|(number, _)| *number != wanted) else {
                            return Err(UnitError::NoMemory);
                        };
                        kept.remove(at);
                    }
                }
            };
            for part in &bytes {
                seen.crc32c = crc32c::crc32c_append(seen.crc32c, part);
                seen.read += part.len() as u64;
                cutter.iter_mut().for_each(|cutter| cutter.feed(part, &mut seen));
            }
            kept.push((unit, bytes));
        }
        if let Some(cutter) = cutter {
            cutter.finish(&mut seen);
        }
        let proof = record.map_or_else(|| seen.proven_by_frames(None, None), |record| seen.proves(record));
        proof.map_err(|why| self.gap(&why))?;
        Ok(kept)
    }

    /// Seek its bytes under every other name on all disks of the recording, once; returns whether they were found. Reads any of
    /// these disks.
    pub fn search(&self) -> bool {
        self.elsewhere.get_or_init(|| self.verifier.prover.find_elsewhere(&self.entry)).is_some()
    }

    fn gap(&self, why: &str) -> UnitError {
        let (number, record) = (self.entry.number, self.entry.record.as_ref());
        let (lack, word) = match record {
            Some(_) => (Lack::Damaged, "damaged: "),
            None => (Lack::Unproven, "unverified: it has no index record, and "),
        };
        let chunks = number..number.saturating_add(1);
        let gap = Gap::new(self.verifier.prover.name(), chunks, lack, format!("{word}{why}"));
        let meta = record.map(|record| &record.meta);
        let from = meta.and_then(|meta| meta.first_time);
        UnitError::NotHere(Box::new(Gap { from, to: meta.and_then(|meta| meta.last_time), ..gap }))
    }
}

/// Whether the parts of a record can verify its chunk: not those of a damaged or foreign one.
fn has_parts(record: &ChunkRecord) -> bool {
    let count = record.bytes.div_ceil(record.part_bytes());
    record.parts.len() > 1 && record.parts.len() as u64 == count && whole(record) == record.crc32c
}

/// Why a range was not read.
enum Fault {
    NoMemory,
    Unreadable(String),
}

/// Bytes of a file, with `O_DIRECT` where that is possible.
fn read_range(
    path: &Path,
    offset: u64,
    bytes: u64,
    next: &mut dyn FnMut() -> Option<Block>,
) -> Result<UnitBytes, Fault> {
    let unreadable = |error: std::io::Error| Fault::Unreadable(format!("it cannot be read: {error}"));
    let source = Source::open(path).map_err(unreadable)?;
    let (end, mut at) = (offset.saturating_add(bytes), offset - offset % ALIGN as u64);
    if source.len() < end {
        let has = source.len();
        return Err(Fault::Unreadable(format!(
            "its file ends at byte {has}, and byte {} is needed",
            end - 1
        )));
    }
    let mut parts = Vec::new();
    while at < end {
        let mut block = next().ok_or(Fault::NoMemory)?;
        let from = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(block.len());
        let read = source.read_up_to(at, wanted, &mut block).map_err(unreadable)?;
        if read < wanted {
            return Err(Fault::Unreadable("it was truncated while it was read".to_owned()));
        }
        at += wanted as u64;
        parts.push(block.into_view(from..wanted));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
