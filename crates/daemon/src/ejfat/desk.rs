//! The implementation of each call of the control plane, independent of gRPC and REST.
//!
//! ```text
//!   gRPC ─┐                        ┌─ Facility: permissions, state          written before it takes effect
//!         ├─▶ Desk: one function ──┤
//!   REST ─┘   for each call        └─ Balance of each reservation           packets, sessions, states
//!                                     ▲ turn, once a second: ends, samples
//! ```
//!
//! A call is synchronous. It checks the token first, and reveals nothing that the token may not see. If the database
//! cannot be written, the call is refused and nothing changes; forwarding continues.
//!
//! There are two locks: one for the state in memory, held for microseconds, and one for the database, held by the
//! change being written. Queries and reports do not wait for a disk. Starting a process, resolving a name and asking
//! another control plane are done without a lock, so no other call waits for them.
//!
//! Limits: those of [`Limits`](super::facility::Limits), and 1024 seats for each balancer.

#![expect(clippy::needless_pass_by_value, reason = "calls have one shape, which the doors rely on")]

mod chained;
mod chains;
mod circles;
mod link;
mod look;
mod refusal;
mod reservations;
mod rights;
pub mod selectors;
pub mod series;
mod together;
mod tokens;
mod turn;
mod uri;
mod workers;

pub use refusal::{Kind, Refusal};
pub use uri::Place;

use super::client::Trust;
use super::facility::token::{Keys, random};
use super::facility::{Change, ChangeError, Facility, Millis, Reservation, Store};
use super::ground::{Ground, Guard};
use link::{Chained, Leaving, Notes};
use series::{ReservationSeries, SessionSeries, Totals};
use skyhaul::balance::{Balance, BalanceError, BalanceStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use together::Together;

/// The origin and time of a call.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The token of the call.
    pub token: Option<String>,
    /// The address at which the caller reached this server.
    pub place: Place,
    /// The time of the call: Unix time in milliseconds.
    pub now: Millis,
}

/// A reservation's balancer, and the reports of its workers.
struct Running {
    /// Queries use it without the lock of the desk.
    balance: Arc<Balance>,
    series: ReservationSeries,
    workers: BTreeMap<i64, Reported>,
    /// The sums over its workers, for load balancers that feed this one.
    together: Together,
    /// Whether any of them has a share.
    ready: bool,
    chains: BTreeMap<i64, Chained>,
    leaving: Vec<Leaving>,
}

/// What a worker reported.
#[derive(Clone, Debug, Default)]
struct Reported {
    totals: Totals,
    series: SessionSeries,
}

struct State {
    facility: Facility,
    running: BTreeMap<i64, Running>,
    /// Load balancers that are being opened or closed.
    busy: BTreeSet<i64>,
}

/// For each session: its number at the balancer, its own number, and its name.
pub type Names = Vec<(u64, i64, String)>;

/// The control plane; see the [module](self).
pub struct Desk {
    /// A change locks it before the state.
    store: Mutex<Store>,
    state: Mutex<State>,
    keys: Keys,
    ground: Ground,
    guard: Option<Guard>,
    calls: AtomicU64,
    refused: [AtomicU64; Kind::ALL.len()],
    /// Balancers of ended reservations, until they are fetched.
    ended: Mutex<Vec<(Reservation, BalanceStatus)>>,
    /// The name of this desk in graphs of chains.
    node: String,
    trust: Trust,
    /// Number of running calls that ask other control planes.
    asking: AtomicUsize,
    notes: Notes,
}

impl Desk {
    /// Starts the balancers of all reservations.
    ///
    /// # Errors
    /// The [`BalanceError`] of the first balancer that cannot start.
    pub fn open((facility, store): (Facility, Store), ground: Ground) -> Result<Desk, BalanceError> {
        ground.check()?;
        let mut running = BTreeMap::new();
        for instance in 1..=facility.limits().instances {
            if facility.reservations().all(|reservation| reservation.instance != instance) {
                ground.clear(instance)?;
            }
        }
        for reservation in facility.reservations() {
            let balance = ground.open(reservation, facility.sessions(reservation.id))?;
            running.insert(reservation.id, Running::new(balance));
        }
        let trust = ground.upstream.clone();
        let keys = facility.tokens().keys();
        let desk = Desk {
            store: Mutex::new(store),
            state: Mutex::new(State { facility, running, busy: BTreeSet::new() }),
            keys,
            guard: ground.guard(),
            ground,
            calls: AtomicU64::new(0),
            refused: Default::default(),
            ended: Mutex::default(),
            node: random()?,
            trust,
            asking: AtomicUsize::new(0),
            notes: Notes::default(),
        };
        desk.rechain();
        Ok(desk)
    }

