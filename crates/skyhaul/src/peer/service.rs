//! Services of a server, found by their names; the further connections of a service that runs; and the queue of clients that
//! wait for a slot.
//!
//! ```text
//!   served   [12 s left] [3 s left]                 as many as there are slots
//!   waiting  (10 s) (5 s) …                         first come, first served; a full queue refuses
//!            begins  begins
//!            in 3 s  in 12 s
//! ```
//!
//! The queue takes the time as an argument. Limits: an address has a fixed share of slots and places, so that no address fills the
//! whole queue.

use super::connection::Connection;
use super::data::DataStream;
use super::message::{PeerError, Waiting};
use crate::auth::{hex, random, unhex};
use serde_json::Value;
use skyhaul_core::hint::Hint;
use skyhaul_io::lock::lock;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Limits of a server for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Highest rate of a test, in bits per second; `None`: any.
    pub rate: Option<u64>,
    /// Longest test.
    pub duration: Duration,
}

impl Default for Limits {
    /// Any rate, for at most ten minutes.
    fn default() -> Self {
        Self { rate: None, duration: Duration::from_secs(600) }
    }
}

/// The cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Approximate duration, reported to clients that wait. The request is ended after twice this time and ten seconds.
    pub takes: Duration,
    /// Whether it needs one of the slots: it measures, so that others would disturb it.
    pub slot: bool,
}

impl Admission {
    /// A test that needs a slot for about this time.
    #[must_use]
    pub fn slot(takes: Duration) -> Self {
        Self { takes, slot: true }
    }

    /// A request that is answered immediately, beside any tests.
    #[must_use]
    pub fn aside(takes: Duration) -> Self {
        Self { takes, slot: false }
    }
}

/// Work that a server does for clients.
pub trait Service: Send + Sync {
    /// The name by which clients ask for it.
    fn name(&self) -> &'static str;

    /// Checks a request before it waits for its turn.
    ///
    /// # Errors
    /// Why it is refused, for the user at the other end: it cannot be read, or exceeds the limits.
    fn admit(&self, body: &Value, limits: &Limits) -> Result<Admission, String>;

    /// What a request is about, for a log.
    fn subject(&self, body: &Value) -> RequestSubject {
        let _ = body;
        RequestSubject::default()
    }

    /// Serves the request. Returning ends it; the client may then ask for more on the same connection.
    ///
    /// # Errors
    /// Whatever ends the connection.
    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError>;
}

/// What a request is about, as far as it names files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSubject {
    /// Paths that it names, as the client wrote them.
    pub paths: Vec<PathBuf>,
    /// Whether the server is to be given the files (`true`) or to give them.
    pub is_upload: Option<bool>,
}

/// What a request has moved, without the messages of its control connection.
#[derive(Debug, Default)]
pub struct SessionTally {
    received: AtomicU64,
    sent: AtomicU64,
    is_cut: AtomicBool,
}

impl SessionTally {
    /// Counts bytes from the client, and bytes to it.
    pub fn add(&self, received: u64, sent: u64) {
        self.received.fetch_add(received, Ordering::Relaxed);
        self.sent.fetch_add(sent, Ordering::Relaxed);
    }

    /// Notes that it ended early, though the connection is still good.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Bytes from the client.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes to the client.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether it ended early.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }
}

/// A request that runs.
#[derive(Debug)]
pub struct Session<'a> {
    /// To the client.
    pub connection: &'a mut Connection,
    /// What the operator allows.
    pub limits: Limits,
    /// What it has moved; services count here.
    pub tally: &'a SessionTally,
    pub(super) end: Instant,
    pub(super) stop: &'a AtomicBool,
    /// Also ends it.
    pub(super) revoked: Option<&'a AtomicBool>,
    pub(super) attachments: &'a Arc<Attachments>,
}

impl<'a> Session<'a> {
    /// Whether to end: the server stops, or the time is over. Every loop of a service asks this.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_revoked = self.revoked.is_some_and(|revoked| revoked.load(Ordering::Relaxed));
        is_revoked || self.stop.load(Ordering::Relaxed) || self.left().is_zero()
    }

    /// The same request, which also ends when `revoked` is set.
    #[must_use]
    pub fn revocable<'b>(&'b mut self, revoked: &'b AtomicBool) -> Session<'b> {
        let Session { connection, limits, tally, end, stop, attachments, .. } = self;
        Session { connection, limits: *limits, tally, end: *end, stop, revoked: Some(revoked), attachments }
    }

    /// Time that is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Set when the server stops.
    #[must_use]
    pub fn stop(&self) -> &'a AtomicBool {
        self.stop
    }

    /// Admits further connections, all of them `encrypted` or none: the client is sent the cookie with which it
    /// [attaches](crate::peer::attach) up to `places`.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn data_connections(&self, places: usize, encrypted: bool) -> io::Result<DataConnections> {
        self.attachments.open(places, encrypted)
    }
}

