//! Random operations with random limits, compared with a very simple model: a list of heaps, a flag for each byte, and
//! a list of all heaps ever finished. Each answer and each retired heap must be that of the model.

use super::*;
use std::collections::BTreeMap;

pub(super) const LARGEST: u64 = 96;
pub(super) const STEP: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Commit,
    Drop,
    /// There is no memory.
    Full,
}

/// Most heaps agree on their size.
pub(super) fn size_of(counter: u64) -> u64 {
    [STEP, 3 * STEP, 5 * STEP - 3, LARGEST][(counter % 4) as usize]
}

/// A retired heap, as compared with the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) key: Key,
    pub(super) size: Option<u64>,
    pub(super) there: Vec<bool>,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) cause: Cause,
}

pub(super) struct Heap {
    pub(super) key: Key,
    pub(super) size: Option<u64>,
    /// Which heap of its source it was.
    pub(super) turn: usize,
    /// Which heap of its substream it was.
    pub(super) nth: u64,
    /// End of the furthest part that was rejected because it was out of order.
    pub(super) missed: u64,
    pub(super) room: u64,
    pub(super) there: [bool; LARGEST as usize],
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Heap {
    pub(super) fn high(&self) -> u64 {
        self.there.iter().rposition(|&t| t).map_or(0, |at| at as u64 + 1)
    }

    pub(super) fn runs(&self) -> usize {
        (0..LARGEST as usize).filter(|&at| self.there[at] && (at == 0 || !self.there[at - 1])).count()
    }

    pub(super) fn range(part: Placement) -> Range<usize> {
        part.offset as usize..(part.offset + part.length) as usize
    }
}

pub(super) struct Done {
    pub(super) key: Key,
    pub(super) when: u64,
    pub(super) complete: bool,
    pub(super) turn: usize,
    /// Another heap with its key began.
    pub(super) gone: bool,
    pub(super) bytes: u64,
    /// Bytes of it that arrived again and were rejected.
    pub(super) refused: u64,
}

pub(super) struct Model {
    pub(super) config: KeyedConfig,
    pub(super) now: u64,
    /// In order of their first parts.
    pub(super) live: Vec<Heap>,
    /// Everything that was ever finished.
    pub(super) done: Vec<Done>,
    /// Bits of every counter; 0: counters never wrap around.
    pub(super) bits: u8,
    /// For each source, the counters of all heaps that it began.
    pub(super) begun: BTreeMap<u64, Vec<u64>>,
    /// Heaps that began in each substream.
    pub(super) opened: BTreeMap<u64, u64>,
    /// For each source, the heaps rejected in full since the last one began.
    pub(super) streak: BTreeMap<u64, u64>,
    /// Heaps rejected in full.
    pub(super) repeated: u64,
    /// For each source, how many of `done` are forgotten.
    pub(super) forgotten: BTreeMap<u64, usize>,
    pub(super) told: VecDeque<Told>,
}

impl Model {
    pub(super) fn remembered(&self, key: Key) -> Option<usize> {
        let from = self.done.len().saturating_sub(self.config.remember);
        let from = from.max(self.forgotten.get(&key.source).copied().unwrap_or(0));
        let fresh = |done: &Done| self.now - done.when < self.config.remember_for.0;
        let near = |done: &Done| self.bits == 0 || !self.is_back(key.source, done.turn, 4);
        (from..self.done.len()).find(|&at| {
            let done = &self.done[at];
            done.key == key && !done.gone && fresh(done) && near(done)
        })
    }

    /// Whether heap `turn` of the source began at least 1/`part` of a lap ago.
    pub(super) fn is_back(&self, source: u64, turn: usize, part: usize) -> bool {
        let begun = self.begun.get(&source).map_or(&[][..], Vec::as_slice);
        // The number of low bits that did not change from one heap to the next, in this stretch of 16 and the one
        // before. Two of eight steps may be arbitrary.
        let from = (begun.len() / 16 * 16).saturating_sub(16).max(1);
        let steps = (from..begun.len()).map(|n| begun[n] ^ begun[n - 1]).filter(|&differ| differ != 0);
        let mut still: Vec<u32> = steps.map(u64::trailing_zeros).collect();
        still.sort_unstable();
        let typical = still.get(if still.len() >= 8 { 2 } else { 0 });
        let still = typical.map_or(self.bits.into(), |&still| still);
        let lap = 1usize << (u32::from(self.bits) - still);
        begun.len() - turn >= (lap / part).max(1)
    }

