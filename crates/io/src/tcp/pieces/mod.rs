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
//! /// A length in 8 bytes, then so many bytes.
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
mod read;
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
    /// A packet: so many bytes of head, then so many of body.
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

    /// Bytes of the longest head accepted. A connection keeps as much.
    fn longest_head(&self) -> usize;

    /// Bytes that every head begins with: the search for the next head jumps to the first of them. Empty: none known.
    fn magic(&self) -> &[u8] {
        &[]
    }
}

/// A packet, or a part of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its sender.
    pub sender: &'a SocketAddr,
    /// Which connection of this source, counted from 0, never used twice.
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
    /// The next part of a packet. Packets up to [`PieceOptions::whole`] come whole (`at` is 0, and it is the last).
    Piece(Piece<'a>),
    /// Somebody connected and was closed at once: not the sender asked for, or one more than
    /// [`PieceOptions::connections`].
    Refused {
        /// Its address.
        sender: SocketAddr,
    },
    /// Bytes that belong to no packet, or to a short one that broke off, were passed over; the next packet follows, or
    /// the end.
    Skipped {
        /// Where.
        connection: u64,
        /// How many since the last packet.
        bytes: u64,
    },
    /// Nothing more comes of this connection.
    Closed {
        /// Which.
        connection: u64,
        /// In which way it ended.
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

/// Who takes the pieces. Every `FnMut(PieceEvent)` does.
pub trait PieceSink {
    /// What happened. `poll` waits while this runs: a sink that waits holds the senders back, all of them.
    fn event(&mut self, event: PieceEvent<'_>);

    /// A piece, to be taken or left. One that is left holds back its connection and no other: it is offered again in
    /// later polls, some milliseconds apart, and nothing of what was sent after it before. What must be taken, for nothing
    /// more comes of the connection, is an [`event`](Self::event).
    fn offer(&mut self, piece: &Piece<'_>) -> bool {
        self.event(PieceEvent::Piece(*piece));
        true
    }

    /// A place for the next bytes of a long body, up to `most`, to be read straight from the socket; the head and
    /// where in the body they begin are as in [`Piece`]. None: they come as a [`PieceEvent::Piece`].
    fn room(&mut self, connection: u64, head: &[u8], at: u64, most: usize) -> Option<&mut [u8]> {
        let _ = (connection, head, at, most);
        None
    }

    /// So many bytes came into the last [`room`](Self::room), from its beginning; perhaps none. Once for each room.
    fn filled(&mut self, connection: u64, bytes: usize) {
        let _ = (connection, bytes);
    }

    /// All that one read brought was told: the place to let go of a lock, and to
    /// [`fence`](crate::copy::fence) what was copied.
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
    /// A head that claims a longer body is none.
    pub longest_body: u64,
    /// Packets up to this length, head and body, come whole. A connection keeps as much, taken when it opens.
    pub whole: usize,
    /// Most connections at a time, and at most three quarters of the descriptors that the process may have; more are
    /// closed at once, and counted.
    pub connections: usize,
    /// Connections to accept in all; then the listener closes. None: any number.
    pub accept: Option<u64>,
    /// Time after which a silent connection is probed with keep-alives; it is given up after twice as long.
    pub keepalive: Duration,
    /// After this much silence, a packet only begun while searching is rejected.
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
    /// Bytes read from the sockets: those on the wire, without the transport's own.
    pub bytes: u64,
    /// Of these, bytes of packets that were delivered, including heads, whether or not the packet was completed.
    pub told: u64,
    /// Of these, bytes of heads.
    pub heads: u64,
    /// Packets received to their end.
    pub packets: u64,
    /// Bytes in them, heads too.
    pub packet_bytes: u64,
    /// Pieces handed on, and rooms filled.
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
    /// Connections whose sender fell silent for good.
    pub timed_out: u64,
    /// Connections closed by the sender in the middle of a packet.
    pub mid_packet: u64,
    /// What passed through the interface meanwhile.
    pub interface: Option<InterfaceWatch>,
    /// What would help, as exact commands.
    pub remedies: Vec<String>,
}
