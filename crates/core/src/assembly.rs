//! The engine: a window of objects under construction.
//!
//! ```text
//!              horizon                              newest
//!   retired ─────┤  live 7      live 8      live 9    │ ahead ... │ stray
//!   (late,       │ ██████░███  ███████████  ███░░░░░  │  opens    │ followed only if
//!   duplicate)   │ incomplete  complete,    filling   │  10       │ those after it agree
//!                               waits for 7
//! ```
//!
//! * [`Assembly::reserve`] finds the place of a payload, or says why it has none, before a byte is written;
//!   [`Slot::commit`] says the bytes are there. A slot dropped uncommitted never happened.
//! * Objects retire in order, each part of the stream exactly once: when complete, when the window passes
//!   them, when the stream falls silent, or at the end. What is missing is told, never guessed.
//! * It never blocks, reads no clock, and never holds more than `window` blocks. It allocates per object, never
//!   per packet. No free block is [`Reject::NoBuffer`], a counter.
//! * It knows nothing of what a block is: the caller hands blocks in (`take`) and gets them back in [`Retired`].
//!
//! One packet with an absurd number cannot move the window. A packet more than `ahead` objects beyond the newest
//! opens a *suspect* beside the window; only when enough packets follow it does the window move there, and no
//! byte is lost either way. The same rule follows a sender whose counter restarts: its packets look late or
//! doubled, and when only such come, a new *epoch* begins.

pub mod coverage;
pub mod heaps;
mod retire;
mod suspect;

pub use retire::{Cause, Mark, Retired};

use crate::placement::{Geometry, Nanos, ObjectId, Placement, Reject};
use coverage::Coverage;
use retire::Tombstone;
use std::collections::VecDeque;
use std::ops::Range;
use suspect::Suspect;

/// Fixed limits of one assembly.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How the stream divides into objects.
    pub geometry: Geometry,
    /// Most objects under construction at a time, at least 1, besides one suspect. Reordering over `window - 1`
    /// whole objects is harmless.
    pub window: usize,
    /// How many objects beyond the newest one a packet may open without being suspect.
    pub ahead: u64,
    /// How many packets in a row must agree before the stream is followed forward over more than `ahead` objects.
    pub confirm: u32,
    /// How many late or doubled packets in a row, with no other between them, begin a new epoch. More than a
    /// network may double at a time, a whole train included.
    pub resync: u32,
    /// An object with a successor is retired when nothing came for it for this long.
    pub linger: Nanos,
    /// A silent stream's objects are retired, as far as they came, after this long.
    pub idle: Nanos,
    /// A slow stream's newest object is retired in parts, each about this old.
    pub flush: Nanos,
    /// The last object of a second has no known end: what lies behind its last frame is not missing, unless the
    /// object that follows it is there.
    pub open_ended: bool,
}

impl Config {
    /// Limits that suit a fast stream: window 2, 1 object ahead, 8 packets to follow a jump forward and 256 to
    /// follow a restart, 0.2 s linger, 1 s idle, 5 s flush.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            window: 2,
            ahead: 1,
            confirm: 8,
            resync: 256,
            linger: Nanos(200_000_000),
            idle: Nanos::SECOND,
            flush: Nanos(5_000_000_000),
            open_ended: false,
        }
    }
}

#[derive(Debug)]
struct Live<B> {
    object: ObjectId,
    block: B,
    seen: Coverage,
    /// Everything before this offset was retired earlier.
    from: u64,
    size: Option<u64>,
    first: Nanos,
    last: Nanos,
}

impl<B> Live<B> {
    /// Whether a part may be written, of a packet that tells `size`.
    #[inline(always)]
    fn admits(&self, part: &Range<u64>, size: Option<u64>) -> Result<(), Reject> {
        let beyond = match (self.size, size) {
            (Some(size), _) => part.end > size,
            (None, Some(size)) => self.seen.high() > size,
            (None, None) => false,
        };
        if beyond {
            return Err(Reject::Outside);
        }
        if part.start < self.from {
            return Err(Reject::Late);
        }
        self.seen.admits(part)
    }

    /// Nothing came for it: its only slot was dropped.
    fn is_empty(&self) -> bool {
        self.seen.bytes() == 0 && self.size != Some(0)
    }
}

