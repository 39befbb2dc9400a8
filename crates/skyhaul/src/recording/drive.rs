//! One disk's thread: write, make durable, record, acknowledge.
//!
//! ```text
//!   work ─▶ fill, start ─▶ writing ─▶ written ─▶ commit: sync data + directory
//!            │ checksum meanwhile                └─▶ append records ─▶ sync index ─▶ acknowledged
//!            └─ error anywhere ─▶ partial file removed, chunk to another disk, this one retired
//! ```
//!
//! Chunks that are written while a commit is under way share the next one (group commit).

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use skyhaul_io::disk::{self, Disk, Done, Log};
use skyhaul_io::memory;

use super::dispatch::{ASSUMED, Dispatch, Flying, Lane, Ready, Work};
use super::names;
use super::record::{ChunkRecord, Record};
use super::report::DiskState;
use super::writer::{Chunk, SyncPolicy};

/// Tokens of syncs that are of no chunk.
const INDEX: u64 = u64::MAX;
const DIRECTORY: u64 = u64::MAX - 1;
/// Chunks written but not committed, at most (each holds an open file).
const MOST_UNCOMMITTED: usize = 64;
/// Time between looks at free space and at other disks.
const TICK: Duration = Duration::from_millis(250);
/// How long a chunk's record may be, without its missing ranges.
const RECORD_BYTES: u64 = 1024;

/// Chunks on their way to durability.
#[derive(Debug)]
struct Commit {
    tokens: Vec<u64>,
    waiting: usize,
    /// Data are durable, records are being synced.
    recorded: bool,
    error: Option<io::Error>,
}

/// One disk's thread.
#[derive(Debug)]
pub(super) struct Drive {
    index: usize,
    dispatch: Arc<Dispatch>,
    disk: Disk,
    log: Log,
    directories: HashMap<u32, (String, Arc<File>)>,
    dirty_directories: BTreeSet<u32>,
    jobs: HashMap<u64, Arc<Ready>>,
    next_token: u64,
    written: Vec<u64>,
    commit: Option<Commit>,
    log_dirty: bool,
    committed_at: Instant,
    ticked_at: Instant,
    done_at: Instant,
}

