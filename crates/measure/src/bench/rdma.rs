//! RDMA in software beside plain sockets, in turns: the experiments of Lenkiewicz, Broekema and Metzler (2017) on this machine.
//!
//! ```text
//!   messages   udp  tcp  write-stage  write-bpf  write-tcp  read  read-tcp      each size of message, nothing withheld
//!   loss       write-stage  read                                                each share of datagrams withheld on purpose, seeded
//!   latency    udp  write-stage  write-bpf                                      64 bytes, until a polling reader sees them
//!              └─ one thread sends ─▶ one thread receives, each on its own CPU
//! ```
//!
//! Every figure comes from the counts of both ends, which are compared: a run whose sums disagree has failed, and one that lost what was
//! not withheld on purpose is listed but not in the medians.
//!
//! Limits: loopback, or another address of this host; one connection; datagrams of [`DATAGRAM_BYTES`] at most.

mod latency;
mod options;
mod remote;
mod report;
mod sockets;

pub use options::{
    DATAGRAM_BYTES, LOSS_MESSAGE_BYTES, RDMA_EXPERIMENTS, READ_DEADLINE, REGION_BYTES, RdmaBenchOptions,
};
pub use report::{RdmaBenchReport, RdmaBenchRow, RdmaBenchRun, WriteLatency};

use super::load_average;
use report::Ran;
use skyhaul::rdma::PlacementTier;
use skyhaul_io::address::Transport;
use skyhaul_io::host::machine::{Energy, Machine};
use std::io;

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
        softirq: "of the whole machine (/proc/stat, in clock ticks), other programs' included".into(),
        interrupted: options.stop.is_set(),
        rows,
    })
}

/// One run of a row, with what the machine counted meanwhile.
fn once(options: &RdmaBenchOptions, row: &RdmaBenchRow, round: u64) -> io::Result<Ran> {
    let (softirq, meter) = (report::softirq(), Energy::start());
    let tier = if row.candidate == "write-bpf" { PlacementTier::Bpf } else { PlacementTier::Stage };
    let transport = if row.candidate.ends_with("-tcp") { Transport::Tcp } else { Transport::Udp };
    let mut ran = match (row.experiment.as_str(), row.candidate.as_str()) {
        ("latency", "udp") => latency::socket(options),
        ("latency", _) => latency::write(options, tier),
        (_, "udp") => sockets::udp(options, row.message_bytes),
        (_, "tcp") => sockets::tcp(options, row.message_bytes),
        (_, "read" | "read-tcp") => remote::reads(options, row.message_bytes, row.loss, transport, round),
        _ => remote::writes(options, row.message_bytes, row.loss, (tier, transport), round),
    }?;
    ran.run.softirq_seconds = report::softirq().zip(softirq).map(|(now, then)| (now - then).max(0.0));
    ran.run.joules = meter.map(|meter| meter.joules());
    Ok(ran)
}

#[cfg(test)]
mod tests;
