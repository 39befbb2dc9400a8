//! The implementation of each call of the control plane, independent of gRPC and REST.
//!
//! ```text
//!   gRPC ─┐                        ┌─ Registry: permissions, state          written before it takes effect
//!         ├─▶ Api: one function ───┤
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
//! Limits: those of [`Limits`](super::registry::Limits), and 1024 workers for each balancer.
//!
//! `EJFAT_URI`, as issued by a server.
//!
//! ```text
//!   ejfats://TOKEN@host:port/lb/1?data=10.0.0.1:19522&sync=10.0.0.1:19531
//! ```
//!
//! The data address comes first, because JLab's tools accept only this order.

#![expect(clippy::needless_pass_by_value, reason = "calls have one shape, which the doors rely on")]

mod chains;
mod periodic;
mod reservations;
mod status;
pub mod timeseries;
mod tokens;
mod workers;

use self::chains::{ActiveChain, EndedChain, Notes};
use self::timeseries::{LoadSum, ReservationSeries, SessionSeries, Totals};
use super::client::{SESSION_ENDED, Trust};
use super::instances::{Instances, StrayCounter};
use super::registry::token::{KnownToken, Level, Resource, Token, TokenIndex};
use super::registry::{Change, ChangeError, Database, Millis, Registry, Reservation};
use skyhaul::auth::new_token;
use skyhaul::balance::{Balance, BalanceError, BalanceStatus};
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul_core::balance::{DemandError, RegisterError, StateError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The origin and time of a call.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The token of the call.
    pub token: Option<String>,
    /// The address at which the caller reached this server.
    pub server: ServerAddress,
    /// The time of the call: Unix time in milliseconds.
    pub now: Millis,
}

/// A reply, and what it says beside its fields: in the metadata of gRPC, in a header of REST.
pub(super) struct Answered<R> {
    pub(super) reply: R,
    /// Packets for the worker that called may still be sent.
    pub(super) is_awaited: bool,
}

impl<R> From<R> for Answered<R> {
    fn from(reply: R) -> Self {
        Self { reply, is_awaited: false }
    }
}

/// A reservation's balancer, and the reports of its workers.
struct Running {
    /// Queries use it without the lock of the API.
    balance: Arc<Balance>,
    series: ReservationSeries,
    workers: BTreeMap<i64, Reported>,
    /// The sums over its workers, for load balancers that feed this one.
    together: LoadSum,
    /// Whether any of them has a share.
    ready: bool,
    chains: BTreeMap<i64, ActiveChain>,
    leaving: Vec<EndedChain>,
}

/// What a worker reported.
#[derive(Clone, Debug, Default)]
struct Reported {
    totals: Totals,
    series: SessionSeries,
}

struct State {
    registry: Registry,
    running: BTreeMap<i64, Running>,
    /// Load balancers that are being opened or closed.
    busy: BTreeSet<i64>,
}

/// For each session: its number at the balancer, its own number, and its name.
pub type Names = Vec<(u64, i64, String)>;

/// The control plane; see the [module](self).
pub struct Api {
    /// A change locks it before the state.
    store: Mutex<Database>,
    state: Mutex<State>,
    keys: TokenIndex,
    instances: Instances,
    guard: Option<StrayCounter>,
    calls: AtomicU64,
    refused: [AtomicU64; RefusalKind::ALL.len()],
    /// Balancers of ended reservations, until they are fetched.
    ended: Mutex<Vec<(Reservation, BalanceStatus)>>,
    /// The name of this API in graphs of chains.
    node: String,
    trust: Trust,
    /// Number of running calls that ask other control planes.
    asking: AtomicUsize,
    notes: Notes,
}

