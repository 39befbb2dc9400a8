//! Files that hold consecutive frames or packets, for readers that begin anywhere; each verified once, before it is used.

use super::entry::ChunkEntry;
use super::gap::{Gap, Lack};
use super::open::Recording;
use super::piece::Times;
use super::proof::{Prover, unverified_chunks};
use skyhaul_io::disk::open_regular;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

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
    /// The file that has been found to hold it; `None` if there is none.
    proven: OnceLock<Option<PathBuf>>,
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
    gaps: Mutex<Vec<Gap>>,
    prover: Option<Prover>,
}

impl<T: Default> Pieces<T> {
    /// The chunks of a datastream, by its index in `datastreams`.
    pub(crate) fn of_recording(recording: &Recording, datastream: usize) -> Self {
        let (chunks, gaps) = unverified_chunks(recording, datastream);
        let pieces = chunks.into_iter().map(|entry| {
            let record = entry.record.as_ref();
            let length = record.map_or(entry.bytes, |record| Some(record.bytes.min(entry.bytes?)));
            let meta = record.map(|record| &record.meta);
            let mut piece = Piece::new(entry.path.clone(), 0, length.unwrap_or_default());
            piece.times = meta.map_or((None, None), |meta| (meta.first_time, meta.last_time));
            piece.entry = Some(Box::new(entry));
            piece
        });
        let prover = Some(Prover::new(recording, datastream));
        Self { pieces: pieces.collect(), gaps: Mutex::new(gaps), prover }
    }
}

impl<T> Pieces<T> {
    /// Plain files, and what is known to be missing.
    pub(crate) fn of_files(pieces: Vec<Piece<T>>, gaps: Vec<Gap>) -> Self {
        Self { pieces, gaps: Mutex::new(gaps), prover: None }
    }

    pub(crate) fn all(&self) -> &[Piece<T>] {
        &self.pieces
    }

    /// What is known of a piece, to be changed.
    pub(crate) fn known_mut(&mut self, piece: usize) -> &mut T {
        &mut self.pieces[piece].known
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A piece that nothing reads while it is not verified.
    pub(crate) fn open_unverified(&self, piece: &Piece<T>) -> io::Result<OpenPiece> {
        Ok(OpenPiece { file: open_regular(&piece.path)?, offset: piece.offset, bytes: piece.bytes })
    }

    /// A piece, verified if there is something to verify it with and `verify`; `None` if it is damaged: it is in the gaps
    /// then.
    pub(crate) fn open(&self, piece: &Piece<T>, verify: bool) -> Option<OpenPiece> {
        let (Some(prover), Some(entry), true) = (&self.prover, &piece.entry, verify) else {
            return self.open_unverified(piece).map_err(|error| self.note_unreadable(piece, &error)).ok();
        };
        let proven = piece.proven.get_or_init(|| match prover.prove(entry) {
            Ok((path, unverified)) => {
                unverified.into_iter().for_each(|gap| self.note(gap));
                Some(path)
            }
            Err(gap) => {
                self.note(*gap);
                None
            }
        });
        let file =
            open_regular(proven.as_ref()?).map_err(|error| self.note_unreadable(piece, &error)).ok()?;
        Some(OpenPiece { file, offset: piece.offset, bytes: piece.bytes })
    }

    /// Something is missing.
    pub(crate) fn note(&self, gap: Gap) {
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }

    /// A piece whose packets are not what they have to be.
    pub(crate) fn note_unproven(&self, piece: &Piece<T>, why: String) {
        let name = self.prover.as_ref().map_or_else(String::new, |prover| prover.name().to_owned());
        let number = piece.entry.as_ref().map_or(0, |entry| entry.number);
        let gap = Gap::new(&name, number..number.saturating_add(1), Lack::Unproven, why);
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
}

impl OpenPiece {
    /// Read from `at` of the piece on; fewer bytes at its end, or where the file was truncated.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX).min(into.len());
        let mut done = 0;
        while done < most {
            match self.file.read_at(&mut into[done..most], self.offset + at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}
