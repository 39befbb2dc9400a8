//! Verifies a recording: every byte against the index, every chunk against its neighbours.
//!
//! The disks are read in parallel, each by one thread; then the plan of every reader is followed. Findings have these
//! verdicts:
//!
//! | verdict | meaning | exit code |
//! |---|---|---|
//! | `whole` | every chunk verified, nothing missing | 0 |
//! | `holes` | every chunk verified; data that never arrived are marked as missing | 0 |
//! | `irregular` | every chunk verified; times, threads, stations or frame rates in it are not those of a regular stream | 1 |
//! | `unproven` | files that are in no index, no known end, or disks that were not given | 1 |
//! | `damaged` | a chunk in the index is missing or has other contents, or was lost during the recording | 1 |
//!
//! Single chunks are verified in any order by a [`Prover`]. It searches other files for the bytes of a chunk whose own file is
//! wrong: a chunk may have been moved or renamed, and its record identifies it by length and CRC-32C.

pub(super) mod count;
pub(super) mod file;
pub(super) mod judge;
pub(super) mod repair;

use super::contents::{ChunkEntry, DatastreamEntry, Finding, Findings, Gap, Lack, State, Time, Verdict};
use super::index::Tally;
use super::index::record::{ChunkRecord, Datastream};
use super::open::Recording;
use super::plan::Step;
use super::read::fill::MAX_UNRECORDED_BYTES;
use super::{Event, plan};
use crate::frames::{FrameReader, FramesOf};
use crate::ledger::FrameLedger;
use count::{Count, Times};
use file::{Cutter, READ_BYTES, Seen, checksum, read_file};
use judge::{DatastreamCheck, StreamCheck, verdict_of};
use serde::{Deserialize, Serialize};
use skyhaul_io::disk::{open_regular, read_buffers};
use skyhaul_io::lock::lock;
use skyhaul_io::memory::ALIGN;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Makes a reader for a datastream's frames, if its format is known.
pub type Frames<'a> = dyn Fn(&Datastream) -> Option<Box<dyn FrameReader>> + Sync + 'a;

/// Options of a check.
#[derive(Default)]
pub struct CheckOptions<'a> {
    /// Inspects the frames; without it only bytes and records are checked. Packets of heaps need no reader, and are
    /// inspected if there is one for frames.
    pub frames: Option<&'a Frames<'a>>,
    /// Whether the payload of such packets must be the pattern.
    pub verify: bool,
    /// Called repeatedly with bytes read and total bytes.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync + 'a)>,
}

/// Results of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The scan's label.
    pub scan: String,
    /// State of its recorder.
    pub state: State,
    /// The overall verdict.
    pub verdict: Verdict,
    /// Each datastream.
    pub datastreams: Vec<DatastreamCheck>,
    /// The fate of all frames: the sum over the datastreams, except those of heaps and events.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Sums that do not hold, as text: the index and the recorder's account contradict each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbalanced: Vec<String>,
    /// The findings, worst first (the first 1000).
    pub findings: Vec<Finding>,
    /// Total number of findings.
    pub findings_total: u64,
    /// Each index, and how much of it could be read.
    pub indexes: Vec<(PathBuf, Tally)>,
    /// Disks of the session that were not given.
    pub missing_disks: Vec<PathBuf>,
    /// Events noted by the recorder.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Bytes read.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

impl CheckReport {
    /// The exit code of the tool.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.verdict > Verdict::Holes)
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datastreams.iter().all(DatastreamCheck::is_empty)
    }
}

