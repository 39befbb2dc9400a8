//! The catalogue: every scan on the station's disks, and every copy of it that the queue has finished.
//!
//! ```text
//!   disks ─ ScanSurvey: names, lengths, numbers, times ─▶ as known? ─▶ yes ────────────────────────────┐
//!                                                           └─▶ no: ScanFacts, from the indexes ───────┤
//!   queue ─ copies that are done ──────────────────────────────────────────────────────────────────────┼─▶ memory ─▶ API, skyhaul scans
//!   station_catalogue.db, at the start ─────────────────────────────────────────────────────────────────┘     └─▶ station_catalogue.db
//! ```
//!
//! It is made from the disks, and is never the truth: what is done with a scan looks at the scan. Its thread has the lowest priority, and nothing
//! waits for it: a scan that it has not read yet, or on a disk that does not answer, is `unknown`, with the reason, and stays in the list.
//! A disk whose scans were never seen is named beside the list.
//!
//! After a restart only scans whose files have changed are read again ([decision](https://github.com/skyhaul/skyhaul/blob/main/docs/decisions/0115-a-catalogue-is-made-from-the-disks.md)).
//!
//! Limit: [`MAX_SCANS`] scans.

mod entry;
mod store;
#[cfg(test)]
mod tests;
pub(super) mod watch;

use entry::{KeptCopy, KeptFacts, ScanEntry, Seen};
use serde_json::{Value, json};
use skyhaul::io::lock::lock;
use skyhaul::metrics::{Kind, Metric};
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, ScanFacts, ScanPattern, ScanSurvey, State};
use skyhaul_core::station::QueuedStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use store::{CATALOGUE_FILE, CatalogueFile, Entries, FileState, MAX_SCANS, Unwritten, batch};

/// Maximum number of scans in a reply.
pub(super) const MAX_LISTED: usize = 1000;

/// The scans of a station, as they are known.
#[derive(Debug)]
pub(super) struct Catalogue {
    disks: Vec<PathBuf>,
    known: Mutex<Known>,
    unwritten: Mutex<Unwritten>,
    file: Mutex<FileState>,
    /// Somebody asked that the disks are looked at soon.
    is_asked: AtomicBool,
    /// All scans are to be read again.
    is_to_forget: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    entries: Entries,
    seen: Seen,
    /// Where each disk was when its scans were last seen: device and inode.
    places: BTreeMap<usize, (u64, u64)>,
    /// Number of scans whose indexes are to be read.
    unread: usize,
    /// Scans that were read, in this run.
    reads: u64,
    /// Scans that were left out, beyond the limit.
    left_out: usize,
}

impl Catalogue {
    pub(super) fn new(disks: &[PathBuf]) -> Self {
        Self {
            disks: disks.to_vec(),
            known: Mutex::default(),
            unwritten: Mutex::default(),
            file: Mutex::default(),
            is_asked: AtomicBool::new(false),
            is_to_forget: AtomicBool::new(false),
        }
    }

    /// Has the disks looked at soon: something has ended.
    pub(super) fn look_soon(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
    }

    /// Has all scans read again, from the next look on. Until each is, it is unknown. Returns how many.
    pub(super) fn rebuild(&self) -> usize {
        let unread = {
            let mut known = lock(&self.known);
            // What is known is no longer said.
            known.seen.is_looked_at = false;
            known.unread = known.entries.len();
            known.unread
        };
        self.is_to_forget.store(true, Ordering::SeqCst);
        self.look_soon();
        unread
    }

