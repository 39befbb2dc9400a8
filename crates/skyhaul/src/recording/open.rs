//! Opens a scan: compares its indexes with the existing files.
//!
//! Any disk may be missing, and any index torn or absent. A scan without an index is a
//! plain FlexBuff recording: its chunk files are listed, and none of them is acknowledged.
//! [`ls`] lists the scans on disks.

pub(super) mod gather;

use super::contents::{DatastreamEntry, FileEntry, Finding, Lack, State, Verdict};
use super::index::Tally;
use super::index::record::{Datastream, DatastreamInfo, Session};
use super::plan::Step;
use super::verify::count::{Count, Proof};
use super::{Event, FIRST_ADOPTED_NUMBER, Label, LabelError, RecordingReport, chunk_number, mark6, plan};
use crate::ledger::FrameLedger;
use gather::DiskContents;
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use skyhaul_io::file::failed;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Chunk files that are read to find out their format.
const LEARN_FILES: usize = 4;
/// Bytes of each that are read.
const LEARN_BYTES: u64 = 1 << 20;

/// A scan, opened.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its label.
    pub label: Label,
    /// The disks that were searched.
    pub disks: Vec<PathBuf>,
    /// The first record of each session (one, unless the label was used twice).
    pub sessions: Vec<Session>,
    /// Its datastreams, in order of their names.
    pub datastreams: Vec<DatastreamEntry>,
    /// Events noted by the recorder.
    pub events: Vec<Event>,
    /// The recorder's own account, if it ended normally.
    pub report: Option<RecordingReport>,
    /// Each index that was found and how much of it could be read.
    pub indexes: Vec<(PathBuf, Tally)>,
    /// DiskContents of the session that were not given.
    pub missing_disks: Vec<PathBuf>,
    /// State of its recorder.
    pub state: State,
    /// Regular files in its directories that are called neither chunk nor index.
    pub others: Vec<FileEntry>,
    /// Faults found from names, lengths and indexes alone.
    pub findings: Vec<Finding>,
    /// Two recordings have this name: one of them is read.
    pub ambiguous: bool,
    /// For each of `disks`, whether the recorder noted that it failed, was full or hung, so that its chunks went to others.
    pub(super) gave_up: Vec<bool>,
}

/// Why a scan cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The label cannot be a name on disk.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The scan does not exist.
    #[error(
        "no scan {0} on these disks{hint}", hint = Hint("`skyhaul ls` with the same --disk options lists the existing scans"))]
    NotFound(String),
    /// The scan does not exist on the readable disks, and one of the disks cannot be read.
    #[error("no scan {scan}, and {}", error)]
    NoDisk {
        /// The label.
        scan: String,
        /// The fault of the disk, with a hint.
        error: std::io::Error,
    },
}

impl Recording {
    /// Open `scan` on `disks`.
    ///
    /// # Errors
    /// The scan name is invalid, or the scan does not exist.
    pub fn open<P: Into<PathBuf>>(
        disks: impl IntoIterator<Item = P>,
        scan: &str,
    ) -> Result<Recording, OpenError> {
        let label = Label::new(scan)?;
        let disks: Vec<PathBuf> = disks.into_iter().map(Into::into).collect();
        let mut gathered = DiskContents::of(&label, &disks);
        let report = gathered.report();
        let datastreams = gathered.streams(&label, &disks);
        if datastreams.is_empty() && gathered.indexes.is_empty() {
            let unreadable = disks.iter().find_map(|path| Some((path, std::fs::read_dir(path).err()?)));
            let found = gathered.findings.all.iter().find(|_| unreadable.is_none());
            return Err(match (unreadable, found) {
                (Some((path, error)), _) => {
                    OpenError::NoDisk { scan: label.to_string(), error: failed("read disk", path, &error) }
                }
                (None, Some(Finding { path: Some(path), text, .. })) => {
                    let path = path.display();
                    let hint = Hint(format_args!("check its type and permissions: ls -ld {path}"));
                    let error = std::io::Error::other(format!("{path} {text}{hint}"));
                    OpenError::NoDisk { scan: label.to_string(), error }
                }
                _ => OpenError::NotFound(label.to_string()),
            });
        }
        let state = match (&gathered.indexes[..], gathered.live, &report) {
            ([], ..) => State::Unindexed,
            // A recorder that has said its last word may still hold its lock.
            (_, _, Some(_)) => State::Ended,
            (_, true, None) => State::Live,
            (_, false, None) => State::Interrupted,
        };
        gathered.judge_indexes(state);
        let missing_disks = gathered.missing_disks(&disks);
        let (sessions, gave_up) = (gathered.sessions(), gathered.gave_up(&disks, report.as_ref()));
        let DiskContents { events, indexes, others, ambiguous, findings, .. } = gathered;
        let findings = findings.all;
        Ok(Recording {
            label,
            disks,
            sessions,
            datastreams,
            events,
            report,
            indexes,
            missing_disks,
            state,
            others,
            findings,
            ambiguous,
            gave_up,
        })
    }

