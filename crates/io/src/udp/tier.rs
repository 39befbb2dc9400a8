//! Options for receiving: the tier, and the socket's settings.

use crate::quantity::Size;
use std::time::Duration;

/// How packets are read from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// The fastest that the host and the traffic allow.
    #[default]
    Auto,
    /// Coalesced trains (GRO) into a cache-hot scratch.
    Stage,
    /// Single packets, many per system call.
    Plain,
    /// A ring of packets shared with the kernel; needs CAP_NET_RAW.
    Ring,
}

/// How to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// How packets are read from the kernel.
    pub tier: Tier,
    /// Receive buffer to request, unless the address has `rcvbuf=`.
    pub buffer: Size,
    /// Share the port with other sockets: the kernel distributes senders over them.
    pub reuse_port: bool,
    /// Request the kernel's arrival times.
    pub timestamps: bool,
    /// Note the time to live (IPv6: hop limit) of each train. Tiers that read sockets do.
    pub hops: bool,
    /// Spin this long in the kernel before sleeping.
    pub busy_poll: Option<Duration>,
    /// At high rates, let packets gather for at most this long, to wake up less often. Zero receives each at once, at
    /// several times the CPU time.
    pub gather: Duration,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            tier: Tier::Auto,
            buffer: Size::from_bytes(256 << 20),
            reuse_port: false,
            timestamps: true,
            hops: false,
            busy_poll: None,
            gather: Duration::from_millis(1),
        }
    }
}
