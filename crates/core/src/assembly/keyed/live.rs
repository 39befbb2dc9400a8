//! The objects under construction: reusable slots, each in two lists, oldest first.
//!
//! ```text
//!   slots        0 ▒  1 ▒  2 ·  3 ▒  4 ▒        · free, with the memory of its coverage
//!   all          3 ─ 0 ─ 4 ─ 1                  by deadline: by first packet, unless a large object makes progress
//!   substream 0      0 ─ 4                      the first retires when the window is full
//!   substream 1  3 ───────── 1
//! ```

use super::finished::Turn;
use super::shares::{self, Origin};
use super::{Counting, KeyedConfig};
use crate::assembly::coverage::Coverage;
use crate::placement::{Grain, Key, Nanos};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;
const ALL: usize = 0;
const SUBSTREAM: usize = 1;

#[derive(Debug)]
pub(super) struct Live<B> {
    pub(super) key: Key,
    /// Of its key, in the index.
    pub(super) hash: u32,
    /// `None` in a free slot, and while the object grows.
    pub(super) block: Option<B>,
    pub(super) seen: Coverage,
    pub(super) size: Option<u64>,
    /// Bytes of memory requested for it.
    pub(super) room: u64,
    pub(super) first: Nanos,
    pub(super) last: Nanos,
    /// Start of its timeout: arrival of its first packet, or when it was last found to make progress.
    pub(super) from: Nanos,
    /// Bytes received by then.
    pub(super) had: u64,
    /// Packets committed to it.
    pub(super) packets: u64,
    /// Other packets with its key state another size.
    pub(super) contested: bool,
    /// Bytes that it counts towards the limit for unconfirmed objects; 0 once half of it has arrived.
    pub(super) unconfirmed: u64,
    /// End of the furthest part that was rejected because an earlier part is missing.
    missed: u64,
    pub(super) turn: Turn,
    /// Who sent its first packet.
    origin: Origin,
    /// That sender is [held back](super::KeyedWindow::held_back).
    pub(super) held_back: bool,
    substream: u32,
    /// Number of objects begun before it in its substream.
    begun: u64,
    /// Its neighbours in the list of all objects and in that of its substream.
    older: [u32; 2],
    newer: [u32; 2],
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl<B> Live<B> {
    /// A part up to `end` was rejected because an earlier part is missing.
    pub(super) fn miss(&mut self, end: u64, size: Option<u64>) {
        self.missed = self.missed.max(end);
        self.size = self.size.or(size);
    }

    /// Its size, or the end of the furthest part seen.
    pub(super) fn bytes(&self) -> u64 {
        self.size.unwrap_or_else(|| self.seen.high().max(self.missed))
    }
}

const EMPTY: List = List { oldest: NONE, newest: NONE, len: 0 };

#[derive(Debug)]
pub(super) struct Table<B> {
    slots: Vec<Live<B>>,
    free: Vec<u32>,
    all: List,
    substreams: Vec<List>,
    /// Number of objects begun in each substream.
    begun: Vec<u64>,
    /// Who sends what begins now, and whether others have begun objects.
    origin: Option<Origin>,
    is_mixed: bool,
    pub(super) held_back: bool,
    counting: Counting,
    window: usize,
    runs: u32,
}

impl<B> Table<B> {
    pub(super) fn new(config: &KeyedConfig) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            all: EMPTY,
            substreams: vec![EMPTY; config.substreams as usize],
            begun: vec![0; config.substreams as usize],
            origin: None,
            is_mixed: false,
            held_back: false,
            counting: config.counting,
            window: config.window,
            runs: config.runs,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len
    }

    /// Number of slots allocated so far.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The slot at `at`, if there is one; it may be free.
    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&Live<B>> {
        self.slots.get(at as usize)
    }

    #[inline]
    pub(super) fn at(&self, at: u32) -> &Live<B> {
        &self.slots[at as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, at: u32) -> &mut Live<B> {
        &mut self.slots[at as usize]
    }

    /// The oldest object.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.all.oldest != NONE).then_some(self.all.oldest)
    }

