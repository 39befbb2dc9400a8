//! What a sending stream is told, and what it tells.

use super::outlet::Outlet;
use serde::{Deserialize, Serialize};
use skyhaul_core::control::ControlConfig;
use skyhaul_core::wire::spead::packets::{PacketError, Split};
use skyhaul_io::udp::send::TRAIN_BYTES;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSize {
    /// At most so many bytes of packet (datagram payload), cut to a multiple of 8; at least 56.
    Packet(usize),
    /// Exactly so many bytes of heap payload in every packet but the last, however many pointers it carries.
    Payload(usize),
    /// A heap is one packet: for TCP, bytes and in-process queues.
    Heap,
}

/// How a stream sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendConfig {
    /// How long packets are.
    pub packet: PacketSize,
    /// How heaps are divided into packets.
    pub split: Split,
    /// Bits per second of packets (datagram payload); 0 is as fast as possible.
    pub rate: u64,
    /// Let receivers steer the rate ([`control`](crate::control)); then [`rate`](Self::rate) is not looked
    /// at. UDP to receivers that answer, not to groups; a receiver that does not answer is sent the least rate.
    pub auto: Option<ControlConfig>,
    /// Bytes that may go out at once where there is a rate.
    pub burst_bytes: usize,
    /// Most heaps that wait in the queue or are being sent.
    pub max_heaps: usize,
    /// What a sender that was held up makes up at once.
    pub tolerance: Duration,
    /// What it makes up at all, at a rate 5 % higher. It counts as slipped what is more.
    pub slack: Duration,
    /// How long dropping the stream waits for what is queued.
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

    /// Whether packets of this size can be sent there at all.
    pub(super) fn check(&self, outlet: &Outlet) -> Result<(), SendError> {
        let wrong = |text: String| Err(SendError::Config(text));
        let udp = matches!(outlet, Outlet::Udp(_));
        if outlet.substreams() == 0 {
            return wrong("send to nowhere; hint: give at least one destination".into());
        }
        if self.auto.is_some() && !udp {
            return wrong("let receivers steer the rate of what is not UDP; hint: TCP finds its own, elsewhere give a rate".into());
        }
        if let Some(group) = outlet.group().filter(|_| self.auto.is_some()) {
            return wrong(format!(
                "let the receivers of the group {group} steer the rate, of which there may be many; hint: give a rate, or \
                 send to one receiver's own address"
            ));
        }
        match self.packet {
            PacketSize::Packet(bytes) if bytes < 56 => {
                wrong(format!("send packets of {bytes} bytes; hint: at least 56, 1472 for an MTU of 1500"))
            }
            PacketSize::Packet(bytes) | PacketSize::Payload(bytes) if udp && bytes > TRAIN_BYTES => wrong(
                format!("send packets of {bytes} bytes by UDP; hint: at most {TRAIN_BYTES}, 8972 for an MTU of 9000"),
            ),
            PacketSize::Payload(0) => wrong("send packets without payload; hint: at least 1 byte".into()),
            PacketSize::Heap if udp => wrong(
                "send whole heaps as packets by UDP, which carries at most 65507 bytes; hint: tcp://, or a packet size"
                    .into(),
            ),
            _ => Ok(()),
        }
    }
}

/// What is particular to one heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapOptions {
    /// Its counter, cut to the flavour's bits; `None`: the next of the stream's sequence.
    pub counter: Option<u64>,
    /// Which destination.
    pub substream: usize,
    /// Bits per second for this heap; `None`: the stream's.
    pub rate: Option<u64>,
}

/// In which order the packets of several heaps go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One heap after the other.
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
        "queue {more} heaps: {waiting} of at most {most} wait already; hint: wait for a ticket, or raise max_heaps"
    )]
    Full {
        /// Heaps to be queued.
        more: usize,
        /// Heaps that wait.
        waiting: usize,
        /// Most heaps that may.
        most: usize,
    },
    /// Somebody cancelled it.
    #[error("cancelled before all of it was sent")]
    Cancelled,
    /// It ended in the middle of a packet when it was cancelled, and so did the connection.
    #[error("send on a connection that was cut in the middle of a packet by cancelling; hint: connect again")]
    Cut,
    /// The stream was closed.
    #[error("send on a stream that is closed; hint: make a new one")]
    Closed,
    /// It was called where the stream's own thread runs, which would wait for itself.
    #[error(
        "wait in a callback of this stream's own thread, which would wait for itself; hint: queue heaps there, and wait elsewhere"
    )]
    OwnThread,
    /// There is no such destination.
    #[error("no substream {asked}: this stream has {have}; hint: number them from 0")]
    NoSubstream {
        /// Asked for.
        asked: usize,
        /// How many there are.
        have: usize,
    },
    /// The settings cannot be.
    #[error("{0}")]
    Config(String),
    /// The heap cannot be divided into packets.
    #[error("{0}")]
    Packets(#[from] PacketError),
    /// An item is shorter than it was.
    #[error(
        "an item of the heap has become shorter since it was added; hint: keep its length, or make a new heap"
    )]
    Changed,
    /// The socket.
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
    /// Heaps all packets of which were handed on.
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
    /// Reports that nobody listens there (ICMP), for earlier packets.
    pub unreachable: u64,
    /// System calls that sent, where they are counted.
    pub calls: u64,
    /// Seconds the schedule slipped because the sender was held up.
    pub slipped_seconds: f64,
    /// CPU seconds of sending.
    pub cpu_seconds: f64,
    /// Heaps that wait or are being sent.
    pub waiting: u64,
}