/// A window of objects under construction, oldest first. See the [module](self).
#[derive(Debug)]
pub struct Assembly<B> {
    config: Config,
    live: VecDeque<Live<B>>,
    /// Where the last packet was found: nearly always where the next one is.
    hint: usize,
    /// Everything before it is retired.
    horizon: Option<Mark>,
    epoch: u32,
    tombstones: VecDeque<Tombstone>,
    suspect: Option<Suspect<B>>,
    /// Packets since one was last accepted into the window that were late, doubled, or of a suspect.
    refused: u32,
    retired: VecDeque<Retired<B>>,
    /// When a packet was last accepted into the window.
    last_arrival: Nanos,
}

/// Where a packet's object stands.
enum Found {
    Live(usize),
    Suspect,
    /// It may open, with everything before this offset already retired.
    New(u64),
    /// It lies too far ahead to be believed at once.
    Far,
    Old(Reject),
}

/// Room for one payload in its object. Dropped uncommitted, it never happened.
#[must_use = "a slot that is not committed never happened"]
#[derive(Debug)]
pub struct Slot<'a, B> {
    assembly: &'a mut Assembly<B>,
    /// Index of the live object, or [`SUSPECT`].
    at: usize,
    part: Range<u64>,
    size: Option<u64>,
}

const SUSPECT: usize = usize::MAX;

