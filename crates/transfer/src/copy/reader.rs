//! The threads of the sender: one that reads files, and one for each flow.
//!
//! ```text
//!   todo (a queue for each source) ─▶ reader: O_DIRECT, several in flight ─▶ ready ─▶ flow 0 ═══▶
//!                                      ▲─────────────── empty blocks ──────────────── flow n ═══▶
//! ```
//!
//! Sources are on different disks, so the reader takes from them in turn.

use super::control::{POLL_INTERVAL, SessionState};
use super::digest::{Contents, Reads, contents, zeros};
use super::flow_sender::FlowSender;
use super::manifest::{Manifest, Root};
use super::options::{Account, Tuning, blocks};
use super::range::{HOLE, RangeHead};
use skyhaul::peer::DataStream;
use skyhaul_core::hint::Hint;
use skyhaul_io::address::system_text;
use skyhaul_io::disk::tree::Status;
use skyhaul_io::disk::{DiskTurn, Ended, Queue, Tree, next_data};
use skyhaul_io::fifo::Fifo;
use skyhaul_io::memory::{ALIGN, Block, Pool};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes whose checksum is computed before they are sent: they stay in the cache between.
const CHECKSUM_STEP_BYTES: usize = 256 << 10;
/// The least of them, and how often some are sent at a low rate.
const LEAST_STEP_BYTES: usize = 16 << 10;
const STEPS_PER_SECOND: u64 = 10;

/// Ranges of a file to be read.
pub(super) struct Job {
    pub(super) file: usize,
    pub(super) ranges: VecDeque<(u64, u64)>,
}

/// A range in memory.
struct Ready {
    head: RangeHead,
    block: Option<Block>,
}

/// What the control connection is to know.
pub(super) enum SenderEvent {
    /// A range was sent.
    Range { file: usize, range: u64, crc: u32 },
    /// A file cannot be read.
    Lost { file: usize, error: String },
    /// The digest of a file, for a comparison.
    Found { file: usize, found: Result<u32, String> },
}

/// Why a file is not copied.
pub(super) fn changed() -> String {
    format!("the file changed during the copy{}", Hint("copy it when nothing writes to it"))
}

/// What the threads of a sender share.
pub(super) struct SenderShared {
    pub(super) watch: SessionState,
    pub(super) todo: Fifo<Job>,
    pub(super) events: Fifo<SenderEvent>,
    /// Files to be read for a comparison.
    pub(super) compares: Fifo<usize>,
    pub(super) account: Account,
    ready: Fifo<Ready>,
    empty: Fifo<Block>,
    pool: Pool,
    /// When the next bytes may be sent.
    due: Mutex<Instant>,
    /// Each ends the writes of a flow.
    stops: Mutex<Vec<Arc<AtomicBool>>>,
    pub(super) tuning: Tuning,
    /// The reader's engine, and whether files bypass the page cache.
    pub(super) means: Mutex<(String, bool)>,
    pub(super) congestion: Mutex<String>,
}

impl SenderShared {
    pub(super) fn new(tuning: &Tuning, flows: usize, account: Account) -> io::Result<Self> {
        let (pool, empty) = blocks(tuning, flows, &account)?;
        Ok(Self {
            watch: SessionState::held(tuning),
            todo: Fifo::default(),
            events: Fifo::default(),
            compares: Fifo::default(),
            account,
            ready: Fifo::default(),
            empty,
            pool,
            due: Mutex::new(Instant::now()),
            stops: Mutex::default(),
            tuning: tuning.clone(),
            means: Mutex::default(),
            congestion: Mutex::default(),
        })
    }

