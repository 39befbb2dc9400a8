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

/// A running balancer. It stops when dropped; planes in another process then continue.
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

    /// Open the sockets and start, with `workers` as they were registered with an earlier balancer. Each gets a share
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

    /// Continue with planes in another process, which [`DataPlane::serve`] serves at `path`: with their table, and with
    /// `workers` as they were registered. The `options` of the planes are ignored. If that process dies, another one is
    /// started by `restart`, and given the same table.
    ///
    /// # Errors
    /// See [`BalanceError`]: no process serves there, or the planes already have a controller.
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

    /// Addresses of data packets, with the ports that were bound.
    #[must_use]
    pub fn data(&self) -> &[SocketAddr] {
        &self.data
    }

    /// Addresses of synchronisation messages.
    #[must_use]
    pub fn sync(&self) -> &[SocketAddr] {
        &self.sync
    }

    /// From now on, only these senders are allowed (effective within a tenth of a second).
    pub fn allow(&self, list: AllowList) {
        let mut state = lock(&self.state);
        state.allow = list.clone();
        state.balancer.allow(list);
    }

    /// Registers a worker. It gets a share once it reports that it is ready.
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

    /// Whether packets to this member would arrive at this balancer.
    #[must_use]
    pub fn is_reached_by(&self, member: &Member) -> bool {
        matches!(self.reach.check(member, control::kind), Err(Unusable::Own(_)))
    }

    /// Deregisters a worker: it receives the rest of its events, and nothing new.
    ///
    /// # Errors
    /// [`StateError::NoSession`].
    pub fn deregister(&self, session: Session) -> Result<(), StateError> {
        lock(&self.state).balancer.deregister(session)
    }

    /// Evicts a worker: nothing more is sent to it.
    ///
    /// # Errors
    /// [`StateError::NoSession`].
    pub fn evict(&self, session: Session) -> Result<(), StateError> {
        lock(&self.state).balancer.evict(session)
    }

    /// Takes the report of a worker.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn handle_state(&self, session: Session, report: WorkerState) -> Result<(), StateError> {
        let mut state = lock(&self.state);
        let now = state.now();
        state.balancer.handle_state(session, report, now)
    }

    /// Whether packets for a worker may still be sent, though it leaves.
    #[must_use]
    pub fn is_awaited(&self, session: Session) -> bool {
        let state = lock(&self.state);
        state.balancer.is_awaited(session, state.now())
    }

    /// Sets the slots that a worker demands; earlier demands are dropped.
    ///
    /// # Errors
    /// See [`DemandError`].
    pub fn demand(&self, session: Session, slots: &[SlotRange]) -> Result<(), DemandError> {
        lock(&self.state).balancer.demand(session, slots)
    }

    /// Sets the slots that these workers demand; all other demands are dropped.
    ///
    /// # Errors
    /// See [`DemandError`].
    pub fn demand_all(&self, demands: &[(Session, Vec<SlotRange>)]) -> Result<(), DemandError> {
        lock(&self.state).balancer.demand_all(demands)
    }

    /// Forgets ticks and calendars, for senders that restart their count. Packets are refused until a worker has reported,
    /// and events of this moment may be split.
    pub fn reset(&self) {
        let mut state = lock(&self.state);
        let now = state.now();
        state.balancer.reset(now);
    }

    /// Returns its state and counters. Planes publish their counters every 50 ms.
    #[must_use]
    pub fn status(&self) -> BalanceStatus {
        BalanceStatus::new(&lock(&self.state), &*self.planes, &self.data, &self.sync)
    }

    /// The reason, if one of its threads has ended unexpectedly. Planes in another process are restarted.
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

    /// Forwards what is in the sockets, and stops; planes in another process stop, too.
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
    /// Time since its last report.
    pub heard: Duration,
    /// Its slots in the newest calendar; none before all threads use the first one, so that nothing is sent too early.
    pub slots: u16,
    /// The same slots as ranges: first slot and count.
    pub ranges: Vec<(u16, u16)>,
    /// The slots that it demands, as ranges.
    pub demanded: Vec<(u16, u16)>,
    /// Packets that were routed to it.
    pub packets: u64,
    /// Bytes in them, as forwarded.
    pub bytes: u64,
}

/// See the module. Every packet that came is in `refused`, or routed; every packet that was routed is in `forwarded`.
#[derive(Clone, Debug)]
pub struct BalanceStatus {
    /// Where packets arrive.
    pub data: Vec<SocketAddr>,
    /// Addresses of synchronisation messages.
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
    /// Workers that left, the last 1024.
    pub left: Vec<WorkerLeft>,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets refused, by reason; includes reasons that did not occur.
    pub refused: Vec<(&'static str, u64)>,
    /// Fate of the packets that were routed to workers.
    pub forwarded: Forwarded,
    /// How packets are sent, and why.
    pub mode: String,
    /// Trains that were repeated as single packets, because the path to their worker carries none.
    pub singly: u64,
    /// CPU time of the threads that forward.
    pub cpu: Duration,
    /// Restarts of the forwarding process after it died.
    pub restarts: u64,
    /// Time without a forwarding process: packets that arrived meanwhile are in no counter.
    pub away: Duration,
    /// The forwarding process did not end on request, and was killed: its last counters are missing.
    pub incomplete: bool,
    /// Synchronisation messages that were used.
    pub syncs: u64,
    /// Messages that were refused, by reason.
    pub refused_syncs: Vec<(&'static str, u64)>,
    /// Messages that do not fit what was known of their sender, and so moved nothing.
    pub suspect_syncs: u64,
    /// The data sockets.
    pub sources: Vec<SourceReport>,
    /// Deviations from the options.
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
            left: state.served.left(&done.counters),
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
