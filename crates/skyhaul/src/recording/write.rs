//! Writes chunks to many disks in parallel.
//!
//! ```no_run
//! use std::time::Duration;
//! use skyhaul::recording::*;
//! use skyhaul_io::memory::{Pool, PoolOptions};
//!
//! let pool = Pool::new(&PoolOptions::default())?;
//! let options = WriterOptions { pool: Some(pool.clone()), ..WriterOptions::new(["/data/d1", "/data/d2"], "exp_st_no0001") };
//! let writer = Writer::create(&options)?;
//! let stream = writer.add_datastream(&DatastreamInfo { unit_bytes: 8032, units: 2000, ..Default::default() });
//! let mut block = pool.take().expect("the pool is not empty");
//! block.place(0, &[0; 8032]);
//! let meta = ChunkMeta { units: 1, ..Default::default() };
//! writer.submit(Chunk { datastream: stream, number: 0, block, range: 0..8032, meta, finish: None })?;
//! let report = writer.finish(Duration::from_secs(60));
//! assert!(report.is_whole());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A disk without room for a chunk is *full* from that chunk on, in every report, and not only when its last byte is gone. It
//! is used again when space is freed on it, and so is one whose free space other programs took. A disk on which a write failed for
//! lack of space is not used again in this scan.

pub(super) mod account;
pub(super) mod copies;
pub(super) mod disk_thread;
pub(super) mod dispatch;
mod give_copies;
pub(super) mod opening;
pub(super) mod options;
pub(super) mod presence;
pub(super) mod queue;

use super::contents::{Label, MAX_CHUNK_NUMBER};
use super::index::record::{Datastream, DatastreamInfo, MemoryFile, Record, Session, VERSION};
use super::report::{DiskState, DiskStatus, Event, RecordingReport, SpaceReport};
use crate::ledger::{Discard, FrameLedger};
use dispatch::Dispatch;
use options::{Chunk, DatastreamId, Existing, Refusal, Refused, WriterError, WriterOptions};
use queue::{Candidate, Looked, Note, SharedDisk, Work};
use skyhaul_core::hint::Hint;
use skyhaul_core::redundancy;
use skyhaul_io::disk::{Disk, DiskOptions};
use skyhaul_io::lock::lock;
use skyhaul_io::memory::Pool;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Minimum time for a disk to confirm its chunks at the end.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a disk that hangs may take to end.
const HANGING_TIMEOUT: Duration = Duration::from_secs(3);

/// A recording that is being written.
#[derive(Debug)]
pub struct Writer {
    dispatch: Arc<Dispatch>,
    threads: Vec<JoinHandle<()>>,
    label: Label,
    /// The disks as the index names them.
    disks: Vec<PathBuf>,
    session: String,
    started: (jiff::Timestamp, Instant),
    finished: bool,
}

