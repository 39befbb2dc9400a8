//! A stream's objects under construction, retired in order.
//!
//! ```text
//!              horizon                              newest
//!   retired ─────┤  live 7      live 8      live 9    │ ahead ... │ stray
//!   (late,       │ ██████░███  ███████████  ███░░░░░  │  opens    │ followed only if
//!   duplicate)   │ incomplete  complete,    filling   │  10       │ those after it agree
//!                               waits for 7
//! ```
//!
//! * [`reserve`](Window::reserve) finds the place of a payload, or says why it has none, before a byte is written;
//!   [`commit`](Slot::commit) says the bytes are there. A slot dropped uncommitted never happened.
//! * Objects retire in order, each part of the stream exactly once: when complete, when the window passes
//!   them, when the stream falls silent, or at the end. What is missing is reported, never guessed.
//! * It holds at most `window` blocks, and one more for a suspect. It allocates per object, never per packet.
//!   If no block is free, the packet is rejected with [`Reject::NoBuffer`].
//! * Objects are identified by number only: [`Key::source`](crate::placement::Key::source) is ignored.
//!
//! One packet with a wrong number cannot move the window. A packet more than `ahead` objects beyond the
//! newest opens a *suspect* beside the window; the window moves there only when enough packets confirm it,
//! and no byte is lost either way. The same rule handles a sender whose counter restarts: its packets look
//! late or duplicate, and when only such packets arrive, a new *epoch* begins.

mod suspect;

use super::coverage::Coverage;
use super::{Cause, Mark, Retired, Slot, Window};
use crate::placement::{Geometry, Nanos, Placement, Reject};
use std::collections::VecDeque;
use std::ops::Range;

/// Fixed limits of one stream's window.
#[derive(Clone, Copy, Debug)]
pub struct OrderedConfig {
    /// How the stream divides into objects.
    pub geometry: Geometry,
    /// Maximum number of objects under construction, at least 1, besides one suspect. Reordering over up to
    /// `window - 1` whole objects causes no loss.
    pub window: usize,
    /// How many objects beyond the newest a packet may open without becoming a suspect.
    pub ahead: u64,
    /// Consecutive packets that must agree before the window jumps forward by more than `ahead` objects.
    pub confirm: u32,
    /// Consecutive late or duplicate packets that begin a new epoch. Must exceed what a network may duplicate
    /// at a time, including a whole train.
    pub resync: u32,
    /// An object with a successor is retired when nothing arrived for it for this long.
    pub linger: Nanos,
    /// When nothing arrives for this long, all objects are retired as they are.
    pub idle: Nanos,
    /// A slow stream's newest object is retired in parts, each about this old.
    pub flush: Nanos,
    /// The last object of a second has no known end: the part after its last frame is not missing, unless the
    /// following object exists.
    pub open_ended: bool,
}

impl OrderedConfig {
    /// Limits for a fast stream: window 2, 1 object ahead, 8 packets to confirm a jump and 256 to confirm a
    /// restart, 0.2 s linger, 1 s idle, 5 s flush.
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

/// A window of objects under construction, oldest first. See the [module](self).
#[derive(Debug)]
pub struct Ordered<B> {
    config: OrderedConfig,
    live: VecDeque<Live<B>>,
    /// The object of the last packet: nearly always that of the next one.
    hint: usize,
    /// Everything before it is retired.
    horizon: Option<Mark>,
    epoch: u32,
    tombstones: VecDeque<Tombstone>,
    suspect: Option<Suspect<B>>,
    /// Packets that were late, duplicate, or of a suspect since a packet was last accepted into the window.
    refused: u32,
    retired: VecDeque<Retired<B>>,
    /// When a packet was last accepted into the window.
    last_arrival: Nanos,
}

/// Where a packet's object is relative to the window.
enum Found {
    Live(usize),
    Suspect,
    /// It may open, with everything before this offset already retired.
    New(u64),
    /// It is too far ahead to be accepted without confirmation.
    Far,
    Old(Reject),
}

/// Room for one payload in its object. A slot dropped without a commit has no effect.
#[must_use = "a slot has no effect until it is committed"]
#[derive(Debug)]
pub struct OrderedSlot<'a, B> {
    window: &'a mut Ordered<B>,
    /// Index of the live object, or [`SUSPECT`].
    at: usize,
    part: Range<u64>,
    size: Option<u64>,
}

impl<B> OrderedSlot<'_, B> {
    /// Whether it belongs to an object that is not believed yet: far ahead of the others, or of a counter that may have restarted. Its
    /// number says nothing of the order of the stream.
    #[inline]
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.at == SUSPECT
    }
}

