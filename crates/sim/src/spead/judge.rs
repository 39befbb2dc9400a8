//! What must hold of a table of heaps, kept apart from how it does it: every part that was accepted, every heap that was
//! handed on, and which of them must still be remembered.

use crate::model::{Held, hold};
use skyhaul_core::assembly::{Cause, KeyedConfig, Retired};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A heap of which something was accepted.
#[derive(Debug)]
struct Open {
    parts: Vec<(u64, Vec<u8>)>,
    /// The plans that its parts are of.
    plans: BTreeSet<usize>,
    size: Option<u64>,
    first: Nanos,
    last: Nanos,
    /// Where the furthest part ends that came too early, where order is wanted.
    missed: u64,
    /// How many opened before it.
    number: u64,
}

impl Open {
    fn received(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn high(&self) -> u64 {
        self.parts.iter().map(|(at, b)| at + b.len() as u64).max().unwrap_or(0)
    }

    /// Its size, or as far as something of it is known.
    fn bytes(&self) -> u64 {
        self.size.unwrap_or(self.high().max(self.missed))
    }

    fn missing(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = self.parts.iter().map(|(at, b)| *at..at + b.len() as u64).collect();
        ranges.sort_by_key(|range| range.start);
        let (mut from, mut out) = (0, Vec::new());
        let end = self.bytes();
        for range in ranges.into_iter().chain(std::iter::once(end..end)) {
            if from < range.start {
                out.push(from..range.start);
            }
            from = range.end;
        }
        out
    }
}

/// What was handed on of a heap.
#[derive(Clone, Debug)]
pub struct Given {
    /// What was missing.
    pub missing: Vec<Range<u64>>,
    /// Its size, if it was told.
    pub size: Option<u64>,
    /// The plans that its parts are of.
    pub plans: BTreeSet<usize>,
    /// Why it was handed on.
    pub cause: Cause,
}

/// Everything that was accepted, and what came of it.
#[derive(Debug)]
pub struct Judge {
    config: KeyedConfig,
    /// The highest counter that a packet can tell; heaps are kept by all of theirs.
    highest: u64,
    open: BTreeMap<Key, Open>,
    opened: u64,
    /// When each heap was handed on, in order, and whether it was complete.
    done: Vec<(Nanos, bool)>,
    latest: BTreeMap<Key, usize>,
    /// Of each source, how many of `done` are forgotten.
    forgotten: BTreeMap<u64, usize>,
    /// Something was forgotten before its time: the start of its sender came late, or again.
    pub forgot: bool,
    /// Each heap that was handed on, by its key: more than once where it was not remembered.
    pub given: BTreeMap<Key, Vec<Given>>,
}

impl Judge {
    /// Nothing was accepted.
    #[must_use]
    pub fn new(config: KeyedConfig, highest: u64) -> Judge {
        Judge {
            config,
            highest,
            open: BTreeMap::new(),
            opened: 0,
            done: Vec::new(),
            latest: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            forgot: false,
            given: BTreeMap::new(),
        }
    }

    /// Whether the heap is finished and must be remembered at `now`; then, whether it was complete.
    #[must_use]
    pub fn remembers(&self, key: Key, now: Nanos) -> Option<bool> {
        let &at = self.latest.get(&key)?;
        let from = self.done.len().saturating_sub(self.config.remember);
        let from = from.max(self.forgotten.get(&key.source).copied().unwrap_or(0));
        let (when, complete) = self.done[at];
        (at >= from && now.since(when) < self.config.remember_for).then_some(complete)
    }

    /// The whole counter of the heap that is handed on with this one: of two laps, the older.
    #[must_use]
    pub fn known_as(&self, told: Key) -> Key {
        let like = self.open.iter().filter(|(key, _)| self.is_like(**key, told));
        like.min_by_key(|(_, open)| open.number).map_or(told, |(key, _)| *key)
    }

    /// Whether packets tell the same counter for both.
    fn is_like(&self, one: Key, other: Key) -> bool {
        one.source == other.source && (one.number ^ other.number) & self.highest == 0
    }

    fn substream(&self, key: Key) -> u64 {
        (if key.source == 0 { key.number } else { key.source }) % self.config.substreams
    }

