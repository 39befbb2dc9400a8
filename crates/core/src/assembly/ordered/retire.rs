//! How objects retire: their range and missing parts, their cause, and timeouts.

use super::{Live, Ordered, OrderedConfig, Tombstone};
use crate::assembly::{Cause, Mark, Retired};
use crate::placement::{Grain, Key, Nanos, Reject};
use std::ops::Range;

impl<B> Ordered<B> {
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
