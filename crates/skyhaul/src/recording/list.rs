//! Lists the scans on disks.

use crate::ledger::FrameLedger;
use crate::recording::asked::{self, DISK_ANSWER_TIMEOUT};
use crate::recording::contents::{ChunkEntry, DatastreamEntry, Finding, Lack, State, Verdict, chunk_number};
use crate::recording::holes::Found;
use crate::recording::open::{OpenError, Recording};
use crate::recording::plan::Step;
use crate::recording::verify::count::{Count, Proof};
use crate::recording::{mark6, plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Bytes of them: of a chunk with several copies, those of one.
    pub bytes: u64,
    /// Bytes of all chunk files on the disks, copies included.
    #[serde(default)]
    pub disk_bytes: u64,
    /// Copies of each chunk that were asked for.
    #[serde(default)]
    pub copies: u32,
    /// Chunks that no index knows.
    pub unacknowledged: u64,
    /// Chunks that the recorder could not write.
    pub lost: u64,
    /// Disks it is on.
    pub disks: Vec<PathBuf>,
    /// Disks of the session that are not among these, and disks that did not respond.
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
    scans_on(&paths).iter().filter_map(|label| scan_summary(&paths, label)).collect()
}

/// One scan on `disks`; `None` if none has this label.
#[must_use]
pub fn scan_summary(disks: &[PathBuf], label: &str) -> Option<ScanSummary> {
    scan_summary_within(disks, label, DISK_ANSWER_TIMEOUT)
}

/// The same, with another time limit than [`DISK_ANSWER_TIMEOUT`] for a disk without progress.
#[must_use]
pub fn scan_summary_within(disks: &[PathBuf], label: &str, timeout: Duration) -> Option<ScanSummary> {
    match Recording::open_within(disks.to_vec(), label, timeout) {
        Ok(recording) => Some(summary(recording)),
        Err(OpenError::NoDisk { error, .. }) => Some(unreadable(label, &error)),
        Err(_) => None,
    }
}

/// The labels of all scans on `disks`, in order. Only names are read. Disks that cannot be read, or do not respond, are left
/// out; [`ScanNames::on`] names them.
#[must_use]
pub fn scans_on(disks: &[PathBuf]) -> Vec<String> {
    ScanNames::on(disks, DISK_ANSWER_TIMEOUT).labels
}

/// The scans on disks.
#[derive(Debug, Default)]
pub struct ScanNames {
    /// Their labels, in order.
    pub labels: Vec<String>,
    /// Disks that made no progress in time: scans that are on no other are not listed.
    pub silent_disks: Vec<PathBuf>,
    /// Disks that cannot be read to the end, and why: there may be more scans on them.
    pub unreadable_disks: Vec<(PathBuf, io::Error)>,
}

impl ScanNames {
    /// Reads the names of the scans on `disks`. A disk is waited for until it has made no progress for `timeout` while another
    /// has answered, or for twice as long if none has.
    #[must_use]
    pub fn on(disks: &[PathBuf], timeout: Duration) -> Self {
        let found = asked::ask(disks, timeout, |_, disk, alive| {
            let mut labels = Vec::new();
            let ended = add_labels(disk, alive, &mut labels);
            let ended = ended.and_then(|()| mark6::add_labels(disk, alive, &mut labels));
            (labels, ended)
        });
        let (mut names, mut labels) = (Self::default(), BTreeSet::new());
        for (disk, found) in disks.iter().zip(found) {
            match found {
                Some((found, ended)) => {
                    labels.extend(found);
                    names.unreadable_disks.extend(ended.err().map(|error| (disk.clone(), error)));
                }
                None => names.silent_disks.push(disk.clone()),
            }
        }
        // A further datastream's directory is part of its scan.
        let is_part = |label: &str| label.rfind("_ds").is_some_and(|at| labels.contains(&label[..at]));
        names.labels = labels.iter().filter(|label| !is_part(label)).cloned().collect();
        names
    }
}

