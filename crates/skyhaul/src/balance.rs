//! A load balancer on sockets: packets of many senders to many workers, each object to one of them.
//!
//! ```text
//!   senders ──▶ data ports ──▶ plane 1 … n ──▶ workers        a thread for each CPU, one table for all      
//!      │                          ▲   │ counters, highest tick
//!      └─ messages ─▶ sync ports  │   ▼
//!                        └────▶ control ◀── register, report, leave        every 50 ms
//! ```
//!
//! [`core::balance`](skyhaul_core::balance) decides everything; here are the threads and sockets around it. Planes share
//! one table, which is replaced as a whole, and never wait: not for each other, not for control, not for a worker.
//!
//! ```no_run
//! use skyhaul::balance::{Balance, BalanceOptions};
//! use skyhaul::core::balance::{AllowList, Member, PortRange, Registration};
//! let options = BalanceOptions {
//!     data: vec!["10.0.0.1:19522".parse()?],
//!     sync: vec!["10.0.0.1:19010".parse()?],
//!     allow: AllowList::of(&["10.0.1.0/24".parse()?]),
//!     ..BalanceOptions::default()
//! };
//! let balance = Balance::start(&options)?;
//! let member = Member::new("10.0.2.7".parse()?, 17750, PortRange::default(), false).expect("ports below 65536");
//! let session = balance.register(Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 })?;
//! println!("{}: {} packets forwarded", session.number(), balance.status().packets);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: packets are sent from the balancer's address, and from a port of its own. What is in the sockets when a balancer
//! ends is still forwarded; what comes later is not.

mod control;
mod data_plane;
mod fast;
mod options;
mod remote;

pub use control::WorkerLeft;
pub use data_plane::DataPlane;
pub use options::{BalanceError, BalanceOptions, FastPath};
pub use remote::{Claim, Restart, Started};

use crate::panics::reason;
use crate::report::SourceReport;
use control::{Control, Planes, State};
use remote::Remote;
use skyhaul_core::balance::{
    AllowList, Balancer, DemandError, Member, Reach, Refusal, RegisterError, Registration, Session,
    SlotRange, Standing, StateError, Table, Unusable, WorkerState,
};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::labelled::{Labelled, VisitLabelled};
use skyhaul_io::address::Endpoint;
use skyhaul_io::lock::lock;
use skyhaul_io::udp::forward::Forwarded;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

/// A running balancer. It stops when dropped; planes in another process then go on.
pub struct Balance {
    planes: Arc<dyn Planes>,
    state: Arc<Mutex<State>>,
    data: Vec<SocketAddr>,
    sync: Vec<SocketAddr>,
    /// Where it must not send.
    reach: Reach,
    stop: Arc<AtomicBool>,
    control: Option<JoinHandle<()>>,
    /// What forwards, in this process or in another.
    ends: Ends,
}

/// What ends with a balancer.
enum Ends {
    Here(DataPlane),
    There(Arc<Remote>),
}

impl fmt::Debug for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Balance").field("data", &self.data).field("sync", &self.sync).finish_non_exhaustive()
    }
}

