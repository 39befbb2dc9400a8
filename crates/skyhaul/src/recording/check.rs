//! Proving a recording: every byte against the index, every chunk against its neighbours.
//!
//! The disks are read side by side, each by one thread; then the same plan is walked as by every reader. What is found
//! is sorted by what it means:
//!
//! | verdict | means | exit code |
//! |---|---|---|
//! | `whole` | every chunk proven, nothing missing | 0 |
//! | `holes` | every chunk proven; data that never arrived are marked as missing | 0 |
//! | `unproven` | files that no index knows, no known end, or disks that were not given | 1 |
//! | `damaged` | a chunk that the index promised is gone or has other bytes, or was lost in recording | 1 |

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use skyhaul_io::disk::read_buffers;
use skyhaul_io::memory::ALIGN;

use super::feed::MOST_UNRECORDED;
use super::finding::{Finding, Findings, Verdict};
use super::gap::{Gap, Lack, Time};
use super::index::Tally;
use super::open::{ChunkEntry, DatastreamEntry, Recording, State};
use super::plan::{self, Step, steps_between};
use super::prove::{FrameCutter, FrameReader, READ_BYTES, Search, Seen, cutter, read_file};
use super::record::Datastream;

/// Makes a reader for a datastream's frames, if its format is known.
pub type Frames<'a> = dyn Fn(&Datastream) -> Option<Box<dyn FrameReader>> + Sync + 'a;

/// How to check.
#[derive(Default)]
pub struct CheckOptions<'a> {
    /// Looks into the frames; without it only bytes and records are checked.
    pub frames: Option<&'a Frames<'a>>,
    /// Called now and then with bytes read and bytes in all.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync + 'a)>,
}

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
    /// Numbers of files that no index knows.
    pub unacknowledged: Vec<u32>,
    /// Numbers of chunks whose file is gone, has another length or other bytes.
    pub damaged: Vec<u32>,
    /// Numbers of chunks that the recorder could not write.
    pub lost: Vec<u32>,
    /// Ranges of numbers (first, one past the last) that are missing: of which there must be a chunk, and there is none.
    pub gaps: Vec<(u32, u32)>,
    /// Numbers that are on more than one disk.
    pub copies: u64,
    /// Units in all chunks, missing ones included.
    pub units: u64,
    /// Units that never arrived, by the index.
    pub missing_units: u64,
    /// Places where the time from chunk to chunk does not go on.
    pub time_breaks: u64,
    /// Frame numbers that lie between chunks and are in none.
    pub missing_between: u64,
    /// Frames that were looked into.
    pub frames_seen: u64,
    /// Of these, no legal frames.
    pub illegal_frames: u64,
    /// Of these, marked as invalid.
    pub filled_frames: u64,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The scan's label.
    pub scan: String,
    /// How its recorder is.
    pub state: State,
    /// In one word.
    pub verdict: Verdict,
    /// Each datastream.
    pub datastreams: Vec<DatastreamCheck>,
    /// What is not as it should be, worst first (the first 1000).
    pub findings: Vec<Finding>,
    /// How many findings there are in all.
    pub findings_total: u64,
    /// Each index and how much of it could be read.
    pub indexes: Vec<(PathBuf, Tally)>,
    /// Disks of the session that were not given.
    pub missing_disks: Vec<PathBuf>,
    /// Bytes read.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

impl CheckReport {
    /// What the tool exits with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.verdict > Verdict::Holes)
    }
}

