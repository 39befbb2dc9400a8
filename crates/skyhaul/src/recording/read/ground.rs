//! What the pieces of a datastream share while they are read from anywhere: what verifies them, and what is missing.

use crate::recording::plan::gap::Gap;
use crate::recording::verify::proof::Prover;
use std::sync::{Mutex, PoisonError};

/// What the pieces share: what verifies them, and what is missing.
#[derive(Debug)]
pub(in crate::recording) struct Ground {
    gaps: Mutex<Vec<Gap>>,
    prover: Option<Prover>,
}

impl Ground {
    pub(in crate::recording) fn new(gaps: Vec<Gap>, prover: Option<Prover>) -> Self {
        Self { gaps: Mutex::new(gaps), prover }
    }

    pub(in crate::recording) fn gaps(&self) -> Vec<Gap> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::recording) fn prover(&self) -> Option<&Prover> {
        self.prover.as_ref()
    }

    /// Something is missing.
    pub(in crate::recording) fn note(&self, gap: Gap) {
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }

    /// More is missing than was noted.
    pub(in crate::recording) fn replace(&self, before: Option<&Gap>, now: Option<Gap>) {
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        match gaps.iter_mut().find(|gap| Some(&**gap) == before) {
            Some(gap) => now.into_iter().for_each(|now| *gap = now),
            None => gaps.extend(now),
        }
    }
}
