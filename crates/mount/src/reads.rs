//! Reads that wait for units, and the units in memory: no thread, clock or disk.
//!
//! ```text
//!   handle_read ─▶ all in memory ─▶ Answer::Data
//!               └▶ waits, and wants units ──▶ handle_unit (loaded, or failed) ─▶ Answer
//!                                         └─▶ handle_timeout ─▶ Answer::Error
//! ```
//!
//! Memory: units in memory are those of a fixed pool, least recently used first to go. A read that waits holds a buffer of
//! its own length, never a block, so that reads cannot starve each other of blocks. The kernel bounds their number.

use crate::segments::{Segment, UnitKey};
use skyhaul::recording::UnitBytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a unit that failed is not tried again.
pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Failed units that are remembered.
const MAX_FAILED: usize = 4096;
/// Bytes that stand for missing ones.
pub(crate) const FILL: [u8; 4] = [0x44, 0x33, 0x22, 0x11];

/// The bytes of a unit in memory.
pub(crate) trait UnitData {
    /// Bytes `from` to `to`, if they lie side by side.
    fn slice(&self, from: usize, to: usize) -> Option<&[u8]>;
    /// Copy bytes from `from` on.
    fn copy(&self, from: usize, into: &mut [u8]);
}

impl UnitData for UnitBytes {
    fn slice(&self, from: usize, to: usize) -> Option<&[u8]> {
        let mut before = 0;
        for part in self {
            if from >= before && to <= before + part.len() {
                return part.get(from - before..to - before);
            }
            before += part.len();
        }
        None
    }

    fn copy(&self, from: usize, mut into: &mut [u8]) {
        let mut skip = from;
        for part in self {
            let here = &part[skip.min(part.len())..];
            let (now, rest) = into.split_at_mut(here.len().min(into.len()));
            now.copy_from_slice(&here[..now.len()]);
            skip = skip.saturating_sub(part.len());
            into = rest;
        }
    }
}

/// What a read gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<D> {
    /// Bytes of one unit.
    Data(Arc<D>, usize, usize),
    /// Bytes that were put together.
    Bytes(Vec<u8>),
    /// An input/output error.
    Error,
}

/// A read that waits for units.
#[derive(Debug)]
struct Waiting<T> {
    token: T,
    since: Instant,
    buffer: Vec<u8>,
    /// Units that are not there yet, and where their bytes go.
    left: Vec<(UnitKey, usize, usize, usize)>,
}

#[derive(Debug)]
struct InMemory<D> {
    data: Arc<D>,
    used: u64,
}

/// The reads and the units.
#[derive(Debug)]
pub(crate) struct Reads<D, T> {
    /// Missing bytes are filled.
    fill: bool,
    limit: Duration,
    units: HashMap<UnitKey, InMemory<D>>,
    order: BTreeMap<u64, UnitKey>,
    uses: u64,
    loading: HashSet<UnitKey>,
    failed: HashMap<UnitKey, Instant>,
    waiting: Vec<Waiting<T>>,
}

