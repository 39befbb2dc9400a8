//! Objects that have a key and no order (heaps, events, messages), each handed on when it is complete.
//!
//! ```text
//!   packet of 41 ─┐                          window: at most so many, oldest first
//!                 ├─▶ one look-up ─▶ live    │ 38 ██░██  40 ████░  41 █░░ │ ─▶ complete, or the window or its
//!                 │                  new ───▶│ opens when committed       │     deadline passed it ─▶ retired
//!                 │                  whole ─────────────────────────────────▶ retired: it was never live
//!                 └─▶ finished: late or a duplicate
//! ```
//!
//! * [`reserve`](super::Window::reserve) finds the place of a part, or says why it has none, before a byte is written;
//!   [`commit`](super::Slot::commit) says the bytes are there. A slot dropped uncommitted never happened.
//! * Objects retire in any order, each once: a numbered object has no place in a sequence of which one could say that it
//!   is passed, so nothing waits for another (decision 0007).
//! * An object without a told size grows, and ends by the window, its deadline or the end of the stream.
//! * Objects of which nothing came are counted by the gaps in their sender's counters: [`Sequence`](super::Sequence).
//! * The last `remember` objects that retired are remembered by their whole key, so that a doubled or late packet does not
//!   begin one again; an object that was not finished is never refused for one that was. Where counters have few bits, no
//!   more than a quarter of the way on which they come round is remembered.
//!
//! It never blocks, reads no clock, knows no format. An object that is one part costs one look-up and no allocation; a part
//! of the same object as the one before costs no look-up. Memory is fixed: at most `window` objects for each substream, each
//! with one block and at most `runs` ranges, and the memory of `remember` keys.
//!
//! ```
//! use skyhaul_core::assembly::{Cause, Keyed, KeyedConfig, Slot, Window};
//! use skyhaul_core::placement::{Key, Nanos, Placement};
//!
//! let mut heaps = Keyed::<Vec<u8>>::new(KeyedConfig::default());
//! let key = Key::of(7);
//! for offset in [4, 0] {
//!     let part = Placement { key, offset, length: 4, size: Some(8), ..Placement::default() };
//!     // Memory for a new object, or more of it for one that outgrew `old`.
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
mod finished;
mod index;
mod laps;
mod live;
mod retire;
mod slot;

pub use config::KeyedConfig;
pub use slot::KeyedSlot;

use super::{Cause, Retired};
use crate::placement::{Key, Nanos, Reject};
use finished::Finished;
use index::{Index, Known};
use laps::{Laps, Turn};
use live::{NONE, Table};
use std::collections::VecDeque;
use std::ops::Range;

/// Objects under construction. See the [module](self).
#[derive(Debug)]
pub struct Keyed<B> {
    config: KeyedConfig,
    index: Index,
    table: Table<B>,
    finished: Finished,
    laps: Laps,
    retired: VecDeque<Retired<B>>,
    /// Where the last part was put: nearly always where the next one belongs.
    hint: u32,
    /// The latest time that was told. Time never goes back, whatever several readers' clocks say.
    now: Nanos,
}

impl<B> Keyed<B> {
    /// No object yet.
    ///
    /// # Panics
    /// If the limits are none: see [`KeyedConfig::check`]. A programmer's error.
    #[must_use]
    pub fn new(config: KeyedConfig) -> Self {
        if let Err(why) = config.check() {
            panic!("{why}");
        }
        let live = config.window.saturating_mul(config.substreams as usize).min(256);
        Self {
            config,
            index: Index::new(config.remember + live),
            table: Table::new(&config),
            finished: Finished::new(&config),
            laps: Laps::default(),
            retired: VecDeque::with_capacity(live),
            hint: NONE,
            now: Nanos(0),
        }
    }

    #[inline]
    fn known(&self, key: Key) -> Option<Known> {
        self.index.find(self.index.hash(key), |known| match known {
            Known::Live(at) => self.table.at(at).key == key,
            Known::Finished(at) => self.finished.is(at, key, self.now, &self.laps),
        })
    }

    /// The live object of this key. One that is finished is an error for this many bytes of it.
    #[inline]
    fn find(&mut self, key: Key, bytes: u64) -> Result<Option<u32>, Reject> {
        match self.known(key) {
            Some(Known::Live(at)) => Ok(Some(at)),
            Some(Known::Finished(at)) => Err(self.finished.refuse(at, bytes, self.now, &mut self.laps)),
            None => Ok(None),
        }
    }