    /// The reason why a balancer no longer works, if one of its threads has failed.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let state = self.locked();
        let fault =
            |(id, running): (&i64, &Running)| Some(format!("reservation {id}: {}", running.balance.fault()?));
        state.running.iter().find_map(fault)
    }

    /// All reservations, each with the status of its balancer.
    #[must_use]
    pub fn statuses(&self) -> Vec<(Reservation, BalanceStatus, Names)> {
        let ids: Vec<i64> = self.locked().running.keys().copied().collect();
        let status = |id: i64| {
            let (reservation, balance, names) = {
                let state = self.locked();
                let sessions = state.facility.sessions(id);
                let names = sessions.map(|session| (session.number, session.id, session.name.clone()));
                (state.reservation(id).ok()?.clone(), state.balance(id).ok()?, names.collect())
            };
            Some((reservation, balance.status(), names))
        };
        ids.into_iter().filter_map(status).collect()
    }

    /// Number of calls so far, and of those refused, by kind.
    #[must_use]
    pub fn counts(&self) -> (u64, [(Kind, u64); Kind::ALL.len()]) {
        let refused = Kind::ALL.map(|kind| (kind, self.refused[kind as usize].load(Ordering::Relaxed)));
        (self.calls.load(Ordering::Relaxed), refused)
    }

    /// Packets of clients that ignore the port in the URI, at addresses that several load balancers share.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.guard.as_ref().map_or(0, Guard::packets)
    }

    /// Number of valid tokens and of registered sessions.
    #[must_use]
    pub fn numbers(&self) -> (usize, usize) {
        let state = self.locked();
        let sessions = state.facility.reservations().map(|r| state.facility.sessions(r.id).count()).sum();
        (state.facility.tokens().len(), sessions)
    }

    /// Counts a call by its result.
    pub fn count<T>(&self, done: &Result<T, Refusal>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(refusal) = done {
            self.refused[refusal.kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Makes a change: `plan` checks whether it is allowed; then it is written, while only other changes wait, and
    /// takes effect.
    fn change<T>(&self, plan: impl FnOnce(&mut State) -> Result<Change<T>, Refusal>) -> Result<T, Refusal> {
        let mut store = locked(&self.store);
        let change = plan(&mut self.locked())?;
        let written = change.write(&mut store).map_err(ChangeError::from)?;
        Ok(written.hold(&mut self.locked().facility))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn balance(&self, id: i64) -> Result<Arc<Balance>, Refusal> {
        self.running.get(&id).map(|running| Arc::clone(&running.balance)).ok_or_else(|| gone(id))
    }
}

impl Running {
    fn new(balance: Balance) -> Running {
        Running {
            balance: Arc::new(balance),
            series: ReservationSeries::default(),
            workers: BTreeMap::new(),
            together: Together::default(),
            ready: false,
            chains: BTreeMap::new(),
            leaving: Vec::new(),
        }
    }
}

fn gone(id: i64) -> Refusal {
    Refusal::new(Kind::Missing, format!("there is no reservation {id}; hint: it may have ended"))
}

/// The number of a reservation, as text.
fn number(text: &str) -> Result<i64, Refusal> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| Refusal::invalid(format!("`{}` is no number of a reservation; hint: like 1", cut(text))))
}

/// Checks that a name is suitable for a log.
fn name(text: &str, most: usize) -> Result<&str, Refusal> {
    if text.len() > most || text.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!("the name is not plain text of at most {most} bytes")));
    }
    Ok(text)
}

/// Shortens text from outside.
fn cut(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
