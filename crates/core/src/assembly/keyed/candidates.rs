//! Candidates with the same key and different sizes, until one of them wins.

use super::KeyedWindow;
use super::contest::{CANDIDATES, Held};
use super::index::Known;
use crate::placement::{Key, Placement, Reject};

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
            Known::Finished(_) => false,
        };
        live.contested
            && (self.index.find(self.index.hash(live.key), is_rival).is_some()
                || self.contest.held.iter().any(|held| held.retired.key == live.key))
    }

    /// The live candidate at `at` is not the object.
    pub(super) fn drop_candidate(&mut self, at: u32) {
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
        let is_rival = |held: &Held<B>| held.retired.key == key && held.retired.size != Some(size);
        while let Some(at) = self.contest.held.iter().position(is_rival) {
            if let Some(held) = self.contest.held.remove(at) {
                self.finished.give_way(held.entry, key);
                self.contest.dropped.0 += 1;
                self.contest.dropped.1 += held.retired.received();
            }
        }
    }

    /// Retire held objects whose time has passed, and those in excess of `remember`, because their rivals could no
    /// longer be recognised. With `all`, retire every held object.
    pub(super) fn release(&mut self, all: bool) {
        let most = self.config.remember;
        while self.contest.due().is_some_and(|due| all || due <= self.now || self.contest.len() > most) {
            let Some(Held { retired, entry, .. }) = self.contest.held.pop_front() else { break };
            if self.finished.release(entry, retired.key) {
                // It was contested, but no rival was confirmed.
                self.win(retired.key, retired.range.end);
            }
            self.retired.push_back(retired);
        }
    }

    /// Returns the number of packets, and of bytes in them, that were accepted for candidates that lost, since the last
    /// call.
    pub fn take_dropped(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.contest.dropped)
    }
}
