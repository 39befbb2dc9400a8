//! One disk as the other threads see it: its queue, its writes and its health; and which disk gets the next chunk.
//!
//! The disk that would finish a chunk first gets it, by measured speed and queue length. Among disks of about equal speed it is
//! the one that has used the smallest fraction of its space: equal disks fill equally, and a larger one takes more. So a slow
//! disk gets what its speed allows, and a disk that is full or has failed gets nothing. A disk that hangs gets nothing either,
//! unless all hang: chunks then stay in memory until one responds.

use crate::recording::index::record::{Checksums, ChunkMeta};
use crate::recording::report::{DiskState, Latency};
use crate::recording::write::copies::Copies;
use crate::recording::write::options::Chunk;
use skyhaul_io::disk::{Disk, Log, Means, Place, Waker, WriteClaim};
use skyhaul_io::lock::lock;
use skyhaul_io::memory::View;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// What is assumed of a disk that was not measured yet, in seconds a byte (1 GB/s).
pub(super) const ASSUMED_SECONDS_PER_BYTE: f64 = 1e-9;

/// A line for a disk's index, and the directory that it needs.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) line: String,
    pub(super) directory: Option<(u32, String)>,
}

/// A chunk that a disk is writing.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) ready: Arc<Ready>,
    pub(super) since: Instant,
    pub(super) written: bool,
}

/// What is known of a disk.
#[derive(Debug)]
pub(super) struct DiskQueue {
    pub(super) notes: VecDeque<Note>,
    pub(super) work: VecDeque<Work>,
    /// Bytes of `work`.
    pub(super) waiting: u64,
    pub(super) flying: BTreeMap<u64, InFlight>,
    /// Datastream and number of the chunk that its thread makes ready.
    pub(super) preparing: Option<(u32, u32)>,
    /// Written chunks are being made durable: their memory is free after that.
    pub(super) is_committing: bool,
    /// When its thread was last seen outside any call that may hang.
    pub(super) seen: Instant,
    pub(super) health: DiskState,
    pub(super) error: Option<String>,
    pub(super) seconds_per_byte: f64,
    /// Free beyond the reserve when it was last asked, less what was started since.
    pub(super) free: u64,
    pub(super) free_bytes: u64,
    /// The last chunk that it was considered for does not fit.
    pub(super) short: bool,
    /// It was taken out because its free space fell to the reserve: it returns when space is freed.
    pub(super) out_of_space: bool,
    pub(super) given: u64,
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    pub(super) acknowledged_bytes: u64,
    pub(super) latency: Latency,
    pub(super) means: Means,
}

impl DiskQueue {
    pub(super) fn backlog(&self) -> u64 {
        let flying = self.flying.values().filter(|flying| !flying.written);
        self.waiting + flying.map(|f| f.ready.view.len() as u64).sum::<u64>()
    }

    pub(super) fn push(&mut self, work: Work) {
        self.waiting += work.bytes();
        self.work.push_back(work);
    }