impl Writer {
    /// Create the scan's directories and indexes, and start one thread for each disk. A disk that does not respond holds nobody up: the
    /// scan begins on the others, and it joins when it responds.
    ///
    /// # Errors
    /// The scan name is invalid or taken, one of the disks cannot be written to, or none responds; nothing is recorded.
    pub fn create(options: &WriterOptions) -> Result<Writer, WriterError> {
        let named = options.disks.clone();
        let options = &options.at_stage();
        let (mut opening, looked) = options.look()?;
        let disks = options.disks.iter().enumerate();
        let disks: Vec<Disk> = disks.map(|(index, _)| engine(options, index)).collect::<Result<_, _>>()?;
        let most = if options.existing == Existing::Letter { 53 } else { 1 };
        let label = opening.claim(&Label::new(&options.scan)?, most)?;
        let number = random_number();
        let started = (jiff::Timestamp::now(), Instant::now());
        let session = Session {
            index: VERSION,
            session: format!("{number:016x}"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scan: label.to_string(),
            disks: named.clone(),
            disk: 0,
            started: started.0.to_string(),
            pid: std::process::id(),
            memory: memory_file(options.pool.as_ref()),
            copies: options.copies,
            metadata: options.metadata.clone(),
        };
        let logs = opening.arm(|disk| Record::Session(Session { disk, ..session.clone() }).to_line())?;
        let shared = options.disks.iter().zip(&disks);
        let shared = shared
            .map(|(path, disk)| SharedDisk::new(path.clone(), disk, options.staged_in.is_none()))
            .collect();
        let dispatch = Arc::new(Dispatch::new(shared, number, options));
        dispatch.begin(&logs, &looked);
        note_shared_devices(&dispatch, &looked);
        dispatch.note_full_disks();
        let threads = opening.go(&dispatch, disks);
        let session = session.session;
        Ok(Writer { dispatch, threads, label, disks: named, session, started, finished: false })
    }

    /// The scan's label as it is on disk.
    #[must_use]
    pub fn scan(&self) -> &str {
        self.label.as_str()
    }

    /// Add a datastream; may be called while others are recorded. If its name is taken, it gets another.
    pub fn add_datastream(&self, info: &DatastreamInfo) -> DatastreamId {
        let mut ledger = self.dispatch.ledger();
        let mut info = info.clone();
        // Streams of frames and heaps are numbered apart.
        for n in ledger.count().. {
            if !ledger.has(&self.datastream_name(&info)) {
                break;
            }
            info.suffix = format!("_ds{n}");
        }
        let name = self.datastream_name(&info);
        let datastream =
            ledger.open(name.clone(), info.sender.clone(), crate::frames::packets_per_frame(&info));
        drop(ledger);
        self.describe(datastream, name, &info);
        DatastreamId(datastream)
    }

    /// Update the description of a datastream (for example its frame rate): readers use the latest. Its suffix does not
    /// change.
    pub fn update_datastream(&self, datastream: DatastreamId, info: &DatastreamInfo) {
        let name = self.dispatch.ledger().name(datastream.0).map(str::to_owned);
        if let Some(name) = name {
            self.describe(datastream.0, name, info);
        }
    }

    /// Counts `frames` that were lost before chunks of a datastream that were submitted, beyond what their gaps count. `has_open_gaps`:
    /// more may have been lost, because the frame rate is not known.
    pub fn settle(&self, datastream: DatastreamId, frames: u64, has_open_gaps: bool) {
        self.dispatch.ledger().settle(datastream.0, frames, has_open_gaps);
    }

    /// A suffix must not lead out of the disk's directory, nor break FlexBuff's names.
    fn datastream_name(&self, info: &DatastreamInfo) -> String {
        let legal = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
        format!("{}{}", self.label, info.suffix.chars().map(legal).collect::<String>())
    }

    fn describe(&self, datastream: u32, name: String, info: &DatastreamInfo) {
        let line =
            Record::Datastream(Datastream { datastream, name: name.clone(), info: info.clone() }).to_line();
        self.dispatch.broadcast(&Note { line, directory: Some((datastream, name)) });
    }

    /// Submit a chunk to the disks. Never blocks.
    ///
    /// # Errors
    /// The chunk is returned with the reason; `NoDisk` is counted as a loss.
    pub fn submit(&self, chunk: Chunk) -> Result<(), Refused> {
        let refuse = |reason, chunk| Err(Refused { reason, chunk });
        let chunk = Box::new(chunk);
        let range = &chunk.range;
        let given = chunk.meta.given(range.len() as u64);
        if self.dispatch.is_closed() {
            self.dispatch.ledger().refuse(chunk.datastream.0, &given);
            return refuse(Refusal::Closed, chunk);
        }
        let valid =
            chunk.number <= MAX_CHUNK_NUMBER && range.start < range.end && range.end <= chunk.block.len();
        if !valid || !self.dispatch.ledger().submit(chunk.datastream.0, chunk.number, given) {
            self.dispatch.ledger().refuse(chunk.datastream.0, &given);
            return refuse(Refusal::Invalid, chunk);
        }
        let (datastream, number) = (chunk.datastream.0, chunk.number);
        self.dispatch.watch_all();
        self.dispatch.shed_copies();
        self.dispatch.watch_space(given.bytes);
        match self.dispatch.give(Work::Fresh(chunk), 0) {
            Ok(()) => Ok(()),
            Err(Work::Fresh(chunk)) => {
                self.dispatch.lose(datastream, number, self.dispatch.why_none());
                refuse(Refusal::NoDisk, chunk)
            }
            // What comes back is what was given.
            Err(Work::Again(_)) => Ok(()),
        }
    }

    /// Keep `text` in the report and in every index, under a short `kind`.
    pub fn note(&self, kind: &str, text: &str) {
        self.keep_event(Event::now(kind, None, text.to_owned()));
    }

    /// Keep what happened elsewhere in the report and in every index.
    pub fn keep_event(&self, event: Event) {
        self.dispatch.event(event, None);
    }

    /// The program was paused for `time`, which must not count as slowness of a disk.
    pub fn paused(&self, time: Duration) {
        self.dispatch.forgive(time);
    }

    /// Free space, and how long it lasts.
    #[must_use]
    pub fn space(&self) -> SpaceReport {
        self.dispatch.space_report()
    }

    /// The events, from number `from` on.
    #[must_use]
    pub fn events_from(&self, from: usize) -> Vec<Event> {
        self.dispatch.ledger().events_from(from)
    }

    /// The fate of the frames so far.
    #[must_use]
    pub fn ledger(&self) -> FrameLedger {
        self.dispatch.ledger().frames()
    }

    /// Bytes that were received and given up so far.
    #[must_use]
    pub fn lost_bytes(&self) -> u64 {
        self.dispatch.ledger().lost_bytes()
    }

    /// Bytes that are durable so far, each counted once however many copies it has.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.dispatch.ledger().acknowledged_bytes()
    }