    fn beside(&self, key: Key) -> impl Iterator<Item = &Open> {
        let substream = self.substream(key);
        self.open.iter().filter(move |(other, _)| self.substream(**other) == substream).map(|(_, open)| open)
    }

    /// A part was accepted, of a plan unless it was forged.
    ///
    /// # Errors
    /// What does not hold.
    pub fn accept(&mut self, part: Placement, bytes: &[u8], plan: Option<usize>, now: Nanos) -> Held {
        let key = part.key;
        let in_order = self.config.in_order;
        let open = self.begin(key, now)?;
        let range = part.offset..part.offset + part.length;
        let over = |(at, there): &(u64, Vec<u8>)| range.start < at + there.len() as u64 && *at < range.end;
        hold!(part.length == 0 || !open.parts.iter().any(over), "{key:?}: {part:?} is written over another");
        hold!(
            !in_order || part.length == 0 || part.offset == open.high(),
            "{key:?}: {part:?} is not the next"
        );
        // A part without bytes is nowhere.
        if !bytes.is_empty() {
            open.parts.push((part.offset, bytes.to_vec()));
        }
        open.plans.extend(plan);
        open.size = open.size.or(part.size);
        open.last = now;
        hold!(open.size.is_none_or(|size| open.high() <= size), "{key:?} is longer than its size");
        Ok(())
    }

    /// The heap of this key, which begins here if it is not under construction.
    fn begin(&mut self, key: Key, now: Nanos) -> Held<&mut Open> {
        if !self.open.contains_key(&key) {
            hold!(self.remembers(key, now).is_none(), "{key:?} is finished, and begins again");
            self.opened += 1;
        }
        let fresh = Open {
            parts: Vec::new(),
            plans: BTreeSet::new(),
            size: None,
            first: now,
            last: now,
            missed: 0,
            number: self.opened,
        };
        Ok(self.open.entry(key).or_insert(fresh))
    }

    /// A part came too early where order is wanted: its heap is told from now on.
    ///
    /// # Errors
    /// What does not hold.
    pub fn miss(&mut self, part: Placement, plan: Option<usize>, now: Nanos) -> Held {
        let open = self.begin(part.key, now)?;
        open.missed = open.missed.max(part.offset + part.length);
        open.size = open.size.or(part.size);
        open.plans.extend(plan);
        Ok(())
    }

    /// A refusal must have its reason; those of the part's own numbers are held where nothing is forged.
    ///
    /// # Errors
    /// What does not hold.
    pub fn refuse(&self, part: Placement, why: Reject, now: Nanos, honest: bool) -> Held {
        let key = part.key;
        let open = self.open.get(&key);
        let end = part.offset.saturating_add(part.length);
        let there = |open: &Open| {
            open.parts.iter().any(|(at, bytes)| *at < end && part.offset < at + bytes.len() as u64)
        };
        let remembered = self.remembers(key, now);
        let just = match why {
            Reject::Duplicate => open.map_or(remembered == Some(true), there),
            Reject::Late => open.is_none() && remembered == Some(false),
            Reject::Overlap => open.is_some_and(there),
            Reject::OutOfOrder => self.config.in_order && part.offset != open.map_or(0, Open::high),
            Reject::Unsized => !self.config.unsized_objects && open.is_none() && part.size.is_none(),
            Reject::Fragmented => open.is_some_and(|open| open.parts.len() >= self.config.runs as usize),
            Reject::WrongSize => {
                !honest && open.is_some_and(|open| open.size.is_some() && open.size != part.size)
            }
            Reject::Outside => !honest,
            Reject::NoBuffer => true, // The world knows what is free.
            _ => false,
        };
        hold!(just, "{key:?}: {part:?} is refused as {} without reason: {open:?}", why.name());
        Ok(())
    }

