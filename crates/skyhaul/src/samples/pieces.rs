//! Files, and parts of files, that hold consecutive frames; each verified once, before it is used.

use crate::recording::{ChunkEntry, Gap, Prover, Times};
use skyhaul_io::disk::open_regular;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Consecutive frames in a file.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) path: PathBuf,
    /// Where its frames begin.
    pub(super) offset: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Unix second and frame number of its first and last frame, from the index.
    pub(super) times: Times,
    /// In a recording: what the index says of it.
    pub(super) entry: Option<Box<ChunkEntry>>,
    /// Number of its first frame; `None` if it has none.
    pub(super) first: OnceLock<Option<i64>>,
    /// The file that has been found to hold it; `None` if there is none.
    proven: OnceLock<Option<PathBuf>>,
}

impl Piece {
    pub(super) fn new(path: PathBuf, offset: u64, bytes: u64) -> Self {
        Self {
            path,
            offset,
            bytes,
            times: (None, None),
            entry: None,
            first: OnceLock::new(),
            proven: OnceLock::new(),
        }
    }
}

/// The pieces of a datastream in order of time, and what is missing between them.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: Vec<Piece>,
    gaps: Mutex<Vec<Gap>>,
    prover: Option<Prover>,
}

impl Pieces {
    pub(super) fn new(pieces: Vec<Piece>, gaps: Vec<Gap>, prover: Option<Prover>) -> Self {
        Self { pieces, gaps: Mutex::new(gaps), prover }
    }

    pub(super) fn all(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn gaps(&self) -> Vec<Gap> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A piece that nothing reads while it is not verified.
    pub(super) fn open_unverified(&self, piece: &Piece) -> io::Result<OpenPiece> {
        Ok(OpenPiece { file: open_regular(&piece.path)?, offset: piece.offset, bytes: piece.bytes })
    }

    /// A piece, verified if there is something to verify it with and `verify`; `None` if it is damaged: it is in the gaps
    /// then.
    pub(super) fn open(&self, piece: &Piece, verify: bool) -> Option<OpenPiece> {
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

    fn note(&self, gap: Gap) {
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }

    fn note_unreadable(&self, piece: &Piece, error: &io::Error) {
        self.note(Gap::unreadable(&piece.path, piece.entry.as_ref().map(|entry| entry.number), error));
    }
}

/// An open file with a piece in it.
#[derive(Debug)]
pub(super) struct OpenPiece {
    file: File,
    offset: u64,
    pub(super) bytes: u64,
}

impl OpenPiece {
    /// Read from `at` of the piece on; fewer bytes at its end, or where the file was truncated.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
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
