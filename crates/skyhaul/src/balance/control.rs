//! The control thread, and the state that it shares with planes.
//!
//! The thread receives senders' messages and counts of forwarded packets, makes tables, and remembers workers that left. Shared are
//! the table, which is replaced as a whole, the ticks that may be forwarded by it, counters, and the addresses from which packets are
//! forwarded, so that none circulates.

mod served;

pub(super) use served::Served;
pub use served::WorkerLeft;

use crate::awake::Awake;
use crate::report::SourceReport;
use skyhaul_core::balance::{AllowList, Balancer, Counters, Kind, Reach, Settled, Table, TickRange, Ticks};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::labelled::Labelled;
use skyhaul_io::host::interface::addresses;
use skyhaul_io::host::way::{Leads, leads};
use skyhaul_io::lock::lock;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::UdpSource;
use skyhaul_io::udp::forward::{Forwarded, Forwarder};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Notes that are kept, at most.
const MAX_NOTES: usize = 100;

/// What a plane, or all of them, did so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    pub(super) counters: Counters,
    pub(super) forwarded: Forwarded,
    pub(super) sources: Vec<SourceReport>,
    /// How packets are sent.
    pub(super) mode: String,
    /// CPU time of the threads.
    pub(super) cpu: Duration,
    /// Trains that were repeated as single packets.
    pub(super) singly: u64,
    /// Number of the oldest table that a plane still uses.
    pub(super) table: u64,
    /// Where ticks were since control last took them.
    pub(super) ticks: Ticks,
    pub(super) notes: Vec<String>,
    /// What it cost that planes died.
    pub(super) lost: Lost,
}

/// How often planes in another process died, and were started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) restarts: u64,
    /// Time without any.
    pub(super) away: Duration,
    /// They did not end when they were told to, so their last counters are missing.
    pub(super) incomplete: bool,
}

impl Done {
    /// What another did, too: all but what is so now. Sockets of the same place count as one.
    pub(super) fn add(&mut self, other: &Done) {
        self.count(other);
        let more = other.sources.len().saturating_sub(self.sources.len());
        self.sources.extend(other.sources.iter().rev().take(more).rev().cloned());
        let both = other.sources.len() - more;
        for (source, other) in self.sources.iter_mut().zip(&other.sources[..both]) {
            source.packets += other.packets;
            source.bytes += other.bytes;
            source.trains += other.trains;
            source.socket_drops += other.socket_drops;
            source.truncated += other.truncated;
            source.malformed += other.malformed;
            source.fragments += other.fragments;
        }
    }

    /// The same, but for its sockets.
    fn count(&mut self, other: &Done) {
        self.counters.merge(&other.counters);
        self.forwarded.add(&other.forwarded);
        self.cpu += other.cpu;
        self.singly += other.singly;
        self.notes.extend(other.notes.iter().cloned());
    }
}

/// The threads that forward, as control sees them.
pub(super) trait Planes: Send + Sync {
    /// They use `table` from their next train on, but for ticks that may have been forwarded already.
    fn publish(&self, table: Table);

    /// The table that they use, if it is known and the last one that was given out.
    fn settled(&self) -> Option<Arc<Table>>;

    /// How many tables were given out.
    fn tables(&self) -> u64;

    /// Where the ticks of all of them were since this was last asked.
    fn take_ticks(&self) -> Ticks;

    /// Something is not as it was asked for.
    fn note(&self, text: String);

    /// All of them together.
    fn merged(&self) -> Done;
}

/// Planes in this process.
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// What these planes have sent.
    pub(super) own: Own,
    /// Where they receive, and so must not send.
    reach: Reach,
    /// How many tables there were; a plane looks at the table only if this changed.
    generation: AtomicU64,
    settled: Mutex<Settled>,
    start: Instant,
    planes: Vec<Mutex<Done>>,
    notes: Mutex<Vec<String>>,
}

impl Shared {
    /// For so many planes; before there is a table, it is known who may send.
    pub(super) fn new(planes: usize, allow: AllowList) -> Shared {
        Shared {
            stop: AtomicBool::new(false),
            own: Own::default(),
            reach: Reach::new(Vec::new()),
            generation: AtomicU64::new(0),
            settled: Mutex::new(Settled::new(Arc::new(Table::new(allow, Vec::new(), &[])))),
            start: Instant::now(),
            planes: (0..planes).map(|_| Mutex::default()).collect(),
            notes: Mutex::default(),
        }
    }