impl Api {
    /// Starts the balancers of all reservations.
    ///
    /// # Errors
    /// The [`BalanceError`] of the first balancer that cannot start.
    pub fn open((registry, store): (Registry, Database), instances: Instances) -> Result<Api, BalanceError> {
        instances.check()?;
        let mut running = BTreeMap::new();
        for instance in 1..=registry.limits().instances {
            if registry.reservations().all(|reservation| reservation.instance != instance) {
                instances.clear(instance)?;
            }
        }
        for reservation in registry.reservations() {
            let balance = instances.open(reservation, registry.sessions(reservation.id))?;
            running.insert(reservation.id, Running::new(balance));
        }
        let trust = instances.upstream.clone();
        let keys = registry.tokens().keys();
        let api = Api {
            store: Mutex::new(store),
            state: Mutex::new(State { registry, running, busy: BTreeSet::new() }),
            keys,
            guard: instances.guard(),
            instances,
            calls: AtomicU64::new(0),
            refused: Default::default(),
            ended: Mutex::default(),
            node: new_token()?,
            trust,
            asking: AtomicUsize::new(0),
            notes: Notes::default(),
        };
        api.rechain();
        Ok(api)
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
                let sessions = state.registry.sessions(id);
                let names = sessions.map(|session| (session.number, session.id, session.name.clone()));
                (state.reservation(id).ok()?.clone(), state.balance(id).ok()?, names.collect())
            };
            Some((reservation, balance.status(), names))
        };
        ids.into_iter().filter_map(status).collect()
    }

    /// Number of calls so far, and of those refused, by kind.
    #[must_use]
    pub fn counts(&self) -> (u64, [(RefusalKind, u64); RefusalKind::ALL.len()]) {
        let refused =
            RefusalKind::ALL.map(|kind| (kind, self.refused[kind as usize].load(Ordering::Relaxed)));
        (self.calls.load(Ordering::Relaxed), refused)
    }

    /// Packets of clients that ignore the port in the URI, at addresses that several load balancers share.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.guard.as_ref().map_or(0, StrayCounter::packets)
    }

    /// Number of valid tokens and of registered sessions.
    #[must_use]
    pub fn numbers(&self) -> (usize, usize) {
        let state = self.locked();
        let sessions = state.registry.reservations().map(|r| state.registry.sessions(r.id).count()).sum();
        (state.registry.tokens().len(), sessions)
    }

    /// Counts a call by its result.
    pub fn count<T>(&self, done: &Result<T, Refusal>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(refusal) = done {
            self.refused[refusal.kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Makes a change: `plan` checks whether it is allowed; then it is written, while only other changes wait, and
    /// takes effect.
    fn change<T>(&self, plan: impl FnOnce(&mut State) -> Result<Change<T>, Refusal>) -> Result<T, Refusal> {
        let mut store = lock(&self.store);
        let change = plan(&mut self.locked())?;
        let written = change.write(&mut store).map_err(ChangeError::from)?;
        Ok(written.hold(&mut self.locked().registry))
    }
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
            together: LoadSum::default(),
            ready: false,
            chains: BTreeMap::new(),
            leaving: Vec::new(),
        }
    }
}

fn gone(id: i64) -> Refusal {
    Refusal::new(RefusalKind::Missing, format!("there is no reservation {id}{}", Hint("it may have ended")))
}

/// The number of a reservation, as text.
fn number(text: &str) -> Result<i64, Refusal> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| {
        Refusal::invalid(format!("invalid reservation number `{}`{}", cut(text), Hint("a number such as 1")))
    })
}

/// Checks that a name is suitable for a log.
fn name(text: &str, most: usize) -> Result<&str, Refusal> {
    if text.len() > most || text.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!("a name is plain text of at most {most} bytes")));
    }
    Ok(text)
}

/// Shortens text from outside.
fn cut(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}

impl Api {
    /// Looks up a token. It waits for no other call, so that the front ends can check the token when they have read
    /// only the head of a request.
    ///
    /// # Errors
    /// The token is missing or not valid.
    pub fn known(&self, token: Option<&str>) -> Result<KnownToken, Refusal> {
        let token = shown(token)?;
        self.keys.find(token).ok_or_else(|| not_valid(&self.keys, token))
    }
}

impl State {
    /// The token of the call.
    pub(super) fn token(&self, caller: &Caller) -> Result<&Token, Refusal> {
        let (token, tokens) = (shown(caller.token.as_deref())?, self.registry.tokens());
        tokens.find(token).ok_or_else(|| not_valid(&tokens.keys(), token))
    }

    /// The token of the call, if it allows this.
    pub(super) fn may(&self, caller: &Caller, resource: Resource, level: Level) -> Result<&Token, Refusal> {
        let token = self.token(caller)?;
        if self.registry.may(token, resource, level) { Ok(token) } else { Err(denied(resource, level)) }
    }

    pub(super) fn reservation(&self, id: i64) -> Result<&Reservation, Refusal> {
        self.registry.reservation(id).ok_or_else(|| gone(id))
    }
}

fn shown(token: Option<&str>) -> Result<&str, Refusal> {
    token.ok_or_else(|| {
        let text = format!(
            "no token{}",
            Hint("send `authorization: Bearer TOKEN`, the part of EJFAT_URI before the @")
        );
        Refusal::new(RefusalKind::Unauthenticated, text)
    })
}

fn not_valid(keys: &TokenIndex, token: &str) -> Refusal {
    if keys.is_ended(token) {
        let text = format!("{SESSION_ENDED}{}", Hint("start the worker again if it is to come back"));
        return Refusal::new(RefusalKind::Ended, text);
    }
    let text = format!(
        "the token is not valid: wrong, revoked, or its reservation or session has ended{}",
        Hint("reserve or register again")
    );
    Refusal::new(RefusalKind::Unauthenticated, text)
}

