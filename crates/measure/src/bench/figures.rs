//! Results of a run, of all runs of a candidate, and of all candidates.

use super::options::What;
use serde::{Deserialize, Serialize};

/// Median, minimum and maximum of some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of these values; zeros if there are none.
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
    /// Packets sent but not placed.
    pub lost: u64,
    /// Packets sent.
    pub sent: u64,
    /// CPU seconds of the receiving thread for 10⁹ bytes.
    pub receive_cpu: f64,
    /// CPU seconds of the sending thread for 10⁹ bytes, without waiting.
    pub send_cpu: f64,
    /// CPU seconds of the whole process for 10⁹ bytes, including waiting.
    pub process_cpu: f64,
}

/// All runs of one candidate at one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of a datagram.
    pub size: usize,
    /// The candidate.
    pub candidate: String,
    /// A description of its method.
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
    /// Ratio of its rate to that of the reference in the same round: the bare loop, or fio.
    pub rate_ratio: Option<Spread>,
    /// Ratio of its CPU time (receiving for receivers, else sending) to that of the reference in the same round.
    pub cpu_ratio: Option<Spread>,
    /// Every run, in the order of the rounds.
    pub runs: Vec<Run>,
    /// Why it was skipped, if it was.
    pub skipped: Option<String>,
}

/// The results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// What was measured.
    pub what: What,
    /// Kind of load, in words.
    pub load: String,
    /// How the senders passed packets to the kernel.
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

/// A run, with a description of its method.
pub(super) struct Ran {
    pub(super) run: Run,
    pub(super) how: String,
}