    /// The thread of a flow: send whatever is ready.
    pub(super) fn send(&self, stream: DataStream) -> io::Result<()> {
        let mut to = FlowSender::new(stream, &self.tuning)?;
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).push(to.stop_flag());
        *self.congestion.lock().unwrap_or_else(PoisonError::into_inner) = to.congestion();
        while let Some(Ready { head, block }) = self.watch.wait(&self.ready, &self.watch.for_disk) {
            let crc = match &block {
                Some(block) => self.payload(&mut to, &head, &block[..head.payload()])?,
                None => {
                    to.send_slices(&[IoSlice::new(&head.octets())])?;
                    zeros(u64::from(head.length))
                }
            };
            self.sent(&head, block, crc);
        }
        Ok(())
    }

    /// Ends all threads at once, also those whose peer takes nothing.
    pub(super) fn halt(&self) {
        self.watch.end();
        let stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
    }

    fn sent(&self, head: &RangeHead, block: Option<Block>, crc: u32) {
        self.watch.count(u64::from(head.length), head.is_hole());
        let range = head.offset / self.tuning.range;
        self.events.push(SenderEvent::Range { file: head.file as usize, range, crc });
        if let Some(block) = block {
            self.empty.push(block);
        }
    }

    /// Takes what is read and sends nothing, in place of the flows: for a trial of the disk.
    pub(super) fn discard(&self) {
        while let Some(Ready { head, block }) = self.watch.wait(&self.ready, &self.watch.for_disk) {
            self.sent(&head, block, 0);
        }
    }

    /// Gives out memory as it is, in place of the disk: for a trial of the network.
    pub(super) fn repeat(&self) {
        let length = self.tuning.range;
        let head = RangeHead { size: length, length: length as u32, ..RangeHead::default() };
        while let Some(block) = self.watch.wait(&self.empty, &self.watch.for_flows) {
            self.ready.push(Ready { head, block: Some(block) });
        }
    }

    fn payload(&self, to: &mut FlowSender, head: &RangeHead, bytes: &[u8]) -> io::Result<u32> {
        let (octets, mut crc) = (head.octets(), 0);
        let mut first = Some(&octets);
        let mut left = bytes;
        while !left.is_empty() {
            let step;
            (step, left) = left.split_at(self.step_bytes().min(left.len()));
            self.pace(step.len(), first.is_some());
            crc = crc32c::crc32c_append(crc, step);
            match first.take() {
                Some(head) => to.send_slices(&[IoSlice::new(head), IoSlice::new(step)])?,
                None => to.send_slices(&[IoSlice::new(step)])?,
            };
            self.watch.activity.step();
        }
        to.send_slices(&[IoSlice::new(&crc.to_be_bytes())])?;
        Ok(crc)
    }

    /// Bytes that are sent at a time: at a low rate few, so that they go out evenly and are seen to.
    fn step_bytes(&self) -> usize {
        let of_rate = usize::try_from(self.tuning.rate() / 8 / STEPS_PER_SECOND).unwrap_or(usize::MAX);
        of_rate.clamp(LEAST_STEP_BYTES, CHECKSUM_STEP_BYTES)
    }

    /// Wait until `bytes` may be sent at the rate of all flows together. Where nothing may be sent, a range does not begin; one
    /// that has begun goes on slowly, because the peer would take its flow for dead.
    fn pace(&self, bytes: usize, begins: bool) {
        let now = Instant::now();
        let mut rate = self.tuning.rate();
        while rate == 0 && !self.watch.is_over() && (begins || now.elapsed() < self.tuning.patience / 3) {
            self.watch.activity.step();
            std::thread::sleep(POLL_INTERVAL);
            rate = self.tuning.rate();
        }
        if rate == u64::MAX || rate == 0 {
            self.watch.paced.fetch_add(now.elapsed().as_nanos() as u64, Ordering::Relaxed);
            return;
        }
        let due = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (*due).max(Instant::now());
            *due = at + Duration::from_secs_f64(bytes as f64 * 8.0 / rate.max(1) as f64);
            at
        };
        while !self.watch.is_over()
            && let Some(left) = due.checked_duration_since(Instant::now())
            && !left.is_zero()
        {
            self.watch.activity.step();
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
        self.watch.paced.fetch_add(now.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// The thread that reads.
    pub(super) fn read(&self, roots: &[Root], manifest: &Manifest) -> io::Result<()> {
        let mut reader = Reader {
            shared: self,
            roots,
            manifest,
            queue: Queue::new(&self.tuning.reads(), Some(&self.pool))?,
            jobs: Vec::new(),
            turn: 0,
            turns: Vec::new(),
            flying: HashMap::new(),
            next: 0,
        };
        reader.jobs.resize_with(roots.len(), VecDeque::new);
        reader.turns.resize_with(roots.len(), || None);
        *self.means.lock().unwrap_or_else(PoisonError::into_inner) =
            (reader.queue.means().engine.into(), self.tuning.direct);
        reader.run()
    }
}

/// A file that is read.
struct Open {
    file: usize,
    source: Arc<File>,
    direct: bool,
    size: u64,
    sparse: bool,
    ranges: VecDeque<(u64, u64)>,
    /// The next data at or after some place, in a file with holes.
    data: Option<Option<Range<u64>>>,
}

enum Waiting {
    Closed(Job),
    Open(Box<Open>),
}

struct Reader<'a> {
    shared: &'a SenderShared,
    roots: &'a [Root],
    manifest: &'a Manifest,
    queue: Queue,
    /// For each source.
    jobs: Vec<VecDeque<Waiting>>,
    turn: usize,
    /// For each source, what its next read waits for while recordings use its disk.
    turns: Vec<Option<DiskTurn>>,
    flying: HashMap<u64, (RangeHead, DiskTurn)>,
    next: u64,
}

