//! Counts the frames of a datastream from its plan, and compares the times in its frames with their places.
//!
//! An index record gives the frames of its chunk, those that never arrived, and those that never arrived before it. The
//! recorder's account at the end gives the sums, so that frames of chunks whose records are missing are counted too. Without
//! both (older or killed recorders, plain FlexBuff), frames are counted by the length of files and gaps, and by the time
//! between chunks: frame numbers times the threads that share them.

use crate::frames;
use crate::irregular::{IrregularSummary, told};
use crate::ledger::{Discard, FrameLedger, differs};
use crate::recording::contents::{ChunkEntry, DatastreamEntry, Gap, Lack, Rate, Time, Verdict, cut_bytes};
use crate::recording::holes::{FilePlaces, Found, Uncounted, rate_of, unpacked};
use crate::recording::index::record::{ChunkMeta, ChunkRecord, Datastream, LostChunk};
use crate::recording::open::Recording;
use crate::recording::verify::file::Seen;
use skyhaul_core::wire::{
    Change, FamilyRef, Format, FrameTime, RateChanges, RateWatch, Sighting, Timeline, TimelineOptions, Trace,
};
use std::ops::Range;

/// State of a chunk's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recording) enum Proof {
    /// It matches its record.
    Sound,
    /// It differs from its record, or is missing.
    Damaged,
    /// It has no record; whole frames in the file, those of them that are marked invalid, those that are missing among them, and
    /// one at the end that is cut.
    Unknown { frames: u64, invalid: u64, missing: u64, cut: u64 },
}

/// The count of one datastream, step by step.
#[derive(Debug)]
pub(in crate::recording) struct Count<'a> {
    stream: &'a DatastreamEntry,
    /// Bytes of a frame; 0 if they differ or are not known.
    unit: u64,
    lanes: u64,
    rate: Rate,
    /// When the last chunk ended.
    before: Option<Time>,
    /// Where it ended, by the headers of its frames.
    files: FilePlaces,
    /// Frames of chunks that are not there since then.
    since: u64,
    /// Frames left out of the last chunk since then.
    left_out: u64,
    gaps_since: bool,
    /// A record does not give the frames missing before its chunk.
    is_silent: bool,
    ledger: FrameLedger,
}

impl<'a> Count<'a> {
    pub(in crate::recording) fn new(stream: &'a DatastreamEntry, about: Option<&Datastream>) -> Count<'a> {
        let info = about.or(stream.datastream.as_ref()).map(|about| &about.info);
        Count {
            stream,
            unit: info.map_or(0, |info| u64::from(info.unit_bytes)),
            lanes: info.map_or(1, |info| u64::from(info.lanes.max(1))),
            rate: Rate::of(about.or(stream.datastream.as_ref())),
            before: None,
            files: FilePlaces::default(),
            since: 0,
            left_out: 0,
            gaps_since: false,
            is_silent: false,
            ledger: FrameLedger {
                packets_per_frame: info.map_or(0, frames::packets_per_frame),
                ..FrameLedger::default()
            },
        }
    }

    /// What is counted, in the singular.
    pub(in crate::recording) fn unit(&self) -> &'static str {
        self.ledger.unit()
    }

    /// Frames in so many bytes of a file.
    pub(in crate::recording) fn frames_in(&self, bytes: u64) -> u64 {
        bytes.checked_div(self.unit).unwrap_or(0)
    }

    /// Bytes behind the last whole frame of a file.
    pub(in crate::recording) fn cut_bytes(&self, bytes: u64) -> u64 {
        cut_bytes(bytes, self.unit)
    }

    /// What the headers of a chunk's frames give. If nothing else states the rate, it is learned from the first file without a
    /// record that gives it. `is_sound`: whether its file is as it was recorded, or, without a record, proven by its headers.
    pub(in crate::recording) fn look(
        &mut self,
        about: Option<&Datastream>,
        chunk: &ChunkEntry,
        seen: &Seen,
        is_sound: bool,
    ) -> Found {
        if !is_sound {
            self.files.interrupt();
            return Found { uncounted: uncounted(seen), ..Found::default() };
        }
        let meta = chunk.record.as_ref().map(|record| &record.meta);
        if meta.is_none()
            && self.rate.get().is_none()
            && let Some(frames) = about.and_then(|about| rate_of(about, &seen.trace))
        {
            self.rate = Rate::whole(frames);
        }
        let left_out = meta.filter(|meta| meta.packed).map_or(&[][..], |meta| &meta.missing);
        let frames = meta.map_or(seen.frames, |meta| u64::from(meta.units));
        self.files.file(&seen.trace, (self.rate, self.lanes), frames, left_out)
    }

