//! Objects that have a key and no order (heaps, events, messages), each retired when it is complete.
//!
//! ```text
//!   packet of 41 ─┐                          window: a fixed maximum, oldest first
//!                 ├─▶ one look-up ─▶ live    │ 38 ██░██  40 ████░  41 █░░ │ ─▶ complete, or the window or its
//!                 │                  new ───▶│ opens when committed       │     deadline passed it ─▶ retired
//!                 │                  whole ─────────────────────────────────▶ retired: it was never live
//!                 └─▶ finished: late or a duplicate
//! ```
//!
//! * [`reserve`](super::Window::reserve) finds the place of a part, or rejects it, before a byte is written;
//!   [`commit`](super::Slot::commit) records the bytes as written. A slot dropped without a commit has no
//!   effect.
//! * Objects retire in any order, each once: their numbers do not define a sequence, so no object waits for
//!   another (decision 0007).
//! * An object of unknown size grows, and is retired by the window, its deadline or the end of the stream.
//! * Objects of which nothing arrived are counted from the gaps in their sender's counters:
//!   [`Sequence`](super::Sequence).
//! * Retired objects are remembered for `remember_for`, at most `remember` of them, by their whole key, so that a
//!   duplicate or late packet does not begin one again, and a new object is never rejected because of a hash
//!   collision. Where counters have few bits, at most a quarter of their period is remembered.
//!
//! The window never blocks, reads no clock and depends on no format. An object of one part costs one look-up and no
//! allocation; a part of the same object as the previous one costs no look-up. Memory is bounded: at most
//! `window` objects for each substream, each with one block and at most `runs` ranges, and `remember` keys.
//!
//! ```
//! use skyhaul_core::assembly::{Cause, KeyedWindow, KeyedConfig, Slot, Window};
//! use skyhaul_core::placement::{Key, Nanos, Placement};
//!
//! let mut heaps = KeyedWindow::<Vec<u8>>::new(KeyedConfig::default());
//! let key = Key::of(7);
//! for offset in [4, 0] {
//!     let part = Placement { key, offset, length: 4, size: Some(8), ..Placement::default() };
//!     // Memory for a new object, or more memory for one that has outgrown `old`.
//!     let room = |bytes: u64, old: Option<Vec<u8>>| {
//!         let mut block = old.unwrap_or_default();
//!         block.resize(bytes as usize, 0);
//!         Ok(block)
//!     };
//!     let mut slot = heaps.reserve(part, Nanos(0), room).unwrap();
//!     let range = slot.range();
//!     slot.block()[range.start as usize..range.end as usize].fill(1);
//!     slot.commit(Nanos(0));
//! }
//! let heap = heaps.poll_retired().unwrap();
//! assert_eq!((heap.key, heap.cause, heap.block), (key, Cause::Complete, vec![1; 8]));
//! ```

mod config;
mod contest;
mod finished;
mod index;
mod lent;
mod live;
mod shares;
mod slot;

pub use config::{Counting, KeyedConfig};
pub use live::EVIDENCE;
pub use slot::KeyedSlot;

use super::{Cause, Retired};
use crate::placement::{Key, Nanos, Placement, Reject};
use contest::{CANDIDATES, Contest, Held};
use finished::{Finished, Laps, PREPARED, Turn};
use index::{Index, Known};
use live::{NONE, Table, Unconfirmed};
use std::collections::VecDeque;
use std::ops::Range;

/// Objects under construction. See the [module](self).
#[derive(Debug)]
pub struct KeyedWindow<B> {
    config: KeyedConfig,
    index: Index,
    table: Table<B>,
    finished: Finished,
    laps: Laps,
    retired: VecDeque<Retired<B>>,
    unconfirmed: Unconfirmed,
    contest: Contest<B>,
    /// Packets and bytes of objects that gave their memory back.
    taken_back: (u64, u64),
    /// Slot of the object that the last part belonged to; nearly always that of the next part too.
    hint: u32,
    /// The latest time passed in. It never decreases, even if the clocks of several readers differ.
    now: Nanos,
}

impl<B> KeyedWindow<B> {
    /// An empty window.
    ///
    /// # Panics
    /// If [`KeyedConfig::check`] rejects the limits.
    #[must_use]
    pub fn new(config: KeyedConfig) -> Self {
        if let Err(why) = config.check() {
            panic!("{why}");
        }
        let live = config.window.saturating_mul(config.substreams as usize).min(256);
        Self {
            config,
            index: Index::new(config.remember.min(PREPARED) + live),
            table: Table::new(&config),
            finished: Finished::new(&config),
            laps: Laps::default(),
            retired: VecDeque::with_capacity(live),
            unconfirmed: Unconfirmed::default(),
            contest: Contest::default(),
            taken_back: (0, 0),
            hint: NONE,
            now: Nanos(0),
        }
    }

    #[inline]
    fn known(&self, key: Key, hash: u32) -> Option<Known> {
        self.index.find(hash, |known| match known {
            Known::Live(at) => self.table.at(at).key == key,
            Known::Finished(at) => self.finished.is(at, key, self.now, &self.laps),
        })
    }

