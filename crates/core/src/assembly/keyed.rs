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

mod contest;
mod finished;
mod live;
mod slot;

pub use slot::KeyedSlot;

use super::{Cause, Retired};
use crate::placement::{Key, Nanos, Reject};
use contest::Contest;
use finished::{Finished, Index, Known, Laps, PREPARED, Turn};
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

    /// The live object with this key. If the object is finished, `bytes` of it are rejected.
    #[inline]
    fn find(&mut self, key: Key, bytes: u64) -> Result<Option<u32>, Reject> {
        match self.known(key) {
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
    #[cold]
    fn grow(
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
    fn open(&mut self, key: Key, block: B, room: u64, first: Nanos, number_bits: u8) -> u32 {
        self.make_way(key);
        let turn = self.take_turn(key, number_bits);
        let at = self.table.open(key, block, room, first, turn);
        self.table.at_mut(at).unconfirmed = self.unconfirmed.announce(room);
        self.index.insert(key, Known::Live(at), self.now);
        self.hint = at;
        at
    }

    /// Count an object that begins. Where counters wrap around, a finished object may have the same key: forget it.
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

    /// If the window is full, retire its oldest object to make room for the one with this key.
    fn make_way(&mut self, key: Key) {
        if let Some(oldest) = self.table.oldest_beyond(key) {
            self.retire(oldest, Cause::Window);
        }
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

    /// Whether the object at `at` belongs to this numbered source, and no packets for it can still be under way.
    fn is_over(&self, at: u32, source: u64) -> bool {
        let live = self.table.at(at);
        source != 0 && live.key.source == source && self.now.since(live.last) >= Self::RESTART
    }

    /// A start object that arrives within this time after it was finished is a duplicate: longer than a
    /// network delays duplicates, shorter than a program takes to restart.
    pub const RESTART: Nanos = finished::RESTART;
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

/// Which objects of a substream count towards its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Objects under construction: one retires when `window` newer ones are incomplete.
    #[default]
    Incomplete,
    /// All objects, complete or not, as in spead2: an object retires when `window` newer ones have begun. A part that
    /// arrives later begins the object again. If parts must be in order (`in_order`), an object whose first part is
    /// lost never begins.
    Begun,
}

/// Fixed limits of one table of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedConfig {
    /// Maximum number of objects under construction in a substream, at least 1. If one more begins, the
    /// oldest retires.
    pub window: usize,
    /// Which objects count towards the window.
    pub counting: Counting,
    /// Number of substreams, at least 1. Each has a window of its own. An object's substream is the `source` of its key
    /// modulo this number, or `counter` modulo this number if `source` is 0.
    pub substreams: u64,
    /// Reject a part that is not the next one of its object. The order of objects does not matter. An object
    /// whose first part is lost begins with the first rejected part, and retires empty.
    pub in_order: bool,
    /// Accept objects whose size no part has stated so far.
    pub unsized_objects: bool,
    /// Maximum size of an object in bytes.
    pub largest: u64,
    /// An incomplete object retires this long after its first part arrived. `None`: only by the window and at
    /// the end.
    pub timeout: Option<Nanos>,
    /// Maximum number of retired objects that are remembered; 0: a duplicate packet begins its object again. Memory is
    /// taken as needed, about 100 bytes for each. If more retire within `remember_for`, the oldest are forgotten before their
    /// time, and [counted](KeyedWindow::take_forgotten_early).
    pub remember: usize,
    /// How long they are remembered; after that, their counters may be used again.
    pub remember_for: Nanos,
    /// Maximum number of separate ranges tracked in an object, at least 1.
    pub runs: u32,
    /// For families whose every part states the size of its object: parts with one key that state different sizes form
    /// candidates. The first candidate of which a second packet arrives becomes the object; packets of the others are
    /// rejected. An object that arrives in a single packet therefore retires only after this time, or, if another
    /// candidate has begun by then, when that has ended (at most `timeout` later), unless another candidate wins before.
    /// `None`: the size stated first is used.
    pub contest: Option<Nanos>,
}

impl Default for KeyedConfig {
    /// Window 16, one substream, any order, unsized objects, 1 GiB, 1 s, at most 262 144 objects remembered for 1 s, 1024 runs, no contest.
    fn default() -> Self {
        Self {
            window: 16,
            counting: Counting::Incomplete,
            substreams: 1,
            in_order: false,
            unsized_objects: true,
            largest: 1 << 30,
            timeout: Some(Nanos::SECOND),
            remember: 1 << 18,
            remember_for: Nanos::SECOND,
            runs: 1024,
            contest: None,
        }
    }
}

impl KeyedConfig {
    /// Maximum number of substreams.
    pub const MOST_SUBSTREAMS: u64 = 1 << 20;
    /// Maximum number of objects in the windows of all substreams, and of remembered objects.
    pub const MOST_HEAPS: u64 = 1 << 28;

    /// Check that the limits are valid.
    ///
    /// # Errors
    /// A sentence for the user that names the limit that is out of bounds.
    pub fn check(&self) -> Result<(), &'static str> {
        let heaps = (self.window as u64).saturating_mul(self.substreams);
        match self {
            _ if self.window == 0 => Err("the window must be at least 1 heap"),
            _ if self.runs == 0 => Err("runs must be at least 1"),
            _ if !(1..=Self::MOST_SUBSTREAMS).contains(&self.substreams) => {
                Err("substreams must be 1 to 1048576")
            }
            _ if heaps > Self::MOST_HEAPS => Err("window times substreams must be at most 268435456"),
            _ if self.remember as u64 > Self::MOST_HEAPS => Err("remember must be at most 268435456 heaps"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