    /// A heap was handed on. `exact`: the receiver looked at its clock the moment it was due.
    ///
    /// # Errors
    /// What does not hold.
    pub fn retire(&mut self, heap: &Retired<impl AsRef<[u8]>>, now: Nanos, exact: bool) -> Held {
        let key = heap.key;
        self.has_cause(heap, now, exact)?;
        let Some(open) = self.open.remove(&key) else {
            return Err(format!("{key:?} is handed on, and nothing of it was accepted"));
        };
        hold!(heap.received() == open.received(), "{key:?}: {} bytes told", heap.received());
        hold!(heap.size == open.size, "{key:?}: size {:?} is told as {:?}", open.size, heap.size);
        hold!(heap.range.end == open.bytes(), "{key:?}: {} bytes long", heap.range.end);
        hold!((heap.first, heap.last) == (open.first, open.last), "{key:?}: times");
        let missing = open.missing();
        hold!(heap.missing == missing, "{key:?}: {missing:?} is missing, {:?} told", heap.missing);
        let block = heap.block.as_ref();
        for (at, bytes) in &open.parts {
            let here = block.get(*at as usize..).is_some_and(|rest| rest.starts_with(bytes));
            hold!(here, "{key:?}: the bytes at {at} are not those that came");
        }
        self.latest.insert(key, self.done.len());
        self.done.push((now, heap.is_complete()));
        let given = Given { missing, size: open.size, plans: open.plans, cause: heap.cause };
        self.given.entry(key).or_default().push(given);
        Ok(())
    }

    fn has_cause(&self, heap: &Retired<impl AsRef<[u8]>>, now: Nanos, exact: bool) -> Held {
        let Some(open) = self.open.get(&heap.key) else { return Ok(()) };
        let whole = open.size == Some(open.received());
        hold!(whole == heap.is_complete(), "{:?} is handed on for {}", heap.key, heap.cause.name());
        let just = match heap.cause {
            // Its counter came round.
            Cause::Window
                if self
                    .open
                    .iter()
                    .any(|(key, other)| other.number > open.number && self.is_like(*key, heap.key)) =>
            {
                true
            }
            Cause::Window => {
                self.beside(heap.key).count() >= self.config.window
                    && self.beside(heap.key).all(|other| other.number >= open.number)
            }
            Cause::Timeout => self.config.timeout.is_some_and(|timeout| {
                let due = open.first.plus(timeout);
                if exact { now == due } else { now >= due }
            }),
            Cause::Complete | Cause::Finish => true,
            Cause::Linger | Cause::Idle | Cause::Flush | Cause::Restart | Cause::Stray => false,
        };
        hold!(just, "{:?} is handed on for {} at {}: {open:?}", heap.key, heap.cause.name(), now.0);
        Ok(())
    }

    /// Nothing is more than it may be, and nothing waits past its deadline.
    ///
    /// # Errors
    /// What does not hold.
    pub fn limits(&self, now: Nanos, live: usize) -> Held {
        hold!(live == self.open.len(), "{live} heaps are live, {} are not handed on", self.open.len());
        let mut each: BTreeMap<u64, usize> = BTreeMap::new();
        self.open.keys().for_each(|&key| *each.entry(self.substream(key)).or_default() += 1);
        hold!(each.values().all(|&count| count <= self.config.window), "a window holds too many: {each:?}");
        if let Some(timeout) = self.config.timeout {
            let over = self.open.iter().find(|(_, open)| open.first.plus(timeout) < now);
            hold!(over.is_none(), "{:?} waits past its deadline", over.map(|(key, _)| key));
        }
        Ok(())
    }

    /// A packet says that its sender begins with heap `start`. Whether that is news; what then comes out of heaps that
    /// the sender left behind is still to be handed to [`retire`](Self::retire), before [`forget`](Self::forget).
    #[must_use]
    pub fn begins(&self, start: Key, now: Nanos) -> bool {
        let long = |since: Nanos| now.since(since) >= Nanos(100_000_000);
        let finished = self.latest.get(&start).filter(|_| self.remembers(start, now).is_some());
        let fresh = finished.is_some_and(|&at| !long(self.done[at].0));
        let live = self.open.get(&start).is_some_and(|open| start.source == 0 || !long(open.last));
        !live && !fresh
    }

    /// What is finished of this source may come again.
    pub fn forget(&mut self, source: u64) {
        self.forgot |= self.latest.keys().any(|key| key.source == source);
        self.forgotten.insert(source, self.done.len());
    }

    /// Nothing more will come out.
    ///
    /// # Errors
    /// What does not hold.
    pub fn finish(&self) -> Held {
        hold!(self.open.is_empty(), "{} heaps never came out", self.open.len());
        Ok(())
    }
}
