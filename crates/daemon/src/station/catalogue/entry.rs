//! A scan of the catalogue: what is kept of it, and what is said of it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skyhaul::recording::{ScanFacts, ScanPart, ScanSummary, State, scan_fingerprint};
use skyhaul::time::{format, format_exact};
use skyhaul_core::station::{QueuedState, QueuedStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Copies of a scan that are remembered; of more, the last.
const MAX_COPIES: usize = 64;
/// Characters of a finding that are kept.
const MAX_FINDING: usize = 300;

/// What is known of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ScanEntry {
    /// What is on each disk, by the number of the disk.
    pub(super) parts: Vec<(usize, ScanPart)>,
    /// What its indexes say; `None`: they were not read yet.
    pub(super) facts: Option<KeptFacts>,
    /// Its files have changed since its indexes were read.
    pub(super) is_stale: bool,
    /// Disks that did not answer when they were read.
    pub(super) unseen: BTreeSet<usize>,
    /// Why they could not be read.
    pub(super) problem: Option<String>,
    /// Copies that the queue has finished, by number.
    pub(super) copies: Vec<KeptCopy>,
}

/// What its indexes say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptFacts {
    pub(super) state: State,
    started: Option<String>,
    formats: Vec<String>,
    datastreams: usize,
    chunks: u64,
    bytes: u64,
    unacknowledged: u64,
    lost_chunks: u64,
    missing_chunks: u64,
    frames: u64,
    lost_frames: u64,
    lost_is_lower_bound: bool,
    discarded_frames: u64,
    data_time: Option<(i64, i64)>,
    looks_whole: bool,
    findings: usize,
    finding: Option<String>,
    /// Disks of its recorder that are none of this station.
    absent_disks: Vec<PathBuf>,
}

/// A copy that the queue has finished: both ends were read, and were equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptCopy {
    pub(super) copy: u64,
    destination: String,
    directories: Vec<String>,
    files: u64,
    bytes: u64,
    ended_at_ms: i64,
    /// Of the files that were copied, before and after; `None`: not known.
    fingerprint: Option<String>,
}

/// A part as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptPart {
    disk: PathBuf,
    files: u64,
    bytes: u64,
    modified_nanos: i64,
    digest: [u8; 32],
    problem: Option<String>,
}

/// A scan as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptEntry {
    parts: Vec<KeptPart>,
    facts: Option<KeptFacts>,
    unseen: Vec<PathBuf>,
    copies: Vec<KeptCopy>,
}

/// What of the station decides what can be said of a scan.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Disks that do not answer or cannot be read, by number, with the reason.
    pub(super) unanswered: BTreeMap<usize, String>,
    /// Scans that this station records.
    pub(super) recorded: BTreeSet<String>,
    /// The disks were looked at in this run: before, what is known is what was.
    pub(super) is_looked_at: bool,
}

impl KeptFacts {
    /// Of what was read, with the station's disks that did not answer.
    pub(super) fn of(facts: ScanFacts, disks: &[PathBuf]) -> (Self, BTreeSet<usize>) {
        let looks_whole = facts.summary.looks_whole();
        let ScanSummary {
            state,
            started,
            datastreams,
            chunks,
            bytes,
            unacknowledged,
            lost,
            missing_disks,
            missing,
            ledger,
            findings,
            ..
        } = facts.summary;
        let number = |path: &PathBuf| disks.iter().position(|disk| disk == path);
        let unseen = missing_disks.iter().filter_map(number).collect();
        let absent_disks = missing_disks.into_iter().filter(|path| number(path).is_none()).collect();
        let kept = Self {
            state,
            started,
            formats: facts.formats,
            datastreams: datastreams.len(),
            chunks,
            bytes,
            unacknowledged,
            lost_chunks: lost,
            missing_chunks: missing,
            frames: ledger.received,
            lost_frames: ledger.never_received,
            lost_is_lower_bound: ledger.is_lower_bound,
            discarded_frames: ledger.discarded,
            data_time: facts.data_time,
            looks_whole,
            findings: findings.len(),
            finding: findings.first().map(|one| one.text.chars().take(MAX_FINDING).collect()),
            absent_disks,
        };
        (kept, unseen)
    }
}

