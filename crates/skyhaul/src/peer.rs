//! The control connection of two hosts: TLS 1.3, in which both prove that they know the same token.
//!
//! ```text
//!   client                                             server
//!     ──────────────── connects ───────────────────────▶ Door: few half-open connections, each for a few seconds
//!     ◀──────────── Preface { version } ────────────────   in clear text
//!     ◀═════════════ TLS 1.3: the server's key ═════════▶
//!     ── Hello { version, HMAC(client, binding) } ──────▶   only to a key that the token file names, if it names any
//!     ◀──────── Welcome { HMAC(server, binding) } ──────
//!     ─────────── Ask: run "udp" for 12 s ─────────────▶ RequestQueue: a few at a time, the others wait in turn
//!     ◀────────── Queued { ahead 2, 31 s } ─────────────
//!     ◀──────────────────── Go ─────────────────────────
//!     ◀═════════ messages of the Service ══════════════▶
//! ```
//!
//! The binding is what TLS exports for this connection alone (RFC 9266). A proof that was recorded, or made for someone who ends TLS in
//! between, is worth nothing on another connection. TLS keeps messages from being read, altered, repeated or left out in transit.
//! [0094](https://github.com/skyhaul/skyhaul/blob/main/docs/decisions/0094-the-control-connection-is-tls.md) has the reasons.
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
//! A server has a port of its own, or shares that of another service, which tells clients apart by their [first bytes](FirstBytes) and
//! gives them to its [`PeerIntake`]. Clients may hold different tokens, each with [services of its own](TokenHolders).
//!
//! No more is read than the message at hand still needs, so the stream can be handed on after any message. Memory grows with
//! what arrived, never with what a length promises.
//!
//! Limits: a message to a client is at most [`MAX_MESSAGE_BYTES`] bytes, one to a server [`MAX_REQUEST_BYTES`], one of the handshake [`MAX_GREETING_BYTES`]; every read and write has a deadline.

mod channel;
mod client;
mod connection;
mod data;
mod first_bytes;
mod half_open;
mod message;
mod refusal;
mod server;
mod server_options;
mod service;

pub use crate::auth::{Fingerprint, ServerKey, Token};
pub use client::{attach, connect, connect_any};
pub use connection::Connection;
pub use data::{DataStream, Encryptor};
pub use first_bytes::{FirstBytes, MAX_FIRST_BYTES};
pub use message::{Answer, Ask, Frames, Hello, PeerError, Preface, Waiting, Welcome};
pub use refusal::{PeerRefusal, RefusalObserver};
pub use server::{PeerIntake, Server, TokenHolders};
pub use server_options::{ServerOptions, ServerStats};
pub use service::{
    Admission, DataConnections, Limits, QueueTicket, QueueTurn, RequestQueue, RequestSubject, Service,
    Session, SessionTally,
};

/// Version of the handshake and of the messages around services.
pub const VERSION: u32 = 2;
/// Longest message to a client in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Longest message to a server in bytes: as JSON in memory, it takes some ten times as much.
pub const MAX_REQUEST_BYTES: usize = 256 << 10;
/// Longest message before both have proved the token, in bytes.
pub const MAX_GREETING_BYTES: usize = 512;
/// The port of `skyhaul probe serve`, if none is chosen.
pub const PORT: u16 = 14_300;

/// Reads bytes as messages of a peer, for the fuzzer. Memory stays bounded for any input.
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
                Ok(Some(body)) => message::fuzz_message(&body),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