impl Recording {
    /// Read everything and compare it with the index.
    ///
    /// # Errors
    /// If there is no memory or thread to read with. Faults of the recording are in the report.
    pub fn check(&self, options: &CheckOptions<'_>) -> io::Result<CheckReport> {
        let begun = Instant::now();
        let abouts: Vec<_> = (0..self.datastreams.len()).map(|index| self.about(index)).collect();
        let seen = self.read_all(options, &abouts)?;
        let mut findings = Findings::from(&self.findings[..]);
        let mut search = Search::new(self);
        for ((path, _), seen) in seen.iter().filter(|((_, offset), _)| *offset == 0) {
            if seen.error.is_none() && seen.read == seen.bytes {
                search.learn(path, seen.crc32c);
            }
        }
        let (mut datastreams, mut unbalanced) = (Vec::new(), Vec::new());
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
                    format: about
                        .as_ref()
                        .and_then(|about| Some(about.info.format.get("format")?.as_str()?.to_owned())),
                    ..Default::default()
                },
                count: Count::new(stream, about.as_ref()),
                unbalanced: &mut unbalanced,
                before: None,
                times: Times::of(about.as_ref(), self.state != State::Unindexed),
                unknown: None,
            };
            datastreams.push(check.run());
        }
        if self.state != State::Live && datastreams.iter().all(DatastreamCheck::is_empty) {
            findings.add(Verdict::Unproven, None, NOTHING_RECORDED);
        }
        let of_frames = datastreams.iter().filter(|stream| stream.heaps.is_none());
        // Worst first, and findings about several files before those about one.
        findings.all.sort_by_key(|finding| (std::cmp::Reverse(finding.verdict), finding.path.is_some()));
        Ok(CheckReport {
            scan: self.label.to_string(),
            state: self.state,
            verdict: findings.worst.unwrap_or(Verdict::Whole),
            ledger: of_frames.map(|stream| &stream.ledger).sum(),
            unbalanced,
            datastreams,
            findings: findings.all,
            findings_total: findings.total,
            indexes: self.indexes.clone(),
            missing_disks: self.missing_disks.clone(),
            events: self.events.clone(),
            bytes: seen.values().map(|seen| seen.read).sum(),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn read_all(
        &self,
        options: &CheckOptions<'_>,
        abouts: &[Option<Datastream>],
    ) -> io::Result<HashMap<(PathBuf, u64), Seen>> {
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
                        let cutter = job.cutter(options);
                        let place = (&*job.entry.path, job.entry.offset);
                        let seen = read_file(place, job.most, cutter, || buffers.take(), progress);
                        let mut all = lock(&seen_by_all);
                        all.insert(job.entry.place(), seen);
                    }
                })?;
            }
            Ok(())
        })?;
        Ok(seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// The finding about a scan without data.
const NOTHING_RECORDED: &str = "nothing was recorded";

/// Problems found from names, lengths and indexes, without reading data.
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
                        None => "it is in the index, but missing".to_owned(),
                        Some(bytes) => {
                            format!("it has {bytes} bytes, but its index record says {}", record.bytes)
                        }
                    };
                    findings.add(Verdict::Damaged, Some(&entry.path), text);
                }
            }
        }
    }
    let is_empty = |stream: &DatastreamEntry| {
        let given = stream.account.as_ref().map_or(0, |account| account.submitted);
        stream.chunks.is_empty() && stream.lost.is_empty() && given == 0
    };
    if recording.state != State::Live && recording.datastreams.iter().all(is_empty) {
        findings.add(Verdict::Unproven, None, NOTHING_RECORDED);
    }
    findings.all
}

/// A file to read.
struct Job<'a> {
    entry: &'a ChunkEntry,
    /// How much of it.
    most: u64,
    about: Option<&'a Datastream>,
}

impl Job<'_> {
    fn cutter(&self, options: &CheckOptions<'_>) -> Option<Cutter> {
        let about = self.about?;
        // Without a record, only its frames can verify it.
        let looks = options.frames.is_some() || self.entry.record.is_none();
        let reader = || options.frames.and_then(|frames| frames(about));
        match Cutter::of(self.about, options.verify).filter(|_| looks) {
            Some(Cutter::Frames(own)) => {
                Some(reader().map_or(Cutter::Frames(own), |reader| Cutter::frames(about, reader)))
            }
            Some(packets) => Some(packets),
            None => reader().map(|reader| Cutter::frames(about, reader)),
        }
    }
}

fn jobs<'a>(stream: &'a DatastreamEntry, about: Option<&'a Datastream>) -> impl Iterator<Item = Job<'a>> {
    stream.chunks.values().chain(&stream.copies).filter_map(move |entry| {
        let length = entry.bytes?;
        let counted = stream.chunks.get(&entry.number).and_then(|chunk| chunk.record.as_ref());
        let most = entry.record.as_ref().or(counted).map_or(MAX_UNRECORDED_BYTES, |record| record.bytes);
        Some(Job { entry, most: most.min(length), about })
    })
}

/// The chunks of a datastream by its index, not verified, and the known gaps.
#[must_use]
pub fn unverified_chunks(recording: &Recording, datastream: usize) -> (Vec<ChunkEntry>, Vec<Gap>) {
    let Some(stream) = recording.datastreams.get(datastream) else { return Default::default() };
    let (mut chunks, mut gaps) = (Vec::new(), Vec::new());
    for step in plan::steps(recording, stream, 0) {
        match step {
            Step::Chunk { entry, .. } => chunks.push(*entry),
            Step::Gap(gap) => gaps.push(gap),
            Step::Foreign(_) => {}
        }
    }
    (chunks, gaps)
}

/// Verifies chunks of a datastream.
#[derive(Debug)]
pub struct Prover {
    name: String,
    about: Option<Datastream>,
    unindexed: bool,
    /// To search all files, should a chunk not be where it belongs.
    disks: Vec<PathBuf>,
    scan: String,
    search: Mutex<Option<Search>>,
}

impl Prover {
    /// For the chunks of this datastream.
    #[must_use]
    pub fn new(recording: &Recording, datastream: usize) -> Self {
        let name = recording.datastreams.get(datastream).map(|stream| stream.name.clone());
        Self {
            name: name.unwrap_or_default(),
            about: recording.about(datastream),
            unindexed: recording.state == State::Unindexed,
            disks: recording.disks.clone(),
            scan: recording.label.to_string(),
            search: Mutex::default(),
        }
    }

    /// The name of the datastream.
    pub(in crate::recording) fn name(&self) -> &str {
        &self.name
    }

