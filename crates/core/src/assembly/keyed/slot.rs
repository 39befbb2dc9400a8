//! Room for a part: in a live object, or in a new one that the part begins; and how objects retire: with their range and
//! missing parts, a cause, and timeouts.

use super::contest::Held;
use super::finished::Entry;
use super::index::Known;
use super::live::{EVIDENCE, Live, NONE, PACE, Pace};
use super::{Counting, KeyedWindow};
use crate::assembly::{Cause, Retired, Slot, Window};
use crate::placement::{Key, Nanos, Placement, Reject};
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
    New { block: B, room: u64, first: Nanos, hash: u32 },
}

impl<B> KeyedWindow<B> {
    /// A block for an object that this part begins. The object becomes live when the part is committed.
    #[inline]
    fn begin(
        &mut self,
        range: &Range<u64>,
        part: Placement,
        hash: u32,
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
        match room(bytes, None).or_else(|_| self.room_taken_back(bytes, room)) {
            // An earlier part is lost, so the object cannot complete; it is still reported.
            Ok(block) if is_behind => {
                let at = self.open((key, hash), block, bytes, self.now, part.number_bits);
                self.table.at_mut(at).miss(range.end, part.size);
                Err(Reject::OutOfOrder)
            }
            Ok(block) => Ok(At::New { block, room: bytes, first: self.now, hash }),
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

    /// Retire the object with this key before its deadline. Does nothing if it is not live.
    pub fn give_up(&mut self, key: Key, now: Nanos) {
        self.now = self.now.max(now);
        if let Some(Known::Live(at)) = self.known(key, self.index.hash(key)) {
            self.retire(at, Cause::Timeout);
        }
    }

    /// Retire an object that arrived in one part and was never live. `None`: it may still lose to a rival.
    #[inline(always)]
    fn retire_whole(
        &mut self,
        (key, hash): (Key, u32),
        block: B,
        bytes: u64,
        (first, number_bits): (Nanos, u8),
        (packets, contested): (u64, bool),
    ) -> Option<Retired<B>> {
        if self.config.counting == Counting::Begun {
            self.make_way(key);
            self.table.pass(key);
        }
        let turn = self.take_turn(key, number_bits);
        let last = self.now;
        let retired = || Retired {
            key,
            epoch: 0,
            block,
            range: 0..bytes,
            size: Some(bytes),
            missing: Vec::new(),
            after: None,
            first,
            last,
            cause: Cause::Complete,
        };
        let entry = Entry::new((key, hash), true, bytes, turn, last);
        match self.config.contest {
            Some(time) if packets == 1 && self.config.remember > 0 => {
                let entry = self.finished.push(entry.held(), None, &mut self.index);
                if contested {
                    self.finished.contest(entry);
                }
                self.contest.undisputed.push(Held { retired: retired(), entry, due: last.plus(time) });
                if self.is_release_due() {
                    self.release(self.now);
                }
                None
            }
            _ => {
                self.finished.push(entry, None, &mut self.index);
                Some(retired())
            }
        }
    }

    /// Retire the live object at `at`. Of several candidates that nothing confirmed, only the last is taken for the object.
    pub(super) fn retire(&mut self, at: u32, cause: Cause) {
        if cause != Cause::Complete && self.has_rival(at) {
            return self.end_candidate(at);
        }
        let retired = self.take_out(at, cause);
        self.retired.extend(retired);
    }

    /// The live object at `at`, which retires.
    #[inline(always)]
    fn take_out(&mut self, at: u32, cause: Cause) -> Option<Retired<B>> {
        let live = self.table.at(at);
        let (key, hash, size, turn) = (live.key, live.hash, live.size, live.turn);
        let (first, last) = (live.first, live.last);
        let bytes = live.bytes();
        let missing = if live.seen.bytes() == bytes { Vec::new() } else { live.seen.missing(0..bytes) };
        let complete = cause == Cause::Complete;
        if complete || self.config.counting == Counting::Incomplete {
            let entry = Entry::new((key, hash), complete, bytes, turn, self.now);
            self.finished.push(entry, Some(Known::Live(at)), &mut self.index);
        } else {
            self.index.remove(hash, Known::Live(at));
        }
        let (epoch, range, after) = (0, 0..bytes, None);
        self.close(at).map(|block| Retired {
            key,
            epoch,
            block,
            range,
            size,
            missing,
            after,
            first,
            last,
            cause,
        })
    }

    /// The next finished object, as [`poll_retired`](Window::poll_retired), without looking for [held](super::KeyedConfig::contest)
    /// objects that are due.
    #[inline]
    pub fn pop_retired(&mut self) -> Option<Retired<B>> {
        self.retired.pop_front()
    }

    /// Discard the live object at `at`.
    pub(super) fn discard(&mut self, at: u32) -> Option<B> {
        self.index.remove(self.table.at(at).hash, Known::Live(at));
        self.close(at)
    }

    /// The same after it has left the index.
    #[inline]
    fn close(&mut self, at: u32) -> Option<B> {
        if self.hint == at {
            self.hint = NONE;
        }
        self.unconfirmed.settle(&mut self.table.at_mut(at).unconfirmed);
        self.table.close(at)
    }

    /// Limits the memory of unconfirmed objects (1 MiB or more, less than half received) to `bytes` in total. If they
    /// hold more, those that are too slow retire ([`Cause::Window`]), largest first, but none before an eighth of the
    /// timeout. An object is too slow if it would receive neither all of its bytes nor 16 MiB within the timeout. An
    /// object that announces more than `staged` bytes gets memory for 1/256 of them at first, and for all when half of
    /// that has arrived. Beyond the limit, an object that has less than that half gives its memory
    /// [back](Self::take_taken_back) to one that needs at most half of it and finds none.
    pub fn limit_announced(&mut self, bytes: u64, staged: u64) {
        self.unconfirmed.limit(bytes, staged);
    }

    /// Whether an object that announces `size` bytes may get memory for `bytes` of them. It may if that is a small
    /// fraction, if enough of the object has arrived, or if the limit for unconfirmed objects has room; too slow
    /// objects retire to make room.
    #[inline]
    pub(super) fn may_announce(&mut self, bytes: u64, part: &Range<u64>, size: u64) -> bool {
        let arrived = part.end - part.start;
        let is_little = bytes <= (size / EVIDENCE).max(arrived);
        is_little || self.unconfirmed.is_earned(arrived, size) || self.unconfirmed.has_room(bytes) || {
            self.unconfirmed.refuse(self.now);
            self.retire_largest_unconfirmed();
            self.unconfirmed.has_room(bytes)
        }
    }

    /// Retire unconfirmed objects until the rest is within the limit, or none of them is too slow.
    #[cold]
    pub(super) fn retire_unconfirmed(&mut self) {
        while self.unconfirmed.is_too_much() {
            if !self.retire_largest_unconfirmed() {
                return self.unconfirmed.rest(self.pace());
            }
        }
    }

    fn pace(&self) -> Pace {
        Pace::at(self.now, self.config.timeout, self.unconfirmed.refused())
    }

    /// Retire the largest unconfirmed object that is too slow; of equally large ones the oldest. Returns whether there
    /// was one.
    #[cold]
    pub(super) fn retire_largest_unconfirmed(&mut self) -> bool {
        if self.unconfirmed.bytes() == 0 {
            return false;
        }
        let pace = self.pace();
        let (mut next, mut most, mut largest) = (self.table.oldest(), 0, None);
        while let Some(at) = next {
            let live = self.table.at(at);
            if live.unconfirmed > most && pace.is_missed(live) {
                (most, largest) = (live.unconfirmed, Some(at));
            }
            next = self.table.newer(at);
        }
        largest.inspect(|&at| self.retire(at, Cause::Window)).is_some()
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
        let ((at, contested), hash) = match self.table.get(self.hint) {
            Some(live) if is_hinted(live) => ((Some(self.hint), live.contested), live.hash),
            _ => {
                let hash = self.index.seeded_hash(key, self.now);
                let found = match contest {
                    Some(size) => self.find_sized(&placement, hash, size)?,
                    None => (self.find(key, hash, length)?, false),
                };
                (found, hash)
            }
        };
        let at = at.filter(|&at| !self.gives_way(at));
        let part = offset..end;
        let at = match at {
            Some(at) => {
                self.admit(at, &part, size, &mut room)?;
                self.hint = at;
                At::Live(at)
            }
            None => self.begin(&part, placement, hash, &mut room)?,
        };
        Ok(KeyedSlot { window: self, placement, at, part, packets: 1, contested })
    }

    #[inline]
    fn poll_retired(&mut self) -> Option<Retired<B>> {
        if self.is_release_due() {
            self.release(self.now);
        }
        self.pop_retired()
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

impl<'a, B> KeyedSlot<'a, B> {
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

    /// The payload has been written, as [`commit`](Slot::commit) says. If its object is complete, it is returned, without the
    /// queue of [`pop_retired`](KeyedWindow::pop_retired): those that are there retired before it.
    #[inline(always)]
    pub fn complete(self, now: Nanos) -> Option<Retired<B>> {
        self.finish(now).1
    }

    #[inline(always)]
    fn finish(self, now: Nanos) -> (&'a mut KeyedWindow<B>, Option<Retired<B>>) {
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
            At::New { block, first, hash, .. } if size == Some(part.end - part.start) => {
                if contested && packets > 1 {
                    window.win(key, part.end);
                }
                let counts = (packets, contested);
                let retired = window.retire_whole((key, hash), block, part.end, (first, number_bits), counts);
                return (window, retired);
            }
            At::New { block, room, first, hash } => window.open((key, hash), block, room, first, number_bits),
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
        let is_complete = live.size == Some(live.seen.bytes());
        let retired = if is_complete { window.take_out(at, Cause::Complete) } else { None };
        (window, retired)
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
        let (window, retired) = self.finish(now);
        window.retired.extend(retired);
    }
}
