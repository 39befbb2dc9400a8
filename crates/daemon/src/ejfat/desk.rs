//! What each call of the control plane does, whichever door it comes through.
//!
//! ```text
//!   gRPC ─┐                        ┌─ Facility: who may, what there is      written before it holds
//!         ├─▶ Desk: one function ──┤
//!   REST ─┘   for each call        └─ Balance of each reservation           packets, sessions, states
//!                                     ▲ turn, once a second: ends, samples
//! ```
//!
//! A call is synchronous and quick; the desk does one at a time. It asks for the token first, and says nothing of what a
//! token may not see. If the database cannot be written, the call is refused and nothing has changed: packets go on.
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
pub mod series;
mod together;
mod tokens;
mod uri;
mod workers;

pub use refusal::{Kind, Refusal};
pub use uri::Place;

use super::client::Trust;
use super::facility::token::{Level, Resource, Token, random};
use super::facility::{Facility, Millis, Reservation};
use super::ground::{Ground, served, stays};
use link::{Chained, Leaving, Notes};
use series::{ReservationSeries, SessionSeries, Totals};
use skyhaul::balance::{Balance, BalanceError, BalanceStatus};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    balance: Balance,
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
    ground: Ground,
    running: BTreeMap<i64, Running>,
}

/// Of each session: its number at the balancer, its number, and its name.
pub type Names = Vec<(u64, i64, String)>;

/// See the module.
pub struct Desk {
    state: Mutex<State>,
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

/// Reservations that ended of which the last state is kept.
const REMEMBERED: usize = 64;

impl Desk {
    /// Start the balancers of all reservations.
    ///
    /// # Errors
    /// See [`BalanceError`]: of the first that cannot.
    pub fn open(facility: Facility, ground: Ground) -> Result<Desk, BalanceError> {
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
        let desk = Desk {
            state: Mutex::new(State { facility, ground, running }),
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

    /// One second has passed: what is over ends, and the rest is sampled. Returns what is wrong.
    pub fn turn(&self, now: Millis) -> Vec<String> {
        let mut wrong = self.said();
        let over = self.locked().facility.over(now);
        for id in over {
            wrong.extend(self.end(id).err().map(|refusal| format!("reservation {id} cannot end: {refusal}")));
        }
        let mut state = self.locked();
        let ids: Vec<i64> = state.running.keys().copied().collect();
        for id in ids {
            let State { facility, running, .. } = &mut *state;
            let Some(running) = running.get_mut(&id) else { continue };
            let status = running.balance.status();
            let gone: Vec<i64> = facility
                .sessions(id)
                .filter(|session| !stays(&status, session.number))
                .map(|session| session.id)
                .collect();
            if !gone.is_empty() {
                let done = facility.deregister(&gone);
                wrong.extend(done.err().map(|error| format!("silent workers cannot be removed: {error}")));
            }
            wrong.extend(status.notes.iter().map(|note| format!("reservation {id}: {note}")));
            running.sample(facility.sessions(id), &status, now);
            let slots = facility.sessions(id).map(|session| (session.id, served(&status, session.number)));
            let slots = slots.collect();
            wrong.extend(state.turn_chains(id, &slots));
        }
        wrong
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
        let state = self.locked();
        let status = |reservation: &Reservation| {
            let status = state.running.get(&reservation.id)?.balance.status();
            let sessions = state.facility.sessions(reservation.id);
            let names = sessions.map(|session| (session.number, session.id, session.name.clone())).collect();
            Some((reservation.clone(), status, names))
        };
        state.facility.reservations().filter_map(status).collect()
    }

    /// Calls so far, and those that were refused, by kind.
    #[must_use]
    pub fn counts(&self) -> (u64, [(Kind, u64); Kind::ALL.len()]) {
        let refused = Kind::ALL.map(|kind| (kind, self.refused[kind as usize].load(Ordering::Relaxed)));
        (self.calls.load(Ordering::Relaxed), refused)
    }

    /// Tokens that are valid, sessions that are registered.
    #[must_use]
    pub fn numbers(&self) -> (usize, usize) {
        let state = self.locked();
        let sessions = state.facility.reservations().map(|r| state.facility.sessions(r.id).count()).sum();
        (state.facility.tokens().len(), sessions)
    }

    /// End all balancers; reservations stay. Returns what each did, those that ended before included.
    #[must_use]
    pub fn stop(&self) -> Vec<(Reservation, BalanceStatus)> {
        let mut state = self.locked();
        let mut running = std::mem::take(&mut state.running);
        let reservations: BTreeMap<i64, Reservation> =
            state.facility.reservations().map(|r| (r.id, r.clone())).collect();
        drop(state);
        // Those that feed them first, as long as packets are forwarded.
        std::thread::scope(|threads| {
            for running in running.values_mut() {
                threads.spawn(|| running.unchain(false));
            }
        });
        let mut all = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for (id, running) in running {
            let status = running.balance.stop();
            all.extend(reservations.get(&id).map(|reservation| (reservation.clone(), status)));
        }
        all
    }

    /// Count a call by how it ended.
    pub fn count<T>(&self, done: &Result<T, Refusal>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(refusal) = done {
            self.refused[refusal.kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// End a reservation and its balancer.
    fn end(&self, id: i64) -> Result<(), Refusal> {
        let mut state = self.locked();
        let reservation = state.reservation(id)?.clone();
        state.facility.free(id)?;
        let running = state.running.remove(&id);
        drop(state);
        // What is in its sockets is forwarded first; nobody has to wait for that.
        if let Some(mut running) = running {
            running.unchain(true);
            let status = running.balance.stop();
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.len() < REMEMBERED {
                ended.push((reservation, status));
            }
        }
        Ok(())
    }
}

impl State {
    /// The token that is shown.
    fn token(&self, caller: &Caller) -> Result<&Token, Refusal> {
        let refused = |text| Refusal::new(Kind::Unauthenticated, text);
        let shown = caller.token.as_deref().ok_or_else(|| {
            refused("no token; hint: send `authorization: Bearer TOKEN`, the part of EJFAT_URI before the @")
        })?;
        self.facility.tokens().find(shown).ok_or_else(|| {
            refused("the token is not valid: wrong, revoked, or of what has ended; hint: reserve or register again")
        })
    }

    /// The token that is shown, if it allows this.
    fn may(&self, caller: &Caller, resource: Resource, level: Level) -> Result<&Token, Refusal> {
        let token = self.token(caller)?;
        if self.facility.may(token, resource, level) { Ok(token) } else { Err(denied(resource, level)) }
    }

    fn reservation(&self, id: i64) -> Result<&Reservation, Refusal> {
        self.facility.reservation(id).ok_or_else(|| gone(id))
    }

    fn balance(&self, id: i64) -> Result<&Balance, Refusal> {
        self.running.get(&id).map(|running| &running.balance).ok_or_else(|| gone(id))
    }
}

impl Running {
    fn new(balance: Balance) -> Running {
        Running {
            balance,
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

fn denied(resource: Resource, level: Level) -> Refusal {
    let level = match level {
        Level::ReadOnly => "look at",
        Level::Register => "register workers with",
        Level::Reserve => "reserve",
        Level::Update => "change",
    };
    let resource = match resource {
        Resource::All => "the whole facility".to_owned(),
        Resource::Instance(id) => format!("load balancer {id}"),
        Resource::Reservation(id) => format!("reservation {id}"),
        Resource::Session(id) => format!("session {id}"),
    };
    let text = format!(
        "the token does not allow to {level} {resource}; hint: use one that does, or ask its operator"
    );
    Refusal::new(Kind::Denied, text)
}

#[cfg(test)]
mod tests;
