//! What a comparison with other programs measures.

use skyhaul::stop::StopFlag;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What to compare, and how.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// The `skyhaul` program.
    pub program: PathBuf,
    /// Paths of peers by their names in [`PEER_PROGRAMS`](super::PEER_PROGRAMS); others are searched in `PATH`.
    pub paths: Vec<(&'static str, PathBuf)>,
    /// Rows by name; empty: all.
    pub only: Vec<String>,
    /// Length of each run.
    pub time: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Address to receive on.
    pub address: IpAddr,
    /// CPUs of the sender and the receiver.
    pub cpus: (usize, usize),
    /// A program that takes this much longer than a run failed.
    pub timeout: Duration,
    /// Ends it early; the report then has the results until then.
    pub stop: StopFlag,
}
