//! A connection on which both ends have proved the token: whole messages, each with a deadline.

use super::channel::Channel;
use super::data::DataStream;
use super::message::{Answer, Ask, Frames, Hello, PeerError, Preface, READ_BYTES, Waiting, Welcome, framed};
use super::{MAX_GREETING_BYTES, MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES, VERSION};
use crate::auth::{MAC_BYTES, Role, Token, hex, unhex};
use rustls::ServerConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skyhaul_io::tcp::info::TcpInfo;
use skyhaul_io::tcp::setup::retransmit_steadily;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
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

/// One end.
pub struct Connection {
    channel: Channel,
    peer: SocketAddr,
    local: SocketAddr,
    frames: Frames,
    /// Longest message that the other end takes.
    most: usize,
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
    /// To the server at the other end.
    pub(super) fn client(stream: TcpStream) -> Result<Self, PeerError> {
        Self::new(stream, Channel::client)
    }

    /// From a client.
    pub(super) fn server(stream: TcpStream, config: &Arc<ServerConfig>) -> Result<Self, PeerError> {
        Self::new(stream, |stream, peer| Channel::server(stream, peer, config))
    }

    fn new(
        stream: TcpStream,
        channel: impl FnOnce(TcpStream, SocketAddr) -> Result<Channel, PeerError>,
    ) -> Result<Self, PeerError> {
        stream.set_nodelay(true)?;
        let canonical = |at: SocketAddr| match at.ip().to_canonical() {
            ip if ip == at.ip() => at,
            ip => SocketAddr::new(ip, at.port()),
        };
        let (peer, local) = (canonical(stream.peer_addr()?), canonical(stream.local_addr()?));
        let (channel, frames) = (channel(stream, peer)?, Frames::new(MAX_GREETING_BYTES));
        Ok(Self { channel, peer, local, frames, most: MAX_GREETING_BYTES })
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
        retransmit_steadily(self.channel.socket(), GIVE_UP_TIMEOUT);
    }

    /// The interval after which the kernel retransmits a message now, which grows with the round-trip time of the path.
    #[must_use]
    pub fn retransmit_interval(&self) -> Duration {
        TcpInfo::of(self.channel.socket()).map_or(Duration::ZERO, |info| info.rto)
    }

    /// Bytes that were sent here and have not left, as the peer has no room for them; 0 where the kernel does not say.
    #[must_use]
    pub fn unsent_bytes(&self) -> u64 {
        TcpInfo::of(self.channel.socket()).map_or(0, |info| info.notsent.into())
    }

    /// The client's side of the handshake.
    pub(super) fn greet(&mut self, token: &Token, end: Instant) -> Result<(), PeerError> {
        // TLS begins before the server's version is here, which spares a round trip. A server without TLS ends the connection then,
        // and has said its version.
        match self.channel.flush(end) {
            Ok(()) | Err(PeerError::Closed(_)) => {}
            Err(error) => return Err(error),
        }
        let preface = self.preface(end).map_err(|error| self.stranger(error))?;
        if preface.skyhaul != VERSION {
            return Err(PeerError::Version { peer: self.peer, theirs: preface.skyhaul, ours: VERSION });
        }
        self.channel.handshake(end).map_err(|error| self.stranger(error))?;
        let found = self.channel.shown().ok_or(PeerError::Stranger(self.peer))?;
        if !token.servers().is_empty() && !token.servers().contains(&found) {
            return Err(PeerError::ServerKey { peer: self.peer, found, expected: token.servers().to_vec() });
        }
        let binding = self.channel.binding()?;
        let proof = hex(&token.proof(Role::Client, &binding));
        self.send(&Hello { skyhaul: VERSION, proof })?;
        match self.greeting(end)? {
            Welcome::Proof(proof) => {
                let proof = unhex(&proof).ok_or(PeerError::Stranger(self.peer))?;
                if !token.is_proof(Role::Server, &binding, &proof) {
                    return Err(PeerError::Token(self.peer));
                }
                self.trust(MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES);
                Ok(())
            }
            Welcome::WrongToken => Err(PeerError::Token(self.peer)),
            Welcome::Version(theirs) => Err(PeerError::Version { peer: self.peer, theirs, ours: VERSION }),
        }
    }

