//! The control thread: receives senders' messages and counts of forwarded packets, makes tables, and remembers workers that left.

use super::shared::Planes;
use crate::awake::Awake;
use skyhaul_core::balance::{AllowList, Balancer, MEMBERS, Registration, Session, Traffic, Worker};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::labelled::Labelled;
use skyhaul_io::lock::lock;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::UdpSource;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
    labels: PhantomData<L>,
}

impl<L: Labelled> Control<L> {
    pub(super) fn new(
        planes: Arc<dyn Planes>,
        state: Arc<Mutex<State>>,
        syncs: Vec<UdpSource>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Control { planes, stop, state, syncs, numbers: RandomState::new(), labels: PhantomData }
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
        state.balancer.handle_timeout(now);
        let table = state.balancer.poll_table();
        if table.is_none() && !state.is_begun && state.balancer.boundary().is_some() {
            state.is_begun = self.planes.merged().table == self.planes.tables();
        }
        let State { balancer, served, .. } = &mut *state;
        served.remember(balancer.workers(), &*self.planes);
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

/// Workers that left and are remembered.
const MAX_LEFT_WORKERS: usize = MEMBERS;

/// A worker that left, or was removed.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLeft {
    /// Its session.
    pub session: Session,
    /// What it registered with.
    pub registration: Registration,
    /// Packets that were routed to it.
    pub packets: u64,
    /// Octets in them, as forwarded.
    pub bytes: u64,
}

/// A worker, as it registered, and what its seat had been sent before.
type Begun = (Registration, Traffic);

/// Every worker that has not left, and the last of those that have.
#[derive(Default)]
pub(super) struct Served {
    here: BTreeMap<Session, Begun>,
    left: VecDeque<WorkerLeft>,
}

impl Served {
    /// Workers of whom another process knew: what their seats were sent is theirs.
    pub(super) fn of(workers: &[Worker]) -> Served {
        let begun = |worker: &Worker| (worker.session(), (*worker.registration(), Traffic::default()));
        Served { here: workers.iter().map(begun).collect(), left: VecDeque::new() }
    }

    /// A worker registered; its seat had been sent `before`.
    pub(super) fn begin(&mut self, session: Session, registration: Registration, before: Traffic) {
        self.here.insert(session, (registration, before));
    }

    /// Packets and bytes that were sent to a worker, if its seat was sent `all`.
    pub(super) fn sent(&self, session: Session, all: Traffic) -> (u64, u64) {
        let before = self.here.get(&session).map_or(Traffic::default(), |(_, before)| *before);
        (all.packets.saturating_sub(before.packets), all.bytes.saturating_sub(before.bytes))
    }

    /// Those that left, the earliest first.
    pub(super) fn left(&self) -> impl Iterator<Item = &WorkerLeft> {
        self.left.iter()
    }

    /// Only `workers` are left: remember what the others were sent.
    pub(super) fn remember(&mut self, workers: &[Worker], planes: &dyn Planes) {
        let here: BTreeSet<Session> = workers.iter().map(Worker::session).collect();
        let gone: Vec<Session> =
            self.here.keys().filter(|session| !here.contains(session)).copied().collect();
        if gone.is_empty() {
            return;
        }
        let counters = planes.merged().counters;
        for session in gone {
            let (packets, bytes) = self.sent(session, counters.member(session.seat()));
            let Some((registration, _)) = self.here.remove(&session) else { continue };
            if self.left.len() == MAX_LEFT_WORKERS {
                self.left.pop_front();
            }
            self.left.push_back(WorkerLeft { session, registration, packets, bytes });
        }
    }
}

#[cfg(test)]
mod tests;
