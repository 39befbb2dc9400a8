//! The objects under construction: reusable slots, each in two lists, oldest first.
//!
//! ```text
//!   slots        0 ▒  1 ▒  2 ·  3 ▒  4 ▒        · free, with the memory of its coverage
//!   all          3 ─ 0 ─ 4 ─ 1                  by deadline: by first packet, unless a large object makes progress
//!   substream 0      0 ─ 4                      the first retires when the window is full
//!   substream 1  3 ───────── 1
//! ```

use super::config::{Counting, KeyedConfig};
use super::laps::Turn;
use crate::assembly::coverage::Coverage;
use crate::placement::{Grain, Key, Nanos};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;
const ALL: usize = 0;
const SUBSTREAM: usize = 1;

#[derive(Debug)]
pub(super) struct Live<B> {
    pub(super) key: Key,
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

    /// The object that must retire before another begins in the substream of `key`, if the window is full.
    pub(super) fn oldest_beyond(&self, key: Key) -> Option<u32> {
        let substream = self.substream(key);
        let List { oldest, len, .. } = self.substreams[substream];
        let is_full = match self.counting {
            Counting::Incomplete => len >= self.window,
            Counting::Begun => len > 0 && self.begun[substream] - self.at(oldest).begun >= self.window as u64,
        };
        is_full.then_some(oldest)
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
    pub(super) fn open(&mut self, key: Key, block: B, room: u64, now: Nanos, turn: Turn) -> u32 {
        let substream = self.substream(key);
        let begun = self.begun[substream];
        self.begun[substream] += 1;
        let at = match self.free.pop() {
            Some(at) => {
                let slot = self.at_mut(at);
                (slot.key, slot.block, slot.size, slot.room) = (key, Some(block), None, room);
                (slot.first, slot.last, slot.substream) = (now, now, substream as u32);
                (slot.missed, slot.turn, slot.unconfirmed, slot.begun) = (0, turn, 0, begun);
                (slot.from, slot.had, slot.packets, slot.contested) = (now, 0, 0, false);
                at
            }
            None => {
                self.slots.push(Live {
                    key,
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
