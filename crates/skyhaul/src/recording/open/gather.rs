//! Collects files by their names, and records by their checksums, from the disks. No chunk is read for this.
//!
//! ```text
//!   directories ─▶ files by number ┐
//!                                  ├─ by (datastream, number) ─▶ the best file and record, further copies
//!   indexes ─▶ records that check ─┘
//! ```
//!
//! A record and a file of one number belong together wherever each of them is: a chunk that was moved to another disk
//! is found. What cannot be inspected (an unreadable directory, a FIFO in place of a file) is a finding.
//!
//! Each disk is asked by its own thread: one that hangs is given up, named by a finding, and counts as one that is absent.
//!
//! Indexes of another recording with the same name are recognised by their session. Of several sessions, the one whose
//! records match the bytes of the files is used.

mod on_disk;

use crate::recording::contents::{ChunkEntry, DatastreamEntry, FileEntry, Findings, Label, State, Verdict};
use crate::recording::copy_entries::copies_of;
use crate::recording::index::Tally;
use crate::recording::index::record::{ChunkRecord, Datastream, LostChunk, Session};
use crate::recording::report::{DiskState, DiskStatus, Event, RecordingReport};
use crate::recording::verify::file::checksum_here;
use crate::recording::{asked, contents};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Chunks of a session that are read to decide whether its records fit.
const SESSION_SAMPLES: usize = 3;

/// Files and records of each number of each datastream.
type Numbered = BTreeMap<String, BTreeMap<u32, Vec<ChunkEntry>>>;

/// Data from the disks, before they are combined.
#[derive(Default)]
pub(super) struct DiskContents {
    /// Session and number of each datastream.
    datastreams: HashMap<(String, u32), Datastream>,
    chunks: Vec<(String, usize, ChunkRecord)>,
    lost: Vec<(String, LostChunk)>,
    reports: Vec<(String, RecordingReport)>,
    session_indexes: Vec<(usize, PathBuf, Session)>,
    entries: Numbered,
    partial: Vec<(String, PathBuf)>,
    /// Regular files that are called neither chunk nor index.
    pub(super) others: Vec<FileEntry>,
    pub(super) events: Vec<Event>,
    pub(super) indexes: Vec<(PathBuf, Tally)>,
    pub(super) live: bool,
    /// Two recordings have this name.
    pub(super) ambiguous: bool,
    pub(super) findings: Findings,
    /// Disks and files that cannot be looked at: how bad that is depends on what else is here.
    unreachable: Findings,
    /// The disk that cannot be read, and why.
    pub(super) unreadable: Option<(PathBuf, io::Error)>,
    /// Disks that did not respond.
    silent: Vec<PathBuf>,
    /// Disks of the session that were used, and whose indexes are not here.
    absent: usize,
    /// Paths without links, by path; of a disk that does not respond, its path.
    real: BTreeMap<PathBuf, PathBuf>,
}

impl DiskContents {
    /// Look at all disks; at each as long as it makes progress within `timeout`.
    pub(super) fn of(label: &Label, disks: &[PathBuf], timeout: Duration) -> DiskContents {
        let wanted = label.clone();
        let found =
            asked::ask(disks, timeout, move |disk, path, alive| DiskContents::on(&wanted, disk, path, alive));
        let mut all = DiskContents::default();
        for (path, contents) in disks.iter().zip(found) {
            all.take(path, contents);
        }
        if all.entries.is_empty() && all.indexes.is_empty() {
            let wanted = label.clone();
            let found = asked::ask(disks, timeout, move |disk, path, alive| {
                let mut contents = DiskContents::default();
                contents.scatter(&wanted, disk, path, alive);
                contents
            });
            for (path, contents) in disks.iter().zip(found) {
                all.take(path, contents);
            }
        }
        all.choose_session(label, disks, timeout);
        all.find_real(timeout);
        all
    }