    /// Whether the live object at `at` is of the counter's last time round: it has then retired.
    #[inline]
    fn gives_way(&mut self, at: u32) -> bool {
        let live = self.table.at(at);
        let gives = self.laps.is_given_up(live.key.source, live.turn);
        if gives {
            self.retire(at, Cause::Window);
        }
        gives
    }

    /// Objects of which all bytes were refused again, the last of them [`RESTART`](Self::RESTART) or longer after they were
    /// finished, since this was last asked. A network does not do that: counters were used again.
    pub fn take_repeated(&mut self) -> u64 {
        std::mem::take(&mut self.finished.repeated)
    }

    /// Whether the part has a place in the live object at `at`; the object grows if it must.
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
        // A part without bytes covers nothing.
        let missed = match self.config.in_order {
            _ if part.is_empty() => Ok(()),
            true => in_order(part, live.seen.high()),
            false => live.seen.admits(part),
        };
        if missed.is_err_and(|why| why != Reject::OutOfOrder) {
            return missed;
        }
        let need = live.size.or(size).unwrap_or(part.end);
        if need > live.room {
            self.grow(at, need, size.is_some(), room)?;
        }
        if missed.is_err() {
            self.table.at_mut(at).miss(part.end, size);
        }
        missed
    }

    /// More memory for an object: all that it will need if its size is told, else at least twice what it has.
    #[cold]
    fn grow(
        &mut self,
        at: u32,
        need: u64,
        told: bool,
        room: &mut impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<(), Reject> {
        let live = self.table.at_mut(at);
        let amply = if told { need } else { need.max(live.room.saturating_mul(2)).min(self.config.largest) };
        for bytes in std::iter::once(amply).chain((need < amply).then_some(need)) {
            match room(bytes, live.block.take()) {
                Ok(block) => {
                    (live.block, live.room) = (Some(block), bytes);
                    return Ok(());
                }
                Err(block) => live.block = block,
            }
            if live.block.is_none() {
                self.discard(at);
                break;
            }
        }
        Err(Reject::NoBuffer)
    }

    /// An object is live from now on, with nothing in it.
    #[inline]
    fn open(&mut self, key: Key, block: B, room: u64, first: Nanos, number_bits: u8) -> u32 {
        self.make_way(key);
        let turn = self.take_turn(key, number_bits);
        let at = self.table.open(key, block, room, first, turn);
        self.index.insert(key, Known::Live(at), self.now);
        self.hint = at;
        at
    }

    /// An object begins. Where counters come round, one with its key may be among the finished.
    #[inline]
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

    /// A full window gives up its oldest object for the one of this key.
    fn make_way(&mut self, key: Key) {
        if let Some(oldest) = self.table.oldest_beyond(self.config.window, key) {
            self.retire(oldest, Cause::Window);
        }
    }

    /// How many objects are under construction.
    #[must_use]
    pub fn live(&self) -> usize {
        self.table.len()
    }

    /// A packet of object `start` says that its sender begins, perhaps anew: what is finished of this source may come
    /// again. Call it before the packet is reserved, for each such packet.
    ///
    /// A start object that is live or was finished within [`RESTART`](Self::RESTART) began already: this packet is more of
    /// it, or a copy. Later, it is a sender that began anew with the same counter. Live objects stay as they are while
    /// something may be on its way for them; those of a sender with a number end, if that is `RESTART` ago, so that
    /// they are not filled up with what is sent now.
    ///
    /// Whether it is a beginning, and no packet more of one.
    pub fn forget(&mut self, start: Key, now: Nanos) -> bool {
        self.now = self.now.max(now);
        match self.known(start) {
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

    /// Whether the object at `at` is of this numbered source, and nothing is on its way for it any more.
    fn is_over(&self, at: u32, source: u64) -> bool {
        let live = self.table.at(at);
        source != 0 && live.key.source == source && self.now.since(live.last) >= Self::RESTART
    }

    /// How long after it was finished a start object cannot be another one: longer than a network keeps a copy, shorter
    /// than it takes to start a program again.
    pub const RESTART: Nanos = finished::RESTART;
}

/// Whether `part` is what comes next after `there` bytes.
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
