//! The recorder's writing half, as its caller sees it.
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

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use skyhaul_io::disk::{self, Disk, DiskOptions, Engine, Faults, Log, Place};
use skyhaul_io::memory::{Block, Pool};

use super::dispatch::{Dispatch, Work};
use super::drive::Drive;
use super::lane::{Lane, Note};
use super::names::{LAST_NUMBER, Label, LabelError};
use super::record::{ChunkMeta, Datastream, DatastreamInfo, Event, MemoryFile, Record, Session, VERSION};
use super::report::{DiskState, DiskStatus, RecordingReport};

/// Minimum time for a disk to confirm its chunks at the end.
const LOOK: Duration = Duration::from_secs(10);

/// When data are made durable, and so when a chunk counts as acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Each chunk as soon as it is written; simultaneous chunks share one sync.
    #[default]
    Chunk,
    /// At most this often; memory holds the chunks until then.
    Interval(Duration),
    /// Never: acknowledged chunks survive a crash of the recorder, but not of the machine.
    None,
}

/// What to do when the scan's label is on a disk already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Append a letter, a-z then A-Z, as FlexBuff does.
    #[default]
    Letter,
    /// Refuse.
    Refuse,
}

/// What to record to, and how.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Existing directories, each on a disk of its own.
    pub disks: Vec<PathBuf>,
    /// The scan's label.
    pub scan: String,
    /// When data are made durable.
    pub sync: SyncPolicy,
    /// Which system calls write.
    pub engine: Engine,
    /// Write past the page cache where the file system allows it.
    pub direct: bool,
    /// What to do when the label is taken.
    pub existing: Existing,
    /// Kept in the index's session record.
    pub metadata: Value,
    /// Bytes to leave free on each disk.
    pub reserve_bytes: u64,
    /// A chunk whose write takes longer is given to another disk.
    pub stall: Duration,
    /// Where the chunks come from: registered with the kernel, and read from by followers if it is shared.
    pub pool: Option<Pool>,
    /// Faults to inject into disks (by index in `disks`), for tests.
    pub faults: Vec<(usize, Faults)>,
}

impl WriterOptions {
    /// `scan` to `disks`, the rest as usual.
    pub fn new<P: Into<PathBuf>>(disks: impl IntoIterator<Item = P>, scan: &str) -> Self {
        Self {
            disks: disks.into_iter().map(Into::into).collect(),
            scan: scan.to_owned(),
            sync: SyncPolicy::default(),
            engine: Engine::Auto,
            direct: true,
            existing: Existing::default(),
            metadata: Value::Null,
            reserve_bytes: 64 << 20,
            stall: Duration::from_secs(5),
            pool: None,
            faults: Vec::new(),
        }
    }

    /// Whether a scan can be recorded in this way, as far as can be checked without creating anything.
    ///
    /// # Errors
    /// The scan name is invalid; or there is no disk, one that cannot be recorded to, or one given twice.
    pub fn check(&self) -> Result<(), WriterError> {
        Label::new(&self.scan)?;
        if self.disks.is_empty() {
            return Err(WriterError::NoDisk);
        }
        let places =
            self.disks.iter().map(|path| Place::for_recordings(path)).collect::<io::Result<Vec<_>>>();
        let places = places.map_err(WriterError::Place)?;
        for (index, place) in places.iter().enumerate() {
            if let Some(first) = places[..index].iter().position(|other| other == place) {
                return Err(WriterError::Twice(self.disks[index].clone(), self.disks[first].clone()));
            }
        }
        Ok(())
    }
}

/// Why a recording cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// The label cannot be a name on disk.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// There is no disk to write to.
    #[error("no disk to record to\nhint: name one with --disk")]
    NoDisk,
    /// The label is taken (and, with [`Existing::Letter`], also with every letter).
    #[error("scan {0} exists\nhint: choose another name, or remove the old scan")]
    Exists(String),
    /// One of the disks is given twice: its chunks would be taken for those of two disks.
    #[error("{} is the same directory as {}: the disk is given twice\nhint: name each disk once", .0.display(), .1.display())]
    Twice(PathBuf, PathBuf),
    /// One of the disks cannot be recorded to.
    #[error(transparent)]
    Place(io::Error),
    /// One of the disks cannot be written to.
    #[error("{}: {error}\nhint: check that the disk is mounted and writable", path.display())]
    Disk {
        /// Its directory.
        path: PathBuf,
        /// The system error.
        #[source]
        error: io::Error,
    },
}

/// A datastream of a [`Writer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatastreamId(pub u32);

/// Fills the holes of a chunk: its account, its block, and where in the block it lies. Run on a disk's thread. Parts
/// that arrived may be in use by views: only holes are written ([`Block::part_mut`]).
pub type Fill = Arc<dyn Fn(&ChunkMeta, &mut Block, Range<usize>) + Send + Sync>;

