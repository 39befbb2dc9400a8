//! What the readers of a stream share, and what each has for itself: locks, clock, timeouts, start and end.
//!
//! A reader that waits (for room in the ring, for memory) holds no lock. Packets that stay in the socket meanwhile are not late:
//! unless another reader runs, the time in which it waits for the user does not count for heap timeouts.

use super::config::{Full, StreamConfig};
use super::placing::PlacedSenders;
use super::ring::Ring;
use super::stats::{ReaderStats, Stats, StreamCounts, StreamEnd};
use super::store::{Opening, Sender, SharedQueue, Store, lock};
use super::table::{Delivery, Table};
use crate::awake::Awake;
use crate::receive::reader::WAIT;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_io::copy;
use skyhaul_io::memory::heap::HeapMemory;
use std::cell::Cell;
use std::collections::{VecDeque, vec_deque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes received before the reader yields to a user who has not taken everything.
const YIELD_BYTES: u64 = 2 << 20;

/// Minimum time between two checks of timeouts.
const TICK_INTERVAL: Nanos = Nanos(2_000_000);
/// Several times the longest interval between two clock readings while a reader runs.
const PAUSE_THRESHOLD: Duration = Duration::from_millis(100);
/// Trains between two readings of the clock.
const TRAINS_PER_CLOCK_READING: u32 = 16;
/// Maximum number of finished heaps that a reader holds while the ring is full.
pub(crate) const MAX_HELD_HEAPS: usize = 1024;
/// Shortest wait of a poll.
pub(crate) const MIN_POLL_WAIT: Duration = Duration::from_millis(1);
/// How long a reader that drops gives the user to make room first: the socket's buffer holds the packets that arrive meanwhile,
/// and a user on the same CPU runs only then.
pub(crate) const GRACE: Duration = Duration::from_millis(5);

thread_local! {
    /// The address of the stream that this thread reads for.
    static READS: Cell<usize> = const { Cell::new(0) };
}

/// Marks the end of a reader when dropped.
struct AliveGuard<'a>(&'a (Mutex<usize>, Condvar));

impl Drop for AliveGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) -= 1;
        self.0.1.notify_all();
    }
}

/// State of one reader, not shared.
pub(crate) struct ReaderState<O> {
    /// Waits for room in the ring and for memory; otherwise it drops.
    pub(crate) waits: bool,
    /// Bytes of finished heaps that it holds while the ring is full.
    pub(crate) overflow: u64,
    /// A reader that drops may wait for [`GRACE`] first. Not again after an unsuccessful wait, until all finished heaps have
    /// found room.
    pub(crate) grace: bool,
    pub(crate) counts: StreamCounts,
    pub(crate) stats: Arc<Mutex<ReaderStats>>,
    pub(crate) number: usize,
    pub(crate) out: VecDeque<O>,
    pub(crate) sender: Option<Sender>,
    pub(crate) now: Nanos,
    /// Trains since the clock was read.
    pub(crate) trains: u32,
    pub(crate) ticked: Nanos,
    /// Maximum wait of the next poll.
    pub(crate) poll_wait: Duration,
    /// Bytes received when the user had last taken everything, or the reader had last yielded.
    pub(crate) yielded_at: u64,
    /// Bytes of the heaps that were finished when a taker last took them.
    pub(super) taken_bytes: u64,
    /// Until then the reader does not wait for a user who has little to release.
    pub(crate) no_grace_until: Nanos,
}

impl<O> ReaderState<O> {
    pub(crate) fn new(waits: bool, stats: Arc<Mutex<ReaderStats>>, number: usize) -> Self {
        Self {
            waits,
            overflow: 0,
            grace: true,
            counts: StreamCounts::default(),
            stats,
            number,
            out: VecDeque::new(),
            sender: None,
            now: Nanos(0),
            trains: 0,
            ticked: Nanos(0),
            poll_wait: WAIT,
            yielded_at: 0,
            taken_bytes: 0,
            no_grace_until: Nanos(0),
        }
    }

    /// Where the table counts and delivers.
    #[inline]
    pub(crate) fn delivery(&mut self) -> Delivery<'_, O> {
        Delivery { now: self.now, counts: &mut self.counts, out: &mut self.out }
    }

    pub(crate) fn publish(&self) {
        lock(&self.stats).counts = self.counts;
    }
}

