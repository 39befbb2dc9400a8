//! How objects retire: their range and missing parts, their cause, and timeouts.

use super::config::Counting;
use super::contest::Held;
use super::finished::Entry;
use super::index::Known;
use super::live::NONE;
use super::unconfirmed::{EVIDENCE, Pace};
use super::{Cause, KeyedWindow, Retired};
use crate::placement::{Key, Nanos};
use std::ops::Range;

impl<B> KeyedWindow<B> {
    /// Retire the object with this key before its deadline. Does nothing if it is not live.
    pub fn give_up(&mut self, key: Key, now: Nanos) {
        self.now = self.now.max(now);
        if let Some(Known::Live(at)) = self.known(key) {
            self.retire(at, Cause::Timeout);
        }
    }

    /// Retire an object that arrived in one part and was never live.
    #[inline]
    pub(super) fn retire_whole(
        &mut self,
        key: Key,
        block: B,
        bytes: u64,
        (first, number_bits): (Nanos, u8),
        (packets, contested): (u64, bool),
    ) {
        if self.config.counting == Counting::Begun {
            self.make_way(key);
            self.table.pass(key);
        }
        let turn = self.take_turn(key, number_bits);
        let retired = Retired {
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
        };
        let entry = Entry::new(key, true, bytes, turn, self.now);
        match self.config.contest {
            Some(time) if packets == 1 && self.config.remember > 0 => {
                let entry = self.finished.push(entry.held(), None, &mut self.index);
                if contested {
                    self.finished.contest(entry);
                }
                self.contest.undisputed.push(Held { retired, entry, due: self.now.plus(time) });
                if self.is_release_due() {
                    self.release(self.now);
                }
            }
            _ => {
                self.finished.push(entry, None, &mut self.index);
                self.retired.push_back(retired);
            }
        }
    }

    /// Retire the live object at `at`. Of several candidates that nothing confirmed, only the last is taken for the object.
    pub(super) fn retire(&mut self, at: u32, cause: Cause) {
        if cause != Cause::Complete && self.has_rival(at) {
            return self.end_candidate(at);
        }
        let live = self.table.at(at);
        let (key, size, first, last, turn) = (live.key, live.size, live.first, live.last, live.turn);
        let bytes = live.bytes();
        let missing = if live.seen.bytes() == bytes { Vec::new() } else { live.seen.missing(0..bytes) };
        let complete = cause == Cause::Complete;
        if complete || self.config.counting == Counting::Incomplete {
            let entry = Entry::new(key, complete, bytes, turn, self.now);
            self.finished.push(entry, Some(Known::Live(at)), &mut self.index);
        } else {
            self.index.remove(key, Known::Live(at));
        }
        if let Some(block) = self.close(at) {
            let (epoch, range, after) = (0, 0..bytes, None);
            let retired = Retired { key, epoch, block, range, size, missing, after, first, last, cause };
            self.retired.push_back(retired);
        }
    }

    /// Discard the live object at `at`.
    pub(super) fn discard(&mut self, at: u32) -> Option<B> {
        self.index.remove(self.table.at(at).key, Known::Live(at));
        self.close(at)
    }

    /// The same after it has left the index.
    fn close(&mut self, at: u32) -> Option<B> {
        if self.hint == at {
            self.hint = NONE;
        }
        self.unconfirmed.settle(&mut self.table.at_mut(at).unconfirmed);
        self.table.close(at)
    }
}

impl<B> KeyedWindow<B> {
    /// Limits the memory of unconfirmed objects (1 MiB or more, less than half received) to `bytes` in total. If they
    /// hold more, those that are too slow retire ([`Cause::Window`]), largest first, but none before an eighth of the
    /// timeout. An object is too slow if it would receive neither all of its bytes nor 16 MiB within the timeout. An
    /// object that announces more than `staged` bytes gets memory for 1/256 of them at first, and for all when half of
    /// that has arrived.
    pub fn limit_announced(&mut self, bytes: u64, staged: u64) {
        self.unconfirmed.limit(bytes, staged);
    }

    /// Whether an object that announces `size` bytes may get memory for `bytes` of them. It may if that is a small
    /// fraction, if enough of the object has arrived, or if the limit for unconfirmed objects has room; too slow
    /// objects retire to make room.
    #[inline]
    pub(super) fn may_announce(&mut self, bytes: u64, part: &Range<u64>, size: u64) -> bool {
        let arrived = part.end - part.start;
        let is_little = bytes <= (size / EVIDENCE).max(arrived);
        is_little || self.unconfirmed.is_earned(arrived, size) || self.unconfirmed.has_room(bytes) || {
            self.unconfirmed.refuse(self.now);
            self.retire_largest_unconfirmed();
            self.unconfirmed.has_room(bytes)
        }
    }

    /// Retire unconfirmed objects until the rest is within the limit, or none of them is too slow.
    #[cold]
    pub(super) fn retire_unconfirmed(&mut self) {
        while self.unconfirmed.is_too_much() {
            if !self.retire_largest_unconfirmed() {
                return self.unconfirmed.rest(self.pace());
            }
        }
    }

    fn pace(&self) -> Pace {
        Pace::at(self.now, self.config.timeout, self.unconfirmed.refused())
    }

    /// Retire the largest unconfirmed object that is too slow; of equally large ones the oldest. Returns whether there
    /// was one.
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
