//! State shared by the disks' threads and the caller: the disk of each chunk, and the state of each disk.
//!
//! One short lock for each disk and one for the accounts; no two are ever held together, and none across a
//! system call that can wait.

use crate::awake::Awake;
use crate::ledger::Discard;
use crate::recording::index::record::{LostChunk, Record};
use crate::recording::report::{DiskState, DiskStatus, Event};
use crate::recording::write::account::{Ledger, Space};
use crate::recording::write::copies::CopyAlarm;
use crate::recording::write::options::{SyncPolicy, WriterOptions};
use crate::recording::write::queue;
use crate::recording::write::queue::{Candidate, Looked, Note, Ready, SharedDisk, Work};
use skyhaul_io::lock::{lock, wait_while};
use skyhaul_io::memory::Pool;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time between looks at free space and at other disks.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Maximum number of times a chunk is given to another disk after one failed it.
const MAX_REWRITES: u64 = 16;

/// The shared state.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) disks: Vec<SharedDisk>,
    ledger: Mutex<Ledger>,
    settled: Condvar,
    pub(super) session: u64,
    pub(super) sync: SyncPolicy,
    pub(super) reserve: u64,
    pub(super) stall: Duration,
    /// Copies of each chunk that were asked for.
    pub(super) copies: u32,
    pub(super) copy_alarm: Mutex<CopyAlarm>,
    /// Time left at which the operator is warned that the disks fill up.
    pub(super) space_alarm: Duration,
    pub(super) space: Mutex<Space>,
    pub(super) begun: Instant,
    pool: Option<Pool>,
    /// Bytes of the largest chunk so far.
    pub(super) chunk_bytes: AtomicU64,
    /// No disk had room for the last chunk.
    pub(super) all_full: AtomicBool,
    /// When [`Dispatch::watch`] was last called because no disk's thread does it.
    watched: Mutex<Instant>,
    /// Stops while this program does not run.
    turns: Mutex<Awake>,
    closed: AtomicBool,
    ending: AtomicBool,
}

impl Dispatch {
    pub(super) fn new(disks: Vec<SharedDisk>, session: u64, options: &WriterOptions) -> Dispatch {
        Dispatch {
            disks,
            ledger: Mutex::new(Ledger::new(options.copies)),
            settled: Condvar::new(),
            session,
            sync: options.sync,
            reserve: options.reserve_bytes,
            stall: options.stall,
            copies: options.copies,
            copy_alarm: Mutex::default(),
            space_alarm: options.space_alarm,
            space: Mutex::default(),
            begun: Instant::now(),
            pool: options.pool.clone(),
            chunk_bytes: AtomicU64::new(options.chunk_bytes()),
            all_full: AtomicBool::new(false),
            watched: Mutex::new(Instant::now()),
            turns: Mutex::new(Awake::start()),
            closed: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        }
    }

    /// The scan begins: disks with an index are used from now on.
    pub(super) fn begin(&self, logs: &[Option<Arc<File>>], looked: &[Option<Looked>]) {
        for ((disk, log), found) in self.disks.iter().zip(logs).zip(looked) {
            if let (Some(log), Some(found)) = (log, found) {
                disk.join(log, found.free, self.reserve);
                disk.state().health = DiskState::Active;
            }
        }
    }

    /// A disk does not respond while the scan begins.
    pub(super) fn note_silent_disk(&self, index: usize) {
        let text = "it has not responded since the scan was opened; it is used as soon as it does";
        let path = self.disks[index].path.clone();
        self.event(Event::now("disk_stalled", Some(path), text.to_owned()), None);
    }

    /// The scan ends: disks that never responded have failed.
    pub(super) fn give_up_silent_disks(&self) {
        for (index, _) in self.disks.iter().enumerate().filter(|(_, disk)| disk.log().is_none()) {
            self.retire(
                index,
                DiskState::Failed,
                "it did not respond from the beginning of the scan to its end",
            );
        }
    }

