//! Heaps and events: the tables of a receiver, one per family, and the thread that takes finished objects.
//!
//! ```text
//!   engine of each socket ── trains of a family ──▶ its table ──▶ ring ─┐
//!   TCP connections ────────────────────────────▶      "               ├─▶ one thread: counted, checked ─▶ ObjectSink
//!   engine of each socket ── trains of another ───▶ its table ──▶ ring ─┘
//! ```
//!
//! If nobody wants the objects, they are counted where they are finished, and the thread has nothing to take.
//!
//! A table serves all sockets: the packets of an object may arrive on any of them, from any sender (decision 0003).

mod sink;

pub use sink::{Loaded, ObjectCounts, ObjectLoad, ObjectSink, Received, Storable};

use super::keyed::{
    GetError, Missing, ObjectStream, Stats, StreamConfig, StreamCounts, StreamEnd, StreamReader,
    TcpReaderOptions, TrainSink,
};
use skyhaul_io::lock::lock;

use crate::control::Gauge;
use crate::panics::reason;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::keyed::{Data, Keyed, VisitKeyed};
use skyhaul_core::wire::{FAMILIES, FamilyRef};
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::TcpPort;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the thread waits for a finished object.
const POLL_WAIT: Duration = Duration::from_millis(50);

/// Objects taken from a table at a time.
const TAKE_BATCH: usize = 256;

