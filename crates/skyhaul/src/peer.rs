//! The control connection of two hosts, on which both have proved that they know the same token.
//!
//! ```text
//!   client                                             server
//!     ──────────────── connects ───────────────────────▶ Door: few half-open connections, each for a few seconds
//!     ◀─────── Challenge { version, nonce s } ──────────
//!     ── Hello { version, nonce c, HMAC(client, s, c) } ─▶
//!     ◀──────── Welcome { HMAC(server, s, c) } ──────────
//!     ─────────── Ask: run "udp" for 12 s ─────────────▶ RequestQueue: a few at a time, the others wait in turn
//!     ◀────────── Queued { ahead 2, 31 s } ─────────────
//!     ◀──────────────────── Go ─────────────────────────
//!     ◀═════════ messages of the Service ══════════════▶
//! ```
//!
//! Every nonce is fresh, so a handshake that was recorded proves nothing the next time. Every message after the handshake
//! ends in an HMAC of its number and bytes under a key of this connection and direction: a message cannot be altered, repeated
//! or left out in transit. Messages are not encrypted. [0025](https://github.com/skyhaul/skyhaul/blob/main/docs/decisions/0025-a-control-connection-of-our-own.md) has the reasons.
//!
//! A server runs [`Service`]s, found by their names: tests of a path, audits, copies.
//!
//! ```
//! use skyhaul::peer::{Admission, Limits, PeerError, Server, ServerOptions, Service, Session, Token, connect};
//! use std::time::Duration;
//!
//! struct Echo;
//! impl Service for Echo {
//!     fn name(&self) -> &'static str {
//!         "echo"
//!     }
//!     fn admit(&self, _: &serde_json::Value, _: &Limits) -> Result<Admission, String> {
//!         Ok(Admission::slot(Duration::from_secs(1)))
//!     }
//!     fn run(&self, session: &mut Session<'_>, body: serde_json::Value) -> Result<(), PeerError> {
//!         session.connection.send(&body)
//!     }
//! }
//!
//! let token = Token::new("a-token-of-16-or-more")?;
//! let server = Server::start("127.0.0.1:0".parse().unwrap(), token.clone(), ServerOptions::default(), vec![Box::new(Echo)])?;
//! let mut peer = connect(server.local(), &token, Duration::from_secs(5))?;
//! peer.ask("echo", &"hello", &mut |_wait| true)?;
//! assert_eq!(peer.receive::<String>(Duration::from_secs(5))?, "hello");
//! # Ok::<(), PeerError>(())
//! ```
//!
//! No more is read than the message at hand still needs, so the stream can be handed on after any message. Memory grows with
//! what arrived, never with what a length promises.
//!
//! Limits: a message to a client is at most [`MAX_MESSAGE_BYTES`] bytes, one to a server [`MAX_REQUEST_BYTES`], one of the handshake [`MAX_GREETING_BYTES`]; every read and write has a deadline.

mod connection;
mod queue;
mod server;

pub use crate::auth::Token;
pub use connection::{Connection, attach, connect, connect_any};
pub use queue::{QueueTicket, QueueTurn, RequestQueue};
pub use server::{Server, ServerOptions, ServerStats};

use crate::auth::{InvalidToken, hex, random, unhex};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skyhaul_core::framing::{HEAD_BYTES, frame, length};
use skyhaul_core::hint::Hint;
use skyhaul_io::lock::lock;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Version of the handshake and of the messages around services.
pub const VERSION: u32 = 1;
/// Longest message to a client in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Longest message to a server in bytes: as JSON in memory, it takes some ten times as much.
pub const MAX_REQUEST_BYTES: usize = 256 << 10;
/// Longest message before both have proved the token, in bytes.
pub const MAX_GREETING_BYTES: usize = 512;
/// The port of `skyhaul probe serve`, if none is chosen.
pub const PORT: u16 = 14_300;

const NO_SERVER: Hint<&str> =
    Hint("start `skyhaul probe serve` there (`skyhaul copy serve` for copies), or give its port");