    /// The file that holds the bytes of this chunk's record, under its own name or another one. A chunk without a record
    /// cannot be verified: its file is returned, with a gap that says so, unless the whole recording has no index.
    ///
    /// # Errors
    /// The gap: no file holds these bytes.
    pub fn prove(&self, entry: &ChunkEntry) -> Result<(PathBuf, Option<Gap>), Box<Gap>> {
        let chunks = entry.number..entry.number + 1;
        let Some(record) = &entry.record else {
            let why = "it has no index record: its frame headers are checked, its samples are not verified";
            let gap = || Gap::new(&self.name, chunks, Lack::HeadersOnly, why);
            return Ok((entry.path.clone(), (!self.unindexed).then(gap)));
        };
        let why = match &entry.bytes {
            None => "its file is missing".to_owned(),
            Some(bytes) if *bytes < record.bytes => {
                format!("it has {bytes} bytes, but its index record says {}", record.bytes)
            }
            Some(_) => match checksum(&entry.path, record.bytes) {
                Ok(crc) if crc == record.crc32c => return Ok((entry.path.clone(), None)),
                Ok(crc) => {
                    format!("its CRC-32C is {crc:08x}, but its index record says {:08x}", record.crc32c)
                }
                Err(error) => format!("it cannot be read: {error}"),
            },
        };
        if let Some(path) = self.find_elsewhere(entry) {
            return Ok((path, None));
        }
        let gap = Gap::new(&self.name, chunks, Lack::Damaged, format!("damaged: {why}"));
        let (from, to) = (record.meta.first_time, record.meta.last_time);
        Err(Box::new(Gap { from, to, bytes: Some(record.bytes), ..gap }))
    }

    /// Another file than its own that has the bytes of a chunk's record.
    pub(in crate::recording) fn find_elsewhere(&self, entry: &ChunkEntry) -> Option<PathBuf> {
        self.elsewhere(entry.record.as_ref()?, entry.bytes.is_some().then_some(entry.path.as_path()))
    }

    /// Its bytes under another name.
    fn elsewhere(
        &self,
        record: &crate::recording::index::record::ChunkRecord,
        own: Option<&Path>,
    ) -> Option<PathBuf> {
        let mut search = lock(&self.search);
        if search.is_none() {
            *search = Some(Search::new(&Recording::open(self.disks.clone(), &self.scan).ok()?));
        }
        search.as_mut()?.find(record, self.about.as_ref(), own)
    }
}

/// Searches all files in the scan's directories for the bytes of a record.
///
/// Each file is read at most once for this. If frames give the time, only files that begin at the record's time are read.
#[derive(Debug, Default)]
pub(in crate::recording) struct Search {
    /// Candidate files, by length.
    files: HashMap<u64, Vec<PathBuf>>,
    known: HashMap<PathBuf, u32>,
}

impl Search {
    pub(in crate::recording) fn new(recording: &Recording) -> Search {
        let mut search = Search::default();
        let mut add = |bytes: u64, path: &PathBuf| search.files.entry(bytes).or_default().push(path.clone());
        recording.others.iter().for_each(|file| add(file.bytes, &file.path));
        for stream in &recording.datastreams {
            for chunk in stream.copies.iter().chain(stream.chunks.values()) {
                if let Some(bytes) = chunk.bytes.filter(|_| chunk.offset == 0) {
                    add(bytes, &chunk.path);
                }
            }
        }
        search
    }

    /// Its checksum is known already.
    pub(in crate::recording) fn learn(&mut self, path: &Path, crc32c: u32) {
        self.known.insert(path.to_owned(), crc32c);
    }

    /// A file with the bytes of `record`, other than `but`.
    pub(in crate::recording) fn find(
        &mut self,
        record: &ChunkRecord,
        about: Option<&Datastream>,
        but: Option<&Path>,
    ) -> Option<PathBuf> {
        let files = self.files.get(&record.bytes)?;
        let frames = about.and_then(|about| FramesOf::datastream(about, false));
        let unit = about.map_or(0, |about| about.info.unit_bytes as usize);
        for path in files.iter().filter(|path| Some(path.as_path()) != but) {
            let crc = match self.known.get(path) {
                Some(&crc) => crc,
                None if !begins_at(path, record.meta.first_time, frames.as_ref(), unit) => continue,
                None => {
                    let Ok(crc) = checksum(path, record.bytes) else { continue };
                    self.known.insert(path.clone(), crc);
                    crc
                }
            };
            if crc == record.crc32c {
                return Some(path.clone());
            }
        }
        None
    }
}

/// Whether the first frame of a file may have this time.
fn begins_at(path: &Path, time: Option<Time>, frames: Option<&FramesOf>, unit: usize) -> bool {
    let (Some(time), Some(frames)) = (time, frames) else { return true };
    if unit > READ_BYTES {
        return true;
    }
    let mut frame = vec![0; unit];
    let read =
        open_regular(path).and_then(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut frame, 0));
    read.is_ok() && frames.see(&frame).time.is_none_or(|found| found == time)
}