pub(super) fn denied(resource: Resource, level: Level) -> Refusal {
    let level = match level {
        Level::ReadOnly => "reading",
        Level::Register => "registering workers with",
        Level::Reserve => "reserving",
        Level::Update => "changing",
    };
    let resource = match resource {
        Resource::All => "the whole facility".to_owned(),
        Resource::Instance(id) => format!("load balancer {id}"),
        Resource::Reservation(id) => format!("reservation {id}"),
        Resource::Session(id) => format!("session {id}"),
    };
    let text = format!(
        "the token does not permit {level} {resource}{}",
        Hint("use one that does, or ask its operator")
    );
    Refusal::new(RefusalKind::Denied, text)
}

/// The address at which a caller reached this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerAddress {
    /// Host and port, as the caller wrote them.
    pub authority: String,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// The URI of the server with this token.
pub(super) fn of_server(server: &ServerAddress, token: &str) -> String {
    format!("{}://{token}@{}/", if server.tls { "ejfats" } else { "ejfat" }, server.authority)
}

/// The URI of a reservation with this token.
pub(super) fn of_reservation(
    server: &ServerAddress,
    token: &str,
    id: i64,
    data: &[SocketAddr],
    sync: &[SocketAddr],
) -> String {
    let mut uri = of_server(server, token);
    let _ = write!(uri, "lb/{id}");
    let data = data.iter().map(|at| ("data", at));
    for (n, (key, at)) in data.chain(sync.iter().map(|at| ("sync", at))).enumerate() {
        let _ = write!(uri, "{}{key}={at}", if n == 0 { '?' } else { '&' });
    }
    uri
}

/// Kinds of refusals, each with its gRPC code and HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalKind {
    /// The request is invalid.
    Invalid,
    /// The call needs a valid token.
    Unauthenticated,
    /// The token does not allow it.
    Denied,
    /// The object does not exist.
    Missing,
    /// A limit is reached.
    Exhausted,
    /// Not possible in the present state.
    Unfit,
    /// Someone else ended the object of the call.
    Ended,
    /// Temporarily not possible: a socket or the database cannot be used.
    Unavailable,
}

impl RefusalKind {
    /// Every kind.
    pub const ALL: [RefusalKind; 8] = [
        RefusalKind::Invalid,
        RefusalKind::Unauthenticated,
        RefusalKind::Denied,
        RefusalKind::Missing,
        RefusalKind::Exhausted,
        RefusalKind::Unfit,
        RefusalKind::Ended,
        RefusalKind::Unavailable,
    ];

    /// Its name in counters: that of the gRPC code.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RefusalKind::Invalid => "invalid_argument",
            RefusalKind::Unauthenticated => "unauthenticated",
            RefusalKind::Denied => "permission_denied",
            RefusalKind::Missing => "not_found",
            RefusalKind::Exhausted => "resource_exhausted",
            RefusalKind::Unfit => "failed_precondition",
            RefusalKind::Ended => "aborted",
            RefusalKind::Unavailable => "unavailable",
        }
    }
}

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: RefusalKind,
    /// The message for the user.
    pub text: String,
}

impl Refusal {
    /// A refusal of this kind with this message.
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Refusal {
        Refusal { kind, text: text.into() }
    }

    /// The refusal of an invalid request.
    pub fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(RefusalKind::Invalid, text)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Refusal {
        let kind = match error {
            ChangeError::Full(..) | ChangeError::Deep(_) => RefusalKind::Exhausted,
            ChangeError::Gone(..) => RefusalKind::Missing,
            ChangeError::Database(_) => RefusalKind::Unavailable,
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<RegisterError> for Refusal {
    fn from(error: RegisterError) -> Refusal {
        let kind = match error {
            RegisterError::Full => RefusalKind::Exhausted,
            RegisterError::BadWeight(_) | RegisterError::BadFactors { .. } | RegisterError::Unusable(_) => {
                RefusalKind::Invalid
            }
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<DemandError> for Refusal {
    fn from(error: DemandError) -> Refusal {
        let kind = match error {
            DemandError::NoSession => RefusalKind::Missing,
            DemandError::NoSuchSlots(_) => RefusalKind::Invalid,
            DemandError::NoRoom(_) => RefusalKind::Exhausted,
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Refusal {
        let kind = match error {
            StateError::NoSession => RefusalKind::Missing,
            StateError::NotANumber => RefusalKind::Invalid,
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<BalanceError> for Refusal {
    fn from(error: BalanceError) -> Refusal {
        Refusal::new(RefusalKind::Unavailable, format!("the balancer cannot start: {error}"))
    }
}

#[cfg(test)]
mod tests;
