//! One disk's thread: write, make durable, record, acknowledge.
//!
//! ```text
//!   work ─▶ fill, start ─▶ writing ─▶ written ─▶ commit: sync data + directory
//!            │ checksum meanwhile                └─▶ append records ─▶ sync index ─▶ acknowledged
//!            └─ error anywhere ─▶ partial file removed, chunk to another disk, this one retired
//! ```
//!
//! Chunks that are written while a commit is under way share the next one (group commit).

pub(super) mod commit;

use crate::recording::contents;
use crate::recording::index::record::{Checksums, PART_BYTES};
use crate::recording::report::DiskState;
use crate::recording::write::copies::Copies;
use crate::recording::write::dispatch::{Dispatch, TICK};
use crate::recording::write::options::Chunk;
use crate::recording::write::queue::{ASSUMED_SECONDS_PER_BYTE, InFlight, Ready, SharedDisk, Work};
use skyhaul_io::disk::{self, Disk, Done, Log};
use skyhaul_io::memory;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a chunk's record may be, without its missing ranges.
const RECORD_BYTES: u64 = 1024;

/// Maximum number of chunks written but not committed (each holds an open file).
pub(super) const MAX_UNCOMMITTED: usize = 64;

/// Chunks being made durable.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) tokens: Vec<u64>,
    pub(super) waiting: usize,
    /// Data are durable, records are being synced.
    pub(super) recorded: bool,
    pub(super) error: Option<io::Error>,
}

/// One disk's thread.
#[derive(Debug)]
pub(super) struct DiskThread {
    pub(super) index: usize,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) disk: Disk,
    pub(super) log: Log,
    pub(super) directories: HashMap<u32, (String, Arc<File>)>,
    pub(super) dirty_directories: BTreeSet<u32>,
    pub(super) jobs: HashMap<u64, Arc<Ready>>,
    pub(super) next_token: u64,
    pub(super) written: Vec<u64>,
    pub(super) commit: Option<Commit>,
    pub(super) log_dirty: bool,
    pub(super) committed_at: Instant,
    pub(super) ticked_at: Instant,
    pub(super) done_at: Instant,
}

impl DiskThread {
    pub(super) fn new(index: usize, dispatch: Arc<Dispatch>, disk: Disk, log: Log) -> DiskThread {
        let now = Instant::now();
        DiskThread {
            index,
            dispatch,
            disk,
            log,
            directories: HashMap::new(),
            dirty_directories: BTreeSet::new(),
            jobs: HashMap::new(),
            next_token: 0,
            written: Vec::new(),
            commit: None,
            log_dirty: false,
            committed_at: now,
            ticked_at: now,
            done_at: now,
        }
    }

    pub(super) fn shared(&self) -> &SharedDisk {
        &self.dispatch.disks[self.index]
    }

    /// Work until the recording ends.
    pub(super) fn run(mut self) {
        let mut done = Vec::new();
        loop {
            // The order matters: notes made before the end are written before it.
            let ending = self.dispatch.is_ending();
            self.shared().state().seen = Instant::now();
            self.take_notes();
            while self.disk.has_room() && self.written.len() < MAX_UNCOMMITTED {
                let Some(work) = self.next_work() else { break };
                self.begin(work);
                self.shared().state().seen = Instant::now();
            }
            self.commit_if_due();
            self.show_demand();
            if ending {
                break;
            }
            if let Err(error) = self.disk.poll(TICK.min(self.until_commit()), &mut done) {
                self.give_up(&error);
                return;
            }
            for end in done.drain(..) {
                self.settle(end);
            }
            self.tick();
            self.show_demand();
        }
        self.await_records();
        if let Err(error) = self.log.finish() {
            self.trouble(&error);
        }
        // Unfinished chunks are not acknowledged at the end; no partial file is left.
        for token in std::mem::take(&mut self.jobs).into_keys() {
            self.disk.discard(token);
        }
    }

    fn show_demand(&self) {
        self.shared().state().is_committing = self.commit.is_some();
        self.dispatch.show_demand(self.index);
    }