    /// Adds the contents of one disk; of one that did not respond, a finding.
    fn take(&mut self, path: &PathBuf, contents: Option<DiskContents>) {
        let Some(found) = contents else {
            if !self.silent.contains(path) {
                self.silent.push(path.clone());
                self.unreachable.add(Verdict::Unproven, Some(path), asked::SILENT);
                self.real.insert(path.clone(), path.clone());
            }
            return;
        };
        self.datastreams.extend(found.datastreams);
        self.chunks.extend(found.chunks);
        self.lost.extend(found.lost);
        self.reports.extend(found.reports);
        self.session_indexes.extend(found.session_indexes);
        for (name, numbers) in found.entries {
            let here = self.entries.entry(name).or_default();
            for (number, entries) in numbers {
                here.entry(number).or_default().extend(entries);
            }
        }
        self.partial.extend(found.partial);
        self.others.extend(found.others);
        for event in found.events {
            if !self.events.contains(&event) {
                self.events.push(event);
            }
        }
        self.indexes.extend(found.indexes);
        self.live |= found.live;
        for one in found.findings.all {
            self.findings.add(one.verdict, one.path.as_ref(), one.text);
        }
        for one in found.unreachable.all {
            self.unreachable.add(one.verdict, one.path.as_ref(), one.text);
        }
        self.unreadable = self.unreadable.take().or(found.unreadable);
        self.real.extend(found.real);
    }

    /// A disk that did not respond.
    pub(super) fn silent(&self) -> Option<&PathBuf> {
        self.silent.first()
    }

    /// The paths of the sessions and events without links: they may lead to a disk that hangs, too.
    fn find_real(&mut self, timeout: Duration) {
        let reports = self.reports.iter().flat_map(|(_, report)| &report.events);
        let of_events = self.events.iter().chain(reports).filter_map(|event| event.disk.as_ref());
        let of_sessions = self.session_indexes.iter().flat_map(|(_, _, session)| &session.disks);
        let is_new = |path: &&PathBuf| !self.real.contains_key(*path);
        let paths: BTreeSet<&PathBuf> = of_events.chain(of_sessions).filter(is_new).collect();
        let paths: Vec<PathBuf> = paths.into_iter().cloned().collect();
        let found = asked::ask(&paths, timeout, |_, path, _| real(path));
        self.real
            .extend(paths.into_iter().zip(found).map(|(path, real)| (path.clone(), real.unwrap_or(path))));
    }

    fn real(&self, path: &PathBuf) -> PathBuf {
        self.real.get(path).unwrap_or(path).clone()
    }

    /// Keep one session, and records without a session (its line is corrupt or missing).
    fn choose_session(&mut self, label: &Label, disks: &[PathBuf], timeout: Duration) {
        let sessions: BTreeSet<String> =
            self.session_indexes.iter().map(|(_, _, s)| s.session.clone()).collect();
        if sessions.len() < 2 {
            return;
        }
        let proven = self.proven(label, disks, timeout);
        let rank = |session: &String| {
            let records = self.chunks.iter().filter(|(of, ..)| of == session);
            (proven.get(session).map_or(0, |&count| count.min(SESSION_SAMPLES)), records.count())
        };
        let Some(main) = sessions.iter().max_by_key(|session| rank(session)).cloned() else { return };
        let kept = |session: &String| session.is_empty() || *session == main;
        self.ambiguous = true;
        for (_, path, session) in self.session_indexes.iter().filter(|(_, _, s)| s.session != main) {
            let text = format!(
                "it belongs to another recording of this name (session {}, started {}), and is not used",
                session.session, session.started
            );
            self.findings.add(Verdict::Unproven, Some(path), text);
        }
        self.chunks.retain(|(session, ..)| kept(session));
        self.lost.retain(|(session, _)| kept(session));
        self.reports.retain(|(session, _)| kept(session));
        self.datastreams.retain(|(session, _), _| kept(session));
        self.session_indexes.retain(|(_, _, session)| kept(&session.session));
    }

