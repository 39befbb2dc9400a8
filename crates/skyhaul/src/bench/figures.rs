//! What came out: of a run, of all runs of a candidate, of all.

use super::options::What;
use serde::{Deserialize, Serialize};

/// Median, least and most of some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of these values; zeros where there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Self::default() };
        Self { median: (values[(n - 1) / 2] + values[n / 2]) / 2.0, min, max }
    }
}

/// One run of one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Bits per second of datagram payload, at the receiver.
    pub bits_per_second: f64,
    /// Packets per second.
    pub packets_per_second: f64,
    /// Packets sent that did not come to their place.
    pub lost: u64,
    /// Packets sent.
    pub sent: u64,
    /// CPU seconds of the receiving thread for 10⁹ bytes.
    pub receive_cpu: f64,
    /// CPU seconds of the sending thread for 10⁹ bytes, without waiting.
    pub send_cpu: f64,
    /// CPU seconds of the whole process for 10⁹ bytes, waiting included.
    pub process_cpu: f64,
}

/// All runs of one candidate at one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of a datagram.
    pub size: usize,
    /// The candidate.
    pub candidate: String,
    /// How it worked, in words.
    pub how: String,
    /// Bits per second of datagram payload.
    pub bits_per_second: Spread,
    /// Packets per second.
    pub packets_per_second: Spread,
    /// Packets lost in all runs.
    pub lost: u64,
    /// Packets sent in all runs.
    pub sent: u64,
    /// CPU seconds of the receiving thread for 10⁹ bytes.
    pub receive_cpu: Spread,
    /// CPU seconds of the sending thread for 10⁹ bytes.
    pub send_cpu: Spread,
    /// CPU seconds of the whole process for 10⁹ bytes.
    pub process_cpu: Spread,
    /// Its rate by that of the reference in the same round: the bare loop, or fio.
    pub rate_ratio: Option<Spread>,
    /// Its CPU (receiving for receivers, else sending) by that of the reference in the same round.
    pub cpu_ratio: Option<Spread>,
    /// Every run, in the order of the rounds.
    pub runs: Vec<Run>,
    /// Why it was left out, where it was.
    pub skipped: Option<String>,
}

/// The results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`crate::report::VERSION`].
    pub version: u32,
    /// What was measured.
    pub what: What,
    /// Kind of load, in words.
    pub load: String,
    /// How the senders gave packets.
    pub sender: String,
    /// Seconds of each run.
    pub seconds: f64,
    /// CPU model, cores, memory, kernel.
    pub machine: String,
    /// Load average of the last minute, before and after: above 0, other programs were running.
    pub others: (f64, f64),
    /// Sizes by candidates.
    pub rows: Vec<Row>,
    /// Whether it was stopped before all was measured.
    #[serde(default)]
    pub interrupted: bool,
}

/// A run, how it went in words.
pub(super) struct Ran {
    pub(super) run: Run,
    pub(super) how: String,
}