    /// They send nothing within `reach`, and know what they sent.
    pub(super) fn guarded(self, reach: Reach, own: Own) -> Shared {
        Shared { reach, own, ..self }
    }

    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The newest table.
    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(lock(&self.settled).table())
    }

    /// The newest table, and its number.
    pub(super) fn in_use(&self) -> (u64, Arc<Table>) {
        let settled = lock(&self.settled);
        (self.tables(), Arc::clone(settled.table()))
    }

    /// A plane needs `tick`, and does not know that it is settled. Returns the ticks that it may forward by the newest table, with
    /// that table and its number.
    pub(super) fn claim(&self, tick: u64) -> (u64, Arc<Table>, TickRange) {
        let mut settled = lock(&self.settled);
        let ticks = settled.claim(tick, Nanos::from(self.start.elapsed()));
        (self.tables(), Arc::clone(settled.table()), ticks)
    }

    /// A plane that asks only now and then has forwarded `tick`: as [`claim`](Self::claim), and for some ticks after it.
    pub(super) fn claim_ahead(&self, tick: u64) -> (u64, TickRange) {
        let mut settled = lock(&self.settled);
        let ticks = settled.claim_ahead(tick, Nanos::from(self.start.elapsed()));
        (self.tables(), ticks)
    }

    /// The ticks that were asked for last, and the number of the newest table.
    pub(super) fn claimed(&self) -> (u64, TickRange) {
        let settled = lock(&self.settled);
        (self.tables(), settled.claimed())
    }

    /// The table, if there is a newer one than number `known`.
    pub(super) fn newer(&self, known: &mut u64) -> Option<Arc<Table>> {
        (self.tables() != *known).then(|| {
            let (number, table) = self.in_use();
            *known = number;
            table
        })
    }

    /// The counters of plane `number`, to be changed by it.
    pub(super) fn of(&self, number: usize) -> MutexGuard<'_, Done> {
        lock(&self.planes[number])
    }
}

impl Planes for Shared {
    fn publish(&self, mut table: Table) {
        // Whoever decides may be another process, of another version, or with workers from a database.
        let barred = table.bar(|member| self.reach.check_table(member, leads_here).is_err());
        if barred > 0 {
            self.note(
                "workers are sent nothing: their addresses lead back here, or to no single host".to_owned(),
            );
        }
        let mut settled = lock(&self.settled);
        settled.commit(table);
        // Under the lock: whoever claims gets the table and its number.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn settled(&self) -> Option<Arc<Table>> {
        Some(self.table())
    }

    fn tables(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn take_ticks(&self) -> Ticks {
        let mut all = Ticks::default();
        self.planes.iter().for_each(|plane| all.merge(&std::mem::take(&mut lock(plane).ticks)));
        all
    }

    fn note(&self, text: String) {
        let mut notes = lock(&self.notes);
        if notes.len() < MAX_NOTES && !notes.contains(&text) {
            notes.push(text);
        }
    }

    fn merged(&self) -> Done {
        let table = self.planes.iter().map(|plane| lock(plane).table).min().unwrap_or(0);
        let mut all = Done { notes: lock(&self.notes).clone(), table, ..Done::default() };
        for plane in &self.planes {
            let plane = lock(plane);
            all.count(&plane);
            all.sources.extend(plane.sources.iter().cloned());
            if !all.mode.contains(&plane.mode) {
                let between = if all.mode.is_empty() { "" } else { "; " };
                all.mode = format!("{}{between}{}", all.mode, plane.mode);
            }
        }
        all
    }
}

/// Words of a set of ports.
const WORDS: usize = 65_536 / 64;

/// What an address is to this host. What its kernel does not say is another host's.
pub(super) fn kind(ip: IpAddr) -> Kind {
    match leads(ip) {
        Ok(Leads::Here) => Kind::Own,
        Ok(Leads::Everyone) => Kind::Broadcast,
        Ok(Leads::Elsewhere) | Err(_) => Kind::Other,
    }
}

/// Whether it is an address of this host.
pub(super) fn leads_here(ip: IpAddr) -> bool {
    kind(ip) == Kind::Own
}

/// Addresses and ports that planes send from.
pub(super) struct Own {
    /// Ports, to say quickly that a packet is another's.
    ports: Box<[u64; WORDS]>,
    from: BTreeSet<SocketAddr>,
}

impl Default for Own {
    /// Nothing.
    fn default() -> Own {
        Own { ports: Box::new([0; WORDS]), from: BTreeSet::new() }
    }
}

impl Own {
    /// Of these. A socket that sends from any address may have sent from each of the host's.
    pub(super) fn of<'a>(forwarders: impl Iterator<Item = &'a Forwarder>) -> Own {
        let host: Vec<IpAddr> =
            addresses().map_or(Vec::new(), |all| all.into_iter().map(|(_, ip)| ip).collect());
        let mut own = Own::default();
        for at in forwarders.flat_map(Forwarder::locals) {
            own.ports[usize::from(at.port()) / 64] |= 1 << (at.port() % 64);
            let every = host.iter().filter(|ip| ip.is_ipv4() == at.is_ipv4());
            match at.ip().is_unspecified() {
                true => own.from.extend(every.map(|ip| SocketAddr::new(*ip, at.port()))),
                false => _ = own.from.insert(at),
            }
        }
        own
    }

    /// Whether a packet of this sender is one of ours.
    #[inline]
    pub(super) fn sent(&self, sender: &SocketAddr) -> bool {
        let port = sender.port();
        self.ports[usize::from(port) / 64] >> (port % 64) & 1 == 1 && self.is_among(sender)
    }

