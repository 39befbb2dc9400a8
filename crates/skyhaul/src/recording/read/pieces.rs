//! Files of consecutive frames or packets, for readers that begin anywhere. Each chunk is verified before it is used: as a whole,
//! or part by part if its record has the checksums of its parts.
//!
//! ```text
//!   record   CRC-32C of each part     a1 ┊ b2 ┊ c3 ┊ d4
//!   chunk    read(range)              ───┊─▒▒▒▒▒▒─┊───     only the parts that the range touches are verified, once
//! ```
//!
//! If a part does not match, the bytes of the whole chunk are sought under every other name, once. If no file has them, that
//! part is damaged: it is in the gap of its chunk, and none of its bytes is read.
//!
//! Limits: this verifies what the file held at that time. Without the checksums of parts, only whole chunks are verified.

use crate::recording::asked::is_of_this_process;
use crate::recording::contents::{ChunkEntry, Gap, Lack};
use crate::recording::index::record::ChunkRecord;
use crate::recording::open::Recording;
use crate::recording::read::piece::Times;
use crate::recording::verify::repair::{Prover, unverified_chunks};
use skyhaul_io::disk::{open_regular, read_at_in_turn};
use skyhaul_io::lock::lock;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// Consecutive frames or packets in a file, and what their reader learns about them.
#[derive(Debug)]
pub(crate) struct Piece<T> {
    pub(crate) path: PathBuf,
    /// Where they begin.
    pub(crate) offset: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Unix second and frame number of its first and last frame, from the index.
    pub(crate) times: Times,
    /// Its entry, if it belongs to a recording.
    pub(crate) entry: Option<Box<ChunkEntry>>,
    /// The reader's own data.
    pub(crate) known: T,
    /// Its proof; `None` if it is damaged.
    proven: OnceLock<Option<Proven>>,
}

/// How a piece is verified.
#[derive(Debug)]
enum Proven {
    /// They are this file's, from its first byte to before this one.
    Whole(PathBuf, u64),
    /// Each part is verified before it is read.
    Parts(Arc<Parts>),
}

impl<T: Default> Piece<T> {
    pub(crate) fn new(path: PathBuf, offset: u64, bytes: u64) -> Self {
        Self {
            path,
            offset,
            bytes,
            times: (None, None),
            entry: None,
            known: T::default(),
            proven: OnceLock::new(),
        }
    }
}

/// The pieces of a datastream in order, and the gaps between them.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    pieces: Vec<Piece<T>>,
    ground: Arc<Verification>,
}

impl<T: Default> Pieces<T> {
    /// The chunks of a datastream, by its index in `datastreams`.
    pub(crate) fn of_recording(recording: &Recording, datastream: usize) -> Self {
        let (chunks, gaps) = unverified_chunks(recording, datastream);
        let pieces = chunks.into_iter().map(|entry| {
            let record = entry.record.as_ref();
            let length = record.map_or(entry.bytes, |record| Some(record.bytes.min(entry.bytes?)));
            let meta = record.map(|record| &record.meta);
            let mut piece = Piece::new(entry.path.clone(), entry.offset, length.unwrap_or_default());
            piece.times = meta.map_or((None, None), |meta| (meta.first_time, meta.last_time));
            piece.entry = Some(Box::new(entry));
            piece
        });
        let prover = Some(Prover::new(recording, datastream));
        let ground = Arc::new(Verification::new(gaps, prover));
        Self { pieces: pieces.collect(), ground }
    }
}

impl<T> Pieces<T> {
    /// Plain files, and known gaps.
    pub(crate) fn of_files(pieces: Vec<Piece<T>>, gaps: Vec<Gap>) -> Self {
        Self { pieces, ground: Arc::new(Verification::new(gaps, None)) }
    }

    pub(crate) fn all(&self) -> &[Piece<T>] {
        &self.pieces
    }

    /// The reader's data of a piece.
    pub(crate) fn known_mut(&mut self, piece: usize) -> &mut T {
        &mut self.pieces[piece].known
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        self.ground.gaps()
    }

    /// A piece that nothing reads while it is not verified.
    pub(crate) fn open_unverified(&self, piece: &Piece<T>) -> io::Result<OpenPiece> {
        Ok(OpenPiece::new(open_regular(&piece.path)?, piece.offset, piece.bytes))
    }