const SUSPECT: usize = usize::MAX;

impl<B> Ordered<B> {
    /// An empty window.
    ///
    /// # Panics
    /// If the window is 0.
    #[must_use]
    pub fn new(config: OrderedConfig) -> Self {
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

    /// A late or duplicate part; or, after several in a row, the first of a restarted counter.
    #[cold]
    fn reserve_again(
        &mut self,
        placement: Placement,
        part: Range<u64>,
        now: Nanos,
        why: Reject,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<OrderedSlot<'_, B>, Reject> {
        let why = if why == Reject::Late { self.bury(placement.key.number, &part) } else { why };
        let why = self.refuse(why);
        let at = self.suspect(placement.key.number, &part, now, take, why, true)?;
        match self.at(at).admits(&part, placement.size) {
            Ok(()) => Ok(OrderedSlot { window: self, at, part, size: placement.size }),
            Err(_) => Err(why),
        }
    }

    /// Whether a payload, or several adjacent ones, belong to the object of the last one, with nothing to
    /// retire and no suspect.
    #[inline]
    #[must_use]
    pub fn goes_on(&self, placement: &Placement) -> bool {
        let part = placement.offset..placement.offset.saturating_add(placement.length);
        self.live.get(self.hint).is_some_and(|live| {
            live.number == placement.key.number
                && part.end <= self.config.geometry.object_bytes
                && live.admits(&part, placement.size).is_ok()
        })
    }

    /// Number of restarts of the stream's counter.
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

    fn find(&self, number: u64, part: &Range<u64>) -> Found {
        if let Ok(at) = self.live.binary_search_by_key(&number, |l| l.number) {
            return Found::Live(at);
        }
        // A number that may open now belongs to the window, though it was late or duplicate before.
        if self.suspect.as_ref().is_some_and(|s| s.live.number == number && !s.backward) {
            return Found::Suspect;
        }
        let mut from = 0;
        if let Some(horizon) = self.horizon {
            if (Mark { number, offset: part.start }) < horizon {
                return Found::Old(self.bury(number, part));
            }
            from = if number == horizon.number { horizon.offset } else { 0 };
        }
        let oldest = self.live.front().map(|l| l.number);
        if self.live.len() == self.config.window && oldest.is_some_and(|o| number < o) {
            return Found::Old(Reject::Late);
        }
        let newest = self.live.back().map(|l| l.number).or(self.horizon.map(|h| h.number));
        let back = self.config.ahead.max(self.config.window as u64);
        match newest {
            Some(newest) if number.saturating_sub(newest) > self.config.ahead => Found::Far,
            // More than a window before the oldest, or a step forward, is not reordering.
            Some(_) if oldest.is_some_and(|o| o.saturating_sub(number) > back) => Found::Old(Reject::Late),
            _ => Found::New(from),
        }
    }

    #[inline(never)]
    fn find_or_open(
        &mut self,
        number: u64,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<usize, Reject> {
        let mut found = self.find(number, part);
        if let Found::Suspect = found {
            // If the suspect is near by now, it joins the window; if it is complete, it may have retired at
            // once.
            self.reach_suspect(true);
            found = self.find(number, part);
        }
        let at = match found {
            Found::Live(at) => at,
            Found::Suspect => return Ok(SUSPECT),
            Found::New(from) => self.open(number, from, part, now, take)?,
            Found::Far => return self.suspect(number, part, now, take, Reject::Stray, false),
            Found::Old(why) => {
                let why = self.refuse(why);
                return self.suspect(number, part, now, take, why, true);
            }
        };
        self.hint = at;
        Ok(at)
    }

    fn open(
        &mut self,
        number: u64,
        from: u64,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
    ) -> Result<usize, Reject> {
        let live = self.begin(number, from, part, now, || take().ok_or(Reject::NoBuffer))?;
        if self.suspect.as_ref().is_some_and(|s| !s.backward && s.live.number < number) {
            self.reach_suspect(true);
        }
        self.admit(live);
        self.reach_suspect(false);
        self.live.binary_search_by_key(&number, |l| l.number).map_err(|_| Reject::Late)
    }

    /// An object with a block of its own, if `part` can be a part of any object.
    fn begin(
        &self,
        number: u64,
        from: u64,
        part: &Range<u64>,
        now: Nanos,
        take: impl FnOnce() -> Result<B, Reject>,
    ) -> Result<Live<B>, Reject> {
        let geometry = self.config.geometry;
        let seen = Coverage::new(geometry.grain, geometry.object_bytes);
        seen.admits(part)?;
        Ok(Live { number, block: take()?, seen, from, size: None, first: now, last: now })
    }

    /// Put an object into the window, retiring the oldest if there are too many.
    fn admit(&mut self, live: Live<B>) {
        let at = self.live.partition_point(|l| l.number < live.number);
        self.live.insert(at, live);
        if self.live.len() > self.config.window {
            self.retire_front(Cause::Window);
        }
    }

    /// Count a late or duplicate packet.
    fn refuse(&mut self, why: Reject) -> Reject {
        if matches!(why, Reject::Late | Reject::Duplicate | Reject::Overlap) {
            self.refused = self.refused.saturating_add(1);
        }
        why
    }
}

impl<B> Window<B> for Ordered<B> {
    type Slot<'a>
        = OrderedSlot<'a, B>
    where
        B: 'a;

    #[inline]
    fn reserve(
        &mut self,
        placement: Placement,
        now: Nanos,
        mut room: impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<OrderedSlot<'_, B>, Reject> {
        let end = placement.offset.checked_add(placement.length).ok_or(Reject::Outside)?;
        let part = placement.offset..end;
        let most = self.config.geometry.object_bytes;
        let mut take = || room(most, None).ok();
        if placement.size.map_or(end > most, |size| end > size || size > most) {
            return Err(Reject::Outside);
        }
        let at = match self.live.get(self.hint) {
            Some(live) if live.number == placement.key.number => self.hint,
            _ => self.find_or_open(placement.key.number, &part, now, &mut take)?,
        };
        match self.at(at).admits(&part, placement.size) {
            Ok(()) => Ok(OrderedSlot { window: self, at, part, size: placement.size }),
            Err(why @ (Reject::Late | Reject::Duplicate)) if at != SUSPECT => {
                self.reserve_again(placement, part, now, why, &mut take)
            }
            Err(why) => Err(self.refuse(why)),
        }
    }

    fn poll_retired(&mut self) -> Option<Retired<B>> {
        self.retired.pop_front()
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.next_timeout()
    }

    fn handle_timeout(&mut self, now: Nanos) {
        self.retire_due(now);
    }

    fn finish(&mut self, _: Nanos) {
        self.reach_suspect(true);
        self.retire_all(Cause::Finish);
        self.dismiss();
    }

    fn held(&self) -> usize {
        self.live.len() + usize::from(self.suspect.is_some()) + self.retired.len()
    }
}

impl<B> Slot<B> for OrderedSlot<'_, B> {
    #[inline]
    fn block(&mut self) -> &mut B {
        &mut self.window.at_mut(self.at).block
    }

    #[inline]
    fn range(&self) -> Range<u64> {
        self.part.clone()
    }

    #[inline]
    fn commit(self, now: Nanos) {
        let Self { window, at, part, size } = self;
        let live = window.at_mut(at);
        live.size = live.size.or(size);
        live.seen.insert(&part);
        live.last = now;
        let (bytes, high, from) = (live.seen.bytes(), live.seen.high(), live.from);
        let full = live.size.is_some_and(|size| high >= size)
            || bytes >= window.config.geometry.object_bytes.saturating_sub(from);
        if at == SUSPECT {
            return window.believe();
        }
        window.last_arrival = now;
        if window.refused != 0 {
            window.doubt();
        }
        if full {
            window.retire_complete();
        }
    }
}

/// The states of an object: live, suspect (the stream may have jumped there), and the tombstone of a retired
/// one.
#[derive(Debug)]
struct Live<B> {
    number: u64,
    block: B,
    seen: Coverage,
    /// Everything before this offset was retired earlier.
    from: u64,
    size: Option<u64>,
    first: Nanos,
    last: Nanos,
}

impl<B> Live<B> {
    /// Check that a part may be written; its packet states `size`.
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

    /// Whether nothing was committed to it: its only slot was dropped.
    fn is_empty(&self) -> bool {
        self.seen.bytes() == 0 && self.size != Some(0)
    }
}

/// A place the stream may have jumped to, and the evidence for it.
#[derive(Debug)]
struct Suspect<B> {
    live: Live<B>,
    /// It is behind the window: confirming it begins a new epoch.
    backward: bool,
    /// Packets that confirmed it since the window last accepted one.
    packets: u32,
    /// The window has accepted packets since the suspect was opened.
    contradicted: bool,
    /// Packets since the last confirmation that belong neither to it nor to the window.
    against: u32,
    /// Packets of objects after it were refused.
    passed: bool,
}

/// What had arrived when an object retired, to tell a duplicate from a late packet.
#[derive(Debug)]
struct Tombstone {
    number: u64,
    seen: Coverage,
}

#[cfg(test)]
mod tests;
