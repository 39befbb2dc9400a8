//! Room for a part: in a live object, or in a new one that the part begins.

use super::live::Live;
use super::unconfirmed::PACE;
use super::{Counting, KeyedWindow};
use crate::assembly::{Cause, Retired, Slot, Window};
use crate::placement::{Nanos, Placement, Reject};
use std::ops::Range;

/// Room for one part in its object. A slot dropped without a commit has no effect: the block of an object
/// that it would have begun is dropped with it.
#[must_use = "a slot has no effect until it is committed"]
#[derive(Debug)]
pub struct KeyedSlot<'a, B> {
    window: &'a mut KeyedWindow<B>,
    placement: Placement,
    at: At<B>,
    part: Range<u64>,
    packets: u64,
    /// Other packets with this key state another size.
    contested: bool,
}

#[derive(Debug)]
enum At<B> {
    Live(u32),
    New { block: B, room: u64, first: Nanos },
}

impl<B> KeyedWindow<B> {
    /// A block for an object that this part begins. The object becomes live when the part is committed.
    #[inline]
    fn begin(
        &mut self,
        range: &Range<u64>,
        part: Placement,
        room: &mut impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<At<B>, Reject> {
        let key = part.key;
        if part.size.is_none() && !self.config.unsized_objects {
            return Err(Reject::Unsized);
        }
        let is_behind = self.config.in_order && !range.is_empty() && range.start > 0;
        if is_behind && self.config.counting == Counting::Begun {
            return Err(Reject::OutOfOrder);
        }
        let bytes = part.size.map_or(range.end, |size| self.unconfirmed.first_room(size, range.end));
        if self.unconfirmed.is_due(self.now) {
            self.retire_unconfirmed();
        }
        if part.size.is_some_and(|size| !self.may_announce(bytes, range, size)) {
            return Err(Reject::NoBuffer);
        }
        match room(bytes, None) {
            // An earlier part is lost, so the object cannot complete; it is still reported.
            Ok(block) if is_behind => {
                let at = self.open(key, block, bytes, self.now, part.number_bits);
                self.table.at_mut(at).miss(range.end, part.size);
                Err(Reject::OutOfOrder)
            }
            Ok(block) => Ok(At::New { block, room: bytes, first: self.now }),
            Err(_) => {
                self.unconfirmed.refuse(self.now);
                self.release(Nanos(u64::MAX));
                // Unconfirmed objects are the first to give up their memory.
                if !self.retire_largest_unconfirmed() && part.size != Some(part.length) {
                    self.make_way(key);
                }
                Err(Reject::NoBuffer)
            }
        }
    }
}

impl<B> Window<B> for KeyedWindow<B> {
    type Slot<'a>
        = KeyedSlot<'a, B>
    where
        B: 'a;

    /// If `room` fails for the whole object, it is called again with what this part needs. If there is no
    /// memory for a new object and the window is full, the oldest object retires, which frees its block.
    #[inline]
    fn reserve(
        &mut self,
        placement: Placement,
        now: Nanos,
        mut room: impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<KeyedSlot<'_, B>, Reject> {
        let Placement { key, offset, length, size, .. } = placement;
        let end = offset.checked_add(length).ok_or(Reject::Outside)?;
        let most = size.unwrap_or(self.config.largest);
        if end > most || most > self.config.largest {
            return Err(Reject::Outside);
        }
        self.now = self.now.max(now);
        let contest = size.filter(|_| self.config.contest.is_some());
        let is_hinted = |live: &Live<B>| live.key == key && (contest.is_none() || live.size == contest);
        let (at, contested) = match self.table.get(self.hint) {
            Some(live) if is_hinted(live) => (Some(self.hint), live.contested),
            _ => match contest {
                Some(size) => self.find_sized(&placement, size)?,
                None => (self.find(key, length)?, false),
            },
        };
        let at = at.filter(|&at| !self.gives_way(at));
        let part = offset..end;
        let at = match at {
            Some(at) => {
                self.admit(at, &part, size, &mut room)?;
                self.hint = at;
                At::Live(at)
            }
            None => self.begin(&part, placement, &mut room)?,
        };
        Ok(KeyedSlot { window: self, placement, at, part, packets: 1, contested })
    }

    #[inline]
    fn poll_retired(&mut self) -> Option<Retired<B>> {
        if self.is_release_due() {
            self.release(self.now);
        }
        self.retired.pop_front()
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        let oldest = self.table.oldest_from().zip(self.config.timeout).map(|(from, time)| from.plus(time));
        [oldest, self.contest.due()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some((oldest, time)) = self.table.oldest().zip(self.config.timeout)
            && self.table.oldest_from().is_some_and(|from| from.plus(time) <= self.now)
        {
            if !self.table.goes_on(oldest, PACE, self.now) {
                self.retire(oldest, Cause::Timeout);
            }
        }
        self.release(self.now);
        if self.unconfirmed.is_too_much() {
            self.retire_unconfirmed();
        }
    }

    /// Oldest first.
    fn finish(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.release_all();
        while let Some(oldest) = self.table.oldest() {
            self.retire(oldest, Cause::Finish);
        }
    }

    fn held(&self) -> usize {
        self.table.len() + self.retired.len() + self.contest.len()
    }
}

impl<B> KeyedSlot<'_, B> {
    /// Shorten the part to end at `end`.
    #[inline]
    pub fn cut(&mut self, end: u64) {
        self.part.end = end.clamp(self.part.start, self.part.end);
    }

    /// Sets the number of packets in the part; 1 by default.
    #[inline]
    pub fn of_packets(&mut self, packets: u64) {
        self.packets = packets;
    }

    /// Whether this part begins its object, so that the data kept per object must still be initialised.
    #[inline]
    #[must_use]
    pub fn is_first(&self) -> bool {
        matches!(self.at, At::New { .. })
    }
}

impl<B> Slot<B> for KeyedSlot<'_, B> {
    #[inline]
    fn block(&mut self) -> &mut B {
        match &mut self.at {
            At::Live(at) => {
                self.window.table.at_mut(*at).block.as_mut().expect("a live object has its block")
            }
            At::New { block, .. } => block,
        }
    }

    #[inline]
    fn range(&self) -> Range<u64> {
        self.part.clone()
    }

    /// Retires the oldest object if this part begins one that exceeds the window.
    #[inline]
    fn commit(self, now: Nanos) {
        let Self {
            window,
            placement: Placement { key, size, number_bits, .. },
            at,
            part,
            packets,
            contested,
        } = self;
        window.now = window.now.max(now);
        let at = match at {
            At::Live(at) => at,
            At::New { block, first, .. } if size == Some(part.end - part.start) => {
                if contested && packets > 1 {
                    window.win(key, part.end);
                }
                return window.retire_whole(key, block, part.end, (first, number_bits), (packets, contested));
            }
            At::New { block, room, first } => window.open(key, block, room, first, number_bits),
        };
        let now = window.now;
        let live = window.table.at_mut(at);
        live.size = live.size.or(size);
        if !part.is_empty() {
            live.seen.insert(&part);
        }
        live.last = now;
        if live.unconfirmed > 0 && live.seen.bytes() >= live.unconfirmed / 2 {
            window.unconfirmed.settle(&mut live.unconfirmed);
        }
        live.packets += packets;
        live.contested |= contested;
        if live.contested && live.packets > 1 {
            live.contested = false;
            window.win(key, size.unwrap_or(u64::MAX));
        }
        let live = window.table.at(at);
        if live.size == Some(live.seen.bytes()) {
            window.retire(at, Cause::Complete);
        }
    }
}
