//! Common work of all readers of a stream: lock, place, deliver, timeouts.
//!
//! ```text
//!   reader ─ train ─▶ lock ▶ place each packet ▶ take what is finished ▶ unlock ─▶ … ─▶ ring, once per poll
//! ```
//!
//! A reader that waits (for room in the ring, for memory) holds no lock. What it would read meanwhile is not late: unless another
//! reader runs, the time in which it waits for the user is none for heaps, or they would be given up for packets that are in
//! the socket.

mod presence;

use super::config::{Full, StreamConfig};
use super::own::{NAP, Reader, lock};
use super::ring::Ring;
use super::run::Sender;
use super::stats::{Counts, Ended, ReaderStats, Stats};
use super::store::{Finished, Opening, Store};
use super::table::Table;
use crate::awake::Awake;
use crate::receive::reader::WAIT;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_io::copy;
use skyhaul_io::memory::heap::HeapMemory;
use std::collections::vec_deque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes received before the reader yields to a user who has not taken everything.
const PILE: u64 = 2 << 20;

/// Minimum time between two checks of timeouts.
const TICK: Nanos = Nanos(2_000_000);
/// Several times the longest interval between two clock readings while a reader runs.
const TURN: Duration = Duration::from_millis(100);
/// Trains between two readings of the clock.
const TRAINS_PER_LOOK: u32 = 16;