    /// Tells readers of a disk what it has to write.
    pub(super) fn show_demand(&self, index: usize) {
        let used = self.pool.as_ref().map_or(0, |pool| {
            let blocks = pool.blocks().max(1);
            100 * blocks.saturating_sub(pool.free()) / blocks
        });
        self.disks[index].show_demand(u8::try_from(used).unwrap_or(100));
    }

    /// Free blocks of the memory, and all of them.
    pub(super) fn memory(&self) -> Option<(usize, usize)> {
        self.pool.as_ref().map(|pool| (pool.free(), pool.blocks()))
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Give `work` to the best disk, or return it if there is none. `attempt` counts from 0.
    pub(super) fn give(&self, work: Work, attempt: u64) -> Result<(), Work> {
        if attempt >= MAX_REWRITES {
            return Err(work);
        }
        let mut candidates: Vec<Candidate> = self.disks.iter().map(|disk| disk.state().candidate()).collect();
        for (disk, candidate) in candidates.iter_mut().enumerate() {
            candidate.usable &= !work.avoids(disk);
        }
        // It would only keep memory. Where no copy is durable, the one that waits may become the only one.
        let is_spare = work.is_spare();
        if is_spare {
            candidates.iter_mut().for_each(|candidate| candidate.usable &= !candidate.stalled);
        }
        self.mark_short(&candidates, work.bytes());
        let Some(index) = queue::choose(&candidates, work.bytes()) else { return Err(work) };
        let disk = &self.disks[index];
        if !work.take(index) {
            // Another copy of the chunk came there in between.
            return self.give(work, attempt + 1);
        }
        {
            let mut state = disk.state();
            if !state.is_usable() || is_spare && state.health == DiskState::Stalled {
                // It broke in between: choose again.
                drop(state);
                work.leave(index);
                return self.give(work, attempt + 1);
            }
            let bytes = work.bytes();
            state.given += bytes;
            state.free = state.free.saturating_sub(bytes);
            state.push(work);
        }
        disk.waker.wake();
        self.show_demand(index);
        Ok(())
    }

    /// Give a chunk that a disk failed to another one, or count it as lost.
    pub(super) fn give_again(&self, work: Work) {
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
            if matches!(&work, Work::Again(ready) if ready.copies.is_some()) {
                return self.give_copy_up(&work);
            }
            let (datastream, number) = match &work {
                Work::Fresh(chunk) => (chunk.datastream.0, chunk.number),
                Work::Again(ready) => (ready.datastream, ready.number),
            };
            self.lose(datastream, number, self.why_none());
        }
    }

    /// A waiting chunk of a disk so far behind that disk `thief`, which has nothing to do, would be faster.
    pub(super) fn steal(&self, thief: usize) -> Option<Work> {
        let mine = self.disks[thief].state().candidate();
        if !mine.usable || mine.stalled {
            return None;
        }
        for (index, disk) in self.disks.iter().enumerate().filter(|&(index, _)| index != thief) {
            let mut state = disk.state();
            let Some(bytes) = state.work.back().map(Work::bytes) else { continue };
            let late = state.candidate().finish(0) > 3.0 * mine.finish(bytes) + 0.02;
            let idle = state.health != DiskState::Active;
            if !(late || idle)
                || mine.free < bytes
                || state.work.back().is_some_and(|work| work.avoids(thief) || !work.take(thief))
            {
                continue;
            }
            let work = state.pop_back();
            work.iter().for_each(|work| work.leave(index));
            state.given = state.given.saturating_sub(bytes);
            state.free += bytes;
            drop(state);
            debug_assert_ne!(index, thief);
            let mut state = self.disks[thief].state();
            state.given += bytes;
            state.free = state.free.saturating_sub(bytes);
            return work;
        }
        None
    }

    pub(super) fn acknowledge(&self, ready: &Ready) -> bool {
        if let Some(copies) = &ready.copies {
            self.acknowledge_copy(ready, copies);
            return true;
        }
        ready.settled.store(true, Ordering::Release);
        let first = self.ledger().acknowledge(ready.datastream, ready.number);
        self.settled.notify_all();
        first
    }

