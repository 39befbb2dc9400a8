//! What a sender counts.

use serde::{Deserialize, Serialize};

/// What a stream has sent so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendStats {
    /// Heaps or events whose packets were all handed to the transport.
    pub objects: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes of their payload.
    pub payload_bytes: u64,
    /// Bytes of packets: what the network carries, without its own headers.
    pub wire_bytes: u64,
    /// Those that were cancelled, begun or not.
    pub cancelled: u64,
    /// Those that ended with an error.
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
    /// Those queued or being sent.
    pub waiting: u64,
}