    /// The live object with this key. If the object is finished, `bytes` of it are rejected.
    #[inline]
    fn find(&mut self, key: Key, hash: u32, bytes: u64) -> Result<Option<u32>, Reject> {
        match self.known(key, hash) {
            Some(Known::Live(at)) => Ok(Some(at)),
            Some(Known::Finished(at)) => Err(self.finished.refuse(at, bytes, self.now, &mut self.laps)),
            None => Ok(None),
        }
    }

    /// Whether the live object at `at` is of the counter's previous period; if so, it has been retired.
    #[inline]
    fn gives_way(&mut self, at: u32) -> bool {
        let live = self.table.at(at);
        let gives = self.laps.is_given_up(live.key.source, live.turn);
        if gives {
            self.retire(at, Cause::Window);
        }
        gives
    }

    /// Returns the number of finished objects that arrived again in full at least [`RESTART`](Self::RESTART) after they
    /// were finished, since the last call. A network does not delay duplicates that long: the sender uses its counters
    /// again.
    pub fn take_repeated(&mut self) -> u64 {
        std::mem::take(&mut self.finished.repeated)
    }

    /// Finished objects that were forgotten within [`remember_for`](KeyedConfig::remember_for), because more than
    /// [`remember`](KeyedConfig::remember) newer ones were finished, since the last call.
    pub fn take_forgotten_early(&mut self) -> u64 {
        std::mem::take(&mut self.finished.forgotten_early)
    }