    /// At most `limit` scans by name, after one, of these patterns; of all names if there are none. `recorded` are those that the station records.
    pub(super) fn list(
        &self,
        recorded: BTreeSet<String>,
        (after, limit): (&str, usize),
        patterns: &[ScanPattern],
    ) -> Value {
        let (scans, mut seen, unread, left_out, count) = {
            let known = lock(&self.known);
            let is_meant = |name: &str| patterns.is_empty() || patterns.iter().any(|one| one.matches(name));
            let behind = known.entries.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
            let scans = behind.filter(|(name, _)| is_meant(name)).take(limit);
            let mut scans: Vec<_> = scans.map(|(name, entry)| (name.clone(), Arc::clone(entry))).collect();
            // One that was just begun was not found on the disks yet.
            let is_new = |name: &&String| !known.entries.contains_key(*name) && is_meant(name);
            let begun = recorded.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)).filter(is_new);
            scans.extend(begun.map(|name| (name.clone(), Arc::default())));
            scans.sort_by(|(a, _), (b, _)| a.cmp(b));
            scans.truncate(limit);
            let count = known.entries.len();
            (scans, known.seen.clone(), known.unread, known.left_out, count)
        };
        seen.recorded = recorded;
        let unanswered =
            |(disk, why): (&usize, &String)| json!({ "path": self.disks.get(*disk), "reason": why });
        json!({
            "scans": scans.iter().map(|(name, entry)| entry.json(name, &self.disks, &seen)).collect::<Vec<_>>(),
            "catalogue": {
                "scans": count,
                "unread": unread,
                // Until then, scans may be missing.
                "is_complete": seen.is_looked_at && seen.unanswered.is_empty() && left_out == 0,
                "left_out": left_out,
                "unanswered_disks": seen.unanswered.iter().map(unanswered).collect::<Vec<_>>(),
                "file": self.disks.first().map(|disk| disk.join(CATALOGUE_FILE)),
                "file_problem": lock(&self.file).problem,
            },
        })
    }

    /// Metrics of it.
    pub(super) fn metrics(
        &self,
        recorded: BTreeSet<String>,
        metric: &dyn Fn(&str, Kind, &str) -> Metric,
    ) -> Vec<Metric> {
        let mut states: BTreeMap<&str, u64> = BTreeMap::new();
        let mut seen = lock(&self.known).seen.clone();
        seen.recorded = recorded;
        let (mut last, mut scans) =
            (None::<String>, metric("catalogue_scans", Kind::Gauge, "Scans on the disks, by state."));
        // In pieces: others may ask meanwhile.
        loop {
            let piece = batch(&lock(&self.known).entries, last.as_deref(), MAX_LISTED);
            for (name, entry) in &piece {
                *states.entry(entry.state(name, &self.disks, &seen).0).or_default() += 1;
            }
            match piece.into_iter().next_back() {
                Some((name, _)) => last = Some(name),
                None => break,
            }
        }
        states.iter().for_each(|(state, count)| scans.add(&[("state", state as _)], *count));
        let mut unread = metric("catalogue_unread_scans", Kind::Gauge, "Scans whose indexes are to be read.");
        let mut reads = metric("catalogue_reads_total", Kind::Counter, "Scans whose indexes were read.");
        let mut kept =
            metric("catalogue_kept", Kind::Gauge, "1 while the catalogue's file takes what is known.");
        let (count, read) = {
            let known = lock(&self.known);
            (known.unread as u64, known.reads)
        };
        unread.add(&[], count);
        reads.add(&[], read);
        kept.add(&[], u8::from(lock(&self.file).problem.is_none()));
        vec![scans, unread, reads, kept]
    }

    /// Takes what its file has, before the first look.
    fn take(&self, (entries, is_whole): (Entries, bool)) {
        lock(&self.unwritten).all |= !is_whole;
        let mut known = lock(&self.known);
        // What was found meanwhile is newer.
        for (name, entry) in entries {
            let Some(newer) = known.entries.get_mut(&name) else {
                known.entries.insert(name, entry);
                continue;
            };
            // But the queue may have forgotten copies that the file knows.
            let is_known = |copy: &KeptCopy| newer.copies.iter().any(|known| known.copy == copy.copy);
            let missing: Vec<_> = entry.copies.iter().filter(|copy| !is_known(copy)).cloned().collect();
            if !missing.is_empty() {
                let mut new = ScanEntry::clone(newer);
                for copy in missing {
                    new.add_copy(copy);
                }
                *newer = Arc::new(new);
            }
        }
    }

    /// Takes what the file has, on its thread; whether it can be written now.
    fn load(&self, file: &mut CatalogueFile) -> bool {
        match file.load() {
            Ok(found) => {
                self.take(found);
                true
            }
            Err(text) => {
                lock(&self.file).note(file.path(), Err(text));
                false
            }
        }
    }

    /// Takes what was found on the disks: notes what is new, has changed or is gone. Returns the scans to be read, the newest first.
    fn note(&self, survey: ScanSurvey) -> Vec<String> {
        let ScanSurvey { mut scans, silent_disks, unreadable_disks } = survey;
        let silent = silent_disks.into_iter().map(|disk| (disk, "does not respond".to_owned()));
        let unreadable =
            unreadable_disks.into_iter().map(|(disk, error)| (disk, format!("cannot be read: {error}")));
        let mut unanswered: BTreeMap<usize, String> = silent.chain(unreadable).collect();
        let places = self.places(&unanswered);
        let mut changed = BTreeSet::new();
        let is_to_forget = self.is_to_forget.swap(false, Ordering::SeqCst);
        let mut known = lock(&self.known);
        if is_to_forget {
            known.entries.values_mut().for_each(|entry| *entry = Arc::new(entry.unread()));
        }
        for (disk, place) in places {
            let is_on =
                |parts: &[(usize, skyhaul::recording::ScanPart)]| parts.iter().any(|(on, _)| *on == disk);
            let had_some = known.entries.values().any(|entry| is_on(&entry.parts));
            let has_some = scans.values().any(|parts| is_on(parts));
            // Without any scan where there were some: an empty mount point is no disk. One with others is another disk.
            if had_some && !has_some && known.places.get(&disk) != Some(&place) {
                unanswered.insert(disk, "has no scans any more: it may not be mounted".to_owned());
            } else {
                known.places.insert(disk, place);
            }
        }
        (known.seen.unanswered, known.seen.is_looked_at) = (unanswered, true);
        let Known { entries, seen, .. } = &mut *known;
        entries.retain(|name, entry| {
            let mut parts = scans.remove(name).unwrap_or_default();
            // What was on a disk that does not answer is still there, as far as is known.
            let unanswered = |(disk, _): &&(usize, _)| seen.unanswered.contains_key(disk);
            parts.extend(entry.parts.iter().filter(unanswered).cloned());
            parts.sort_by_key(|(disk, _)| *disk);
            let is_lost =
                parts.is_empty() && !entry.unseen.iter().any(|disk| seen.unanswered.contains_key(disk));
            if is_lost || parts != entry.parts {
                changed.insert(name.clone());
                let mut new = ScanEntry::clone(entry);
                (new.is_stale, new.parts) = (true, parts);
                *entry = Arc::new(new);
            }
            !is_lost
        });
        let room = MAX_SCANS.saturating_sub(entries.len());
        let left_out = scans.len().saturating_sub(room);
        for (name, parts) in scans.into_iter().take(room) {
            changed.insert(name.clone());
            entries.insert(name, Arc::new(ScanEntry { parts, ..ScanEntry::default() }));
        }
        let newest = |entry: &ScanEntry| entry.parts.iter().map(|(_, part)| part.modified_nanos).max();
        let unread = entries.iter().filter(|(_, entry)| entry.is_unread(seen));
        let mut unread: Vec<_> = unread.map(|(name, entry)| (newest(entry), name.clone())).collect();
        unread.sort_unstable_by(|a, b| b.cmp(a));
        (known.unread, known.left_out) = (unread.len(), left_out);
        drop(known);
        {
            let mut unwritten = lock(&self.unwritten);
            unwritten.all |= is_to_forget;
            unwritten.names.extend(changed);
        }
        unread.into_iter().map(|(_, name)| name).collect()
    }

    /// The device and the inode of each disk that answered: another where it is not mounted.
    fn places(&self, unanswered: &BTreeMap<usize, String>) -> Vec<(usize, (u64, u64))> {
        let place = |(disk, path): (usize, &PathBuf)| {
            let data = std::fs::metadata(path).ok()?;
            Some((disk, (data.dev(), data.ino())))
        };
        self.disks
            .iter()
            .enumerate()
            .filter(|(disk, _)| !unanswered.contains_key(disk))
            .filter_map(place)
            .collect()
    }

    /// Takes the copies that the queue has finished.
    fn note_copies(&self, queued: &[QueuedStatus]) {
        let copies = queued.iter().filter_map(|one| Some((&one.request.scan, KeptCopy::of(one)?)));
        let mut changed = Vec::new();
        {
            let mut known = lock(&self.known);
            for (name, copy) in copies {
                let Some(entry) = known.entries.get_mut(name) else { continue };
                let mut new = ScanEntry::clone(entry);
                if new.add_copy(copy) {
                    *entry = Arc::new(new);
                    changed.push(name.clone());
                }
            }
        }
        lock(&self.unwritten).names.extend(changed);
    }

    /// Reads the indexes of a scan.
    fn read(&self, name: &str) {
        let before = lock(&self.known).entries.get(name).cloned();
        let Some(before) = before else { return };
        let read = ScanFacts::of(&self.disks, name, DISK_ANSWER_TIMEOUT);
        let mut new = ScanEntry::clone(&before);
        match read {
            Ok(facts) => {
                let (facts, unseen) = KeptFacts::of(facts, &self.disks);
                (new.facts, new.unseen) = (Some(facts), unseen);
                (new.is_stale, new.problem) = (false, None);
            }
            Err(error) => new.problem = Some(skyhaul::core::hint::split(&error.to_string()).0.to_owned()),
        }
        {
            let mut known = lock(&self.known);
            known.reads += 1;
            // If it was forgotten or found anew meanwhile, it is read again.
            match known.entries.get_mut(name) {
                Some(entry) if Arc::ptr_eq(entry, &before) => *entry = Arc::new(new),
                _ => return,
            }
            known.unread = known.unread.saturating_sub(1);
        }
        lock(&self.unwritten).names.insert(name.to_owned());
    }

    /// Whether its indexes say that its recorder was cut, on disks that all answered.
    fn is_interrupted(&self, name: &str) -> Option<bool> {
        let known = lock(&self.known);
        let entry = known.entries.get(name)?;
        let is_read = !entry.is_stale && entry.unseen.is_empty();
        Some(is_read && entry.facts.as_ref()?.state == State::Interrupted)
    }

    /// Writes what has changed, on the thread of the file.
    fn write(&self, file: &mut CatalogueFile) {
        if file.is_to_be_loaded() && !self.load(file) {
            return;
        }
        let mut unwritten = std::mem::take(&mut *lock(&self.unwritten));
        let after = |after: Option<&str>, count: usize| batch(&lock(&self.known).entries, after, count);
        let one = |name: &str| lock(&self.known).entries.get(name).cloned();
        let done = file.write(&mut unwritten, &after, &one);
        {
            // What was not written stays, with what has changed meanwhile.
            let mut now = lock(&self.unwritten);
            now.all |= unwritten.all;
            now.names.append(&mut unwritten.names);
        }
        if let Some(done) = done {
            lock(&self.file).note(file.path(), done);
        }
    }
}