    /// A chunk from `first` to `last`, of which `found` is known by its headers. Returns the frames that are missing before it, and
    /// how many frame numbers later than expected it begins, if its neighbours say that.
    pub(in crate::recording) fn chunk(
        &mut self,
        chunk: &ChunkEntry,
        (proof, found): (Proof, &Found),
        [first, last]: [Option<Time>; 2],
    ) -> (u64, Option<i128>) {
        let step = self.before.zip(first).and_then(|(before, first)| self.rate.steps(before, first));
        let meta = chunk.record.as_ref().map(|record| &record.meta);
        // These are missing within the chunks, and not between them.
        let [before, at_end] = meta.map_or([0; 2], left_out_at_ends);
        let left_out = std::mem::replace(&mut self.left_out, at_end).saturating_add(before);
        let step = step.map(|step| step - i128::from(left_out / self.lanes));
        let step = step.filter(|&step| !self.rate.is_next(step));
        let by_time = step.and_then(|step| u64::try_from(step - 1).ok()).unwrap_or(0);
        let by_time = found.before.unwrap_or(by_time.saturating_mul(self.lanes)).saturating_sub(self.since);
        let stated = meta.and_then(|meta| meta.gap);
        // Chunks of which nothing is known but their numbers: the time between their neighbours was theirs.
        let are_gone = stated.is_none() && self.gaps_since && self.since == 0;
        if are_gone {
            add(&mut self.ledger.received, by_time);
            add(&mut self.ledger.damaged, by_time);
        }
        let is_open = meta.is_some_and(|meta| meta.gap_is_lower_bound);
        let by_time = if are_gone { 0 } else { by_time };
        let between = match stated {
            // The rate may have been learned later.
            Some(stated) if is_open => stated.max(by_time),
            stated => stated.unwrap_or(by_time),
        };
        self.ledger.is_lower_bound |= is_open && self.rate.get().is_none();
        self.is_silent |= meta.is_some_and(|meta| meta.gap.is_none());
        let jump = step.filter(|_| !self.gaps_since);
        (self.before, self.since, self.gaps_since) = (last, 0, false);
        self.never(0, between);
        let heaps = meta.and_then(|meta| meta.heaps.as_ref()).map(|heaps| heaps.count);
        let received = heaps.or(meta.map(|meta| meta.received_units())).unwrap_or(0);
        let ledger = &mut self.ledger;
        match proof {
            Proof::Unknown { frames, invalid, missing, cut } => {
                let valid = frames.saturating_sub(invalid);
                add(&mut ledger.received, valid.saturating_add(cut));
                add(&mut ledger.unverified, valid);
                add(&mut ledger.damaged, cut);
                // The time behind the last whole frame is its own.
                self.since = cut;
                self.never(invalid.saturating_add(missing), 0);
            }
            Proof::Sound | Proof::Damaged => {
                add(&mut ledger.received, received);
                let to = if proof == Proof::Sound { &mut ledger.recorded } else { &mut ledger.damaged };
                add(to, received);
                self.never(meta.map_or(0, |meta| meta.missing_units()), 0);
            }
        }
        (between, jump)
    }

    fn never(&mut self, in_chunks: u64, between: u64) {
        add(&mut self.ledger.in_chunks, in_chunks);
        add(&mut self.ledger.between_chunks, between);
        add(&mut self.ledger.never_received, in_chunks.saturating_add(between));
    }

    /// Chunks that are not there. Returns their frames.
    pub(in crate::recording) fn gap(&mut self, gap: &Gap) -> u64 {
        if !gap.has_chunks() {
            return 0;
        }
        let (mut frames, mut bytes) = (0u64, gap.bytes.unwrap_or(0));
        for lost in self.stream.lost.range(gap.chunks.0..gap.chunks.1).map(|(_, lost)| lost) {
            frames = frames.saturating_add(self.lost(lost));
            bytes = bytes.saturating_sub(lost.bytes);
        }
        let told =
            self.stream.lost.range(gap.chunks.0..gap.chunks.1).filter(|(_, lost)| lost.units > 0).count();
        // What is known of none of them is the length of the others.
        if (told as u64) < u64::from(gap.chunks.1 - gap.chunks.0) {
            let rest = self.frames_in(bytes);
            frames = frames.saturating_add(rest);
            add(&mut self.ledger.received, rest);
            match gap.lack {
                Lack::Lost => self.ledger.discard(Discard::Unknown, rest),
                Lack::Unfinished => self.ledger.discard(Discard::Unfinished, rest),
                _ => add(&mut self.ledger.damaged, rest),
            }
        }
        self.since = self.since.saturating_add(frames);
        self.gaps_since = true;
        frames
    }