    /// A piece, verified if there is something to verify it with and `verify`: all of it now, or each part when it is read.
    /// `None` if it is damaged: it is in the gaps then.
    pub(crate) fn open(&self, piece: &Piece<T>, verify: bool) -> Option<OpenPiece> {
        let (Some(prover), Some(entry), true) = (self.ground.prover(), &piece.entry, verify) else {
            return self.open_unverified(piece).map_err(|error| self.note_unreadable(piece, &error)).ok();
        };
        let proven = piece.proven.get_or_init(|| {
            if let Some(parts) = Parts::of(&self.ground, entry) {
                return Some(Proven::Parts(Arc::new(parts)));
            }
            match prover.prove(entry) {
                Ok((path, unverified)) => {
                    unverified.into_iter().for_each(|gap| self.note(gap));
                    let bytes = entry.record.as_ref().map_or(piece.bytes, |record| record.bytes);
                    Some(Proven::Whole(path, bytes))
                }
                Err(gap) => {
                    self.note(*gap);
                    None
                }
            }
        });
        let opened = match proven.as_ref()? {
            Proven::Whole(path, bytes) => {
                open_regular(path).map(|file| OpenPiece::new(file, piece.offset, *bytes))
            }
            Proven::Parts(parts) => OpenPiece::in_parts(parts),
        };
        opened.map_err(|error| self.note_unreadable(piece, &error)).ok()
    }

    /// Something is missing.
    pub(crate) fn note(&self, gap: Gap) {
        self.ground.note(gap);
    }

    /// Note a piece with invalid packets.
    pub(crate) fn note_unproven(&self, piece: &Piece<T>, why: String) {
        let name = self.ground.prover().map_or("", Prover::name);
        let number = piece.entry.as_ref().map_or(0, |entry| entry.number);
        let gap = Gap::new(name, number..number.saturating_add(1), Lack::Unproven, why);
        self.note(Gap { bytes: Some(piece.bytes), ..gap });
    }

    fn note_unreadable(&self, piece: &Piece<T>, error: &io::Error) {
        self.note(Gap::unreadable(&piece.path, piece.entry.as_ref().map(|entry| entry.number), error));
    }
}

/// An open file with a piece in it.
#[derive(Debug)]
pub(crate) struct OpenPiece {
    file: File,
    offset: u64,
    pub(crate) bytes: u64,
    parts: Option<Arc<Parts>>,
    /// The file to read from instead, if its own is damaged.
    instead: OnceLock<File>,
}

impl OpenPiece {
    fn new(file: File, offset: u64, bytes: u64) -> Self {
        Self { file, offset, bytes, parts: None, instead: OnceLock::new() }
    }

    fn in_parts(parts: &Arc<Parts>) -> io::Result<Self> {
        let file = match open_regular(parts.path()) {
            Ok(file) => file,
            // Other files cannot be opened either.
            Err(error) if is_of_this_process(&error) => return Err(error),
            Err(error) => open_regular(parts.seek().ok_or(error)?)?,
        };
        Ok(Self { parts: Some(Arc::clone(parts)), ..Self::new(file, 0, parts.bytes()) })
    }

