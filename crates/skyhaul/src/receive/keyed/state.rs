//! What the readers of a stream do, whatever they read: lock, place, hand on, keep the time.
//!
//! ```text
//!   reader ─ train ─▶ lock ▶ place each packet ▶ take what is finished ▶ unlock ─▶ … ─▶ ring, once for each look
//! ```
//!
//! A reader that waits (for room in the ring, for memory) holds no lock, and the time is kept meanwhile.

mod presence;

use super::config::{Full, StreamConfig};
use super::own::{NAP, Reader, lock};
use super::ring::Ring;
use super::run::Sender;
use super::stats::{Counts, Ended, ReaderStats, Stats};
use super::store::{Finished, Store};
use super::table::Table;
use crate::awake::Awake;
use crate::receive::reader::WAIT;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_io::copy;
use skyhaul_io::memory::heap::HeapMemory;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that come before a user who has not taken all is given way to.
const PILE: u64 = 2 << 20;

/// Shortest time between two looks at the clock's business.
const TICK: Nanos = Nanos(2_000_000);
/// The longest time between two looks at the clock while anybody reads, several times over.
const TURN: Duration = Duration::from_millis(100);
/// Trains between two looks at the clock itself.
const TRAINS_PER_LOOK: u32 = 16;

/// A stream, as its readers share it.
pub(crate) struct StreamState<S: Store> {
    pub(crate) name: String,
    pub(crate) full: Full,
    overflow: u64,
    pub(crate) memory: HeapMemory,
    /// Bytes of it to be touched before they are needed.
    pub(crate) ahead: u64,
    /// Bytes of the largest heap.
    pub(crate) largest: u64,
    /// Silence ends it.
    pub(crate) ends_idle: bool,
    /// How long a heap may be silent.
    pub(crate) patience: Option<Nanos>,
    cpus: Vec<usize>,
    /// The stream's time zero.
    begun: Instant,
    /// Ends it, by the clock on the wall.
    deadline: Option<Duration>,
    /// Time in which it was looked at: while nobody reads, packets wait, and no heap is late for that.
    clock: Mutex<Awake>,
    table: Mutex<Table<S>>,
    pub(crate) ring: Arc<Ring<S::Out>>,
    /// Where all streams of a group put what is finished, in the order in which it was; otherwise each reader keeps its own.
    pub(crate) finished: Option<Finished<S::Out>>,
    started: (Mutex<bool>, Condvar),
    /// Nothing more is to be read.
    over: AtomicBool,
    /// Nobody waits for the user any more.
    pub(crate) stopping: AtomicBool,
    left: AtomicBool,
    pub(crate) running: AtomicUsize,
    /// Readers and connections that wait for memory.
    pub(crate) waiting: AtomicUsize,
    readers: Mutex<Vec<Arc<Mutex<ReaderStats>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads of readers that have not ended.
    alive: (Mutex<usize>, Condvar),
    /// What is counted on no reader's thread.
    own: Mutex<Counts>,
}

impl<S: Store> StreamState<S> {
    pub(crate) fn new(config: &StreamConfig, begun: Instant, store: S, ring: Arc<Ring<S::Out>>) -> Self {
        ring.join();
        let finished = store.finished();
        Self {
            finished,
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

    /// The time, and whether nobody had looked at it for long: the program was paused.
    fn turn(&self) -> (Nanos, bool) {
        let mut clock = lock(&self.clock);
        let pause = clock.turn();
        let now = clock.now();
        drop(clock);
        // Without a reader nobody had to look.
        if let Some(pause) = pause.filter(|_| !self.is_idle()) {
            let mut own = lock(&self.own);
            own.pauses += 1;
            own.paused_ms += u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        }
        (now, pause.is_some())
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table<S>> {
        lock(&self.table)
    }

    /// Whether nothing more is to be read.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether every reader that was added has ended, or none was.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    pub(crate) fn start(&self) {
        *lock(&self.started.0) = true;
        self.started.1.notify_all();
    }

    /// End now: readers stop, what they hold and nobody has room for is counted, and they are waited for.
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

    /// The clock's business, for a stream without a running reader.
    pub(crate) fn tick_alone(&self) {
        let mut me = self.nobody();
        self.tick(&mut me);
        let mut left = 0;
        if self.finished.is_some() {
            // Not refused for want of room: it may be what readers of the group's other streams wait with.
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

    /// A reader that reads nothing.
    fn nobody(&self) -> Reader<S::Out> {
        Reader { grace: false, ..Reader::new(false, Arc::default(), 0) }
    }

    /// What was read in one look is placed: keep the time, publish, hand on.
    pub(crate) fn after_look(&self, me: &mut Reader<S::Out>, packets: usize) {
        if packets > 0 {
            me.counts.batches += 1;
            me.counts.max_batch = me.counts.max_batch.max(packets as u64);
        }
        me.looks = 0;
        let (now, paused) = self.turn();
        me.now = now;
        // Behind a pause an empty look is one from before: what waits now is seen by the next.
        if !paused && (packets == 0 || now.since(me.ticked) >= TICK) {
            self.tick(me);
        }
        // Whoever gets a heap finds it counted.
        me.publish();
        if self.hand_over(me) {
            me.publish();
        }
        self.give_way(me);
    }

    /// A user on this reader's processor does not run while the reader does, and what it would give back piles up past
    /// the cache: let it run before that. A user on another processor costs a look at the count.
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

    /// Take what is finished, and let the table go.
    #[inline]
    pub(crate) fn take_finished(&self, mut table: MutexGuard<'_, Table<S>>, me: &mut Reader<S::Out>) {
        table.drain(&mut me.out, &mut me.counts);
        if table.ended().is_some() {
            self.over.store(true, Ordering::Release);
        }
        // Another reader may finish, and hand on, a heap that this one wrote to.
        if self.running.load(Ordering::Relaxed) > 1 {
            copy::fence();
        }
    }

    /// The time, to within some trains.
    #[inline]
    pub(crate) fn look_at_clock(&self, me: &mut Reader<S::Out>) {
        if me.looks.is_multiple_of(TRAINS_PER_LOOK) {
            me.now = self.now();
        }
        me.looks += 1;
    }

    /// Who sends, without a search if it is who sent before.
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
