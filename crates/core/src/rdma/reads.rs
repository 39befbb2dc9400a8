//! Own Reads: what has arrived of each, and when to ask again or give up.

use super::event::RemoteRead;
use crate::assembly::coverage::Coverage;
use crate::placement::{Grain, Nanos};
use std::ops::Range;

/// Ranges asked for at a time; what is missing beyond them is part of the last.
const MAX_ASKED: usize = 4;

#[derive(Debug)]
pub(super) struct PendingRead {
    pub(super) wanted: RemoteRead,
    pub(super) seen: Coverage,
    /// One for each request.
    pub(super) stags: Vec<u32>,
    /// When to ask again.
    pub(super) again: Option<Nanos>,
    /// Requests made.
    pub(super) asked: u32,
}

impl PendingRead {
    pub(super) fn new(wanted: RemoteRead, runs: u32) -> PendingRead {
        let seen = Coverage::new(Grain::Bytes(runs), wanted.sink.length);
        PendingRead { wanted, seen, stags: Vec::new(), again: None, asked: 0 }
    }

    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        self.seen.missing(0..self.wanted.sink.length)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.seen.bytes() == self.wanted.sink.length
    }

    /// The ranges to ask for now, each at most `max_bytes`.
    pub(super) fn to_ask(&self) -> Vec<Range<u64>> {
        let mut ranges = self.missing();
        if let Some(end) = ranges.last().map(|last| last.end)
            && ranges.len() > MAX_ASKED
        {
            ranges.truncate(MAX_ASKED);
            ranges[MAX_ASKED - 1].end = end;
        }
        ranges
    }

    /// When something must be done for it.
    pub(super) fn due(&self) -> Nanos {
        self.again.map_or(self.wanted.deadline, |again| again.min(self.wanted.deadline))
    }
}
