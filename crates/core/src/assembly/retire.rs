//! How objects leave the window: what each part is said to hold, why, and when time alone decides it.

use super::{Assembly, Coverage, Live};
use crate::placement::{Grain, Nanos, ObjectId, Reject};
use std::ops::Range;

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
    /// It was a suspect that nothing confirmed, or nothing came for it after all: not part of the stream. Count what
    /// it holds as [`Reject::Stray`] and give the block back.
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

/// What was there when an object retired, to tell a duplicate from a late packet.
#[derive(Debug)]
pub(super) struct Tombstone {
    object: ObjectId,
    seen: Coverage,
}

impl<B> Assembly<B> {
    /// The next finished object, in stream order.
    pub fn poll_retired(&mut self) -> Option<Retired<B>> {
        self.retired.pop_front()
    }

    /// Whether there is a finished object to poll.
    #[must_use]
    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// When [`Assembly::handle_timeout`] next has something to do, if nothing arrives before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
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

    /// Retire what time has finished.
    pub fn handle_timeout(&mut self, now: Nanos) {
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

    /// When the oldest object is given up. A pause of the whole stream does not count: time runs for an object
    /// once its successor is there.
    fn linger_due(&self) -> Option<Nanos> {
        let (oldest, next) = (self.live.front()?, self.live.get(1)?);
        Some(oldest.last.max(next.first).plus(self.config.linger))
    }

    /// When a slowly filling object is retired as far as it came. Without a gap nothing can still come for that
    /// part; with one, it is given as long again.
    fn flush_due(&self, live: &Live<B>) -> Nanos {
        let due = live.first.plus(self.config.flush);
        let start = self.start(live);
        let whole = live.seen.prefix(start) >= live.seen.high();
        if whole { due } else { due.plus(self.config.flush) }
    }

    /// Retire everything as it stands: the stream has ended.
    pub fn finish(&mut self) {
        self.reach_suspect(true);
        self.retire_all(Cause::Finish);
        self.dismiss();
    }

    /// Late or doubled? A tombstone knows what was there.
    pub(super) fn bury(&self, object: ObjectId, part: &Range<u64>) -> Reject {
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

    pub(super) fn retire_all(&mut self, cause: Cause) {
        // The stream ends with the last object for which something came.
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
        // What was cut off may still come; a whole object cannot.
        self.horizon = Some(match live.object.0.checked_add(1) {
            Some(next) if end >= size => Mark { object: ObjectId(next), offset: 0 },
            _ => Mark { object: live.object, offset: end },
        });
        let missing = live.seen.missing(start..end);
        if self.tombstones.len() > self.config.window {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back(Tombstone { object: live.object, seen: live.seen });
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

    /// Whether an object that was just taken from the window ends with what came for it; otherwise all up to its
    /// size is missing that did not come.
    fn ends_where_it_is(&self, live: &Live<B>, cause: Cause) -> bool {
        let next = self.live.front().map(|next| next.object);
        let cut = matches!(cause, Cause::Idle | Cause::Flush | Cause::Restart | Cause::Finish);
        let unknown = live.size.is_none() && matches!(self.config.geometry.grain, Grain::Bytes(_));
        let followed = next.is_some_and(|next| live.object.0.checked_add(1) == Some(next.0));
        (cut && next.is_none()) || unknown || (self.config.open_ended && !followed)
    }

    /// Retire from the front all that is complete.
    pub(super) fn retire_complete(&mut self) {
        while let Some(live) = self.live.front() {
            let size = live.size.unwrap_or(self.config.geometry.object_bytes);
            if live.seen.high() < size || live.seen.bytes() < size.saturating_sub(live.from) {
                return;
            }
            self.retire_front(Cause::Complete);
        }
    }

    /// Give back the block of an object that is no part of the stream, with what it holds.
    pub(super) fn hand_back(&mut self, live: Live<B>) {
        let range = live.seen.low().unwrap_or(0)..live.seen.high();
        self.retired.push_back(Retired {
            object: live.object,
            epoch: self.epoch,
            block: live.block,
            missing: live.seen.missing(range.clone()),
            range,
            after: None,
            first: live.first,
            last: live.last,
            cause: Cause::Stray,
        });
    }
}
