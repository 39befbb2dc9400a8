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

use super::finished::NUMBERS;
use crate::assembly::Retired;
use crate::placement::Nanos;
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
