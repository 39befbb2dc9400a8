//! Options for limited receivers.

use super::candidate::Candidate;
use skyhaul::stop::StopFlag;
use skyhaul_io::namespace::Network;
use skyhaul_io::quantity::Share;
use std::net::IpAddr;
use std::time::Duration;

/// Options for limited receivers.
#[derive(Clone, Debug)]
pub struct LimitedOptions {
    /// Receivers to compare.
    pub candidates: Vec<Candidate>,
    /// Share of the processor for each.
    pub share: Share,
    /// Processors of the sender and the receiver.
    pub cpus: (usize, usize),
    /// Bytes of a packet, each measured in turn.
    pub packets: Vec<usize>,
    /// Bytes of a heap's payload.
    pub heap_bytes: usize,
    /// Bytes of the socket buffer that candidates must request.
    pub buffer: u64,
    /// Bits per second of packets at which CPU time is measured.
    pub rate: u64,
    /// How long each trial sends.
    pub time: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Address to receive on.
    pub address: IpAddr,
    /// Network namespaces of the sender and the receivers.
    pub networks: Option<(Network, Network)>,
    /// Ends it early; the results until then are returned.
    pub stop: StopFlag,
}
