//! What each call of the control plane does, whichever door it comes through.
//!
//! ```text
//!   gRPC ─┐                        ┌─ Facility: who may, what there is      written before it holds
//!         ├─▶ Desk: one function ──┤
//!   REST ─┘   for each call        └─ Balance of each reservation           packets, sessions, states
//!                                     ▲ turn, once a second: ends, samples
//! ```
//!
//! A call is synchronous. It asks for the token first, and says nothing of what a token may not see. If the database cannot be
//! written, the call is refused and nothing has changed: packets go on.
//!
//! Two locks: one of the state in memory, held for microseconds, and one of the database, held by the change that is being
//! written. Who looks or reports waits for no disk, and nobody waits for a process that is started, a name that is resolved,
//! or another control plane that is asked: all that is done without a lock.
//!
//! Limits: those of [`Limits`](super::facility::Limits); 1024 seats of each balancer.

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

/// Who calls, and when.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The token it shows.
    pub token: Option<String>,
    /// Where it reached this server.
    pub place: Place,
    /// Milliseconds of UNIX time.
    pub now: Millis,
}

/// A reservation's balancer, and what its workers reported.
struct Running {
    /// Who only looks at it does so without the desk's lock.
    balance: Arc<Balance>,
    series: ReservationSeries,
    workers: BTreeMap<i64, Reported>,
    /// What they did together, for load balancers that feed this one.
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

/// Of each session: its number at the balancer, its number, and its name.
pub type Names = Vec<(u64, i64, String)>;

/// See the module.
pub struct Desk {
    /// Taken before the state, by who changes it.
    store: Mutex<Store>,
    state: Mutex<State>,
    keys: Keys,
    ground: Ground,
    guard: Option<Guard>,
    calls: AtomicU64,
    refused: [AtomicU64; Kind::ALL.len()],
    /// Balancers of reservations that ended, until they are fetched.
    ended: Mutex<Vec<(Reservation, BalanceStatus)>>,
    /// The name of this desk in graphs of chains.
    node: String,
    trust: Trust,
    /// Calls that ask other control planes.
    asking: AtomicUsize,
    notes: Notes,
}

impl Desk {
    /// Start the balancers of all reservations.
    ///
    /// # Errors
    /// See [`BalanceError`]: of the first that cannot.
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

    /// Why a balancer does not work any more, if a thread of it has ended by itself.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let state = self.locked();
        let fault =
            |(id, running): (&i64, &Running)| Some(format!("reservation {id}: {}", running.balance.fault()?));
        state.running.iter().find_map(fault)
    }

    /// All reservations, each with what its balancer does.
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

    /// Calls so far, and those that were refused, by kind.
    #[must_use]
    pub fn counts(&self) -> (u64, [(Kind, u64); Kind::ALL.len()]) {
        let refused = Kind::ALL.map(|kind| (kind, self.refused[kind as usize].load(Ordering::Relaxed)));
        (self.calls.load(Ordering::Relaxed), refused)
    }

    /// Packets of clients that took no port from the URI, at addresses that several load balancers share.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.guard.as_ref().map_or(0, Guard::packets)
    }

    /// Tokens that are valid, sessions that are registered.
    #[must_use]
    pub fn numbers(&self) -> (usize, usize) {
        let state = self.locked();
        let sessions = state.facility.reservations().map(|r| state.facility.sessions(r.id).count()).sum();
        (state.facility.tokens().len(), sessions)
    }

    /// Count a call by how it ended.
    pub fn count<T>(&self, done: &Result<T, Refusal>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(refusal) = done {
            self.refused[refusal.kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Make a change: `plan` says whether it may be, it is written while only other changes wait, and holds then.
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

/// A name, if it can stand in a log.
fn name(text: &str, most: usize) -> Result<&str, Refusal> {
    if text.len() > most || text.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!("the name is not plain text of at most {most} bytes")));
    }
    Ok(text)
}

/// The start of what came from outside.
fn cut(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