    /// The work that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Work> {
        let work = self.work.pop_front()?;
        self.waiting -= work.bytes();
        Some(work)
    }

    pub(super) fn pop_back(&mut self) -> Option<Work> {
        let work = self.work.pop_back()?;
        self.waiting -= work.bytes();
        Some(work)
    }

    /// Whether a chunk is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.flying.values().any(|flying| !flying.written)
    }

    /// The work that has waited longest, among those that are no copies of chunks.
    pub(super) fn pop_data(&mut self) -> Option<Work> {
        let at = self.work.iter().position(|work| work.copies().is_none())?;
        let work = self.work.remove(at)?;
        self.waiting -= work.bytes();
        Some(work)
    }

    /// At most `most` of the works that have waited longest, among those that `is_spare`.
    pub(super) fn shed(&mut self, is_spare: impl Fn(&Work) -> bool, most: usize) -> Vec<Work> {
        let mut shed = Vec::new();
        let mut at = 0;
        while shed.len() < most && at < self.work.len() {
            if !is_spare(&self.work[at]) {
                at += 1;
                continue;
            }
            let Some(work) = self.work.remove(at) else { break };
            self.waiting -= work.bytes();
            self.given = self.given.saturating_sub(work.bytes());
            self.free += work.bytes();
            shed.push(work);
        }
        shed
    }

    pub(super) fn drain(&mut self) -> Vec<Work> {
        self.waiting = 0;
        self.work.drain(..).collect()
    }

    /// For how long its oldest write is under way.
    pub(super) fn oldest(&self) -> Duration {
        let unwritten = self.flying.values().filter(|flying| !flying.written);
        unwritten.map(|flying| flying.since.elapsed()).max().unwrap_or_default()
    }

    /// For how long the oldest written chunk waits for its sync.
    fn longest_sync(&self) -> Duration {
        let written = self.flying.values().filter(|flying| flying.written);
        written.map(|flying| flying.since.elapsed()).max().unwrap_or_default()
    }

    /// Whether it may be given chunks: see [`choose`].
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.health, DiskState::Active | DiskState::Stalled)
    }

    /// Its state for reports: a disk without room for a chunk is full.
    pub(super) fn reported(&self) -> DiskState {
        if self.short && self.health == DiskState::Active { DiskState::Full } else { self.health }
    }

    /// How long a request has been pending, beyond the time `patience` that a sync may take.
    pub(super) fn silence(&self, patience: Duration) -> Duration {
        let sync = self.longest_sync().saturating_sub(patience);
        self.oldest().max(sync).max(self.seen.elapsed())
    }

    pub(super) fn candidate(&self) -> Candidate {
        Candidate {
            usable: self.is_usable(),
            stalled: self.health == DiskState::Stalled,
            backlog: self.backlog(),
            seconds_per_byte: self.seconds_per_byte,
            oldest: self.oldest().as_secs_f64(),
            free: self.free,
            given: self.given,
        }
    }
}

/// What there is of a disk before anything is made on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    pub(super) place: Place,
    pub(super) free: u64,
    /// The number of its file system.
    pub(super) device: Option<u64>,
}

/// One disk, as the others see it.
#[derive(Debug)]
pub(super) struct SharedDisk {
    pub(super) path: PathBuf,
    /// Its index, when there is one: of a disk that does not respond when the scan begins there is none yet.
    log: OnceLock<Arc<File>>,
    pub(super) waker: Waker,
    state: Mutex<DiskQueue>,
    /// Whether readers of this disk are kept back.
    has_priority: bool,
    /// Keeps readers of this disk back while it has something to write.
    claim: Mutex<Option<WriteClaim>>,
}

impl SharedDisk {
    /// A disk that does not respond, until it [joins](Self::join).
    pub(super) fn new(path: PathBuf, disk: &Disk, has_priority: bool) -> SharedDisk {
        let state = DiskQueue {
            notes: VecDeque::new(),
            work: VecDeque::new(),
            waiting: 0,
            flying: BTreeMap::new(),
            preparing: None,
            is_committing: false,
            seen: Instant::now(),
            health: DiskState::Stalled,
            error: None,
            seconds_per_byte: ASSUMED_SECONDS_PER_BYTE,
            free: 0,
            free_bytes: 0,
            short: false,
            out_of_space: false,
            given: 0,
            chunks: 0,
            bytes: 0,
            acknowledged_bytes: 0,
            latency: Latency::default(),
            means: disk.means().clone(),
        };
        let (log, claim) = Default::default();
        SharedDisk { path, log, waker: disk.waker(), state: Mutex::new(state), has_priority, claim }
    }

    /// Its index, if the scan has begun on it.
    pub(super) fn log(&self) -> Option<&Arc<File>> {
        self.log.get()
    }

    /// The scan has begun on it: it has an index, and had `free` bytes before. Returns whether it still counts.
    pub(super) fn join(&self, log: &Arc<File>, free: u64, reserve: u64) -> bool {
        let mut state = self.state();
        if !state.is_usable() {
            return false;
        }
        // Known already of one that responded in time.
        if self.log.set(Arc::clone(log)).is_ok() {
            let free = free.saturating_sub(Log::AHEAD_BYTES);
            (state.free_bytes, state.free) = (free, free.saturating_sub(reserve));
        }
        state.seen = Instant::now();
        drop(state);
        // Without it the disk is shared as the kernel does.
        *lock(&self.claim) = self.has_priority.then(|| WriteClaim::new(&self.path, log).ok()).flatten();
        true
    }