/// Takes finished objects at once, on the thread that finished them. It must not wait.
pub(crate) type Taker<O> = Box<dyn Fn(vec_deque::Drain<'_, O>) + Send + Sync>;

/// State of a stream shared by its readers.
pub(crate) struct StreamState<S: Store> {
    pub(crate) name: String,
    pub(crate) full: Full,
    overflow: u64,
    pub(crate) memory: HeapMemory,
    /// Bytes of it to touch in advance.
    pub(crate) ahead: u64,
    /// Bytes of the largest heap.
    pub(crate) largest: u64,
    /// Whether the idle timeout is set.
    pub(crate) ends_idle: bool,
    /// Maximum silence of a heap.
    pub(crate) patience: Option<Nanos>,
    cpus: Vec<usize>,
    /// The stream's time zero.
    begun: Instant,
    /// Deadline, by the wall clock.
    deadline: Option<Duration>,
    /// Time in which it was read: while no reader runs, packets stay in the sockets, and no heap times out for that.
    clock: Mutex<Awake>,
    table: Mutex<Table<S>>,
    pub(crate) ring: Arc<Ring<S::Out>>,
    /// Takes finished objects in place of the ring.
    taker: OnceLock<Taker<S::Out>>,
    /// Shared queue of finished objects of a group of streams, in order; otherwise each reader has its own.
    pub(crate) finished: Option<Finished<S::Out>>,
    /// Signals memory that the user opens for readers; they wait for it until the stream ends.
    pub(crate) opening: Option<Arc<Opening>>,
    started: (Mutex<bool>, Condvar),
    /// Reading has ended.
    over: AtomicBool,
    /// Readers must not wait for the user any more.
    pub(crate) stopping: AtomicBool,
    left: AtomicBool,
    pub(crate) running: AtomicUsize,
    /// Number of readers and connections that wait for memory.
    pub(crate) waiting: AtomicUsize,
    readers: Mutex<Vec<Arc<Mutex<ReaderStats>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Number of reader threads that have not ended.
    alive: (Mutex<usize>, Condvar),
    /// Counters not of a reader's thread.
    own: Mutex<Counts>,
}

impl<S: Store> StreamState<S> {
    pub(crate) fn new(config: &StreamConfig, begun: Instant, store: S, ring: Arc<Ring<S::Out>>) -> Self {
        ring.join();
        let (finished, opening) = (store.finished(), store.opening());
        Self {
            finished,
            opening,
            name: config.name.clone(),
            full: config.full,
            overflow: config.overflow,
            memory: config.memory.clone(),
            ahead: config.ahead,
            largest: config.heaps.largest.min(config.memory.limit()),
            ends_idle: config.idle_timeout.is_some(),
            patience: config.heaps.timeout,
            cpus: config.cpus.clone(),
            begun,
            deadline: config.deadline,
            clock: Mutex::new(Awake::with_turns(TURN)),
            table: Mutex::new(Table::new(config, store)),
            ring,
            taker: OnceLock::new(),
            started: (Mutex::new(!config.explicit_start), Condvar::new()),
            over: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            left: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            readers: Mutex::default(),
            threads: Mutex::default(),
            alive: (Mutex::new(0), Condvar::new()),
            own: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.turn().0
    }

    /// The time, and whether the program was paused since the last reading.
    fn turn(&self) -> (Nanos, bool) {
        let mut clock = lock(&self.clock);
        let pause = clock.turn();
        let now = clock.now();
        drop(clock);
        // Without a reader, a long interval is not a pause.
        if let Some(pause) = pause.filter(|_| !self.is_idle()) {
            let mut own = lock(&self.own);
            own.pauses += 1;
            own.paused_ms += u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        }
        (now, pause.is_some())
    }

    /// The reader waited for the user until now.
    pub(crate) fn waited(&self) {
        lock(&self.clock).skip();
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table<S>> {
        lock(&self.table)
    }

    /// Whether reading has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether every reader has ended, or none was added.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// From now on `taker` takes finished objects, and the ring stays empty.
    pub(crate) fn take_with(&self, taker: Taker<S::Out>) {
        let _ = self.taker.set(taker);
    }

    pub(crate) fn start(&self) {
        *lock(&self.started.0) = true;
        self.started.1.notify_all();
    }

    /// End now: stop the readers, count what they hold without room, and wait for them.
    pub(crate) fn stop(&self) {
        self.end();
        self.join();
        self.leave();
    }

    /// The same without waiting for them.
    pub(crate) fn end(&self) {
        self.stopping.store(true, Ordering::Release);
        let mut me = self.nobody();
        me.now = self.now();
        let mut table = self.table();
        table.end(Ended::Stopped, me.now);
        self.take_finished(table, &mut me);
        self.hand_over(&mut me);
        lock(&self.own).merge(&me.counts);
        self.over.store(true, Ordering::Release);
        self.start();
    }

    pub(crate) fn stats(&self) -> Stats {
        let table = self.table();
        let (live, ended, missing) = (table.live(), table.ended(), table.missing());
        drop(table);
        let readers: Vec<_> = lock(&self.readers).iter().map(|reader| lock(reader).clone()).collect();
        let mut total = *lock(&self.own);
        readers.iter().for_each(|reader| total.merge(&reader.counts));
        Stats {
            total,
            readers,
            missing,
            live,
            waiting: self.ring.len(),
            memory_used: self.memory.used(),
            memory_refused: self.memory.refused(),
            ended,
        }
    }

    /// Handle timeouts of a stream without a running reader.
    pub(crate) fn tick_alone(&self) {
        let mut me = self.nobody();
        self.tick(&mut me);
        let mut left = 0;
        if self.finished.is_some() {
            // Not dropped for lack of room: readers of the group's other streams may hold it.
            copy::fence();
            left = self.push(&mut me);
        } else {
            self.hand_over(&mut me);
        }
        lock(&self.own).merge(&me.counts);
        if left == 0 && self.is_over() && self.is_idle() {
            self.leave();
        }
    }

    /// A dummy reader.
    fn nobody(&self) -> Reader<S::Out> {
        Reader { grace: false, ..Reader::new(false, Arc::default(), 0) }
    }

    /// After the packets of one poll are placed: handle timeouts, publish counters, deliver.
    pub(crate) fn after_look(&self, me: &mut Reader<S::Out>, packets: usize) {
        if packets > 0 {
            me.counts.batches += 1;
            me.counts.max_batch = me.counts.max_batch.max(packets as u64);
        }
        me.looks = 0;
        let (now, paused) = self.turn();
        me.now = now;
        // After a pause, an empty poll may be outdated: packets queued now are read by the next.
        if !paused && (packets == 0 || now.since(me.ticked) >= TICK) {
            self.tick(me);
        }
        // Counters are published before the heap is delivered.
        me.publish();
        if self.hand_over(me) {
            me.publish();
        }
        self.give_way(me);
    }

    /// A user on this reader's processor cannot run while the reader does, and unreleased memory grows beyond the cache:
    /// yield before that. With a user on another processor this costs only reading a count.
    fn give_way(&self, me: &mut Reader<S::Out>) {
        let bytes = me.counts.bytes;
        if self.ring.len() == 0 {
            me.gave_way = bytes;
        } else if bytes - me.gave_way >= PILE {
            me.gave_way = bytes;
            std::thread::yield_now();
        }
    }

    pub(crate) fn tick(&self, me: &mut Reader<S::Out>) {
        me.now = self.now();
        me.ticked = me.now;
        let mut table = self.table();
        table.handle_timeout(me.now);
        if self.deadline.is_some_and(|deadline| self.begun.elapsed() >= deadline) {
            table.end(Ended::Deadline, me.now);
        }
        let next = table.poll_timeout().map_or(WAIT, |then| Duration::from_nanos(then.since(me.now).0));
        me.wait = next.clamp(NAP, WAIT);
        self.take_finished(table, me);
    }

    /// Take the finished objects, and release the table.
    #[inline]
    pub(crate) fn take_finished(&self, mut table: MutexGuard<'_, Table<S>>, me: &mut Reader<S::Out>) {
        table.drain(&mut me.out, &mut me.counts);
        if table.ended().is_some() {
            self.over.store(true, Ordering::Release);
        }
        // Another reader may finish and deliver a heap that this one wrote to.
        if self.running.load(Ordering::Relaxed) > 1 {
            copy::fence();
        }
        drop(table);
        if let Some(taker) = self.taker.get()
            && !me.out.is_empty()
        {
            taker(me.out.drain(..));
        }
    }

    /// Read the clock, once in some trains.
    #[inline]
    pub(crate) fn look_at_clock(&self, me: &mut Reader<S::Out>) {
        if me.looks.is_multiple_of(TRAINS_PER_LOOK) {
            me.now = self.now();
        }
        me.looks += 1;
    }

    /// The sender, without a search if it is the previous one.
    #[inline]
    pub(crate) fn sender(
        table: &mut Table<S>,
        me: &mut Reader<S::Out>,
        address: &SocketAddr,
    ) -> Result<Sender, Reject> {
        if let Some(sender) = me.sender.filter(|sender| sender.address == *address) {
            return Ok(sender);
        }
        let sender = table.sender(me.number, *address)?;
        me.sender = Some(sender);
        Ok(sender)
    }
}