impl<D: UnitData, T> Reads<D, T> {
    pub(crate) fn new(fill: bool, limit: Duration) -> Self {
        Self {
            fill,
            limit,
            units: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            loading: HashSet::new(),
            failed: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Answer a read, or let it wait: then the units in `wanted` must be loaded. With `is_partial`, a read that cannot be
    /// answered whole ends before what is missing; otherwise it is an error. `is_hung` says whose disk does not answer.
    pub(crate) fn handle_read(
        &mut self,
        now: Instant,
        mut segments: Vec<Segment>,
        (is_partial, is_hung): (bool, impl Fn(usize) -> bool),
        token: T,
        wanted: &mut Vec<UnitKey>,
    ) -> Option<(T, Answer<D>)> {
        if let Some(at) = segments.iter().position(|segment| !self.is_readable(now, segment, &is_hung)) {
            if at == 0 || !is_partial {
                return Some((token, Answer::Error));
            }
            segments.truncate(at);
        }
        if let [Segment::Unit { key, from, to, .. }] = segments[..]
            && let Some(data) = self.touch(key)
            && data.slice(from, to).is_some()
        {
            return Some((token, Answer::Data(data, from, to)));
        }
        let mut waiting = Waiting {
            token,
            since: now,
            buffer: vec![0; segments.iter().map(Segment::bytes).sum()],
            left: Vec::new(),
        };
        let mut at = 0;
        for segment in &segments {
            let end = at + segment.bytes();
            match *segment {
                Segment::Missing { phase, .. } => {
                    let fill = FILL.iter().cycle().skip((phase % FILL.len() as u64) as usize);
                    waiting.buffer[at..end].iter_mut().zip(fill).for_each(|(to, from)| *to = *from);
                }
                Segment::Unit { key, from, .. } => match self.touch(key) {
                    Some(data) => data.copy(from, &mut waiting.buffer[at..end]),
                    None if self.is_failed(now, key) => fill_from(from, &mut waiting.buffer[at..end]),
                    None => {
                        waiting.left.push((key, from, at, end));
                        if !self.loading.contains(&key) {
                            self.want(key, wanted);
                        }
                    }
                },
            }
            at = end;
        }
        if waiting.left.is_empty() {
            return Some((waiting.token, Answer::Bytes(waiting.buffer)));
        }
        self.waiting.push(waiting);
        None
    }

    /// Load units before they are read.
    pub(crate) fn read_ahead(
        &mut self,
        now: Instant,
        keys: impl Iterator<Item = UnitKey>,
        wanted: &mut Vec<UnitKey>,
    ) {
        for key in keys {
            if !self.units.contains_key(&key) && !self.is_failed(now, key) && !self.loading.contains(&key) {
                self.want(key, wanted);
            }
        }
    }

    fn want(&mut self, key: UnitKey, wanted: &mut Vec<UnitKey>) {
        self.loading.insert(key);
        wanted.push(key);
    }

    /// A unit is loaded (`None`: it cannot be): answer the reads that waited for nothing else.
    pub(crate) fn handle_unit(
        &mut self,
        now: Instant,
        key: UnitKey,
        data: Option<D>,
        answers: &mut Vec<(T, Answer<D>)>,
    ) {
        self.loading.remove(&key);
        let data = data.map(Arc::new);
        match &data {
            Some(data) => {
                self.failed.remove(&key);
                self.uses += 1;
                let unit = InMemory { data: Arc::clone(data), used: self.uses };
                if let Some(before) = self.units.insert(key, unit) {
                    self.order.remove(&before.used);
                }
                self.order.insert(self.uses, key);
            }
            None => {
                if self.failed.len() >= MAX_FAILED {
                    self.failed.retain(|_, at| now.saturating_duration_since(*at) < RETRY_DELAY);
                }
                if self.failed.len() < MAX_FAILED {
                    self.failed.insert(key, now);
                }
            }
        }
        let fill = self.fill;
        for mut read in std::mem::take(&mut self.waiting) {
            let mut is_error = false;
            read.left.retain(|&(of, from, at, end)| {
                if of == key {
                    match &data {
                        Some(data) => data.copy(from, &mut read.buffer[at..end]),
                        None if fill => fill_from(from, &mut read.buffer[at..end]),
                        None => is_error = true,
                    }
                }
                of != key
            });
            if is_error {
                answers.push((read.token, Answer::Error));
            } else if read.left.is_empty() {
                answers.push((read.token, Answer::Bytes(read.buffer)));
            } else {
                self.waiting.push(read);
            }
        }
    }

    /// A unit cannot be loaded now, for want of memory: reads that wait for it fail, with fill as well. It is not missing.
    pub(crate) fn handle_shortage(&mut self, key: UnitKey, answers: &mut Vec<(T, Answer<D>)>) {
        self.loading.remove(&key);
        let waits = |read: &mut Waiting<T>| read.left.iter().any(|(of, ..)| *of == key);
        answers.extend(self.waiting.extract_if(.., waits).map(|read| (read.token, Answer::Error)));
    }

    /// Give up reads whose units make no progress: `progress` says when a unit last did.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        progress: impl Fn(UnitKey) -> Option<Instant>,
        answers: &mut Vec<(T, Answer<D>)>,
    ) {
        let limit = self.limit;
        for read in std::mem::take(&mut self.waiting) {
            let is_late = read.left.iter().any(|&(key, ..)| {
                let last = progress(key).map_or(read.since, |last| last.max(read.since));
                now.saturating_duration_since(last) >= limit
            });
            if is_late {
                answers.push((read.token, Answer::Error));
            } else {
                self.waiting.push(read);
            }
        }
    }

    /// Let the least recently used unit go; returns whether there was one.
    pub(crate) fn evict(&mut self) -> bool {
        let Some((_, key)) = self.order.pop_first() else { return false };
        self.units.remove(&key).is_some()
    }

    /// Number of reads that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn touch(&mut self, key: UnitKey) -> Option<Arc<D>> {
        let unit = self.units.get_mut(&key)?;
        self.uses += 1;
        self.order.remove(&unit.used);
        unit.used = self.uses;
        self.order.insert(self.uses, key);
        Some(Arc::clone(&unit.data))
    }

    fn is_failed(&self, now: Instant, key: UnitKey) -> bool {
        self.failed.get(&key).is_some_and(|at| now.saturating_duration_since(*at) < RETRY_DELAY)
    }

    fn is_readable(&self, now: Instant, segment: &Segment, is_hung: impl Fn(usize) -> bool) -> bool {
        match *segment {
            Segment::Missing { .. } => self.fill,
            Segment::Unit { key, .. } if self.units.contains_key(&key) => true,
            Segment::Unit { key, extent, .. } => !is_hung(extent) && (self.fill || !self.is_failed(now, key)),
        }
    }
}

/// Fill from byte `from` of a unit on.
fn fill_from(from: usize, into: &mut [u8]) {
    let fill = FILL.iter().cycle().skip(from % FILL.len());
    into.iter_mut().zip(fill).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests;