impl Balance {
    /// Open the sockets and start. Nothing is forwarded before a worker has registered and is ready.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn start(options: &BalanceOptions) -> Result<Balance, BalanceError> {
        Balance::resume(options, &[])
    }

    /// Open the sockets and start, with `workers` as they were registered with a balancer that is no more. Each gets a share
    /// once it reports that it is ready.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn resume(
        options: &BalanceOptions,
        workers: &[(Session, Registration)],
    ) -> Result<Balance, BalanceError> {
        let plane = DataPlane::start(options)?;
        let (shared, data) = (Arc::clone(&plane.shared), plane.data.clone());
        let table = Table::new(options.allow.clone(), Vec::new(), &[]);
        let balancer = Balancer::resume(options.config, &table, workers, Nanos(0));
        Balance::control(options, balancer, shared, data, Ends::Here(plane))
    }

    /// Go on with planes in another process, which [`DataPlane::serve`] serves at `path`: with their table, and with
    /// `workers` as they were registered. Of `options`, those of the planes do not count. If that process dies, others are
    /// started by `restart`, and given the same table.
    ///
    /// # Errors
    /// See [`BalanceError`]: nobody serves there, or planes have a controller already.
    pub fn attach(
        options: &BalanceOptions,
        path: &Path,
        workers: &[(Session, Registration)],
        restart: Option<Restart>,
    ) -> Result<Balance, BalanceError> {
        let (remote, table) = Remote::connect(path, restart)?;
        let balancer = Balancer::resume(options.config, &table, workers, Nanos(0));
        let data = remote.data().to_vec();
        Balance::control(options, balancer, Arc::clone(&remote) as Arc<dyn Planes>, data, Ends::There(remote))
    }

    fn control(
        options: &BalanceOptions,
        mut balancer: Balancer,
        planes: Arc<dyn Planes>,
        data: Vec<SocketAddr>,
        ends: Ends,
    ) -> Result<Balance, BalanceError> {
        struct Start(Arc<dyn Planes>, Arc<Mutex<State>>, Vec<UdpSource>, Arc<AtomicBool>);
        impl VisitLabelled for Start {
            type Out = io::Result<JoinHandle<()>>;
            fn visit<L: Labelled>(self) -> Self::Out {
                let control = Control::<L>::new(self.0, self.1, self.2, self.3);
                std::thread::Builder::new().name("balance".to_owned()).spawn(move || control.run())
            }
        }
        balancer.allow(options.allow.clone());
        let udp = UdpOptions { timestamps: false, ..UdpOptions::default() };
        let open = |&at: &SocketAddr| UdpSource::open(&Endpoint::udp(at), &udp);
        let syncs: Vec<UdpSource> = options.sync.iter().map(open).collect::<io::Result<_>>()?;
        let sync: Vec<SocketAddr> = syncs.iter().map(UdpSource::local).collect();
        let reach = Reach::new(data.iter().chain(&sync).copied().collect());
        let state = Arc::new(Mutex::new(State::new(balancer, options.allow.clone())));
        let stop = Arc::new(AtomicBool::new(false));
        let start = Start(Arc::clone(&planes), Arc::clone(&state), syncs, Arc::clone(&stop));
        let not = BalanceError::NotLabelled(options.family.name());
        let control = Some(options.family.visit_labelled(start).ok_or(not)??);
        Ok(Balance { planes, state, data, sync, reach, stop, control, ends })
    }

    /// Where packets arrive, with the ports that were found.
    #[must_use]
    pub fn data(&self) -> &[SocketAddr] {
        &self.data
    }

    /// Where synchronisation messages arrive.
    #[must_use]
    pub fn sync(&self) -> &[SocketAddr] {
        &self.sync
    }

    /// Only these may send from now on (planes know it within a tenth of a second).
    pub fn allow(&self, list: AllowList) {
        let mut state = lock(&self.state);
        state.allow = list.clone();
        state.balancer.allow(list);
    }

    /// A worker registers. It gets a share once it reports that it is ready.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn register(&self, registration: Registration) -> Result<Session, RegisterError> {
        self.reach.check(&registration.member, control::kind)?;
        let mut state = lock(&self.state);
        let now = state.now();
        let session = state.balancer.register(registration, now)?;
        // The seat's earlier members were sent this.
        let before = self.planes.merged().counters.member(session.seat());
        state.served.begin(session, registration, before);
        Ok(session)
    }

    /// Whether packets to this member arrive at this balancer.
    #[must_use]
    pub fn is_reached_by(&self, member: &Member) -> bool {
        matches!(self.reach.check(member, control::kind), Err(Unusable::Own(_)))
    }

    /// A worker leaves: it is sent the rest of what is its, and nothing new.
    ///
    /// # Errors
    /// [`StateError::NoSession`].
    pub fn deregister(&self, session: Session) -> Result<(), StateError> {
        lock(&self.state).balancer.deregister(session)
    }

    /// A worker is sent nothing more.
    ///
    /// # Errors
    /// [`StateError::NoSession`].
    pub fn evict(&self, session: Session) -> Result<(), StateError> {
        lock(&self.state).balancer.evict(session)
    }

    /// A worker reports.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn handle_state(&self, session: Session, report: WorkerState) -> Result<(), StateError> {
        let mut state = lock(&self.state);
        let now = state.now();
        state.balancer.handle_state(session, report, now)
    }

    /// A worker demands these slots, and none that it demanded before.
    ///
    /// # Errors
    /// See [`DemandError`].
    pub fn demand(&self, session: Session, slots: &[SlotRange]) -> Result<(), DemandError> {
        lock(&self.state).balancer.demand(session, slots)
    }

    /// These workers demand these slots, and no others demand any.
    ///
    /// # Errors
    /// See [`DemandError`].
    pub fn demand_all(&self, demands: &[(Session, Vec<SlotRange>)]) -> Result<(), DemandError> {
        lock(&self.state).balancer.demand_all(demands)
    }

    /// Forget ticks and calendars, as for senders that begin to count anew. Packets are refused until a worker has reported,
    /// and events of this moment may be split.
    pub fn reset(&self) {
        let mut state = lock(&self.state);
        let now = state.now();
        state.balancer.reset(now);
    }

    /// What it does, and did so far. Planes publish their counters every 50 ms.
    #[must_use]
    pub fn status(&self) -> BalanceStatus {
        BalanceStatus::new(&lock(&self.state), &*self.planes, &self.data, &self.sync)
    }

    /// Why it does not work any more, if a thread of it has ended by itself. Planes in another process are started again.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let ended = |thread: &JoinHandle<()>| thread.is_finished();
        if self.control.as_ref().is_some_and(ended) && !self.stop.load(Ordering::Acquire) {
            return Some("the thread that gives out tables has ended".to_owned());
        }
        match &self.ends {
            Ends::Here(plane) => plane.fault(),
            Ends::There(remote) => remote.fault(),
        }
    }

    /// Forward what is in the sockets, and end; planes in another process end, too.
    #[must_use]
    pub fn stop(mut self) -> BalanceStatus {
        self.end_control();
        match &mut self.ends {
            Ends::Here(plane) => plane.end(),
            Ends::There(remote) => remote.end(),
        }
        self.status()
    }

    fn end_control(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(Err(panic)) = self.control.take().map(JoinHandle::join) {
            self.planes.note(format!("a fault in this program ended a thread: {}", reason(&*panic)));
        }
    }
}

