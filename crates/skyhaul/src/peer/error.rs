//! The errors of a control connection.

use super::super::auth::InvalidToken;
use std::io;
use std::net::SocketAddr;

/// Why a connection cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer did not answer, or took nothing, in time.
    #[error(
        "{peer} did not {what} within {seconds:.1} s\nhint: check that it is running and that no firewall is in between"
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
    #[error("{0} closed the connection\nhint: check whether it is still running, and its log")]
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
        "{0} is not a skyhaul server\nhint: start `skyhaul probe serve` there (`skyhaul copy serve` for copies), or give its port"
    )]
    Stranger(SocketAddr),
    /// The versions of the protocol differ.
    #[error(
        "{peer} uses protocol version {theirs}, this program version {ours}\nhint: install the same skyhaul on both hosts"
    )]
    Version {
        /// The peer.
        peer: SocketAddr,
        /// Its version.
        theirs: u32,
        /// [`VERSION`](super::VERSION).
        ours: u32,
    },
    /// The tokens differ.
    #[error(
        "{0} has a different token\nhint: copy the server's token file to this host and pass it with --token-file"
    )]
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
