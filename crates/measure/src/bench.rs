//! Measures this host's paths beside bare loops, so that figures can be compared over time and between hosts.
//!
//! ```text
//!   round 1   skyhaul  bare  recv  recvmmsg │ round 2   skyhaul  bare  recv  recvmmsg │ …
//!             └─ one sender thread ─▶ one receiver thread, each on its own CPU, the same packets for all
//! ```
//!
//! On a shared machine, figures vary by a quarter within minutes, so candidates alternate and are compared by the medians
//! of all rounds; [`Spread`] keeps minimum and maximum. There are three kinds of load:
//!
//! * *closed loop*: the sender waits while more than [`WINDOW_BYTES`] is in flight, so nothing is lost and the slower side sets
//!   the rate ([`BenchLoad::Closed`]);
//! * *fixed rate*, for CPU seconds per gigabyte ([`BenchLoad::Rate`]);
//! * *search*: the highest rate without loss at which the sender never waits, by bisection, confirmed three times
//!   ([`BenchLoad::Search`]).
//!
//! CPU time is per thread, without the time a sender spins until it may send. On the loopback, the kernel's work for a
//! packet is done on the sender's CPU and counted for the sender.
//!
//! Limits: one stream; IPv4 or IPv6 of this host, or two network namespaces connected by a veth pair.

mod balance;
mod flow;
mod heaps;
mod lab;
mod options;
mod packets;
pub mod peers;
pub mod rdma;
mod receive;
mod record;
mod send;
mod veth;

pub use balance::start_balancer;
pub use heaps::fixed::{FIXED_INPUTS, fixed_input};
pub use options::{BenchLoad, BenchOptions, BenchTarget, WINDOW_BYTES};
pub use options::{BenchReport, BenchRow, BenchRun, Spread};

pub use receive::{join, object_options};

use options::{BenchResult, wrong};
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::Hint;
use skyhaul_io::host::machine::Machine;
use std::io;

/// Measure. `progress` receives status messages.
///
/// # Errors
/// If a candidate is unknown, or the system refuses sockets, memory or the directory.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> io::Result<BenchReport> {
    let names = candidates(options)?;
    if options.address.is_multicast() {
        return Err(wrong(format_args!(
            "a benchmark needs a unicast address{}",
            Hint("give an --address of this host")
        )));
    }
    let before = load_average();
    let shape = |&size: &usize| Ok(options.shape(size)?.bytes);
    let mut sizes = options.sizes.iter().map(shape).collect::<io::Result<Vec<_>>>()?;
    sizes.dedup();
    let mut rows = Vec::new();
    for size in sizes {
        let mut own: Vec<BenchRow> = names
            .iter()
            .map(|name| BenchRow { size, candidate: (*name).into(), ..BenchRow::default() })
            .collect();
        let one = |row: &BenchRow| once(options, &row.candidate, row.size);
        rounds(&options.stop, options.rounds, &mut own, progress, &one)?;
        // Rows without runs when it was stopped are omitted.
        own.retain(|row| !row.runs.is_empty() || row.skipped.is_some());
        summarise(all_candidates(options.what)[0], cpu_of(options.what), &mut own);
        rows.append(&mut own);
    }
    Ok(BenchReport {
        version: skyhaul::report::VERSION,
        what: options.what,
        load: match options.load {
            BenchLoad::Closed => format!("closed loop, window {} KiB", WINDOW_BYTES >> 10),
            BenchLoad::Rate(rate) => format!("{:.3} Gb/s", rate as f64 / 1e9),
            BenchLoad::Search => "highest rate without loss".into(),
        },
        sender: if options.gso { "trains (UDP_SEGMENT)" } else { "single packets (sendmmsg)" }.into(),
        seconds: options.time.as_secs_f64(),
        machine: Machine::this().to_string(),
        others: (before, load_average()),
        rows,
        interrupted: options.stop.is_set(),
    })
}

