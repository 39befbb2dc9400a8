//! Judges a datastream: compares each step of its plan with the files read.

use crate::irregular::{FAULT_EVENTS, IrregularSummary, TIMES_REPEATED};
use crate::ledger::FrameLedger;
use crate::recording::Event;
use crate::recording::contents::{
    CUT, ChunkEntry, DatastreamEntry, Findings, Gap, Lack, State, Time, Verdict,
};
use crate::recording::copies::CopyCounts;
use crate::recording::holes::Found;
use crate::recording::index::record::Datastream;
use crate::recording::open::Recording;
use crate::recording::plan;
use crate::recording::plan::Step;
use crate::recording::verify::count::{Count, Proof, Times};
use crate::recording::verify::file::Seen;
use crate::recording::verify::repair::Search;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// One datastream's account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatastreamCheck {
    /// Its name on disk.
    pub name: String,
    /// Chunk files that are there.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Chunks whose bytes have the checksum of their index record.
    pub proven: u64,
    /// Numbers of files that are in no index.
    pub unacknowledged: Vec<u32>,
    /// Numbers of chunks whose file is missing, has another length or other contents.
    pub damaged: Vec<u32>,
    /// Numbers of chunks that the recorder could not write.
    pub lost: Vec<u32>,
    /// Ranges of numbers (first, one past the last) of missing chunks.
    pub gaps: Vec<(u32, u32)>,
    /// Numbers that are on more than one disk.
    pub copies: u64,
    /// Copies of its verified chunks, if more than one of each was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<CopyCounts>,
    /// Units in all chunks, missing ones included.
    pub units: u64,
    /// Units that never arrived, by the index.
    pub missing_units: u64,
    /// Discontinuities of time between chunks.
    pub time_breaks: u64,
    /// Frames between chunks that never arrived.
    pub missing_between: u64,
    /// Files of which nobody can say what is missing in them: they count as what they hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncounted: Vec<UncountedFile>,
    /// Frames in the files that were read; packets of heaps or events. Where the ledger counts packets
    /// ([`FrameLedger::packets_per_frame`]), this, `illegal_frames` and `filled_frames` count them, too.
    pub frames_seen: u64,
    /// The fate of all its frames, heaps or events.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Of `frames_seen`, invalid frames.
    pub illegal_frames: u64,
    /// Of these, marked as invalid.
    pub filled_frames: u64,
    /// Number and completeness of its heaps or events, by the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heaps: Option<HeapsCheck>,
    /// Irregularities of the times in its frames, of threads, station and frame rate.
    #[serde(default)]
    pub irregular: IrregularSummary,
    /// Its format, if an index states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

impl DatastreamCheck {
    /// Whether it has neither chunks nor frames, and none is known to be missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks == 0 && self.ledger.expected() == 0 && self.gaps.is_empty() && self.lost.is_empty()
    }
}

/// A file without a recorder's record whose frames do not give what is missing among them, though they have times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncountedFile {
    /// Its number.
    pub number: u32,
    /// Frames in it.
    pub frames: u64,
    /// The reason, in words.
    pub why: String,
}

/// The heaps or events of a datastream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapsCheck {
    /// How many begin in its chunks.
    pub count: u64,
    /// Of these, incomplete ones.
    pub incomplete: u64,
    /// Bytes that are missing in these.
    pub missing_bytes: u64,
}

/// The severity of a gap.
pub(super) fn verdict_of(recording: &Recording, lack: Lack) -> Verdict {
    match lack {
        Lack::Lost | Lack::Damaged => Verdict::Damaged,
        Lack::Unfinished
            if recording.state == State::Ended && !recording.report.as_ref().is_some_and(|r| r.adopted) =>
        {
            Verdict::Damaged
        }
        // A disk that is not here explains what is missing; a killed recorder may have numbered chunks that it never
        // could acknowledge. Otherwise somebody took them away.
        Lack::Missing if recording.missing_disks.is_empty() && recording.state == State::Ended => {
            Verdict::Damaged
        }
        Lack::OpenEnd if recording.state == State::Live => Verdict::Holes,
        Lack::Missing
        | Lack::Unfinished
        | Lack::Unproven
        | Lack::HeadersOnly
        | Lack::OpenEnd
        | Lack::Ambiguous
        | Lack::Contradicted => Verdict::Unproven,
    }
}

