//! TCP: packets that say their own length, in a stream.
//!
//! ```text
//!   connection  ▐ packet ▐ packet ▐ pack┆et ▐ packet ▐      ┆ where one read ended
//!               └──────── Train ───┘
//! ```
//!
//! The formats carried are self-describing, so nothing is put around them: a [`Framer`] reads a packet's length from
//! its first bytes. A [`TcpPort`] has any number of connections; each is one sender. They are read in one of two ways:
//! [`TcpSource`] gives whole packets in trains; [`pieces::PieceSource`] takes its place where packets may be as long as a
//! whole heap, or a stream must be found again after a disturbance. [`TcpSender`] writes whole packets or none.
//!
//! Limits: [`TcpSource`] does not trust a stream any more in which the length of a packet is wrong: it is closed and
//! counted.
//!
//! For measurements, [`info`] is what the kernel knows of a connection, [`bulk`] moves bytes that mean nothing, and
//! [`setup`] and [`tune`] set and read window, congestion control and pace; [`door`] and [`wait`] let peers in.

pub mod bulk;
pub mod door;
mod gather;
pub mod info;
mod open;
pub mod pieces;
mod port;
mod receive;
mod send;
pub mod setup;
mod trains;
pub mod tune;
pub mod wait;

pub use open::TcpSendOptions;
pub use port::TcpPort;
pub use receive::{TcpOptions, TcpSource};
pub use send::{TcpSender, TcpSenderStats};

/// What the first bytes of a packet say of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Too few bytes to decide.
    Incomplete,
    /// The packet is this long, counted from its first byte.
    Packet(usize),
    /// Not a packet.
    Garbage,
}

/// Finds where packets end in a stream.
pub trait Framer: Send {
    /// The length of the packet that begins with `head` (at least one byte; perhaps much more than the packet).
    fn frame(&self, head: &[u8]) -> Frame;
}

impl<F: Fn(&[u8]) -> Frame + Send> Framer for F {
    fn frame(&self, head: &[u8]) -> Frame {
        self(head)
    }
}

/// All packets are of one length: Mark 5B frames, or any stream whose length the user gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed(pub usize);

impl Framer for Fixed {
    fn frame(&self, _: &[u8]) -> Frame {
        Frame::Packet(self.0)
    }
}