    /// The current state of each disk.
    #[must_use]
    pub fn status(&self) -> Vec<DiskStatus> {
        let named = self.dispatch.status().into_iter().zip(&self.disks);
        named.map(|(status, disk)| DiskStatus { path: disk.clone(), ..status }).collect()
    }

    /// The current account.
    #[must_use]
    pub fn report(&self) -> RecordingReport {
        let books = self.dispatch.ledger();
        let (events, events_dropped) = books.events();
        let (datastreams, ledger) = (books.reports(), books.frames());
        drop(books);
        RecordingReport {
            space: self.dispatch.space_report(),
            ledger,
            scan: self.label.to_string(),
            session: self.session.clone(),
            started: self.started.0.to_string(),
            ended: jiff::Timestamp::now().to_string(),
            seconds: self.started.1.elapsed().as_secs_f64(),
            datastreams,
            disks: self.status(),
            events,
            events_dropped,
            adopted: false,
        }
    }

    /// Accept no more chunks, wait at most `deadline` until all are durable, write the account to every index, and stop.
    #[must_use]
    pub fn finish(mut self, deadline: Duration) -> RecordingReport {
        self.end(deadline)
    }

    fn end(&mut self, deadline: Duration) -> RecordingReport {
        self.finished = true;
        let end = Instant::now() + deadline;
        self.dispatch.close();
        self.dispatch.wait_settled(end, HANGING_TIMEOUT);
        if self.dispatch.ledger().end_copies() > 0 {
            self.dispatch.note_copies(false);
        }
        self.dispatch.look_for_acknowledged(end.max(Instant::now() + CONFIRM_TIMEOUT));
        self.dispatch.give_up_silent_disks();
        let line = Record::End(Box::new(self.report())).to_line();
        self.dispatch.broadcast(&Note { line, directory: None });
        self.dispatch.end();
        self.wait_for_disks(end);
        self.threads.clear();
        self.report()
    }

    /// Waits until the disks have written the account. A thread in a system call that does not return is left behind; the process's end
    /// takes it along. On a disk that was seen to hang nobody waits for long, nor on one that hangs when another is done, nor on one that
    /// was silent from the beginning.
    fn wait_for_disks(&self, end: Instant) {
        let soon = Instant::now() + HANGING_TIMEOUT;
        let mut end = end.max(soon);
        let is_silent = |index: usize| self.dispatch.disks[index].log().is_none();
        let hangs = |index: usize| self.dispatch.disks[index].state().health == DiskState::Stalled;
        let mut is_any_done = false;
        loop {
            let now = Instant::now();
            let mut is_any_awaited = false;
            for (index, thread) in self.threads.iter().enumerate().filter(|&(index, _)| !is_silent(index)) {
                match thread.is_finished() {
                    true if !is_any_done => {
                        is_any_done = true;
                        end = end.min(now + CONFIRM_TIMEOUT);
                    }
                    true => {}
                    false => is_any_awaited |= now < if hangs(index) { soon } else { end },
                }
            }
            if !is_any_awaited {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            self.end(Duration::from_secs(5));
        }
    }
}

/// What writes to one disk.
fn engine(options: &WriterOptions, index: usize) -> Result<Disk, WriterError> {
    let faults = options.faults.iter().find(|(disk, _)| *disk == index);
    let disk_options = DiskOptions {
        engine: options.engine,
        direct: options.direct,
        faults: faults.map(|(_, faults)| faults.clone()).unwrap_or_default(),
        ..DiskOptions::default()
    };
    let path = || options.disks[index].clone();
    let disk = Disk::new(&disk_options, options.pool.as_ref());
    disk.map_err(|error| WriterError::Disk { path: path(), error })
}

fn note_shared_devices(dispatch: &Dispatch, looked: &[Option<Looked>]) {
    for index in opening::sharing(looked) {
        let mut text =
            "is on the same file system as another disk: they share its speed and fail together".to_owned();
        if dispatch.copies > 1 {
            text.push_str(", and copies of a chunk on both are lost together");
        }
        let path = dispatch.disks[index].path.clone();
        dispatch.ledger().note(Event::now("same_device", Some(path), text));
    }
}

fn memory_file(pool: Option<&Pool>) -> Option<MemoryFile> {
    use std::os::fd::AsRawFd;
    pool?.shared().map(|(fd, id)| MemoryFile { fd: fd.as_raw_fd(), id })
}

/// A unique number for the session.
fn random_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the system's randomness.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// A disk that was full is used again when it has room for this many chunks.
const MIN_FREED_CHUNKS: u64 = 4;

impl Dispatch {
    /// Say which disks are full from the start.
    fn note_full_disks(&self) {
        let candidates: Vec<Candidate> = self.disks.iter().map(|disk| disk.state().candidate()).collect();
        self.mark_short(&candidates, self.chunk_bytes.load(Ordering::Relaxed).max(1));
    }

