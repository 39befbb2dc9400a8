//! The plan of every reader: each chunk of a datastream in order, and each gap, with its reason.
//!
//! ```text
//!   chunk 0 · chunk 1 · gap 2..4 (missing) · chunk 4 · gap 5..6 (lost: disk full) · chunk 6 · [open end]
//! ```
//!
//! The numbers that there must be follow from the recorder's account at its end (`end` in the index), which every disk
//! has: it gives the number of chunks submitted, so a tail that is missing with its records is noticed. Without an account the
//! end is open. A chunk of the plan is not proven yet: its bytes are, when they are read.
//!
//! Limits: a file without a record is taken for a chunk of the recording only up to the last number of the account, or,
//! without one, if it is at most 10 000 numbers behind the chunk before it.

use crate::recording::contents::{
    ChunkEntry, DatastreamEntry, Gap, Lack, MAX_CHUNK_NUMBER, Rate, State, Time,
};
use crate::recording::index::record::ChunkRecord;
use crate::recording::open::Recording;
use skyhaul_core::hint::Hint;
use std::collections::BTreeMap;

/// Without an account, a file without a record is at most this many numbers behind the chunk before it.
const MAX_CHUNK_DISTANCE: u32 = 10_000;

/// A step of a plan.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A chunk to prove; for one without a record, the time by which it has to end, and how long it should be.
    Chunk { entry: Box<ChunkEntry>, upto: Option<Time>, length: Option<u64> },
    /// Something that is not there.
    Gap(Gap),
    /// A file with the name of a chunk that this recording has not: it is not read.
    Foreign(Box<ChunkEntry>),
}

/// The finding about such a file.
pub(super) const FOREIGN: &str = "it is in no index, and its number is outside the recording: it is not used";

/// The plan of one datastream from chunk `from` on.
pub(super) fn steps(recording: &Recording, stream: &DatastreamEntry, from: u32) -> Vec<Step> {
    let mut plan = Planner::new(recording, stream);
    let mut contradicted = stream.contradicted.iter().peekable();
    for entry in stream.chunks.values() {
        let upto_here = |gap: &&Gap| gap.chunks.0 <= entry.number;
        plan.steps.extend(std::iter::from_fn(|| contradicted.next_if(upto_here)).cloned().map(Step::Gap));
        if plan.is_foreign(entry) {
            plan.steps.push(Step::Foreign(Box::new(entry.clone())));
            continue;
        }
        plan.hole(entry.number);
        plan.next = entry.number + 1;
        let (upto, length) = match &entry.record {
            Some(record) => (None, Some(record.bytes)),
            None => {
                let upto = plan.recorded_after(entry.number).and_then(first_time);
                (upto, plan.hole_bytes(&(entry.number..entry.number + 1), 1))
            }
        };
        plan.bytes = plan.bytes.saturating_add(length.or(entry.bytes).unwrap_or_default());
        plan.steps.push(Step::Chunk { entry: Box::new(entry.clone()), upto, length });
    }
    plan.steps.extend(contradicted.cloned().map(Step::Gap));
    plan.hole(plan.end);
    plan.open_end();
    let begins = |step: &Step| match step {
        Step::Chunk { entry, .. } => entry.number >= from,
        Step::Gap(gap) if gap.lack == Lack::Contradicted => gap.chunks.0 >= from,
        Step::Gap(gap) => gap.chunks.0 >= from || gap.chunks.1 > from || !gap.has_chunks(),
        Step::Foreign(_) => true,
    };
    plan.steps.into_iter().filter(begins).collect()
}

fn first_time(record: &ChunkRecord) -> Option<Time> {
    record.meta.first_time
}

struct Planner<'a> {
    recording: &'a Recording,
    stream: &'a DatastreamEntry,
    steps: Vec<Step>,
    /// Records in order of their numbers.
    records: Vec<&'a ChunkRecord>,
    /// Next number that has no step.
    next: u32,
    /// One past the last number that there must be.
    end: u32,
    /// Bytes that the steps so far stand for.
    bytes: u64,
    /// Chunks with a known fate.
    told: BTreeMap<u32, (Lack, String)>,
    /// Numbers without a record that are in no list were never given to the recorder.
    sparse: bool,
}