    /// A chunk that the recorder gave up, and described.
    fn lost(&mut self, lost: &LostChunk) -> u64 {
        let received = u64::from(lost.units).saturating_sub(lost.missing_units);
        add(&mut self.ledger.received, received);
        self.ledger.discard(lost.cause.unwrap_or(Discard::Unknown), received);
        self.ledger.is_lower_bound |= lost.gap_is_lower_bound;
        self.never(lost.missing_units, lost.gap);
        u64::from(lost.units).saturating_add(lost.gap)
    }

    /// The sums, with the recorder's account if there is one; and where the two contradict each other.
    pub(in crate::recording) fn finish(self, recording: &Recording) -> (FrameLedger, Vec<String>) {
        let counted = self.ledger.clone();
        let adopted = recording.report.as_ref().is_none_or(|report| report.adopted);
        let account = self.stream.account.as_ref().filter(|_| !adopted && !recording.ambiguous);
        // Older recorders did not count frames.
        let Some(told) = account.map(|account| &account.ledger).filter(|ledger| ledger.expected() > 0) else {
            let wrong = counted.imbalance(&self.stream.name);
            return (counted, wrong);
        };
        let mut ledger = FrameLedger {
            recorded: counted.recorded,
            unverified: counted.unverified,
            pending: 0,
            damaged: 0,
            discarded: 0,
            discarded_by: Default::default(),
            packets_per_frame: counted.packets_per_frame,
            ..told.clone()
        };
        if self.is_silent {
            ledger.between_chunks = counted.between_chunks;
            ledger.never_received = told.in_chunks.saturating_add(counted.between_chunks);
        }
        let here = counted.recorded.saturating_add(counted.unverified);
        let mut left = told.received.saturating_sub(here);
        // A chunk that was given up may have been saved after all.
        for (why, &frames) in
            told.discarded_by.iter().chain([(&Discard::Unfinished.name().to_owned(), &told.pending)])
        {
            let frames = frames.min(left);
            left -= frames;
            if frames > 0 {
                add(&mut ledger.discarded, frames);
                add(ledger.discarded_by.entry(why.clone()).or_default(), frames);
            }
        }
        ledger.damaged = left;
        let mut wrong = ledger.imbalance(&self.stream.name);
        if here > told.received {
            let by_recorder = ("received by the recorder", told.received);
            wrong.extend(differs(&self.stream.name, ("frames in chunks", here), by_recorder));
        }
        (ledger, wrong)
    }
}

/// Frames left out of a file before its first and after its last, if the record gives no times of these places.
fn left_out_at_ends(meta: &ChunkMeta) -> [u64; 2] {
    let of = |range: Option<&Range<u32>>, has_time: bool| {
        let range = range.filter(|_| meta.packed && !has_time);
        range.map_or(0, |range| u64::from(range.end.saturating_sub(range.start)))
    };
    let first = meta.missing.first().filter(|range| range.start == 0);
    let last = meta.missing.last().filter(|range| range.end == meta.units);
    [of(first, meta.first_time.is_some()), of(last, meta.last_time.is_some())]
}

/// Why it is not known what is missing among the frames of a file whose headers do not prove it; `None` if none of them has a time.
fn uncounted(seen: &Seen) -> Option<Uncounted> {
    seen.trace.ends().filter(|_| seen.error.is_none())?;
    Some(match (seen.illegal, seen.goes_back) {
        (0, true) => Uncounted::Unordered,
        (0, false) => Uncounted::Misplaced,
        _ => Uncounted::Invalid,
    })
}

fn add(to: &mut u64, n: u64) {
    *to = to.saturating_add(n);
}

/// Findings of one datastream that are reported individually.
const MOST_TOLD: u64 = 100;