impl Drop for Balance {
    fn drop(&mut self) {
        self.end_control();
    }
}

/// A registered worker, or one that is leaving.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    /// Its session.
    pub session: Session,
    /// What it registered with.
    pub registration: Registration,
    /// What becomes of it.
    pub standing: Standing,
    /// What it reported last.
    pub state: WorkerState,
    /// Since it was last heard.
    pub heard: Duration,
    /// Its slots in the newest calendar; none before all threads use the first one, so that nothing is sent too early.
    pub slots: u16,
    /// These, those in a row together: the first, and how many.
    pub ranges: Vec<(u16, u16)>,
    /// The slots that it demands, likewise.
    pub demanded: Vec<(u16, u16)>,
    /// Packets that were routed to it.
    pub packets: u64,
    /// Octets in them, as forwarded.
    pub bytes: u64,
}

/// See the module. Every packet that came is in `refused`, or routed; every packet that was routed is in `forwarded`.
#[derive(Clone, Debug)]
pub struct BalanceStatus {
    /// Where packets arrive.
    pub data: Vec<SocketAddr>,
    /// Where synchronisation messages arrive.
    pub sync: Vec<SocketAddr>,
    /// The tick that the senders have reached, as predicted.
    pub predicted: Option<u64>,
    /// Calendars so far.
    pub epoch: u64,
    /// First tick of the newest calendar.
    pub boundary: Option<u64>,
    /// Tables given out, and the oldest of them that a thread still uses.
    pub tables: (u64, u64),
    /// The workers.
    pub workers: Vec<WorkerStatus>,
    /// Those that left, the last 1024.
    pub left: Vec<WorkerLeft>,
    /// Packets that came.
    pub packets: u64,
    /// Packets that were routed to nobody, by reason; all reasons, also those that did not occur.
    pub refused: Vec<(&'static str, u64)>,
    /// What became of the packets that were routed to workers.
    pub forwarded: Forwarded,
    /// How packets are sent, and why.
    pub mode: String,
    /// Trains that were repeated as single packets, because the path to their worker carries none.
    pub singly: u64,
    /// CPU time of the threads that forward.
    pub cpu: Duration,
    /// How often the process that forwards died, and was started again.
    pub restarts: u64,
    /// Time without one: packets that came then are in no counter.
    pub away: Duration,
    /// The process that forwards did not end when it was told to, and was killed: its last counters are missing.
    pub incomplete: bool,
    /// Synchronisation messages that were used.
    pub syncs: u64,
    /// Those that were not, by reason.
    pub refused_syncs: Vec<(&'static str, u64)>,
    /// Messages that do not fit what was known of their sender, and so moved nothing.
    pub suspect_syncs: u64,
    /// The data sockets.
    pub sources: Vec<SourceReport>,
    /// What is not as it was asked for.
    pub notes: Vec<String>,
}

impl BalanceStatus {
    fn new(state: &State, planes: &dyn Planes, data: &[SocketAddr], sync: &[SocketAddr]) -> BalanceStatus {
        let done = planes.merged();
        let now = state.now();
        let balancer = &state.balancer;
        let (epochs, predicted) = balancer.stats();
        let worker = |worker: &skyhaul_core::balance::Worker| {
            let session = worker.session();
            let all = done.counters.member(session.seat());
            let (packets, bytes) = state.served.sent(session, all);
            WorkerStatus {
                session,
                registration: *worker.registration(),
                standing: worker.standing(),
                state: *worker.state(),
                heard: Duration::from_nanos(now.since(worker.heard()).0),
                slots: if state.is_begun { balancer.slots(session) } else { 0 },
                ranges: if state.is_begun { balancer.ranges(session) } else { Vec::new() },
                demanded: balancer.demanded().ranges(session.seat()).collect(),
                packets,
                bytes,
            }
        };
        BalanceStatus {
            data: data.to_vec(),
            sync: sync.to_vec(),
            predicted: balancer.tick(now),
            epoch: epochs.begun,
            boundary: balancer.boundary(),
            tables: (planes.tables(), done.table),
            workers: balancer.workers().iter().map(worker).collect(),
            left: state.served.left().cloned().collect(),
            packets: done.counters.packets,
            refused: Refusal::ALL.iter().map(|&why| (why.name(), done.counters.refused(why))).collect(),
            forwarded: done.forwarded,
            mode: done.mode,
            singly: done.singly,
            cpu: done.cpu,
            restarts: done.lost.restarts,
            away: done.lost.away,
            incomplete: done.lost.incomplete,
            syncs: state.syncs,
            refused_syncs: state.refused.iter().map(|(why, n)| (*why, *n)).collect(),
            suspect_syncs: predicted.suspect,
            sources: done.sources,
            notes: done.notes,
        }
    }
}

#[cfg(test)]
mod tests;
