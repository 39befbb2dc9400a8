//! Memory and open files of readers, kept from one read to the next.

use crate::recording::OpenPiece;
use std::sync::{Mutex, PoisonError};

/// So many are kept for the next reads.
const MOST: usize = 16;

/// What a worker needs while it reads.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Whole units, as read, and how many bytes of it are in use.
    pub(super) units: Vec<u8>,
    pub(super) used: usize,
    /// For each frame, for each thread: where in `units` it is.
    pub(super) places: Vec<Option<usize>>,
    /// How many of these are nowhere.
    pub(super) missing: usize,
    /// The piece that was read last, by its number.
    pub(super) open: Option<(usize, OpenPiece)>,
}

impl Scratch {
    /// Frames that have a place.
    pub(super) fn placed(&self) -> u64 {
        (self.places.len() - self.missing) as u64
    }
}

/// What earlier reads have left.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<Scratch>>);

impl Kept {
    pub(super) fn take(&self) -> Scratch {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(super) fn put(&self, scratch: Scratch) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST {
            kept.push(scratch);
        }
    }
}