impl KeptCopy {
    /// A copy of the queue, if it is done.
    pub(super) fn of(status: &QueuedStatus) -> Option<Self> {
        (status.state == QueuedState::Done).then(|| Self {
            copy: status.copy.0,
            destination: status.request.destination.clone(),
            directories: status.request.parts.iter().map(|part| part.directory.clone()).collect(),
            files: status.request.files(),
            bytes: status.request.bytes(),
            ended_at_ms: status.ended_at.unwrap_or_default().0,
            fingerprint: status.fingerprint.clone(),
        })
    }

    fn json(&self, present: Option<&String>) -> Value {
        json!({
            "copy": self.copy,
            "destination": self.destination,
            "directories": self.directories,
            "files": self.files,
            "bytes": self.bytes,
            "ended_at": format_exact(i128::from(self.ended_at_ms) * 1_000_000),
            "verified": true,
            "of_these_files": self.fingerprint.as_ref().zip(present).map(|(copied, now)| copied == now),
        })
    }
}

impl ScanEntry {
    /// Whether its indexes are to be read.
    pub(super) fn is_unread(&self, seen: &Seen) -> bool {
        // A recorder's lock is no file: when it goes, no file changes.
        self.facts.as_ref().is_none_or(|facts| facts.state == State::Live)
            || self.is_stale
            || self.unseen.iter().any(|disk| !seen.unanswered.contains_key(disk))
    }

    /// The same without what its indexes say.
    pub(super) fn unread(&self) -> Self {
        Self { parts: self.parts.clone(), copies: self.copies.clone(), ..Self::default() }
    }

    /// Takes a copy that is done; whether it is new.
    pub(super) fn add_copy(&mut self, copy: KeptCopy) -> bool {
        let is_known = self.copies.contains(&copy);
        if !is_known {
            self.copies.retain(|known| known.copy != copy.copy);
            self.copies.push(copy);
            self.copies.sort_by_key(|known| known.copy);
            let over = self.copies.len().saturating_sub(MAX_COPIES);
            self.copies.drain(..over);
        }
        !is_known
    }

    /// The digest of all its files, if all of them are known.
    fn fingerprint(&self, name: &str, disks: &[PathBuf]) -> Option<String> {
        let path = |disk: &usize| disks.get(*disk).map(PathBuf::as_path);
        let parts: Option<Vec<(&Path, &ScanPart)>> =
            self.parts.iter().map(|(disk, part)| Some((path(disk)?, part))).collect();
        scan_fingerprint(name, parts?)
    }

