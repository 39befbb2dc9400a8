//! How heaps travel.

use serde::{Deserialize, Serialize};

/// How heaps travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Packets as datagrams.
    Udp,
    /// Consecutive packets in a TCP connection.
    Tcp,
    /// Each heap one packet in a TCP connection.
    TcpHeaps,
}

impl Way {
    /// As in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Udp => "UDP",
            Way::Tcp => "TCP",
            Way::TcpHeaps => "TCP, whole heaps",
        }
    }
}