    /// For each session, how many of its records match the bytes of their files: of each disk, at most [`SESSION_SAMPLES`].
    fn proven(&self, label: &Label, disks: &[PathBuf], timeout: Duration) -> BTreeMap<String, usize> {
        let mut samples: Vec<Vec<(String, PathBuf, u64, u32)>> = vec![Vec::new(); disks.len()];
        for (session, disk, record) in &self.chunks {
            let name = self.name(label, session, record.datastream);
            let path = contents::chunk_path(&disks[*disk], &name, record.number);
            samples[*disk].push((session.clone(), path, record.bytes, record.crc32c));
        }
        let found = asked::ask(disks, timeout, move |disk, _, alive| {
            let mut proven: BTreeMap<String, usize> = BTreeMap::new();
            for (session, path, bytes, crc32c) in &samples[disk] {
                let count = proven.entry(session.clone()).or_default();
                let fits = || checksum_here(path, *bytes, alive).is_ok_and(|crc| crc == *crc32c);
                if *count < SESSION_SAMPLES && fits() {
                    *count += 1;
                }
            }
            proven
        });
        let mut sum = BTreeMap::new();
        for (session, count) in found.into_iter().flatten().flatten() {
            *sum.entry(session).or_default() += count;
        }
        sum
    }

    /// A datastream by its number; where the session's line is rotten, any session must do, and where its own line is,
    /// the name that recorders give.
    fn name(&self, label: &Label, session: &str, number: u32) -> String {
        let exact = self.datastreams.get(&(session.to_owned(), number));
        let any = || self.datastreams.values().find(|stream| stream.datastream == number);
        exact.or_else(any).map_or_else(|| label.datastream(number), |stream| stream.name.clone())
    }

    /// The final report of the recorder, or of the repair that closed the recording.
    pub(super) fn report(&self) -> Option<RecordingReport> {
        self.reports.iter().map(|(_, report)| report).max_by(|a, b| a.ended.cmp(&b.ended)).cloned()
    }

    pub(super) fn sessions(&self) -> Vec<Session> {
        self.session_indexes.iter().map(|(_, _, session)| session.clone()).collect()
    }

    /// Whether every chunk that its recorder acknowledged is here, by its index and its length, although each was to have several copies:
    /// then what cannot be reached had copies alone. Where its recorder died, and fewer disks are away than there are copies, no number
    /// is missing then; what followed the last one is unknown, wherever the disks are. [`missing_disks`](Self::missing_disks) comes first.
    pub(super) fn is_covered(&self, streams: &[DatastreamEntry]) -> bool {
        let copies = copies_of(self.session_indexes.iter().map(|(_, _, session)| session));
        let is_here = |stream: &DatastreamEntry| {
            let here = stream.chunks.values().filter(|chunk| chunk.is_acknowledged()).count() as u64;
            match &stream.account {
                Some(account) => here >= account.acknowledged,
                None => {
                    let is_closed = stream.gaps().is_empty() && here == stream.chunks.len() as u64;
                    is_closed && self.absent < copies as usize
                }
            }
        };
        copies > 1 && !self.ambiguous && streams.iter().all(is_here)
    }

    /// Adds findings about what cannot be reached.
    pub(super) fn tell_unreachable(&mut self, verdict: Verdict) {
        for one in std::mem::take(&mut self.unreachable).all {
            self.findings.add(verdict, one.path.as_ref(), one.text);
        }
    }

    /// For each disk, whether the recorder noted that its chunks went to others. A disk is identified by its index, wherever it
    /// is mounted now, or, without an index, by its path.
    pub(super) fn gave_up(&self, disks: &[PathBuf], report: Option<&RecordingReport>) -> Vec<bool> {
        let kinds = ["disk_failed", "disk_full", "disk_stalled"];
        let events = self.events.iter().chain(report.into_iter().flat_map(|report| &report.events));
        let noted: BTreeSet<&PathBuf> = events
            .filter(|event| kinds.contains(&event.kind.as_str()))
            .filter_map(|event| event.disk.as_ref())
            .collect();
        let noted_here: BTreeSet<PathBuf> = noted.iter().map(|path| self.real(path)).collect();
        let of = |disk: usize, path: &PathBuf| {
            let mut was = self.session_indexes.iter().filter(|(at, ..)| *at == disk).peekable();
            match was.peek() {
                Some(_) => was.any(|(_, _, s)| s.disks.get(s.disk).is_some_and(|path| noted.contains(path))),
                None => noted_here.contains(&self.real(path)),
            }
        };
        disks.iter().enumerate().map(|(disk, path)| of(disk, path)).collect()
    }