impl<'a> Planner<'a> {
    fn new(recording: &'a Recording, stream: &'a DatastreamEntry) -> Self {
        let mut told = BTreeMap::new();
        let account = stream.account.as_ref();
        for &number in account.into_iter().flat_map(|account| &account.lost_numbers) {
            told.insert(number, (Lack::Lost, "lost during the recording".to_owned()));
        }
        for (&number, lost) in &stream.lost {
            told.insert(number, (Lack::Lost, format!("lost during the recording: {}", lost.reason)));
        }
        for &number in account.into_iter().flat_map(|account| &account.unacknowledged) {
            told.insert(number, (Lack::Unfinished, "still pending when the recorder ended".to_owned()));
        }
        let records: Vec<&ChunkRecord> =
            stream.chunks.values().filter_map(|chunk| chunk.record.as_ref()).collect();
        let recorded = records.last().map_or(0, |record| record.number + 1);
        let last_told = told.keys().next_back().map_or(0, |&number| number.saturating_add(1));
        let given =
            account.map_or(0, |a| u32::try_from(a.submitted).unwrap_or(u32::MAX).min(MAX_CHUNK_NUMBER + 1));
        let end = recorded.max(given).max(last_told.min(MAX_CHUNK_NUMBER + 1));
        // Recorders number without gaps; only where there are more numbers than chunks given, some were left out.
        let adopted = recording.report.as_ref().is_some_and(|report| report.adopted);
        let by_recorder = records.iter().filter(|record| adopted || !record.adopted).count();
        let sparse = account.is_some_and(|account| {
            let all_named = account.lost <= account.lost_numbers.len() as u64;
            let all_here = by_recorder as u64 >= account.acknowledged;
            end > given && all_named && all_here
        });
        Planner { recording, stream, steps: Vec::new(), records, next: 0, end, bytes: 0, told, sparse }
    }

    /// A file that cannot be a chunk of this recording.
    fn is_foreign(&self, entry: &ChunkEntry) -> bool {
        let reach = if self.stream.account.is_some() { 0 } else { MAX_CHUNK_DISTANCE };
        entry.record.is_none() && entry.number >= self.end.max(self.next).saturating_add(reach)
    }

