//! How to tell the parts of an object from parts with the same key that state another size.
//!
//! ```text
//!   a packet holds a whole object of 1000 bytes     ─▶ held ──── 10 ms ────▶ retired
//!   one with the same key states 3000 bytes         ─▶ live, contested
//!   another states 3000: two agree                  ─▶ live      the held one is dropped, its packet rejected
//! ```
//!
//! A packet with a damaged or forged size must neither replace the real object nor end it early. So each size is a
//! candidate with memory of its own, and the first size that two packets state wins. An object that arrives in a single
//! packet is accepted if no other candidate wins within [`contest`](super::KeyedConfig::contest).
//!
//! Limits: [`CANDIDATES`] candidates for one key. An attacker who sends two packets for a key before the sender can
//! replace its object.

use crate::assembly::Retired;
use crate::placement::Nanos;
use std::collections::VecDeque;

/// Maximum number of candidates of one key; packets that state yet another size are rejected.
pub(super) const CANDIDATES: usize = 4;

/// An object that arrived in one packet, and waits for the end of its contest.
#[derive(Debug)]
pub(super) struct Held<B> {
    pub(super) retired: Retired<B>,
    /// Index of its entry in [`Finished`](super::finished::Finished).
    pub(super) entry: u32,
    pub(super) due: Nanos,
}

/// The objects held, in order of arrival, and counters of what was dropped.
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

    /// When the next held object must be retired.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.held.front().map(|held| held.due)
    }

    pub(super) fn hold(&mut self, retired: Retired<B>, entry: u32, due: Nanos) {
        self.held.push_back(Held { retired, entry, due });
    }
}
