//! What a reader meets besides bytes: gaps, and what did no harm.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::recording::plan::gap::Gap;
use crate::recording::verify::finding::{Finding, MOST_FINDINGS};

/// What a reader encountered besides data.
#[derive(Debug, Default)]
struct Met {
    gaps: Vec<Gap>,
    gaps_total: u64,
    frames_filled: u64,
    frames_left_out: u64,
    notes: Vec<Finding>,
}

/// What a reader encounters, available at once to every holder of this.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Mutex<Met>>);

impl Account {
    fn met(&self) -> MutexGuard<'_, Met> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Missing frames for which nothing is given, as far as their number is known.
    #[must_use]
    pub fn frames_left_out(&self) -> u64 {
        self.met().frames_left_out
    }

    pub(in crate::recording) fn add_frames(&self, filled: u64, left_out: u64) {
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
        if met.gaps.len() < MOST_GAPS {
            met.gaps.push(gap);
        }
    }

    pub(in crate::recording) fn note(&self, finding: Finding) {
        let mut met = self.met();
        if met.notes.len() < MOST_FINDINGS {
            met.notes.push(finding);
        }
    }
}

/// A gap that ended a stream ([`Missing::Refuse`](super::Missing::Refuse)).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}\nhint: `skyhaul check` lists all damage; reading can continue if gaps are skipped or filled")]
pub struct Damaged(pub Gap);

/// Maximum number of gaps kept; further ones are only counted.
const MOST_GAPS: usize = 100_000;