    fn recorded_after(&self, number: u32) -> Option<&'a ChunkRecord> {
        self.records.get(self.records.partition_point(|record| record.number <= number)).copied()
    }

    fn recorded_before(&self, number: u32) -> Option<&'a ChunkRecord> {
        let behind = self.records.partition_point(|record| record.number < number);
        self.records.get(behind.checked_sub(1)?).copied()
    }

    /// The time of chunks that have no step.
    fn gap(&self, chunks: std::ops::Range<u32>, lack: Lack, why: &str) -> Gap {
        let from = self.recorded_before(chunks.start).and_then(|record| record.meta.last_time);
        let to = self.recorded_after(chunks.end - 1).and_then(first_time);
        Gap { from, to, ..Gap::new(&self.stream.name, chunks, lack, why) }
    }

    /// Account for the numbers up to `upto` that have no chunk.
    fn hole(&mut self, upto: u32) {
        while self.next < upto {
            let begin = self.next;
            let named = self.told.range(begin..upto).next().map(|(&number, why)| (number, why.clone()));
            let end = match named {
                Some((number, (lack, why))) if number == begin => {
                    let same = |n: &u32| self.told.get(n).is_some_and(|(l, w)| (*l, w) == (lack, &why));
                    let end = (begin..upto).find(|n| !same(n)).unwrap_or(upto);
                    self.lack(begin..end, lack, &why);
                    end
                }
                Some((number, _)) => {
                    self.missing(begin..number);
                    number
                }
                None => {
                    self.missing(begin..upto);
                    upto
                }
            };
            self.next = end;
        }
    }

    fn missing(&mut self, chunks: std::ops::Range<u32>) {
        if self.sparse {
            return;
        }
        let why = match &self.recording.missing_disks[..] {
            [] => "no file and no index record of it on these disks".to_owned(),
            [disk] => format!("not on these disks, and {} of this recording is absent", disk.display()),
            all => format!("not on these disks, and {} disks of this recording are absent", all.len()),
        };
        self.lack(chunks, Lack::Missing, &why);
    }

    fn lack(&mut self, chunks: std::ops::Range<u32>, lack: Lack, why: &str) {
        let count = chunks.end - chunks.start;
        let bytes = self.hole_bytes(&chunks, count);
        self.bytes = self.bytes.saturating_add(bytes.unwrap_or_default());
        let unit = self.stream.datastream.as_ref().map_or(0, |stream| u64::from(stream.info.unit_bytes));
        let frames = bytes.and_then(|bytes| bytes.checked_div(unit));
        let gap = Gap { bytes, frames, ..self.gap(chunks, lack, why) };
        self.steps.push(Step::Gap(gap));
    }

    /// The length of chunks without a record: by the time between their neighbours, at most that of whole
    /// chunks; at the end by the recorder's account.
    fn hole_bytes(&self, chunks: &std::ops::Range<u32>, count: u32) -> Option<u64> {
        if self.recording.state == State::Unindexed {
            return self.by_neighbours(count);
        }
        let info = self.stream.datastream.as_ref().map(|stream| &stream.info)?;
        let (before, after) = (self.recorded_before(chunks.start), self.recorded_after(chunks.end - 1));
        let unit = u64::from(info.unit_bytes);
        let whole = if info.units > 0 { Some(info.units) } else { before.or(after).map(|r| r.meta.units) }?;
        let most = (u64::from(count) * u64::from(whole)).saturating_mul(unit);
        let account = self.stream.account.as_ref().filter(|account| !account.name.is_empty());
        if let (None, Some(account)) = (after, account) {
            let left = account.submitted_bytes.saturating_sub(self.bytes);
            return Some(if unit > 0 && left.is_multiple_of(unit) { left.min(most) } else { most });
        }
        let times = before.and_then(|before| before.meta.last_time).zip(after.and_then(first_time));
        let rate = Rate::of(self.stream.datastream.as_ref());
        let Some(steps) = times.and_then(|(last, first)| rate.steps(last, first)) else { return Some(most) };
        let frames = steps - 1;
        let lanes = u64::from(info.lanes.max(1));
        let by_time = u64::try_from(frames).unwrap_or_default().saturating_mul(lanes).saturating_mul(unit);
        // Neighbours may begin and end within a frame number that threads share.
        Some(if most.abs_diff(by_time) < (2 * lanes).saturating_mul(unit) { most } else { by_time.min(most) })
    }

    /// Without an index: all chunks but the last are of one length.
    fn by_neighbours(&self, count: u32) -> Option<u64> {
        let whole = self.stream.chunks.values().filter_map(|chunk| chunk.bytes).max()?;
        u64::from(count).checked_mul(whole)
    }

    /// Add the unknown end.
    fn open_end(&mut self) {
        let behind = match self.next.checked_sub(1) {
            Some(last) => format!("what followed chunk {last}, if anything, is unknown"),
            None => "its contents, if any, are unknown".to_owned(),
        };
        let name = &self.stream.name;
        if self.recording.ambiguous {
            let why = format!(
                "two recordings have this name, and only one is read{}",
                Hint("name the disks of one recording only")
            );
            self.steps.push(Step::Gap(Gap::new(name, self.next..self.next, Lack::Ambiguous, why)));
        }
        let why = match self.recording.state {
            State::Ended if self.stream.account.is_some() => return,
            State::Ended => format!("the recorder's end record does not list this stream: {behind}"),
            State::Live => {
                "it is still being recorded: only data safe so far were read (see --follow)".to_owned()
            }
            State::Interrupted => format!("the recorder did not end normally: {behind}"),
            State::Unindexed => format!("there is no index: {behind}"),
        };
        self.steps.push(Step::Gap(Gap::new(name, self.next..self.next, Lack::OpenEnd, why)));
    }
}