    /// Those who wait for the fate of all chunks look again.
    pub(super) fn note_settled(&self) {
        self.settled.notify_all();
    }

    /// Count a chunk as lost, and record that on every working disk.
    pub(super) fn lose(&self, datastream: u32, number: u32, why: Discard) {
        let Some(given) = self.ledger().lose(datastream, number, why) else { return };
        self.settled.notify_all();
        let lost = LostChunk::new(datastream, number, why, &given);
        self.broadcast(&Note { line: Record::Lost(lost).to_line(), directory: None });
    }

    /// Keep an event, and write it to every index but `except`'s.
    pub(super) fn event(&self, event: Event, except: Option<usize>) {
        let note = Note { line: Record::Event(event.clone()).to_line(), directory: None };
        self.ledger().note(event);
        for index in (0..self.disks.len()).filter(|&index| Some(index) != except) {
            self.tell(index, note.clone());
        }
    }

    pub(super) fn broadcast(&self, note: &Note) {
        (0..self.disks.len()).for_each(|index| self.tell(index, note.clone()));
    }

    fn tell(&self, index: usize, note: Note) {
        // Limits the lines queued for a hanging disk.
        const MAX_NOTES: usize = 10_000;
        let disk = &self.disks[index];
        let mut state = disk.state();
        if state.notes.len() < MAX_NOTES {
            state.notes.push_back(note);
        }
        drop(state);
        disk.waker.wake();
    }

    /// Stop using a disk: its waiting chunks go to others. Returns true the first time.
    pub(super) fn retire(&self, index: usize, health: DiskState, error: &str) -> bool {
        let disk = &self.disks[index];
        let mut state = disk.state();
        let first = state.is_usable();
        if first {
            state.health = health;
            state.error = Some(error.to_owned());
            state.short = false;
        }
        let waiting = state.drain();
        drop(state);
        self.show_demand(index);
        if first {
            let kind = if health == DiskState::Full { "disk_full" } else { "disk_failed" };
            self.event(Event::now(kind, Some(disk.path.clone()), error.to_owned()), Some(index));
        }
        waiting.into_iter().for_each(|work| self.move_from(index, work));
        first
    }

    /// What waited for a disk goes to others.
    fn move_from(&self, index: usize, work: Work) {
        work.leave(index);
        self.give_again(work);
    }

    /// A disk's thread panicked: its chunks go to other disks. The one being prepared is lost.
    pub(super) fn died(&self, index: usize, panic: &str) {
        self.retire(index, DiskState::Failed, &format!("bug: its thread panicked: {panic}"));
        let mut state = self.disks[index].state();
        let flying = std::mem::take(&mut state.flying);
        let preparing = state.preparing.take();
        drop(state);
        if let Some((datastream, number)) = preparing {
            self.lose(datastream, number, Discard::DisksFailed);
        }
        for ready in flying.into_values().map(|flying| flying.ready) {
            ready.avoid.fetch_or(1 << (index % 64), Ordering::Relaxed);
            self.move_from(index, Work::Again(ready));
        }
    }

    /// A written chunk may wait for its commit's turn, and that for the one before it.
    fn patience(&self) -> Duration {
        self.stall + if let SyncPolicy::Interval(time) = self.sync { time } else { Duration::ZERO }
    }

    /// Give chunks of hanging disks to working ones; called by each disk's thread now and then.
    pub(super) fn watch(&self, watcher: usize) {
        if self.is_ending() {
            return;
        }
        if watcher < self.disks.len() {
            self.forgive_pause();
        }
        for (index, disk) in self.disks.iter().enumerate().filter(|&(index, _)| index != watcher) {
            let mut state = disk.state();
            let silence = state.silence(self.patience());
            if state.health != DiskState::Active || silence < self.stall {
                continue;
            }
            state.health = DiskState::Stalled;
            let mut work = state.drain();
            // A copy that waits is moved; one that is being written stays, and another one is written beside it.
            let copies: Vec<Work> = work.extract_if(.., |work| work.is_on(index)).collect();
            work.extend(state.flying.values().map(|flying| Work::Again(flying.ready.clone())));
            drop(state);
            self.show_demand(index);
            let text = format!("a write has not finished within {:.1} s", silence.as_secs_f64());
            self.event(Event::now("disk_stalled", Some(disk.path.clone()), text), Some(index));
            copies.into_iter().for_each(|work| self.move_from(index, work));
            work.into_iter().for_each(|work| self.hedge(work));
        }
    }

