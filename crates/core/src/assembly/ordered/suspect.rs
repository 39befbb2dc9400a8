//! A place the stream may have jumped to; and how objects retire.
//!
//! A packet far from the stream's position is either damaged, hostile, or the first after a long outage or a
//! restart. It opens an object *beside* the window. Packets that follow it there confirm it, and the window
//! moves without loss; if none do, the object is dismissed as [`Cause::Stray`] and the window is unchanged.
//!
//! ```text
//!   forward    more than `ahead` beyond the newest     `confirm` packets in a row for it or its successor
//!   backward   late or duplicate, several in a row     `resync` in a row for it or for what follows it
//! ```
//!
//! What lies between a suspect ahead and the window is missing anyway. A restart is different: where packets of several objects were
//! needed to believe it, the new epoch begins with the last of them, and those before it are refused, none of them missing.

use super::{Found, Live, Ordered, OrderedConfig, SUSPECT, Suspect, Tombstone};
use crate::assembly::{Cause, Mark, Retired};
use crate::placement::{Grain, Key, Nanos, Reject};
use std::ops::Range;

impl<B> Ordered<B> {
    /// Consecutive late or duplicate packets that are only rejected: single ones are common and must not cost
    /// a block.
    fn patience(&self) -> u32 {
        (self.config.resync / 32).max(1)
    }

    /// Open a suspect for a packet that was rejected for `why`, or return the reason.
    #[cold]
    pub(super) fn suspect(
        &mut self,
        number: u64,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
        why: Reject,
        backward: bool,
    ) -> Result<usize, Reject> {
        match &self.suspect {
            Some(held) if held.backward == backward && held.live.number == number => return Ok(SUSPECT),
            Some(held) if held.backward == backward && self.follows(held, number) => {
                return self.follow_suspect(number, part, now, take, why);
            }
            Some(_) => self.disagree(why)?,
            None => {}
        }
        match &self.suspect {
            Some(_) => Err(why),
            None if backward && self.refused < self.patience() => Err(why),
            None => {
                // Without a block for a suspect, a late packet is just late.
                let none = if backward { why } else { Reject::NoBuffer };
                let live = self.begin(number, 0, part, now, || take().ok_or(none))?;
                self.suspect = Some(Suspect {
                    live,
                    backward,
                    packets: 0,
                    contradicted: false,
                    against: 0,
                    passed: false,
                });
                Ok(SUSPECT)
            }
        }
    }

    /// Packets of the objects after the suspect confirm it too: the next object after a jump forward, any
    /// near one after a restart.
    fn follows(&self, held: &Suspect<B>, number: u64) -> bool {
        let OrderedConfig { ahead, resync, .. } = self.config;
        let most = if held.backward { ahead.max(u64::from(resync)) } else { ahead.max(1) };
        number.checked_sub(held.live.number).is_some_and(|beyond| (1..=most).contains(&beyond))
    }

    /// A packet that belongs neither to the window nor to the suspect. After several of them and none for the
    /// suspect, the suspect is dismissed, so that the window can follow the stream elsewhere.
    fn disagree(&mut self, why: Reject) -> Result<(), Reject> {
        let Some(held) = &mut self.suspect else { return Ok(()) };
        held.against += 1;
        if held.against < self.config.confirm {
            return Err(why);
        }
        self.dismiss();
        Ok(())
    }

