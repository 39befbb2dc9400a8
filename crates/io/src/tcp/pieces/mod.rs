//! Packets of any length from any number of TCP connections, the long ones in pieces.
//!
//! ```text
//!   connection 0  ▐ packet ▐ packet ▐ packet ▐ pac┆ket ▐         short ones: whole, each in one piece
//!   connection 1  ▐ head │ body · · · · · · · ·┆· · · · · ·      long ones: as they arrive, unbuffered
//!   connection 2  ▐ packet ▐ packet ▐ ?5 bytes? ▐ packet ▐       strays: skipped, counted, reported
//! ```
//!
//! Packets have no further framing: their heads give their length, and [`Heads`] reads a head. So a heap of 64 MiB may
//! travel as one packet without being buffered here: a connection keeps at most one short packet or one head.
//!
//! ```no_run
//! use skyhaul_io::tcp::pieces::{Found, Heads, PieceEvent, PieceOptions, PieceSource};
//! use std::time::Duration;
//! /// A length in 8 bytes, then that many bytes.
//! struct Counted;
//! impl Heads for Counted {
//!     fn find(&self, bytes: &[u8]) -> Found {
//!         bytes.first_chunk().map_or(Found::More, |n| Found::Packet { head: 8, body: u64::from_be_bytes(*n) })
//!     }
//!     fn longest_head(&self) -> usize {
//!         8
//!     }
//! }
//! let at = "tcp://127.0.0.1:8888".parse()?;
//! let mut source = PieceSource::open(&at, Box::new(Counted), &PieceOptions::default())?;
//! while !source.is_finished() {
//!     source.poll(Duration::from_millis(50), &mut |event: PieceEvent<'_>| {
//!         if let PieceEvent::Piece(piece) = event {
//!             println!("{} to {} of {}", piece.at, piece.at + piece.bytes.len() as u64, piece.body);
//!         }
//!     })?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Resynchronisation
//!
//! If a head is invalid, the stream is searched byte by byte for the next one. A candidate is accepted if another head
//! follows its packet, or if nothing else inside the packet looks like a head; a packet too long to buffer is accepted at
//! once. A packet that is not whole when the connection falls silent or ends is rejected, and the search continues after
//! its first byte, in the bytes that were kept.
//!
//! Limits: a head with a false length takes that many bytes with it, at most `longest_body`. Within a body, nothing is
//! checked.

mod cut;
#[doc(hidden)]
pub mod fuzzing;
mod source;
mod tell;
#[cfg(test)]
mod tests;

use crate::source::InterfaceWatch;
pub use source::PieceSource;
use std::{net::SocketAddr, time::Duration};

/// What the first bytes of a packet say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The head needs more bytes.
    More,
    /// A packet: a head, then a body.
    Packet {
        /// Bytes of the head, at least one.
        head: usize,
        /// Bytes that follow it.
        body: u64,
    },
    /// No packet begins like this.
    Garbage,
}

/// Reads the heads of packets in a stream.
pub trait Heads: Send {
    /// Classify what begins with `bytes` (at least one byte, perhaps much more than one packet). The stricter this is, the
    /// sooner a disturbed stream is resynchronised: anything that a true head cannot contain is [`Found::Garbage`].
    fn find(&self, bytes: &[u8]) -> Found;

    /// Bytes of the longest head accepted. A connection keeps that many.
    fn longest_head(&self) -> usize;

    /// Bytes with which every head begins: the search for the next head jumps to the first of them. Empty if unknown.
    fn magic(&self) -> &[u8] {
        &[]
    }
}

/// A packet, or a part of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its sender.
    pub sender: &'a SocketAddr,
    /// Number of the connection in this source, from 0; never reused.
    pub connection: u64,
    /// The whole head, with every piece.
    pub head: &'a [u8],
    /// Where `bytes` begin in the body.
    pub at: u64,
    /// Bytes of the whole body.
    pub body: u64,
    /// The next bytes of the body.
    pub bytes: &'a [u8],
}

impl Piece<'_> {
    /// Whether the packet ends with it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.at + self.bytes.len() as u64 == self.body
    }
}

/// What happens on the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEvent<'a> {
    /// A sender connected.
    Opened {
        /// Its number.
        connection: u64,
        /// Its address.
        sender: SocketAddr,
    },
    /// The next part of a packet. Packets up to [`PieceOptions::whole`] arrive whole (`at` is 0, and it is the last).
    Piece(Piece<'a>),
    /// A connection was closed at once: it came from another sender than the one configured, or exceeded
    /// [`PieceOptions::connections`].
    Refused {
        /// Its address.
        sender: SocketAddr,
    },
    /// Bytes that belong to no packet, or to a short one that broke off, were skipped; the next packet follows, or the
    /// end of the connection.
    Skipped {
        /// Where.
        connection: u64,
        /// How many since the last packet.
        bytes: u64,
    },
    /// The connection ended; nothing more arrives from it.
    Closed {
        /// Which.
        connection: u64,
        /// How it ended.
        how: End,
    },
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Closed by the sender between two packets.
    Orderly,
    /// Reset by the sender or something on the way.
    Reset,
    /// The sender no longer answers.
    TimedOut,
    /// Closed by the sender in the middle of a packet.
    MidPacket,
}