    pub(super) fn begin(&mut self, key: Key) -> usize {
        let begun = self.begun.entry(key.source).or_default();
        begun.push(key.number);
        begun.len()
    }

    /// Reject a packet of a finished heap.
    pub(super) fn refuse(&mut self, at: usize, bytes: u64) -> Reject {
        let done = &mut self.done[at];
        done.refused += bytes.max(1);
        let why = if done.complete { Reject::Duplicate } else { Reject::Late };
        if done.refused >= done.bytes {
            done.refused = 0;
            self.repeated += u64::from(self.now - done.when >= 100_000_000);
            let key = done.key;
            let streak = self.streak.entry(key.source).or_default();
            *streak += 1;
            if *streak > 16 {
                self.begin(key);
            }
        }
        why
    }

    pub(super) fn substream(&self, key: Key) -> u64 {
        (if key.source == 0 { key.number } else { key.source }) % self.config.substreams
    }

    pub(super) fn oldest_beyond(&self, key: Key) -> Option<usize> {
        let like = |heap: &&Heap| self.substream(heap.key) == self.substream(key);
        let oldest = self.live.iter().position(|heap| like(&heap))?;
        let window = self.config.window;
        let full = match self.config.counting {
            Counting::Incomplete => self.live.iter().filter(like).count() >= window,
            Counting::Begun => self.opened[&self.substream(key)] - self.live[oldest].nth >= window as u64,
        };
        full.then_some(oldest)
    }

    pub(super) fn retire(&mut self, at: usize, cause: Cause) {
        let heap = self.live.remove(at);
        let bytes = heap.size.unwrap_or(heap.high().max(heap.missed));
        let (complete, turn) = (cause == Cause::Complete, heap.turn);
        if complete || self.config.counting == Counting::Incomplete {
            let (key, when) = (heap.key, self.now);
            self.done.push(Done { key, when, complete, turn, gone: false, bytes, refused: 0 });
        }
        self.told.push_back(Told {
            key: heap.key,
            size: heap.size,
            there: heap.there[..bytes as usize].to_vec(),
            first: heap.first,
            last: heap.last,
            cause,
        });
    }

    /// The expected answer. Applies the changes if the part is committed.
    pub(super) fn put(&mut self, key: Key, part: Placement, fate: Fate) -> Result<(), Reject> {
        let config = self.config;
        let end = part.offset.checked_add(part.length).ok_or(Reject::Outside)?;
        if part.size.is_some_and(|size| size > LARGEST) || end > part.size.unwrap_or(LARGEST) {
            return Err(Reject::Outside);
        }
        let mut found = self.live.iter().position(|heap| heap.key == key);
        if found.is_none()
            && let Some(at) = self.remembered(key)
        {
            return Err(self.refuse(at, part.length));
        }
        if let Some(at) = found
            && self.bits > 0
            && self.is_back(key.source, self.live[at].turn, 2)
        {
            self.retire(at, Cause::Window);
            found = None;
        }
        if let Some(at) = found {
            let fits = Self::fits(&config, &self.live[at], part);
            if fits.is_err_and(|why| why != Reject::OutOfOrder) {
                return fits;
            }
            let heap = &mut self.live[at];
            let need = heap.size.or(part.size).unwrap_or(end);
            if need > heap.room && fate == Fate::Full {
                return Err(Reject::NoBuffer);
            }
            if need > heap.room {
                heap.room = if part.size.is_some() { need } else { need.max(heap.room * 2).min(LARGEST) };
            }
            if fits.is_err() {
                heap.size = heap.size.or(part.size);
                heap.missed = heap.missed.max(end);
                return fits;
            }
        } else {
            if part.size.is_none() && !config.unsized_objects {
                return Err(Reject::Unsized);
            }
            let is_behind = config.in_order && part.offset > 0 && part.length > 0;
            if is_behind && config.counting == Counting::Begun {
                return Err(Reject::OutOfOrder);
            }
            if fate == Fate::Full {
                if part.size != Some(part.length) {
                    self.oldest_beyond(key).into_iter().for_each(|at| self.retire(at, Cause::Window));
                }
                return Err(Reject::NoBuffer);
            }
            if is_behind {
                self.open(key, part);
                return Err(Reject::OutOfOrder);
            }
        }
        if fate == Fate::Drop {
            return Ok(());
        }
        let at = found.unwrap_or_else(|| self.open(key, part));
        let heap = &mut self.live[at];
        heap.size = heap.size.or(part.size);
        heap.there[Heap::range(part)].fill(true);
        heap.last = self.now;
        if heap.size == Some(heap.there.iter().filter(|&&t| t).count() as u64) {
            self.retire(at, Cause::Complete);
        }
        Ok(())
    }