    fn follow_suspect(
        &mut self,
        number: u64,
        part: &Range<u64>,
        now: Nanos,
        take: &mut impl FnMut() -> Option<B>,
        why: Reject,
    ) -> Result<usize, Reject> {
        let restart = self.config.resync.saturating_sub(self.patience());
        let Some(held) = &mut self.suspect else { return Err(why) };
        held.against = 0;
        held.packets = held.packets.saturating_add(1);
        held.passed = true;
        let backward = held.backward;
        let enough = match backward {
            true => held.packets >= restart,
            // Objects of few packets end before enough have arrived; then no other packet may have arrived
            // between.
            false => held.packets >= self.config.confirm || (held.packets >= 2 && !held.contradicted),
        };
        self.refused = self.refused.saturating_add(1);
        if !enough {
            return Err(why);
        }
        if backward {
            // What was refused since the suspect is no loss of an epoch that begins behind it.
            self.dismiss();
            self.begin_epoch(now);
            return self.open(number, 0, part, now, take);
        }
        self.believe_now();
        match self.find(number, part) {
            Found::Live(at) => Ok(at),
            Found::New(from) => self.open(number, from, part, now, take),
            Found::Far => self.suspect(number, part, now, take, Reject::Stray, false),
            Found::Suspect | Found::Old(_) => Err(why),
        }
    }

    /// Count a packet for the suspect. Enough of them move the window there.
    pub(super) fn believe(&mut self) {
        let restart = self.config.resync.saturating_sub(self.patience());
        let Some(suspect) = &mut self.suspect else { return };
        suspect.packets = suspect.packets.saturating_add(1);
        suspect.against = 0;
        let enough = if suspect.backward { restart } else { self.config.confirm };
        self.refused = self.refused.saturating_add(1);
        // Packets behind a suspect that may be a restart were refused: one of these must begin the epoch.
        let is_passed = suspect.backward && suspect.passed;
        if suspect.packets >= enough && !is_passed {
            self.believe_now();
        }
    }

    /// The window accepted a packet: reset the evidence for a restart or a jump.
    #[cold]
    pub(super) fn doubt(&mut self) {
        self.refused = 0;
        if let Some(suspect) = &mut self.suspect {
            suspect.packets = 0;
            suspect.contradicted = true;
        }
    }

    /// If the window has come near the suspect, move the suspect into it. Without `now`, only if the window
    /// has room, so that nothing is retired before another packet or a timeout requires it.
    pub(super) fn reach_suspect(&mut self, now: bool) {
        let newest = self.live.back().map(|l| l.number).or(self.horizon.map(|h| h.number));
        let (Some(suspect), Some(newest)) = (&self.suspect, newest) else { return };
        let number = suspect.live.number;
        if suspect.backward
            || number.saturating_sub(newest) > self.config.ahead
            || (!now && self.live.len() == self.config.window)
        {
            return;
        }
        if self.has_passed(number) || self.live.iter().any(|l| l.number == number) {
            return self.dismiss();
        }
        if let Some(suspect) = self.suspect.take() {
            self.admit(suspect.live);
            self.retire_complete();
        }
    }

    fn has_passed(&self, number: u64) -> bool {
        self.horizon.is_some_and(|horizon| Mark { number, offset: 0 } < horizon)
    }

    fn believe_now(&mut self) {
        let Some(suspect) = self.suspect.take() else { return };
        self.refused = 0;
        self.last_arrival = suspect.live.last;
        if suspect.backward {
            self.begin_epoch(suspect.live.last);
        } else if self.has_passed(suspect.live.number) {
            return self.hand_back(suspect.live);
        }
        self.admit(suspect.live);
        self.retire_complete();
    }

    /// The counter has restarted.
    fn begin_epoch(&mut self, now: Nanos) {
        (self.refused, self.last_arrival) = (0, now);
        self.retire_all(Cause::Restart);
        self.epoch = self.epoch.saturating_add(1);
        self.horizon = None;
        self.tombstones.clear();
    }

    /// When an unconfirmed suspect is dismissed: soon if the window accepted packets since, else after the
    /// time in which a slow stream may confirm it.
    pub(super) fn suspect_due(&self) -> Option<Nanos> {
        let last = self.suspect.as_ref()?.live.last;
        let contradicted = self.last_arrival >= last;
        Some(last.plus(if contradicted { self.config.linger } else { self.config.flush }))
    }

