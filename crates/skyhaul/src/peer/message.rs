//! The messages of the handshake and around services, and the errors of a connection.
//!
//! A message is framed as in [`skyhaul_core::framing`]. No more is read than the message at hand still needs, so the stream can be
//! handed on after any message. Memory grows with what arrived, never with what a length promises.

use crate::auth::{Fingerprint, InvalidToken};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skyhaul_core::framing::{HEAD_BYTES, frame, length};
use skyhaul_core::hint::Hint;
use std::io;
use std::net::SocketAddr;

pub(super) const NO_SERVER: Hint<&str> =
    Hint("start `skyhaul probe serve` there (`skyhaul copy serve` for copies), or give its port");

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
    /// The connection ended in the middle of a message.
    #[error("the connection to {0} broke off in the middle of a message{hint}", hint = Hint("check whether it is still running, and the path to it"))]
    Truncated(SocketAddr),
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
        "{0} is not a skyhaul server{hint}; one that runs ends new connections while too many clients connect at once: try again",
        hint = NO_SERVER
    )]
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
    /// The tokens differ, or someone in between ends the encryption.
    #[error(
        "{0} has a different token, or another host answers in its place{hint}", hint = Hint("copy the server's token file to this host and pass it with --token-file"))]
    Token(SocketAddr),
    /// The server has a key that the token file does not name. Nothing that was derived from the token was sent to it.
    #[error(
        "{peer} has the key {found}, but the token file expects {}{}",
        expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        Hint(format_args!(
            "compare it with the key that the server shows at its start; if they are the same, put {found} into the token file, else \
             another host answers in its place"
        ))
    )]
    ServerKey {
        /// The peer.
        peer: SocketAddr,
        /// Its key.
        found: Fingerprint,
        /// Those of the token file.
        expected: Vec<Fingerprint>,
    },
    /// Text that cannot be a token.
    #[error("{0}")]
    InvalidToken(#[from] InvalidToken),
    /// A record of TLS was altered, repeated or left out in transit.
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

/// The server's first message, the only one that is not encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preface {
    /// [`VERSION`](crate::peer::VERSION).
    pub skyhaul: u32,
    /// Empty. Version 1 expects it, and reads the version only if it is there.
    pub nonce: String,
}

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`](crate::peer::VERSION).
    pub skyhaul: u32,
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
        /// Whether it stays encrypted.
        #[serde(default)]
        encrypted: bool,
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
pub(super) fn fuzz_message(body: &[u8]) {
    fn back<T: Serialize + for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug>(body: &[u8]) {
        let Ok(message) = serde_json::from_slice::<T>(body) else { return };
        let text = serde_json::to_vec(&message).unwrap_or_default();
        assert!(serde_json::from_slice::<T>(&text).is_ok(), "{message:?} is not read back");
    }
    back::<Preface>(body);
    back::<Hello>(body);
    back::<Welcome>(body);
    back::<Ask>(body);
    back::<Answer>(body);
}

/// Puts messages together from the pieces in which they arrive.
#[derive(Debug)]
pub struct Frames {
    pub(super) bytes: Vec<u8>,
    most: usize,
}

/// Most bytes to read at a time.
pub(super) const READ_BYTES: usize = 16 << 10;

impl Frames {
    /// Messages of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    /// From here on, messages of at most `most` bytes.
    pub(super) fn allow(&mut self, most: usize) {
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
pub(super) fn framed(body: &[u8], most: usize) -> Result<Vec<u8>, PeerError> {
    let message = (body.len() <= most).then(|| frame(&[body])).flatten();
    message.ok_or(PeerError::TooLong { bytes: body.len() as u64, most })
}
