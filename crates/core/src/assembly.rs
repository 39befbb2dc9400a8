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
mod suspect;

use crate::placement::{Geometry, Nanos, ObjectId, Placement, Reject};
use coverage::Coverage;
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
    /// How many packets must agree before the stream is followed forward over more than `ahead` objects.
    pub confirm: u32,
    /// How many late or doubled packets in a row, with no other between them, begin a new epoch.
    pub resync: u32,
    /// An object with a successor is retired when nothing came for it for this long.
    pub linger: Nanos,
    /// A silent stream's objects are retired, as far as they came, after this long.
    pub idle: Nanos,
    /// A slow stream's newest object is retired in parts, each about this old.
    pub flush: Nanos,
    /// The last object of a second has no known end: what lies behind its last frame is not missing.
    pub open_ended: bool,
}

impl Config {
    /// Limits that suit a fast stream: window 2, 1 object ahead, 8 packets to follow a jump forward and 64 to
    /// follow a restart, 0.2 s linger, 1 s idle, 5 s flush.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            window: 2,
            ahead: 1,
            confirm: 8,
            resync: 64,
            linger: Nanos(200_000_000),
            idle: Nanos::SECOND,
            flush: Nanos(5_000_000_000),
            open_ended: false,
        }
    }
}

/// Why an object was retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// All of it is there.
    Complete,
    /// The window moved on.
    Window,
    /// Nothing more came for it while its successor was filling.
    Linger,
    /// The stream fell silent.
    Idle,
    /// It was filling slowly; this is the part so far.
    Flush,
    /// The stream's counter restarted: this is as far as the old epoch came.
    Restart,
    /// It was a suspect that nothing confirmed: not part of the stream. Count what it holds as
    /// [`Reject::Stray`] and give the block back.
    Stray,
    /// [`Assembly::finish`] was called.
    Finish,
}

/// A position in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The object.
    pub object: ObjectId,
    /// The byte in it.
    pub offset: u64,
}

/// An object, or a part of one, that nothing more will be added to.
#[derive(Debug)]
pub struct Retired<B> {
    /// Its number as the packets said it.
    pub object: ObjectId,
    /// Counts the restarts of the stream's counter.
    pub epoch: u32,
    /// The block that holds it.
    pub block: B,
    /// The bytes of the block that are this object's: what is neither here nor missing was retired before.
    pub range: Range<u64>,
    /// What of `range` did not come: ascending, disjoint byte ranges.
    pub missing: Vec<Range<u64>>,
    /// Where the part retired before this one (in this epoch) ended.
    pub after: Option<Mark>,
    /// Arrival of its first payload.
    pub first: Nanos,
    /// Arrival of its latest payload.
    pub last: Nanos,
    /// Why now.
    pub cause: Cause,
}

impl<B> Retired<B> {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Bytes that arrived.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.range.end - self.range.start - self.missing.iter().map(|m| m.end - m.start).sum::<u64>()
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

/// What was there when an object retired, to tell a duplicate from a late packet.
#[derive(Debug)]
struct Tombstone {
    object: ObjectId,
    seen: Coverage,
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
    /// Late or doubled packets since one was last accepted.
    refused: u32,
    retired: VecDeque<Retired<B>>,
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
        if end > placement.size.unwrap_or(u64::MAX).min(self.config.geometry.object_bytes) {
            return Err(Reject::Outside);
        }
        let at = match self.live.get(self.hint) {
            Some(live) if live.object == placement.object => self.hint,
            _ => self.find_or_open(placement.object, &part, now, &mut take)?,
        };
        let live = self.at(at);
        if live.size.is_some_and(|size| end > size) {
            return Err(Reject::Outside);
        }
        if part.start < live.from {
            let why = self.bury(placement.object, &part);
            return Err(self.refuse(why));
        }
        match live.seen.admits(&part) {
            Ok(()) => Ok(Slot { assembly: self, at, part, size: placement.size }),
            Err(Reject::Duplicate) if at != SUSPECT => self.reserve_doubled(placement, part, now, &mut take),
            Err(why) => Err(self.refuse(why)),
        }
    }

    /// A doubled packet; or, after several in a row, the first of a restarted counter.
    #[cold]
    fn reserve_doubled(
        &mut self,
        placement: Placement,
        part: Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<Slot<'_, B>, Reject> {
        let why = self.refuse(Reject::Duplicate);
        if self.suspect.as_ref().is_none_or(|s| s.live.object != placement.object) {
            self.suspect(placement.object, now, take, why, true)?;
        }
        match self.at(SUSPECT).seen.admits(&part) {
            Ok(()) => Ok(Slot { assembly: self, at: SUSPECT, part, size: placement.size }),
            Err(why) => Err(why),
        }
    }

    /// The next finished object, in stream order.
    pub fn poll_retired(&mut self) -> Option<Retired<B>> {
        self.retired.pop_front()
    }