/// A table of any family.
trait Table: Send + Sync {
    fn family(&self) -> FamilyRef;
    fn feed(&self, name: String, waits: bool, gauge: Option<Arc<Gauge>>) -> Box<dyn TrainSink>;
    fn connections(&self, name: String, port: TcpPort, options: &TcpReaderOptions) -> Box<dyn Source>;
    /// Pass finished objects to `each` until it returns `false`. Waits for the first.
    fn take(&self, wait: Duration, each: &mut dyn FnMut(&Received<'_>) -> bool) -> Result<(), GetError>;
    /// From now on finished objects are only counted, on the threads that finish them: no other thread is woken, and
    /// their memory is used again while it is in the cache.
    fn count_only(&self);
    /// Objects that were only counted.
    fn counted(&self) -> ObjectCounts;
    fn stats(&self) -> Stats;
    fn end(&self);
}

struct TableOf<W: Keyed> {
    family: FamilyRef,
    stream: ObjectStream<W>,
    counted: Arc<Mutex<ObjectCounts>>,
}

impl<W: Keyed> TableOf<W> {
    fn new(family: FamilyRef, stream: ObjectStream<W>) -> Self {
        Self { family, stream, counted: Arc::default() }
    }
}

impl<W: Keyed> Table for TableOf<W> {
    fn family(&self) -> FamilyRef {
        self.family
    }

    fn feed(&self, name: String, waits: bool, gauge: Option<Arc<Gauge>>) -> Box<dyn TrainSink> {
        Box::new(StreamReader::new(&self.stream.readers.core, name, waits, gauge))
    }

    fn connections(&self, name: String, port: TcpPort, options: &TcpReaderOptions) -> Box<dyn Source> {
        Box::new(self.stream.readers.tcp_source(name, port, options))
    }

    fn take(&self, wait: Duration, each: &mut dyn FnMut(&Received<'_>) -> bool) -> Result<(), GetError> {
        let mut objects = vec![self.stream.get(Some(wait))?];
        self.stream.get_many(&mut objects, TAKE_BATCH - 1);
        for object in objects {
            let received = Received::of(self.family, &object);
            if !each(&received) {
                break;
            }
        }
        Ok(())
    }

    fn count_only(&self) {
        let (family, counted) = (self.family, self.counted.clone());
        self.stream.readers.core.set_taker(Box::new(move |objects| {
            let mut counted = lock(&counted);
            objects.for_each(|object| counted.add(&Received::of(family, &object), false));
        }));
    }

    fn counted(&self) -> ObjectCounts {
        *lock(&self.counted)
    }

    fn stats(&self) -> Stats {
        self.stream.stats()
    }

    fn end(&self) {
        self.stream.readers.core.end();
    }
}

/// Options for heaps and events.
#[derive(Clone, Debug, Default)]
pub struct ObjectOptions {
    /// Every limit of a table.
    pub stream: StreamConfig,
    /// Options of TCP connections.
    pub tcp: TcpReaderOptions,
    /// Verify payloads against the pattern of their number.
    pub verify: bool,
    /// End after this number of objects.
    pub most: Option<u64>,
    /// Accept only families that can be recorded.
    pub to_disks: bool,
    /// Objects may be as large as is usual in their family; `stream` bounds them beside that.
    pub by_family: bool,
}

/// Report of all tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectReport {
    /// By family: the name of its objects, and their counts.
    pub(crate) objects: BTreeMap<&'static str, ObjectCounts>,
    /// All counters together.
    pub(crate) total: StreamCounts,
    /// Every counter that is not 0, by name.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Why it ended by itself, if it did.
    pub(crate) ended: Option<&'static str>,
    /// The error of the sink.
    pub(crate) failure: Option<String>,
}

/// A source that engines read.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) name: String,
    /// It loses nothing while it is not read.
    pub(super) waits: bool,
    pub(super) gauge: Option<Arc<Gauge>>,
}

#[derive(Default)]
struct State {
    tables: Vec<Arc<dyn Table>>,
    /// For each table, the ends not taken by an engine yet.
    unclaimed: Vec<Vec<Option<Box<dyn TrainSink>>>>,
    /// Engines, and which of them have ended.
    origins: Vec<(Origin, bool)>,
    /// Counts of each table.
    taken: Vec<ObjectCounts>,
    /// Nobody wants the objects.
    counts_only: bool,
    /// Why nothing more is taken, if so.
    closed: Option<&'static str>,
    failure: Option<String>,
}

/// The tables of a receiver.
pub(super) struct Objects {
    options: ObjectOptions,
    state: Mutex<State>,
    news: Condvar,
    is_closed: AtomicBool,
}

impl Objects {
    pub(super) fn new(options: ObjectOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            state: Mutex::default(),
            news: Condvar::new(),
            is_closed: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The table of a family, made on first use. `None`: its objects have no keys.
    fn table(&self, state: &mut State, family: FamilyRef) -> Option<usize> {
        struct Make<'a>(FamilyRef, &'a StreamConfig, bool);
        impl VisitKeyed for Make<'_> {
            type Out = Arc<dyn Table>;
            fn visit<W: Keyed>(self) -> Arc<dyn Table> {
                let Make(family, config, by_family) = self;
                let mut config = config.clone();
                if by_family {
                    config.heaps.largest = config.heaps.largest.min(W::LARGEST);
                }
                Arc::new(TableOf::new(family, ObjectStream::<W>::new(&config)))
            }
        }
        if let Some(at) = state.tables.iter().position(|table| table.family() == family) {
            return Some(at);
        }
        if self.options.to_disks && family.packets().is_none() {
            return None;
        }
        let table = family.visit_keyed(Make(family, &self.options.stream, self.options.by_family))?;
        if state.counts_only {
            table.count_only();
        }
        let feed = |(origin, ended): &(Origin, bool)| {
            (!ended).then(|| table.feed(origin.name.clone(), origin.waits, origin.gauge.clone()))
        };
        state.unclaimed.push(state.origins.iter().map(feed).collect());
        state.taken.push(ObjectCounts::default());
        state.tables.push(table);
        self.news.notify_all();
        Some(state.tables.len() - 1)
    }