impl Reader<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut ended = Vec::new();
        while !self.shared.watch.is_over() {
            let idle = self.queue.in_flight() == 0;
            while let Some(job) = self.shared.todo.try_pop() {
                self.jobs[self.manifest.places[job.file].0].push_back(Waiting::Closed(job));
            }
            let mut asked = false;
            while self.queue.has_room() && self.jobs.iter().any(|jobs| !jobs.is_empty()) {
                match self.ask(idle && !asked) {
                    Some(()) => asked = true,
                    None => break,
                }
            }
            if self.queue.in_flight() == 0 {
                if !asked && let Some(job) = self.shared.todo.pop(POLL_INTERVAL) {
                    self.jobs[self.manifest.places[job.file].0].push_back(Waiting::Closed(job));
                }
                continue;
            }
            self.queue.wait(POLL_INTERVAL, &mut ended)?;
            for end in ended.drain(..) {
                self.settle(end);
            }
        }
        // As long as the disk has not answered, this end is not over: nobody else should ask it.
        while self.queue.in_flight() > 0 {
            self.queue.wait(POLL_INTERVAL, &mut ended)?;
            ended.drain(..).for_each(|end| self.settle(end));
        }
        Ok(())
    }

    /// Begin to read the next range. None: there is no memory for it now.
    fn ask(&mut self, wait: bool) -> Option<()> {
        let sources = self.jobs.len();
        let turn = (0..sources).map(|n| (self.turn + n) % sources).find(|&at| !self.jobs[at].is_empty())?;
        self.turn = turn + 1;
        let mut open = match self.jobs[turn].pop_front()? {
            Waiting::Open(open) => open,
            Waiting::Closed(job) => match self.open(job) {
                Ok(open) => Box::new(open),
                Err((file, error)) => {
                    self.lost(file, &error);
                    return Some(());
                }
            },
        };
        let Some(&(first, count)) = open.ranges.front() else { return Some(()) };
        let asked = self.range(&mut open, (turn, first), wait);
        if let Ok(Some(())) = asked {
            match count {
                0 | 1 => drop(open.ranges.pop_front()),
                _ => open.ranges[0] = (first + 1, count - 1),
            }
        }
        match asked {
            Err(error) => {
                self.lost(open.file, &error);
                Some(())
            }
            Ok(done) => {
                if !open.ranges.is_empty() {
                    self.jobs[turn].push_front(Waiting::Open(open));
                }
                done
            }
        }
    }

    fn lost(&self, file: usize, error: &io::Error) {
        self.shared.events.push(SenderEvent::Lost { file, error: system_text(error) });
    }

    fn open(&self, job: Job) -> Result<Open, (usize, io::Error)> {
        let (source, path): &(usize, PathBuf) = &self.manifest.places[job.file];
        let entry = &self.manifest.entries[job.file];
        let direct = self.shared.tuning.direct;
        let _asked = self.shared.watch.activity.at_disk();
        let (file, direct) =
            self.roots[*source].tree.read(path, direct).map_err(|error| (job.file, error))?;
        let sparse = matches!(entry.what, super::message::What::File { sparse: true, .. });
        Ok(Open {
            file: job.file,
            source: Arc::new(file),
            direct,
            size: entry.size(),
            sparse,
            ranges: job.ranges,
            data: None,
        })
    }

    /// Read one range, or find that it is a hole.
    fn range(
        &mut self,
        open: &mut Open,
        (source, range): (usize, u64),
        wait: bool,
    ) -> io::Result<Option<()>> {
        let offset = range * self.shared.tuning.range;
        let length = open.size.saturating_sub(offset).min(self.shared.tuning.range);
        if length == 0 {
            return Ok(Some(()));
        }
        let head = RangeHead {
            file: open.file as u64,
            offset,
            size: open.size,
            length: length as u32,
            ..RangeHead::default()
        };
        let asked = open.sparse.then(|| self.shared.watch.activity.at_disk());
        let is_hole = open.sparse && is_hole(open, offset..offset + length)?;
        drop(asked);
        if is_hole {
            self.shared.ready.push(Ready { head: RangeHead { flags: HOLE, ..head }, block: None });
            return Ok(Some(()));
        }
        let block = match wait {
            true => self.shared.watch.wait(&self.shared.empty, &self.shared.watch.for_flows),
            false => self.shared.empty.try_pop(),
        };
        let Some(block) = block else { return Ok(None) };
        let watch = &self.shared.watch;
        let Some(disk_turn) = watch.turn(&mut self.turns[source], &open.source, length)? else {
            self.shared.empty.push(block);
            return Ok(None);
        };
        let bytes = if open.direct { (length as usize).next_multiple_of(ALIGN) } else { length as usize };
        self.flying.insert(self.next, (head, disk_turn));
        self.shared.watch.activity.asked_disk();
        self.queue.read(self.next, &open.source, offset, block, bytes.min(self.pool_bytes()));
        self.next += 1;
        Ok(Some(()))
    }

    fn pool_bytes(&self) -> usize {
        self.shared.pool.block_bytes()
    }

    fn settle(&mut self, end: Ended) {
        let Some((head, _turn)) = self.flying.remove(&end.tag) else { return };
        self.shared.watch.activity.disk_answered();
        let error = match end.result {
            Ok(bytes) if bytes >= head.length as usize => {
                self.shared.ready.push(Ready { head, block: end.block });
                return;
            }
            Ok(_) => io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter during the copy"),
            Err(error) => error,
        };
        if let Some(block) = end.block {
            self.shared.empty.push(block);
        }
        self.lost(head.file as usize, &error);
    }
}