/// Receiver of the pieces. Every `FnMut(PieceEvent)` is one.
pub trait PieceSink {
    /// Handle an event. `poll` waits while this runs: a sink that blocks holds all senders back.
    fn event(&mut self, event: PieceEvent<'_>);

    /// Take a piece or decline it. A declined piece holds back its own connection only: it is offered again in later
    /// polls, some milliseconds apart, and nothing that was sent after it is delivered before it. A piece that can no
    /// longer be declined, because its connection has ended, is passed to [`event`](Self::event) instead.
    fn offer(&mut self, piece: &Piece<'_>) -> bool {
        self.event(PieceEvent::Piece(*piece));
        true
    }

    /// Memory for the next bytes of a long body, up to `most`, to be read directly from the socket; `head` and the
    /// position in the body are as in [`Piece`]. `None`: the bytes arrive as a [`PieceEvent::Piece`].
    fn room(&mut self, connection: u64, head: &[u8], at: u64, most: usize) -> Option<&mut [u8]> {
        let _ = (connection, head, at, most);
        None
    }

    /// This many bytes were read into the last [`room`](Self::room), from its beginning; perhaps 0. Called once for
    /// each room.
    fn filled(&mut self, connection: u64, bytes: usize) {
        let _ = (connection, bytes);
    }

    /// Everything from one read was delivered: the moment to release a lock, and to [`fence`](crate::copy::fence) what
    /// was copied.
    fn done(&mut self) {}
}

impl<F: FnMut(PieceEvent<'_>)> PieceSink for F {
    fn event(&mut self, event: PieceEvent<'_>) {
        self(event);
    }
}

/// How to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceOptions {
    /// Longest body; a head that announces a longer one is rejected.
    pub longest_body: u64,
    /// Packets up to this length, head and body, are delivered whole. A connection keeps a buffer of this size,
    /// allocated when it opens.
    pub whole: usize,
    /// Most simultaneous connections, limited to three quarters of the descriptors that the process may have; further
    /// connections are closed at once and counted.
    pub connections: usize,
    /// Total number of connections to accept; then the listener closes. `None`: any number.
    pub accept: Option<u64>,
    /// Time after which a silent connection is probed with keep-alives; it is given up after twice as long.
    pub keepalive: Duration,
    /// After this much silence, an incomplete packet that the search found is rejected.
    pub belief: Duration,
}

impl Default for PieceOptions {
    fn default() -> Self {
        Self {
            longest_body: 4 << 30,
            whole: 72 << 10,
            connections: 1024,
            accept: None,
            keepalive: Duration::from_secs(10),
            belief: Duration::from_secs(1),
        }
    }
}

/// What was received, what was not, and how connections ended. `bytes` equals `told + skipped + pending` at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PieceStats {
    /// Bytes read from the sockets: the payload of TCP.
    pub bytes: u64,
    /// Of these, bytes of packets that were delivered, including heads, whether or not the packet was completed.
    pub told: u64,
    /// Of these, bytes of heads.
    pub heads: u64,
    /// Packets received completely.
    pub packets: u64,
    /// Bytes in them, including heads.
    pub packet_bytes: u64,
    /// Pieces delivered, and rooms filled.
    pub pieces: u64,
    /// Bytes that belonged to no packet, or to a short one that broke off.
    pub skipped: u64,
    /// Bytes that are not yet identified, or not yet taken.
    pub pending: u64,
    /// Times a connection was held back.
    pub held: u64,
    /// Times the stream was lost.
    pub lost: u64,
    /// Times it was found again.
    pub found: u64,
    /// System calls that brought bytes.
    pub reads: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections closed at once: from another sender than the one configured, or too many.
    pub refused: u64,
    /// Connections that ended between packets.
    pub orderly: u64,
    /// Connections that were reset.
    pub resets: u64,
    /// Connections whose sender no longer answered.
    pub timed_out: u64,
    /// Connections closed by the sender in the middle of a packet.
    pub mid_packet: u64,
    /// What passed through the interface in that time.
    pub interface: Option<InterfaceWatch>,
    /// Remedies, as exact commands.
    pub remedies: Vec<String>,
}
