//! Settings, errors and statistics of a sending stream.

use super::outlet::Outlet;
use serde::{Deserialize, Serialize};
use skyhaul_core::control::ControlConfig;
use skyhaul_core::wire::spead::packets::{PacketError, Split};
use skyhaul_io::udp::send::TRAIN_BYTES;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Packet size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSize {
    /// Maximum packet size in bytes (datagram payload), rounded down to a multiple of 8; at least 56.
    Packet(usize),
    /// Exact number of bytes of heap payload in every packet but the last, however many pointers it carries.
    Payload(usize),
    /// A heap is one packet: for TCP, bytes and in-process queues.
    Heap,
}

/// How a stream sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendConfig {
    /// Packet size.
    pub packet: PacketSize,
    /// How heaps are divided into packets.
    pub split: Split,
    /// Bits per second of packets (datagram payload); 0 is as fast as possible.
    pub rate: u64,
    /// Let receivers control the rate ([`control`](crate::control)); [`rate`](Self::rate) is then ignored.
    /// For UDP to receivers that give feedback, not to multicast groups; without feedback, the minimum rate is sent.
    pub auto: Option<ControlConfig>,
    /// Bytes that may be sent at once if there is a rate.
    pub burst_bytes: usize,
    /// Maximum number of heaps queued or being sent.
    pub max_heaps: usize,
    /// Delay that a sender makes up at once.
    pub tolerance: Duration,
    /// Delay that it makes up at a 5 % higher rate. Anything beyond counts as slipped.
    pub slack: Duration,
    /// How long dropping the stream waits for queued heaps.
    pub linger: Duration,
    /// Processor for the stream's own thread.
    pub cpu: Option<usize>,
}

impl Default for SendConfig {
    fn default() -> Self {
        Self {
            packet: PacketSize::Packet(1472),
            split: Split::Even,
            rate: 0,
            auto: None,
            burst_bytes: 65_536,
            max_heaps: 4,
            tolerance: Duration::from_millis(1),
            slack: Duration::from_millis(100),
            linger: Duration::from_secs(10),
            cpu: None,
        }
    }
}

impl SendConfig {
    /// The rate before any report.
    pub(super) fn first_rate(&self) -> u64 {
        self.auto.map_or(self.rate, |auto| auto.start)
    }

    /// Check that packets of this size can be sent there.
    pub(super) fn check(&self, outlet: &Outlet) -> Result<(), SendError> {
        let wrong = |text: String| Err(SendError::Config(text));
        let udp = matches!(outlet, Outlet::Udp(_));
        if outlet.substreams() == 0 {
            return wrong("no destination; hint: give at least one".into());
        }
        if self.auto.is_some() && !udp {
            return wrong(
                "automatic rates work only over UDP; hint: TCP controls its own rate; otherwise give a rate"
                    .into(),
            );
        }
        if let Some(group) = outlet.group().filter(|_| self.auto.is_some()) {
            return wrong(format!(
                "automatic rates need a single receiver, and the group {group} may have many receivers; hint: give a rate, or \
                 send to one receiver's own address"
            ));
        }
        match self.packet {
            PacketSize::Packet(bytes) if bytes < 56 => {
                wrong(format!("packets of {bytes} bytes are too small; hint: use at least 56, or 1472 for an MTU of 1500"))
            }
            PacketSize::Packet(bytes) | PacketSize::Payload(bytes) if udp && bytes > TRAIN_BYTES => wrong(
                format!("packets of {bytes} bytes are too large for UDP; hint: use at most {TRAIN_BYTES}, or 8972 for an MTU of 9000"),
            ),
            PacketSize::Payload(0) => wrong("packets without payload are not possible; hint: use at least 1 byte".into()),
            PacketSize::Heap if udp => wrong(
                "whole heaps as packets do not fit into UDP, which carries at most 65507 bytes; hint: use tcp://, or give a packet size"
                    .into(),
            ),
            _ => Ok(()),
        }
    }
}

/// Settings of one heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapOptions {
    /// Its counter, truncated to the flavour's bits; `None`: the next of the stream's sequence.
    pub counter: Option<u64>,
    /// Its destination.
    pub substream: usize,
    /// Bits per second for this heap; `None`: the stream's.
    pub rate: Option<u64>,
}

/// The order in which the packets of several heaps are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One heap after another.
    #[default]
    Serial,
    /// A packet of each heap in turn; heaps with fewer packets end earlier.
    RoundRobin,
}

/// Why something was not sent, or not all of it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The queue holds as many heaps as it may.
    #[error(
        "queue {more} heaps: {waiting} of at most {most} are already waiting; hint: wait for a ticket, or raise max_heaps"
    )]
    Full {
        /// Heaps to queue.
        more: usize,
        /// Heaps waiting.
        waiting: usize,
        /// Maximum number of waiting heaps.
        most: usize,
    },
    /// It was cancelled.
    #[error("cancelled before everything was sent")]
    Cancelled,
    /// It was cancelled in the middle of a packet, which closed the connection.
    #[error("the connection was closed when a packet was cancelled midway; hint: connect again")]
    Cut,
    /// The stream was closed.
    #[error("the stream is closed; hint: create a new one")]
    Closed,
    /// It was called on the stream's own thread, which would wait for itself.
    #[error(
        "a callback on this stream's own thread cannot wait, because it would wait for itself; hint: queue heaps there, and wait elsewhere"
    )]
    OwnThread,
    /// The destination does not exist.
    #[error("no substream {asked}: this stream has {have}; hint: number them from 0")]
    NoSubstream {
        /// The number requested.
        asked: usize,
        /// How many there are.
        have: usize,
    },
    /// The settings are invalid.
    #[error("{0}")]
    Config(String),
    /// The heap cannot be divided into packets.
    #[error("{0}")]
    Packets(#[from] PacketError),
    /// An item is shorter than it was.
    #[error(
        "an item of the heap has become shorter since it was added; hint: keep its length, or create a new heap"
    )]
    Changed,
    /// The socket failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        SendError::Io(Arc::new(error))
    }
}

/// What a stream has sent so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendStats {
    /// Heaps whose packets were all handed to the transport.
    pub heaps: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes of heap payload.
    pub payload_bytes: u64,
    /// Bytes of packets: what the network carries, without its own headers.
    pub wire_bytes: u64,
    /// Heaps that were cancelled, begun or not.
    pub cancelled: u64,
    /// Heaps that ended with an error.
    pub failed: u64,
    /// Packets the kernel refused.
    pub refused: u64,
    /// ICMP errors for earlier packets: no receiver is listening.
    pub unreachable: u64,
    /// System calls for sending, if they are counted.
    pub calls: u64,
    /// Seconds the schedule slipped because the sender was held up.
    pub slipped_seconds: f64,
    /// CPU seconds of sending.
    pub cpu_seconds: f64,
    /// Heaps queued or being sent.
    pub waiting: u64,
}
