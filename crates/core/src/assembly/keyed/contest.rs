//! How to tell the parts of an object from parts with the same key that state another size.
//!
//! ```text
//!   a packet holds a whole object of 1000 bytes     ─▶ held ──── 10 ms, nothing contradicts it ────▶ retired
//!   one with the same key states 3000 bytes         ─▶ live, contested: the held one waits for it
//!   another states 3000: two agree                  ─▶ live      the held one is dropped, its packet rejected
//!   or none does, until the deadline of the 3000    ─▶ dropped   the held one is retired
//! ```
//!
//! A packet with a damaged or forged size must neither replace the real object nor end it early. So each size is a
//! candidate with memory of its own, and the first size that two packets state wins. An object that arrives in a single
//! packet is accepted if no other candidate begins within [`contest`](super::KeyedConfig::contest). If one does, the sender
//! of either may be honest, and an honest one that paces its packets may need more than that time for its second. So
//! the single packet waits until its rivals have ended, by their deadline or by the window, at most the timeout of an
//! object longer than `contest`.
//!
//! Limits: [`CANDIDATES`] candidates for one key. An attacker who sends two packets for a key before the sender can
//! replace its object. One forged packet delays an object of a single packet, by the timeout at most, but it can neither
//! replace it nor make it incomplete. The objects that wait are no more than the rivals in the window, times `CANDIDATES`.

use super::KeyedWindow;
use super::finished::{Known, NUMBERS};
use crate::assembly::Retired;
use crate::placement::{Key, Nanos, Placement, Reject};
use std::collections::VecDeque;

/// Maximum number of candidates of one key; packets that state yet another size are rejected.
pub(super) const CANDIDATES: usize = 4;

/// An object that arrived in one packet, and waits for the end of its contest.
#[derive(Debug)]
pub(super) struct Held<B> {
    pub(super) retired: Retired<B>,
    /// Number of its entry in [`Finished`](super::finished::Finished).
    pub(super) entry: u32,
    /// When it is retired at the latest.
    pub(super) due: Nanos,
}

/// Held objects in the order of their entries, and of when they are due. One that leaves before its turn leaves a gap,
/// never at the front.
#[derive(Debug)]
pub(super) struct Queue<B> {
    held: VecDeque<(u32, Option<Held<B>>)>,
    len: usize,
}

impl<B> Default for Queue<B> {
    fn default() -> Self {
        Self { held: VecDeque::new(), len: 0 }
    }
}

impl<B> Queue<B> {
    pub(super) fn push(&mut self, held: Held<B>) {
        self.held.push_back((held.entry, Some(held)));
        self.len += 1;
    }

    pub(super) fn front(&self) -> Option<&Held<B>> {
        self.held.front().and_then(|(_, held)| held.as_ref())
    }

    pub(super) fn pop(&mut self) -> Option<Held<B>> {
        let held = self.held.pop_front().and_then(|(_, held)| held);
        self.close_up(held.is_some());
        held
    }

    /// Remove the object with this entry.
    pub(super) fn take(&mut self, entry: u32) -> Option<Held<B>> {
        let first = self.held.front()?.0;
        let place = |entry: u32| entry.wrapping_sub(first) % NUMBERS;
        let at = self.held.binary_search_by_key(&place(entry), |(entry, _)| place(*entry)).ok()?;
        let held = self.held[at].1.take();
        self.close_up(held.is_some());
        held
    }

    fn close_up(&mut self, one_left: bool) {
        self.len -= usize::from(one_left);
        while self.held.front().is_some_and(|(_, held)| held.is_none()) {
            self.held.pop_front();
        }
    }
}

/// The objects held, and counters of what was dropped.
#[derive(Debug)]
pub(super) struct Contest<B> {
    /// They are retired when they are due, unless a rival is live then.
    pub(super) undisputed: Queue<B>,
    /// They wait until their rivals have ended.
    pub(super) disputed: Queue<B>,
    /// Packets and bytes of candidates that were dropped.
    pub(super) dropped: (u64, u64),
}

impl<B> Default for Contest<B> {
    fn default() -> Self {
        Self { undisputed: Queue::default(), disputed: Queue::default(), dropped: (0, 0) }
    }
}

impl<B> Contest<B> {
    pub(super) fn len(&self) -> usize {
        self.undisputed.len + self.disputed.len
    }

    /// When the next held object is due.
    pub(super) fn due(&self) -> Option<Nanos> {
        [&self.undisputed, &self.disputed].into_iter().filter_map(|queue| Some(queue.front()?.due)).min()
    }

    /// Remove the object with this entry.
    pub(super) fn take(&mut self, entry: u32) -> Option<Held<B>> {
        self.undisputed.take(entry).or_else(|| self.disputed.take(entry))
    }

    /// The next object, in the order of arrival.
    pub(super) fn pop(&mut self) -> Option<Held<B>> {
        self.disputed.pop().or_else(|| self.undisputed.pop())
    }
}

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