/// One chunk: a block that is no longer written to.
pub struct Chunk {
    /// The datastream it belongs to.
    pub datastream: DatastreamId,
    /// Its place in the datastream, 0 to 99 999 999, given in stream order; each number once.
    pub number: u32,
    /// Its memory.
    pub block: Block,
    /// The bytes of the block that it holds. A start that is not a multiple of 4096 makes writing slower.
    pub range: Range<usize>,
    /// What it holds.
    pub meta: ChunkMeta,
    /// Fills what is missing.
    pub finish: Option<Fill>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({}.{:08}, {:?})", self.datastream.0, self.number, self.range)
    }
}

/// Why a chunk was refused, with the chunk.
#[derive(Debug, thiserror::Error)]
#[error("{chunk:?} was refused: {reason}")]
pub struct Refused {
    /// Why.
    pub reason: Refusal,
    /// The chunk.
    pub chunk: Box<Chunk>,
}

/// Why a chunk was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No disk can take it: it is counted (and recorded on the remaining disks) as lost.
    #[error("no disk can take it")]
    NoDisk,
    /// The recording is ending.
    #[error("the recording is ending")]
    Closed,
    /// The datastream does not exist, the number has more than eight digits or is in progress, or the range is outside its
    /// block.
    #[error("invalid datastream, number or range")]
    Invalid,
}

/// A recording that is being written.
#[derive(Debug)]
pub struct Writer {
    dispatch: Arc<Dispatch>,
    threads: Vec<JoinHandle<()>>,
    label: Label,
    session: String,
    started: (jiff::Timestamp, Instant),
    finished: bool,
}

