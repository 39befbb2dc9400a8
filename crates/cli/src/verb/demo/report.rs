//! What the demo of a recorder measured, and what it proves.

use serde::Serialize;
use skyhaul::recorder::RecordReport;
use skyhaul::recording::CheckReport;
use skyhaul::report::ReceiveReport;
use skyhaul::send::SendReport;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct DemoReport {
    pub(crate) version: u32,
    /// The command that produced it.
    pub(crate) command: String,
    pub(crate) machine: String,
    pub(crate) faults: String,
    /// Number of the first packet sent.
    pub(crate) first_number: u64,
    pub(crate) sent: SendReport,
    pub(crate) recorded: RecordReport,
    pub(crate) second: ReceiveReport,
    pub(crate) check: CheckReport,
    pub(crate) proofs: Vec<Proof>,
    /// Bytes written to each disk, by time since the start in seconds.
    pub(crate) disks_over_time: Vec<(f64, Vec<u64>)>,
}

/// A claim, and whether it is true.
#[derive(Debug, Serialize)]
pub(crate) struct Proof {
    pub(crate) claim: &'static str,
    pub(crate) held: bool,
    pub(crate) evidence: String,
}
