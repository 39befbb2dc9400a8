//! What the window holds of an object: all of it while it is under construction, a place it may have jumped to, and what
//! is remembered of one that is gone.

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
    /// Whether a part may be written, of a packet that tells `size`.
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

    /// Nothing came for it: its only slot was dropped.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.bytes() == 0 && self.size != Some(0)
    }
}

/// A place the stream may have jumped to, and what speaks for it.
#[derive(Debug)]
pub(super) struct Suspect<B> {
    pub(super) live: Live<B>,
    /// It is behind the window: believing it begins a new epoch.
    pub(super) backward: bool,
    /// Packets that agree with it, since the window last accepted one.
    pub(super) packets: u32,
    /// The window has accepted packets since it was opened.
    pub(super) contradicted: bool,
    /// Packets since one agreed that name neither it nor the window.
    pub(super) against: u32,
}

/// What was there when an object retired, to tell a duplicate from a late packet.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub(super) number: u64,
    pub(super) seen: Coverage,
}
