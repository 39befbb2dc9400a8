//! The files that are served: reads are answered from memory, or by the threads of the disks.

use crate::disks::{DiskThreads, Task};
use crate::options::{MountEvent, MountOptions};
use crate::reads::{Answer, Reads};
use crate::segments::{FileState, Segment, ServedChunk, UnitKey};
use crate::threads::ThreadView;
use skyhaul::recording::{ExtentContent, Gap, Instead, UNIT_BLOCK_BYTES, UnitBytes, UnitError};
use skyhaul_io::lock::lock;
use skyhaul_io::memory::{Block, Pool, PoolOptions};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// Time between looks for reads that waited too long.
const TIMEOUT_INTERVAL: Duration = Duration::from_millis(100);
/// Units read ahead of one reader, at most.
const MAX_UNITS_AHEAD: usize = 8;
/// A read this close to where the last one ended continues it: the kernel does not keep their order.
const SEQUENTIAL_BYTES: u64 = 4 << 20;
/// Time between looks for a free block.
const BLOCK_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Who asked for bytes.
pub(crate) trait Respond: Send {
    /// The bytes; fewer than asked for at the end of the file.
    fn data(self: Box<Self>, bytes: &[u8]);
    /// An input/output error.
    fn error(self: Box<Self>);
}

/// A file of the tree.
#[derive(Debug)]
pub(crate) struct ServedFile {
    pub(crate) name: String,
    pub(crate) inode: u64,
    /// The recording that it is of.
    pub(crate) scan: String,
    pub(crate) session: String,
    /// The thread that it shows alone.
    thread: Option<ThreadView>,
    state: RwLock<Arc<FileState>>,
    modified: Mutex<SystemTime>,
}

impl ServedFile {
    pub(crate) fn new(
        name: String,
        inode: u64,
        (scan, session): (String, String),
        thread: Option<ThreadView>,
    ) -> Self {
        let modified = Mutex::new(SystemTime::UNIX_EPOCH);
        Self { name, inode, scan, session, thread, state: RwLock::default(), modified }
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.state().layout.bytes();
        self.thread.as_ref().map_or(bytes, |thread| thread.size(bytes))
    }

    pub(crate) fn state(&self) -> Arc<FileState> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn modified(&self) -> SystemTime {
        *lock(&self.modified)
    }

    pub(crate) fn update(&self, state: Arc<FileState>, modified: SystemTime) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        *lock(&self.modified) = modified;
    }
}

/// All files, by name and by number.
#[derive(Debug, Default)]
pub(crate) struct ScanTree {
    pub(crate) by_name: BTreeMap<String, Arc<ServedFile>>,
    pub(crate) by_inode: HashMap<u64, Arc<ServedFile>>,
}

/// Space on the disks together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskSpace {
    pub(crate) total_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) available_bytes: u64,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenScan {
    pub(crate) file: Arc<ServedFile>,
    /// Where the last read ended, and how many reads in a row continued each other.
    last: Mutex<(u64, usize)>,
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    pub(crate) reads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) gaps: AtomicU64,
}

struct Waiters {
    reads: Reads<UnitBytes, Box<dyn Respond>>,
    /// The disk of each unit that is being loaded.
    disk_of: HashMap<UnitKey, usize>,
    reported: HashSet<u64>,
}

/// Everything that is served.
pub(crate) struct Served {
    pub(crate) options: MountOptions,
    pub(crate) threads: DiskThreads,
    pool: Pool,
    waiters: Mutex<Waiters>,
    tree: RwLock<Arc<ScanTree>>,
    pub(crate) space: Mutex<DiskSpace>,
    pub(crate) counters: ReadCounters,
    pub(crate) open: AtomicUsize,
    pub(crate) is_ending: AtomicBool,
    events: Mutex<Sender<MountEvent>>,
    next_chunk: AtomicU64,
}