/// Follows one datastream.
pub(super) struct Times {
    timeline: Timeline,
    family: FamilyRef,
    /// Frames were placed by the packets' numbers: places go on from chunk to chunk.
    numbered: bool,
    /// The place behind the last chunk, and its epoch.
    next: Option<(u64, u64)>,
    /// Learns the frame rate as the receiver does, where frames were placed by their times and no index states it.
    rate: RateWatch,
    /// Whether seconds keep it, where no recorder has watched that.
    changes: Option<RateChanges>,
    told: u64,
}

impl Times {
    /// For a datastream whose frames can be looked into. `has_rate`: the index has the rate of all of its frames, not only of the last
    /// ones.
    pub(super) fn of(about: Option<&Datastream>, is_indexed: bool, has_rate: bool) -> Option<Times> {
        let info = &about?.info;
        let family = info.format.get("format")?.as_str()?.parse::<Format>().ok()?.family()?;
        let format = frames::stream_format(about?)?;
        let timeline = Timeline::new(TimelineOptions {
            rate: Rate::of(about).get().filter(|_| has_rate),
            parts: format.parts as u64,
            // The index has the threads of the end: one of them may have begun late.
            group: Some(format.threads.len() as u64),
            threads: Vec::new(),
            numbered: is_indexed,
        });
        Some(Times {
            timeline,
            family,
            numbered: info.numbered,
            next: None,
            rate: RateWatch::default(),
            changes: (!is_indexed).then(RateChanges::default),
            told: 0,
        })
    }

    /// Something is missing whose length is not known.
    pub(super) fn interrupt(&mut self) {
        self.next = None;
    }

    /// The frames of the next chunk, with its index record. Returns what is irregular: how grave it is, and in words.
    pub(in crate::recording) fn chunk(
        &mut self,
        trace: &Trace,
        record: Option<&ChunkRecord>,
    ) -> Vec<(Verdict, String)> {
        let meta = record.map(|record| &record.meta);
        let behind = self.next.filter(|_| self.numbered).zip(meta).and_then(|((place, epoch), meta)| {
            let gap = meta.gap.filter(|_| meta.epoch == epoch)?;
            place.checked_add(gap)
        });
        if behind.is_none() {
            self.timeline.restart();
        }
        let base = behind.unwrap_or(0);
        let holes = meta.filter(|meta| meta.packed).map_or(&[][..], |meta| &meta.missing);
        for (seen, _) in trace.frames() {
            let place = base.saturating_add(unpacked(holes, seen.place));
            self.timeline.observe(Sighting { place, ..seen });
            self.watch_rate(seen.time);
        }
        if let Some([_, (last, _)]) = trace.ends().filter(|_| !self.numbered && self.changes.is_none()) {
            self.learn_rate(last.time);
        }
        self.next = meta.map(|meta| (base.saturating_add(u64::from(meta.units)), meta.epoch));
        self.changes()
    }

    fn learn_rate(&mut self, time: FrameTime) {
        if let Some(frames) = self.rate.observe(time) {
            self.timeline.set_rate(frames);
        }
    }

    /// Without a recorder's events: does the frame rate change?
    fn watch_rate(&mut self, time: FrameTime) {
        let Some(changes) = &mut self.changes else { return };
        match self.timeline.rate() {
            None => self.learn_rate(time),
            Some((rate, 1)) => {
                if let Some(frames) = u32::try_from(rate).ok().and_then(|rate| changes.observe(time, rate)) {
                    self.timeline.change_rate(frames, time);
                }
            }
            Some(_) => {}
        }
    }

    /// There are no more chunks: threads may have stopped before the last frame.
    pub(super) fn finish(&mut self) -> Vec<(Verdict, String)> {
        self.timeline.finish();
        self.changes()
    }

    fn changes(&mut self) -> Vec<(Verdict, String)> {
        let changes = std::iter::from_fn(|| self.timeline.poll_change());
        let notable: Vec<Change> =
            changes.filter(|change| !matches!(change, Change::Rate { assumed: None, .. })).collect();
        let rate = self.timeline.rate();
        let mut found = Vec::new();
        for change in notable {
            self.told += 1;
            if self.told <= MOST_TOLD {
                let harmless = matches!(change, Change::ThreadJoined(_) | Change::ThreadReturned(_));
                let verdict = if harmless { Verdict::Holes } else { Verdict::Irregular };
                found.push((verdict, told(&change, self.family, rate).1));
            }
        }
        found
    }

    /// All of it.
    pub(super) fn summary(&self) -> IrregularSummary {
        self.timeline.counts().into()
    }
}
