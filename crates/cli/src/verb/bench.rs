//! `skyhaul bench`: this host's paths compared with bare loops, as a table or as JSON.
//!
//! Nothing here fails by being slow: the exit status is 1 only if a candidate that must not lose anything did, or if Ctrl-C
//! ended the measurement early.

mod events;
mod peers;
mod rdma;

use super::output::command_line;
use super::receiving::print_json;
use crate::args::{BenchArgs, BenchWhat};
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::{self, Progress};
use anyhow::Result;
use serde::Serialize;
use skyhaul::stop::StopFlag;
use skyhaul::wire::Objects;
use skyhaul_measure::bench::{BenchLoad, BenchOptions, BenchReport, BenchRow, BenchTarget, Spread};
use std::fmt::Write as _;

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport {
    command: String,
    #[serde(flatten)]
    report: BenchReport,
}

pub(crate) fn run(args: &BenchArgs) -> Result<Outcome> {
    if args.what == Some(BenchWhat::Events) {
        return events::run(args);
    }
    if args.what == Some(BenchWhat::Peers) {
        return peers::run(args);
    }
    if args.what == Some(BenchWhat::Rdma) {
        return rdma::run(args);
    }
    if args.what.is_none() && args.format.objects() == Some(Objects::Heaps) {
        return super::heaps::bench(args);
    }
    let options = options(args, Interrupt::listen()?.flag().into())?;
    let mut progress = Progress::new(args.output.quiet);
    let report = skyhaul_measure::bench::run(&options, &mut |line| progress.show(line));
    progress.clear();
    let told = CommandReport { command: command_line(), report: report? };
    if args.output.json {
        print_json(&told)?;
    } else {
        tell_text!("{}", table(&told));
    }
    let waits = options.load == BenchLoad::Closed;
    let lost = told.report.rows.iter().any(|row| waits && row.candidate == "skyhaul" && row.lost > 0);
    Ok(if lost || told.report.interrupted { Outcome::Failed } else { Outcome::Done })
}

fn options(args: &BenchArgs, stop: StopFlag) -> Result<BenchOptions> {
    let what = match args.what {
        None | Some(BenchWhat::Receive | BenchWhat::Events | BenchWhat::Peers | BenchWhat::Rdma) => {
            BenchTarget::Receive
        }
        Some(BenchWhat::Send) => BenchTarget::Send,
        Some(BenchWhat::Record) => BenchTarget::Record,
        Some(BenchWhat::Balance) => BenchTarget::Balance,
        Some(BenchWhat::Lab) => BenchTarget::Lab,
    };
    let load = match args.rate {
        Some(rate) if rate.bits_per_second() > 0 => BenchLoad::Rate(rate.bits_per_second()),
        Some(_) => BenchLoad::Closed,
        None if args.search => BenchLoad::Search,
        None => BenchLoad::Closed,
    };
    // A disk does not see datagrams: one size is enough unless more are given.
    let usual = args.sizes == [1472, 8040, 65000];
    Ok(BenchOptions {
        what,
        format: args.format,
        object_bytes: args.heaps.heap_size.bytes() as usize,
        sizes: if what == BenchTarget::Record && usual { vec![8040] } else { args.sizes.clone() },
        time: args.time.duration(),
        rounds: args.rounds,
        load,
        candidates: args.candidates.clone(),
        gso: !args.no_gso,
        address: args.address,
        networks: args.networks()?,
        cpus: args.cpus,
        memory: args.memory.bytes() as usize,
        directory: args.directory.clone(),
        record_bytes: args.bytes.bytes(),
        stop,
    })
}

fn table(told: &CommandReport) -> String {
    let CommandReport { command, report } = told;
    let mut out = String::new();
    let _ = writeln!(out, "{command}");
    let _ = writeln!(
        out,
        "{}; load average {:.1} before, {:.1} after",
        report.machine, report.others.0, report.others.1
    );
    let _ = writeln!(
        out,
        "{}, senders give {}; medians (minimum to maximum) of the rounds",
        report.load, report.sender
    );
    if report.interrupted {
        let _ = writeln!(out, "{INTERRUPTED}");
    }
    let reference = skyhaul_measure::bench::all_candidates(report.what)[0];
    let _ = writeln!(
        out,
        "{:>6}  {:<9} {:>20} {:>8} {:>20} {:>20} {:>9} {:>8} {:>8}",
        "bytes",
        "candidate",
        "Gb/s",
        "Mpkt/s",
        "receive CPU s/GB",
        "send CPU s/GB",
        "lost",
        format!("rate/{reference}"),
        format!("CPU/{reference}"),
    );
    for row in &report.rows {
        let _ = writeln!(out, "{}", line(row));
    }
    let mut told = Vec::new();
    for row in report.rows.iter().filter(|row| row.skipped.is_none()) {
        if !told.contains(&&row.candidate) {
            told.push(&row.candidate);
            let _ = writeln!(out, "  {}: {}", row.candidate, row.how);
        }
    }
    out
}

fn line(row: &BenchRow) -> String {
    if let Some(why) = &row.skipped {
        return format!("{:>6}  {:<9} SKIPPED: {why}", row.size, row.candidate);
    }
    let ratio = |spread: Option<Spread>| spread.map_or(String::from("-"), |s| format!("{:.2}", s.median));
    format!(
        "{:>6}  {:<9} {:>20} {:>8.2} {:>20} {:>20} {:>9} {:>8} {:>8}",
        row.size,
        row.candidate,
        peers::spread(row.bits_per_second, 1e-9, 1),
        row.packets_per_second.median / 1e6,
        peers::spread(row.receive_cpu, 1.0, 3),
        peers::spread(row.send_cpu, 1.0, 3),
        print::count(row.lost),
        ratio(row.rate_ratio),
        ratio(row.cpu_ratio),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_median_and_the_spread_or_why_not() {
        let half = Spread { median: 0.5, min: 0.4, max: 0.6 };
        let row = BenchRow {
            size: 1472,
            candidate: "recv".into(),
            receive_cpu: half,
            rate_ratio: Some(half),
            ..BenchRow::default()
        };
        let text = line(&row);
        assert!(text.contains("0.500 (0.400-0.600)") && text.contains("0.50"), "{text}");
        let text = line(&BenchRow { skipped: Some("no fio".into()), ..row });
        assert!(text.ends_with("SKIPPED: no fio"), "{text}");
    }
}