type Cookie = [u8; 16];

/// All attachments of a server.
#[derive(Debug, Default)]
pub(super) struct Attachments(Mutex<HashMap<Cookie, (SyncSender<DataStream>, bool)>>);

/// The further connections of a service that runs. Once it is dropped, no more are admitted.
#[derive(Debug)]
pub struct DataConnections {
    cookie: Cookie,
    streams: Receiver<DataStream>,
    attachments: Arc<Attachments>,
}

impl Attachments {
    pub(super) fn open(self: &Arc<Self>, places: usize, encrypted: bool) -> io::Result<DataConnections> {
        let (give, streams) = sync_channel(places);
        let cookie = random()?;
        lock(&self.0).insert(cookie, (give, encrypted));
        Ok(DataConnections { cookie, streams, attachments: self.clone() })
    }

    /// The door that `cookie` opens for connections that are encrypted or not; or why there is none.
    pub(super) fn door(&self, cookie: &str, encrypted: bool) -> Result<SyncSender<DataStream>, &'static str> {
        let attachments = lock(&self.0);
        let found = unhex::<16>(cookie).and_then(|cookie| attachments.get(&cookie));
        match found {
            None => Err("unknown cookie"),
            Some((door, wanted)) if *wanted == encrypted => Ok(door.clone()),
            Some((_, true)) => Err("data of this session must be encrypted"),
            Some((_, false)) => Err("data of this session are not encrypted"),
        }
    }
}

impl DataConnections {
    /// The cookie that the other end sends with [`attach`](crate::peer::attach).
    #[must_use]
    pub fn cookie(&self) -> String {
        hex(&self.cookie)
    }

    /// The next connection, if one comes in time.
    #[must_use]
    pub fn next(&self, within: Duration) -> Option<DataStream> {
        self.streams.recv_timeout(within).ok()
    }
}

impl Drop for DataConnections {
    fn drop(&mut self) {
        lock(&self.attachments.0).remove(&self.cookie);
    }
}

/// A client in a [`RequestQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTicket(u64);

/// Whether it is a client's turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueTurn {
    /// It is.
    Go,
    /// Not yet.
    Wait(Waiting),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    ticket: QueueTicket,
    who: IpAddr,
    takes: Duration,
}

/// Clients that wait for slots, first come, first served.
#[derive(Clone, Debug)]
pub struct RequestQueue {
    slots: usize,
    places: usize,
    per_peer: usize,
    served: Vec<(Place, Instant)>,
    waiting: VecDeque<Place>,
    next: u64,
}

impl RequestQueue {
    /// For `slots` at a time, `places` that wait, and `per_peer` of both for one address.
    #[must_use]
    pub fn new(slots: usize, places: usize, per_peer: usize) -> Self {
        let (slots, per_peer) = (slots.max(1), per_peer.max(1));
        Self { slots, places, per_peer, served: Vec::new(), waiting: VecDeque::new(), next: 0 }
    }

    /// Joins at the end, with a test of this duration.
    ///
    /// # Errors
    /// The line is full, or `who` has its share already.
    pub fn join(&mut self, who: IpAddr, takes: Duration) -> Result<QueueTicket, String> {
        let mine = self.served.iter().map(|(place, _)| place).chain(&self.waiting);
        if mine.filter(|place| place.who == who).count() >= self.per_peer {
            return Err(format!(
                "{who} has {} tests running or waiting{}",
                self.per_peer,
                Hint("wait for them, or allow more with --per-peer")
            ));
        }
        if self.served.len() + self.waiting.len() >= self.slots.saturating_add(self.places) {
            return Err(format!(
                "the queue is full, {} clients are waiting{}",
                self.waiting.len(),
                Hint("try again later")
            ));
        }
        let ticket = QueueTicket(self.next);
        self.next += 1;
        self.waiting.push_back(Place { ticket, who, takes });
        Ok(ticket)
    }