    /// Disks without room for a chunk of `bytes` are full.
    fn mark_short(&self, candidates: &[Candidate], bytes: u64) {
        for (index, _) in candidates.iter().enumerate().filter(|(_, candidate)| candidate.free < bytes) {
            let disk = &self.disks[index];
            let mut state = disk.state();
            // Of one that has not responded yet nothing is known.
            if !state.is_usable() || state.short || disk.log().is_none() {
                continue;
            }
            state.short = true;
            let free = state.free_bytes;
            drop(state);
            let text = format!(
                "no room for another chunk of {bytes} bytes: {free} bytes are free, {} must remain free",
                self.reserve
            );
            self.event(Event::now("disk_full", Some(disk.path.clone()), text), None);
        }
    }

    /// `free` bytes are free on a disk now: if it was full, is it so still?
    fn watch_free(&self, index: usize, free: u64) {
        let disk = &self.disks[index];
        let mut state = disk.state();
        let room = free.saturating_sub(self.reserve).saturating_sub(state.backlog());
        // More than one chunk: what is being written is not yet all in `free`.
        let enough = self.chunk_bytes.load(Ordering::Relaxed).max(1).saturating_mul(MIN_FREED_CHUNKS);
        let was_out = state.health == DiskState::Full && state.out_of_space;
        if room < enough || !(was_out || state.short) {
            return;
        }
        if was_out {
            (state.health, state.error, state.out_of_space) = (DiskState::Active, None, false);
        }
        (state.short, state.free_bytes, state.free) = (false, free, room);
        drop(state);
        let text = "space was freed: it is used again".to_owned();
        self.event(Event::now("disk_resumed", Some(disk.path.clone()), text), None);
    }

    /// Before a chunk of `bytes` is given to a disk: warn if the disks fill up, and say so if no disk has room for it.
    fn watch_space(&self, bytes: u64) {
        let chunk = self.chunk_bytes.fetch_max(bytes, Ordering::Relaxed).max(bytes);
        let candidates: Vec<Candidate> = self.disks.iter().map(|disk| disk.state().candidate()).collect();
        let (mut rooms, mut fits, mut any, mut works) = (Vec::new(), false, false, false);
        for disk in &self.disks {
            let state = disk.state();
            if state.is_usable() {
                works = true;
                fits |= state.free >= bytes && !state.short;
                any |= state.free >= bytes;
                rooms.push(state.free - state.free % chunk.max(1));
            }
            works |= state.health == DiskState::Full;
        }
        let room = match self.copies {
            1 => rooms.iter().fold(0, |sum: u64, room| sum.saturating_add(*room)),
            copies => redundancy::room(&rooms, redundancy::possible(&rooms, copies)),
        };
        let submitted = self.ledger().submitted_bytes();
        let alarm = {
            let mut space = lock(&self.space);
            space.observe(self.begun.elapsed(), submitted, (room, chunk), self.space_alarm)
        };
        if let Some(alarm) = alarm.filter(|_| works) {
            self.event(Event::now("space_low", None, alarm.alarm()), None);
        }
        self.mark_short(&candidates, bytes);
        // Disks that all failed are another matter, and were reported.
        let was_full = self.all_full.load(Ordering::Relaxed);
        let all_full = works && if was_full { !fits } else { !any };
        if self.all_full.swap(all_full, Ordering::Relaxed) != all_full {
            let (kind, text) = match all_full {
                true => (
                    "disks_full",
                    format!(
                        "all disks are full: data that arrive from now on are DISCARDED{}",
                        Hint("free space on any of them, and the recording continues there")
                    ),
                ),
                false => ("disks_resumed", "there is room again: data are recorded again".to_owned()),
            };
            self.event(Event::now(kind, None, text), None);
        }
    }

    /// Why no disk takes a chunk.
    fn why_none(&self) -> Discard {
        let is_full = |health, short| health == DiskState::Full || health != DiskState::Failed && short;
        let full = self.disks.iter().any(|disk| {
            let state = disk.state();
            is_full(state.health, state.short)
        });
        if full { Discard::DisksFull } else { Discard::DisksFailed }
    }

    /// Free space, and how long it lasts.
    fn space_report(&self) -> SpaceReport {
        lock(&self.space).report()
    }
}
