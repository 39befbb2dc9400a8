//! Own Reads: what has arrived of each, and when to ask again or give up.

use super::event::RemoteRead;
use crate::assembly::coverage::Coverage;
use crate::placement::{Grain, Nanos};
use std::collections::VecDeque;
use std::ops::Range;

/// Ranges of a Read asked for at a time.
pub(super) const MAX_ASKED: usize = 256;
/// Bytes asked for in a silence: the end of their answer shows what else is lost, and if the peer has only paused, no more comes twice.
pub(super) const PROBE_BYTES: u64 = 64 << 10;
/// So often the end of an answer, or a silence, makes a Read ask again before its time. From then on only the program's time decides.
const MAX_EARLY: u32 = 64;

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
    pub(super) requests: VecDeque<ReadAsked>,
    /// When to ask again.
    pub(super) again: Option<Nanos>,
    /// When to ask again if nothing is known by then.
    pub(super) regular: Nanos,
    /// Requests made.
    pub(super) asked: u32,
    /// Times that it asked early.
    early: u32,
}

impl PendingRead {
    pub(super) fn new(wanted: RemoteRead, runs: u32) -> PendingRead {
        let seen = Coverage::new(Grain::Bytes(runs), wanted.sink.length);
        PendingRead {
            wanted,
            seen,
            requests: VecDeque::new(),
            again: None,
            regular: Nanos(0),
            asked: 0,
            early: 0,
        }
    }

    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        self.seen.missing(0..self.wanted.sink.length)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.seen.bytes() == self.wanted.sink.length
    }

    /// At most `most` ranges to ask for now, one at least if anything is missing. If more are missing, those with the least between them
    /// are asked for as one.
    pub(super) fn to_ask(&self, most: usize) -> Vec<Range<u64>> {
        let (missing, most) = (self.missing(), most.max(1));
        if missing.len() <= most {
            return missing;
        }
        let mut breaks: Vec<usize> = (1..missing.len()).collect();
        breaks.sort_by_key(|&at| std::cmp::Reverse(missing[at].start - missing[at - 1].end));
        breaks.truncate(most - 1);
        breaks.sort_unstable();
        let firsts = std::iter::once(0).chain(breaks.iter().copied());
        let ends = breaks.iter().copied().chain([missing.len()]);
        firsts.zip(ends).map(|(first, end)| missing[first].start..missing[end - 1].end).collect()
    }

    /// The first missing ranges, at most `most` and `bytes` long together.
    pub(super) fn first_missing(&self, most: usize, mut bytes: u64) -> Vec<Range<u64>> {
        let mut ranges = self.missing();
        ranges.truncate(most);
        for range in &mut ranges {
            range.end = range.end.min(range.start + bytes);
            bytes -= range.end - range.start;
        }
        ranges.retain(|range| !range.is_empty());
        ranges
    }

    /// The answers to requests up to this number are over: what is missing after them is asked for at this time, if it is asked for
    /// again at all.
    pub(super) fn answers_over(&mut self, number: u64, at: Nanos) {
        if !self.is_waiting(number) && self.early < MAX_EARLY {
            self.again = self.again.map(|again| again.min(at));
        }
    }

    /// Whether the answers to requests up to this number are not all that is to come.
    fn is_waiting(&self, number: u64) -> bool {
        self.requests.back().is_some_and(|newest| newest.number > number)
    }

    /// Whether it waits for more than the answers up to this number, and asks again if they are lost.
    pub(super) fn may_probe(&self, number: u64) -> bool {
        self.again.is_some() && self.early < MAX_EARLY && self.is_waiting(number)
    }

    /// Its time has come, but answers that silence would show to be lost are still due: it waits another time. Returns whether it does.
    pub(super) fn postpone(&mut self, answered: u64, now: Nanos) -> bool {
        let after = self.wanted.ask_again.filter(|_| self.may_probe(answered));
        if let Some(after) = after {
            self.regular = now.plus(Nanos(after.0.max(1)));
            self.again = Some(self.regular);
        }
        after.is_some()
    }

    /// It asks before its time.
    pub(super) fn note_early(&mut self) {
        self.early += 1;
    }

    /// When something must be done for it.
    pub(super) fn due(&self) -> Nanos {
        self.again.map_or(self.wanted.deadline, |again| again.min(self.wanted.deadline))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::super::event::{MemorySlice, RemoteAddress};
    use super::*;

    /// A Read of 1000 bytes, with these arrived.
    fn read(arrived: &[Range<u64>]) -> PendingRead {
        let wanted = RemoteRead {
            sink: MemorySlice { memory: 0, start: 0, length: 1000 },
            from: RemoteAddress { stag: 1, offset: 0 },
            deadline: Nanos::SECOND,
            ask_again: Some(Nanos(1)),
        };
        let mut read = PendingRead::new(wanted, 64);
        arrived.iter().for_each(|range| read.seen.insert(range));
        read
    }

    #[test]
    fn ranges_with_the_least_between_them_are_asked_for_as_one() {
        let read = read(&[100..110, 200..300, 400..430, 500..505, 600..650]);
        assert_eq!(read.to_ask(6), [0..100, 110..200, 300..400, 430..500, 505..600, 650..1000]);
        assert_eq!(read.to_ask(4), [0..200, 300..400, 430..600, 650..1000]);
        assert_eq!(read.to_ask(2), [0..200, 300..1000]);
        assert_eq!(read.to_ask(1), [0..1000]);
        assert_eq!(read.to_ask(0), [0..1000]);
    }

    #[test]
    fn a_silence_asks_for_the_first_bytes_that_are_missing() {
        let read = read(&[100..110, 200..300]);
        assert_eq!(read.first_missing(9, 150), [0..100, 110..160]);
        assert_eq!(read.first_missing(9, 100), [0..100]);
        assert_eq!(read.first_missing(2, 5000), [0..100, 110..200]);
        assert_eq!(read.first_missing(0, 5000), []);
    }
}
