//! Own Reads: what has arrived of each, and when to ask again or give up.

use super::event::RemoteRead;
use crate::assembly::coverage::Coverage;
use crate::placement::{Grain, Nanos};
use std::ops::Range;

/// Ranges asked for at a time; what is missing beyond them is part of the last.
pub(super) const MAX_ASKED: usize = 4;

/// A request whose answer may still come.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAsked {
    pub(super) stag: u32,
    /// Requests of a connection are numbered from 1.
    pub(super) number: u64,
    pub(super) at: Nanos,
}

#[derive(Debug)]
pub(super) struct PendingRead {
    pub(super) wanted: RemoteRead,
    pub(super) seen: Coverage,
    pub(super) requests: Vec<ReadAsked>,
    /// When to ask again.
    pub(super) again: Option<Nanos>,
    /// Requests made.
    pub(super) asked: u32,
}

impl PendingRead {
    pub(super) fn new(wanted: RemoteRead, runs: u32) -> PendingRead {
        let seen = Coverage::new(Grain::Bytes(runs), wanted.sink.length);
        PendingRead { wanted, seen, requests: Vec::new(), again: None, asked: 0 }
    }

    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        self.seen.missing(0..self.wanted.sink.length)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.seen.bytes() == self.wanted.sink.length
    }

    /// At most `most` ranges to ask for now, one at least if anything is missing.
    pub(super) fn to_ask(&self, most: usize) -> Vec<Range<u64>> {
        let (mut ranges, most) = (self.missing(), most.max(1));
        if let Some(end) = ranges.last().map(|last| last.end)
            && ranges.len() > most
        {
            ranges.truncate(most);
            ranges[most - 1].end = end;
        }
        ranges
    }

    /// The answers to requests up to this number are over: what is missing after them is asked for at this time, if it is asked for
    /// again at all.
    pub(super) fn answers_over(&mut self, number: u64, at: Nanos) {
        let is_over = self.requests.last().is_some_and(|newest| newest.number <= number);
        self.again = self.again.map(|again| if is_over { again.min(at) } else { again });
    }

    /// When something must be done for it.
    pub(super) fn due(&self) -> Nanos {
        self.again.map_or(self.wanted.deadline, |again| again.min(self.wanted.deadline))
    }
}
