//! The shared state of one disk: its queue, its writes, its health.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skyhaul_io::disk::{Disk, Log, Means, Waker};

use crate::recording::write::report::{DiskState, Latency};
use crate::recording::write::striping::Candidate;
use crate::recording::write::work::{Ready, Work};

/// What is assumed of a disk that was not measured yet, in seconds a byte (1 GB/s).
pub(in crate::recording) const ASSUMED: f64 = 1e-9;

/// A line for a disk's index, and the directory that it needs.
#[derive(Clone, Debug)]
pub(in crate::recording) struct Note {
    pub(in crate::recording) line: String,
    pub(in crate::recording) directory: Option<(u32, String)>,
}

/// A chunk that a disk is writing.
#[derive(Debug)]
pub(in crate::recording) struct Flying {
    pub(in crate::recording) ready: Arc<Ready>,
    pub(in crate::recording) since: Instant,
    pub(in crate::recording) written: bool,
}

/// What is known of a disk.
#[derive(Debug)]
pub(in crate::recording) struct LaneState {
    pub(in crate::recording) notes: VecDeque<Note>,
    pub(in crate::recording) work: VecDeque<Work>,
    /// Bytes of `work`.
    pub(in crate::recording) waiting: u64,
    pub(in crate::recording) flying: BTreeMap<u64, Flying>,
    /// Datastream and number of the chunk that its thread makes ready.
    pub(in crate::recording) preparing: Option<(u32, u32)>,
    /// When its thread was last seen outside any call that may hang.
    pub(in crate::recording) seen: Instant,
    pub(in crate::recording) health: DiskState,
    pub(in crate::recording) error: Option<String>,
    pub(in crate::recording) seconds_per_byte: f64,
    /// Free beyond the reserve when it was last asked, less what was started since.
    pub(in crate::recording) free: u64,
    pub(in crate::recording) free_bytes: u64,
    /// The last chunk that it was considered for does not fit.
    pub(in crate::recording) short: bool,
    /// It was taken out because its free space fell to the reserve: it returns when space is freed.
    pub(in crate::recording) out_of_space: bool,
    pub(in crate::recording) given: u64,
    pub(in crate::recording) chunks: u64,
    pub(in crate::recording) bytes: u64,
    pub(in crate::recording) acknowledged_bytes: u64,
    pub(in crate::recording) latency: Latency,
    pub(in crate::recording) means: Means,
}

impl LaneState {
    pub(in crate::recording) fn backlog(&self) -> u64 {
        let flying = self.flying.values().filter(|flying| !flying.written);
        self.waiting + flying.map(|f| f.ready.view.len() as u64).sum::<u64>()
    }

    pub(in crate::recording) fn push(&mut self, work: Work) {
        self.waiting += work.bytes();
        self.work.push_back(work);
    }

    /// The work that has waited longest.
    pub(in crate::recording) fn pop(&mut self) -> Option<Work> {
        let work = self.work.pop_front()?;
        self.waiting -= work.bytes();
        Some(work)
    }

    pub(in crate::recording) fn pop_back(&mut self) -> Option<Work> {
        let work = self.work.pop_back()?;
        self.waiting -= work.bytes();
        Some(work)
    }

    pub(in crate::recording) fn drain(&mut self) -> Vec<Work> {
        self.waiting = 0;
        self.work.drain(..).collect()
    }

    /// For how long its oldest write is under way.
    pub(in crate::recording) fn oldest(&self) -> Duration {
        let unwritten = self.flying.values().filter(|flying| !flying.written);
        unwritten.map(|flying| flying.since.elapsed()).max().unwrap_or_default()
    }

    /// For how long the oldest written chunk waits for its sync.
    fn longest_sync(&self) -> Duration {
        let written = self.flying.values().filter(|flying| flying.written);
        written.map(|flying| flying.since.elapsed()).max().unwrap_or_default()
    }

    /// It may be given chunks: see [`striping`].
    pub(in crate::recording) fn is_usable(&self) -> bool {
        matches!(self.health, DiskState::Active | DiskState::Stalled)
    }

    /// Its state for reports: a disk without room for a chunk is full.
    pub(in crate::recording) fn reported(&self) -> DiskState {
        if self.short && self.health == DiskState::Active { DiskState::Full } else { self.health }
    }

    /// How long a request has been pending, beyond the time `patience` that a sync may take.
    pub(in crate::recording) fn silence(&self, patience: Duration) -> Duration {
        let sync = self.longest_sync().saturating_sub(patience);
        self.oldest().max(sync).max(self.seen.elapsed())
    }

    pub(in crate::recording) fn candidate(&self) -> Candidate {
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
pub(in crate::recording) struct Lane {
    pub(in crate::recording) path: PathBuf,
    /// Its index.
    pub(in crate::recording) log: Arc<File>,
    pub(in crate::recording) waker: Waker,
    state: Mutex<LaneState>,
}

impl Lane {
    pub(in crate::recording) fn new(path: PathBuf, disk: &Disk, log: &Log) -> Lane {
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

    pub(in crate::recording) fn state(&self) -> MutexGuard<'_, LaneState> {
        // What the lock guards is a set of counters and queues, sound at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