    /// The description of the datastream with this index in `datastreams`: from its index record or, without one, from the
    /// frames of its first chunk files.
    #[must_use]
    pub fn about(&self, datastream: usize) -> Option<Datastream> {
        let stream = self.datastreams.get(datastream)?;
        if let Some(about) = stream.datastream.as_ref().filter(|about| about.info.unit_bytes > 0) {
            return Some(about.clone());
        }
        let files =
            stream.chunks.values().filter_map(|chunk| Some((&chunk.path, chunk.offset, chunk.bytes?)));
        let info = files.take(LEARN_FILES).find_map(|(path, offset, bytes)| {
            let mut head = vec![0; usize::try_from(bytes.min(LEARN_BYTES)).ok()?];
            let file = skyhaul_io::disk::open_regular(path).ok()?;
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, offset).ok()?;
            crate::frames::learn(&head, bytes)
        });
        // The first one may be shorter than the others.
        let longest = stream.chunks.values().filter_map(|chunk| chunk.bytes).max().unwrap_or(0);
        let units = |info: &DatastreamInfo| {
            let units = longest.checked_div(u64::from(info.unit_bytes)).unwrap_or(0);
            info.units.max(u32::try_from(units).unwrap_or(u32::MAX))
        };
        let info = info.map(|info| DatastreamInfo { units: units(&info), ..info });
        let suffix = stream.name.strip_prefix(self.label.as_str()).unwrap_or_default().to_owned();
        let number = stream.datastream.as_ref().map(|about| about.datastream);
        let datastream = number.unwrap_or(FIRST_ADOPTED_NUMBER + datastream as u32);
        Some(Datastream { datastream, name: stream.name.clone(), info: DatastreamInfo { suffix, ..info? } })
    }
}

/// One scan in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanSummary {
    /// Its label.
    pub scan: String,
    /// State of its recorder.
    pub state: State,
    /// When it began (RFC 3339), if an index says so.
    pub started: Option<String>,
    /// Its datastreams' names.
    pub datastreams: Vec<String>,
    /// Chunks that are there.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Chunks that no index knows.
    pub unacknowledged: u64,
    /// Chunks that the recorder could not write.
    pub lost: u64,
    /// Disks it is on.
    pub disks: Vec<PathBuf>,
    /// Disks of the session that are not among these.
    pub missing_disks: Vec<PathBuf>,
    /// Chunks that are missing, or shorter than recorded.
    pub missing: u64,
    /// The fate of its frames, by names, lengths and indexes; without streams of heaps and events.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Problems found from names, lengths and indexes, one line each.
    pub findings: Vec<Finding>,
}

impl ScanSummary {
    /// Whether no fault is visible in a list; `check` reads every byte.
    #[must_use]
    pub fn looks_whole(&self) -> bool {
        let acknowledged = self.unacknowledged == 0 || self.state != State::Ended;
        self.missing == 0
            && self.lost == 0
            && acknowledged
            && self.findings.iter().all(|finding| finding.verdict <= Verdict::Holes)
    }
}

/// All scans on `disks`, by label. Only names, lengths and indexes are read, no data.
#[must_use]
pub fn ls<P: AsRef<Path>>(disks: &[P]) -> Vec<ScanSummary> {
    let paths: Vec<PathBuf> = disks.iter().map(|disk| disk.as_ref().to_owned()).collect();
    let mut labels: BTreeSet<String> = paths.iter().flat_map(|disk| labels(disk)).collect();
    labels.extend(paths.iter().flat_map(|disk| mark6::scans_on(disk)));
    // A further datastream's directory is part of its scan.
    let is_part = |label: &str| label.rfind("_ds").is_some_and(|at| labels.contains(&label[..at]));
    let whole = labels.iter().filter(|label| !is_part(label));
    whole
        .filter_map(|label| match Recording::open(&paths, label) {
            Ok(recording) => Some(summary(recording)),
            Err(OpenError::NoDisk { error, .. }) => Some(unreadable(label, &error)),
            Err(_) => None,
        })
        .collect()
}