/// Adds the directories of one disk that can be scans: they hold an index or chunk files.
fn add_labels(disk: &Path, alive: &dyn Fn(), labels: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(disk)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if is_scan_directory(&name, &disk.join(&name), alive) {
            labels.push(name);
        }
    }
    Ok(())
}

/// Whether the directory of this name can be that of a scan.
pub(super) fn is_scan_directory(name: &str, directory: &Path, alive: &dyn Fn()) -> bool {
    alive();
    let Ok(mut files) = std::fs::read_dir(directory) else {
        // What cannot be looked at may be a scan: opening it says what is wrong.
        let kind = std::fs::symlink_metadata(directory);
        return name != "lost+found" && kind.is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
    };
    files.any(|file| {
        let file = file.ok().and_then(|file| file.file_name().into_string().ok());
        file.is_some_and(|file| chunk_number(name, &file).is_some() || file == format!("{name}.index"))
    })
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
                        let bytes = bytes.unwrap_or(0);
                        let cut = u64::from(count.cut_bytes(bytes) > 0);
                        Proof::Unknown { frames: count.frames_in(bytes), invalid: 0, missing: 0, cut }
                    }
                    (Some(record), bytes) if bytes == Some(record.bytes) => Proof::Sound,
                    (Some(_), _) => Proof::Damaged,
                };
                let times = [meta.and_then(|meta| meta.first_time), meta.and_then(|meta| meta.last_time)];
                count.chunk(&entry, (proof, &Found::default()), times);
            }
        }
    }
    count.finish(recording).0
}

impl Recording {
    /// Returns what became of its frames, by its indexes: no data are read. Heaps and events are not in it.
    #[must_use]
    pub fn ledger(&self) -> FrameLedger {
        let mut sum = FrameLedger::default();
        self.datastreams.iter().for_each(|stream| sum += &ledger(self, stream));
        sum
    }
}

pub(super) fn summary(recording: Recording) -> ScanSummary {
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
    let on = |disk: usize| {
        let is_here =
            |chunk: &ChunkEntry| chunk.disk == disk && chunk.bytes.is_some() && chunk.record.is_some();
        streams.iter().any(|s| {
            s.chunks.values().any(|chunk| chunk.disk == disk)
                || recording.copies() > 1 && s.copies.iter().any(is_here)
        })
    };
    let disks = recording.disks.iter().enumerate().filter(|&(disk, _)| on(disk));
    ScanSummary {
        state: recording.state,
        started: recording.sessions.first().map(|session| session.started.clone()),
        datastreams: streams.iter().map(|stream| stream.name.clone()).collect(),
        chunks: streams.iter().map(|stream| stream.chunks.len() as u64).sum(),
        bytes: streams.iter().map(DatastreamEntry::bytes).sum(),
        disk_bytes: streams.iter().map(DatastreamEntry::disk_bytes).sum(),
        copies: recording.copies(),
        unacknowledged: streams.iter().map(|stream| stream.unacknowledged().count() as u64).sum(),
        lost: streams.iter().map(|stream| stream.lost.len() as u64).sum(),
        disks: disks.map(|(_, path)| path.clone()).collect(),
        missing,
        ledger: recording.ledger(),
        findings: crate::recording::verify::at_a_glance(&recording),
        missing_disks: recording.missing_disks,
        scan: recording.label.to_string(),
    }
}

/// A directory that may be a scan, but cannot be inspected.
pub(super) fn unreadable(label: &str, error: &std::io::Error) -> ScanSummary {
    ScanSummary {
        scan: label.to_owned(),
        state: State::Unindexed,
        started: None,
        datastreams: Vec::new(),
        chunks: 0,
        bytes: 0,
        disk_bytes: 0,
        copies: 1,
        unacknowledged: 0,
        lost: 0,
        disks: Vec::new(),
        missing_disks: Vec::new(),
        missing: 0,
        ledger: FrameLedger::default(),
        findings: vec![Finding { verdict: Verdict::Unproven, path: None, text: error.to_string() }],
    }
}