    /// Put files and records together.
    pub(super) fn streams(&mut self, label: &Label, disks: &[PathBuf]) -> Vec<DatastreamEntry> {
        for (session, disk, record) in std::mem::take(&mut self.chunks) {
            let name = self.name(label, &session, record.datastream);
            let number = record.number;
            let here = self.entries.entry(name.clone()).or_default().entry(number).or_default();
            if let Some(entry) = here.iter_mut().find(|entry| entry.disk == disk) {
                entry.record = Some(record);
            } else {
                let path = contents::chunk_path(&disks[disk], &name, number);
                let record = Some(record);
                here.push(ChunkEntry { number, disk, path, offset: 0, bytes: None, record, moved: false });
            }
        }
        let copies_asked = copies_of(self.session_indexes.iter().map(|(_, _, session)| session));
        let mut streams: BTreeMap<String, DatastreamEntry> = BTreeMap::new();
        for (name, numbers) in std::mem::take(&mut self.entries) {
            let stream = streams.entry(name.clone()).or_default();
            for (number, entries) in numbers {
                let (best, copies) = settle(entries, copies_asked > 1);
                stream.chunks.extend(best.map(|best| (number, best)));
                stream.copies.extend(copies);
            }
        }
        for about in self.datastreams.values() {
            streams.entry(about.name.clone()).or_default().datastream = Some(about.clone());
        }
        for (name, path) in std::mem::take(&mut self.partial) {
            streams.entry(name).or_default().partial.push(path);
        }
        for account in self.report().into_iter().flat_map(|report| report.datastreams) {
            let stream = streams.entry(account.name.clone()).or_default();
            stream.account = Some(account);
        }
        for (session, lost) in std::mem::take(&mut self.lost) {
            let stream = streams.entry(self.name(label, &session, lost.datastream)).or_default();
            // What a second disk did take in the end is not lost.
            if stream.chunks.get(&lost.number).is_none_or(|chunk| chunk.record.is_none()) {
                stream.lost.insert(lost.number, lost);
            }
        }
        for (name, stream) in &mut streams {
            stream.name.clone_from(name);
        }
        streams.into_values().filter(DatastreamEntry::is_something).collect()
    }

    /// Problems of the indexes themselves.
    pub(super) fn judge_indexes(&mut self, state: State) {
        for (path, tally) in &self.indexes {
            let mut add = |verdict, text: String| self.findings.add(verdict, Some(path), text);
            if tally.garbage > 0 {
                add(Verdict::Unproven, format!("{} lines have a wrong checksum", tally.garbage));
            }
            if tally.given_up {
                add(
                    Verdict::Unproven,
                    "more than 64 MiB of it are not an index: the rest was not read".to_owned(),
                );
            } else if tally.torn_bytes > 0 && state != State::Live {
                // A recorder that died, or could not write here any more, leaves a torn line; one that ended does not.
                let (verdict, text) = match tally.closed {
                    true => (Verdict::Unproven, format!("{} bytes follow its last line", tally.torn_bytes)),
                    false => (Verdict::Holes, format!("its last {} bytes are a torn line", tally.torn_bytes)),
                };
                add(verdict, text);
            }
            if tally.changed > 0 {
                add(
                    Verdict::Holes,
                    format!("{} of its lines end in CR LF: it was copied as text", tally.changed),
                );
            }
        }
    }