/// The check of one datastream.
pub(super) struct StreamCheck<'a> {
    pub(super) recording: &'a Recording,
    pub(super) stream: &'a DatastreamEntry,
    pub(super) about: Option<&'a Datastream>,
    pub(super) seen: &'a HashMap<(PathBuf, u64), Seen>,
    pub(super) search: &'a mut Search,
    pub(super) findings: &'a mut Findings,
    pub(super) sum: DatastreamCheck,
    pub(super) count: Count<'a>,
    /// Sums that do not hold.
    pub(super) unbalanced: &'a mut Vec<String>,
    /// When the chunk before ended.
    pub(super) before: Option<Time>,
    /// Times in its frames, if they can be read.
    pub(super) times: Option<Times>,
    /// Consecutive chunks with the same finding.
    pub(super) unknown: Option<Unknown>,
    /// Further entries of each number.
    pub(super) copies: BTreeMap<u32, Vec<&'a ChunkEntry>>,
    /// Bytes of the verified chunks.
    pub(super) proven_bytes: u64,
    /// Chunks with fewer copies than were asked for.
    pub(super) short: BTreeSet<u32>,
}

/// Chunks without a record.
pub(super) struct Unknown {
    first: PathBuf,
    last: u32,
    count: u32,
    text: String,
}