    /// Check that the part has a place in the live object at `at`, and grow the object if necessary.
    #[inline]
    fn admit(
        &mut self,
        at: u32,
        part: &Range<u64>,
        size: Option<u64>,
        room: &mut impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<(), Reject> {
        let live = self.table.at(at);
        match (live.size, size) {
            (Some(known), Some(told)) if known != told => return Err(Reject::WrongSize),
            (Some(known), None) if part.end > known => return Err(Reject::Outside),
            (None, Some(told)) if live.seen.high() > told => return Err(Reject::Outside),
            _ => {}
        }
        // An empty part covers nothing.
        let missed = match self.config.in_order {
            _ if part.is_empty() => Ok(()),
            true => in_order(part, live.seen.high()),
            false => live.seen.admits(part),
        };
        if missed.is_err_and(|why| why != Reject::OutOfOrder) {
            return missed;
        }
        let need = match live.size.or(size) {
            // Too little of the object has arrived to grow it, and this part fits.
            Some(all) if part.end <= live.room && !self.unconfirmed.is_earned(live.seen.bytes(), all) => {
                part.end
            }
            Some(all) => all,
            None => part.end,
        };
        if need > live.room {
            self.grow(at, need, size.is_some(), room)?;
        }
        if missed.is_err() {
            self.table.at_mut(at).miss(part.end, size);
        }
        missed
    }

    /// More memory for an object: its whole size if that is known, else at least twice what it has.
    fn try_grow(
        &mut self,
        at: u32,
        need: u64,
        told: bool,
        room: &mut impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<(), Reject> {
        if told && !self.unconfirmed.is_earned(self.table.at(at).seen.bytes(), need) {
            // Do not count this object meanwhile, or it might retire to make room for itself.
            self.unconfirmed.settle(&mut self.table.at_mut(at).unconfirmed);
            let may = self.may_announce(need, &(0..0), need);
            let live = self.table.at_mut(at);
            live.unconfirmed = self.unconfirmed.announce(if may { need } else { live.room });
            if !may {
                return Err(Reject::NoBuffer);
            }
        }
        let live = self.table.at_mut(at);
        let amply = if told { need } else { need.max(live.room.saturating_mul(2)).min(self.config.largest) };
        for bytes in std::iter::once(amply).chain((need < amply).then_some(need)) {
            match room(bytes, live.block.take()) {
                Ok(block) => {
                    (live.block, live.room) = (Some(block), bytes);
                    if told && live.seen.bytes() < bytes / 2 {
                        // Count it again, with all the memory that it has now.
                        self.unconfirmed.settle(&mut live.unconfirmed);
                        live.unconfirmed = self.unconfirmed.announce(bytes);
                    }
                    return Ok(());
                }
                Err(block) => live.block = block,
            }
            if live.block.is_none() {
                self.discard(at);
                break;
            }
        }
        self.unconfirmed.refuse(self.now);
        Err(Reject::NoBuffer)
    }

    /// Make an empty object live.
    #[inline]
    fn open(&mut self, (key, hash): (Key, u32), block: B, room: u64, first: Nanos, number_bits: u8) -> u32 {
        self.make_way(key);
        let turn = self.take_turn(key, number_bits);
        let at = self.table.open((key, hash), block, room, first, turn);
        self.table.at_mut(at).unconfirmed = self.unconfirmed.announce(room);
        self.index.insert(key, hash, Known::Live(at));
        self.hint = at;
        at
    }

    /// Count an object that begins. Where counters wrap around, a finished object may have the same key: forget it.
    #[inline(always)]
    fn take_turn(&mut self, key: Key, number_bits: u8) -> Turn {
        let turn = self.laps.begin(key, number_bits);
        if turn.is_counted() {
            let finished = &mut self.finished;
            self.index.find(self.index.hash(key), |known| {
                if let Known::Finished(at) = known {
                    finished.give_way(at, key);
                }
                false
            });
        }
        turn
    }

    /// If the window is full, retire its oldest object to make room for the one with this key.
    #[inline]
    fn make_way(&mut self, key: Key) {
        if let Some(oldest) = self.table.oldest_beyond(key) {
            self.retire(oldest, Cause::Window);
        }
    }

    /// Memory that will be read and written some objects from now. To prefetch it when an object begins takes the wait for memory
    /// out of the way of packets; the core has no instruction for that. `None`: it is in use already.
    #[inline]
    #[must_use]
    pub fn soon(&self) -> Option<[&[u64]; 2]> {
        let ahead = self.index.ahead()?;
        Some([ahead, self.finished.leaves_soon().map_or(ahead, |hash| self.index.line(hash))])
    }

    /// The parts that follow were sent by this host, from this port: of a full window, the object of a sender gives way who has more
    /// than half of it, if several share it.
    #[inline]
    pub fn sent_from(&mut self, host: u128, port: u16) {
        self.table.sent_from((host, port));
    }

    /// Number of objects under construction.
    #[must_use]
    pub fn live(&self) -> usize {
        self.table.len()
    }

    /// A packet of object `start` marks the start of its sender, perhaps after a restart: finished objects of
    /// this source may be sent again. Call it before `reserve`, for each such packet.
    ///
    /// If the start object is live, or was finished within [`RESTART`](Self::RESTART), this packet is another
    /// part of it or a duplicate. Later, the sender has restarted with the same counter. Live objects are
    /// kept while packets for them may still be under way; those of a numbered source to which nothing was
    /// added for `RESTART` are retired, so that packets sent now are not added to them.
    ///
    /// Returns whether this packet begins the start object, rather than continuing it.
    pub fn forget(&mut self, start: Key, now: Nanos) -> bool {
        self.now = self.now.max(now);
        match self.known(start, self.index.hash(start)) {
            Some(Known::Live(at)) if !self.is_over(at, start.source) => false,
            Some(Known::Finished(at)) if self.now.since(self.finished.when(at)) < Self::RESTART => false,
            _ => {
                let mut next = self.table.oldest();
                while let Some(at) = next {
                    next = self.table.newer(at);
                    if self.is_over(at, start.source) {
                        self.retire(at, Cause::Finish);
                    }
                }
                self.finished.forget(start.source);
                true
            }
        }
    }

    /// Whether the object at `at` belongs to this numbered source, and no packets for it can still be under way.
    fn is_over(&self, at: u32, source: u64) -> bool {
        let live = self.table.at(at);
        source != 0 && live.key.source == source && self.now.since(live.last) >= Self::RESTART
    }

    /// A start object that arrives within this time after it was finished is a duplicate: longer than a
    /// network delays duplicates, shorter than a program takes to restart.
    pub const RESTART: Nanos = finished::RESTART;

    /// The live object that the part belongs to, or `None` if the part begins one, and whether it has rivals.
    fn find_sized(&mut self, part: &Placement, hash: u32, size: u64) -> Result<(Option<u32>, bool), Reject> {
        let (key, mut rivals, mut is_settled) = (part.key, 0, false);
        let found = self.index.find(hash, |known| match known {
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
    fn has_rival(&self, at: u32) -> bool {
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
    fn end_candidate(&mut self, at: u32) {
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
    fn win(&mut self, key: Key, size: u64) {
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
    fn is_release_due(&self) -> bool {
        let is_due = |held: &Held<B>| held.due <= self.now || self.finished.has_left(held.entry);
        self.contest.undisputed.front().is_some_and(is_due)
            || self.contest.disputed.front().is_some_and(is_due)
    }

    /// Retire held objects that are due by `until` and have no live rival. Those that have one are disputed: they wait for
    /// the end of their rivals, which comes within the timeout.
    fn release(&mut self, until: Nanos) {
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
    fn release_all(&mut self) {
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
    #[inline]
    pub fn take_dropped(&mut self) -> (u64, u64) {
        if self.contest.dropped.0 == 0 { (0, 0) } else { std::mem::take(&mut self.contest.dropped) }
    }
}

/// Check that `part` is the next one after `there` bytes.
#[inline]
fn in_order(part: &Range<u64>, there: u64) -> Result<(), Reject> {
    match part.start {
        start if start == there => Ok(()),
        start if start > there => Err(Reject::OutOfOrder),
        _ if part.end <= there => Err(Reject::Duplicate),
        _ => Err(Reject::Overlap),
    }
}

#[cfg(test)]
mod tests;
