//! What an endpoint reports, and how memory is named.

use crate::placement::Nanos;
use core::net::SocketAddr;
use std::ops::Range;

/// A part of memory that the caller knows by a number. The endpoint never touches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemorySlice {
    /// The caller's number for the memory.
    pub memory: u32,
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
}

impl MemorySlice {
    /// These bytes of it, counted from its start. They must lie within it.
    #[must_use]
    pub fn part(&self, at: u64, length: u64) -> MemorySlice {
        debug_assert!(
            at.checked_add(length).is_some_and(|end| end <= self.length),
            "{at}+{length} of {self:?}"
        );
        MemorySlice { memory: self.memory, start: self.start + at, length }
    }
}

/// Bytes of a datagram and their place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceBytes {
    /// In the datagram, segment or frame that was taken.
    pub from: Range<usize>,
    /// In memory; of the same length.
    pub to: MemorySlice,
    /// The connection that brought it.
    pub connection: u32,
    /// The number of its message, where messages are numbered (UC).
    pub message: Option<u64>,
}

/// A place in a region of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The region's STag: index (24 bits) and key (8 bits).
    pub stag: u32,
    /// First byte, from the start of the region.
    pub offset: u64,
}

/// A Write to be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteWrite {
    /// The bytes to write, in memory of this side.
    pub source: MemorySlice,
    /// Where they are written.
    pub to: RemoteAddress,
    /// For the peer's program, reported when all bytes of this Write are there.
    pub immediate: Option<u64>,
    /// Wakes the peer's program; only with immediate data.
    pub is_solicited: bool,
}

/// A Read to be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRead {
    /// Where the bytes go, in memory of this side. Its length is that of the Read: 1 byte to 4 GiB.
    pub sink: MemorySlice,
    /// What is read.
    pub from: RemoteAddress,
    /// When it ends, complete or not.
    pub deadline: Nanos,
    /// Ask again for what is missing soon after the end of an answer, or of the answer to a later request, has arrived without it, and when
    /// nothing comes for longer than answers take on this connection; after each such time where that is not known. `None`: ask once.
    pub ask_again: Option<Nanos>,
}

crate::named! {
    /// Why a connection has ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ClosedBy {
        /// This side closed it, and the peer confirmed.
        Here = "here",
        /// The peer closed it.
        Peer = "peer",
        /// The peer rejected it.
        Rejected = "rejected",
        /// The peer did not answer in time.
        Silence = "silence",
        /// The peer ended it with a Terminate.
        Terminated = "terminated",
        /// A frame or segment of the peer broke the rules of an ordered stream, or the stream ended inside a frame (TCP).
        Broken = "broken",
        /// The stream was reset by the peer, or by a host between (TCP).
        Reset = "reset",
    }
}

/// What has happened. `connection` is the number of the connection at this endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RdmaEvent {
    /// A peer with a proven address asks for a connection: call `accept` or `reject`.
    Requested {
        /// The connection.
        connection: u32,
        /// The peer.
        peer: SocketAddr,
        /// The peer's private data.
        private: Vec<u8>,
    },
    /// The connection is ready.
    Connected {
        /// The connection.
        connection: u32,
        /// The peer's private data.
        private: Vec<u8>,
    },
    /// The connection has ended; its numbers mean nothing from now on.
    Closed {
        /// The connection.
        connection: u32,
        /// Why.
        by: ClosedBy,
        /// Datagrams of the peer that did not arrive, where its segments are numbered (UC).
        datagrams_lost: u64,
    },
    /// A Write of the peer has ended. Offsets count from the start of the region.
    Written {
        /// The connection.
        connection: u32,
        /// Its number among the messages of the peer, where they are numbered (UC).
        message: Option<u64>,
        /// The region; 0 if only the immediate data arrived.
        stag: u32,
        /// The ranges that were written.
        valid: Vec<Range<u64>>,
        /// The ranges that were not, as far as known.
        missing: Vec<Range<u64>>,
        /// Whether all bytes and the immediate data, if any, are there. On the bare profile this cannot be known: never.
        is_complete: bool,
        /// Immediate data, if it arrived.
        immediate: Option<u64>,
        /// The peer asked for this program to be woken.
        is_solicited: bool,
    },
    /// A Send of the peer has ended, in the buffer that was posted for it. Offsets count from the start of the buffer.
    Received {
        /// The connection.
        connection: u32,
        /// Its number among the messages of the peer, where they are numbered (UC).
        message: Option<u64>,
        /// The buffer.
        buffer: MemorySlice,
        /// Length of the message, if its end arrived.
        size: Option<u64>,
        /// The ranges that arrived.
        valid: Vec<Range<u64>>,
        /// The ranges that did not; if `size` is unknown, up to the furthest byte that did.
        missing: Vec<Range<u64>>,
        /// The region that the message invalidated.
        invalidated: Option<u32>,
        /// The peer asked for this program to be woken.
        is_solicited: bool,
    },
    /// Immediate data that belongs to no Write, or cannot be told to (bare, TCP).
    Immediate {
        /// The connection.
        connection: u32,
        /// The data.
        value: u64,
        /// The peer asked for this program to be woken.
        is_solicited: bool,
    },
    /// Messages that were lost whole, by their numbers.
    MessagesLost {
        /// The connection.
        connection: u32,
        /// Their numbers.
        messages: Range<u64>,
    },
    /// A Read has ended: complete if nothing is missing. No byte is written from now on.
    ReadDone {
        /// The connection.
        connection: u32,
        /// The Read.
        read: u64,
        /// The ranges that did not arrive, from the start of its buffer.
        missing: Vec<Range<u64>>,
        /// Requests that were sent for it.
        asked: u32,
    },
    /// The last byte of an operation was handed out for sending: its memory may be used again.
    Sent {
        /// The connection.
        connection: u32,
        /// The operation.
        operation: u64,
    },
}