fn is_hole(open: &mut Open, range: Range<u64>) -> io::Result<bool> {
    let known = |data: &Option<Range<u64>>| data.as_ref().is_none_or(|data| data.end > range.start);
    if !open.data.as_ref().is_some_and(known) {
        open.data = Some(next_data(&open.source, range.start, open.size)?);
    }
    Ok(open.data.as_ref().is_some_and(|data| data.as_ref().is_none_or(|data| data.start >= range.end)))
}

impl SenderShared {
    /// The thread that reads files for a comparison.
    pub(super) fn compare(&self, roots: &[Root], manifest: &Manifest) {
        let mut known = None;
        while !self.watch.is_over() {
            let Some(file) = self.compares.pop(POLL_INTERVAL) else { continue };
            let (source, path) = &manifest.places[file];
            let found = contents(&mut known, &self.tuning).and_then(|contents| {
                self.found(contents, &roots[*source].tree, path, &manifest.entries[file])
            });
            let found = found.map_err(|error| system_text(&error));
            self.events.push(SenderEvent::Found { file, found });
        }
        known.iter_mut().for_each(|contents| contents.drain(&self.watch));
    }

    fn found(
        &self,
        contents: &mut Contents,
        tree: &Tree,
        path: &Path,
        entry: &super::message::Entry,
    ) -> io::Result<u32> {
        let asked = self.watch.activity.at_disk();
        let (file, direct) = tree.read(path, self.tuning.direct)?;
        drop(asked);
        let reads = Reads { file: &Arc::new(file), direct, size: entry.size(), sparse: true };
        let crc = contents.whole(&reads, &self.watch)?;
        // It must be what it was when it was named.
        let _asked = self.watch.activity.at_disk();
        let now: Option<Status> = tree.status(path)?;
        match now.is_some_and(|now| entry.is_still(&now)) {
            true => Ok(crc),
            false => Err(io::Error::other(changed())),
        }
    }
}
