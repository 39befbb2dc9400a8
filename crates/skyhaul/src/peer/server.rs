//! The server: it lets peers in, has those who ask wait in line, and runs services.
//!
//! One thread accepts; every connection has one of its own, of which there are at most [`ServerOptions::half_open`] before
//! and [`ServerOptions::connections`] behind the handshake.

use super::channel::server_config;
use super::connection::QUEUE_UPDATE_INTERVAL;
use super::half_open::HalfOpen;
use super::refusal::{PeerRefusal, RefusalObserver, Refusals};
use super::service::{Attachments, QueueTicket, QueueTurn, RequestQueue};
use super::{
    Admission, Answer, Ask, Connection, PeerError, RequestSubject, ServerOptions, ServerStats, Service,
    Session, SessionTally, Token, Waiting,
};
use crate::auth::ServerKey;
use crate::panics;
use rustls::ServerConfig;
use serde_json::Value;
use skyhaul_core::hint::Hint;
use skyhaul_io::lock::lock;
use skyhaul_io::tcp::door::Door;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client without a request for this long is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often threads that wait look whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Why a connection is refused for which the system has no thread.
const NO_THREAD: &str = "the system has no thread left for it";
/// Stack of the threads of half-open connections, which do little.
const HANDSHAKE_STACK_BYTES: usize = 256 << 10;

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    full: AtomicU64,
    unproven: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Clients that hold a token, and what they may ask for.
pub struct TokenHolders {
    /// The token.
    pub token: Token,
    /// The services.
    pub services: Vec<Box<dyn Service>>,
}

struct Shared {
    holders: Vec<TokenHolders>,
    tls: Arc<ServerConfig>,
    options: ServerOptions,
    stop: AtomicBool,
    half_open: HalfOpen,
    inside: AtomicUsize,
    queue: Mutex<RequestQueue>,
    moved: Condvar,
    attachments: Arc<Attachments>,
    counts: Counts,
    refusals: Refusals,
}

/// A server that runs in threads of its own until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    local: Option<SocketAddr>,
    accepting: Option<JoinHandle<()>>,
}

/// Takes connections for a [`Server`] that came to the port of another service. Nothing may have been read of them or written to them.
#[derive(Clone)]
pub struct PeerIntake(Arc<Shared>);

impl std::fmt::Debug for PeerIntake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerIntake").finish_non_exhaustive()
    }
}

impl PeerIntake {
    /// Returns the counts of its server so far.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.0.stats()
    }

    /// Serves a connection within the limits of the server; closes it if that has ended.
    pub fn take(&self, stream: TcpStream) {
        if let Ok(from) = stream.peer_addr()
            && !self.0.stopped()
            && stream.set_nonblocking(false).is_ok()
        {
            self.0.receive(stream, from);
        }
    }
}

impl Server {
    /// Listens at `at`, and serves clients that hold `token`, with a new key: clients know it only for this run.
    ///
    /// # Errors
    /// As [`start_with`](Self::start_with), or the system gives no random numbers.
    pub fn start(
        at: SocketAddr,
        token: Token,
        options: ServerOptions,
        services: Vec<Box<dyn Service>>,
    ) -> Result<Self, PeerError> {
        Self::start_with(&ServerKey::new()?, at, token, options, services)
    }

    /// Listens at `at`, and serves clients that hold `token`. The server proves to them that it has `key`.
    ///
    /// # Errors
    /// The address cannot be listened on, or the system has no thread left.
    pub fn start_with(
        key: &ServerKey,
        at: SocketAddr,
        token: Token,
        options: ServerOptions,
        services: Vec<Box<dyn Service>>,
    ) -> Result<Self, PeerError> {
        Self::start_for(key, Some(at), vec![TokenHolders { token, services }], options)
    }

    /// The same for holders of several tokens, each with services of their own. Without an address it serves only connections
    /// that are [given](PeerIntake::take) to it.
    ///
    /// # Errors
    /// As [`start_with`](Self::start_with).
    pub fn start_for(
        key: &ServerKey,
        at: Option<SocketAddr>,
        holders: Vec<TokenHolders>,
        options: ServerOptions,
    ) -> Result<Self, PeerError> {
        for (at, one) in holders.iter().enumerate() {
            if holders[..at].iter().any(|other| other.token.is_same(&one.token)) {
                let text = format!("two clients have the same token{}", Hint("give each its own"));
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
            }
        }
        let door = at.map(Door::open).transpose()?;
        let local = door.as_ref().map(Door::local);
        let shared = Arc::new(Shared {
            holders,
            tls: server_config(key)?,
            options,
            stop: AtomicBool::new(false),
            half_open: HalfOpen::new(options.half_open, options.half_open.div_ceil(4)),
            inside: AtomicUsize::new(0),
            queue: Mutex::new(RequestQueue::new(options.tests, options.queue, options.per_peer)),
            moved: Condvar::new(),
            attachments: Arc::default(),
            counts: Counts::default(),
            refusals: Refusals::default(),
        });
        let accepting = door.map(|door| {
            let mine = shared.clone();
            std::thread::Builder::new().name("peers".into()).spawn(move || accept(&door, &mine))
        });
        Ok(Self { accepting: accepting.transpose()?, shared, local })
    }