    /// When [`Assembly::handle_timeout`] next has something to do, if nothing arrives before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let c = &self.config;
        let newest = self.live.back();
        [
            newest.map(|_| self.last_arrival.plus(c.idle)),
            newest.filter(|_| self.live.len() == 1).map(|live| self.flush_due(live)),
            (self.live.len() > 1).then(|| self.live[0].last.plus(c.linger)),
            self.suspect.as_ref().map(|s| s.live.last.plus(c.linger)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Retire what time has finished.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if self.suspect.as_ref().is_some_and(|s| now.since(s.live.last) >= self.config.linger) {
            self.dismiss();
        }
        if now.since(self.last_arrival) >= self.config.idle {
            return self.retire_all(Cause::Idle);
        }
        while self.live.len() > 1 && now.since(self.live[0].last) >= self.config.linger {
            self.retire_front(Cause::Linger);
        }
        if self.live.len() == 1 && now >= self.flush_due(&self.live[0]) {
            self.retire_front(Cause::Flush);
        }
    }

    /// When a slowly filling object is retired as far as it came. Without a gap nothing can still come for that
    /// part; with one, it is given as long again.
    fn flush_due(&self, live: &Live<B>) -> Nanos {
        let due = live.first.plus(self.config.flush);
        let whole = live.seen.prefix(self.start(live)) == live.seen.high();
        if whole { due } else { due.plus(self.config.flush) }
    }

    /// Retire everything as it stands: the stream has ended.
    pub fn finish(&mut self) {
        self.retire_all(Cause::Finish);
        self.dismiss();
    }

    /// How often the stream's counter has restarted.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
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
        if self.suspect.as_ref().is_some_and(|s| s.live.object == object) {
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
        match newest {
            Some(newest) if object.0.saturating_sub(newest.0) > self.config.ahead => Found::Far,
            // A whole window of objects further back than the oldest is no reordering.
            Some(_) if oldest.is_some_and(|o| o.0.saturating_sub(object.0) > self.config.window as u64) => {
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
        let at = match self.find(object, part) {
            Found::Live(at) => at,
            Found::Suspect => return Ok(SUSPECT),
            Found::New(from) => self.open(object, from, now, take)?,
            Found::Far => return self.suspect(object, now, take, Reject::Stray, false),
            Found::Old(why) => {
                let why = self.refuse(why);
                return self.suspect(object, now, take, why, true);
            }
        };
        self.hint = at;
        Ok(at)
    }

    fn open(
        &mut self,
        object: ObjectId,
        from: u64,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<usize, Reject> {
        let block = take().ok_or(Reject::NoBuffer)?;
        let geometry = self.config.geometry;
        let seen = Coverage::new(geometry.grain, geometry.object_bytes);
        let live = Live { object, block, seen, from, size: None, first: now, last: now };
        self.admit(live);
        self.reach_suspect();
        self.live.binary_search_by_key(&object, |l| l.object).map_err(|_| Reject::Late)
    }

    /// Put an object into the window, retiring the oldest if it is full.
    fn admit(&mut self, live: Live<B>) -> usize {
        if self.live.len() == self.config.window {
            self.retire_front(Cause::Window);
        }
        let at = self.live.partition_point(|l| l.object < live.object);
        self.live.insert(at, live);
        at
    }

    /// Count a late or doubled packet.
    fn refuse(&mut self, why: Reject) -> Reject {
        if matches!(why, Reject::Late | Reject::Duplicate | Reject::Overlap) {
            self.refused = self.refused.saturating_add(1);
        }
        why
    }

    /// Late or doubled? A tombstone knows what was there.
    fn bury(&self, object: ObjectId, part: &Range<u64>) -> Reject {
        let mut graves = self.tombstones.iter().rev().filter(|t| t.object == object);
        match graves.any(|t| t.seen.admits(part) == Err(Reject::Duplicate)) {
            true => Reject::Duplicate,
            false => Reject::Late,
        }
    }

    /// Where an object's own bytes start: at the stream's very beginning, with its first payload.
    fn start(&self, live: &Live<B>) -> u64 {
        if self.horizon.is_none() { live.seen.low().unwrap_or(live.from).max(live.from) } else { live.from }
    }

    fn retire_all(&mut self, cause: Cause) {
        while !self.live.is_empty() {
            self.retire_front(cause);
        }
    }

    fn retire_front(&mut self, cause: Cause) {
        let Some(live) = self.live.pop_front() else { return };
        self.hint = self.hint.saturating_sub(1);
        let start = self.start(&live);
        let cut = matches!(cause, Cause::Idle | Cause::Flush | Cause::Restart | Cause::Finish);
        let last = self.live.is_empty();
        let end = match live.size {
            _ if (cut && last) || self.config.open_ended => live.seen.high().max(start),
            Some(size) => size,
            None => self.config.geometry.object_bytes,
        };
        let missing = live.seen.missing(start..end);
        let after = self.horizon;
        // What was cut off may still come; a whole object cannot.
        let done = !(cut && last) || end >= live.size.unwrap_or(self.config.geometry.object_bytes);
        let object = if done { ObjectId(live.object.0.saturating_add(1)) } else { live.object };
        self.horizon = Some(Mark { object, offset: if done { 0 } else { end } });
        if self.tombstones.len() > self.config.window {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back(Tombstone { object: live.object, seen: live.seen });
        if end > start || live.size == Some(0) {
            self.retired.push_back(Retired {
                object: live.object,
                epoch: self.epoch,
                block: live.block,
                range: start..end,
                missing,
                after,
                first: live.first,
                last: live.last,
                cause,
            });
        }
    }

    /// Retire from the front all that is complete.
    fn retire_complete(&mut self) {
        while let Some(live) = self.live.front() {
            let size = live.size.unwrap_or(self.config.geometry.object_bytes);
            if live.seen.high() < size || live.seen.bytes() < size.saturating_sub(live.from) {
                return;
            }
            self.retire_front(Cause::Complete);
        }
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
        assembly.last_arrival = now;
        if at == SUSPECT {
            return assembly.believe();
        }
        assembly.refused = 0;
        if full {
            assembly.retire_complete();
        }
    }
}

#[cfg(test)]
mod tests;
