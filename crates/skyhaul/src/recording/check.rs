//! Proving a recording: every byte against the index, every chunk against its neighbours.
//!
//! The disks are read side by side, each by one thread. What is found is sorted by what it means:
//!
//! | verdict | means | exit code |
//! |---|---|---|
//! | `whole` | every chunk proven, nothing missing | 0 |
//! | `holes` | every chunk proven; data that never arrived are marked as missing | 0 |
//! | `unproven` | files that no index knows, or disks that were not given | 1 |
//! | `damaged` | a chunk that the index promised is gone or has other bytes, or was lost in recording | 1 |

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use skyhaul_io::disk::read_buffers;

use super::index::Tally;
use super::open::{ChunkEntry, DatastreamEntry, Recording, State};
use super::prove::{FrameCutter, FrameReader, READ_BYTES, Seen, read_chunk};
use super::record::Datastream;

/// Findings that are kept; more are counted only.
const MOST_FINDINGS: usize = 1000;

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

/// What a check says in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every chunk proven, nothing missing.
    Whole,
    /// Every chunk proven; what never arrived is marked as missing.
    Holes,
    /// Something cannot be proven: no record, or a disk is not there.
    Unproven,
    /// Something that was recorded is gone or has changed, or was lost in recording.
    Damaged,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub verdict: Verdict,
    /// The file it is about, if it is about one.
    pub path: Option<PathBuf>,
    /// What it is.
    pub text: String,
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
    /// Ranges of numbers (first, one past the last) of which there is nothing at all.
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
        let seen = self.read_all(options)?;
        let mut findings = Findings::default();
        self.check_indexes(&mut findings);
        let mut datastreams = Vec::new();
        for (index, stream) in self.datastreams.iter().enumerate() {
            datastreams.push(self.check_stream(stream, index, &seen, &mut findings));
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
            bytes: seen.values().map(|seen| seen.bytes).sum(),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn read_all(&self, options: &CheckOptions<'_>) -> io::Result<BTreeMap<(usize, u32), Seen>> {
        let chunks = |disk: usize| {
            let streams = self.datastreams.iter().enumerate();
            streams.flat_map(move |(index, stream)| {
                let there = move |chunk: &&ChunkEntry| chunk.disk == disk && chunk.bytes.is_some();
                stream.chunks.values().filter(there).map(move |chunk| (index, stream, chunk))
            })
        };
        let total = self.datastreams.iter().map(DatastreamEntry::bytes).sum();
        let (done, seen) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
        let (done, seen_by_all) = (&done, &seen);
        std::thread::scope(|scope| -> io::Result<()> {
            for disk in 0..self.disks.len() {
                let buffers = read_buffers(1, READ_BYTES)?;
                std::thread::Builder::new().spawn_scoped(scope, move || {
                    for (index, stream, chunk) in chunks(disk) {
                        let Some(block) = buffers.take() else { return };
                        let progress = |bytes| {
                            let sum = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                            if let Some(progress) = options.progress {
                                progress(sum, total);
                            }
                        };
                        let frames = stream.datastream.as_ref().and_then(|about| {
                            let reader = options.frames?(about)?;
                            Some(FrameCutter::new(about.info.unit_bytes, reader))
                        });
                        let seen = read_chunk(chunk, block, frames, progress);
                        let mut all = seen_by_all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        all.insert((index, chunk.number), seen);
                    }
                })?;
            }
            Ok(())
        })?;
        Ok(seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn check_indexes(&self, findings: &mut Findings) {
        for (path, tally) in &self.indexes {
            if tally.garbage > 0 {
                let text = format!("{} lines do not have their checksum", tally.garbage);
                findings.add(Verdict::Unproven, Some(path), text);
            }
            if tally.torn_bytes > 0 && self.state != State::Live {
                let text = format!("its last {} bytes are a torn line", tally.torn_bytes);
                findings.add(Verdict::Holes, Some(path), text);
            }
        }
        for path in &self.missing_disks {
            findings.add(Verdict::Unproven, Some(path), "this disk of the session is not here".to_owned());
        }
    }

    fn check_stream(
        &self,
        stream: &DatastreamEntry,
        index: usize,
        seen: &BTreeMap<(usize, u32), Seen>,
        findings: &mut Findings,
    ) -> DatastreamCheck {
        let mut sum =
            DatastreamCheck { name: stream.name.clone(), bytes: stream.bytes(), ..Default::default() };
        let mut before: Option<(i64, u32)> = None;
        let nothing = Seen::default();
        for chunk in stream.chunks.values() {
            let seen = seen.get(&(index, chunk.number)).unwrap_or(&nothing);
            check_chunk(chunk, seen, self.state, &mut sum, findings);
            let meta = chunk.record.as_ref().map(|record| &record.meta);
            let first = meta.and_then(|meta| meta.first_time).or(seen.first_time);
            check_time(stream, chunk, before, first, &mut sum, findings);
            before = meta.and_then(|meta| meta.last_time).or(seen.last_time);
        }
        self.check_absent(stream, &mut sum, findings);
        for copy in &stream.copies {
            sum.copies += 1;
            let (verdict, text) = judge_copy(copy, stream.chunks.get(&copy.number));
            findings.add(verdict, Some(&copy.path), text.to_owned());
        }
        for path in &stream.partial {
            let text = "it was being written when the recorder died (safe to remove)".to_owned();
            let verdict = if self.state == State::Live { Verdict::Whole } else { Verdict::Holes };
            findings.add(verdict, Some(path), text);
        }
        sum
    }

    /// Chunks of which there is no file.
    fn check_absent(&self, stream: &DatastreamEntry, sum: &mut DatastreamCheck, findings: &mut Findings) {
        for (number, lost) in &stream.lost {
            sum.lost.push(*number);
            let text = format!("{}.{number:08} was lost in recording: {}", stream.name, lost.reason);
            findings.add(Verdict::Damaged, None, text);
        }
        // A disk that is not here explains what is missing; a killed recorder may have numbered chunks that it
        // never could acknowledge. Otherwise somebody took them away.
        let explained = !self.missing_disks.is_empty() || self.state != State::Ended;
        let verdict = if explained { Verdict::Unproven } else { Verdict::Damaged };
        for gap in stream.gaps() {
            if gap.len() > stream.lost.range(gap.clone()).count() {
                sum.gaps.push((gap.start, gap.end));
                let text = format!("{}: nothing of chunks {} to {}", stream.name, gap.start, gap.end - 1);
                findings.add(verdict, None, text);
            }
        }
        let reports = self.report.iter().flat_map(|report| &report.datastreams);
        if let Some(report) = reports.into_iter().find(|report| report.name == stream.name) {
            let found = stream.chunks.values().filter(|chunk| chunk.record.is_some()).count() as u64;
            if found < report.acknowledged {
                let text = format!(
                    "{}: {} of {} acknowledged chunks are not here",
                    stream.name,
                    report.acknowledged - found,
                    report.acknowledged
                );
                findings.add(verdict, None, text);
            }
            for number in &report.unacknowledged {
                let text = format!("{}.{number:08} was still under way when the recorder ended", stream.name);
                findings.add(Verdict::Damaged, None, text);
            }
        }
    }
}

#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
    total: u64,
    worst: Option<Verdict>,
}

impl Findings {
    fn add(&mut self, verdict: Verdict, path: Option<&PathBuf>, text: String) {
        self.worst = self.worst.max(Some(verdict));
        self.total += 1;
        if self.all.len() < MOST_FINDINGS {
            self.all.push(Finding { verdict, path: path.cloned(), text });
        }
    }
}

/// What a further file or record of a number means.
fn judge_copy(copy: &ChunkEntry, counted: Option<&ChunkEntry>) -> (Verdict, &'static str) {
    let sum = |chunk: &ChunkEntry| chunk.record.as_ref().map(|record| (record.bytes, record.crc32c));
    match (counted.and_then(sum), sum(copy)) {
        (Some(a), Some(b)) if a != b => (Verdict::Damaged, "another disk has other bytes under its number"),
        _ if copy.bytes.is_none() => {
            (Verdict::Whole, "recorded again on another disk, because this one failed")
        }
        _ if counted.is_some_and(|chunk| chunk.bytes == copy.bytes) => {
            (Verdict::Whole, "another disk has it, too")
        }
        _ => (Verdict::Unproven, "another disk has its number, and another length"),
    }
}

fn check_chunk(
    chunk: &ChunkEntry,
    seen: &Seen,
    state: State,
    sum: &mut DatastreamCheck,
    findings: &mut Findings,
) {
    sum.chunks += u64::from(chunk.bytes.is_some());
    sum.frames_seen += seen.frames;
    sum.illegal_frames += seen.illegal;
    sum.filled_frames += seen.filled;
    let path = Some(&chunk.path);
    if let Some(why) = seen.illegal_why {
        findings.add(Verdict::Damaged, path, format!("{} frames are not legal: {why}", seen.illegal));
    }
    let Some(record) = &chunk.record else {
        sum.unacknowledged.push(chunk.number);
        let live = if state == State::Live { "not yet acknowledged" } else { "no index knows it" };
        findings.add(Verdict::Unproven, path, live.to_owned());
        return;
    };
    sum.units += u64::from(record.meta.units);
    let missing = record.meta.missing_units();
    sum.missing_units += missing;
    let wrong = if chunk.bytes.is_none() {
        Some("the index promises it, but it is not there".to_owned())
    } else if let Some(error) = &seen.error {
        Some(format!("it cannot be read: {error}"))
    } else if seen.bytes != record.bytes {
        Some(format!("it has {} bytes, its index record says {}", seen.bytes, record.bytes))
    } else if seen.crc32c != record.crc32c {
        Some(format!("its CRC-32C is {:08x}, its index record says {:08x}", seen.crc32c, record.crc32c))
    } else {
        None
    };
    match wrong {
        Some(text) => {
            sum.damaged.push(chunk.number);
            findings.add(Verdict::Damaged, path, text);
        }
        None => sum.proven += 1,
    }
    if missing > 0 {
        findings.add(Verdict::Holes, path, format!("{missing} of {} units never arrived", record.meta.units));
    }
    if seen.frames > 0 && seen.filled < missing {
        let text = format!("{missing} units are missing, but only {} are marked as invalid", seen.filled);
        findings.add(Verdict::Damaged, path, text);
    }
}

/// Does the time go on from the chunk before?
fn check_time(
    stream: &DatastreamEntry,
    chunk: &ChunkEntry,
    before: Option<(i64, u32)>,
    first: Option<(i64, u32)>,
    sum: &mut DatastreamCheck,
    findings: &mut Findings,
) {
    let rate = stream.datastream.as_ref().and_then(|stream| stream.info.frames_per_second);
    let (Some(rate), Some(before), Some(first)) = (rate, before, first) else { return };
    let count = |(second, frame): (i64, u32)| i128::from(second) * i128::from(rate) + i128::from(frame);
    let step = count(first) - count(before);
    // A chunk may begin within the frame number that the one before ended in, where threads share it.
    if (0..=1).contains(&step) {
        return;
    }
    sum.time_breaks += 1;
    let text = if step > 1 {
        sum.missing_between += u64::try_from(step - 1).unwrap_or(u64::MAX);
        format!("{} frame numbers before it are in no chunk", step - 1)
    } else {
        format!("its time is {} frames before the end of the chunk before it", -step)
    };
    findings.add(Verdict::Holes, Some(&chunk.path), text);
}