impl Drive {
    pub(super) fn new(index: usize, dispatch: Arc<Dispatch>, disk: Disk, log: Log) -> Drive {
        let now = Instant::now();
        Drive {
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

    fn lane(&self) -> &Lane {
        &self.dispatch.lanes[self.index]
    }

    /// Work until the recording ends.
    pub(super) fn run(mut self) {
        let mut done = Vec::new();
        loop {
            // The order matters: what was told before the end is written before it.
            let ending = self.dispatch.is_ending();
            self.take_notes();
            while self.disk.has_room() && self.written.len() < MOST_UNCOMMITTED {
                let Some(work) = self.next_work() else { break };
                self.begin(work);
            }
            self.commit_if_due();
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
        }
        let recorded = self.commit.take().filter(|commit| commit.recorded).map(|commit| commit.tokens);
        if self.log.finish().is_ok() {
            recorded.into_iter().flatten().for_each(|token| self.acknowledge(token));
        }
        // What is still under way at the end is not acknowledged: no half file stays behind.
        for token in std::mem::take(&mut self.jobs).into_keys() {
            self.disk.discard(token);
        }
    }

    fn take_notes(&mut self) {
        let notes: Vec<_> = self.lane().state().notes.drain(..).collect();
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
        let path = self.lane().path.join(&name);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        disk::open_directory(&self.lane().path)?.sync_all()?;
        self.directories.insert(datastream, (name, disk::open_directory(&path)?));
        Ok(())
    }

    fn next_work(&self) -> Option<Work> {
        let mine = self.lane().state().work.pop_front();
        mine.or_else(|| self.dispatch.steal(self.index))
    }

    fn begin(&mut self, work: Work) {
        let ready = match work {
            Work::Fresh(chunk) => Arc::new(self.prepare(*chunk)),
            Work::Again(ready) if ready.settled.load(Ordering::Acquire) => return,
            Work::Again(ready) => ready,
        };
        let token = self.next_token;
        self.next_token += 1;
        let flying = Flying { ready: ready.clone(), since: Instant::now(), written: false };
        self.lane().state().flying.insert(token, flying);
        self.jobs.insert(token, ready.clone());
        if let Err(error) = self.start(token, &ready) {
            self.spoil(token, &error);
            return;
        }
        // The disk works while the checksum is made.
        let mut done = Vec::new();
        let polled = self.disk.poll(Duration::ZERO, &mut done);
        ready.crc32c.get_or_init(|| crc32c::crc32c(&ready.view));
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
        self.log.reserve(records + ready.meta.missing.len() as u64 * 24)?;
        if !self.directories.contains_key(&ready.datastream) {
            // The datastream is newer than the notes that were read before this chunk was taken.
            self.take_notes();
        }
        let Some((name, _)) = self.directories.get(&ready.datastream) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the datastream's directory could not be made",
            ));
        };
        let path = names::chunk_path(&self.lane().path, name, ready.number);
        self.disk.start(token, &path, ready.view.clone())?;
        self.dirty_directories.insert(ready.datastream);
        Ok(())
    }

    /// Fill the holes; from here on nothing in the block changes.
    fn prepare(&self, chunk: Chunk) -> Ready {
        let Chunk { datastream, number, mut block, range, meta, finish } = chunk;
        let unit = self.dispatch.unit(datastream.0);
        if let Some(fill) = finish
            && unit > 0
        {
            for missing in &meta.missing {
                let from = range.start + missing.start as usize * unit;
                let to = range.start + missing.end as usize * unit;
                if from < to && to <= range.end {
                    fill(&meta, missing.clone(), block.part_mut(from..to));
                }
            }
        }
        let stream = stream_key(self.dispatch.session, datastream.0);
        let (start, length) = (range.start as u64, range.len() as u64);
        block.publish(memory::peek::Label { stream, number: u64::from(number), start, length });
        Ready {
            datastream: datastream.0,
            number,
            view: block.view(range),
            meta,
            crc32c: OnceLock::new(),
            settled: AtomicBool::new(false),
            avoid: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
        }
    }

    fn settle(&mut self, end: Done) {
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
        let mut state = self.lane().state();
        state.seconds_per_byte = 0.8 * state.seconds_per_byte + 0.2 * (busy / bytes).max(1e-12);
        state.latency.add(time);
        state.chunks += 1;
        state.bytes += ready.view.len() as u64;
        if state.health == DiskState::Stalled {
            state.health = DiskState::Active;
        }
        if let Some(flying) = state.flying.get_mut(&token) {
            flying.written = true;
        }
        state.means = self.disk.means().clone();
        drop(state);
        self.written.push(token);
    }

    fn until_commit(&self) -> Duration {
        match self.dispatch.sync {
            SyncPolicy::Interval(time) if !self.written.is_empty() => {
                time.saturating_sub(self.committed_at.elapsed())
            }
            _ => TICK,
        }
    }

    fn commit_if_due(&mut self) {
        if self.commit.is_some() || (self.written.is_empty() && !self.log_dirty) {
            return;
        }
        let due = match self.dispatch.sync {
            SyncPolicy::Chunk | SyncPolicy::None => true,
            SyncPolicy::Interval(time) => {
                self.committed_at.elapsed() >= time
                    || self.written.len() >= MOST_UNCOMMITTED
                    || self.dispatch.is_closed()
                    || self.memory_is_short()
            }
        };
        if !due {
            return;
        }
        self.committed_at = Instant::now();
        let tokens = std::mem::take(&mut self.written);
        let (late, tokens) = tokens.into_iter().partition(|token| self.is_settled(*token));
        // Another disk was faster with these.
        let late: Vec<u64> = late;
        for token in late {
            self.disk.discard(token);
            self.forget(token);
        }
        let mut commit = Commit { tokens, waiting: 0, recorded: false, error: None };
        if self.dispatch.sync != SyncPolicy::None {
            for &token in &commit.tokens {
                self.disk.sync(token);
                commit.waiting += 1;
            }
            for datastream in std::mem::take(&mut self.dirty_directories) {
                if let Some((_, directory)) = self.directories.get(&datastream) {
                    self.disk.sync_file(DIRECTORY, directory.clone());
                    commit.waiting += 1;
                }
            }
        }
        self.commit = Some(commit);
        self.commit_on();
    }

    fn is_settled(&self, token: u64) -> bool {
        self.jobs.get(&token).is_none_or(|ready| ready.settled.load(Ordering::Acquire))
    }

    fn memory_is_short(&self) -> bool {
        let pool = self.jobs.values().next().map(|ready| ready.view.pool());
        pool.is_some_and(|pool| pool.free() * 4 < pool.blocks())
    }

    fn synced(&mut self, token: u64, result: io::Result<()>) {
        let Some(commit) = &mut self.commit else { return };
        commit.waiting = commit.waiting.saturating_sub(1);
        match result {
            Ok(()) => {}
            Err(error) if token == INDEX || token == DIRECTORY => commit.error = Some(error),
            Err(error) => {
                commit.tokens.retain(|&other| other != token);
                self.spoil(token, &error);
            }
        }
        self.commit_on();
    }

    /// The next step of the commit, when the last one is over.
    fn commit_on(&mut self) {
        let Some(mut commit) = self.commit.take_if(|commit| commit.waiting == 0) else { return };
        if commit.error.is_none() && !commit.recorded {
            commit.recorded = true;
            match self.append_records(&commit.tokens) {
                Err(error) => commit.error = Some(error),
                Ok(()) if self.dispatch.sync == SyncPolicy::None => {}
                Ok(()) => {
                    commit.waiting = 1;
                    self.disk.sync_file(INDEX, self.log.file().clone());
                    self.commit = Some(commit);
                    return;
                }
            }
        }
        for token in commit.tokens {
            match &commit.error {
                Some(error) => self.spoil(token, error),
                None => self.acknowledge(token),
            }
        }
        if let Some(error) = commit.error {
            self.trouble(&error);
        }
    }

    fn append_records(&mut self, tokens: &[u64]) -> io::Result<()> {
        self.log_dirty = false;
        if self.log.file().metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the scan's directory was removed"));
        }
        let mut text = String::new();
        for ready in tokens.iter().filter_map(|token| self.jobs.get(token)) {
            let record = ChunkRecord {
                datastream: ready.datastream,
                number: ready.number,
                bytes: ready.view.len() as u64,
                crc32c: *ready.crc32c.get_or_init(|| crc32c::crc32c(&ready.view)),
                adopted: false,
                meta: ready.meta.clone(),
            };
            text.push_str(&Record::Chunk(record).to_line());
        }
        if text.is_empty() {
            return Ok(());
        }
        self.log.append(text.as_bytes())
    }

    fn acknowledge(&mut self, token: u64) {
        self.disk.close(token);
        let Some(ready) = self.forget(token) else { return };
        if self.dispatch.acknowledge(&ready) {
            self.lane().state().acknowledged_bytes += ready.view.len() as u64;
        }
    }

    fn forget(&mut self, token: u64) -> Option<Arc<Ready>> {
        self.lane().state().flying.remove(&token);
        self.jobs.remove(&token)
    }

    /// This disk failed a chunk: what is on it of the chunk is removed, another disk gets it.
    fn spoil(&mut self, token: u64, error: &io::Error) {
        self.disk.discard(token);
        self.written.retain(|&other| other != token);
        let Some(ready) = self.forget(token) else { return };
        ready.avoid.fetch_or(1 << (self.index % 64), Ordering::Relaxed);
        self.trouble(error);
        self.dispatch.give_again(Work::Again(ready));
    }

    /// Judge the disk by an error it gave.
    fn trouble(&self, error: &io::Error) {
        let health = match error.kind() {
            // Somebody else's file has the name: no fault of the disk.
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
        let free = disk::free_bytes(&self.lane().path);
        let mut state = self.lane().state();
        if state.health != DiskState::Active {
            return;
        }
        match free {
            Ok(free) => {
                let waiting: u64 = state.work.iter().map(Work::bytes).sum();
                state.free_bytes = free;
                state.free = free.saturating_sub(self.dispatch.reserve).saturating_sub(waiting);
                // An estimate of long ago is forgotten, so that a disk that was slow once is tried again.
                if state.flying.is_empty() && state.work.is_empty() {
                    state.seconds_per_byte = 0.99 * state.seconds_per_byte + 0.01 * ASSUMED;
                }
            }
            Err(error) => {
                drop(state);
                self.trouble(&error);
            }
        }
    }
}

/// The name of a datastream in a shared pool.
pub(super) fn stream_key(session: u64, datastream: u32) -> u64 {
    session.wrapping_add(u64::from(datastream))
}