    /// Dismiss the unconfirmed suspect: return its block as [`Cause::Stray`].
    pub(super) fn dismiss(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            self.hand_back(suspect.live);
        }
    }

    /// An empty window of a stream whose part before `from` was retired elsewhere, in this epoch.
    ///
    /// # Panics
    /// If the window is 0.
    #[must_use]
    pub fn continued(config: OrderedConfig, from: Mark, epoch: u32) -> Self {
        Self { horizon: Some(from), epoch, ..Self::new(config) }
    }

    /// An empty window of a stream whose counter restarted so often.
    ///
    /// # Panics
    /// If the window is 0.
    #[must_use]
    pub fn restarted(config: OrderedConfig, epoch: u32) -> Self {
        Self { epoch, ..Self::new(config) }
    }

    /// Its limits.
    #[must_use]
    pub fn config(&self) -> &OrderedConfig {
        &self.config
    }

    /// Whether parts are missing before the last one that arrived, which may still come.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        let behind = self.live.len().saturating_sub(1);
        self.live.iter().enumerate().any(|(at, live)| {
            let seen = &live.seen;
            let is_first = at == 0 && self.horizon.is_none();
            let start = if is_first { seen.low().unwrap_or(0) } else { live.from };
            let end = live.size.unwrap_or(self.config.geometry.object_bytes);
            seen.bytes() < seen.high().saturating_sub(start) || at < behind && seen.high() < end
        })
    }

    /// Whether this object is under construction, or a suspect.
    #[must_use]
    pub fn holds(&self, number: u64) -> bool {
        let is_suspect = self.suspect.as_ref().is_some_and(|suspect| suspect.live.number == number);
        is_suspect || self.live.binary_search_by_key(&number, |live| live.number).is_ok()
    }

    /// The object behind all that began, unless the stream may have jumped.
    #[must_use]
    pub fn next_number(&self) -> Option<u64> {
        if self.suspect.is_some() {
            return None;
        }
        match (self.live.back(), self.horizon) {
            (Some(newest), _) => newest.number.checked_add(1),
            (None, Some(Mark { number, offset: 0 })) => Some(number),
            (None, Some(Mark { number, .. })) => number.checked_add(1),
            (None, None) => None,
        }
    }

    /// Whether a retired object can be polled.
    #[must_use]
    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Packets that were late, duplicate or of a suspect since a packet was last accepted.
    #[must_use]
    pub fn refused(&self) -> u32 {
        self.refused
    }

    /// Whether exactly one object can be polled, retired because it is complete, and nothing newer was accepted.
    #[must_use]
    pub fn is_at_its_end(&self) -> bool {
        let is_one = self.retired.len() == 1 && self.live.is_empty();
        is_one && self.retired.front().is_some_and(|retired| retired.cause == Cause::Complete)
    }

    /// When the next object must be retired if nothing arrives before.
    pub(super) fn next_timeout(&self) -> Option<Nanos> {
        let c = &self.config;
        let newest = self.live.back();
        [
            newest.map(|_| self.last_arrival.plus(c.idle)),
            newest.filter(|_| self.live.len() == 1).map(|live| self.flush_due(live)),
            self.linger_due(),
            self.suspect_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Retire the objects whose deadline has passed.
    pub(super) fn retire_due(&mut self, now: Nanos) {
        if self.suspect_due().is_some_and(|due| now >= due) {
            self.reach_suspect(true);
            self.dismiss();
        }
        if !self.live.is_empty() && now.since(self.last_arrival) >= self.config.idle {
            return self.retire_all(Cause::Idle);
        }
        while self.linger_due().is_some_and(|due| now >= due) {
            self.retire_front(Cause::Linger);
        }
        if self.live.len() == 1 && now >= self.flush_due(&self.live[0]) {
            self.retire_front(Cause::Flush);
        }
    }

    /// When the oldest object is given up. A pause of the whole stream does not count: the time starts when
    /// the successor exists.
    fn linger_due(&self) -> Option<Nanos> {
        let (oldest, next) = (self.live.front()?, self.live.get(1)?);
        Some(oldest.last.max(next.first).plus(self.config.linger))
    }

    /// When the received part of a slowly filling object is retired. An object with a gap, which may still fill, gets
    /// twice the time.
    fn flush_due(&self, live: &Live<B>) -> Nanos {
        let due = live.first.plus(self.config.flush);
        let start = self.start(live);
        let whole = live.seen.prefix(start) >= live.seen.high();
        if whole { due } else { due.plus(self.config.flush) }
    }

    /// Tell late from duplicate by the tombstone of the object.
    pub(super) fn bury(&self, number: u64, part: &Range<u64>) -> Reject {
        let mut graves = self.tombstones.iter().rev().filter(|t| t.number == number);
        match graves.any(|t| t.seen.admits(part) == Err(Reject::Duplicate)) {
            true => Reject::Duplicate,
            false => Reject::Late,
        }
    }

    /// Where an object's bytes start; the first object of a stream starts with its first payload.
    fn start(&self, live: &Live<B>) -> u64 {
        if self.horizon.is_none() { live.seen.low().unwrap_or(live.from).max(live.from) } else { live.from }
    }

    pub(super) fn retire_all(&mut self, cause: Cause) {
        // The stream ends with the last object for which something arrived.
        while let Some(live) = self.live.pop_back_if(|live| live.is_empty()) {
            self.hand_back(live);
        }
        while !self.live.is_empty() {
            self.retire_front(cause);
        }
    }

    pub(super) fn retire_front(&mut self, cause: Cause) {
        let Some(live) = self.live.pop_front() else { return };
        self.hint = self.hint.saturating_sub(1);
        if live.is_empty() {
            return self.hand_back(live);
        }
        let start = self.start(&live);
        let size = live.size.unwrap_or(self.config.geometry.object_bytes);
        let end = if self.ends_where_it_is(&live, cause) { live.seen.high().max(start) } else { size };
        let after = self.horizon;
        // Packets for the part cut off may still arrive; a whole object is finished.
        self.horizon = Some(match live.number.checked_add(1) {
            Some(next) if end >= size => Mark { number: next, offset: 0 },
            _ => Mark { number: live.number, offset: end },
        });
        let missing = live.seen.missing(start..end);
        if self.tombstones.len() > self.config.window {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back(Tombstone { number: live.number, seen: live.seen });
        self.retired.push_back(Retired {
            key: Key::of(live.number),
            epoch: self.epoch,
            block: live.block,
            range: start..end,
            size: live.size,
            missing,
            after,
            first: live.first,
            last: live.last,
            cause,
        });
    }

    /// Whether an object just removed from the window ends with its last part that arrived; otherwise the
    /// rest up to its size is missing.
    fn ends_where_it_is(&self, live: &Live<B>, cause: Cause) -> bool {
        let next = self.live.front().map(|next| next.number);
        let cut = matches!(cause, Cause::Idle | Cause::Flush | Cause::Restart | Cause::Finish);
        let unknown = live.size.is_none() && matches!(self.config.geometry.grain, Grain::Bytes(_));
        let followed = next.is_some_and(|next| live.number.checked_add(1) == Some(next));
        (cut && next.is_none()) || unknown || (self.config.open_ended && !followed)
    }

    /// Retire the complete objects at the front.
    pub(super) fn retire_complete(&mut self) {
        while let Some(live) = self.live.front() {
            let size = live.size.unwrap_or(self.config.geometry.object_bytes);
            if live.seen.high() < size || live.seen.bytes() < size.saturating_sub(live.from) {
                return;
            }
            self.retire_front(Cause::Complete);
        }
    }

    /// Return the block of an object that is not part of the stream, with what was written to it.
    pub(super) fn hand_back(&mut self, live: Live<B>) {
        let range = live.seen.low().unwrap_or(0)..live.seen.high();
        self.retired.push_back(Retired {
            key: Key::of(live.number),
            epoch: self.epoch,
            block: live.block,
            size: live.size,
            missing: live.seen.missing(range.clone()),
            range,
            after: None,
            first: live.first,
            last: live.last,
            cause: Cause::Stray,
        });
    }
}
