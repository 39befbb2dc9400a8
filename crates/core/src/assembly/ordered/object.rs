//! The states of an object: live, suspect (the stream may have jumped there), and the tombstone of a retired
//! one.

use crate::assembly::coverage::Coverage;
use crate::placement::{Nanos, Reject};
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Live<B> {
    pub(super) number: u64,
    pub(super) block: B,
    pub(super) seen: Coverage,
    /// Everything before this offset was retired earlier.
    pub(super) from: u64,
    pub(super) size: Option<u64>,
    pub(super) first: Nanos,
    pub(super) last: Nanos,
}

impl<B> Live<B> {
    /// Check that a part may be written; its packet states `size`.
    #[inline(always)]
    pub(super) fn admits(&self, part: &Range<u64>, size: Option<u64>) -> Result<(), Reject> {
        let beyond = match (self.size, size) {
            (Some(size), _) => part.end > size,
            (None, Some(size)) => self.seen.high() > size,
            (None, None) => false,
        };
        if beyond {
            return Err(Reject::Outside);
        }
        if part.start < self.from {
            return Err(Reject::Late);
        }
        self.seen.admits(part)
    }

    /// Whether nothing was committed to it: its only slot was dropped.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.bytes() == 0 && self.size != Some(0)
    }
}

/// A place the stream may have jumped to, and the evidence for it.
#[derive(Debug)]
pub(super) struct Suspect<B> {
    pub(super) live: Live<B>,
    /// It is behind the window: confirming it begins a new epoch.
    pub(super) backward: bool,
    /// Packets that confirmed it since the window last accepted one.
    pub(super) packets: u32,
    /// The window has accepted packets since the suspect was opened.
    pub(super) contradicted: bool,
    /// Packets since the last confirmation that belong neither to it nor to the window.
    pub(super) against: u32,
}

/// What had arrived when an object retired, to tell a duplicate from a late packet.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub(super) number: u64,
    pub(super) seen: Coverage,
}