impl StreamCheck<'_> {
    pub(super) fn run(mut self) -> DatastreamCheck {
        for step in plan::steps(self.recording, self.stream, 0) {
            match step {
                Step::Gap(gap) => self.gap(&gap),
                Step::Chunk { entry, upto, .. } => self.chunk(&entry, upto),
                Step::Foreign(entry) => {
                    self.sum.unacknowledged.push(entry.number);
                    self.findings.add(Verdict::Unproven, Some(&entry.path), plan::FOREIGN);
                }
            }
        }
        self.tell_unknown();
        for copy in &self.stream.copies {
            self.copy(copy);
        }
        self.tell_fewer_copies();
        for path in &self.stream.partial {
            let text = "it was being written when the recorder died (safe to remove)";
            let verdict = if self.recording.state == State::Live { Verdict::Whole } else { Verdict::Holes };
            self.findings.add(verdict, Some(path), text);
        }
        for (verdict, text) in self.times.as_mut().map(Times::finish).unwrap_or_default() {
            self.findings.add(verdict, None, text);
        }
        self.sum.irregular = self.times.as_ref().map(Times::summary).unwrap_or_default();
        self.seen_before_the_disks();
        // Single frames with a wrong time are no change of the stream.
        if self.sum.irregular.odd_frames > 0 {
            self.findings.add(Verdict::Holes, None, self.sum.irregular.words());
        }
        let (ledger, wrong) = self.count.finish(self.recording);
        for line in &wrong {
            self.findings.add(Verdict::Unproven, None, format!("the sums do not hold: {line}"));
        }
        self.unbalanced.extend(wrong);
        self.sum.missing_between = ledger.between_chunks;
        self.sum.ledger = ledger;
        self.sum
    }

    /// Faults that the recorder saw, and the frames on the disks do not show: where these are placed by their times, those that a
    /// stopped or returning clock sent are in no chunk; a thread that was asked for and never came, and a stated frame rate that
    /// frame numbers disproved, are in none either.
    fn seen_before_the_disks(&mut self) {
        let Some(info) = self.about.map(|about| &about.info) else { return };
        let of_sender = |event: &&Event| info.sender.as_ref().is_none_or(|sender| event.is_of(sender));
        for kind in FAULT_EVENTS {
            // No frame of times that were repeated is on the disks.
            let seen = if kind == TIMES_REPEATED { 0 } else { *self.sum.irregular.fault(kind) };
            let events = self.recording.events.iter().filter(|event| event.kind == kind).filter(of_sender);
            for event in events.skip(usize::try_from(seen).unwrap_or(usize::MAX)) {
                *self.sum.irregular.fault(kind) += 1;
                let text = format!("seen while it was recorded: {}", event.text);
                self.findings.add(Verdict::Irregular, None, text);
            }
        }
    }

    fn gap(&mut self, gap: &Gap) {
        self.times.iter_mut().for_each(Times::interrupt);
        let (first, end) = gap.chunks;
        self.count.gap(gap);
        match gap.lack {
            Lack::Lost => self.sum.lost.extend(first..end),
            Lack::Unproven => self.sum.unacknowledged.extend(first..end),
            _ if gap.has_chunks() => self.sum.gaps.push((first, end)),
            _ => {}
        }
        self.findings.add(verdict_of(self.recording, gap.lack), None, gap.to_string());
    }

    fn chunk(&mut self, chunk: &ChunkEntry, upto: Option<Time>) {
        let nothing = Seen::default();
        let own = self.seen.get(&chunk.place()).unwrap_or(&nothing);
        // Of a chunk with copies, any that is as recorded says what is in it.
        let seen = self.sound_copy(chunk, own).unwrap_or(own);
        let (path, unit) = (Some(&chunk.path), self.count.unit());
        self.sum.chunks += u64::from(chunk.bytes.is_some());
        // Frames without a header that can be read are counted by their length.
        let frames = if seen.frames > 0 { seen.frames } else { self.count.frames_in(seen.read) };
        self.sum.frames_seen += frames;
        self.sum.illegal_frames += seen.illegal + u64::from(seen.cut_bytes > 0);
        self.sum.filled_frames += seen.filled;
        if let Some(why) = seen.illegal_why {
            self.findings.add(Verdict::Damaged, path, format!("{} {unit}s are invalid: {why}", seen.illegal));
        }
        if seen.cut_bytes > 0 {
            let text = format!("{CUT}: {} bytes of the last one", seen.cut_bytes);
            self.findings.add(Verdict::Damaged, path, text);
        }
        let meta = chunk.record.as_ref().map(|record| &record.meta);
        let first = meta.and_then(|meta| meta.first_time).or(seen.first_time);
        let last = meta.and_then(|meta| meta.last_time).or(seen.last_time);
        let is_sound = match &chunk.record {
            Some(record) => seen.proves(record).is_ok(),
            None => self.recording.state != State::Live && seen.proven_by_frames(self.before, upto).is_ok(),
        };
        let found = self.count.look(self.about, chunk, seen, is_sound);
        let proof = match &chunk.record {
            Some(_) if self.recorded(chunk, own, seen) => Proof::Sound,
            Some(_) => Proof::Damaged,
            None => {
                self.sum.unacknowledged.push(chunk.number);
                let missing = found.holes.frames;
                let text = match seen.proven_by_frames(self.before, upto) {
                    _ if self.recording.state == State::Live => "not yet acknowledged".to_owned(),
                    Ok(()) => "its frame headers verify its place, nothing verifies its samples".to_owned(),
                    Err(why) => why,
                };
                self.unknown(chunk, text);
                if missing > 0 {
                    let text = format!("{missing} {unit}s never arrived, by the times of the others");
                    self.findings.add(Verdict::Holes, path, text);
                }
                let invalid = seen.filled.saturating_add(seen.illegal).min(frames);
                Proof::Unknown { frames, invalid, missing, cut: u64::from(seen.cut_bytes > 0) }
            }
        };
        self.uncounted(chunk, frames, (proof, &found));
        let (between, step) = self.count.chunk(chunk, (proof, &found), [first, last]);
        self.time(chunk, between, step);
        let told = self.times.as_mut().map(|times| times.chunk(&seen.trace, chunk.record.as_ref()));
        for (verdict, text) in told.unwrap_or_default() {
            self.findings.add(verdict, path, text);
        }
        self.before = last;
    }

    /// Note a file in which more may be missing than is counted. Of those, a repair has made records, too.
    fn uncounted(&mut self, chunk: &ChunkEntry, frames: u64, (proof, found): (Proof, &Found)) {
        let known = match &chunk.record {
            None if self.recording.state != State::Live => None,
            Some(record) if record.adopted && proof == Proof::Sound => Some(&record.meta),
            _ => return,
        };
        let left_out = known.map_or(u64::MAX, |meta| if meta.packed { meta.missing_units() } else { 0 });
        let Some(why) = found.beyond(frames, left_out) else { return };
        self.findings.add(Verdict::Unproven, Some(&chunk.path), why.clone());
        self.sum.uncounted.push(UncountedFile { number: chunk.number, frames, why });
    }

    /// Note a chunk that no index knows; many in a row are one finding.
    fn unknown(&mut self, chunk: &ChunkEntry, text: String) {
        match &mut self.unknown {
            Some(run) if run.last.checked_add(1) == Some(chunk.number) && run.text == text => {
                run.last = chunk.number;
                run.count += 1;
            }
            _ => {
                self.tell_unknown();
                self.unknown =
                    Some(Unknown { first: chunk.path.clone(), last: chunk.number, count: 1, text });
            }
        }
    }

    fn tell_unknown(&mut self) {
        let Some(run) = self.unknown.take() else { return };
        let text = match run.count {
            1 => format!("it is in no index: {}", run.text),
            n => format!("it and the {} chunks after it are in no index: {}", n - 1, run.text),
        };
        self.findings.add(Verdict::Unproven, Some(&run.first), text);
    }

    /// Whether a chunk matches its record: its `own` file, or other data. `seen` is its own file, or a copy that is as recorded.
    fn recorded(&mut self, chunk: &ChunkEntry, own: &Seen, seen: &Seen) -> bool {
        let Some(record) = &chunk.record else { return false };
        let path = Some(&chunk.path);
        self.sum.units += u64::from(record.meta.units);
        if let Some(heaps) = &record.meta.heaps {
            let sum = self.sum.heaps.get_or_insert_default();
            sum.count = sum.count.saturating_add(heaps.count);
            sum.incomplete = sum.incomplete.saturating_add(heaps.incomplete);
            sum.missing_bytes = sum.missing_bytes.saturating_add(heaps.missing_bytes);
        }
        let missing = record.meta.missing_units();
        self.sum.missing_units += missing;
        let proof = match chunk.bytes {
            None => Err("it is in the index, but missing".to_owned()),
            Some(_) => own.proves(record),
        };
        let proven = self.sum.proven;
        match proof {
            Ok(()) => {
                self.sum.proven += 1;
                if chunk.moved {
                    self.findings.add(Verdict::Holes, path, "its record is in the index of another disk");
                }
                if own.bytes > record.bytes {
                    let text = format!("{} bytes follow the end of the chunk", own.bytes - record.bytes);
                    self.findings.add(Verdict::Damaged, path, text);
                }
            }
            Err(why) => {
                match self.search.find(record, self.about, chunk.bytes.is_some().then_some(&chunk.path)) {
                    Some(other) => {
                        self.sum.proven += 1;
                        let is_copy = !std::ptr::eq(own, seen)
                            || self.sum.redundancy.is_some() && self.search.is_copy(record, &other);
                        let verdict = if is_copy { Verdict::FewerCopies } else { Verdict::Damaged };
                        let text = format!("{why}; the recorded data are in {}", other.display());
                        self.findings.add(verdict, path, text);
                    }
                    None => {
                        self.sum.damaged.push(chunk.number);
                        self.findings.add(Verdict::Damaged, path, why);
                    }
                }
            }
        }
        if self.sum.proven > proven {
            self.proven_bytes = self.proven_bytes.saturating_add(record.bytes);
            self.count_copies(chunk);
        }
        if missing > 0 {
            let text = format!("{missing} of {} units never arrived", record.meta.units);
            self.findings.add(Verdict::Holes, path, text);
        }
        if seen.frames > 0 && !record.meta.packed && seen.filled < missing {
            let text = format!("{missing} units are missing, but only {} are marked as invalid", seen.filled);
            self.findings.add(Verdict::Damaged, path, text);
        }
        self.sum.proven > proven
    }

    /// What is missing before a chunk, or whether its time does not continue that of the chunk before.
    fn time(&mut self, chunk: &ChunkEntry, between: u64, step: Option<i128>) {
        let text = match step {
            _ if between > 0 => {
                format!("{between} {}s before it never arrived, and are in no chunk", self.count.unit())
            }
            Some(step) if step > 1 => format!(
                "its time is {} frame numbers later than the end of the previous chunk, although no frame is missing between them",
                step - 1
            ),
            Some(step) => format!("its first frame is {} frames before the end of the previous chunk", -step),
            None => return,
        };
        self.sum.time_breaks += 1;
        self.findings.add(Verdict::Holes, Some(&chunk.path), text);
    }
}
