//! A sender's first packets, held until its format is clear.
//!
//! Nothing of a stream may be lost because we do not know it yet: the packets are kept, in one bounded arena,
//! and placed as soon as the [`Learner`] concludes.

use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{LearnOptions, Learner, StreamFormat};

/// Most bytes held for one sender.
const HOLD_BYTES: usize = 2 << 20;
/// Longest time a sender is studied before what is there must do.
const STUDY: Nanos = Nanos::SECOND;

#[derive(Debug)]
pub(super) struct Learning {
    learner: Learner,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    since: Nanos,
}

impl Learning {
    pub(super) fn new(options: &LearnOptions, now: Nanos) -> Self {
        Self { learner: Learner::new(options.clone()), bytes: Vec::new(), ends: Vec::new(), since: now }
    }

    /// Keep one more packet; false if there is no room for it.
    pub(super) fn hold(&mut self, packet: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        self.learner.observe(packet);
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
        true
    }

    /// The format, once it is clear; or that there is none. `crowded`, what there is must do.
    pub(super) fn conclusion(&self, now: Nanos, crowded: bool) -> Option<Result<StreamFormat, Reject>> {
        self.learner.conclude(self.is_full() || crowded || now.since(self.since) >= STUDY)
    }

    /// Whether no more packets can be held.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= HOLD_BYTES
    }

    /// Whether half of what can be held is.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes.len() >= HOLD_BYTES / 2
    }

    /// Whether the packets agree so well that time and want of room had no part in the conclusion.
    pub(super) fn is_sure(&self) -> bool {
        matches!(self.learner.conclude(false), Some(Ok(_)))
    }

    /// How many bytes are held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many packets are held.
    pub(super) fn held(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The held packets in order of arrival.
    pub(super) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}
