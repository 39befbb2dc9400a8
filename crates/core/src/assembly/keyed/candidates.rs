//! Candidates with the same key and different sizes, until one of them wins.

use super::KeyedWindow;
use super::contest::{CANDIDATES, Held};
use super::index::Known;
use crate::placement::{Key, Nanos, Placement, Reject};

impl<B> KeyedWindow<B> {
    /// The live object that the part belongs to, or `None` if the part begins one, and whether it has rivals.
    pub(super) fn find_sized(&mut self, part: &Placement, size: u64) -> Result<(Option<u32>, bool), Reject> {
        let (key, mut rivals, mut is_settled) = (part.key, 0, false);
        let found = self.index.find(self.index.hash(key), |known| match known {
            Known::Live(at) => {
                let live = self.table.at(at);
                let is_same = live.key == key && live.size == Some(size);
                if live.key == key && !is_same {
                    rivals += 1;
                    is_settled |= live.packets > 1;
                }
                is_same
            }
            Known::Finished(at) => {
                let is_it = self.finished.is(at, key, self.now, &self.laps);
                rivals += usize::from(is_it && !self.finished.may_be(at, size));
                is_it && self.finished.may_be(at, size)
            }
        });
        match found {
            Some(Known::Finished(at)) if self.finished.differs(at, size) => Err(Reject::WrongSize),
            Some(Known::Finished(at)) => Err(self.finished.refuse(at, part.length, self.now, &mut self.laps)),
            Some(Known::Live(at)) => Ok((Some(at), rivals > 0)),
            None if is_settled || rivals >= CANDIDATES => Err(Reject::WrongSize),
            None => {
                if rivals > 0 {
                    self.contest(key);
                }
                Ok((None, rivals > 0))
            }
        }
    }

    /// Mark all candidates of this key as contested.
    #[cold]
    fn contest(&mut self, key: Key) {
        let (table, finished, now, laps) = (&mut self.table, &mut self.finished, self.now, &self.laps);
        self.index.find(self.index.hash(key), |known| {
            match known {
                Known::Live(at) if table.at(at).key == key => table.at_mut(at).contested = true,
                Known::Finished(at) if finished.is(at, key, now, laps) => finished.contest(at),
                _ => {}
            }
            false
        });
    }

    /// Whether the live object at `at` is one of several candidates of its key.
    pub(super) fn has_rival(&self, at: u32) -> bool {
        let live = self.table.at(at);
        let is_rival = |known| match known {
            Known::Live(other) => other != at && self.table.at(other).key == live.key,
            Known::Finished(other) => self.finished.is_held(other, live.key),
        };
        live.contested && self.index.find(self.index.hash(live.key), is_rival).is_some()
    }

    /// Whether an object with this key is live.
    fn is_live(&self, key: Key) -> bool {
        let is_it = |known| matches!(known, Known::Live(at) if self.table.at(at).key == key);
        self.index.find(self.index.hash(key), is_it).is_some()
    }

    /// The live candidate at `at` has ended, and no second packet of it came.
    #[cold]
    pub(super) fn end_candidate(&mut self, at: u32) {
        let key = self.table.at(at).key;
        self.drop_candidate(at);
        if self.is_live(key) {
            return;
        }
        let mut first = None;
        self.index.find(self.index.hash(key), |known| {
            if let Known::Finished(at) = known
                && self.finished.is_held(at, key)
            {
                first = Some(first.map_or(at, |first| self.finished.earlier(first, at)));
            }
            false
        });
        // One that is not disputed yet still waits for rivals.
        if let Some(held) = first.and_then(|at| self.contest.disputed.take(at)) {
            self.accept(held);
        }
    }

    /// The live candidate at `at` is not the object.
    fn drop_candidate(&mut self, at: u32) {
        let (packets, bytes) = (self.table.at(at).packets, self.table.at(at).seen.bytes());
        drop(self.discard(at));
        self.contest.dropped.0 += packets;
        self.contest.dropped.1 += bytes;
    }

    /// The object of this key has `size` bytes: its other candidates are dropped.
    #[cold]
    pub(super) fn win(&mut self, key: Key, size: u64) {
        loop {
            let loser = self.index.find(self.index.hash(key), |known| match known {
                Known::Live(at) => self.table.at(at).key == key && self.table.at(at).size != Some(size),
                Known::Finished(_) => false,
            });
            let Some(Known::Live(at)) = loser else { break };
            self.drop_candidate(at);
        }
        loop {
            let loser = self.index.find(self.index.hash(key), |known| match known {
                Known::Live(_) => false,
                Known::Finished(at) => self.finished.is_held(at, key) && self.finished.differs(at, size),
            });
            let Some(Known::Finished(at)) = loser else { break };
            self.finished.lose(at);
            if let Some(held) = self.contest.take(at) {
                self.contest.dropped.0 += 1;
                self.contest.dropped.1 += held.retired.received();
            }
        }
    }

    /// Whether a held object is due, or its rivals could no longer be recognised.
    #[inline]
    pub(super) fn is_release_due(&self) -> bool {
        let is_due = |held: &Held<B>| held.due <= self.now || self.finished.has_left(held.entry);
        self.contest.undisputed.front().is_some_and(is_due)
            || self.contest.disputed.front().is_some_and(is_due)
    }

    /// Retire held objects that are due by `until` and have no live rival. Those that have one are disputed: they wait for
    /// the end of their rivals, which comes within the timeout.
    pub(super) fn release(&mut self, until: Nanos) {
        let time = self.config.timeout.unwrap_or(Nanos::SECOND);
        while let Some(held) = self.contest.undisputed.front() {
            let has_left = self.finished.has_left(held.entry);
            if held.due > until && !has_left {
                break;
            }
            let waits = !has_left && self.finished.is_contested(held.entry) && self.is_live(held.retired.key);
            let Some(mut held) = self.contest.undisputed.pop() else { break };
            if waits {
                held.due = held.due.plus(time);
                self.contest.disputed.push(held);
            } else {
                self.accept(held);
            }
        }
        while let Some(held) = self.contest.disputed.front()
            && (held.due <= self.now || self.finished.has_left(held.entry))
        {
            let Some(held) = self.contest.disputed.pop() else { break };
            self.accept(held);
        }
    }

    /// Retire all held objects, oldest first.
    pub(super) fn release_all(&mut self) {
        while let Some(held) = self.contest.pop() {
            self.accept(held);
        }
    }

    /// No rival of this held object was confirmed: it is the object.
    fn accept(&mut self, held: Held<B>) {
        let Held { retired, entry, .. } = held;
        let is_contested = self.finished.is_contested(entry);
        self.finished.release(entry, self.now);
        if is_contested {
            self.win(retired.key, retired.range.end);
        }
        self.retired.push_back(retired);
    }

    /// Returns the number of packets, and of bytes in them, that were accepted for candidates that lost, since the last
    /// call.
    pub fn take_dropped(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.contest.dropped)
    }
}
