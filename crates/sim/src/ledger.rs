//! What was accepted and what became of it, kept apart from how a window does it. The same for both policies.
//!
//! ```text
//!   accept ─▶ waiting, by (object, offset) ─▶ retired once, byte for byte, with exactly what is missing
//!                                          └▶ stray: given back, told as such
//! ```

use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::placement::{Key, Placement, Rejects};
use std::collections::BTreeMap;
use std::ops::Range;

/// `Err` says what does not hold.
pub type Held<T = ()> = Result<T, String>;

/// `Err` with the text unless the condition holds.
macro_rules! hold {
    ($condition:expr, $($text:tt)+) => {
        match $condition {
            true => {}
            false => return Err(format!($($text)+)),
        }
    };
}

pub(crate) use hold;

/// Payloads accepted and not yet retired, and how many were.
#[derive(Debug, Default)]
pub struct Ledger {
    /// A place may be there twice: in an ordered window, and in a suspect beside it.
    waiting: BTreeMap<Key, BTreeMap<u64, Vec<Vec<u8>>>>,
    accepted: u64,
    retired: u64,
    /// Payloads given back as no part of the stream.
    pub strays: u64,
}

impl Ledger {
    /// A payload was accepted. One without bytes is nowhere.
    pub fn accept(&mut self, part: &Placement, payload: &[u8]) {
        if !payload.is_empty() {
            let object = self.waiting.entry(part.key).or_default();
            object.entry(part.offset).or_default().push(payload.to_vec());
            self.accepted += 1;
        }
    }

    /// The places of an object's payloads, ascending.
    pub fn parts(&self, key: Key) -> impl Iterator<Item = Range<u64>> {
        let places = |(&at, payloads): (&u64, &Vec<Vec<u8>>)| {
            payloads.iter().map(move |payload| at..at + payload.len() as u64).collect::<Vec<_>>()
        };
        self.waiting.get(&key).into_iter().flatten().flat_map(places)
    }

    /// Where the furthest of an object's payloads ends.
    pub fn high(&self, key: Key) -> u64 {
        self.parts(key).map(|part| part.end).max().unwrap_or(0)
    }

    /// Whether something of an object is where this part would be.
    pub fn overlaps(&self, part: &Placement) -> bool {
        let end = part.offset.saturating_add(part.length);
        self.parts(part.key).any(|there| there.start < end && part.offset < there.end)
    }

    /// An object, or a part of one, came out: what is told as there is what was accepted there, to the byte, and nothing
    /// else is. Returns the places of its payloads.
    pub fn retire(&mut self, told: &Retired<Vec<u8>>) -> Held<Vec<Range<u64>>> {
        let mut from = told.range.start;
        for hole in &told.missing {
            let is_next = hole.start >= from && hole.start < hole.end && hole.end <= told.range.end;
            hold!(is_next, "{:?}: holes out of order: {:?}", told.key, told.missing);
            from = hole.end;
        }
        let taken = self.take(told);
        let bytes: u64 = taken.iter().map(|part| part.end - part.start).sum();
        hold!(bytes == told.received(), "{:?}: {} bytes told, {bytes} accepted", told.key, told.received());
        hold!(
            told.cause != Cause::Complete || told.missing.is_empty(),
            "{:?} is complete without {:?}",
            told.key,
            told.missing
        );
        let count = if told.cause == Cause::Stray { &mut self.strays } else { &mut self.retired };
        *count += taken.len() as u64;
        Ok(taken)
    }

    /// Take the payloads that are told as there and stand in the block.
    fn take(&mut self, told: &Retired<Vec<u8>>) -> Vec<Range<u64>> {
        let mut taken: Vec<Range<u64>> = Vec::new();
        let Some(object) = self.waiting.get_mut(&told.key) else { return taken };
        for (&at, payloads) in object.range_mut(told.range.clone()) {
            // What stands there whole; the longest, for a shorter one may begin as it does.
            let fits = |(_, payload): &(usize, &Vec<u8>)| {
                let end = at + payload.len() as u64;
                let is_there = told.missing.iter().all(|hole| hole.end <= at || end <= hole.start);
                is_there && told.block.get(at as usize..).is_some_and(|rest| rest.starts_with(payload))
            };
            let found = payloads.iter().enumerate().filter(fits).max_by_key(|(_, payload)| payload.len());
            let is_free = taken.last().is_none_or(|last| last.end <= at);
            let Some((found, _)) = found.filter(|_| is_free) else { continue };
            taken.push(at..at + payloads.swap_remove(found).len() as u64);
        }
        object.retain(|_, payloads| !payloads.is_empty());
        if object.is_empty() {
            self.waiting.remove(&told.key);
        }
        taken
    }

    /// Nothing more will come out: everything that was accepted is accounted for.
    pub fn finish(&self) -> Held {
        let left = self.waiting.keys().next();
        hold!(left.is_none(), "payloads never came out, of {left:?} first");
        let out = self.retired + self.strays;
        hold!(self.accepted == out, "{} accepted, {out} out", self.accepted);
        Ok(())
    }
}

/// What happened, over any number of worlds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Worlds.
    pub worlds: u64,
    /// Worlds in which what is told as missing had to equal what the network lost.
    pub exact: u64,
    /// Datagrams that came.
    pub packets: u64,
    /// Payloads, or pieces of them, put in their place.
    pub accepted: u64,
    /// Of these, given back as no part of the stream.
    pub strays: u64,
    /// Refused, by reason.
    pub rejects: Rejects,
    /// Objects, or parts of them, handed on, by cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// Restarts that were followed.
    pub epochs: u64,
    /// Times a sender said that it began anew.
    pub starts: u64,
    /// Streams that ended because their senders said so.
    pub stopped: u64,
    /// Blocks that a second disk had to write.
    pub rewritten: u64,
    /// Worlds by what is sent.
    pub kinds: BTreeMap<String, u64>,
}

impl Tally {
    /// Add another's counts.
    pub fn add(&mut self, other: &Tally) {
        self.worlds += other.worlds;
        self.exact += other.exact;
        self.packets += other.packets;
        self.accepted += other.accepted;
        self.strays += other.strays;
        self.rejects.merge(&other.rejects);
        self.epochs += other.epochs;
        self.starts += other.starts;
        self.stopped += other.stopped;
        self.rewritten += other.rewritten;
        other.causes.iter().for_each(|(name, count)| *self.causes.entry(name).or_default() += count);
        other.kinds.iter().for_each(|(name, count)| *self.kinds.entry(name.clone()).or_default() += count);
    }

    /// All counts, each with its name.
    pub fn rows(&self) -> Vec<(String, u64)> {
        let row = |name: &str, count: u64| (name.to_owned(), count);
        let mut rows = vec![row("worlds", self.worlds), row("  with exact losses", self.exact)];
        rows.extend(self.kinds.iter().map(|(kind, &count)| row(&format!("  {kind}"), count)));
        rows.extend([row("  ended by their senders", self.stopped), row("packets", self.packets)]);
        rows.extend([row("  in place", self.accepted), row("    of these stray", self.strays)]);
        rows.extend(self.rejects.iter().map(|(why, count)| row(&format!("  {}", why.name()), count)));
        rows.push(row("objects retired", self.causes.values().sum()));
        rows.extend(self.causes.iter().map(|(cause, &count)| row(&format!("  {cause}"), count)));
        rows.extend([row("restarts followed", self.epochs), row("starts", self.starts)]);
        rows.push(row("blocks written again", self.rewritten));
        rows
    }
}
