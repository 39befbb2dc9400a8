//! State shared by the disks' threads and the caller: the disk of each chunk, and the state of each disk.
//!
//! One short lock for each disk and one for the accounts; no two are ever held together, and none across a
//! system call that can wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::awake::Awake;
use crate::ledger::Discard;

use crate::recording::index::event::Event;
use crate::recording::index::record::{LostChunk, Record};
use crate::recording::write::lane::{Lane, Note};
use crate::recording::write::ledger::Ledger;
use crate::recording::write::options::{SyncPolicy, WriterOptions};
use crate::recording::write::report::{DiskState, DiskStatus};
use crate::recording::write::space::Space;
use crate::recording::write::striping::{self, Candidate};
use crate::recording::write::work::{Ready, Work};

/// Time between looks at free space and at other disks.
pub(in crate::recording) const TICK: Duration = Duration::from_millis(250);
/// Maximum number of different disks that a chunk is given to.
const MOST_ATTEMPTS: u64 = 16;

/// All that is shared.
#[derive(Debug)]
pub(in crate::recording) struct Dispatch {
    pub(in crate::recording) lanes: Vec<Lane>,
    ledger: Mutex<Ledger>,
    settled: Condvar,
    pub(in crate::recording) session: u64,
    pub(in crate::recording) sync: SyncPolicy,
    pub(in crate::recording) reserve: u64,
    pub(in crate::recording) stall: Duration,
    /// Time left at which the operator is warned that the disks fill up.
    pub(in crate::recording) space_alarm: Duration,
    pub(in crate::recording) space: Mutex<Space>,
    pub(in crate::recording) begun: Instant,
    /// Bytes of the largest chunk so far.
    pub(in crate::recording) chunk_bytes: AtomicU64,
    /// No disk had room for the last chunk.
    pub(in crate::recording) all_full: AtomicBool,
    /// When [`Dispatch::watch`] was last called because no disk's thread does it.
    watched: Mutex<Instant>,
    /// Stops while this program does not run.
    turns: Mutex<Awake>,
    closed: AtomicBool,
    ending: AtomicBool,
}

impl Dispatch {
    pub(in crate::recording) fn new(lanes: Vec<Lane>, session: u64, options: &WriterOptions) -> Dispatch {
        let dispatch = Dispatch {
            lanes,
            ledger: Mutex::default(),
            settled: Condvar::new(),
            session,
            sync: options.sync,
            reserve: options.reserve_bytes,
            stall: options.stall,
            space_alarm: options.space_alarm,
            space: Mutex::default(),
            begun: Instant::now(),
            chunk_bytes: AtomicU64::new(options.chunk_bytes()),
            all_full: AtomicBool::new(false),
            watched: Mutex::new(Instant::now()),
            turns: Mutex::new(Awake::start()),
            closed: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        };
        for lane in &dispatch.lanes {
            let free = skyhaul_io::disk::free_bytes(&lane.path).unwrap_or_default();
            let mut state = lane.state();
            (state.free_bytes, state.free) = (free, free.saturating_sub(dispatch.reserve));
        }
        dispatch
    }

    pub(in crate::recording) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Give `work` to the best disk, or return it if there is none.
    pub(in crate::recording) fn give(&self, work: Work, attempt: u64) -> Result<(), Work> {
        if attempt > MOST_ATTEMPTS {
            return Err(work);
        }
        let mut candidates: Vec<Candidate> = self.lanes.iter().map(|lane| lane.state().candidate()).collect();
        for (disk, candidate) in candidates.iter_mut().enumerate() {
            candidate.usable &= !work.avoids(disk);
        }
        self.mark_short(&candidates, work.bytes());
        let Some(index) = striping::choose(&candidates, work.bytes()) else { return Err(work) };
        let lane = &self.lanes[index];
        {
            let mut state = lane.state();
            if !state.is_usable() {
                // It broke in between: choose again.
                drop(state);
                return self.give(work, attempt + 1);
            }
            let bytes = work.bytes();
            state.given += bytes;
            state.free = state.free.saturating_sub(bytes);
            state.push(work);
        }
        lane.waker.wake();
        Ok(())
    }

    /// Give a chunk that a disk failed to another one, or count it as lost.
    pub(in crate::recording) fn give_again(&self, work: Work) {
        if let Work::Again(ready) = &work {
            if ready.settled.load(Ordering::Acquire) {
                return;
            }
            self.ledger().rewrite(ready.datastream);
        }
        let attempt = match &work {
            Work::Again(ready) => ready.attempts.fetch_add(1, Ordering::Relaxed),
            Work::Fresh(_) => 0,
        };
        if let Err(work) = self.give(work, attempt) {
            let (datastream, number) = match &work {
                Work::Fresh(chunk) => (chunk.datastream.0, chunk.number),
                Work::Again(ready) => (ready.datastream, ready.number),
            };
            self.lose(datastream, number, self.why_none());
        }
    }