    /// Where connections are given to it that came to another port.
    #[must_use]
    pub fn intake(&self) -> PeerIntake {
        PeerIntake(self.shared.clone())
    }

    /// Whether it still lets peers in: it ends by itself only if its listener fails, or by a fault in this program.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.local.is_none() || self.accepting.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Where it listens, with the port that the system chose; `0.0.0.0:0` if it has no port of its own.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.shared.stats()
    }

    /// Gives each refusal from now on to `observer`; the first one stays.
    pub fn observe_refusals(&self, observer: RefusalObserver) {
        self.shared.refusals.observe(observer);
    }
}

impl Shared {
    fn stats(&self) -> ServerStats {
        let (read, all) = (|n: &AtomicU64| n.load(Ordering::Relaxed), &self.counts);
        let (running, waiting) = self.queue().len();
        ServerStats {
            accepted: read(&all.accepted),
            full: read(&all.full),
            unproven: read(&all.unproven),
            done: read(&all.done),
            refused: read(&all.refused),
            failed: read(&all.failed),
            half_open: self.half_open.len(),
            running,
            waiting,
        }
    }
}

impl Drop for Server {
    /// Stops: services are notified, and connections end within moments.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.moved.notify_all();
        if let Some(thread) = self.accepting.take() {
            // A panic there was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn accept(door: &Door, shared: &Arc<Shared>) {
    while !shared.stopped() {
        match door.accept(POLL_INTERVAL) {
            Ok(Some((stream, from))) => shared.receive(stream, from),
            Ok(None) => {}
            Err(error) => {
                skyhaul_io::say!("connections are no longer accepted: {error}");
                return;
            }
        }
    }
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn queue(&self) -> MutexGuard<'_, RequestQueue> {
        lock(&self.queue)
    }

    /// Begin the handshake on a thread.
    fn receive(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        count(&self.counts.accepted);
        let Some(number) = self.half_open.enter(from.ip(), &stream) else {
            return self.full(from, None, "too many connections that have proved no token");
        };
        let shared = self.clone();
        let thread = std::thread::Builder::new().name("peer".into()).stack_size(HANDSHAKE_STACK_BYTES);
        let work = move || {
            let admitted = Connection::server(stream, &shared.tls).and_then(|mut connection| {
                let tokens = shared.holders.iter().map(|holders| &holders.token);
                let held = connection.admit(tokens, Instant::now() + HANDSHAKE_TIMEOUT)?;
                Ok((connection, held))
            });
            shared.half_open.leave(number);
            match admitted {
                Ok((connection, held)) => shared.welcome(connection, held),
                Err(error) => {
                    count(&shared.counts.unproven);
                    shared.refusals.unproven(from, &error);
                }
            }
        };
        if thread.spawn(work).is_err() {
            self.half_open.leave(number);
            self.full(from, None, NO_THREAD);
        }
    }

    /// Counts a connection that is refused because there are too many.
    fn full(&self, from: SocketAddr, held: Option<usize>, reason: &str) {
        count(&self.counts.full);
        self.refusals.connection(from, held, reason);
    }

    /// Go on with a peer that proved the token, on a thread with an ordinary stack.
    fn welcome(self: &Arc<Self>, mut connection: Connection, held: usize) {
        if self.inside.fetch_add(1, Ordering::Relaxed) >= self.options.connections {
            self.inside.fetch_sub(1, Ordering::Relaxed);
            let why = format!("too many connections{}", Hint("try again later"));
            self.full(connection.peer(), Some(held), &why);
            return drop(connection.send(&Answer::Refused { why }));
        }
        let (shared, from) = (self.clone(), connection.peer());
        let work = move || {
            let served = catch_unwind(AssertUnwindSafe(|| shared.serve(connection, held)));
            shared.inside.fetch_sub(1, Ordering::Relaxed);
            if let Err(panic) = served {
                count(&shared.counts.failed);
                skyhaul_io::say!("a request failed: {}", panics::reason(&*panic));
            }
        };
        if std::thread::Builder::new().name("peer".into()).spawn(work).is_err() {
            self.inside.fetch_sub(1, Ordering::Relaxed);
            self.full(from, Some(held), NO_THREAD);
        }
    }

    /// Whatever the peer asks, until it is gone.
    fn serve(self: &Arc<Self>, mut connection: Connection, held: usize) {
        let mut silent = Instant::now();
        while !self.stopped() && silent.elapsed() < IDLE_TIMEOUT {
            match connection.receive::<Ask>(POLL_INTERVAL) {
                Ok(Ask::Attach { cookie, encrypted }) => {
                    return self.attach((connection, held), &cookie, encrypted);
                }
                Ok(Ask::Run { service, body }) => match self.run(held, &mut connection, (&service, body)) {
                    Ok(()) => silent = Instant::now(),
                    Err(_) => return count(&self.counts.failed),
                },
                Err(error) if error.is_late() => {}
                Err(PeerError::Closed(_)) => return,
                Err(_) => {
                    count(&self.counts.failed);
                    return self.refusals.connection(
                        connection.peer(),
                        Some(held),
                        "it sent no valid request",
                    );
                }
            }
        }
    }