/// Take a stream of bytes as messages of a peer; for the fuzzer. Whatever comes, memory stays bounded.
pub fn fuzz(input: &[u8]) {
    let Some((&choice, input)) = input.split_first() else { return };
    let most = if choice & 1 == 0 { MAX_GREETING_BYTES } else { 1 << 16 };
    let mut frames = Frames::new(most);
    for piece in input.chunks(usize::from(choice >> 1).max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let n = frames.wanted().min(rest.len());
            assert!(n > 0 && frames.held() <= most + 4);
            frames.push(&rest[..n]);
            rest = &rest[n..];
            match frames.next_frame() {
                Ok(Some(body)) => fuzz_message(&body),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
}

/// Why a connection cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer did not answer, or took nothing, in time.
    #[error(
        "{peer} did not {what} within {seconds:.1} s{}",
        Hint("check that it is running and that no firewall is in between")
    )]
    Late {
        /// The peer.
        peer: SocketAddr,
        /// The expected action.
        what: &'static str,
        /// The deadline in seconds.
        seconds: f64,
    },
    /// The peer closed the connection.
    #[error("{0} closed the connection{hint}", hint = Hint("check whether it is still running, and its log"))]
    Closed(SocketAddr),
    /// A message that is too long.
    #[error("message of {bytes} bytes exceeds the limit of {most} bytes")]
    TooLong {
        /// Its stated length.
        bytes: u64,
        /// Maximum.
        most: usize,
    },
    /// The peer sent no valid greeting.
    #[error(
        "{0} is not a skyhaul server{hint}", hint = NO_SERVER)]
    Stranger(SocketAddr),
    /// The versions of the protocol differ.
    #[error(
        "{peer} uses protocol version {theirs}, this program version {ours}{}",
        Hint("install the same skyhaul on both hosts")
    )]
    Version {
        /// The peer.
        peer: SocketAddr,
        /// Its version.
        theirs: u32,
        /// [`VERSION`](crate::peer::VERSION).
        ours: u32,
    },
    /// The tokens differ.
    #[error(
        "{0} has a different token{hint}", hint = Hint("copy the server's token file to this host and pass it with --token-file"))]
    Token(SocketAddr),
    /// Text that cannot be a token.
    #[error("{0}")]
    InvalidToken(#[from] InvalidToken),
    /// A message was altered, repeated or left out in transit.
    #[error("a message from {0} was altered in transit; the connection is closed")]
    Forged(SocketAddr),
    /// An unexpected message.
    #[error("unexpected message from {peer}: {why}")]
    Unexpected {
        /// The peer.
        peer: SocketAddr,
        /// The problem.
        why: String,
    },
    /// The peer refused the request.
    #[error("{peer} refused: {why}")]
    Refused {
        /// The peer.
        peer: SocketAddr,
        /// Its reason.
        why: String,
    },
    /// This end was stopped.
    #[error("stopped")]
    Stopped,
}

impl PeerError {
    /// Whether nothing arrived in time, so that the connection can still be used.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Late { .. })
    }
}

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
    end: Instant,
    stop: &'a AtomicBool,
    attachments: &'a Arc<Attachments>,
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

    /// Let further connections in: send the client its cookie, with which it [attaches](crate::peer::attach) up to `places`.
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
struct Attachments(Mutex<HashMap<Cookie, SyncSender<TcpStream>>>);

/// The further connections of a service that runs. Once it is dropped, no more are admitted.
#[derive(Debug)]
pub struct DataConnections {
    cookie: Cookie,
    streams: Receiver<TcpStream>,
    attachments: Arc<Attachments>,
}

impl Attachments {
    fn open(self: &Arc<Self>, places: usize) -> io::Result<DataConnections> {
        let (give, streams) = sync_channel(places);
        let cookie = random()?;
        lock(&self.0).insert(cookie, give);
        Ok(DataConnections { cookie, streams, attachments: self.clone() })
    }