    /// A waiting chunk of a disk so far behind that disk `thief`, which has nothing to do, would be faster.
    pub(in crate::recording) fn steal(&self, thief: usize) -> Option<Work> {
        let mine = self.lanes[thief].state().candidate();
        if !mine.usable || mine.stalled {
            return None;
        }
        for (index, lane) in self.lanes.iter().enumerate().filter(|&(index, _)| index != thief) {
            let mut state = lane.state();
            let Some(bytes) = state.work.back().map(Work::bytes) else { continue };
            let late = state.candidate().finish(0) > 3.0 * mine.finish(bytes) + 0.02;
            let idle = state.health != DiskState::Active;
            if !(late || idle)
                || mine.free < bytes
                || state.work.back().is_some_and(|work| work.avoids(thief))
            {
                continue;
            }
            let work = state.pop_back();
            state.given = state.given.saturating_sub(bytes);
            state.free += bytes;
            drop(state);
            debug_assert_ne!(index, thief);
            let mut state = self.lanes[thief].state();
            state.given += bytes;
            state.free = state.free.saturating_sub(bytes);
            return work;
        }
        None
    }

    pub(in crate::recording) fn acknowledge(&self, ready: &Ready) -> bool {
        ready.settled.store(true, Ordering::Release);
        let first = self.ledger().acknowledge(ready.datastream, ready.number);
        self.settled.notify_all();
        first
    }

    /// Count a chunk as lost, and say so on every disk that is left.
    pub(in crate::recording) fn lose(&self, datastream: u32, number: u32, why: Discard) {
        let Some(given) = self.ledger().lose(datastream, number, why) else { return };
        self.settled.notify_all();
        let lost = LostChunk::new(datastream, number, why, &given);
        self.broadcast(&Note { line: Record::Lost(lost).to_line(), directory: None });
    }

    /// Keep an event, and write it to every index but `except`'s.
    pub(in crate::recording) fn event(&self, event: Event, except: Option<usize>) {
        let note = Note { line: Record::Event(event.clone()).to_line(), directory: None };
        self.ledger().note(event);
        for index in (0..self.lanes.len()).filter(|&index| Some(index) != except) {
            self.tell(index, note.clone());
        }
    }

    pub(in crate::recording) fn broadcast(&self, note: &Note) {
        (0..self.lanes.len()).for_each(|index| self.tell(index, note.clone()));
    }

    fn tell(&self, index: usize, note: Note) {
        // Limits the lines queued for a hanging disk.
        const MOST_NOTES: usize = 10_000;
        let lane = &self.lanes[index];
        let mut state = lane.state();
        if state.notes.len() < MOST_NOTES {
            state.notes.push_back(note);
        }
        drop(state);
        lane.waker.wake();
    }

    /// Take a disk out: its waiting chunks go to others. True for the first time.
    pub(in crate::recording) fn retire(&self, index: usize, health: DiskState, error: &str) -> bool {
        let lane = &self.lanes[index];
        let mut state = lane.state();
        let first = state.is_usable();
        if first {
            state.health = health;
            state.error = Some(error.to_owned());
            state.short = false;
        }
        let waiting = state.drain();
        drop(state);
        if first {
            let kind = if health == DiskState::Full { "disk_full" } else { "disk_failed" };
            self.event(Event::now(kind, Some(lane.path.clone()), error.to_owned()), Some(index));
        }
        waiting.into_iter().for_each(|work| self.give_again(work));
        first
    }

    /// A disk's thread panicked: its chunks go to other disks. The one being prepared is lost.
    pub(in crate::recording) fn died(&self, index: usize, panic: &str) {
        self.retire(index, DiskState::Failed, &format!("bug: its thread panicked: {panic}"));
        let mut state = self.lanes[index].state();
        let flying = std::mem::take(&mut state.flying);
        let preparing = state.preparing.take();
        drop(state);
        if let Some((datastream, number)) = preparing {
            self.lose(datastream, number, Discard::DisksFailed);
        }
        for ready in flying.into_values().map(|flying| flying.ready) {
            ready.avoid.fetch_or(1 << (index % 64), Ordering::Relaxed);
            self.give_again(Work::Again(ready));
        }
    }

    /// A written chunk may wait for its commit's turn, and that for the one before it.
    fn patience(&self) -> Duration {
        self.stall + if let SyncPolicy::Interval(time) = self.sync { time } else { Duration::ZERO }
    }

