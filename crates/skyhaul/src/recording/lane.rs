//! The shared state of one disk: its queue, its writes, its health.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skyhaul_io::disk::{Disk, Log, Means, Waker};

use super::report::{DiskState, Latency};
use super::striping::Candidate;
use super::work::{Ready, Work};

/// What is assumed of a disk that was not measured yet, in seconds a byte (1 GB/s).
pub(super) const ASSUMED: f64 = 1e-9;

/// A line for a disk's index, and the directory that it needs.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) line: String,
    pub(super) directory: Option<(u32, String)>,
}

/// A chunk that a disk is writing.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) ready: Arc<Ready>,
    pub(super) since: Instant,
    pub(super) written: bool,
}

/// What is known of a disk.
#[derive(Debug)]
pub(super) struct LaneState {
    pub(super) notes: VecDeque<Note>,
    pub(super) work: VecDeque<Work>,
    /// Bytes of `work`.
    pub(super) waiting: u64,
    pub(super) flying: BTreeMap<u64, Flying>,
    /// Datastream and number of the chunk that its thread makes ready.
    pub(super) preparing: Option<(u32, u32)>,
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

impl LaneState {
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

    /// It may be given chunks: see [`striping`].
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

/// One disk, as the others see it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) path: PathBuf,
    /// Its index.
    pub(super) log: Arc<File>,
    pub(super) waker: Waker,
    state: Mutex<LaneState>,
}

impl Lane {
    pub(super) fn new(path: PathBuf, disk: &Disk, log: &Log) -> Lane {
        let state = LaneState {
            notes: VecDeque::new(),
            work: VecDeque::new(),
            waiting: 0,
            flying: BTreeMap::new(),
            preparing: None,
            seen: Instant::now(),
            health: DiskState::Active,
            error: None,
            seconds_per_byte: ASSUMED,
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
        Lane { path, log: log.file().clone(), waker: disk.waker(), state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LaneState> {
        // What the lock guards is a set of counters and queues, sound at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