impl<B> Assembly<B> {
    /// An empty window.
    ///
    /// # Panics
    /// If the window is 0: a programmer's error.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(config.window > 0, "a window has room for at least one object");
        Self {
            config,
            live: VecDeque::with_capacity(config.window + 1),
            hint: 0,
            horizon: None,
            epoch: 0,
            tombstones: VecDeque::with_capacity(config.window + 1),
            suspect: None,
            refused: 0,
            retired: VecDeque::with_capacity(config.window + 2),
            last_arrival: Nanos::default(),
        }
    }

    /// Find the place of a payload that came at `now`; `take` hands out a free block if a new object begins.
    ///
    /// # Errors
    /// Why it has no place; no byte was or may be written.
    #[inline]
    pub fn reserve(
        &mut self,
        placement: Placement,
        now: Nanos,
        mut take: impl FnMut() -> Option<B>,
    ) -> Result<Slot<'_, B>, Reject> {
        let end = placement.offset.checked_add(u64::from(placement.length)).ok_or(Reject::Outside)?;
        let part = placement.offset..end;
        let most = self.config.geometry.object_bytes;
        if placement.size.map_or(end > most, |size| end > size || size > most) {
            return Err(Reject::Outside);
        }
        let at = match self.live.get(self.hint) {
            Some(live) if live.object == placement.object => self.hint,
            _ => self.find_or_open(placement.object, &part, now, &mut take)?,
        };
        match self.at(at).admits(&part, placement.size) {
            Ok(()) => Ok(Slot { assembly: self, at, part, size: placement.size }),
            Err(why @ (Reject::Late | Reject::Duplicate)) if at != SUSPECT => {
                self.reserve_again(placement, part, now, why, &mut take)
            }
            Err(why) => Err(self.refuse(why)),
        }
    }

    /// A part that came before; or, after several in a row, the first of a restarted counter.
    #[cold]
    fn reserve_again(
        &mut self,
        placement: Placement,
        part: Range<u64>,
        now: Nanos,
        why: Reject,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<Slot<'_, B>, Reject> {
        let why = if why == Reject::Late { self.bury(placement.object, &part) } else { why };
        let why = self.refuse(why);
        let at = self.suspect(placement.object, &part, now, take, why, true)?;
        match self.at(at).admits(&part, placement.size) {
            Ok(()) => Ok(Slot { assembly: self, at, part, size: placement.size }),
            Err(_) => Err(why),
        }
    }

    /// How often the stream's counter has restarted.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Blocks that it holds now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.live.len() + usize::from(self.suspect.is_some()) + self.retired.len()
    }

    fn at(&self, at: usize) -> &Live<B> {
        match &self.suspect {
            Some(suspect) if at == SUSPECT => &suspect.live,
            _ => &self.live[at],
        }
    }

    fn at_mut(&mut self, at: usize) -> &mut Live<B> {
        match &mut self.suspect {
            Some(suspect) if at == SUSPECT => &mut suspect.live,
            _ => &mut self.live[at],
        }
    }

    fn find(&self, object: ObjectId, part: &Range<u64>) -> Found {
        if let Ok(at) = self.live.binary_search_by_key(&object, |l| l.object) {
            return Found::Live(at);
        }
        // What may open is of the window, though it was late or doubled before.
        if self.suspect.as_ref().is_some_and(|s| s.live.object == object && !s.backward) {
            return Found::Suspect;
        }
        let mut from = 0;
        if let Some(horizon) = self.horizon {
            if (Mark { object, offset: part.start }) < horizon {
                return Found::Old(self.bury(object, part));
            }
            from = if object == horizon.object { horizon.offset } else { 0 };
        }
        let oldest = self.live.front().map(|l| l.object);
        if self.live.len() == self.config.window && oldest.is_some_and(|o| object < o) {
            return Found::Old(Reject::Late);
        }
        let newest = self.live.back().map(|l| l.object).or(self.horizon.map(|h| h.object));
        let back = self.config.ahead.max(self.config.window as u64);
        match newest {
            Some(newest) if object.0.saturating_sub(newest.0) > self.config.ahead => Found::Far,
            // Further back than the oldest by more than a window, or a step forward, is no reordering.
            Some(_) if oldest.is_some_and(|o| o.0.saturating_sub(object.0) > back) => {
                Found::Old(Reject::Late)
            }
            _ => Found::New(from),
        }
    }

    #[inline(never)]
    fn find_or_open(
        &mut self,
        object: ObjectId,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<usize, Reject> {
        let mut found = self.find(object, part);
        if let Found::Suspect = found {
            // Near by now, it is of the window; complete, it may have left that at once.
            self.reach_suspect(true);
            found = self.find(object, part);
        }
        let at = match found {
            Found::Live(at) => at,
            Found::Suspect => return Ok(SUSPECT),
            Found::New(from) => self.open(object, from, part, now, take)?,
            Found::Far => return self.suspect(object, part, now, take, Reject::Stray, false),
            Found::Old(why) => {
                let why = self.refuse(why);
                return self.suspect(object, part, now, take, why, true);
            }
        };
        self.hint = at;
        Ok(at)
    }

    fn open(
        &mut self,
        object: ObjectId,
        from: u64,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<usize, Reject> {
        let live = self.begin(object, from, part, now, || take().ok_or(Reject::NoBuffer))?;
        if self.suspect.as_ref().is_some_and(|s| !s.backward && s.live.object < object) {
            self.reach_suspect(true);
        }
        self.admit(live);
        self.reach_suspect(false);
        self.live.binary_search_by_key(&object, |l| l.object).map_err(|_| Reject::Late)
    }

    /// An object with a block of its own, if `part` can be a part of any object.
    fn begin(
        &self,
        object: ObjectId,
        from: u64,
        part: &Range<u64>,
        now: Nanos,
        take: impl FnOnce() -> Result<B, Reject>,
    ) -> Result<Live<B>, Reject> {
        let geometry = self.config.geometry;
        let seen = Coverage::new(geometry.grain, geometry.object_bytes);
        seen.admits(part)?;
        Ok(Live { object, block: take()?, seen, from, size: None, first: now, last: now })
    }

    /// Put an object into the window, retiring the oldest if there are too many.
    fn admit(&mut self, live: Live<B>) {
        let at = self.live.partition_point(|l| l.object < live.object);
        self.live.insert(at, live);
        if self.live.len() > self.config.window {
            self.retire_front(Cause::Window);
        }
    }

    /// Count a late or doubled packet.
    fn refuse(&mut self, why: Reject) -> Reject {
        if matches!(why, Reject::Late | Reject::Duplicate | Reject::Overlap) {
            self.refused = self.refused.saturating_add(1);
        }
        why
    }
}

impl<B> Slot<'_, B> {
    /// The object's block, to write into.
    #[inline]
    pub fn block(&mut self) -> &mut B {
        &mut self.assembly.at_mut(self.at).block
    }

    /// The bytes of the block that are this payload's.
    #[inline]
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.part.start as usize..self.part.end as usize
    }

    /// The payload is there. Retires its object if it was the last.
    #[inline]
    pub fn commit(self, now: Nanos) {
        let Self { assembly, at, part, size } = self;
        let live = assembly.at_mut(at);
        live.size = live.size.or(size);
        live.seen.insert(&part);
        live.last = now;
        let (bytes, high, from) = (live.seen.bytes(), live.seen.high(), live.from);
        let full = live.size.is_some_and(|size| high >= size)
            || bytes >= assembly.config.geometry.object_bytes.saturating_sub(from);
        if at == SUSPECT {
            return assembly.believe();
        }
        assembly.last_arrival = now;
        if assembly.refused != 0 {
            assembly.doubt();
        }
        if full {
            assembly.retire_complete();
        }
    }
}

#[cfg(test)]
mod tests;
