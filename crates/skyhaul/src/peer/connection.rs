//! A connection on which both ends have proved the token: whole messages, each with a deadline.

use super::super::auth::{MAC_BYTES, Nonces, Role, Token, hex, random, unhex};
use super::message::{
    Answer, Ask, Challenge, Frames, Hello, NO_SERVER, PeerError, READ_BYTES, Waiting, Welcome, framed,
};
use super::{MAX_GREETING_BYTES, MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES, VERSION};
use ring::hmac;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skyhaul_core::hint::Hint;
use skyhaul_io::address::system_text;
use skyhaul_io::tcp::info::TcpInfo;
use skyhaul_io::tcp::setup::{connect_in_small_segments, retransmit_steadily};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time to send a message; a peer that takes nothing for this long is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that acknowledges nothing of a message for this long is gone.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest interval between two reports to a client that waits.
pub(super) const QUEUE_UPDATE_INTERVAL: Duration = Duration::from_secs(1);
/// How often a long wait looks whether it was stopped.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A server that reports nothing for this long is gone.
const QUEUE_SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// The keys of one connection, and the numbers of its messages.
struct Keys {
    mine: hmac::Key,
    theirs: hmac::Key,
    sent: u64,
    received: u64,
    /// Longest message that the other end takes.
    most: usize,
}