/// All rounds of rows whose candidates alternate, or those until it is stopped. `one` runs a candidate.
fn rounds(
    stop: &StopFlag,
    rounds: usize,
    rows: &mut [BenchRow],
    progress: &mut dyn FnMut(&str),
    one: &dyn Fn(&BenchRow) -> io::Result<BenchResult>,
) -> io::Result<()> {
    let all = rounds.max(1);
    for round in 1..=all {
        for row in rows.iter_mut().filter(|row| row.skipped.is_none()) {
            if stop.is_set() {
                return Ok(());
            }
            progress(&format!("{} B, round {round} of {all}: {}", row.size, row.candidate));
            match stop.unless_set(one(row)) {
                Ok(None) => return Ok(()),
                Ok(Some(ran)) => {
                    row.how = ran.how;
                    row.runs.push(ran.run);
                }
                // A tool or a privilege is missing; other failures are errors.
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) =>
                {
                    row.skipped = Some(e.to_string());
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// One run of a candidate of this program.
fn once(options: &BenchOptions, candidate: &str, size: usize) -> io::Result<BenchResult> {
    match options.what {
        BenchTarget::Receive => receive::run(options, candidate, size),
        BenchTarget::Send => send::run(options, candidate, size),
        BenchTarget::Record => record::run(options, candidate, size),
        BenchTarget::Balance => balance::run(options, candidate, size),
        BenchTarget::Lab => lab::run(options, candidate, size),
    }
}

/// All candidates, the reference first.
#[must_use]
pub fn all_candidates(what: BenchTarget) -> &'static [&'static str] {
    match what {
        BenchTarget::Receive => &["bare", "skyhaul", "recvmmsg", "recv", "ring"],
        BenchTarget::Send => &["bare", "skyhaul", "sendmmsg", "sendto"],
        BenchTarget::Record => &["fio", "skyhaul", "forward"],
        BenchTarget::Balance => &["bare", "skyhaul", "single"],
        BenchTarget::Lab => &["bare", "skyhaul"],
    }
}

fn candidates(options: &BenchOptions) -> io::Result<Vec<&'static str>> {
    let all = all_candidates(options.what);
    // The ring is for single packets; its figures for trains are meaningless.
    let usual = all.iter().filter(|&&name| name != "ring" || !options.gso);
    if options.candidates.is_empty() {
        return Ok(usual.copied().collect());
    }
    let find = |wanted: &String| {
        let text =
            || format!("unknown candidate '{wanted}'{}", Hint(format_args!("choose from {}", all.join(" "))));
        all.iter().find(|name| *name == wanted).copied().ok_or_else(|| wrong(text()))
    };
    options.candidates.iter().map(find).collect()
}

/// The CPU time by which candidates are compared.
fn cpu_of(what: BenchTarget) -> fn(&BenchRun) -> f64 {
    if what == BenchTarget::Send { |run| run.send_cpu } else { |run| run.receive_cpu }
}

/// Medians of the runs, and their ratios to those of the candidate `reference` in the same round.
fn summarise(reference: &str, cpu: fn(&BenchRun) -> f64, rows: &mut [BenchRow]) {
    let reference =
        rows.iter().find(|row| row.candidate == reference).map_or(Vec::new(), |row| row.runs.clone());
    for row in rows {
        let spread = |of: fn(&BenchRun) -> f64| Spread::of(row.runs.iter().map(of));
        row.bits_per_second = spread(|r| r.bits_per_second);
        row.packets_per_second = spread(|r| r.packets_per_second);
        row.receive_cpu = spread(|r| r.receive_cpu);
        row.send_cpu = spread(|r| r.send_cpu);
        row.process_cpu = spread(|r| r.process_cpu);
        row.lost = row.runs.iter().map(|r| r.lost).sum();
        row.sent = row.runs.iter().map(|r| r.sent).sum();
        if reference.is_empty() || row.runs.is_empty() {
            continue;
        }
        let pairs = || row.runs.iter().zip(&reference);
        row.rate_ratio =
            Some(Spread::of(pairs().map(|(own, other)| own.bits_per_second / other.bits_per_second)));
        if pairs().all(|(_, other)| cpu(other) > 0.0) {
            row.cpu_ratio = Some(Spread::of(pairs().map(|(own, other)| cpu(own) / cpu(other))));
        }
    }
}

/// Returns the load average of the last minute; 0 if it cannot be read.
#[must_use]
pub fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