    /// The next newer object after the one at `at`.
    pub(super) fn newer(&self, at: u32) -> Option<u32> {
        Some(self.at(at).newer[ALL]).filter(|&newer| newer != NONE)
    }

    /// What begins from here on was sent from here.
    #[inline]
    pub(super) fn sent_from(&mut self, origin: Origin) {
        if self.origin != Some(origin) {
            self.is_mixed |= self.origin.is_some();
            self.origin = Some(origin);
        }
    }

    /// The object that must retire before another begins in the substream of `key`, if the window is full: the oldest one, or
    /// that of a sender who has [more than its share](shares).
    #[inline]
    pub(super) fn oldest_beyond(&self, key: Key) -> Option<u32> {
        let substream = self.substream(key);
        let List { oldest, len, .. } = self.substreams[substream];
        let is_full = match self.counting {
            Counting::Incomplete if len >= self.window && self.is_mixed => {
                return Some(self.beyond_its_share(oldest));
            }
            Counting::Incomplete => len >= self.window,
            Counting::Begun => len > 0 && self.begun[substream] - self.at(oldest).begun >= self.window as u64,
        };
        is_full.then_some(oldest)
    }

    /// The object that gives way in a full substream, whose oldest object is at `oldest`.
    fn beyond_its_share(&self, oldest: u32) -> u32 {
        let next = |&at: &u32| Some(self.at(at).newer[SUBSTREAM]).filter(|&newer| newer != NONE);
        let all = || std::iter::successors(Some(oldest), next).take(shares::MAX_LOOKED_AT);
        shares::excess(|| all().map(|at| (at, self.at(at).origin)), self.origin).unwrap_or(oldest)
    }

    /// Count an object of the substream of `key` that is complete with its first packet.
    #[inline]
    pub(super) fn pass(&mut self, key: Key) {
        let substream = self.substream(key);
        self.begun[substream] += 1;
    }

    fn substream(&self, key: Key) -> usize {
        let by = if key.source == 0 { key.number } else { key.source };
        if self.substreams.len() == 1 { 0 } else { (by % self.substreams.len() as u64) as usize }
    }

    /// Begin an empty object.
    pub(super) fn open(
        &mut self,
        (key, hash): (Key, u32),
        block: B,
        room: u64,
        now: Nanos,
        turn: Turn,
    ) -> u32 {
        let substream = self.substream(key);
        let begun = self.begun[substream];
        let origin = self.origin.unwrap_or_default();
        let held_back = self.held_back;
        self.begun[substream] += 1;
        let at = match self.free.pop() {
            Some(at) => {
                let slot = self.at_mut(at);
                (slot.key, slot.block, slot.size, slot.room) = (key, Some(block), None, room);
                (slot.first, slot.last, slot.substream) = (now, now, substream as u32);
                (slot.hash, slot.missed, slot.turn, slot.unconfirmed, slot.begun) = (hash, 0, turn, 0, begun);
                (slot.from, slot.had, slot.packets, slot.contested) = (now, 0, 0, false);
                (slot.origin, slot.held_back) = (origin, held_back);
                at
            }
            None => {
                self.slots.push(Live {
                    key,
                    hash,
                    block: Some(block),
                    seen: Coverage::new(Grain::Bytes(self.runs), u64::MAX),
                    size: None,
                    room,
                    first: now,
                    last: now,
                    from: now,
                    had: 0,
                    packets: 0,
                    contested: false,
                    unconfirmed: 0,
                    missed: 0,
                    turn,
                    origin,
                    held_back,
                    substream: substream as u32,
                    begun,
                    older: [NONE; 2],
                    newer: [NONE; 2],
                });
                self.slots.len() as u32 - 1
            }
        };
        self.append(ALL, at);
        self.append(SUBSTREAM, at);
        at
    }