    /// Tells readers of the disk what it has to write; `memory_percent` is that part of the recording's memory in use. One that hangs
    /// has nothing: its readers are to see that it does.
    pub(super) fn show_demand(&self, memory_percent: u8) {
        let claim = lock(&self.claim);
        let Some(claim) = &*claim else { return };
        let state = self.state();
        let writes = matches!(state.health, DiskState::Active | DiskState::Full);
        let pending = if writes {
            state.backlog() + u64::from(state.preparing.is_some() || state.is_committing)
        } else {
            0
        };
        drop(state);
        claim.set(pending, memory_percent);
    }

    /// Nothing is written to it any more.
    pub(super) fn end_demand(&self) {
        drop(lock(&self.claim).take());
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DiskQueue> {
        // What the lock guards is a set of counters and queues, sound at every step.
        lock(&self.state)
    }
}

/// A chunk that is filled and waits for a disk, or is written.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) datastream: u32,
    pub(super) number: u32,
    pub(super) view: View,
    pub(super) meta: ChunkMeta,
    pub(super) checksums: OnceLock<Checksums>,
    /// Acknowledged by some disk; by as many as copies were asked for, or there will be no more.
    pub(super) settled: AtomicBool,
    /// Where its copies are, if more than one was asked for.
    pub(super) copies: Option<Copies>,
    /// One bit for each disk (modulo 64) that failed it with an error.
    pub(super) avoid: AtomicU64,
    pub(super) attempts: AtomicU64,
}

/// Work for a disk.
#[derive(Debug)]
pub(super) enum Work {
    Fresh(Box<Chunk>),
    Again(Arc<Ready>),
}

impl Work {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Work::Fresh(chunk) => chunk.range.len() as u64,
            Work::Again(ready) => ready.view.len() as u64,
        }
    }

    pub(super) fn avoids(&self, disk: usize) -> bool {
        match self {
            Work::Fresh(_) => false,
            Work::Again(ready) => {
                ready.avoid.load(Ordering::Relaxed) >> (disk % 64) & 1 == 1 || self.is_on(disk)
            }
        }
    }
}

impl Work {
    /// The copies of its chunk, where more than one was asked for.
    fn copies(&self) -> Option<&Copies> {
        match self {
            Work::Fresh(_) => None,
            Work::Again(ready) => ready.copies.as_ref(),
        }
    }

    /// Whether a disk has a copy of its chunk.
    pub(super) fn is_on(&self, disk: usize) -> bool {
        self.copies().is_some_and(|copies| copies.has(disk))
    }

    /// A disk gets it. False if that has a copy of its chunk already.
    pub(super) fn take(&self, disk: usize) -> bool {
        self.copies().is_none_or(|copies| copies.take(disk))
    }

    /// A disk has it no more.
    pub(super) fn leave(&self, disk: usize) {
        self.copies().into_iter().for_each(|copies| copies.leave(disk));
    }

    /// Whether another copy of its chunk is durable: its memory is worth more than it is.
    pub(super) fn is_spare(&self) -> bool {
        self.copies().is_some_and(Copies::is_safe)
    }
}

/// State of a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// It may be given chunks.
    pub(super) usable: bool,
    /// It hangs: used only if every other one does too.
    pub(super) stalled: bool,
    /// Bytes waiting or being written there.
    pub(super) backlog: u64,
    /// Its measured speed.
    pub(super) seconds_per_byte: f64,
    /// For how long its oldest write is under way, in seconds.
    pub(super) oldest: f64,
    /// Bytes free beyond its reserve.
    pub(super) free: u64,
    /// Bytes it was given in this session.
    pub(super) given: u64,
}

/// Disks within this factor of the fastest, plus [`EQUAL_SECONDS`] seconds, count as equally fast.
const EQUAL_FACTOR: f64 = 1.5;
const EQUAL_SECONDS: f64 = 0.005;

impl Candidate {
    /// Seconds until a chunk of `bytes` given now would be done. A write that is under way for long says that
    /// the disk is slower than was measured.
    pub(super) fn finish(&self, bytes: u64) -> f64 {
        let estimate = (self.backlog + bytes) as f64 * self.seconds_per_byte;
        estimate.max(2.0 * self.oldest)
    }