    fn take_notes(&mut self) {
        let notes: Vec<_> = self.shared().state().notes.drain(..).collect();
        if notes.is_empty() {
            return;
        }
        let mut text = String::new();
        for note in notes {
            text.push_str(&note.line);
            if let Some((datastream, name)) = note.directory
                && let Err(error) = self.make_directory(datastream, name)
            {
                self.trouble(&error);
            }
        }
        let appended = self.log.reserve(text.len() as u64).and_then(|()| self.log.append(text.as_bytes()));
        match appended {
            Ok(()) => self.log_dirty = true,
            Err(error) => self.trouble(&error),
        }
    }

    fn make_directory(&mut self, datastream: u32, name: String) -> io::Result<()> {
        if self.directories.contains_key(&datastream) {
            return Ok(());
        }
        let path = self.shared().path.join(&name);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        disk::open_directory(&self.shared().path)?.sync_all()?;
        self.directories.insert(datastream, (name, disk::open_directory(&path)?));
        Ok(())
    }

    fn next_work(&self) -> Option<Work> {
        let is_short = self.dispatch.is_memory_short();
        let mut state = self.shared().state();
        // What a slow disk writes keeps its memory: then one copy at a time, and data as ever.
        if is_short && state.is_writing() {
            return state.pop_data();
        }
        let mine = state.pop();
        drop(state);
        mine.or_else(|| self.dispatch.steal(self.index))
    }

    fn begin(&mut self, work: Work) {
        let is_fresh = matches!(work, Work::Fresh(_));
        let ready = match work {
            Work::Fresh(chunk) => {
                self.shared().state().preparing = Some((chunk.datastream.0, chunk.number));
                Arc::new(self.prepare(*chunk))
            }
            Work::Again(ready) if ready.settled.load(Ordering::Acquire) => return,
            // Other disks had it to spare while this one hung, and hang themselves by now.
            Work::Again(ready) if self.jobs.values().any(|job| Arc::ptr_eq(job, &ready)) => return,
            Work::Again(ready) => ready,
        };
        let token = self.next_token;
        self.next_token += 1;
        let flying = InFlight { ready: ready.clone(), since: Instant::now(), written: false };
        let mut state = self.shared().state();
        state.flying.insert(token, flying);
        state.preparing = None;
        drop(state);
        self.jobs.insert(token, ready.clone());
        if is_fresh {
            self.dispatch.give_copies(&ready);
        }
        if let Err(error) = self.start(token, &ready) {
            self.spoil(token, &error);
            return;
        }
        // The disk works while the checksum is made.
        let mut done = Vec::new();
        let polled = self.disk.poll(Duration::ZERO, &mut done);
        ready.checksums.get_or_init(|| Checksums::of(&ready.view));
        for end in done {
            self.settle(end);
        }
        if let Err(error) = polled {
            self.spoil(token, &error);
        }
    }