/// Directories of one disk that can be scans: they hold an index or chunk files.
fn labels(disk: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(disk) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| {
            let directory = disk.join(name);
            let Ok(mut files) = std::fs::read_dir(&directory) else {
                // What cannot be looked at may be a scan: opening it says what is wrong.
                let kind = std::fs::symlink_metadata(&directory);
                return name != "lost+found" && kind.is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
            };
            files.any(|file| {
                let file = file.ok().and_then(|file| file.file_name().into_string().ok());
                file.is_some_and(|file| {
                    chunk_number(name, &file).is_some() || file == format!("{name}.index")
                })
            })
        })
        .collect()
}

/// The frames of a datastream, unless it is one of heaps or events.
fn ledger(recording: &Recording, stream: &DatastreamEntry) -> FrameLedger {
    let mut count = Count::new(stream, None);
    for step in plan::steps(recording, stream, 0) {
        match step {
            Step::Foreign(_) => {}
            Step::Gap(gap) => drop(count.gap(&gap)),
            Step::Chunk { entry, .. } => {
                let meta = entry.record.as_ref().map(|record| &record.meta);
                if meta.is_some_and(|meta| meta.heaps.is_some()) {
                    return FrameLedger::default();
                }
                let proof = match (&entry.record, entry.bytes) {
                    (None, bytes) => {
                        Proof::Unknown { frames: count.frames_in(bytes.unwrap_or(0)), invalid: 0 }
                    }
                    (Some(record), bytes) if bytes == Some(record.bytes) => Proof::Sound,
                    (Some(_), _) => Proof::Damaged,
                };
                let times = [meta.and_then(|meta| meta.first_time), meta.and_then(|meta| meta.last_time)];
                count.chunk(&entry, proof, times);
            }
        }
    }
    count.finish(recording).0
}

fn summary(recording: Recording) -> ScanSummary {
    let streams = &recording.datastreams;
    let steps = streams.iter().flat_map(|stream| plan::steps(&recording, stream, 0));
    let missing = steps.map(|step| match step {
        Step::Foreign(_) => 0,
        Step::Gap(gap) if !matches!(gap.lack, Lack::Missing | Lack::Unfinished) => 0,
        Step::Gap(gap) => u64::from(gap.chunks.1.saturating_sub(gap.chunks.0)),
        Step::Chunk { entry, .. } => {
            let short = entry.record.as_ref().is_some_and(|record| entry.bytes != Some(record.bytes));
            u64::from(short)
        }
    });
    let missing = missing.sum();
    let on = |disk: usize| streams.iter().any(|s| s.chunks.values().any(|chunk| chunk.disk == disk));
    let disks = recording.disks.iter().enumerate().filter(|&(disk, _)| on(disk));
    ScanSummary {
        state: recording.state,
        started: recording.sessions.first().map(|session| session.started.clone()),
        datastreams: streams.iter().map(|stream| stream.name.clone()).collect(),
        chunks: streams.iter().map(|stream| stream.chunks.len() as u64).sum(),
        bytes: streams.iter().map(DatastreamEntry::bytes).sum(),
        unacknowledged: streams.iter().map(|stream| stream.unacknowledged().count() as u64).sum(),
        lost: streams.iter().map(|stream| stream.lost.len() as u64).sum(),
        disks: disks.map(|(_, path)| path.clone()).collect(),
        missing,
        ledger: streams.iter().map(|stream| ledger(&recording, stream)).fold(
            FrameLedger::default(),
            |mut sum, one| {
                sum += &one;
                sum
            },
        ),
        findings: crate::recording::verify::at_a_glance(&recording),
        missing_disks: recording.missing_disks,
        scan: recording.label.to_string(),
    }
}

/// A directory that may be a scan, but cannot be inspected.
fn unreadable(label: &str, error: &std::io::Error) -> ScanSummary {
    ScanSummary {
        scan: label.to_owned(),
        state: State::Unindexed,
        started: None,
        datastreams: Vec::new(),
        chunks: 0,
        bytes: 0,
        unacknowledged: 0,
        lost: 0,
        disks: Vec::new(),
        missing_disks: Vec::new(),
        missing: 0,
        ledger: FrameLedger::default(),
        findings: vec![Finding { verdict: Verdict::Unproven, path: None, text: error.to_string() }],
    }
}
