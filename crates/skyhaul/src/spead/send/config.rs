//! Settings of a stream of heaps, and how heaps are divided into packets.

use crate::send::objects::{ObjectConfig, Waiting};
use crate::send::{Outlet, Pacing, SendError};
use skyhaul_core::control::ControlConfig;
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::spead::packets::{PacketError, Split};
use skyhaul_io::udp::send::TRAIN_BYTES;
use std::time::Duration;

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
    /// Delay that a sender makes up at once; that of a burst, if it is longer.
    pub tolerance: Duration,
    /// Delay that it makes up at a 5 % higher rate. Anything beyond counts as slipped.
    pub slack: Duration,
    /// How long dropping the stream waits for queued heaps.
    pub linger: Duration,
    /// CPU for the stream's own thread.
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

impl ObjectConfig for SendConfig {
    type Division = Division;

    fn division(&self) -> Division {
        Division { packet: self.packet, split: self.split }
    }

    fn pacing(&self) -> Pacing {
        let &Self { rate, auto, burst_bytes, tolerance, slack, .. } = self;
        Pacing { rate, auto, burst_bytes, tolerance, slack }
    }

    fn waiting(&self) -> Waiting {
        Waiting { most: self.max_heaps, linger: self.linger, cpu: self.cpu }
    }

    /// Check that packets of this size can be sent there.
    fn check(&self, outlet: &Outlet) -> Result<(), SendError> {
        let wrong = |text: String| Err(SendError::Config(text));
        let udp = matches!(outlet, Outlet::Udp(_));
        if outlet.substreams() == 0 {
            return wrong(format!("no destination{}", Hint("give at least one")));
        }
        self.pacing().check(outlet)?;
        match self.packet {
            PacketSize::Packet(bytes) if bytes < 56 => wrong(format!(
                "packets of {bytes} bytes are too small{}",
                Hint("use at least 56, or 1472 for an MTU of 1500")
            )),
            PacketSize::Packet(bytes) | PacketSize::Payload(bytes) if udp && bytes > TRAIN_BYTES => {
                wrong(format!(
                    "packets of {bytes} bytes are too large for UDP{}",
                    Hint(format_args!("use at most {TRAIN_BYTES}, or 8972 for an MTU of 9000"))
                ))
            }
            PacketSize::Payload(0) => {
                wrong(format!("packets without payload are not possible{}", Hint("use at least 1 byte")))
            }
            PacketSize::Heap if udp => wrong(format!(
                "whole heaps as packets do not fit into UDP, which carries at most 65507 bytes{}",
                Hint("use tcp://, or give a packet size")
            )),
            _ => Ok(()),
        }
    }
}

impl From<PacketError> for SendError {
    fn from(error: PacketError) -> Self {
        SendError::Packets(error.to_string())
    }
}

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

/// How heaps are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub(super) packet: PacketSize,
    pub(super) split: Split,
}
