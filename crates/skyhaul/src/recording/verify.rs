//! Verifies a recording: every byte against the index, every chunk against its neighbours.
//!
//! The disks are read in parallel, each by one thread; then the plan of every reader is followed. Findings have these
//! verdicts:
//!
//! | verdict | meaning | exit code |
//! |---|---|---|
//! | `whole` | every chunk verified, nothing missing | 0 |
//! | `holes` | every chunk verified; data that never arrived are marked as missing | 0 |
//! | `fewer_copies` | every chunk verified; not every one has as many copies as were asked for | 1 |
//! | `irregular` | every chunk verified; times, threads, stations or frame rates in it are not those of a regular stream | 1 |
//! | `unproven` | files that are in no index, no known end, or disks that were not given | 1 |
//! | `damaged` | a chunk in the index is missing or has other contents, or was lost during the recording | 1 |

pub(super) mod adopt;
pub(super) mod adopt_stream;
mod copies;
pub(super) mod count;
pub(super) mod file;
pub(super) mod judge;
pub(super) mod repair;

use crate::frames::FrameReader;
use crate::irregular::FRAME_RATE;
use crate::ledger::FrameLedger;
use crate::recording::contents::{ChunkEntry, DatastreamEntry, Finding, Findings, Lack, State, Verdict};
use crate::recording::copies::CopyCounts;
use crate::recording::copy_entries::{ChunkCopies, by_number};
use crate::recording::index::Tally;
use crate::recording::index::record::Datastream;
use crate::recording::open::Recording;
use crate::recording::plan::{self, Step};
use crate::recording::read::piece::MAX_UNRECORDED_BYTES;
use crate::recording::report::Event;
use crate::recording::verify::count::{Count, Times};
use crate::recording::verify::file::{Cutter, READ_BYTES, Seen, read_file};
use crate::recording::verify::judge::{DatastreamCheck, StreamCheck, verdict_of};
use crate::recording::verify::repair::Search;
use serde::{Deserialize, Serialize};
use skyhaul_io::disk::read_buffers;
use skyhaul_io::lock::lock;
use skyhaul_io::memory::ALIGN;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
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
        let has_rate = !self.events.iter().any(|event| event.kind == FRAME_RATE);
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
                    redundancy: CopyCounts::of(self.copies()),
                    format: about
                        .as_ref()
                        .and_then(|about| Some(about.info.format.get("format")?.as_str()?.to_owned())),
                    ..Default::default()
                },
                count: Count::new(stream, about.as_ref()),
                unbalanced: &mut unbalanced,
                before: None,
                times: Times::of(about.as_ref(), self.state != State::Unindexed, has_rate),
                unknown: None,
                copies: by_number(stream),
                proven_bytes: 0,
                short: Default::default(),
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
                        let mut all = lock(seen_by_all);
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
        copies_at_a_glance(recording, stream, &mut findings);
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

/// Chunks of a datastream that have fewer copies than were asked for, and copies that are missing or of another length.
fn copies_at_a_glance(recording: &Recording, stream: &DatastreamEntry, findings: &mut Findings) {
    // Of one that is being recorded, copies are under way.
    let counts = CopyCounts::of(recording.copies()).filter(|_| recording.state != State::Live);
    let Some(mut counts) = counts else { return };
    let others = by_number(stream);
    for chunk in stream.chunks.values().filter(|chunk| chunk.is_acknowledged()) {
        let further = others.get(&chunk.number).map_or(&[][..], Vec::as_slice);
        let ChunkCopies { there, wrong } = ChunkCopies::at_a_glance(chunk, further);
        counts.count(chunk.number, chunk.bytes.unwrap_or_default(), there);
        for copy in wrong.into_iter().filter(|_| there < counts.wanted) {
            let text = match copy.bytes {
                None => format!("a copy of chunk {} is in the index, but missing", copy.number),
                Some(bytes) => {
                    format!("a copy of chunk {} has {bytes} bytes, not those of its record", copy.number)
                }
            };
            findings.add(Verdict::FewerCopies, Some(&copy.path), text);
        }
    }
    if counts.chunks_with_fewer_copies > 0 {
        findings.add(Verdict::FewerCopies, None, counts.words(&stream.name));
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
    fn cutter(&self, options: &CheckOptions<'_>) -> Option<Cutter> {
        let about = self.about?;
        // Without a recorder's record, only its frames can verify it, or say what is missing among them.
        let looks =
            options.frames.is_some() || self.entry.record.as_ref().is_none_or(|record| record.adopted);
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
