//! Opens a scan: compares its indexes with the existing files.
//!
//! Any disk may be missing, and any index torn or absent. A scan without an index is a
//! plain FlexBuff recording: its chunk files are listed, and none of them is acknowledged.

pub(super) mod gather;

use crate::irregular::{FAULT_EVENTS, FRAME_RATE};
use crate::recording::asked::{self, DISK_ANSWER_TIMEOUT};
use crate::recording::claims;
use crate::recording::contents::{
    DatastreamEntry, FIRST_ADOPTED_NUMBER, FileEntry, Finding, Label, LabelError, State, Verdict,
};
use crate::recording::copy_entries::copies_of;
use crate::recording::index::Tally;
use crate::recording::index::record::{Datastream, DatastreamInfo, Session};
use crate::recording::open::gather::DiskContents;
use crate::recording::report::{Event, RecordingReport};
use crate::recording::verify::file::read_part;
use skyhaul_core::hint::Hint;
use skyhaul_io::file::failed;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Disks of the session that were not given, and disks that did not respond.
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
        /// The disk.
        path: PathBuf,
        /// The fault of the disk, with a hint.
        error: std::io::Error,
    },
}

impl Recording {
    /// Whether the recorder noted that a stream was irregular: a time jump, a stopped clock, a thread that vanished, another
    /// station or frame rate. [`Recording::check`] compares the frames again.
    #[must_use]
    pub fn was_irregular(&self) -> bool {
        self.events.iter().any(|event| FAULT_EVENTS.contains(&event.kind.as_str()))
    }

    /// Open `scan` on `disks`.
    ///
    /// A disk that makes no progress for [`DISK_ANSWER_TIMEOUT`] while another has answered is given up: it counts as one that
    /// is absent, and a finding names it.
    ///
    /// # Errors
    /// The scan name is invalid, or the scan does not exist.
    pub fn open<P: Into<PathBuf>>(
        disks: impl IntoIterator<Item = P>,
        scan: &str,
    ) -> Result<Recording, OpenError> {
        Recording::open_within(disks.into_iter().map(Into::into).collect(), scan, DISK_ANSWER_TIMEOUT)
    }

    /// The same, with another time limit for a disk without progress.
    pub(super) fn open_within(
        disks: Vec<PathBuf>,
        scan: &str,
        timeout: Duration,
    ) -> Result<Recording, OpenError> {
        let label = Label::new(scan)?;
        let mut gathered = DiskContents::of(&label, &disks, timeout);
        let report = gathered.report();
        let mut datastreams = gathered.streams(&label, &disks);
        if datastreams.is_empty() && gathered.indexes.is_empty() {
            gathered.tell_unreachable(Verdict::Unproven);
            let silent = gathered.silent().map(|path| (path.clone(), asked::silent()));
            let unreadable = silent.or(gathered.unreadable.take());
            let found = gathered.findings.all.iter().find(|_| unreadable.is_none());
            return Err(match (unreadable, found) {
                (Some((path, error)), _) => {
                    let error = failed("read disk", &path, &error);
                    OpenError::NoDisk { scan: label.to_string(), path, error }
                }
                (None, Some(Finding { path: Some(path), text, .. })) => {
                    let shown = path.display();
                    let hint = Hint(format_args!("check its type and permissions: ls -ld {shown}"));
                    let error = std::io::Error::other(format!("{shown} {text}{hint}"));
                    OpenError::NoDisk { scan: label.to_string(), path: path.clone(), error }
                }
                _ => OpenError::NotFound(label.to_string()),
            });
        }
        let is_own = !gathered.ambiguous && report.as_ref().is_some_and(|report| !report.adopted);
        // The index has the last rate, and not that of all frames, where the recorder saw it change.
        let has_rate = !gathered.events.iter().any(|event| event.kind == FRAME_RATE);
        datastreams.iter_mut().for_each(|stream| claims::judge(stream, is_own, has_rate));
        let state = match (&gathered.indexes[..], gathered.live, &report) {
            ([], ..) => State::Unindexed,
            // A recorder that has said its last word may still hold its lock.
            (_, _, Some(_)) => State::Ended,
            (_, true, None) => State::Live,
            (_, false, None) => State::Interrupted,
        };
        gathered.judge_indexes(state);
        let missing_disks = gathered.missing_disks(&disks, report.as_ref());
        let is_covered = gathered.is_covered(&datastreams);
        gathered.tell_unreachable(if is_covered { Verdict::FewerCopies } else { Verdict::Unproven });
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

    /// Copies of each chunk that were asked for when it was recorded, on different disks.
    #[must_use]
    pub fn copies(&self) -> u32 {
        copies_of(self.sessions.iter())
    }

    /// Those of its disks that did not respond when it was opened: what is on them is missing here, and may be there.
    pub fn silent_disks(&self) -> impl Iterator<Item = &PathBuf> {
        self.missing_disks.iter().filter(|disk| self.disks.contains(disk))
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
            let head = usize::try_from(bytes.min(LEARN_BYTES)).ok()?;
            // The year of a date without one is that of the file.
            let near = path.metadata().map_or(0, |data| data.mtime());
            crate::frames::learn(&read_part(path, offset, head).ok()?, bytes, near)
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
