//! The log of a program, as its one reader has it.

use crate::bpf::Words;
use skyhaul_core::placement::rule::{LOG_ENTRIES, LOG_HEAD, LOG_TAIL, LoggedPacket, LoggedRun};

/// What a program did with each packet, in order. See [`LoggedRun`].
#[derive(Debug)]
pub struct PlacementLog {
    words: Words,
    mask: u64,
    tail: u64,
}

impl PlacementLog {
    pub(super) fn new(words: Words, log: u32) -> PlacementLog {
        PlacementLog { words, mask: u64::from(log) - 1, tail: 0 }
    }

    fn at(&self, position: u64) -> usize {
        LOG_ENTRIES + (position & self.mask) as usize
    }

    /// The next run, if it is over.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<LoggedRun> {
        LoggedRun::read(self.words.get(self.at(self.tail)))
    }

    /// Takes the next run; `each` gets the packets that did not go up the socket, in order.
    pub fn take(&mut self, mut each: impl FnMut(LoggedPacket)) -> Option<LoggedRun> {
        let run = self.peek()?;
        for packet in 1..=run.packets {
            let at = self.at(self.tail + packet as u64);
            if packet > run.passed {
                each(LoggedPacket::read(self.words.get(at)));
            }
            self.words.set(at, 0);
        }
        self.words.set(self.at(self.tail), 0);
        self.tail += run.packets as u64 + 1;
        self.words.set(LOG_TAIL, self.tail);
        Some(run)
    }

    /// Words taken so far.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Words that runs have begun to write. What is placed in a slot that is closed now lies before them, once all runs that had
    /// begun are [over](super::PlacementProgram::quiesce).
    #[must_use]
    pub fn head(&self) -> u64 {
        self.words.get(LOG_HEAD)
    }
}