    #[cold]
    fn is_among(&self, sender: &SocketAddr) -> bool {
        // A link-local sender has a scope, which the socket's own address has not.
        self.from.contains(&SocketAddr::new(sender.ip(), sender.port()))
    }
}

/// How often control looks at what was forwarded and at the time.
const TICK_INTERVAL: Duration = Duration::from_millis(50);

/// What control knows.
pub(super) struct State {
    pub(super) balancer: Balancer,
    /// Who may send messages.
    pub(super) allow: AllowList,
    /// What workers were sent, and those that left.
    pub(super) served: Served,
    /// Whether threads that forward use a calendar: before that nobody has a share.
    pub(super) is_begun: bool,
    pub(super) syncs: u64,
    /// Messages that were not used, by reason.
    pub(super) refused: BTreeMap<&'static str, u64>,
    start: Instant,
}

impl State {
    pub(super) fn new(balancer: Balancer, allow: AllowList) -> State {
        let start = Instant::now();
        let served = Served::of(balancer.workers());
        let is_begun = balancer.boundary().is_some();
        State { balancer, allow, served, is_begun, syncs: 0, refused: BTreeMap::new(), start }
    }

    /// The time as the balancer counts it.
    pub(super) fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }
}

/// The thread.
pub(super) struct Control<L> {
    planes: Arc<dyn Planes>,
    stop: Arc<AtomicBool>,
    state: Arc<Mutex<State>>,
    syncs: Vec<UdpSource>,
    /// Makes a number of a sender's address and its own number.
    numbers: RandomState,
    /// The last table that is known to be in use.
    settled: u64,
    labels: PhantomData<L>,
}

impl<L: Labelled> Control<L> {
    pub(super) fn new(
        planes: Arc<dyn Planes>,
        state: Arc<Mutex<State>>,
        syncs: Vec<UdpSource>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Control { planes, stop, state, syncs, numbers: RandomState::new(), settled: 0, labels: PhantomData }
    }

    pub(super) fn run(mut self) {
        let mut next = Instant::now();
        let mut awake = Awake::start();
        while !self.stop.load(Ordering::Acquire) {
            let wait = next.saturating_duration_since(Instant::now());
            self.hear(wait);
            let pause = awake.turn();
            if pause.is_some() || Instant::now() >= next {
                next = Instant::now() + TICK_INTERVAL;
                self.turn(pause);
            }
        }
    }

    /// Wait up to `wait` for messages.
    fn hear(&mut self, wait: Duration) {
        let Control { planes, state, syncs, numbers, .. } = self;
        if syncs.is_empty() {
            std::thread::sleep(wait);
        }
        let each = wait / syncs.len().max(1) as u32;
        syncs.retain_mut(|source| {
            let heard = source.poll(each, &mut |train| {
                let mut state = lock(state);
                let allowed = state.allow.admits(train.sender.ip());
                train
                    .packets()
                    .for_each(|datagram| heard::<L>(&mut state, numbers, &train, datagram, allowed));
            });
            // Without messages the data say where ticks are.
            heard.inspect_err(|error| planes.note(format!("no more messages are heard: {error}"))).is_ok()
        });
    }

    /// Look at what was forwarded and at the time.
    fn turn(&mut self, pause: Option<Duration>) {
        let ticks = self.planes.take_ticks();
        let mut state = lock(&self.state);
        let now = state.now();
        if let Some(pause) = pause {
            let pause = Nanos::from(pause);
            state.balancer.handle_pause(pause, now);
        }
        state.balancer.handle_ticks(&ticks, now);
        // Calendars are changed only where those in use are known.
        if let Some(table) = self.planes.settled() {
            let number = self.planes.tables();
            if std::mem::replace(&mut self.settled, number) != number {
                state.balancer.handle_settled(&table, now);
            }
            state.balancer.handle_timeout(now);
        }
        let table = state.balancer.poll_table();
        if table.is_none() && !state.is_begun && state.balancer.boundary().is_some() {
            state.is_begun = self.planes.merged().table == self.planes.tables();
        }
        let State { balancer, served, .. } = &mut *state;
        served.remember(balancer.workers(), || self.planes.merged().counters);
        drop(state);
        // A process that forwards may be slow to take it. Calls do not wait for that.
        if let Some(table) = table {
            self.planes.publish(table);
        }
    }
}

/// A message came.
fn heard<L: Labelled>(
    state: &mut State,
    numbers: &RandomState,
    train: &Train<'_>,
    datagram: &[u8],
    allowed: bool,
) {
    let refused = match L::sync(datagram) {
        _ if !allowed => "blocked_source",
        Ok(sync) => {
            state.syncs += 1;
            let now = state.now();
            let from = numbers.hash_one((train.sender.ip(), sync.source));
            return state.balancer.handle_sync(from, &sync, now);
        }
        Err(why) => why.name(),
    };
    *state.refused.entry(refused).or_default() += 1;
}