/// Takes finished objects immediately, on the thread that finished them. It must not wait.
pub(crate) type Taker<O> = Box<dyn Fn(vec_deque::Drain<'_, O>) + Send + Sync>;

/// State of a stream shared by its readers.
pub(crate) struct StreamState<S: Store> {
    pub(crate) name: String,
    pub(crate) full: Full,
    overflow: u64,
    pub(crate) memory: HeapMemory,
    /// Whose heaps the kernel places.
    pub(crate) placed_senders: PlacedSenders,
    /// Bytes of it to touch in advance.
    pub(crate) ahead: u64,
    /// Bytes of the largest heap.
    pub(crate) largest: u64,
    /// Whether the idle timeout is set.
    pub(crate) ends_idle: bool,
    /// Maximum silence of a heap.
    pub(crate) heap_timeout: Option<Nanos>,
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
    pub(crate) shared_queue: Option<SharedQueue<S::Out>>,
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
    own: Mutex<StreamCounts>,
}

impl<S: Store> StreamState<S> {
    pub(crate) fn new(config: &StreamConfig, begun: Instant, store: S, ring: Arc<Ring<S::Out>>) -> Self {
        ring.join();
        let (shared_queue, opening) = (store.shared_queue(), store.opening());
        Self {
            shared_queue,
            opening,
            name: config.name.clone(),
            full: config.full,
            overflow: config.overflow,
            memory: config.memory.clone(),
            placed_senders: PlacedSenders::default(),
            ahead: config.ahead,
            largest: config.heaps.largest.min(config.memory.limit()),
            ends_idle: config.idle_timeout.is_some(),
            heap_timeout: config.heaps.timeout,
            cpus: config.cpus.clone(),
            begun,
            deadline: config.deadline,
            clock: Mutex::new(Awake::with_turns(PAUSE_THRESHOLD)),
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
        self.read_clock().0
    }

    /// The time, and whether the program was paused since the last reading.
    #[inline]
    fn read_clock(&self) -> (Nanos, bool) {
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
    pub(crate) fn exclude_wait(&self) {
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
    pub(crate) fn set_taker(&self, taker: Taker<S::Out>) {
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
        let mut me = self.no_reader();
        me.now = self.now();
        let mut table = self.table();
        table.end(StreamEnd::Stopped, me.now);
        self.take_ready(table, &mut me);
        self.deliver(&mut me);
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
        let mut me = self.no_reader();
        self.tick(&mut me);
        let mut left = 0;
        if self.shared_queue.is_some() {
            // Not dropped for lack of room: readers of the group's other streams may hold it.
            copy::fence();
            left = self.push_ready(&mut me);
        } else {
            self.deliver(&mut me);
        }
        lock(&self.own).merge(&me.counts);
        if left == 0 && self.is_over() && self.is_idle() {
            self.leave();
        }
    }

    /// A dummy reader.
    fn no_reader(&self) -> ReaderState<S::Out> {
        ReaderState { grace: false, ..ReaderState::new(false, Arc::default(), 0) }
    }

    /// After the packets of one poll are placed: handle timeouts, publish counters, deliver.
    pub(crate) fn after_poll(&self, me: &mut ReaderState<S::Out>, packets: usize) {
        if packets > 0 {
            me.counts.batches += 1;
            me.counts.max_batch = me.counts.max_batch.max(packets as u64);
        }
        me.trains = 0;
        let (now, paused) = self.read_clock();
        me.now = now;
        // After a pause, an empty poll may be outdated: packets queued now are read by the next.
        if !paused && (packets == 0 || now.since(me.ticked) >= TICK_INTERVAL) {
            self.tick(me);
        }
        // Counters are published before the heap is delivered.
        me.publish();
        if self.deliver(me) {
            me.publish();
        }
        self.yield_to_user(me);
    }

    /// A user on this reader's CPU cannot run while the reader does, and unreleased memory grows beyond the cache:
    /// yield before that. With a user on another CPU this costs only reading a count.
    fn yield_to_user(&self, me: &mut ReaderState<S::Out>) {
        let bytes = me.counts.bytes;
        if self.ring.len() == 0 {
            me.yielded_at = bytes;
        } else if bytes - me.yielded_at >= YIELD_BYTES {
            me.yielded_at = bytes;
            std::thread::yield_now();
        }
    }

    pub(crate) fn tick(&self, me: &mut ReaderState<S::Out>) {
        me.now = self.now();
        me.ticked = me.now;
        let mut table = self.table();
        table.handle_timeout(me.now);
        if self.deadline.is_some_and(|deadline| self.begun.elapsed() >= deadline) {
            table.end(StreamEnd::Deadline, me.now);
        }
        let next = table.poll_timeout().map_or(WAIT, |then| Duration::from_nanos(then.since(me.now).0));
        me.poll_wait = next.clamp(MIN_POLL_WAIT, WAIT);
        self.take_ready(table, me);
    }

    /// Take the finished objects, and release the table.
    #[inline]
    pub(crate) fn take_ready(&self, mut table: MutexGuard<'_, Table<S>>, me: &mut ReaderState<S::Out>) {
        table.drain(&mut me.out, &mut me.counts);
        if table.ended().is_some() {
            self.over.store(true, Ordering::Release);
        }
        // Another reader may finish and deliver a heap that this one wrote to.
        if self.running.load(Ordering::Relaxed) > 1 {
            copy::fence();
        }
        drop(table);
        self.give_to_taker(me);
    }

    /// If finished objects go to a taker, it takes them.
    pub(super) fn give_to_taker(&self, me: &mut ReaderState<S::Out>) {
        if let Some(taker) = self.taker.get()
            && !me.out.is_empty()
        {
            me.taken_bytes = me.counts.heap_bytes;
            taker(me.out.drain(..));
        }
    }

    /// Read the clock, once in some trains.
    #[inline]
    pub(crate) fn update_clock(&self, me: &mut ReaderState<S::Out>) {
        if me.trains.is_multiple_of(TRAINS_PER_CLOCK_READING) {
            me.now = self.now();
        }
        me.trains += 1;
    }

    /// The sender, without a search if it is the previous one.
    #[inline]
    pub(crate) fn sender(
        table: &mut Table<S>,
        me: &mut ReaderState<S::Out>,
        address: &SocketAddr,
    ) -> Result<Sender, Reject> {
        if let Some(sender) = me.sender.filter(|sender| sender.address == *address) {
            return Ok(sender);
        }
        let sender = table.sender((me.number, me.waits), *address)?;
        me.sender = Some(sender);
        Ok(sender)
    }

    /// Handles timeouts meanwhile: a deadline applies to a stream that is never started too.
    pub(crate) fn wait_for_start(&self, me: &mut ReaderState<S::Out>) {
        while !self.is_over() {
            let started = lock(&self.started.0);
            if *started {
                return;
            }
            drop(self.started.1.wait_timeout(started, WAIT).unwrap_or_else(PoisonError::into_inner));
            self.tick(me);
        }
    }

    /// The CPU for reader `number`.
    pub(crate) fn cpu(&self, number: usize) -> Option<usize> {
        self.cpus.get(number % self.cpus.len().max(1)).copied()
    }

    /// Add a reader; its thread follows with [`adopt`](Self::adopt).
    pub(crate) fn enter(&self, name: String, can_be_held: bool) -> ReaderState<S::Out> {
        let waits = match self.full {
            Full::Auto => can_be_held,
            Full::Wait => true,
            Full::Refuse => false,
        };
        let stats = Arc::new(Mutex::new(ReaderStats { name, ..ReaderStats::default() }));
        let mut readers = lock(&self.readers);
        readers.push(stats.clone());
        // The time without readers was not a pause.
        self.read_clock();
        self.running.fetch_add(1, Ordering::AcqRel);
        *lock(&self.alive.0) += 1;
        let overflow = if waits && !can_be_held && self.shared_queue.is_none() { self.overflow } else { 0 };
        let out = VecDeque::with_capacity(MAX_HELD_HEAPS);
        ReaderState { out, overflow, ..ReaderState::new(waits, stats, readers.len() - 1) }
    }

    /// Its thread could not be started.
    pub(crate) fn never_ran(&self, stats: &Mutex<ReaderStats>, why: &std::io::Error) {
        let mut stats = lock(stats);
        (stats.ended, stats.error) = (true, Some(why.to_string()));
        self.running.fetch_sub(1, Ordering::AcqRel);
        drop(AliveGuard(&self.alive));
    }

    pub(crate) fn adopt(&self, thread: JoinHandle<()>) {
        lock(&self.threads).push(thread);
    }

    /// A reader has ended; the last one ends the stream.
    pub(crate) fn exit(&self, me: &mut ReaderState<S::Out>, error: Option<String>) {
        let _gone = AliveGuard(&self.alive);
        me.overflow = 0;
        self.deliver(me);
        let last = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            me.now = self.now();
            let mut table = self.table();
            table.end(StreamEnd::Readers, me.now);
            self.take_ready(table, me);
            me.publish();
            self.deliver(me);
        }
        me.publish();
        let mut stats = lock(&me.stats);
        stats.error = error;
        stats.ended = true;
        stats.cpu = skyhaul_io::host::thread::cpu_time();
        drop(stats);
        if last {
            self.leave();
        }
    }

    /// Leave the ring.
    pub(crate) fn leave(&self) {
        if !self.left.swap(true, Ordering::AcqRel) && self.ring.leave() && self.shared_queue.is_some() {
            // Objects that streams ending at the same time left to each other.
            let mut me = self.no_reader();
            self.drop_ready(&mut me, true);
            lock(&self.own).merge(&me.counts);
        }
    }

    /// Wait until every reader has ended. Returns immediately if called by a reader, which cannot wait for itself.
    pub(crate) fn join(&self) {
        if READS.get() == self.address() {
            return;
        }
        let threads: Vec<_> = lock(&self.threads).drain(..).collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        // Another caller may have taken the threads to join them.
        let mut alive = lock(&self.alive.0);
        while *alive > 0 {
            alive = self.alive.1.wait(alive).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The calling thread is that of a reader that has [entered](Self::enter).
    pub(crate) fn reads_here(&self) {
        READS.set(self.address());
    }
}