/// One end.
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
    frames: Frames,
    keys: Option<Keys>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Result<Self, PeerError> {
        stream.set_nodelay(true)?;
        let canonical = |at: SocketAddr| match at.ip().to_canonical() {
            ip if ip == at.ip() => at,
            ip => SocketAddr::new(ip, at.port()),
        };
        let (peer, local) = (canonical(stream.peer_addr()?), canonical(stream.local_addr()?));
        Ok(Self { stream, peer, local, frames: Frames::new(MAX_GREETING_BYTES), keys: None })
    }

    /// The other end's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// This end's address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The error for an unexpected message.
    #[must_use]
    pub fn unexpected(&self, what: &str) -> PeerError {
        PeerError::Unexpected { peer: self.peer, why: what.to_owned() }
    }

    /// Retransmit messages steadily: a connection for messages alone is silent for long after a burst of losses otherwise.
    pub(super) fn insist(&self) {
        retransmit_steadily(&self.stream, GIVE_UP_TIMEOUT);
    }

    /// The interval after which the kernel retransmits a message now, which grows with the round-trip time of the path.
    #[must_use]
    pub fn retransmit_interval(&self) -> Duration {
        TcpInfo::of(&self.stream).map_or(Duration::ZERO, |info| info.rto)
    }

    /// The client's side of the handshake.
    pub(super) fn greet(&mut self, token: &Token, end: Instant) -> Result<(), PeerError> {
        let challenge: Challenge = self.greeting(end)?;
        if challenge.skyhaul != VERSION {
            return Err(PeerError::Version { peer: self.peer, theirs: challenge.skyhaul, ours: VERSION });
        }
        let server = unhex(&challenge.nonce).ok_or(PeerError::Stranger(self.peer))?;
        let nonces = Nonces { server, client: random()? };
        let proof = hex(&token.proof(Role::Client, &nonces));
        self.send(&Hello { skyhaul: VERSION, nonce: hex(&nonces.client), proof })?;
        match self.greeting(end)? {
            Welcome::Proof(proof) => {
                let proof = unhex(&proof).ok_or(PeerError::Stranger(self.peer))?;
                if !token.is_proof(Role::Server, &nonces, &proof) {
                    return Err(PeerError::Token(self.peer));
                }
                self.trust(token, Role::Client, &nonces);
                Ok(())
            }
            Welcome::WrongToken => Err(PeerError::Token(self.peer)),
            Welcome::Version(theirs) => Err(PeerError::Version { peer: self.peer, theirs, ours: VERSION }),
        }
    }

    /// The server's side of the handshake.
    pub(super) fn admit(&mut self, token: &Token, end: Instant) -> Result<(), PeerError> {
        let server = random()?;
        self.send(&Challenge { skyhaul: VERSION, nonce: hex(&server) })?;
        let hello: Hello = self.greeting(end)?;
        if hello.skyhaul != VERSION {
            self.send(&Welcome::Version(VERSION))?;
            return Err(PeerError::Version { peer: self.peer, theirs: hello.skyhaul, ours: VERSION });
        }
        let (client, proof) = (unhex(&hello.nonce), unhex::<MAC_BYTES>(&hello.proof));
        let (client, proof) = client.zip(proof).ok_or(PeerError::Stranger(self.peer))?;
        let nonces = Nonces { server, client };
        if !token.is_proof(Role::Client, &nonces, &proof) {
            self.send(&Welcome::WrongToken)?;
            return Err(PeerError::Token(self.peer));
        }
        self.send(&Welcome::Proof(hex(&token.proof(Role::Server, &nonces))))?;
        self.trust(token, Role::Server, &nonces);
        Ok(())
    }

    fn trust(&mut self, token: &Token, me: Role, nonces: &Nonces) {
        let (mine, theirs) = (token.key(me, nonces), token.key(me.other(), nonces));
        let (taken, most) = match me {
            Role::Client => (MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES),
            Role::Server => (MAX_REQUEST_BYTES, MAX_MESSAGE_BYTES),
        };
        self.keys = Some(Keys { mine, theirs, sent: 0, received: 0, most });
        self.frames.allow(taken);
    }

    /// Receives a message of the handshake; anything else comes from a stranger.
    fn greeting<T: DeserializeOwned>(&mut self, end: Instant) -> Result<T, PeerError> {
        match self.message(end.saturating_duration_since(Instant::now()), "answer") {
            Err(PeerError::TooLong { .. } | PeerError::Closed(_) | PeerError::Unexpected { .. }) => {
                Err(PeerError::Stranger(self.peer))
            }
            other => other,
        }
    }

    /// Asks for a service, and waits for its turn. `each` is called with the position in the queue, and returns whether to keep waiting.
    ///
    /// # Errors
    /// The server refuses, is gone, or `each` did not want to wait.
    pub fn ask(
        &mut self,
        service: &str,
        body: &impl Serialize,
        each: &mut dyn FnMut(Waiting) -> bool,
    ) -> Result<(), PeerError> {
        let body = serde_json::to_value(body).map_err(|error| self.unexpected(&error.to_string()))?;
        self.send(&Ask::Run { service: service.to_owned(), body })?;
        loop {
            match self.message::<Answer>(QUEUE_SILENCE_TIMEOUT, "answer")? {
                Answer::Go => return Ok(()),
                Answer::Queued(waiting) if each(waiting) => {}
                Answer::Queued(_) => return Err(PeerError::Stopped),
                Answer::Refused { why } => return Err(PeerError::Refused { peer: self.peer, why }),
            }
        }
    }

    /// Send a message.
    ///
    /// # Errors
    /// It is too long, or the peer does not take it.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), PeerError> {
        let body = serde_json::to_vec(message).map_err(|error| self.unexpected(&error.to_string()))?;
        let bytes = match &mut self.keys {
            None => framed(&body, &[], MAX_GREETING_BYTES)?,
            Some(keys) => {
                let tag = sign(&keys.mine, keys.sent, &body);
                let bytes = framed(&body, tag.as_ref(), keys.most)?;
                keys.sent += 1;
                bytes
            }
        };
        self.write(&bytes)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), PeerError> {
        let end = Instant::now() + SEND_TIMEOUT;
        while !bytes.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.late("take a message", SEND_TIMEOUT));
            }
            self.stream.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(PeerError::Closed(self.peer)),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if passes(&error) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(())
    }

    /// The next message, if it comes within `within`. If it does not ([`PeerError::is_late`]), the connection stays usable.
    ///
    /// # Errors
    /// None came, it is not a `T`, or the connection is of no more use.
    pub fn receive<T: DeserializeOwned>(&mut self, within: Duration) -> Result<T, PeerError> {
        self.message(within, "answer")
    }

    /// The next message if it is here already.
    ///
    /// # Errors
    /// It is not a `T`, or the connection is of no more use.
    pub fn poll<T: DeserializeOwned>(&mut self) -> Result<Option<T>, PeerError> {
        self.stream.set_nonblocking(true)?;
        let found = self.message(Duration::ZERO, "answer");
        self.stream.set_nonblocking(false)?;
        match found {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.is_late() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next message, as long as bytes of it keep coming: `silence` without any, or `most` in all, are too long. For long reports
    /// over a path that loses. `stopped` is asked many times a second, and ends the wait.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), and [`PeerError::Stopped`] once `stopped` returns true.
    pub fn receive_slowly<T: DeserializeOwned>(
        &mut self,
        silence: Duration,
        most: Duration,
        stopped: &dyn Fn() -> bool,
    ) -> Result<T, PeerError> {
        let begun = Instant::now();
        let (mut heard, mut held) = (begun, self.frames.held());
        loop {
            let left = silence.saturating_sub(heard.elapsed()).min(most.saturating_sub(begun.elapsed()));
            match self.message(left.clamp(Duration::from_millis(1), STOP_POLL_INTERVAL), "answer") {
                Err(error) if error.is_late() => {}
                other => return other,
            }
            if stopped() {
                return Err(PeerError::Stopped);
            }
            if self.frames.held() > held {
                (heard, held) = (Instant::now(), self.frames.held());
            }
            if heard.elapsed() >= silence || begun.elapsed() >= most {
                return Err(self.late("answer", silence.min(most)));
            }
        }
    }

    fn message<T: DeserializeOwned>(&mut self, within: Duration, what: &'static str) -> Result<T, PeerError> {
        let body = self.body(within, what)?;
        serde_json::from_slice(&body).map_err(|error| self.unexpected(&format!("not a message: {error}")))
    }

    fn body(&mut self, within: Duration, what: &'static str) -> Result<Vec<u8>, PeerError> {
        let end = Instant::now() + within;
        let mut piece = [0; READ_BYTES];
        loop {
            if let Some(body) = self.frames.next_frame()? {
                return self.verified(body);
            }
            let left = end.saturating_duration_since(Instant::now());
            let polls = within.is_zero();
            if left.is_zero() && !polls {
                return Err(self.late(what, within));
            }
            if !polls {
                self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            }
            let wanted = self.frames.wanted();
            match self.stream.read(&mut piece[..wanted]) {
                Ok(0) => return Err(PeerError::Closed(self.peer)),
                Ok(n) => self.frames.push(&piece[..n]),
                Err(error) if polls && error.kind() == ErrorKind::WouldBlock => {
                    return Err(self.late(what, within));
                }
                Err(error) if passes(&error) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn verified(&mut self, mut body: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        let Some(keys) = &mut self.keys else { return Ok(body) };
        let cut = body.len().checked_sub(MAC_BYTES).ok_or(PeerError::Forged(self.peer))?;
        let tag = body.split_off(cut);
        let numbered = numbered(keys.received, &body);
        keys.received += 1;
        hmac::verify(&keys.theirs, &numbered, &tag).map_err(|_| PeerError::Forged(self.peer))?;
        Ok(body)
    }

    /// Whether the peer closed the connection, or sent something unexpected.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let mut one = [0];
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let gone = match self.stream.peek(&mut one) {
            Ok(n) => n == 0,
            Err(error) => !passes(&error),
        };
        self.stream.set_nonblocking(false).is_err() || gone
    }

    /// Close it; the other end and a thread that waits on this one notice.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The stream alone: behind the last message, it is the caller's own.
    ///
    /// # Errors
    /// The socket failed.
    pub fn into_stream(self) -> Result<TcpStream, PeerError> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }

    fn late(&self, what: &'static str, within: Duration) -> PeerError {
        PeerError::Late { peer: self.peer, what, seconds: within.as_secs_f64() }
    }

    fn broken(&self, error: io::Error) -> PeerError {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected => PeerError::Closed(self.peer),
            _ => PeerError::Io(error),
        }
    }
}

fn numbered(number: u64, body: &[u8]) -> Vec<u8> {
    [number.to_be_bytes().as_slice(), body].concat()
}

fn sign(key: &hmac::Key, number: u64, body: &[u8]) -> hmac::Tag {
    hmac::sign(key, &numbered(number, body))
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Time for one address if there are several.
const NEXT_ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest segment of a control connection, with its options: a packet of at most 460 bytes with IPv6. Where longer packets vanish
/// silently, a measurement must still be able to say so.
const MAX_SEGMENT_BYTES: u32 = 400;

/// Connects to the server at `to`; both ends prove the token. Messages are sent in small segments, which pass where long packets
/// do not.
///
/// # Errors
/// It cannot be reached, is no server of skyhaul, has another version or another token, or is full.
pub fn connect(to: SocketAddr, token: &Token, within: Duration) -> Result<Connection, PeerError> {
    let patience = within.max(Duration::from_millis(1));
    let connection = reach(to, token, within, || connect_in_small_segments(to, MAX_SEGMENT_BYTES, patience))?;
    connection.insist();
    Ok(connection)
}

fn reach(
    to: SocketAddr,
    token: &Token,
    within: Duration,
    connected: impl FnOnce() -> io::Result<TcpStream>,
) -> Result<Connection, PeerError> {
    let end = Instant::now() + within;
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            ErrorKind::ConnectionRefused => Some(NO_SERVER),
            ErrorKind::TimedOut => Some(Hint("check that the host is up and that no firewall is in between")),
            _ => None,
        };
        let hint = hint.map_or_else(String::new, |hint| hint.to_string());
        io::Error::new(error.kind(), format!("connect to {to}: {}{hint}", system_text(&error)))
    };
    let stream = connected().map_err(failed)?;
    let mut connection = Connection::new(stream)?;
    connection.greet(token, end)?;
    Ok(connection)
}