    /// Exclude the time of a pause of this program for all disks.
    fn forgive_pause(&self) {
        // Held until all is forgiven: the thread of another disk, for which the pause is over by then, must not judge before.
        let mut turns = lock(&self.turns);
        if let Some(pause) = turns.turn() {
            self.forgive(pause);
        }
    }

    /// Exclude `pause` for all disks.
    pub(super) fn forgive(&self, pause: Duration) {
        let now = Instant::now();
        let later = |time: Instant| time.checked_add(pause).map_or(now, |time| time.min(now));
        for disk in &self.disks {
            let mut state = disk.state();
            state.seen = later(state.seen);
            state.flying.values_mut().for_each(|flying| flying.since = later(flying.since));
        }
    }

    /// [`watch`](Self::watch) for the caller who gives chunks: each disk's thread may hang.
    pub(super) fn watch_all(&self) {
        let Ok(mut watched) = self.watched.try_lock() else { return };
        if watched.elapsed() >= TICK {
            *watched = Instant::now();
            self.watch(usize::MAX);
        }
    }

    /// Use a stalled disk again when its pending writes have finished.
    pub(super) fn resume(&self, index: usize) {
        let disk = &self.disks[index];
        let mut state = disk.state();
        if state.health != DiskState::Stalled || state.silence(self.patience()) >= self.stall {
            return;
        }
        state.health = DiskState::Active;
        drop(state);
        let text = "it responds again and is used".to_owned();
        self.event(Event::now("disk_resumed", Some(disk.path.clone()), text), None);
    }

    /// Like [`Dispatch::give_again`], but a chunk that no other disk can take stays with its disk.
    fn hedge(&self, work: Work) {
        match work {
            Work::Fresh(_) => self.give_again(work),
            Work::Again(ready) if !ready.settled.load(Ordering::Acquire) => {
                // Before it is given: it may be written before it is counted.
                if ready.copies.is_some() {
                    self.ledger().expect_copies(ready.datastream, ready.number, 1);
                }
                match self.give(Work::Again(ready.clone()), 0) {
                    Ok(()) => self.ledger().rewrite(ready.datastream),
                    Err(work) if ready.copies.is_some() => self.give_copy_up(&work),
                    Err(_) => {}
                }
            }
            Work::Again(_) => {}
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.disks.iter().for_each(|disk| disk.waker.wake());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Wait until every chunk's fate is known, at most until `end`. For further copies on a disk that hangs, `hanging` is enough.
    pub(super) fn wait_settled(&self, end: Instant, hanging: Duration) {
        let soon = Instant::now() + hanging;
        let mut ledger = self.ledger();
        while !ledger.is_settled() {
            let are_safe = ledger.are_safe();
            drop(ledger);
            let hangs = |disk: &SharedDisk| disk.state().health == DiskState::Stalled;
            let end = if are_safe && self.disks.iter().any(hangs) { end.min(soon) } else { end };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            ledger = self.ledger();
            let at_most = left.min(Duration::from_millis(100));
            ledger = wait_while(&self.settled, ledger, at_most, |ledger| !ledger.is_settled());
        }
    }

    /// Let the threads end.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.disks.iter().for_each(|disk| disk.waker.wake());
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    pub(super) fn status(&self) -> Vec<DiskStatus> {
        let status = |disk: &SharedDisk| {
            let state = disk.state();
            DiskStatus {
                path: disk.path.clone(),
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
        self.disks.iter().map(status).collect()
    }
}