    /// Give chunks of hanging disks to working ones; called by each disk's thread now and then.
    pub(in crate::recording) fn watch(&self, watcher: usize) {
        if self.is_ending() {
            return;
        }
        if watcher < self.lanes.len() {
            self.forgive_pause();
        }
        for (index, lane) in self.lanes.iter().enumerate().filter(|&(index, _)| index != watcher) {
            let mut state = lane.state();
            let silence = state.silence(self.patience());
            if state.health != DiskState::Active || silence < self.stall {
                continue;
            }
            state.health = DiskState::Stalled;
            let mut work = state.drain();
            work.extend(state.flying.values().map(|flying| Work::Again(flying.ready.clone())));
            drop(state);
            let text = format!("a write has not finished within {:.1} s", silence.as_secs_f64());
            self.event(Event::now("disk_stalled", Some(lane.path.clone()), text), Some(index));
            work.into_iter().for_each(|work| self.hedge(work));
        }
    }

    /// Exclude the time of a pause of this program for all disks.
    fn forgive_pause(&self) {
        // Held until all is forgiven: the thread of another disk, for which the pause is over by then, must not judge before.
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pause) = turns.turn() {
            self.forgive(pause);
        }
    }

    /// Exclude `pause` for all disks.
    pub(in crate::recording) fn forgive(&self, pause: Duration) {
        let now = Instant::now();
        let later = |time: Instant| time.checked_add(pause).map_or(now, |time| time.min(now));
        for lane in &self.lanes {
            let mut state = lane.state();
            state.seen = later(state.seen);
            state.flying.values_mut().for_each(|flying| flying.since = later(flying.since));
        }
    }

    /// [`watch`](Self::watch) for the caller who gives chunks: each disk's thread may hang.
    pub(in crate::recording) fn watch_all(&self) {
        let Ok(mut watched) = self.watched.try_lock() else { return };
        if watched.elapsed() >= TICK {
            *watched = Instant::now();
            self.watch(usize::MAX);
        }
    }

    /// Use a stalled disk again when its pending writes have finished.
    pub(in crate::recording) fn resume(&self, index: usize) {
        let lane = &self.lanes[index];
        let mut state = lane.state();
        if state.health != DiskState::Stalled || state.silence(self.patience()) >= self.stall {
            return;
        }
        state.health = DiskState::Active;
        drop(state);
        let text = "it responds again and is used".to_owned();
        self.event(Event::now("disk_resumed", Some(lane.path.clone()), text), None);
    }

    /// Like [`Dispatch::give_again`], but a chunk that no other disk can take stays with its disk.
    fn hedge(&self, work: Work) {
        match work {
            Work::Fresh(_) => self.give_again(work),
            Work::Again(ready) if !ready.settled.load(Ordering::Acquire) => {
                if self.give(Work::Again(ready.clone()), 0).is_ok() {
                    self.ledger().rewrite(ready.datastream);
                }
            }
            Work::Again(_) => {}
        }
    }

    pub(in crate::recording) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lanes.iter().for_each(|lane| lane.waker.wake());
    }

    pub(in crate::recording) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Wait until every chunk's fate is known, at most until `end`.
    pub(in crate::recording) fn wait_settled(&self, end: Instant) {
        let mut ledger = self.ledger();
        while !ledger.is_settled() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let wait = self.settled.wait_timeout(ledger, left.min(Duration::from_millis(100)));
            ledger = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Let the threads end.
    pub(in crate::recording) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.lanes.iter().for_each(|lane| lane.waker.wake());
    }

    pub(in crate::recording) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    pub(in crate::recording) fn status(&self) -> Vec<DiskStatus> {
        let status = |lane: &Lane| {
            let state = lane.state();
            DiskStatus {
                path: lane.path.clone(),
                state: state.reported(),
                engine: state.means.engine.to_owned(),
                direct: state.means.direct,
                registered: state.means.registered,
                notes: state.means.notes.clone(),
                chunks: state.chunks,
                bytes: state.bytes,
                acknowledged_bytes: state.acknowledged_bytes,
                queue_chunks: (state.work.len() + state.flying.values().filter(|f| !f.written).count())
                    as u64,
                queue_bytes: state.backlog(),
                rate: if state.chunks > 0 { 1.0 / state.seconds_per_byte } else { 0.0 },
                latency: state.latency.clone(),
                free_bytes: state.free_bytes,
                room_bytes: if state.is_usable() { state.free } else { 0 },
                error: state.error.clone(),
            }
        };
        self.lanes.iter().map(status).collect()
    }
}
