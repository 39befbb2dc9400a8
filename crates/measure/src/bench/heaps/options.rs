//! Options of a run of pairs.

use super::way::Way;
use serde::{Deserialize, Serialize};
use skyhaul::stop::StopFlag;
use skyhaul_io::namespace::Network;
use std::net::IpAddr;
use std::time::Duration;

/// The kind of receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Receiving {
    /// Loops without SPEAD at both ends.
    Bare,
    /// None for UDP, a loop that discards for TCP.
    Light,
    /// A receiving stream.
    Spead,
}

impl Receiving {
    /// As in progress lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Receiving::Bare => "bare loops",
            Receiving::Light => "light receiver",
            Receiving::Spead => "SPEAD receiver",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct PairOptions {
    /// How many pairs.
    pub pairs: usize,
    /// The transport.
    pub way: Way,
    /// The kind of receiver.
    pub receiving: Receiving,
    /// Bytes of a packet.
    pub packet: usize,
    /// Bytes of the socket buffers.
    pub buffer: u64,
    /// Bytes of a heap's payload.
    pub heap_bytes: usize,
    /// Bits per second of each sender; 0 as fast as possible.
    pub rate: u64,
    /// How long each sender sends.
    pub time: Duration,
    /// Addresses to receive on; pairs take turns.
    pub addresses: Vec<IpAddr>,
    /// Network namespaces of senders and receivers.
    pub networks: Option<(Network, Network)>,
    /// Ends it early; its figures are then meaningless.
    pub stop: StopFlag,
}