    /// The server's side of the handshake; returns which of these tokens the client holds.
    pub(super) fn admit<'t>(
        &mut self,
        tokens: impl IntoIterator<Item = &'t Token>,
        end: Instant,
    ) -> Result<usize, PeerError> {
        // In clear text, and laid out as version 1 had it: so each version reads that of the other.
        let preface = Preface { skyhaul: VERSION, nonce: String::new() };
        let preface = serde_json::to_vec(&preface).map_err(|error| self.unexpected(&error.to_string()))?;
        self.channel.write_plain(&framed(&preface, MAX_GREETING_BYTES)?, end)?;
        self.channel.handshake(end)?;
        let hello: Hello = self.greeting(end)?;
        if hello.skyhaul != VERSION {
            self.send(&Welcome::Version(VERSION))?;
            return Err(PeerError::Version { peer: self.peer, theirs: hello.skyhaul, ours: VERSION });
        }
        let proof = unhex::<MAC_BYTES>(&hello.proof).ok_or(PeerError::Stranger(self.peer))?;
        let binding = self.channel.binding()?;
        let mut tokens = tokens.into_iter().enumerate();
        let Some((held, token)) = tokens.find(|(_, token)| token.is_proof(Role::Client, &binding, &proof))
        else {
            self.send(&Welcome::WrongToken)?;
            return Err(PeerError::Token(self.peer));
        };
        self.send(&Welcome::Proof(hex(&token.proof(Role::Server, &binding))))?;
        self.trust(MAX_REQUEST_BYTES, MAX_MESSAGE_BYTES);
        Ok(held)
    }

    /// Both have proved the token: longer messages may be received and sent.
    fn trust(&mut self, taken: usize, most: usize) {
        self.channel.trust();
        self.frames.allow(taken);
        self.most = most;
    }

    /// The server's version, before TLS.
    fn preface(&mut self, end: Instant) -> Result<Preface, PeerError> {
        let mut piece = [0; MAX_GREETING_BYTES];
        loop {
            if let Some(body) = self.frames.next_frame()? {
                return self.parsed(&body);
            }
            let wanted = self.frames.wanted().min(piece.len());
            let n = self.channel.read_plain(&mut piece[..wanted], end)?;
            self.frames.push(&piece[..n]);
        }
    }

    /// Receives a message of the handshake; anything else comes from a stranger.
    fn greeting<T: DeserializeOwned>(&mut self, end: Instant) -> Result<T, PeerError> {
        let message = self.message(end.saturating_duration_since(Instant::now()), "answer");
        message.map_err(|error| self.stranger(error))
    }

    /// Before the proof, a peer that does not behave is none.
    fn stranger(&self, error: PeerError) -> PeerError {
        match error {
            PeerError::Late { .. } | PeerError::Io(_) => error,
            _ => PeerError::Stranger(self.peer),
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
        self.channel.write(&framed(&body, self.most)?, Instant::now() + SEND_TIMEOUT)
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
        self.channel.socket().set_nonblocking(true)?;
        let found = self.message(Duration::ZERO, "answer");
        self.channel.socket().set_nonblocking(false)?;
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
        let (mut heard, mut held) = (begun, self.channel.arrived());
        loop {
            let left = silence.saturating_sub(heard.elapsed()).min(most.saturating_sub(begun.elapsed()));
            match self.message(left.clamp(Duration::from_millis(1), STOP_POLL_INTERVAL), "answer") {
                Err(error) if error.is_late() => {}
                other => return other,
            }
            if stopped() {
                return Err(PeerError::Stopped);
            }
            if self.channel.arrived() > held {
                (heard, held) = (Instant::now(), self.channel.arrived());
            }
            if heard.elapsed() >= silence || begun.elapsed() >= most {
                return Err(self.late("answer", silence.min(most)));
            }
        }
    }

    fn message<T: DeserializeOwned>(&mut self, within: Duration, what: &'static str) -> Result<T, PeerError> {
        let body = self.body(within, what)?;
        self.parsed(&body)
    }

    fn parsed<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, PeerError> {
        serde_json::from_slice(body).map_err(|error| self.unexpected(&format!("not a message: {error}")))
    }

    fn body(&mut self, within: Duration, what: &'static str) -> Result<Vec<u8>, PeerError> {
        let end = Instant::now() + within;
        let mut piece = [0; READ_BYTES];
        let cut = |held: usize, error: PeerError| match error {
            PeerError::Closed(peer) if held > 0 => PeerError::Truncated(peer),
            other => other,
        };
        loop {
            if let Some(body) = self.frames.next_frame()? {
                return Ok(body);
            }
            let (wanted, held) = (self.frames.wanted(), self.frames.held());
            let n = self.channel.take(&mut piece[..wanted]).map_err(|error| cut(held, error))?;
            if n > 0 {
                self.frames.push(&piece[..n]);
                continue;
            }
            let left = end.saturating_duration_since(Instant::now());
            let polls = within.is_zero();
            if left.is_zero() && !polls {
                return Err(self.late(what, within));
            }
            if !polls {
                self.channel.wait(left)?;
            }
            if !self.channel.read().map_err(|error| cut(held, error))? && polls {
                return Err(self.late(what, within));
            }
        }
    }

    /// Whether the peer closed the connection, or sent something that is no message.
    #[must_use]
    pub fn is_gone(&mut self) -> bool {
        self.channel.is_gone()
    }

    /// Close it; the other end and a thread that waits on this one notice.
    pub fn close(&self) {
        let _ = self.channel.socket().shutdown(Shutdown::Both);
    }

    /// The connection for data: behind the last message, it is the caller's own.
    pub(super) fn into_data(self, encrypted: bool) -> Result<DataStream, PeerError> {
        DataStream::of(self.channel, encrypted)
    }

    fn late(&self, what: &'static str, within: Duration) -> PeerError {
        PeerError::Late { peer: self.peer, what, seconds: within.as_secs_f64() }
    }
}
