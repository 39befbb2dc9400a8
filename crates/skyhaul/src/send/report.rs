//! What a sender did, as data.

use serde::{Deserialize, Serialize};

/// What was sent, and which packets were withheld on purpose.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SendReport {
    /// [`VERSION`](crate::report::VERSION).
    pub version: u32,
    /// Where to.
    pub to: String,
    /// What was sent, as text.
    pub what: String,
    /// How packets were handed to the kernel, and why.
    pub mode: String,
    /// Packets the supply had, sent or not.
    pub numbered: u64,
    /// Packets sent, including duplicates.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Wall seconds.
    pub seconds: f64,
    /// Bits per second of datagram payload.
    pub bits_per_second: f64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Packets withheld on purpose.
    pub lost: u64,
    /// Their numbers, as ranges (first, behind the last).
    pub lost_ranges: Vec<(u64, u64)>,
    /// Packets withheld that are not in the ranges because there were too many.
    pub lost_not_listed: u64,
    /// Packets sent twice on purpose.
    pub duplicated: u64,
    /// Packets sent out of order on purpose.
    pub reordered: u64,
    /// Packets damaged on purpose.
    pub corrupted: u64,
    /// Packets cut short on purpose.
    pub truncated: u64,
    /// Seconds the schedule slipped because the sender was held up.
    pub slipped_seconds: f64,
    /// CPU seconds of the sending thread.
    pub cpu_seconds: f64,
    /// The same per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// The error that ended it, if any.
    pub error: Option<String>,
    /// What did not go as requested, without ending the stream.
    #[serde(default)]
    pub notes: Vec<String>,
}
