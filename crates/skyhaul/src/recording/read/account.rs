//! The account of a reader: gaps, counts and notes, complete as far as its thread has read.

use crate::recording::contents::{Finding, Gap, MAX_FINDINGS};
use skyhaul_io::lock::lock;
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum number of gaps kept; further ones are only counted.
const MAX_GAPS: usize = 100_000;

/// Gaps, counts and notes of a reader.
#[derive(Debug, Default)]
struct Encountered {
    gaps: Vec<Gap>,
    gaps_total: u64,
    frames_filled: u64,
    frames_left_out: u64,
    more_may_be_missing: bool,
    from_other_copies: u64,
    notes: Vec<Finding>,
}

/// The gaps and counts of a reader, up to date for every holder of a clone.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Mutex<Encountered>>);

impl Account {
    fn met(&self) -> MutexGuard<'_, Encountered> {
        lock(&self.0)
    }

    /// The gaps encountered, from number `from` on (the first 100 000).
    #[must_use]
    pub fn gaps_from(&self, from: usize) -> Vec<Gap> {
        self.met().gaps.get(from..).unwrap_or_default().to_vec()
    }

    /// Number of gaps encountered.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.met().gaps_total
    }

    /// Frames marked invalid that were made in the place of missing ones.
    #[must_use]
    pub fn frames_filled(&self) -> u64 {
        self.met().frames_filled
    }

    /// Missing frames for which nothing is delivered, as far as their number is known.
    #[must_use]
    pub fn frames_left_out(&self) -> u64 {
        self.met().frames_left_out
    }

    /// Whether more frames may be missing than are counted: there is a gap across the end of a second, and nothing gives the frame rate.
    #[must_use]
    pub fn more_may_be_missing(&self) -> bool {
        self.met().more_may_be_missing
    }

    /// Chunks that were read from another copy, because the first one is missing, damaged or cannot be read.
    #[must_use]
    pub fn from_other_copies(&self) -> u64 {
        self.met().from_other_copies
    }

    pub(super) fn count_other_copy(&self) {
        self.met().from_other_copies += 1;
    }

    pub(super) fn note_open_gap(&self) {
        self.met().more_may_be_missing = true;
    }

    pub(super) fn add_frames(&self, filled: u64, left_out: u64) {
        let mut met = self.met();
        met.frames_filled = met.frames_filled.saturating_add(filled);
        met.frames_left_out = met.frames_left_out.saturating_add(left_out);
    }

    /// Findings without consequences: chunks under another name, files that are too long.
    #[must_use]
    pub fn notes_from(&self, from: usize) -> Vec<Finding> {
        self.met().notes.get(from..).unwrap_or_default().to_vec()
    }

    pub(in crate::recording) fn add(&self, gap: Gap) {
        let mut met = self.met();
        met.gaps_total += 1;
        if met.gaps.len() < MAX_GAPS {
            met.gaps.push(gap);
        }
    }

    pub(in crate::recording) fn note(&self, finding: Finding) {
        let mut met = self.met();
        if met.notes.len() < MAX_FINDINGS {
            met.notes.push(finding);
        }
    }
}