    fn used(&self) -> f64 {
        self.given as f64 / (self.given + self.free).max(1) as f64
    }
}

/// The disk for a chunk of `bytes`, or `None` if none can take it.
pub(super) fn choose(disks: &[Candidate], bytes: u64) -> Option<usize> {
    let room = || disks.iter().enumerate().filter(|(_, disk)| disk.usable && disk.free >= bytes);
    let all_hang = room().all(|(_, disk)| disk.stalled);
    let able = || room().filter(|(_, disk)| all_hang || !disk.stalled);
    let first = able().map(|(_, disk)| disk.finish(bytes)).min_by(f64::total_cmp)?;
    able()
        .filter(|(_, disk)| disk.finish(bytes) <= first * EQUAL_FACTOR + EQUAL_SECONDS)
        .min_by(|(_, a), (_, b)| a.used().total_cmp(&b.used()))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn disk() -> Candidate {
        Candidate {
            usable: true,
            stalled: false,
            backlog: 0,
            seconds_per_byte: 1e-9,
            oldest: 0.0,
            free: 1000 * GB,
            given: 0,
        }
    }

    /// Give 1000 chunks of 16 MB at `rate` bytes a second to disks of `speeds`; how many each got.
    fn simulate(mut disks: Vec<Candidate>, rate: f64) -> Vec<u64> {
        let bytes = 16_000_000;
        let mut got = vec![0; disks.len()];
        for _ in 0..1000 {
            for disk in &mut disks {
                let done = (bytes as f64 / rate / disk.seconds_per_byte) as u64;
                disk.backlog = disk.backlog.saturating_sub(done);
            }
            let Some(index) = choose(&disks, bytes) else { continue };
            got[index] += 1;
            disks[index].backlog += bytes;
            disks[index].given += bytes;
            disks[index].free -= bytes;
        }
        got
    }

    #[test]
    fn equal_disks_share_equally_idle_or_busy() {
        for rate in [0.1e9, 3.5e9] {
            let got = simulate(vec![disk(); 4], rate);
            assert!(got.iter().all(|&n| (240..=260).contains(&n)), "{got:?}");
        }
    }

    #[test]
    fn a_slow_disk_gets_less_and_nothing_waits_for_it() {
        let slow = Candidate { seconds_per_byte: 200e-9, ..disk() };
        let got = simulate(vec![disk(), slow, disk()], 1.5e9);
        assert!(got[1] <= 10, "{got:?}");
        assert_eq!(got.iter().sum::<u64>(), 1000);
    }

    #[test]
    fn a_larger_disk_takes_more() {
        let got = simulate(vec![disk(), Candidate { free: 3000 * GB, ..disk() }], 0.2e9);
        assert!((700..=800).contains(&got[1]), "{got:?}");
    }

    #[test]
    fn full_and_broken_disks_get_nothing() {
        let full = Candidate { free: 100, ..disk() };
        let broken = Candidate { usable: false, ..disk() };
        assert_eq!(choose(&[full, broken, disk()], 1000), Some(2));
        assert_eq!(choose(&[full, broken], 1000), None);
        assert_eq!(choose(&[], 0), None);
    }

    #[test]
    fn a_disk_that_hangs_is_better_than_none_and_worse_than_any_other() {
        let hangs = Candidate { stalled: true, oldest: 60.0, ..disk() };
        let slow = Candidate { seconds_per_byte: 1.0, ..disk() };
        let full = Candidate { free: 100, ..disk() };
        assert_eq!(choose(&[hangs, slow], 1000), Some(1));
        assert_eq!(choose(&[hangs, full], 1000), Some(0));
        assert_eq!(choose(&[Candidate { usable: false, ..hangs }], 1000), None);
    }

    #[test]
    fn a_disk_that_hangs_is_left_before_it_says_so() {
        let hangs = Candidate { oldest: 1.0, ..disk() };
        let busy = Candidate { backlog: GB / 2, given: GB, ..disk() };
        assert_eq!(choose(&[hangs, busy], 1000), Some(1));
    }
}