    /// Start of the oldest object's timeout.
    pub(super) fn oldest_from(&self) -> Option<Nanos> {
        Some(self.at(self.oldest()?).from)
    }

    /// Restart the timeout of the object at `at` if at least `pace` bytes have arrived since it last started. Returns
    /// whether they have.
    pub(super) fn goes_on(&mut self, at: u32, pace: u64, now: Nanos) -> bool {
        let live = self.at_mut(at);
        let bytes = live.seen.bytes();
        let goes_on = bytes - live.had >= pace;
        if goes_on {
            (live.from, live.had) = (now, bytes);
            self.unlink(ALL, at);
            self.append(ALL, at);
        }
        goes_on
    }

    /// Remove the live object at `at` and free its slot.
    #[inline]
    pub(super) fn close(&mut self, at: u32) -> Option<B> {
        self.unlink(ALL, at);
        self.unlink(SUBSTREAM, at);
        self.free.push(at);
        let live = self.at_mut(at);
        live.seen.clear();
        live.block.take()
    }

    fn list(&mut self, which: usize, at: u32) -> &mut List {
        let substream = self.at(at).substream as usize;
        if which == ALL { &mut self.all } else { &mut self.substreams[substream] }
    }

    #[inline]
    fn append(&mut self, which: usize, at: u32) {
        let list = self.list(which, at);
        let before = std::mem::replace(&mut list.newest, at);
        list.len += 1;
        if before == NONE {
            list.oldest = at;
        } else {
            self.at_mut(before).newer[which] = at;
        }
        let slot = self.at_mut(at);
        (slot.older[which], slot.newer[which]) = (before, NONE);
    }

    #[inline]
    fn unlink(&mut self, which: usize, at: u32) {
        let (older, newer) = (self.at(at).older[which], self.at(at).newer[which]);
        match older {
            NONE => self.list(which, at).oldest = newer,
            _ => self.at_mut(older).newer[which] = newer,
        }
        match newer {
            NONE => self.list(which, at).newest = older,
            _ => self.at_mut(newer).older[which] = older,
        }
        self.list(which, at).len -= 1;
    }
}

/// Smaller objects are not counted.
pub(super) const LARGE: u64 = 1 << 20;
/// Bytes that must arrive within each timeout to keep an object that is too large to complete in one.
pub(super) const PACE: u64 = 16 << 20;
/// An object is not judged by its pace before 1/`GRACE` of its timeout.
const GRACE: u64 = 8;

/// How fast objects must fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    now: Nanos,
    timeout: Option<Nanos>,
    /// When a packet was last refused memory.
    refused: Nanos,
}

impl Pace {
    pub(super) fn at(now: Nanos, timeout: Option<Nanos>, refused: Nanos) -> Pace {
        Pace { now, timeout, refused }
    }

    fn grace(self) -> Nanos {
        Nanos(self.timeout.unwrap_or(Nanos::SECOND).0 / GRACE)
    }

    /// Whether an object is too slow: it would receive neither all of its bytes nor [`PACE`] bytes within the timeout.
    /// Without a timeout, an object is never too slow while packets are added to it, or while nobody lacks memory.
    pub(super) fn is_missed<B>(self, live: &Live<B>) -> bool {
        let (age, silent) = (self.now.since(live.from), self.now.since(live.last));
        match self.timeout {
            Some(timeout) => {
                let needed = u128::from((live.room - live.had.min(live.room)).min(PACE)) * u128::from(age.0);
                let had = u128::from(live.seen.bytes() - live.had);
                age >= self.grace() && had * u128::from(timeout.0) < needed
            }
            None if self.refused <= live.last => false,
            None if live.first == live.last => silent >= self.grace(),
            None => silent >= Nanos::SECOND,
        }
    }
}

/// A [staged](super::KeyedWindow::limit_announced) object gets memory for 1/`EVIDENCE` of its size at first.
pub const EVIDENCE: u64 = 256;

