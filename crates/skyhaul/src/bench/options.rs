//! What is measured, how hard, and where.

use super::Stop;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes on their way before a closed loop's sender waits.
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
}

/// How hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As fast as nothing is lost.
    Closed,
    /// Bits per second of datagram payload.
    Rate(u64),
    /// The highest rate at which nothing is lost.
    Search,
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// What.
    pub what: What,
    /// Bytes of a datagram, each measured in turn; rounded down to what VDIF can have (a multiple of 8).
    pub sizes: Vec<usize>,
    /// How long each run lasts.
    pub time: Duration,
    /// How often each candidate has its turn.
    pub rounds: usize,
    /// How hard.
    pub load: Load,
    /// Candidates by name; empty takes all that suit.
    pub candidates: Vec<String>,
    /// Whether senders give trains; else single packets.
    pub gso: bool,
    /// Address to receive on.
    pub address: IpAddr,
    /// Network namespaces of the sender and the receiver.
    pub networks: Option<(String, String)>,
    /// Processors of the sender and the receiver.
    pub cpus: (usize, usize),
    /// Bytes that packets are placed into, over and over.
    pub memory: usize,
    /// Where to record.
    pub directory: Option<PathBuf>,
    /// Bytes of each recording.
    pub record_bytes: u64,
    /// Ends it early: the report then holds what was measured until then.
    pub stop: Stop,
}

/// What was asked for cannot be measured.
pub(super) fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