    /// Begin an empty heap.
    pub(super) fn open(&mut self, key: Key, part: Placement) -> usize {
        if part.size != Some(part.length) || self.config.counting == Counting::Begun {
            self.oldest_beyond(key).into_iter().for_each(|at| self.retire(at, Cause::Window));
        }
        let opened = self.opened.entry(self.substream(key)).or_default();
        let nth = *opened;
        *opened += 1;
        let (first, there, end) = (self.now, [false; LARGEST as usize], part.offset + part.length);
        let room = part.size.unwrap_or(end);
        // If its first part is accepted, no part was out of order.
        let missed = if self.config.in_order && part.offset > 0 && part.length > 0 { end } else { 0 };
        self.done.iter_mut().filter(|done| done.key == key).for_each(|done| done.gone = true);
        self.streak.remove(&key.source);
        let turn = self.begin(key);
        self.live.push(Heap { key, size: part.size, turn, nth, missed, room, there, first, last: first });
        self.live.len() - 1
    }

    pub(super) fn fits(config: &KeyedConfig, heap: &Heap, part: Placement) -> Result<(), Reject> {
        let range = Heap::range(part);
        if let (Some(known), Some(told)) = (heap.size, part.size)
            && known != told
        {
            return Err(Reject::WrongSize);
        }
        if heap.size.is_some_and(|size| range.end as u64 > size)
            || part.size.is_some_and(|size| heap.high() > size)
        {
            return Err(Reject::Outside);
        }
        if range.is_empty() {
            return Ok(());
        }
        if config.in_order && part.offset > heap.high() {
            return Err(Reject::OutOfOrder);
        }
        match heap.there[range.clone()].iter().filter(|&&t| t).count() {
            0 => {}
            all if all == range.len() => return Err(Reject::Duplicate),
            _ => return Err(Reject::Overlap),
        }
        let joins = (range.start > 0 && heap.there[range.start - 1])
            || heap.there.get(range.end).is_some_and(|&there| there);
        if !joins && heap.runs() >= config.runs as usize { Err(Reject::Fragmented) } else { Ok(()) }
    }

    pub(super) fn due(&self) -> Option<u64> {
        Some(self.live.first()?.first + self.config.timeout?.0)
    }

    pub(super) fn pass(&mut self, now: u64) {
        self.now = self.now.max(now);
        while self.due().is_some_and(|due| due <= self.now) {
            self.retire(0, Cause::Timeout);
        }
    }

    pub(super) fn forget(&mut self, start: Key) {
        let long = |since: u64, now: u64| now - since >= 100_000_000;
        let (now, source) = (self.now, start.source);
        let over = |heap: &Heap| source != 0 && heap.key.source == source && long(heap.last, now);
        let live = self.live.iter().any(|heap| heap.key == start && !over(heap));
        let fresh = self.remembered(start).is_some_and(|at| !long(self.done[at].when, now));
        if !live && !fresh {
            while let Some(at) = self.live.iter().position(over) {
                self.retire(at, Cause::Finish);
            }
            self.forgotten.insert(source, self.done.len());
        }
    }
}

/// A retired heap in the form of the model. Checks that all of its bytes are its own.
pub(super) fn tell(heap: &Retired<Vec<u8>>) -> Told {
    let mut there = vec![true; heap.range.end as usize];
    let mut from = None;
    for hole in &heap.missing {
        assert!(from.is_none_or(|from| from < hole.start) && hole.start < hole.end, "{:?}", heap.missing);
        there[hole.start as usize..hole.end as usize].fill(false);
        from = Some(hole.end);
    }
    assert_eq!(there.iter().filter(|&&t| t).count() as u64, heap.received());
    let mut want = vec![0; there.len()];
    pattern::fill(heap.key.number, 0, &mut want);
    let wrong = (0..there.len()).find(|&at| there[at] && heap.block[at] != want[at]);
    assert_eq!(wrong, None, "a byte of {:?} is not its own", heap.key);
    let (first, last) = (heap.first.0, heap.last.0);
    Told { key: heap.key, size: heap.size, there, first, last, cause: heap.cause }
}