impl Recording {
    /// Read everything and hold it against the index.
    ///
    /// # Errors
    /// There is no memory or thread to read with. What is wrong with the recording is in the report.
    pub fn check(&self, options: &CheckOptions<'_>) -> io::Result<CheckReport> {
        let begun = Instant::now();
        let abouts: Vec<_> = (0..self.datastreams.len()).map(|index| self.about(index)).collect();
        let seen = self.read_all(options, &abouts)?;
        let mut findings = Findings::from(&self.findings[..]);
        let mut search = Search::new(self);
        for (path, seen) in &seen {
            if seen.error.is_none() && seen.read == seen.bytes {
                search.learn(path, seen.crc32c);
            }
        }
        let mut datastreams = Vec::new();
        for (stream, about) in self.datastreams.iter().zip(&abouts) {
            let check = StreamCheck {
                recording: self,
                stream,
                about: about.as_ref(),
                seen: &seen,
                search: &mut search,
                findings: &mut findings,
                sum: DatastreamCheck {
                    name: stream.name.clone(),
                    bytes: stream.bytes(),
                    ..Default::default()
                },
                before: None,
            };
            datastreams.push(check.run());
        }
        findings.all.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
        Ok(CheckReport {
            scan: self.label.to_string(),
            state: self.state,
            verdict: findings.worst.unwrap_or(Verdict::Whole),
            datastreams,
            findings: findings.all,
            findings_total: findings.total,
            indexes: self.indexes.clone(),
            missing_disks: self.missing_disks.clone(),
            bytes: seen.values().map(|seen| seen.read).sum(),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn read_all(
        &self,
        options: &CheckOptions<'_>,
        abouts: &[Option<Datastream>],
    ) -> io::Result<HashMap<PathBuf, Seen>> {
        let jobs: Vec<Job<'_>> = self
            .datastreams
            .iter()
            .zip(abouts)
            .flat_map(|(stream, about)| jobs(stream, about.as_ref()))
            .collect();
        let total = jobs.iter().map(|job| job.most).sum();
        let longest = jobs.iter().map(|job| job.most).max().unwrap_or(0);
        let piece =
            READ_BYTES.min(usize::try_from(longest).unwrap_or(READ_BYTES)).max(1).next_multiple_of(ALIGN);
        let (done, seen) = (AtomicU64::new(0), Mutex::new(HashMap::new()));
        let (done, seen_by_all, jobs) = (&done, &seen, &jobs);
        std::thread::scope(|scope| -> io::Result<()> {
            for disk in 0..self.disks.len() {
                if !jobs.iter().any(|job| job.entry.disk == disk) {
                    continue;
                }
                let buffers = read_buffers(1, piece)?;
                std::thread::Builder::new().spawn_scoped(scope, move || {
                    for job in jobs.iter().filter(|job| job.entry.disk == disk) {
                        let progress = |_, length: usize| {
                            let sum = done.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
                            if let Some(progress) = options.progress {
                                progress(sum, total);
                            }
                        };
                        let frames = job.frames(options.frames);
                        let seen = read_file(&job.entry.path, job.most, frames, || buffers.take(), progress);
                        let mut all = seen_by_all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        all.insert(job.entry.path.clone(), seen);
                    }
                })?;
            }
            Ok(())
        })?;
        Ok(seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// What is amiss by names, lengths and indexes alone.
pub(super) fn at_a_glance(recording: &Recording) -> Vec<Finding> {
    let mut findings = Findings::from(&recording.findings[..]);
    for stream in &recording.datastreams {
        for copy in stream.copies.iter().filter(|copy| copy.bytes.is_some() && copy.record.is_none()) {
            let text = format!("a second file has the number of chunk {}", copy.number);
            findings.add(Verdict::Unproven, Some(&copy.path), text);
        }
        for step in plan::steps(recording, stream, 0) {
            match step {
                Step::Gap(gap) if gap.lack == Lack::OpenEnd => {}
                Step::Gap(gap) => findings.add(verdict_of(recording, gap.lack), None, gap.to_string()),
                Step::Foreign(entry) => findings.add(Verdict::Unproven, Some(&entry.path), plan::FOREIGN),
                Step::Chunk { entry, .. } => {
                    let Some(record) = entry.record.as_ref().filter(|r| entry.bytes != Some(r.bytes)) else {
                        continue;
                    };
                    let text = match entry.bytes {
                        None => "the index promises it, but it is not there".to_owned(),
                        Some(bytes) => {
                            format!("it has {bytes} bytes, its index record says {}", record.bytes)
                        }
                    };
                    findings.add(Verdict::Damaged, Some(&entry.path), text);
                }
            }
        }
    }
    findings.all
}

/// How bad a gap is.
fn verdict_of(recording: &Recording, lack: Lack) -> Verdict {
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
        | Lack::Ambiguous => Verdict::Unproven,
    }
}

/// A file to read.
struct Job<'a> {
    entry: &'a ChunkEntry,
    /// How much of it.
    most: u64,
    about: Option<&'a Datastream>,
}

impl Job<'_> {
    fn frames(&self, frames: Option<&Frames<'_>>) -> Option<FrameCutter> {
        let about = self.about?;
        match frames.and_then(|frames| frames(about)) {
            Some(reader) => Some(FrameCutter::new(about.info.unit_bytes, reader)),
            // Its frames are all that can prove it.
            None if self.entry.record.is_none() => cutter(Some(about)),
            None => None,
        }
    }
}

fn jobs<'a>(stream: &'a DatastreamEntry, about: Option<&'a Datastream>) -> impl Iterator<Item = Job<'a>> {
    stream.chunks.values().chain(&stream.copies).filter_map(move |entry| {
        let length = entry.bytes?;
        let counted = stream.chunks.get(&entry.number).and_then(|chunk| chunk.record.as_ref());
        let most = entry.record.as_ref().or(counted).map_or(MOST_UNRECORDED, |record| record.bytes);
        Some(Job { entry, most: most.min(length), about })
    })
}

/// The check of one datastream.
struct StreamCheck<'a> {
    recording: &'a Recording,
    stream: &'a DatastreamEntry,
    about: Option<&'a Datastream>,
    seen: &'a HashMap<PathBuf, Seen>,
    search: &'a mut Search,
    findings: &'a mut Findings,
    sum: DatastreamCheck,
    /// When the chunk before ended.
    before: Option<Time>,
}

impl StreamCheck<'_> {
    fn run(mut self) -> DatastreamCheck {
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
        for copy in &self.stream.copies {
            self.copy(copy);
        }
        for path in &self.stream.partial {
            let text = "it was being written when the recorder died (safe to remove)";
            let verdict = if self.recording.state == State::Live { Verdict::Whole } else { Verdict::Holes };
            self.findings.add(verdict, Some(path), text);
        }
        self.sum
    }

    fn gap(&mut self, gap: &Gap) {
        let (first, end) = gap.chunks;
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
        let seen = self.seen.get(&chunk.path).unwrap_or(&nothing);
        let path = Some(&chunk.path);
        self.sum.chunks += u64::from(chunk.bytes.is_some());
        self.sum.frames_seen += seen.frames;
        self.sum.illegal_frames += seen.illegal;
        self.sum.filled_frames += seen.filled;
        if let Some(why) = seen.illegal_why {
            self.findings.add(
                Verdict::Damaged,
                path,
                format!("{} frames are not legal: {why}", seen.illegal),
            );
        }
        let meta = chunk.record.as_ref().map(|record| &record.meta);
        let first = meta.and_then(|meta| meta.first_time).or(seen.first_time);
        match &chunk.record {
            Some(_) => self.recorded(chunk, seen),
            None => {
                self.sum.unacknowledged.push(chunk.number);
                let text = match seen.proven_by_frames(self.before, upto) {
                    _ if self.recording.state == State::Live => "not yet acknowledged".to_owned(),
                    Ok(()) => {
                        "no index knows it; its frame headers prove its place, nothing its samples".to_owned()
                    }
                    Err(why) => format!("no index knows it, and {why}"),
                };
                self.findings.add(Verdict::Unproven, path, text);
            }
        }
        self.time(chunk, first);
        self.before = meta.and_then(|meta| meta.last_time).or(seen.last_time);
    }

    /// A chunk with a record: is it what was promised?
    fn recorded(&mut self, chunk: &ChunkEntry, seen: &Seen) {
        let Some(record) = &chunk.record else { return };
        let path = Some(&chunk.path);
        self.sum.units += u64::from(record.meta.units);
        let missing = record.meta.missing_units();
        self.sum.missing_units += missing;
        let proof = match chunk.bytes {
            None => Err("the index promises it, but it is not there".to_owned()),
            Some(_) => seen.proves(record),
        };
        match proof {
            Ok(()) => {
                self.sum.proven += 1;
                if chunk.moved {
                    self.findings.add(Verdict::Holes, path, "its record is in the index of another disk");
                }
                if seen.bytes > record.bytes {
                    let text = format!("{} bytes follow the end of the chunk", seen.bytes - record.bytes);
                    self.findings.add(Verdict::Damaged, path, text);
                }
            }
            Err(why) => {
                match self.search.find(record, self.about, chunk.bytes.is_some().then_some(&chunk.path)) {
                    Some(other) => {
                        self.sum.proven += 1;
                        let text = format!("{why}; what was recorded lies in {}", other.display());
                        self.findings.add(Verdict::Damaged, path, text);
                    }
                    None => {
                        self.sum.damaged.push(chunk.number);
                        self.findings.add(Verdict::Damaged, path, why);
                    }
                }
            }
        }
        if missing > 0 {
            let text = format!("{missing} of {} units never arrived", record.meta.units);
            self.findings.add(Verdict::Holes, path, text);
        }
        if seen.frames > 0 && seen.filled < missing {
            let text = format!("{missing} units are missing, but only {} are marked as invalid", seen.filled);
            self.findings.add(Verdict::Damaged, path, text);
        }
    }

    /// Does the time go on from the chunk before?
    fn time(&mut self, chunk: &ChunkEntry, first: Option<Time>) {
        let rate = self.about.and_then(|about| about.info.frames_per_second);
        let (Some(rate), Some(before), Some(first)) = (rate, self.before, first) else { return };
        let step = steps_between(before, first, rate);
        // A chunk may begin within the frame number that the one before ended in, where threads share it.
        if (0..=1).contains(&step) {
            return;
        }
        self.sum.time_breaks += 1;
        let text = if step > 1 {
            let between = u64::try_from(step - 1).unwrap_or(u64::MAX);
            self.sum.missing_between = self.sum.missing_between.saturating_add(between);
            format!("{} frame numbers before it are in no chunk", step - 1)
        } else {
            format!("its time is {} frames before the end of the chunk before it", -step)
        };
        self.findings.add(Verdict::Holes, Some(&chunk.path), text);
    }

    /// What a further file or record of a number means.
    fn copy(&mut self, copy: &ChunkEntry) {
        self.sum.copies += 1;
        let number = copy.number;
        let counted = self.stream.chunks.get(&number);
        let promised = counted.and_then(|chunk| chunk.record.as_ref());
        let differs = copy
            .record
            .as_ref()
            .zip(promised)
            .is_some_and(|(a, b)| (a.bytes, a.crc32c) != (b.bytes, b.crc32c));
        let seen = self.seen.get(&copy.path);
        let same = match (promised, counted.and_then(|chunk| self.seen.get(&chunk.path))) {
            (Some(record), _) => {
                seen.is_some_and(|seen| seen.proves(record).is_ok() && seen.bytes == record.bytes)
            }
            (None, Some(other)) => seen.is_some_and(|s| (s.bytes, s.crc32c) == (other.bytes, other.crc32c)),
            (None, None) => false,
        };
        let (verdict, text) = match (copy.bytes, same) {
            _ if differs => {
                (Verdict::Damaged, format!("the index of another disk says otherwise of chunk {number}"))
            }
            (None, _) => {
                (Verdict::Whole, "recorded again on another disk, because this one failed".to_owned())
            }
            (Some(_), true) if copy.record.is_some() => {
                (Verdict::Holes, format!("chunk {number} is on another disk, too: both were acknowledged"))
            }
            (Some(_), true) => (
                Verdict::Unproven,
                format!(
                    "a copy of chunk {number}, which is on another disk: concatenated by name it would be read twice"
                ),
            ),
            (Some(_), false) => (
                Verdict::Unproven,
                format!("it has the number of chunk {number}, and other bytes: it is not used"),
            ),
        };
        self.findings.add(verdict, Some(&copy.path), text);
    }
}