    /// The door that `cookie` opens.
    fn door(&self, cookie: &str) -> Option<SyncSender<TcpStream>> {
        let attachments = lock(&self.0);
        attachments.get(&unhex::<16>(cookie)?).cloned()
    }
}

impl DataConnections {
    /// What the other end brings with [`attach`](crate::peer::attach).
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
        lock(&self.attachments.0).remove(&self.cookie);
    }
}

/// The server's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// [`VERSION`](crate::peer::VERSION).
    pub skyhaul: u32,
    /// Random bytes, as hexadecimal digits.
    pub nonce: String,
}

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`](crate::peer::VERSION).
    pub skyhaul: u32,
    /// Random bytes, as hexadecimal digits.
    pub nonce: String,
    /// The client's proof that it knows the token.
    pub proof: String,
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Welcome {
    /// The server's proof that it knows the token.
    Proof(String),
    /// The client does not.
    WrongToken,
    /// The versions differ; this is the server's.
    Version(u32),
}

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A service, which gets `body`.
    Run {
        /// Its name.
        service: String,
        /// Its argument.
        body: Value,
    },
    /// To be a further connection of a service that runs: the stream behind this message is its own.
    Attach {
        /// What the service gave out.
        cookie: String,
    },
}

/// The server's answer to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Others are first.
    Queued(Waiting),
    /// Begin.
    Go,
    /// It will not be done.
    Refused {
        /// Why.
        why: String,
    },
}

/// A position in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Number of clients ahead.
    pub ahead: usize,
    /// Seconds until it begins, if all tests take as long as stated.
    pub seconds: f64,
}

/// Any bytes as each of the messages; one that was read is written and read back the same.
fn fuzz_message(body: &[u8]) {
    fn back<T: Serialize + for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug>(body: &[u8]) {
        let Ok(message) = serde_json::from_slice::<T>(body) else { return };
        let text = serde_json::to_vec(&message).unwrap_or_default();
        assert!(serde_json::from_slice::<T>(&text).is_ok(), "{message:?} is not read back");
    }
    back::<Challenge>(body);
    back::<Hello>(body);
    back::<Welcome>(body);
    back::<Ask>(body);
    back::<Answer>(body);
}

/// Puts messages together from the pieces in which they arrive.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    most: usize,
}

/// Most bytes to read at a time.
const READ_BYTES: usize = 16 << 10;

impl Frames {
    /// Messages of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    /// From here on, messages of at most `most` bytes.
    fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Length of the message at hand, if its head is here; as an error if it is too long.
    fn length(&self) -> Option<Result<usize, usize>> {
        self.bytes.first_chunk::<HEAD_BYTES>().map(|&head| length(head, self.most))
    }

    /// How many bytes to read next: never beyond the message at hand; 0 if a whole one, or one too long, is here.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.length() {
            None => HEAD_BYTES - self.bytes.len(),
            Some(Err(_)) => 0,
            Some(Ok(length)) => (HEAD_BYTES + length - self.bytes.len()).min(READ_BYTES),
        }
    }

    /// Bytes kept.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that arrived, at most as many as [`wanted`](Self::wanted).
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if it is here.
    ///
    /// # Errors
    /// It is longer than may be: the stream cannot be used any more.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, PeerError> {
        match self.length() {
            Some(Err(bytes)) => Err(PeerError::TooLong { bytes: bytes as u64, most: self.most }),
            Some(Ok(length)) if self.bytes.len() == HEAD_BYTES + length => {
                let mut whole = std::mem::take(&mut self.bytes);
                whole.drain(..HEAD_BYTES);
                Ok(Some(whole))
            }
            _ => Ok(None),
        }
    }
}

/// A message with its length before it.
fn framed(body: &[u8], tag: &[u8], most: usize) -> Result<Vec<u8>, PeerError> {
    let bytes = body.len() + tag.len();
    let message = (bytes <= most).then(|| frame(&[body, tag])).flatten();
    message.ok_or(PeerError::TooLong { bytes: bytes as u64, most })
}

#[cfg(test)]
mod tests;