impl Served {
    pub(crate) fn new(options: MountOptions, events: Sender<MountEvent>) -> std::io::Result<Arc<Self>> {
        let total_bytes = options.memory_bytes;
        let pool = Pool::new(&PoolOptions { total_bytes, block_bytes: UNIT_BLOCK_BYTES, shared: false })?;
        let waiters = Waiters {
            reads: Reads::new(options.fill, options.timeout),
            disk_of: HashMap::new(),
            reported: HashSet::new(),
        };
        let served = Arc::new(Self {
            threads: DiskThreads::new(options.disks.len())?,
            options,
            pool,
            waiters: Mutex::new(waiters),
            tree: RwLock::default(),
            space: Mutex::default(),
            counters: ReadCounters::default(),
            open: AtomicUsize::new(0),
            is_ending: AtomicBool::new(false),
            events: Mutex::new(events),
            next_chunk: AtomicU64::new(1),
        });
        let of_timer = Arc::clone(&served);
        std::thread::Builder::new().name("read-timeouts".into()).spawn(move || of_timer.watch_timeouts())?;
        Ok(served)
    }

    pub(crate) fn tree(&self) -> Arc<ScanTree> {
        Arc::clone(&self.tree.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_tree(&self, tree: ScanTree) {
        *self.tree.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tree);
    }

    pub(crate) fn tell(&self, event: MountEvent) {
        // Nobody listens at the end.
        let _ = lock(&self.events).send(event);
    }

    /// A number for another chunk.
    pub(crate) fn number_chunk(&self) -> u64 {
        self.next_chunk.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn open(&self, file: Arc<ServedFile>) -> OpenScan {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenScan { file, last: Mutex::new((0, 0)) }
    }

    pub(crate) fn close(&self, _: &OpenScan) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Answer `to` with `size` bytes from `offset` on, now or when their disks have given them. With `is_partial`, what can be
    /// read before missing bytes is an answer.
    pub(crate) fn read(
        self: &Arc<Self>,
        open: &OpenScan,
        (offset, size): (u64, u64),
        is_partial: bool,
        to: Box<dyn Respond>,
    ) {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let state = open.file.state();
        let (segments, end, to) = match &open.file.thread {
            None => (state.segments(offset, size), offset + size, to),
            Some(thread) => of_thread(thread, &state, (offset, size), to),
        };
        if segments.is_empty() {
            return to.data(&[]);
        }
        let is_partial = is_partial && open.file.thread.is_none();
        let is_hung = |extent: usize| self.threads.is_hung(disk_of(&state, extent), self.options.timeout);
        let (now, mut wanted) = (Instant::now(), Vec::new());
        let mut waiters = lock(&self.waiters);
        let keys = segments.clone();
        let answer = waiters.reads.handle_read(now, segments, (is_partial, is_hung), to, &mut wanted);
        let mut tasks = Vec::new();
        for segment in &keys {
            if let Segment::Unit { key, extent, .. } = *segment {
                if wanted.contains(&key) {
                    tasks.push((key, extent, true));
                } else if let Some(&disk) = waiters.disk_of.get(&key) {
                    self.threads.hurry(disk, key);
                }
            }
        }
        let ahead = self.units_ahead(open, offset, size);
        if ahead > 0 {
            let next = state.units_from(end, ahead);
            wanted.clear();
            waiters.reads.read_ahead(now, next.iter().map(|(key, _)| *key), &mut wanted);
            tasks.extend(
                next.into_iter().filter(|(key, _)| wanted.contains(key)).map(|(key, at)| (key, at, false)),
            );
        }
        for &(key, extent, _) in &tasks {
            waiters.disk_of.insert(key, disk_of(&state, extent));
        }
        drop(waiters);
        for (key, extent, is_urgent) in tasks {
            match state.chunks.get(extent).and_then(Option::as_ref) {
                Some(chunk) => self.load(key, chunk.clone(), disk_of(&state, extent), is_urgent),
                None => self.loaded(key, None),
            }
        }
        answer.into_iter().for_each(|(to, answer)| self.answer(to, answer));
    }

    /// How many units to read ahead of this read.
    fn units_ahead(&self, open: &OpenScan, offset: u64, size: u64) -> usize {
        let mut last = lock(&open.last);
        let is_next = offset.abs_diff(last.0) <= SEQUENTIAL_BYTES;
        *last =
            if is_next { (last.0.max(offset + size), last.1.saturating_add(1)) } else { (offset + size, 0) };
        let readers = self.open.load(Ordering::Relaxed).max(1);
        let most = (self.pool.blocks() / 2 / readers).clamp(1, MAX_UNITS_AHEAD);
        // A few reads at the beginning of a file are no reader of all of it.
        last.1.saturating_sub(1).min(most)
    }

    fn load(self: &Arc<Self>, key: UnitKey, chunk: ServedChunk, disk: usize, is_urgent: bool) {
        let served = Arc::clone(self);
        let run = Box::new(move || served.load_now(key, &chunk, disk));
        self.threads.push(disk, is_urgent, Task { key: Some(key), run });
    }

    /// On a thread of the disk.
    fn load_now(self: &Arc<Self>, key: UnitKey, chunk: &ServedChunk, disk: usize) {
        let mut short_since = None;
        loop {
            match chunk.file.read(key.unit, || self.block()) {
                Ok(read) => {
                    if let Some(gap) = read.unverified {
                        self.report(chunk, &Gap { instead: Instead::AsItIs, ..*gap });
                    }
                    // The one that was asked for last: nothing that comes with it pushes it out.
                    let (own, others) =
                        read.units.into_iter().partition::<Vec<_>, _>(|(unit, _)| *unit == key.unit);
                    for (unit, data) in others.into_iter().chain(own) {
                        self.loaded(UnitKey { unit, ..key }, Some(data));
                    }
                    return;
                }
                Err(UnitError::NoMemory)
                    if short_since.get_or_insert_with(Instant::now).elapsed() < self.options.timeout =>
                {
                    std::thread::sleep(BLOCK_POLL_INTERVAL);
                }
                Err(UnitError::NoMemory) => return self.short(key),
                Err(UnitError::NotHere(gap)) if disk != self.threads.search() => {
                    drop(gap);
                    let (search, served, chunk) = (self.threads.search(), Arc::clone(self), chunk.clone());
                    lock(&self.waiters).disk_of.insert(key, search);
                    let run = Box::new(move || {
                        chunk.file.search();
                        served.load_now(key, &chunk, search);
                    });
                    return self.threads.push(search, true, Task { key: Some(key), run });
                }
                Err(UnitError::NotHere(gap)) => {
                    self.report(chunk, &gap);
                    return self.loaded(key, None);
                }
            }
        }
    }

    /// A free block: that of the least recently used unit, if there is no other.
    fn block(&self) -> Option<Block> {
        loop {
            if let Some(block) = self.pool.take() {
                return Some(block);
            }
            if !lock(&self.waiters).reads.evict() {
                return None;
            }
        }
    }

    /// Whether fill stands for what is missing.
    pub(crate) fn fills(&self) -> bool {
        self.options.fill
    }

    /// There was no memory for a unit.
    fn short(&self, key: UnitKey) {
        let mut answers = Vec::new();
        let mut waiters = lock(&self.waiters);
        waiters.disk_of.remove(&key);
        waiters.reads.handle_shortage(key, &mut answers);
        drop(waiters);
        answers.into_iter().for_each(|(to, answer)| self.answer(to, answer));
    }

    fn loaded(&self, key: UnitKey, data: Option<UnitBytes>) {
        let mut answers = Vec::new();
        let mut waiters = lock(&self.waiters);
        waiters.disk_of.remove(&key);
        waiters.reads.handle_unit(Instant::now(), key, data, &mut answers);
        drop(waiters);
        answers.into_iter().for_each(|(to, answer)| self.answer(to, answer));
    }

    fn answer(&self, to: Box<dyn Respond>, answer: Answer<UnitBytes>) {
        use crate::reads::UnitData;
        let count = |bytes: &[u8]| {
            self.counters.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        };
        match answer {
            Answer::Data(data, from, upto) => match data.slice(from, upto) {
                Some(bytes) => {
                    count(bytes);
                    to.data(bytes);
                }
                None => to.error(),
            },
            Answer::Bytes(bytes) => {
                count(&bytes);
                to.data(&bytes);
            }
            Answer::Error => {
                self.counters.errors.fetch_add(1, Ordering::Relaxed);
                to.error();
            }
        }
    }

    /// Report what is wrong with a chunk, once.
    fn report(&self, chunk: &ServedChunk, gap: &Gap) {
        if lock(&self.waiters).reported.insert(chunk.number) {
            self.counters.gaps.fetch_add(1, Ordering::Relaxed);
            self.tell(MountEvent::Gap { gap: gap.clone() });
        }
    }

    fn watch_timeouts(&self) {
        let mut hung = vec![false; self.options.disks.len()];
        while !self.is_ending.load(Ordering::Relaxed) {
            std::thread::sleep(TIMEOUT_INTERVAL);
            for (number, was) in hung.iter_mut().enumerate() {
                let is = self.threads.is_hung(number, self.options.timeout);
                let disk = self.options.disks[number].clone();
                match (*was, is) {
                    (false, true) => self.tell(MountEvent::DiskHangs { disk }),
                    (true, false) => self.tell(MountEvent::DiskAnswers { disk }),
                    _ => {}
                }
                *was = is;
            }
            let mut answers = Vec::new();
            let mut waiters = lock(&self.waiters);
            if waiters.reads.waiting() > 0 {
                let Waiters { reads, disk_of, .. } = &mut *waiters;
                let progress = |key| self.threads.progress(*disk_of.get(&key)?, key);
                reads.handle_timeout(Instant::now(), progress, &mut answers);
            }
            drop(waiters);
            answers.into_iter().for_each(|(to, answer)| self.answer(to, answer));
        }
    }
}

/// The segments of the frames of a thread that a range touches, where the last of them ends in the scan, and who gets the range
/// out of them.
fn of_thread(
    thread: &ThreadView,
    state: &FileState,
    (offset, size): (u64, u64),
    to: Box<dyn Respond>,
) -> (Vec<Segment>, u64, Box<dyn Respond>) {
    let (mut segments, mut end) = (Vec::new(), offset);
    let bytes = state.layout.bytes();
    let (begin, frames) = thread.frames((offset, size), bytes);
    for at in frames {
        segments.extend(state.segments(at, thread.frame_bytes()));
        end = at + thread.frame_bytes();
    }
    let most = thread.size(bytes).saturating_sub(offset).min(size) as usize;
    let respond = OfThread { thread: thread.clone(), skip: offset.saturating_sub(begin) as usize, most, to };
    (segments, end, Box::new(respond))
}

/// Gives a range of whole frames, if they are all of the thread.
struct OfThread {
    thread: ThreadView,
    skip: usize,
    most: usize,
    to: Box<dyn Respond>,
}

impl Respond for OfThread {
    fn data(self: Box<Self>, bytes: &[u8]) {
        match bytes.get(self.skip..self.skip + self.most) {
            Some(part) if self.thread.has(bytes) => self.to.data(part),
            _ if bytes.is_empty() => self.to.data(&[]),
            _ => self.to.error(),
        }
    }

    fn error(self: Box<Self>) {
        self.to.error();
    }
}

/// The disk of an extent.
fn disk_of(state: &FileState, extent: usize) -> usize {
    match state.layout.extents.get(extent).map(|extent| &extent.content) {
        Some(ExtentContent::Chunk(entry)) => entry.disk,
        _ => usize::MAX,
    }
}
