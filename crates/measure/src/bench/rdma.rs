//! RDMA in software beside plain sockets, in turns: the experiments of Lenkiewicz, Broekema and Metzler (2017) on this machine.
//!
//! ```text
//!   messages   udp  tcp  write-stage  write-bpf  read      each size of message, nothing withheld
//!   loss       write-stage  read                           each share of datagrams withheld on purpose, seeded
//!   latency    udp  write-stage  write-bpf                 64 bytes, until a polling reader sees them
//!              └─ one thread sends ─▶ one thread receives, each on its own CPU
//! ```
//!
//! Every figure comes from the counts of both ends, which are compared: a run whose sums disagree has failed, and one that lost what was
//! not withheld on purpose is listed but not in the medians.
//!
//! Limits: loopback, or another address of this host; one connection; datagrams of [`DATAGRAM_BYTES`] at most.

mod latency;
mod remote;
mod report;
mod sockets;

pub use report::{RdmaBenchReport, RdmaBenchRow, RdmaBenchRun, WriteLatency};

use super::load_average;
use super::options::wrong;
use report::Ran;
use skyhaul::rdma::PlacementTier;
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::Hint;
use skyhaul_io::host::machine::{Energy, Machine};
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
/// Start and end of a run, roughly.
const OVERHEAD: Duration = Duration::from_millis(300);
const NO_TCP: &str = "this version has no RDMA over TCP";

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
                skipped: candidate.ends_with("-tcp").then(|| NO_TCP.to_owned()),
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
            add("latency", &["udp", "write-stage", "write-bpf"], latency::MESSAGE_BYTES as u64, 0.0);
        }
        Ok(rows)
    }

    /// The time that all will take, roughly.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn estimate(&self) -> io::Result<Duration> {
        let measured = self.rows()?.iter().filter(|row| row.skipped.is_none()).count();
        let runs = u32::try_from(measured * self.rounds.max(1)).unwrap_or(u32::MAX);
        Ok((self.time + OVERHEAD).saturating_mul(runs))
    }
}

/// Measure. `progress` receives status messages.
///
/// # Errors
/// Those of [`RdmaBenchOptions::rows`]. What fails in a run is in its row.
pub fn run(options: &RdmaBenchOptions, progress: &mut dyn FnMut(&str)) -> io::Result<RdmaBenchReport> {
    let (mut rows, before, all) = (options.rows()?, load_average(), options.rounds.max(1));
    let meter = Energy::start();
    for group in rows.chunk_by_mut(RdmaBenchRow::takes_turns_with) {
        for round in 1..=all {
            for row in group.iter_mut().filter(|row| row.skipped.is_none()) {
                if options.stop.is_set() {
                    break;
                }
                progress(&format!("{}, round {round} of {all}", row.title()));
                let ran = once(options, row, round as u64);
                // A run that was cut short is no run.
                if !options.stop.is_set() {
                    row.take(ran);
                }
            }
        }
    }
    rows.iter_mut().for_each(|row| row.summarise(all));
    Ok(RdmaBenchReport {
        version: skyhaul::report::VERSION,
        skyhaul: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::this().to_string(),
        seconds: options.time.as_secs_f64(),
        rounds: all,
        rate: options.rate,
        cpus: options.cpus,
        read_deadline_seconds: READ_DEADLINE.as_secs_f64(),
        others: (before, load_average()),
        energy: match meter {
            Some(_) => "joules of the CPU packages (RAPL), the whole machine's".into(),
            None => "no meter: CPU seconds per GB stand for it".into(),
        },
        softirq: "of the whole machine (/proc/stat, in clock ticks), other programs' included. On the loopback most of it is also in the CPU time of the \
                  thread that sends"
            .into(),
        interrupted: options.stop.is_set(),
        rows,
    })
}

/// One run of a row, with what the machine counted meanwhile.
fn once(options: &RdmaBenchOptions, row: &RdmaBenchRow, round: u64) -> io::Result<Ran> {
    let (softirq, meter) = (report::softirq(), Energy::start());
    let tier = if row.candidate == "write-bpf" { PlacementTier::Bpf } else { PlacementTier::Stage };
    let mut ran = match (row.experiment.as_str(), row.candidate.as_str()) {
        ("latency", "udp") => latency::socket(options),
        ("latency", _) => latency::write(options, tier),
        (_, "udp") => sockets::udp(options, row.message_bytes),
        (_, "tcp") => sockets::tcp(options, row.message_bytes),
        (_, "read") => remote::reads(options, row.message_bytes, row.loss, round),
        _ => remote::writes(options, row.message_bytes, row.loss, tier, round),
    }?;
    ran.run.softirq_seconds = report::softirq().zip(softirq).map(|(now, then)| (now - then).max(0.0));
    ran.run.joules = meter.map(|meter| meter.joules());
    Ok(ran)
}

#[cfg(test)]
mod tests;
