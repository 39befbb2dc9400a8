//! Options of a benchmark.

use serde::{Deserialize, Serialize};
use skyhaul::stop::StopFlag;
use skyhaul_core::wire::Format;
use skyhaul_io::namespace::Network;
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes in flight before a closed loop's sender waits.
pub const WINDOW_BYTES: u64 = 1 << 20;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BenchTarget {
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
pub enum BenchLoad {
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
    /// What to measure.
    pub what: BenchTarget,
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
    pub load: BenchLoad,
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
pub(super) fn wrong(why: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_string())
}

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
pub struct BenchRun {
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
pub struct BenchRow {
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
    pub runs: Vec<BenchRun>,
    /// Why it was skipped, if it was.
    pub skipped: Option<String>,
}

/// The results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// What was measured.
    pub what: BenchTarget,
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
    pub rows: Vec<BenchRow>,
    /// Whether it was stopped before all was measured.
    #[serde(default)]
    pub interrupted: bool,
}

/// A run, with a description of its method.
pub(super) struct BenchResult {
    pub(super) run: BenchRun,
    pub(super) how: String,
}

/// Run `one` at a rate until the highest without loss is found; its figures at that rate.
pub(super) fn search(
    stop: &StopFlag,
    mut one: impl FnMut(u64) -> io::Result<BenchResult>,
) -> io::Result<BenchResult> {
    let mut one =
        |rate| stop.unless_set(one(rate))?.ok_or_else(|| io::Error::from(io::ErrorKind::Interrupted));
    const LEAST: f64 = 0.5e9;
    let whole = |ran: &BenchResult, rate: f64| ran.run.lost == 0 && ran.run.bits_per_second > 0.97 * rate;
    let (mut low, mut high) = (LEAST, 90e9);
    for _ in 0..8 {
        let middle = f64::midpoint(low, high);
        if whole(&one(middle as u64)?, middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    loop {
        let mut confirmed = Vec::new();
        for _ in 0..3 {
            let ran = one(low as u64)?;
            let held = whole(&ran, low);
            confirmed.push(ran);
            if !held {
                break;
            }
        }
        let held = confirmed.len() == 3 && confirmed.iter().all(|ran| whole(ran, low));
        if let Some(last) = confirmed.pop()
            && (held || low <= LEAST)
        {
            return Ok(last);
        }
        low = (low * 0.95).max(LEAST);
    }
}