    /// Whether it is the turn of `ticket` now; once told, it holds a slot until it [leaves](Self::leave).
    pub fn turn(&mut self, ticket: QueueTicket, now: Instant) -> QueueTurn {
        if self.served.iter().any(|(place, _)| place.ticket == ticket) {
            return QueueTurn::Go;
        }
        let ahead = self.waiting.iter().position(|place| place.ticket == ticket);
        let free = self.slots.saturating_sub(self.served.len());
        match ahead {
            Some(ahead) if ahead < free => {
                if let Some(place) = self.waiting.remove(ahead) {
                    self.served.push((place, now + place.takes));
                }
                QueueTurn::Go
            }
            Some(ahead) => QueueTurn::Wait(Waiting { ahead, seconds: self.until(ahead, now).as_secs_f64() }),
            // It left.
            None => QueueTurn::Wait(Waiting::default()),
        }
    }

    /// Time until the slot for whom `ahead` are before, if all take as long as they said.
    fn until(&self, ahead: usize, now: Instant) -> Duration {
        let left = |end: &Instant| end.saturating_duration_since(now);
        let mut ends: Vec<Duration> = self.served.iter().map(|(_, end)| left(end)).collect();
        ends.resize(self.slots.max(ends.len()), Duration::ZERO);
        for place in self.waiting.iter().take(ahead) {
            if let Some(first) = ends.iter_mut().min() {
                *first += place.takes;
            }
        }
        ends.into_iter().min().unwrap_or_default()
    }

    /// Leaves the slot or the queue.
    pub fn leave(&mut self, ticket: QueueTicket) {
        self.served.retain(|(place, _)| place.ticket != ticket);
        self.waiting.retain(|place| place.ticket != ticket);
    }

    /// Returns how many are served, and how many wait.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.served.len(), self.waiting.len())
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn who(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }
    const S: Duration = Duration::from_secs(1);

    #[test]
    fn those_who_wait_are_told_when_their_turn_is() {
        let (mut line, now) = (RequestQueue::new(2, 3, 2), Instant::now());
        let tickets: Vec<QueueTicket> = [(1, 12), (2, 3), (3, 10), (4, 5), (5, 1)]
            .map(|(n, s)| line.join(who(n), s * S).unwrap())
            .to_vec();
        assert!(
            line.join(who(6), S).unwrap_err().contains("hint: try again later"),
            "two slots, three places"
        );
        assert_eq!(line.turn(tickets[0], now), QueueTurn::Go);
        assert_eq!(line.turn(tickets[1], now), QueueTurn::Go);
        let eta = |line: &mut RequestQueue, n: usize, now| match line.turn(tickets[n], now) {
            QueueTurn::Wait(waiting) => (waiting.ahead, waiting.seconds),
            QueueTurn::Go => panic!("{n} goes"),
        };
        assert_eq!(eta(&mut line, 2, now), (0, 3.0));
        assert_eq!(eta(&mut line, 3, now), (1, 12.0));
        assert_eq!(eta(&mut line, 4, now + S), (2, 12.0));
        line.leave(tickets[1]);
        assert_eq!(eta(&mut line, 3, now + S).0, 1, "the slot is for the first in line");
        assert_eq!(line.turn(tickets[2], now + S), QueueTurn::Go);
        line.leave(tickets[3]);
        assert_eq!(eta(&mut line, 4, now + S), (0, 10.0));
        assert_eq!(line.len(), (2, 1));
    }

    #[test]
    fn one_address_takes_no_more_than_its_share() {
        let mut line = RequestQueue::new(4, 4, 2);
        for _ in 0..2 {
            line.join(who(1), S).unwrap();
        }
        assert!(line.join(who(1), S).unwrap_err().contains("10.0.0.1 has 2 tests"));
        line.join(who(2), S).unwrap();
    }

    proptest! {
        #[test]
        fn slots_and_places_hold_whatever_is_done(steps in proptest::collection::vec((0u8..3, 0u8..5, 0u64..20), 0..200)) {
            let (mut line, now) = (RequestQueue::new(2, 3, 3), Instant::now());
            let mut tickets = Vec::new();
            for (what, n, seconds) in steps {
                match what {
                    0 => tickets.extend(line.join(who(n), Duration::from_secs(seconds))),
                    1 if !tickets.is_empty() => {
                        let n = usize::from(n) % tickets.len();
                        line.leave(tickets.swap_remove(n));
                    }
                    _ => {
                        for &ticket in &tickets {
                            line.turn(ticket, now + Duration::from_secs(seconds));
                        }
                        // Nobody waits while a slot is free.
                        prop_assert!(line.len().0 == 2 || line.len().1 == 0);
                    }
                }
                let (served, waiting) = line.len();
                prop_assert!(served <= 2 && waiting <= 5 && served + waiting == tickets.len());
            }
        }
    }
}
