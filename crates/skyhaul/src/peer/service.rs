//! Services of a server, found by their names, and the further connections of a service that runs.

use super::super::auth::{hex, random, unhex};
use super::{Connection, PeerError};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
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

    /// Do it. Returning ends the request; the client may then ask for more on the same connection.
    ///
    /// # Errors
    /// Whatever ends the connection.
    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError>;
}

/// A request that runs.
#[derive(Debug)]
pub struct Session<'a> {
    /// To the client.
    pub connection: &'a mut Connection,
    /// What the operator allows.
    pub limits: Limits,
    pub(super) end: Instant,
    pub(super) stop: &'a AtomicBool,
    pub(super) attachments: &'a Arc<Attachments>,
}

impl<'a> Session<'a> {
    /// Whether to end: the server stops, or the time is over. Every loop of a service asks this.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.left().is_zero()
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

    /// Let further connections in: send the client its cookie, with which it [attaches](super::attach) up to `places`.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn data_connections(&self, places: usize) -> io::Result<DataConnections> {
        self.attachments.open(places)
    }
}

type Cookie = [u8; 16];

/// All attachments of a server.
#[derive(Debug, Default)]
pub(super) struct Attachments(Mutex<HashMap<Cookie, SyncSender<TcpStream>>>);

/// The further connections of a service that runs. Once it is dropped, no more are admitted.
#[derive(Debug)]
pub struct DataConnections {
    cookie: Cookie,
    streams: Receiver<TcpStream>,
    attachments: Arc<Attachments>,
}

impl Attachments {
    pub(super) fn open(self: &Arc<Self>, places: usize) -> io::Result<DataConnections> {
        let (give, streams) = sync_channel(places);
        let cookie = random()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, give);
        Ok(DataConnections { cookie, streams, attachments: self.clone() })
    }

    /// The door that `cookie` opens.
    pub(super) fn door(&self, cookie: &str) -> Option<SyncSender<TcpStream>> {
        let attachments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        attachments.get(&unhex::<16>(cookie)?).cloned()
    }
}

impl DataConnections {
    /// What the other end brings with [`attach`](super::attach).
    #[must_use]
    pub fn cookie(&self) -> String {
        hex(&self.cookie)
    }

    /// The next connection, if one comes in time.
    #[must_use]
    pub fn next(&self, within: Duration) -> Option<TcpStream> {
        self.streams.recv_timeout(within).ok()
    }
}

impl Drop for DataConnections {
    fn drop(&mut self) {
        self.attachments.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.cookie);
    }
}
