//! What a measurement of RDMA compares, and how.

use super::super::options::wrong;
use super::report::RdmaBenchRow;
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::Hint;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// The experiments, as for `--only`.
pub const RDMA_EXPERIMENTS: [&str; 3] = ["messages", "loss", "latency"];
/// Longest datagram, without the headers of IP and UDP: all of a jumbo frame.
pub const DATAGRAM_BYTES: u16 = 8972;
/// Bytes of a message in the experiment with losses.
pub const LOSS_MESSAGE_BYTES: u64 = 64 << 10;
/// Deadline of each Read.
pub const READ_DEADLINE: Duration = Duration::from_millis(200);
/// Bytes of the memory that is written and read, larger than any cache.
pub const REGION_BYTES: u64 = 64 << 20;
/// Bytes of a message in the experiment with latencies.
pub(super) const LATENCY_MESSAGE_BYTES: usize = 64;
/// Start and end of a run, roughly.
pub(super) const OVERHEAD: Duration = Duration::from_millis(300);

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct RdmaBenchOptions {
    /// Bytes of messages.
    pub messages: Vec<u64>,
    /// Shares of datagrams that are withheld, 0 to 1.
    pub losses: Vec<f64>,
    /// Experiments by name; empty: all.
    pub only: Vec<String>,
    /// Length of each run.
    pub time: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Bits of datagrams per second; 0 is as fast as possible. Reads go at the rate of the answers.
    pub rate: u64,
    /// Address to receive on.
    pub address: IpAddr,
    /// CPUs of the sending and the receiving thread.
    pub cpus: (usize, usize),
    /// Ends it early; the report then has the results until then.
    pub stop: StopFlag,
}

impl RdmaBenchOptions {
    /// The rows of the report that is to come; candidates that take turns follow each other.
    ///
    /// # Errors
    /// An experiment is unknown, or a size, loss or address cannot be measured.
    pub fn rows(&self) -> io::Result<Vec<RdmaBenchRow>> {
        let unknown = self.only.iter().find(|name| !RDMA_EXPERIMENTS.contains(&name.as_str()));
        if let Some(name) = unknown {
            let hint = Hint(format_args!("choose from {}", RDMA_EXPERIMENTS.join(" ")));
            return Err(wrong(format_args!("`bench rdma` has no experiment '{name}'{hint}")));
        }
        if self.address.is_multicast() {
            let hint = Hint("give an --address of this host");
            return Err(wrong(format_args!("a benchmark needs a unicast address{hint}")));
        }
        if let Some(size) = self.messages.iter().find(|size| !(64..=REGION_BYTES).contains(*size)) {
            return Err(wrong(format_args!(
                "a message of {size} bytes: 64 bytes to {REGION_BYTES} can be measured"
            )));
        }
        if let Some(loss) = self.losses.iter().find(|loss| !(**loss > 0.0 && **loss < 1.0)) {
            return Err(wrong(format_args!("a loss of {loss}: must be between 0 and 1, like 0.01 for 1 %")));
        }
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|own| own == name);
        let mut rows = Vec::new();
        let mut add = |experiment: &str, candidates: &[&str], message_bytes, loss| {
            rows.extend(candidates.iter().map(|candidate| RdmaBenchRow {
                experiment: experiment.into(),
                candidate: (*candidate).into(),
                message_bytes,
                loss,
                ..RdmaBenchRow::default()
            }));
        };
        if wanted("messages") {
            let all = ["udp", "tcp", "write-stage", "write-bpf", "write-tcp", "read", "read-tcp"];
            self.messages.iter().for_each(|size| add("messages", &all, *size, 0.0));
        }
        if wanted("loss") {
            self.losses
                .iter()
                .for_each(|loss| add("loss", &["write-stage", "read"], LOSS_MESSAGE_BYTES, *loss));
        }
        if wanted("latency") {
            add("latency", &["udp", "write-stage", "write-bpf"], LATENCY_MESSAGE_BYTES as u64, 0.0);
        }
        Ok(rows)
    }

    /// The time that all will take, roughly.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn estimate(&self) -> io::Result<Duration> {
        let measured = self.rows()?.len();
        let runs = u32::try_from(measured * self.rounds.max(1)).unwrap_or(u32::MAX);
        Ok((self.time + OVERHEAD).saturating_mul(runs))
    }
}