/// Connect to the first of the addresses of one server that answers.
///
/// # Errors
/// None does: what the last one said, or all of them if there are several.
pub fn connect_any(to: &[SocketAddr], token: &Token, within: Duration) -> Result<Connection, PeerError> {
    let mut said: Vec<String> = Vec::new();
    for (at, address) in to.iter().enumerate() {
        // Another address is tried soon.
        let wait = if at + 1 < to.len() { within.min(NEXT_ADDRESS_TIMEOUT) } else { within };
        match connect(*address, token, wait) {
            Err(PeerError::Io(error)) if to.len() > 1 => said.push(error.to_string()),
            Err(error @ PeerError::Late { .. }) if at + 1 < to.len() => said.push(error.to_string()),
            other => return other,
        }
    }
    let error = if said.is_empty() { "the server has no address".to_owned() } else { said.join("\n") };
    Err(PeerError::Io(io::Error::other(error)))
}

/// Connect once more, as a further connection of a service that gave out `cookie`. The stream is the caller's own.
///
/// # Errors
/// As [`connect`], or the cookie is unknown.
pub fn attach(to: SocketAddr, token: &Token, cookie: &str, within: Duration) -> Result<TcpStream, PeerError> {
    // It is for data, in segments as long as the path takes.
    let plain = || TcpStream::connect_timeout(&to, within.max(Duration::from_millis(1)));
    let mut connection = reach(to, token, within, plain)?;
    connection.send(&Ask::Attach { cookie: cookie.to_owned() })?;
    match connection.receive::<Answer>(within)? {
        Answer::Go => connection.into_stream(),
        Answer::Refused { why } => Err(PeerError::Refused { peer: to, why }),
        Answer::Queued(_) => Err(connection.unexpected("a place in the line")),
    }
}
