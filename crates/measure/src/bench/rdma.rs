//! RDMA in software beside plain sockets, in turns: the experiments of Lenkiewicz, Broekema and Metzler (2017) on this machine.
//!
//! ```text
//!   messages   udp  tcp  write-stage  write-bpf  write-tcp …  read  read-tcp   each size of message, nothing withheld
//!   receivers  scatter  bare  ring  place  drop  write-stage  write-bpf        the same datagrams of one sender, single or in trains
//!   wakes      write-stage  write-bpf, with and without solicited events      how often the receiver sleeps
//!   loss       write-stage  read                                              each share of datagrams withheld on purpose, seeded
//!   latency    udp  place  write-stage  write-bpf                             64 bytes, until a polling reader sees them
//!   lanes      stage  bpf                                                     the most lanes of LOFAR in real time without loss
//!              └─ one thread sends ─▶ one thread receives, each on its own CPU
//! ```
//!
//! Every figure comes from the counts of both ends, which are compared: a run whose sums disagree has failed, and one that lost what was
//! not withheld on purpose is listed but not in the medians. Ratios are those of runs of one round (decision 0108).
//!
//! Limits: loopback, another address of this host, or two networks with a pair of interfaces; one connection; datagrams of
//! [`DATAGRAM_BYTES`] unless others are asked for.

mod lanes;
mod latency;
mod options;
mod receivers;
mod remote;
mod report;
mod rows;
mod sockets;
mod writer;

pub use options::{
    DATAGRAM_BYTES, LANES, LOSS_MESSAGE_BYTES, RDMA_EXPERIMENTS, READ_DEADLINE, REGION_BYTES,
    RdmaBenchOptions,
};
pub use report::{RdmaBenchReport, RdmaBenchRow, RdmaBenchRun, RdmaRatio, WriteLatency};

use super::{load_average, veth};
use remote::Writing;
use report::Ran;
use rows::candidates;
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
    // Without a privilege or a feature of the kernel nothing is measured, and each row has the reason.
    let pair = options.veth.then(veth::Veth::new).transpose().unwrap_or_else(|error| {
        rows.iter_mut().for_each(|row| row.skipped = Some(format!("--veth: {error}")));
        None
    });
    let options = &match &pair {
        Some(pair) => {
            let (networks, address) = (Some(pair.networks.clone()), pair.address);
            RdmaBenchOptions { networks, address, ..options.clone() }
        }
        None => options.clone(),
    };
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
                    row.take(ran, round);
                }
            }
        }
    }
    rows.iter_mut().for_each(|row| row.summarise(all));
    for group in rows.chunk_by_mut(RdmaBenchRow::takes_turns_with) {
        let references = group.first().map_or(&[][..], |row| candidates(&row.experiment).1);
        report::compare(group, references);
    }
    Ok(RdmaBenchReport {
        version: skyhaul::report::VERSION,
        skyhaul: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::this().to_string(),
        seconds: options.time.as_secs_f64(),
        rounds: all,
        rate: options.rate,
        cpus: options.cpus,
        datagram_bytes: options.datagram_bytes,
        train: options.train,
        memory: options.memory,
        path: match (&pair, &options.networks) {
            (Some(pair), _) => format!(
                "two networks with a pair of interfaces (veth), MTU 9000, {} packets and trains sent over it",
                pair.packets()?
            ),
            (None, _) if options.veth => "none: no pair of interfaces (veth) could be made".into(),
            (None, Some(_)) => "between two networks of the user's".into(),
            (None, None) => format!("{}, within this host", options.address),
        },
        read_deadline_seconds: READ_DEADLINE.as_secs_f64(),
        others: (before, load_average()),
        energy: match meter {
            Some(_) => "joules of the CPU packages (RAPL), the whole machine's".into(),
            None => "no meter: CPU seconds per GB stand for it".into(),
        },
        softirq: "of the whole machine (/proc/stat, in clock ticks), other programs' included; on loopback and veth it is the sender's \
                  system time as well, unless the kernel accounts for interrupts apart (CONFIG_IRQ_TIME_ACCOUNTING)"
            .into(),
        interrupted: options.stop.is_set(),
        rows,
    })
}

/// One run of a row, with what the machine counted meanwhile.
fn once(options: &RdmaBenchOptions, row: &RdmaBenchRow, round: u64) -> io::Result<Ran> {
    let (softirq, meter) = (report::softirq(), Energy::start());
    let own = row.candidate.as_str();
    let tier = if own.starts_with("write-bpf") { PlacementTier::Bpf } else { PlacementTier::Stage };
    let transport = if own.contains("-tcp") { Transport::Tcp } else { Transport::Udp };
    let (crc, immediate) = (own.ends_with("-no-crc").then_some(false), own.ends_with("-solicited"));
    let mut ran = match (row.experiment.as_str(), own) {
        ("latency", "udp") => latency::socket(options),
        ("latency", "place") => latency::place(options),
        ("latency", _) => latency::write(options, tier),
        ("receivers", name) => receivers::run(options, name),
        ("lanes", name) => lanes::run(options, name),
        (_, "udp") => sockets::udp(options, row.message_bytes),
        (_, "tcp") => sockets::tcp(options, row.message_bytes),
        (_, "read" | "read-tcp") => remote::reads(options, row.message_bytes, row.loss, transport, round),
        _ => {
            let how = Writing { tier, transport, crc, immediate };
            remote::writes(options, row.message_bytes, row.loss, how, round)
        }
    }?;
    ran.run.softirq_seconds = report::softirq().zip(softirq).map(|(now, then)| (now - then).max(0.0));
    ran.run.joules = meter.map(|meter| meter.joules());
    Ok(ran)
}

#[cfg(test)]
mod tests;