    fn start(&mut self, token: u64, ready: &Ready) -> io::Result<()> {
        // An index line must fit even on a disk that is full by then.
        let records = (self.jobs.len() as u64 + 1) * RECORD_BYTES;
        let parts = ready.view.len() as u64 / PART_BYTES * 8;
        self.log.reserve(records + parts + ready.meta.missing.len() as u64 * 24)?;
        if !self.directories.contains_key(&ready.datastream) {
            // The datastream is newer than the notes that were read before this chunk was taken.
            self.take_notes();
        }
        let Some((name, _)) = self.directories.get(&ready.datastream) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the datastream's directory could not be created",
            ));
        };
        let path = contents::chunk_path(&self.shared().path, name, ready.number);
        self.disk.start(token, &path, ready.view.clone())?;
        self.dirty_directories.insert(ready.datastream);
        Ok(())
    }

    /// Fill the holes; from here on nothing in the block changes.
    fn prepare(&self, chunk: Chunk) -> Ready {
        let Chunk { datastream, number, mut block, range, meta, finish } = chunk;
        if let Some(fill) = finish.filter(|_| !meta.missing.is_empty()) {
            fill(&meta, &mut block, range.clone());
        }
        let stream = stream_key(self.dispatch.session, datastream.0);
        let (start, length) = (range.start as u64, range.len() as u64);
        block.publish(memory::peek::Label { stream, number: u64::from(number), start, length });
        Ready {
            datastream: datastream.0,
            number,
            view: block.into_view(range),
            meta,
            checksums: OnceLock::new(),
            settled: AtomicBool::new(false),
            copies: (self.dispatch.copies > 1).then(|| Copies::on(self.index)),
            avoid: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
        }
    }

    pub(super) fn settle(&mut self, end: Done) {
        match end {
            Done::Written(token, Ok(time)) => self.written(token, time),
            Done::Written(token, Err(error)) => self.spoil(token, &error),
            Done::Synced(token, result) => self.synced(token, result),
        }
    }

    fn written(&mut self, token: u64, time: Duration) {
        let now = Instant::now();
        // Time in which the disk was busy since the chunk before this one.
        let busy = time.min(now - self.done_at).as_secs_f64();
        self.done_at = now;
        let Some(ready) = self.jobs.get(&token).cloned() else { return };
        let bytes = ready.view.len() as f64;
        let mut state = self.shared().state();
        state.seconds_per_byte = 0.8 * state.seconds_per_byte + 0.2 * (busy / bytes).max(1e-12);
        state.latency.add(time);
        state.chunks += 1;
        state.bytes += ready.view.len() as u64;
        if let Some(flying) = state.flying.get_mut(&token) {
            flying.written = true;
        }
        state.means = self.disk.means().clone();
        drop(state);
        self.dispatch.resume(self.index);
        self.written.push(token);
    }

    pub(super) fn forget(&mut self, token: u64) -> Option<Arc<Ready>> {
        self.shared().state().flying.remove(&token);
        self.jobs.remove(&token)
    }

    /// This disk failed a chunk: remove its part of the chunk, and give the chunk to another disk.
    pub(super) fn spoil(&mut self, token: u64, error: &io::Error) {
        self.disk.discard(token);
        self.written.retain(|&other| other != token);
        let Some(ready) = self.forget(token) else { return };
        ready.avoid.fetch_or(1 << (self.index % 64), Ordering::Relaxed);
        self.trouble(error);
        let work = Work::Again(ready);
        work.leave(self.index);
        self.dispatch.give_again(work);
    }

    /// Judge the disk by an error.
    pub(super) fn trouble(&self, error: &io::Error) {
        let health = match error.kind() {
            // Another program's file has the name: not a fault of the disk.
            io::ErrorKind::AlreadyExists => return,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskState::Full,
            _ => DiskState::Failed,
        };
        self.dispatch.retire(self.index, health, &error.to_string());
    }

    /// The ring itself broke: all that is under way here goes elsewhere.
    fn give_up(&mut self, error: &io::Error) {
        for token in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.spoil(token, error);
        }
        self.trouble(error);
    }

    fn tick(&mut self) {
        if self.ticked_at.elapsed() < TICK {
            return;
        }
        self.ticked_at = Instant::now();
        self.dispatch.watch(self.index);
        self.dispatch.resume(self.index);
        let free = disk::free_bytes(&self.shared().path);
        if let Ok(free) = free {
            self.dispatch.watch_free(self.index, free);
        }
        let mut state = self.shared().state();
        if !state.is_usable() {
            return;
        }
        match free {
            Ok(free) if free <= self.dispatch.reserve => {
                state.free_bytes = free;
                drop(state);
                let text = format!("{free} bytes are free, {} must remain free", self.dispatch.reserve);
                self.dispatch.retire(self.index, DiskState::Full, &text);
                self.shared().state().out_of_space = true;
            }
            Ok(free) => {
                let waiting = state.waiting;
                state.free_bytes = free;
                state.free = free.saturating_sub(self.dispatch.reserve).saturating_sub(waiting);
                // An old estimate is discarded, so that a disk that was slow is tried again.
                if state.flying.is_empty() && state.waiting == 0 {
                    state.seconds_per_byte = 0.95 * state.seconds_per_byte + 0.05 * ASSUMED_SECONDS_PER_BYTE;
                }
            }
            Err(error) => {
                drop(state);
                self.trouble(&error);
            }
        }
    }
}

impl Drop for DiskThread {
    fn drop(&mut self) {
        self.shared().end_demand();
    }
}

/// The name of a datastream in a shared pool.
pub(in crate::recording) fn stream_key(session: u64, datastream: u32) -> u64 {
    session.wrapping_add(u64::from(datastream))
}
