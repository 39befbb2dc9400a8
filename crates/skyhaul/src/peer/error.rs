//! Why two hosts do not work together.

use std::io;
use std::net::SocketAddr;

/// Why a connection could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer did not answer, or took nothing, in time.
    #[error(
        "{peer} did not {what} within {seconds:.1} s\nhint: see whether it runs, and whether a firewall is between"
    )]
    Late {
        /// The peer.
        peer: SocketAddr,
        /// What was expected.
        what: &'static str,
        /// How long it had.
        seconds: f64,
    },
    /// The peer closed the connection.
    #[error("{0} closed the connection\nhint: see whether it still runs, and what it said")]
    Closed(SocketAddr),
    /// A message longer than may be.
    #[error("a message of {bytes} bytes, of at most {most}")]
    TooLong {
        /// What it says.
        bytes: u64,
        /// Maximum.
        most: usize,
    },
    /// What came is no greeting.
    #[error(
        "{0} is not a skyhaul server\nhint: start `skyhaul probe serve` there (`skyhaul copy serve` for copies), or name its port"
    )]
    Stranger(SocketAddr),
    /// Another version.
    #[error(
        "{peer} speaks version {theirs} of this protocol, and this program version {ours}\nhint: install the same skyhaul on both hosts"
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
        "{0} has another token\nhint: copy the token file of the server to this host, and name it with --token-file"
    )]
    Token(SocketAddr),
    /// Text that cannot be a token.
    #[error("not a token: 16 to 256 letters, digits and `-_.~` are one")]
    NotAToken,
    /// A message that somebody changed, repeated or left out.
    #[error("a message from {0} was changed on the way; the connection is closed")]
    Forged(SocketAddr),
    /// A message with another meaning than expected here.
    #[error("{peer} sent what was not expected: {why}")]
    Unexpected {
        /// The peer.
        peer: SocketAddr,
        /// What is wrong with it.
        why: String,
    },
    /// The peer will not do it, and says why.
    #[error("{peer} refused: {why}")]
    Refused {
        /// The peer.
        peer: SocketAddr,
        /// Its reason.
        why: String,
    },
    /// This end was asked to stop.
    #[error("stopped")]
    Stopped,
}

impl PeerError {
    /// Whether nothing came in time, so that the connection can still be used.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Late { .. })
    }
}
