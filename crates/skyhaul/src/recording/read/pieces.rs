//! Files that hold consecutive frames or packets, for readers that begin anywhere; each is verified once, before it is used:
//! as a whole, or part by part.

use crate::recording::open::Recording;
use crate::recording::open::entry::ChunkEntry;
use crate::recording::plan::gap::{Gap, Lack};
use crate::recording::read::ground::Ground;
use crate::recording::read::parts::Parts;
use crate::recording::read::piece::Times;
use crate::recording::verify::proof::{Prover, unverified_chunks};
use skyhaul_io::disk::open_regular;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Consecutive frames or packets in a file, and what its reader finds out about them.
#[derive(Debug)]
pub(crate) struct Piece<T> {
    pub(crate) path: PathBuf,
    /// Where they begin.
    pub(crate) offset: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Unix second and frame number of its first and last frame, from the index.
    pub(crate) times: Times,
    /// In a recording: what the index says of it.
    pub(crate) entry: Option<Box<ChunkEntry>>,
    /// What its reader knows of it.
    pub(crate) known: T,
    /// What verifies it; `None` if nothing does.
    proven: OnceLock<Option<Proven>>,
}

/// What is known of a piece's bytes.
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

/// The pieces of a datastream in order, and what is missing between them.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    pieces: Vec<Piece<T>>,
    ground: Arc<Ground>,
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
        let ground = Arc::new(Ground::new(gaps, prover));
        Self { pieces: pieces.collect(), ground }
    }
}

impl<T> Pieces<T> {
    /// Plain files, and what is known to be missing.
    pub(crate) fn of_files(pieces: Vec<Piece<T>>, gaps: Vec<Gap>) -> Self {
        Self { pieces, ground: Arc::new(Ground::new(gaps, None)) }
    }

    pub(crate) fn all(&self) -> &[Piece<T>] {
        &self.pieces
    }

    /// What is known of a piece, to be changed.
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

    /// A piece whose packets are not what they have to be.
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
        let file = open_regular(parts.path())?;
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
            match file.read_at(&mut into[done..most], self.offset + at + done as u64) {
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
