//! How heaps travel.

use serde::{Deserialize, Serialize};

/// How heaps travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeapTransport {
    /// Packets as datagrams.
    Udp,
    /// Consecutive packets in a TCP connection.
    Tcp,
    /// Each heap one packet in a TCP connection.
    TcpHeaps,
}

impl HeapTransport {
    /// As in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HeapTransport::Udp => "UDP",
            HeapTransport::Tcp => "TCP",
            HeapTransport::TcpHeaps => "TCP, whole heaps",
        }
    }
}