    /// Disks of the session that have no index here: those that were not given, or do not respond, are returned.
    pub(super) fn missing_disks(
        &mut self,
        disks: &[PathBuf],
        report: Option<&RecordingReport>,
    ) -> Vec<PathBuf> {
        // On one that did not respond from the beginning to the end there is nothing of the scan.
        let unused: Vec<&PathBuf> = report.map_or_else(Vec::new, |report| {
            let is_unused = |disk: &&DiskStatus| disk.state == DiskState::Failed && disk.chunks == 0;
            report.disks.iter().filter(is_unused).map(|disk| &disk.path).collect()
        });
        let given: Vec<PathBuf> = disks.iter().map(|path| self.real(path)).collect();
        let silent: BTreeSet<PathBuf> = self.silent.iter().map(|path| self.real(path)).collect();
        let (mut missing, mut without) = (Vec::new(), BTreeSet::new());
        for (_, _, session) in &self.session_indexes {
            for (index, path) in session.disks.iter().enumerate() {
                if self.session_indexes.iter().any(|(_, _, s)| s.disk == index) || unused.contains(&path) {
                    continue;
                }
                let here = self.real(path);
                if silent.contains(&here) {
                    continue;
                }
                if given.contains(&here) {
                    without.insert(path.clone());
                } else if !missing.contains(path) {
                    missing.push(path.clone());
                }
            }
        }
        self.absent = missing.len() + without.len() + self.silent.len();
        for path in without {
            self.unreachable.add(Verdict::Unproven, Some(&path), "this disk of the recording has no index");
        }
        for path in &missing {
            self.unreachable.add(Verdict::Unproven, Some(path), "this disk of the session is absent");
        }
        let mut seen: BTreeMap<usize, &PathBuf> = BTreeMap::new();
        let mut twice = Vec::new();
        for (disk, path, session) in &self.session_indexes {
            let other = seen.insert(session.disk, path);
            if other.is_some_and(|other| other != path) && *disk < disks.len() {
                twice.push(path.clone());
            }
        }
        for path in twice {
            self.findings.add(Verdict::Unproven, Some(&path), "it is a copy of another disk's index");
        }
        // What is on them is as unknown as what is on disks that are absent.
        missing.extend(self.silent.iter().cloned());
        missing
    }
}

/// The path without links, where it leads anywhere.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Of the files and records of one number the best pair, and all further files and records. Of copies that were asked for, a recorder's record
/// is better than one of a repair, and of two files without a record the longer one: a power cut may have cut the other.
fn settle(mut entries: Vec<ChunkEntry>, has_copies: bool) -> (Option<ChunkEntry>, Vec<ChunkEntry>) {
    let rank = |c: &ChunkEntry| {
        let by_recorder = has_copies && c.record.as_ref().is_some_and(|record| !record.adopted);
        let length = c.bytes.filter(|_| has_copies && c.record.is_none());
        (c.is_acknowledged(), by_recorder, c.record.is_some(), c.bytes.is_some(), length)
    };
    entries.sort_by_key(|entry| std::cmp::Reverse(rank(entry)));
    let mut entries = std::collections::VecDeque::from(entries);
    let Some(mut best) = entries.pop_front() else { return (None, Vec::new()) };
    if let Some(record) = best.record.as_ref().filter(|_| !best.is_acknowledged()) {
        // Its own disk does not have it as it should be: another one may.
        let fit = |entry: &ChunkEntry| entry.bytes.map(|bytes| bytes.abs_diff(record.bytes));
        let other =
            (0..entries.len()).filter(|&at| fit(&entries[at]).is_some()).min_by_key(|&at| fit(&entries[at]));
        if let Some(at) = other.filter(|&at| best.bytes.is_none() || fit(&entries[at]) == Some(0)) {
            let record = best.record.clone();
            let found = ChunkEntry { record, moved: true, ..entries[at].clone() };
            entries.remove(at);
            entries.extend(best.bytes.is_some().then_some(best));
            best = found;
        }
    }
    (Some(best), entries.into())
}