    /// The family of heaps or events of a TCP stream with these first bytes, if any. `None`: more bytes are needed.
    pub(super) fn family_of(&self, bytes: &[u8]) -> Option<Option<FamilyRef>> {
        struct Magic;
        impl VisitKeyed for Magic {
            type Out = &'static [u8];
            fn visit<W: Keyed>(self) -> &'static [u8] {
                W::MAGIC
            }
        }
        let mut undecided = bytes.is_empty();
        for family in FAMILIES.iter().filter(|family| !self.options.to_disks || family.packets().is_some()) {
            let Some(magic) = family.visit_keyed(Magic).filter(|magic| !magic.is_empty()) else { continue };
            if bytes.starts_with(magic) {
                return Some(Some(*family));
            }
            undecided |= magic.starts_with(bytes);
        }
        (!undecided).then_some(None)
    }

    /// The connections of a TCP port, for an engine.
    pub(super) fn connections(
        &self,
        family: FamilyRef,
        name: String,
        port: TcpPort,
    ) -> Option<Box<dyn Source>> {
        let mut state = self.state();
        let table = self.table(&mut state, family)?;
        Some(state.tables[table].connections(name, port, &self.options.tcp))
    }

    /// The memory of objects under construction.
    pub(super) fn memory(&self) -> &HeapMemory {
        &self.options.stream.memory
    }

    /// Whether payloads are verified against the pattern.
    pub(super) fn verifies(&self) -> bool {
        self.options.verify
    }

    /// These engines begin. With `family`, its table exists from now on.
    pub(super) fn begin(&self, origins: Vec<Origin>, family: Option<FamilyRef>) {
        let mut state = self.state();
        for table in 0..state.tables.len() {
            let table_of = state.tables[table].clone();
            let feed = |o: &Origin| Some(table_of.feed(o.name.clone(), o.waits, o.gauge.clone()));
            state.unclaimed[table] = origins.iter().map(feed).collect();
        }
        state.origins = origins.into_iter().map(|origin| (origin, false)).collect();
        family.map(|family| self.table(&mut state, family));
    }

    /// The end of a family's table that engine number `engine` feeds.
    pub(super) fn feed(&self, family: FamilyRef, engine: usize) -> Option<Box<dyn TrainSink>> {
        let mut state = self.state();
        let table = self.table(&mut state, family)?;
        state.unclaimed[table].get_mut(engine)?.take()
    }

    /// Engine number `engine` has ended, also for tables that it never used.
    pub(super) fn leave(&self, engine: usize) {
        let mut state = self.state();
        if let Some((_, ended)) = state.origins.get_mut(engine) {
            *ended = true;
        }
        let left: Vec<_> =
            state.unclaimed.iter_mut().filter_map(|ends| ends.get_mut(engine)?.take()).collect();
        drop(state);
        // If it was the last of a table, the table delivers what it has, and waits for room.
        drop(left);
        self.news.notify_all();
    }

    /// Accept nothing more.
    pub(super) fn close(&self, why: &'static str) {
        let mut state = self.state();
        state.closed.get_or_insert(why);
        let tables = state.tables.clone();
        drop(state);
        tables.iter().for_each(|table| table.end());
        self.is_closed.store(true, Ordering::Release);
    }

    /// Whether nothing more is accepted.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The current report.
    pub(super) fn report(&self) -> ObjectReport {
        let state = self.state();
        let mut report =
            ObjectReport { ended: state.closed, failure: state.failure.clone(), ..ObjectReport::default() };
        for (table, taken) in state.tables.iter().zip(&state.taken) {
            let stats = table.stats();
            let Missing { unknown_senders, .. } = stats.missing;
            let (missing, ring_full) = (stats.missing.known(), stats.total.ring_full);
            let taken = if state.counts_only { table.counted() } else { *taken };
            let mut counts = ObjectCounts { missing, unknown_senders, ring_full, ..taken };
            // Packets of senders that may not send are not forwarded; all others are, before their table judges them.
            let rejects = &stats.total.rejects;
            let withheld = rejects.get(Reject::NotAllowed);
            counts.forwarded = stats.total.packets.saturating_sub(withheld);
            counts.forwarded_then_refused =
                rejects.iter().map(|(_, packets)| packets).sum::<u64>().saturating_sub(withheld);
            report.objects.insert(table.family().objects().name(), counts);
            report.total.merge(&stats.total);
            for (name, n) in stats.named().filter(|(name, n)| *n > 0 && !name.starts_with("reject_")) {
                *report.counters.entry(name).or_default() += n;
            }
            report.ended =
                report.ended.or(stats.ended.filter(|why| *why != StreamEnd::Stopped).map(StreamEnd::name));
        }
        report
    }

    /// How far behind the thread is.
    pub(super) fn load(&self) -> ObjectLoad {
        let tables = self.state().tables.clone();
        let mut all = ObjectLoad::default();
        tables.iter().for_each(|table| all.merge(&ObjectLoad::of(&table.stats(), self.options.stream.ring)));
        all
    }

    /// Start a thread that takes finished objects until all tables have ended.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(self: &Arc<Self>, sink: Box<dyn ObjectSink>) -> io::Result<JoinHandle<()>> {
        if sink.discards() && !self.options.verify && self.options.most.is_none() {
            let mut state = self.state();
            state.counts_only = true;
            state.tables.iter().for_each(|table| table.count_only());
        }
        let objects = self.clone();
        std::thread::Builder::new().name("objects".into()).spawn(move || {
            let run = AssertUnwindSafe(|| objects.run(sink));
            if let Err(panic) = catch_unwind(run) {
                // Nothing is taken any more: release readers that wait for room.
                let text = format!("a fault in this program: {}", reason(&*panic));
                objects.failed(&io::Error::other(text));
            }
        })
    }

    fn run(&self, mut sink: Box<dyn ObjectSink>) {
        let mut left = self.options.most.unwrap_or(u64::MAX);
        let mut ticked = Instant::now();
        loop {
            let state = self.state();
            let tables = state.tables.clone();
            let over = state.closed.is_some() || state.origins.iter().all(|(_, ended)| *ended);
            if tables.is_empty() {
                if over {
                    break;
                }
                drop(self.news.wait_timeout(state, POLL_WAIT).unwrap_or_else(PoisonError::into_inner));
                sink.tick();
                continue;
            }
            drop(state);
            let wait = POLL_WAIT / tables.len() as u32;
            let mut stopped = 0;
            for (at, table) in tables.iter().enumerate() {
                match self.take(at, &**table, wait, &mut left, &mut *sink) {
                    Ok(()) | Err(GetError::Empty) => {}
                    Err(GetError::Stopped) => stopped += 1,
                }
            }
            if stopped == tables.len() && over {
                break;
            }
            if stopped == tables.len() {
                // Another family may appear.
                std::thread::sleep(POLL_WAIT);
            }
            if ticked.elapsed() >= POLL_WAIT {
                ticked = Instant::now();
                sink.tick();
            }
        }
        if let Err(error) = sink.finished() {
            self.failed(&error);
        }
    }

    /// Take the finished objects of a table.
    fn take(
        &self,
        at: usize,
        table: &dyn Table,
        wait: Duration,
        left: &mut u64,
        sink: &mut dyn ObjectSink,
    ) -> Result<(), GetError> {
        let mut taken = self.state().taken[at];
        let mut failed = None;
        let result = table.take(wait, &mut |object| {
            if *left == 0 {
                return false;
            }
            if let Err(error) = sink.object(object) {
                failed = Some(error);
                return false;
            }
            *left -= u64::from(object.data != Data::None);
            taken.add(object, self.options.verify);
            true
        });
        self.state().taken[at] = taken;
        match failed {
            Some(error) => self.failed(&error),
            None if *left == 0 => self.close("limit"),
            None => {}
        }
        result
    }

    fn failed(&self, error: &io::Error) {
        let gone = error.kind() == io::ErrorKind::BrokenPipe;
        if !gone {
            self.state().failure.get_or_insert(error.to_string());
        }
        self.close(if gone { "reader gone" } else { "write failed" });
    }
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("tables", &self.state().tables.len()).finish_non_exhaustive()
    }
}
