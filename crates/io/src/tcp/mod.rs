//! TCP: self-delimiting packets in a stream.
//!
//! ```text
//!   connection  ▐ packet ▐ packet ▐ pack┆et ▐ packet ▐      ┆ where one read ended
//!               └──────── Train ───┘
//! ```
//!
//! The packets of the supported formats state their own length, so no further framing is needed: a [`Framer`] reads the
//! length from the first bytes of a packet. A [`TcpPort`] has any number of connections; each is one sender. They are
//! read in one of two ways: [`TcpSource`] delivers whole packets in trains; [`pieces::PieceSource`] replaces it where
//! packets may be as long as a whole heap, or a stream must be resynchronised after a disturbance. [`TcpSender`] writes
//! whole packets or none.
//!
//! [`frames`] is for protocols of both directions, whose peers are answered.
//!
//! Limits: [`TcpSource`] cannot resynchronise: a connection in which the length of a packet is invalid is closed and
//! counted.
//!
//! For measurements, [`info`] reads what the kernel knows about a connection, [`bulk`] moves bytes without meaning, and
//! [`setup`] and [`tune`] set and read window, congestion control and pace; [`door`] accepts peers.

pub mod bulk;
pub mod door;
pub mod flow_label;
pub mod frames;
pub mod info;
mod last;
pub mod pieces;
mod port;
mod receive;
mod send;
pub mod send_file;
pub mod setup;
pub mod tune;

pub use last::EndWithLast;
pub use port::TcpPort;
pub use receive::{TcpOptions, TcpSource};
pub use send::{TcpSender, TcpSenderStats};
pub use setup::TcpSendOptions;

/// What the first bytes of a packet say about its length.
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

/// All packets have one length: Mark 5B frames, or any stream for which the user gives the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed(pub usize);

impl Framer for Fixed {
    fn frame(&self, _: &[u8]) -> Frame {
        Frame::Packet(self.0)
    }
}
