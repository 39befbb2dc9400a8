//! Parts with one key that state different sizes: which of them are the object's.
//!
//! ```text
//!   a packet states 1000 bytes, and has them all    ─▶ held ──── 10 ms ────▶ retired
//!   one of the same key states 3000                 ─▶ live, contested
//!   another states 3000: two agree                  ─▶ live      held one dropped, its packet rejected
//! ```
//!
//! A packet whose size is damaged or forged must neither take the place of its object nor end it before its time. So
//! each size is a candidate with memory of its own, and the first that two packets agree on is the object. One packet that
//! is an object by itself is believed if nothing contradicts it for [`contest`](super::KeyedConfig::contest).
//!
//! Limits: [`CANDIDATES`] for one key. Who can send two packets for each key can replace any object.

use crate::assembly::Retired;
use crate::placement::Nanos;
use std::collections::VecDeque;

/// Sizes of one key, at most; packets that state yet another are rejected.
pub(super) const CANDIDATES: usize = 4;

/// An object that arrived in one packet.
#[derive(Debug)]
pub(super) struct Held<B> {
    pub(super) retired: Retired<B>,
    /// Its entry among the finished.
    pub(super) entry: u32,
    pub(super) due: Nanos,
}

/// The objects that are held, in order of their arrival, and what was dropped.
#[derive(Debug)]
pub(super) struct Contest<B> {
    pub(super) held: VecDeque<Held<B>>,
    /// Packets and bytes of candidates that were dropped.
    pub(super) dropped: (u64, u64),
}

impl<B> Default for Contest<B> {
    fn default() -> Self {
        Self { held: VecDeque::new(), dropped: (0, 0) }
    }
}

impl<B> Contest<B> {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// When the next is to be retired.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.held.front().map(|held| held.due)
    }

    pub(super) fn hold(&mut self, retired: Retired<B>, entry: u32, due: Nanos) {
        self.held.push_back(Held { retired, entry, due });
    }
}
