//! What a reader meets besides bytes: gaps, and what did no harm.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::finding::{Finding, MOST_FINDINGS};
use super::gap::Gap;

/// What a reader met besides bytes.
#[derive(Debug, Default)]
struct Met {
    gaps: Vec<Gap>,
    gaps_total: u64,
    notes: Vec<Finding>,
}

/// What a reader meets: told as it is met, whoever holds this.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Mutex<Met>>);

impl Account {
    fn met(&self) -> MutexGuard<'_, Met> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gaps from number `from` on of those that were met (the first 100 000).
    #[must_use]
    pub fn gaps_from(&self, from: usize) -> Vec<Gap> {
        self.met().gaps.get(from..).unwrap_or_default().to_vec()
    }

    /// How many gaps were met.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.met().gaps_total
    }

    /// What else was found on the way, and did no harm: chunks under another name, files that are too long.
    #[must_use]
    pub fn notes_from(&self, from: usize) -> Vec<Finding> {
        self.met().notes.get(from..).unwrap_or_default().to_vec()
    }

    pub(super) fn add(&self, gap: Gap) {
        let mut met = self.met();
        met.gaps_total += 1;
        if met.gaps.len() < MOST_GAPS {
            met.gaps.push(gap);
        }
    }

    pub(super) fn note(&self, finding: Finding) {
        let mut met = self.met();
        if met.notes.len() < MOST_FINDINGS {
            met.notes.push(finding);
        }
    }
}

/// A gap that ended a stream ([`Missing::Refuse`](super::Missing::Refuse)).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}\nhint: `skyhaul check` says all that is amiss; a reader that may skip or fill goes on")]
pub struct Damaged(pub Gap);

/// Gaps that are kept; more are counted only.
const MOST_GAPS: usize = 100_000;