    /// Read from `at` of the piece on; fewer bytes at its end, where the file was truncated, and before a damaged part.
    ///
    /// # Errors
    /// The part at `at` is damaged, or cannot be read.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let end = self.bytes.min(at.saturating_add(into.len() as u64));
        let end = self.parts.as_ref().map_or(end, |parts| parts.end(&self.file, at, end));
        let most = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        if most == 0 && !into.is_empty() && at < self.bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this part of the chunk is damaged"));
        }
        let (file, mut done) = (self.file()?, 0);
        while done < most {
            match read_at_in_turn(file, &mut into[done..most], self.offset + at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// The first byte from `from` to before `to` that can be read.
    pub(crate) fn begin(&self, from: u64, to: u64) -> Option<u64> {
        let to = to.min(self.bytes);
        match &self.parts {
            Some(parts) => parts.begin(&self.file, from, to),
            None => (from < to).then_some(from),
        }
    }

    /// The first bytes of a range that can be read, without a damaged part among them.
    pub(crate) fn run(&self, range: Range<u64>) -> Option<Range<u64>> {
        let to = range.end.min(self.bytes);
        let from = self.begin(range.start, to)?;
        Some(from..self.parts.as_ref().map_or(to, |parts| parts.end(&self.file, from, to)))
    }

    fn file(&self) -> io::Result<&File> {
        let Some(path) = self.parts.as_ref().and_then(|parts| parts.elsewhere()) else {
            return Ok(&self.file);
        };
        if let Some(file) = self.instead.get() {
            return Ok(file);
        }
        let file = open_regular(path)?;
        Ok(self.instead.get_or_init(|| file))
    }
}

/// Bytes of one read, which stay in the cache until their checksum is computed.
const PART_READ_BYTES: usize = 256 << 10;
/// Parts of a chunk, at most: others are verified as a whole.
const MAX_PARTS: usize = 1 << 14;
/// Damaged ranges that a gap names.
const MAX_NAMED_RANGES: usize = 8;

/// A chunk whose record has the checksums of its parts.
#[derive(Debug)]
pub(super) struct Parts {
    ground: Arc<Verification>,
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
    pub(super) fn of(ground: &Arc<Verification>, entry: &ChunkEntry) -> Option<Self> {
        let record = entry.record.as_ref().filter(|_| entry.bytes.is_some_and(|bytes| bytes > 0))?;
        let part_bytes = record.part_bytes();
        let count = record.bytes.div_ceil(part_bytes);
        if !(2..=MAX_PARTS).contains(&record.parts.len()) || record.parts.len() as u64 != count {
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
    pub(super) fn path(&self) -> &Path {
        &self.entry.path
    }

    /// The file that has its bytes instead.
    pub(super) fn elsewhere(&self) -> Option<&Path> {
        self.elsewhere.get()?.as_deref()
    }

    /// The same; it is sought now, if it was not yet.
    fn seek(&self) -> Option<&Path> {
        let find = || self.ground.prover()?.find_elsewhere(&self.entry);
        self.elsewhere.get_or_init(find).as_deref()
    }

    /// Bytes of the chunk, as recorded.
    pub(super) fn bytes(&self) -> u64 {
        self.entry.record.as_ref().map_or(0, |record| record.bytes)
    }

    /// The first byte from `from` to before `to` that is verified; its part is verified if it was not yet. `own` is the
    /// chunk's file.
    pub(super) fn begin(&self, own: &File, from: u64, to: u64) -> Option<u64> {
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
    pub(super) fn end(&self, own: &File, from: u64, to: u64) -> u64 {
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
        let is_found = self.seek().is_some();
        if !is_found {
            self.note(part);
        }
        is_found
    }

    /// The gap of the chunk grows by a part.
    fn note(&self, part: usize) {
        let mut damaged = lock(&self.damaged);
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
        let shown = runs.iter().take(MAX_NAMED_RANGES);
        let mut named: Vec<String> =
            shown.map(|run| format!("{} to {}", run.start, run.end.saturating_sub(1))).collect();
        if runs.is_empty() {
            return None;
        }
        if runs.len() > MAX_NAMED_RANGES {
            named.push(format!("{} more ranges", runs.len() - MAX_NAMED_RANGES));
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
pub(super) fn whole(record: &ChunkRecord) -> u32 {
    let (size, mut left) = (record.part_bytes(), record.bytes);
    record.parts.iter().fold(0, |crc, &part| {
        let length = size.min(left);
        left -= length;
        crc32c::crc32c_combine(crc, part, length as usize)
    })
}

/// CRC-32C of a range of a file.
fn checksum(file: &File, range: Range<u64>) -> io::Result<u32> {
    let mut buffer = vec![0; PART_READ_BYTES.min((range.end - range.start) as usize)];
    let (mut at, mut crc) = (range.start, 0);
    while at < range.end {
        let most = buffer.len().min((range.end - at) as usize);
        match read_at_in_turn(file, &mut buffer[..most], at) {
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

/// Shared by all pieces: their verifier, and the gaps.
#[derive(Debug)]
pub(super) struct Verification {
    gaps: Mutex<Vec<Gap>>,
    prover: Option<Prover>,
}

impl Verification {
    pub(super) fn new(gaps: Vec<Gap>, prover: Option<Prover>) -> Self {
        Self { gaps: Mutex::new(gaps), prover }
    }

    pub(super) fn gaps(&self) -> Vec<Gap> {
        lock(&self.gaps).clone()
    }

    pub(super) fn prover(&self) -> Option<&Prover> {
        self.prover.as_ref()
    }

    /// Something is missing.
    pub(super) fn note(&self, gap: Gap) {
        let mut gaps = lock(&self.gaps);
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }

    /// More is missing than was noted.
    pub(super) fn replace(&self, before: Option<&Gap>, now: Option<Gap>) {
        let mut gaps = lock(&self.gaps);
        match gaps.iter_mut().find(|gap| Some(&**gap) == before) {
            Some(gap) => now.into_iter().for_each(|now| *gap = now),
            None => gaps.extend(now),
        }
    }
}
