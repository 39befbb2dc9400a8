//! The log of a program, as its one reader has it.

use crate::bpf::Words;
use skyhaul_core::placement::rule::{
    LOG_ENTRIES, LOG_HEAD, LOG_TAIL, LoggedPacket, LoggedRun, MAX_HEAD_BYTES, RuleLog,
};

/// What a program did with each packet, in order. See [`LoggedRun`].
#[derive(Debug)]
pub struct PlacementLog {
    words: Words,
    mask: u64,
    /// Words of a packet.
    each: usize,
    tail: u64,
}

impl PlacementLog {
    pub(super) fn new(words: Words, log: RuleLog) -> PlacementLog {
        let each = log.packet_words() as usize;
        PlacementLog { words, mask: u64::from(log.words) - 1, each, tail: 0 }
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

    /// Takes the next run; `each` gets the packets that did not go up the socket, in order, with what is kept of their heads: bytes
    /// in the order of the packet.
    pub fn take(&mut self, mut each: impl FnMut(LoggedPacket, &[u64])) -> Option<LoggedRun> {
        let run = self.peek()?;
        let mut head = [0; MAX_HEAD_BYTES as usize / 8];
        let head = &mut head[..self.each - 1];
        for packet in 0..run.packets {
            let position = self.tail + 1 + (packet * self.each) as u64;
            let at = self.at(position);
            if packet >= run.passed {
                (at + 1..).zip(&mut *head).for_each(|(at, word)| *word = self.words.get(at));
                each(LoggedPacket::read(self.words.get(at)), head);
            }
            // Each may be the first word of a run, and those behind the last one never are.
            (position..).take(self.each).for_each(|position| self.words.set(self.at(position), 0));
        }
        self.words.set(self.at(self.tail), 0);
        self.tail += (run.packets * self.each) as u64 + 1;
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
