//! Options of a benchmark.

use serde::{Deserialize, Serialize};
use skyhaul::stop::StopFlag;
use skyhaul_core::wire::Format;
use skyhaul_io::namespace::Network;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes in flight before a closed loop's sender waits.
pub const WINDOW: u64 = 1 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Receiving and placing.
    Receive,
    /// Sending.
    Send,
    /// Recording to one disk.
    Record,
    /// Forwarding packets to the members of a balancer.
    Balance,
    /// Forwarding frames between the ends of a lab.
    Lab,
}

/// Kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As fast as possible without loss.
    Closed,
    /// Bits per second of datagram payload.
    Rate(u64),
    /// The highest rate at which nothing is lost.
    Search,
}

/// Options of a benchmark.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// What is measured.
    pub what: What,
    /// Frames, heaps or events of this format; [`Format::Auto`] takes the first that can be generated.
    pub format: Format,
    /// Payload of a heap or event, approximately.
    pub object_bytes: usize,
    /// Bytes of a datagram, each measured in turn; rounded down to what the format allows.
    pub sizes: Vec<usize>,
    /// How long each run lasts.
    pub time: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Kind of load.
    pub load: Load,
    /// Candidates by name; empty: all that are suitable.
    pub candidates: Vec<String>,
    /// Whether senders send trains; else single packets.
    pub gso: bool,
    /// Address to receive on.
    pub address: IpAddr,
    /// Network namespaces of the sender and the receiver.
    pub networks: Option<(Network, Network)>,
    /// Processors of the sender and the receiver.
    pub cpus: (usize, usize),
    /// Bytes of the memory into which packets are placed repeatedly.
    pub memory: usize,
    /// Where to record.
    pub directory: Option<PathBuf>,
    /// Bytes of each recording.
    pub record_bytes: u64,
    /// Ends it early; the report then has the results until then.
    pub stop: StopFlag,
}

/// The error for options that cannot be measured.
pub(super) fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
