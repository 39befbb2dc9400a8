//! How objects retire: their range and missing parts, their cause, and timeouts.

use super::config::Counting;
use super::finished::Entry;
use super::index::Known;
use super::live::NONE;
use super::unconfirmed::Pace;
use super::{Cause, Keyed, Retired};
use crate::placement::{Key, Nanos};

impl<B> Keyed<B> {
    /// Retire the object with this key before its deadline. Does nothing if it is not live.
    pub fn give_up(&mut self, key: Key, now: Nanos) {
        self.now = self.now.max(now);
        if let Some(Known::Live(at)) = self.known(key) {
            self.retire(at, Cause::Timeout);
        }
    }

    /// Retire an object that arrived in one part and was never live.
    #[inline]
    pub(super) fn retire_whole(&mut self, key: Key, block: B, bytes: u64, first: Nanos, number_bits: u8) {
        if self.config.counting == Counting::Begun {
            self.make_way(key);
            self.table.pass(key);
        }
        let turn = self.take_turn(key, number_bits);
        self.finished.push(Entry::new(key, true, bytes, turn, self.now), &mut self.index);
        self.retired.push_back(Retired {
            key,
            epoch: 0,
            block,
            range: 0..bytes,
            size: Some(bytes),
            missing: Vec::new(),
            after: None,
            first,
            last: self.now,
            cause: Cause::Complete,
        });
    }

    /// Retire the live object at `at`.
    pub(super) fn retire(&mut self, at: u32, cause: Cause) {
        let live = self.table.at(at);
        let (key, size, first, last, turn) = (live.key, live.size, live.first, live.last, live.turn);
        let bytes = live.bytes();
        let missing = if live.seen.bytes() == bytes { Vec::new() } else { live.seen.missing(0..bytes) };
        if let Some(block) = self.discard(at) {
            let complete = cause == Cause::Complete;
            if complete || self.config.counting == Counting::Incomplete {
                self.finished.push(Entry::new(key, complete, bytes, turn, self.now), &mut self.index);
            }
            let (epoch, range, after) = (0, 0..bytes, None);
            let retired = Retired { key, epoch, block, range, size, missing, after, first, last, cause };
            self.retired.push_back(retired);
        }
    }

    /// Discard the live object at `at`.
    pub(super) fn discard(&mut self, at: u32) -> Option<B> {
        if self.hint == at {
            self.hint = NONE;
        }
        self.index.remove(self.table.at(at).key, Known::Live(at));
        self.unconfirmed.settle(&mut self.table.at_mut(at).unconfirmed);
        self.table.close(at)
    }
}

impl<B> Keyed<B> {
    /// Objects of 1 MiB and more of which less than half arrived hold at most `bytes` together: if they hold more, those that
    /// would not complete within their timeout at their pace retire ([`Cause::Window`]), the largest first, but none before
    /// an eighth of it.
    pub fn limit_unconfirmed(&mut self, bytes: u64) {
        self.unconfirmed.limit(bytes);
    }

    /// Retire unconfirmed objects until they hold no more than they may, or none of them is old enough.
    #[cold]
    pub(super) fn retire_unconfirmed(&mut self) {
        while self.unconfirmed.is_too_much() {
            if !self.retire_largest_unconfirmed() {
                return self.unconfirmed.rest(self.pace());
            }
        }
    }

    fn pace(&self) -> Pace {
        Pace::at(self.now, self.config.timeout)
    }

    /// Retire the largest that is too slow, of equal ones the oldest. Returns whether there is one.
    #[cold]
    pub(super) fn retire_largest_unconfirmed(&mut self) -> bool {
        if self.unconfirmed.bytes() == 0 {
            return false;
        }
        let pace = self.pace();
        let (mut next, mut most, mut largest) = (self.table.oldest(), 0, None);
        while let Some(at) = next {
            let live = self.table.at(at);
            if live.unconfirmed > most && pace.is_missed(live) {
                (most, largest) = (live.unconfirmed, Some(at));
            }
            next = self.table.newer(at);
        }
        largest.inspect(|&at| self.retire(at, Cause::Window)).is_some()
    }
}