    fn attach(&self, (mut connection, held): (Connection, usize), cookie: &str, encrypted: bool) {
        let door = match self.attachments.door(cookie, encrypted) {
            Ok(door) => door,
            Err(why) => {
                count(&self.counts.refused);
                self.refusals.connection(connection.peer(), Some(held), why);
                return drop(connection.send(&Answer::Refused { why: why.to_owned() }));
            }
        };
        if connection.send(&Answer::Go).is_ok()
            && let Ok(stream) = connection.into_data(encrypted)
        {
            // A room that is full or gone closes it.
            let _ = door.try_send(stream);
        }
    }

    fn run(
        self: &Arc<Self>,
        held: usize,
        connection: &mut Connection,
        (name, body): (&str, Value),
    ) -> Result<(), PeerError> {
        let services = &self.holders[held].services;
        let found = services.iter().find(|service| service.name() == name);
        let admitted = found
            .ok_or_else(|| self.unknown(services, name))
            .and_then(|service| {
                service.admit(&body, &self.options.limits).map(|admission| (service, admission))
            })
            .and_then(|(service, admission)| {
                self.join(connection, admission).map(|place| (service, admission, place))
            });
        let (service, admission, place) = match admitted {
            Ok(admitted) => admitted,
            Err(why) => {
                count(&self.counts.refused);
                let subject = found.map_or_else(RequestSubject::default, |service| service.subject(&body));
                let from = connection.peer();
                let (held, service) = (Some(held), Some(name));
                self.refusals.note(&PeerRefusal { from, held, service, subject, reason: &why });
                return connection.send(&Answer::Refused { why });
            }
        };
        place.wait(connection)?;
        connection.insist();
        connection.send(&Answer::Go)?;
        let end = Instant::now() + admission.takes * 2 + Duration::from_secs(10);
        let (limits, tally) = (self.options.limits, SessionTally::default());
        service.run(
            &mut Session {
                connection,
                limits,
                tally: &tally,
                end,
                stop: &self.stop,
                revoked: None,
                attachments: &self.attachments,
            },
            body,
        )?;
        count(&self.counts.done);
        Ok(())
    }

    /// Why a service is refused that the client may not ask for.
    fn unknown(&self, services: &[Box<dyn Service>], name: &str) -> String {
        let known = services.iter().map(|service| service.name()).collect::<Vec<_>>().join(", ");
        let mut others = self.holders.iter().flat_map(|holders| &holders.services);
        if others.any(|service| service.name() == name) {
            return format!("the token does not permit `{name}`; it permits {known}");
        }
        format!("unknown service `{}`; this server has {known}", name.escape_debug())
    }

    fn join(self: &Arc<Self>, connection: &Connection, admission: Admission) -> Result<Place, String> {
        let takes = admission.takes;
        if admission.slot && takes > self.options.limits.duration {
            let most = self.options.limits.duration.as_secs();
            return Err(format!(
                "the test would take {:.0} s, the limit is {most} s{}",
                takes.as_secs_f64(),
                Hint("run a shorter test, or start the server with a longer --longest")
            ));
        }
        let who = connection.peer().ip();
        let ticket = admission.slot.then(|| self.queue().join(who, takes)).transpose()?;
        Ok(Place { shared: self.clone(), ticket })
    }
}

/// A place in the line, given back when it is dropped, whatever happens.
struct Place {
    shared: Arc<Shared>,
    ticket: Option<QueueTicket>,
}

impl Place {
    /// Waits for its turn, and reports its position to the client meanwhile.
    fn wait(&self, connection: &mut Connection) -> Result<(), PeerError> {
        let Some(ticket) = self.ticket else { return Ok(()) };
        let mut told: Option<(Waiting, Instant)> = None;
        loop {
            let turn = self.shared.queue().turn(ticket, Instant::now());
            let QueueTurn::Wait(waiting) = turn else { return Ok(()) };
            if told.is_none_or(|(before, at)| {
                before.ahead != waiting.ahead || at.elapsed() > QUEUE_UPDATE_INTERVAL
            }) {
                connection.send(&Answer::Queued(waiting))?;
                told = Some((waiting, Instant::now()));
            }
            if self.shared.stopped() || connection.is_gone() {
                return Err(PeerError::Stopped);
            }
            let line = self.shared.queue();
            drop(self.shared.moved.wait_timeout(line, POLL_INTERVAL).map_err(|_| PeerError::Stopped)?);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.queue().leave(ticket);
            self.shared.moved.notify_all();
        }
    }
}
