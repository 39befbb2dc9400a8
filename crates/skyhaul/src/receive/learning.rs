//! A sender's first packets, held until its format is known.
//!
//! No packet is lost while the format is unknown: packets are kept in one bounded arena, and placed as soon as the
//! [`Learner`] concludes.

use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{LearnOptions, Learner, StreamFormat};

/// Maximum number of bytes held for one sender.
const HOLD_BYTES: usize = 2 << 20;
/// Maximum time before a conclusion from the packets so far.
const STUDY: Nanos = Nanos::SECOND;

#[derive(Debug)]
pub(super) struct Learning {
    learner: Learner,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// When the kernel received them: the first packet of each arrival, and its time.
    arrivals: Vec<(usize, Option<Nanos>)>,
    since: Nanos,
}

impl Learning {
    pub(super) fn new(options: &LearnOptions, now: Nanos) -> Self {
        Self {
            learner: Learner::new(options.clone()),
            bytes: Vec::new(),
            ends: Vec::new(),
            arrivals: Vec::new(),
            since: now,
        }
    }

    /// Keep one more packet, which the kernel received at `arrived`; `false` if there is no room.
    pub(super) fn hold(&mut self, packet: &[u8], arrived: Option<Nanos>) -> bool {
        if self.is_full() {
            return false;
        }
        if self.arrivals.last().is_none_or(|(_, time)| *time != arrived) {
            self.arrivals.push((self.ends.len(), arrived));
        }
        self.learner.observe(packet);
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
        true
    }

    /// The format, once known, or the reason why there is none. `crowded`: conclude from the packets so far.
    pub(super) fn conclusion(&self, now: Nanos, crowded: bool) -> Option<Result<StreamFormat, Reject>> {
        self.learner.conclude(self.is_full() || crowded || now.since(self.since) >= STUDY)
    }

    /// Whether no more packets can be held.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= HOLD_BYTES
    }

    /// Whether it is half full.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes.len() >= HOLD_BYTES / 2
    }

    /// Whether the packets agree so well that the conclusion was not forced by time or lack of room.
    pub(super) fn is_sure(&self) -> bool {
        matches!(self.learner.conclude(false), Some(Ok(_)))
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Packets held.
    pub(super) fn held(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The held packets in order of arrival, and when the kernel received them.
    pub(super) fn packets(&self) -> impl Iterator<Item = (&[u8], Option<Nanos>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut arrivals = self.arrivals.iter().peekable();
        let mut arrived = None;
        starts.zip(&self.ends).enumerate().map(move |(at, (start, &end))| {
            while let Some((_, time)) = arrivals.next_if(|(first, _)| *first <= at) {
                arrived = *time;
            }
            (&self.bytes[start..end], arrived)
        })
    }
}