impl Writer {
    /// Create the scan's directories and indexes, and start one thread for each disk.
    ///
    /// # Errors
    /// The scan name is invalid or taken, or one of the disks cannot be written to; nothing is recorded.
    pub fn create(options: &WriterOptions) -> Result<Writer, WriterError> {
        options.check()?;
        let label = claim(&Label::new(&options.scan)?, options)?;
        let number = random_number();
        let started = (jiff::Timestamp::now(), Instant::now());
        let session = Session {
            index: VERSION,
            session: format!("{number:016x}"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scan: label.to_string(),
            disks: options.disks.clone(),
            disk: 0,
            started: started.0.to_string(),
            pid: std::process::id(),
            memory: memory_file(options.pool.as_ref()),
            metadata: options.metadata.clone(),
        };
        let mut parts = Vec::new();
        for (index, path) in options.disks.iter().enumerate() {
            let record = Record::Session(Session { disk: index, ..session.clone() });
            let part = arm(options, index, &label.index(path), &record);
            parts.push(part.map_err(|error| WriterError::Disk { path: path.clone(), error })?);
        }
        let lanes = options.disks.iter().zip(&parts);
        let lanes = lanes.map(|(path, (disk, log))| Lane::new(path.clone(), disk, log)).collect();
        let dispatch = Arc::new(Dispatch::new(lanes, number, options));
        note_shared_devices(&dispatch, &options.disks);
        let mut threads = Vec::new();
        for (index, (disk, log)) in parts.into_iter().enumerate() {
            let drive = Drive::new(index, dispatch.clone(), disk, log);
            let of_thread = dispatch.clone();
            let thread = std::thread::Builder::new().name(format!("disk-{index}"));
            let thread = thread.spawn(move || run(drive, &of_thread, index));
            let path = || options.disks[index].clone();
            threads.push(thread.map_err(|error| WriterError::Disk { path: path(), error })?);
        }
        let session = session.session;
        Ok(Writer { dispatch, threads, label, session, started, finished: false })
    }

    /// The scan's label as it is on disk.
    #[must_use]
    pub fn scan(&self) -> &str {
        self.label.as_str()
    }

    /// A new datastream; may be called while others are recorded.
    pub fn add_datastream(&self, info: &DatastreamInfo) -> DatastreamId {
        let name = self.datastream_name(info);
        let datastream = self.dispatch.ledger().open(name.clone(), info.sender.clone());
        self.describe(datastream, name, info);
        DatastreamId(datastream)
    }

    /// Update what is known of a datastream (such as its frame rate): readers use the latest. Its suffix stays the same.
    pub fn update_datastream(&self, datastream: DatastreamId, info: &DatastreamInfo) {
        let name = self.dispatch.ledger().name(datastream.0).map(str::to_owned);
        if let Some(name) = name {
            self.describe(datastream.0, name, info);
        }
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

    /// Give a chunk to the disks. Never blocks.
    ///
    /// # Errors
    /// The chunk is returned with the reason; `NoDisk` is counted as a loss.
    pub fn submit(&self, chunk: Chunk) -> Result<(), Refused> {
        let refuse = |reason, chunk| Err(Refused { reason, chunk });
        let chunk = Box::new(chunk);
        if self.dispatch.is_closed() {
            return refuse(Refusal::Closed, chunk);
        }
        let range = &chunk.range;
        if chunk.number > LAST_NUMBER || range.start >= range.end || range.end > chunk.block.len() {
            return refuse(Refusal::Invalid, chunk);
        }
        let (bytes, missing) = (range.len() as u64, chunk.meta.missing_units());
        if !self.dispatch.ledger().submit(chunk.datastream.0, chunk.number, bytes, missing) {
            return refuse(Refusal::Invalid, chunk);
        }
        let (datastream, number) = (chunk.datastream.0, chunk.number);
        self.dispatch.watch_all();
        match self.dispatch.give(Work::Fresh(chunk), 0) {
            Ok(()) => Ok(()),
            Err(Work::Fresh(chunk)) => {
                self.dispatch.lose(datastream, number, "no disk can take it");
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

    /// The program did not run for `time`, which must not count as slowness of a disk.
    pub fn paused(&self, time: Duration) {
        self.dispatch.forgive(time);
    }

    /// The current state of each disk.
    #[must_use]
    pub fn status(&self) -> Vec<DiskStatus> {
        self.dispatch.status()
    }

    /// The current account.
    #[must_use]
    pub fn report(&self) -> RecordingReport {
        let (events, events_dropped) = self.dispatch.ledger().events();
        let datastreams = self.dispatch.ledger().reports();
        RecordingReport {
            scan: self.label.to_string(),
            session: self.session.clone(),
            started: self.started.0.to_string(),
            ended: jiff::Timestamp::now().to_string(),
            seconds: self.started.1.elapsed().as_secs_f64(),
            datastreams,
            disks: self.dispatch.status(),
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
        self.dispatch.wait_settled(end);
        self.dispatch.look_for_acknowledged(end.max(Instant::now() + LOOK));
        let line = Record::End(Box::new(self.report())).to_line();
        self.dispatch.broadcast(&Note { line, directory: None });
        self.dispatch.end();
        // A thread in a system call that does not return is left behind; the process's end takes it along. On a disk that
        // was seen to hang nobody waits for long.
        let soon = Instant::now() + Duration::from_secs(3);
        let hangs = |index: usize| self.dispatch.lanes[index].state().health == DiskState::Stalled;
        let patience = |index| if hangs(index) { soon } else { end.max(soon) };
        let is_awaited = |(index, thread): (usize, &JoinHandle<()>)| {
            !thread.is_finished() && Instant::now() < patience(index)
        };
        while self.threads.iter().enumerate().any(is_awaited) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.threads.clear();
        self.report()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            self.end(Duration::from_secs(5));
        }
    }
}

/// A disk's thread. Its failure never ends the scan: its chunks go to the other disks, and the report gives the reason.
fn run(drive: Drive, dispatch: &Dispatch, index: usize) {
    // What it leaves behind is locked state that is sound at every step, and memory that comes back.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drive.run())) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        dispatch.died(index, text.or_else(|| panic.downcast_ref().copied()).unwrap_or("no message"));
    }
}

/// Find a label that no disk has, and create its directories.
fn claim(wanted: &Label, options: &WriterOptions) -> Result<Label, WriterError> {
    let most = if options.existing == Existing::Letter { 53 } else { 1 };
    for label in wanted.variants().take(most) {
        if options.disks.iter().any(|disk| label.directories(disk).is_ok_and(|names| !names.is_empty())) {
            continue;
        }
        let mut made = Vec::new();
        let failed = options.disks.iter().find_map(|path| {
            let directory = path.join(label.as_str());
            let error = std::fs::create_dir(&directory).err();
            made.extend(error.is_none().then_some(directory));
            error.map(|error| (path.clone(), error))
        });
        match failed {
            None => return Ok(label),
            // Another recorder was faster.
            Some((_, error)) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Some((path, error)) => {
                // The next attempt shall find the label free.
                made.iter().for_each(|directory| drop(std::fs::remove_dir(directory)));
                return Err(WriterError::Disk { path, error });
            }
        }
    }
    Err(WriterError::Exists(wanted.to_string()))
}

/// Prepare one disk: its engine, and its index with the durable record of the session.
fn arm(options: &WriterOptions, index: usize, path: &Path, record: &Record) -> io::Result<(Disk, Log)> {
    let faults = options.faults.iter().find(|(disk, _)| *disk == index);
    let disk_options = DiskOptions {
        engine: options.engine,
        direct: options.direct,
        faults: faults.map(|(_, faults)| faults.clone()).unwrap_or_default(),
        ..DiskOptions::default()
    };
    let disk = Disk::new(&disk_options, options.pool.as_ref())?;
    let mut log = Log::open(path, false)?;
    log.reserve(64 << 10)?;
    log.append(record.to_line().as_bytes())?;
    log.file().sync_all()?;
    for directory in path.ancestors().skip(1).take(2) {
        disk::open_directory(directory)?.sync_all()?;
    }
    Ok((disk, log))
}

fn note_shared_devices(dispatch: &Dispatch, disks: &[PathBuf]) {
    let devices: Vec<_> = disks.iter().map(|path| disk::device(path).ok()).collect();
    for (index, device) in devices.iter().enumerate() {
        if device.is_some() && devices[..index].contains(device) {
            let text = "is on the same file system as another disk: they share its speed and fail together";
            dispatch.ledger().note(Event::now("same_device", Some(disks[index].clone()), text.to_owned()));
        }
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