/// The memory that unconfirmed objects hold, and its limits.
///
/// Unconfirmed objects (less than half of their bytes arrived), and the memory they may hold in total.
///
/// A packet states the size of its object, and a forged packet, or two of them, can state any size. Only bytes that
/// arrive confirm it: a large object is unconfirmed until half of its bytes have arrived. If all unconfirmed objects
/// together hold more than a limit, those that are too slow retire, largest first, but none before an eighth of its
/// timeout. An object is too slow if, at its present pace, it would receive neither all of its bytes nor [`PACE`] bytes
/// within the timeout. So above the limit an object keeps its memory only as long as its bytes arrive, and many honest
/// senders that begin at the same moment lose nothing. Without a timeout there is no pace: an object that is silent for
/// a second is too slow, but only if a packet was refused memory after the object's last one. A sender that pauses while
/// memory is free loses nothing.
///
/// A very large object gets memory for 1/[`EVIDENCE`] of its size at first, and for all of it when half of that has
/// arrived: announcing gigabytes without sending megabytes takes no memory from others. A part beyond the memory
/// allotted so far is accepted too, as long as the limit has room for its object.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    bytes: u64,
    most: u64,
    /// No object had to retire in the last search; the next search is not before this time.
    rest_until: Nanos,
    /// When a packet was last refused memory.
    refused: Nanos,
    /// Objects larger than this get memory in two stages.
    staged: u64,
}

impl Default for Unconfirmed {
    fn default() -> Self {
        let (rest_until, refused) = Default::default();
        Self { bytes: 0, most: u64::MAX, rest_until, refused, staged: u64::MAX }
    }
}

impl Unconfirmed {
    /// An object with `room` bytes of memory begins. Returns the bytes that it counts towards the limit.
    #[inline]
    pub(super) fn announce(&mut self, room: u64) -> u64 {
        let counted = if room >= LARGE && self.most < u64::MAX { room } else { 0 };
        self.bytes += counted;
        counted
    }

    /// An object that counted `counted` bytes is confirmed, or has ended.
    #[inline]
    pub(super) fn settle(&mut self, counted: &mut u64) {
        if *counted > 0 {
            self.bytes -= std::mem::take(counted);
        }
    }

    /// Limit the total to `bytes`; objects that announce more than `staged` bytes get memory in two stages.
    pub(super) fn limit(&mut self, bytes: u64, staged: u64) {
        (self.most, self.staged) = (bytes, staged);
    }

    /// Memory in bytes for an object of `size` bytes that begins with a part up to `end`. If that is far from its beginning, which was
    /// lost or comes later, there is as much behind it for what confirms it.
    #[inline]
    pub(super) fn first_room(&self, size: u64, end: u64) -> u64 {
        let evidence = size / EVIDENCE;
        match end {
            _ if size <= self.staged => size,
            _ if end <= evidence => evidence,
            _ => end.saturating_add(evidence).min(size),
        }
    }

    /// Whether an object that announces `size` bytes gets memory for all of them after `bytes` have arrived.
    #[inline]
    pub(super) fn is_earned(&self, bytes: u64, size: u64) -> bool {
        size <= self.staged || bytes >= size / EVIDENCE / 2
    }

    /// Whether the limit has room for `bytes` more.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.most
    }

    /// Bytes held by unconfirmed objects.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > self.most
    }

    /// Whether it is time to search for objects that must retire.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.is_too_much() && now >= self.rest_until
    }

    /// A packet finds no memory, or the limit has no room for its object.
    pub(super) fn refuse(&mut self, now: Nanos) {
        self.refused = now;
    }

    /// When a packet was last refused memory.
    pub(super) fn refused(&self) -> Nanos {
        self.refused
    }

    /// No object has to retire: search again later.
    pub(super) fn rest(&mut self, pace: Pace) {
        self.rest_until = pace.now.plus(Nanos(pace.grace().0 / GRACE));
    }
}