    /// The text that is kept of it.
    pub(super) fn text(&self, disks: &[PathBuf]) -> String {
        let path = |disk: usize| disks.get(disk).cloned().unwrap_or_default();
        let part = |(disk, part): &(usize, ScanPart)| KeptPart {
            disk: path(*disk),
            files: part.files,
            bytes: part.bytes,
            modified_nanos: part.modified_nanos,
            digest: part.digest,
            problem: part.problem.clone(),
        };
        let kept = KeptEntry {
            parts: self.parts.iter().map(part).collect(),
            facts: self.facts.clone().filter(|facts| !self.is_stale && facts.state != State::Live),
            unseen: self.unseen.iter().map(|disk| path(*disk)).collect(),
            copies: self.copies.clone(),
        };
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// From the text that was kept. What was on disks that are no longer the station's is left out, and read again.
    pub(super) fn of_text(text: &str, disks: &[PathBuf]) -> Option<Self> {
        let KeptEntry { parts, facts, unseen, copies } = serde_json::from_str(text).ok()?;
        let number = |path: &PathBuf| disks.iter().position(|disk| disk == path);
        let (all, seen) = (parts.len(), unseen.len());
        let part = |part: KeptPart| {
            let KeptPart { disk, files, bytes, modified_nanos, digest, problem } = part;
            Some((number(&disk)?, ScanPart { files, bytes, modified_nanos, digest, problem }))
        };
        let mut parts: Vec<(usize, ScanPart)> = parts.into_iter().filter_map(part).collect();
        parts.sort_by_key(|(disk, _)| *disk);
        let unseen: BTreeSet<usize> = unseen.iter().filter_map(number).collect();
        let is_stale = parts.len() != all || unseen.len() != seen;
        Some(Self { parts, facts, is_stale, unseen, problem: None, copies })
    }

    /// What can be said of it now: a word, and the reason where there is something to explain.
    pub(super) fn state(&self, name: &str, disks: &[PathBuf], seen: &Seen) -> (&'static str, Option<String>) {
        if seen.recorded.contains(name) {
            return ("open", None);
        }
        if !seen.is_looked_at {
            return ("unknown", Some("the disks have not been looked at yet".to_owned()));
        }
        let mut held = self.parts.iter().map(|(disk, _)| disk).chain(&self.unseen);
        let silent = held.find_map(|disk| Some((disks.get(*disk)?, seen.unanswered.get(disk)?)));
        if let Some((disk, why)) = silent {
            return ("unknown", Some(format!("{}: {why}", disk.display())));
        }
        if let Some(why) = self.parts.iter().find_map(|(_, part)| part.problem.as_ref()) {
            return ("unknown", Some(why.clone()));
        }
        let facts = match &self.facts {
            Some(facts) if !self.is_stale && self.unseen.is_empty() => facts,
            _ => {
                let why = self.problem.clone().unwrap_or_else(|| "not read yet".to_owned());
                return ("unknown", Some(why));
            }
        };
        let finding = || facts.finding.clone();
        match facts.state {
            State::Live => ("open", None),
            State::Interrupted => ("interrupted", finding()),
            State::Unindexed => ("unindexed", finding()),
            State::Ended if facts.looks_whole => ("closed", None),
            State::Ended => ("damaged", finding()),
        }
    }

    /// Everything that is said of it.
    pub(super) fn json(&self, name: &str, disks: &[PathBuf], seen: &Seen) -> Value {
        let (state, reason) = self.state(name, disks, seen);
        let fingerprint = self.fingerprint(name, disks);
        let mut held = self.parts.iter().map(|(disk, _)| disk).chain(&self.unseen);
        // Of which files a copy is can be said only where all of its disks have answered.
        let is_seen = seen.is_looked_at && !held.any(|disk| seen.unanswered.contains_key(disk));
        let present = fingerprint.as_ref().filter(|_| is_seen);
        let time = |nanos: i64| format_exact(i128::from(nanos));
        let part = |(disk, part): &(usize, ScanPart)| {
            json!({
                "path": disks.get(*disk),
                "files": part.files,
                "bytes": part.bytes,
                "modified": time(part.modified_nanos),
                "answers": !seen.unanswered.contains_key(disk),
            })
        };
        let modified = self.parts.iter().map(|(_, part)| part.modified_nanos).max().map(time);
        let mut all = json!({
            "scan": name,
            "state": state,
            "reason": reason,
            "files": self.parts.iter().map(|(_, part)| part.files).sum::<u64>(),
            "file_bytes": self.parts.iter().map(|(_, part)| part.bytes).sum::<u64>(),
            "modified": modified,
            "fingerprint": fingerprint,
            "disks": self.parts.iter().map(part).collect::<Vec<_>>(),
            "copies": self.copies.iter().map(|copy| copy.json(present)).collect::<Vec<_>>(),
            "index": Value::Null,
        });
        if let Some(facts) = &self.facts {
            all["index"] = json!({
                "is_current": !self.is_stale && self.unseen.is_empty(),
                "started": facts.started,
                "formats": facts.formats,
                "datastreams": facts.datastreams,
                "data_begin": facts.data_time.map(|(begin, _)| format(begin)),
                "data_end": facts.data_time.map(|(_, end)| format(end)),
                "bytes": facts.bytes,
                "chunks": facts.chunks,
                "chunks_missing": facts.missing_chunks,
                "chunks_lost": facts.lost_chunks,
                "chunks_unacknowledged": facts.unacknowledged,
                "frames": facts.frames,
                "frames_lost": facts.lost_frames,
                "lost_is_lower_bound": facts.lost_is_lower_bound,
                "frames_discarded": facts.discarded_frames,
                "findings": facts.findings,
                "absent_disks": facts.absent_disks,
            });
        }
        all
    }
}
