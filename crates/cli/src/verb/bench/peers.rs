//! `skyhaul bench peers`: Skyhaul beside spead2, iperf3, packetBlastee and bare loops, as a table and as a report to keep.
//!
//! Nothing here fails by being slow: the exit status is 1 only if Skyhaul itself failed in a row, or if Ctrl-C ended the
//! measurement early.

use super::super::output::{command_line, create, write};
use super::super::receiving::print_json;
use crate::args::BenchArgs;
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::{self, Progress};
use anyhow::{Result, bail};
use serde::Serialize;
use skyhaul::core::hint::Hint;
use skyhaul::wire::Format;
use skyhaul_measure::bench::peers::{self, PeerOptions, PeerReport, PeerRow};
use skyhaul_measure::bench::{BenchRow, Spread};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// A program that takes this much longer than a run failed: some fill a gigabyte first.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: &'a str,
    #[serde(flatten)]
    report: &'a PeerReport,
}

pub(super) fn run(args: &BenchArgs) -> Result<Outcome> {
    if args.format != Format::Auto {
        bail!(
            "`bench peers` has a format for each row{}",
            Hint("omit --format, and choose rows with --only")
        );
    }
    let options = options(args, &Interrupt::listen()?)?;
    let mut progress = Progress::new(args.output.quiet);
    let report = peers::run(&options, &mut |line| progress.show(line));
    progress.clear();
    let (report, command) = (report?, command_line());
    let directory = args.heaps.report.as_deref().unwrap_or(Path::new("peers-bench"));
    create(directory)?;
    let told = CommandReport { command: &command, report: &report };
    let table = table(&told);
    write(directory, "report.json", &serde_json::to_string_pretty(&told)?)?;
    write(directory, "table.txt", &table)?;
    if args.output.json {
        print_json(&told)?;
    } else {
        tell_text!("{table}");
        say!("wrote report.json and table.txt to {}", directory.display());
    }
    Ok(if report.interrupted || failed(&report) { Outcome::Failed } else { Outcome::Done })
}

fn options(args: &BenchArgs, interrupt: &Interrupt) -> Result<PeerOptions> {
    let given =
        [&args.peers.heap_receiver, &args.peers.heap_sender, &args.peers.iperf3, &args.peers.event_receiver];
    let names = peers::PEER_PROGRAMS.iter().map(|(name, _)| *name);
    let paths = names.zip(given).filter_map(|(name, path)| Some((name, path.clone()?))).collect();
    let program = match &args.peers.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    Ok(PeerOptions {
        program,
        paths,
        only: args.peers.only.clone(),
        time: args.time.duration(),
        rounds: args.rounds,
        address: args.address,
        cpus: args.cpus,
        timeout: TIMEOUT,
        stop: interrupt.flag().into(),
    })
}

/// Whether Skyhaul failed in a row, for another reason than a missing peer.
fn failed(report: &PeerReport) -> bool {
    let own = report.rows.iter().flat_map(|row| &row.candidates).filter(|own| own.candidate == "skyhaul");
    own.filter_map(|own| own.skipped.as_ref()).any(|why| !why.starts_with("not run: "))
}

fn table(told: &CommandReport<'_>) -> String {
    let report = told.report;
    let (machine, mut out) = (&report.machine, String::new());
    let _ = writeln!(out, "{}", told.command);
    let kib = |bytes: u64| if bytes == 0 { "?".into() } else { format!("{} KiB", bytes >> 10) };
    let _ = writeln!(
        out,
        "{} ({}), {} CPUs, L1d {}, L2 {}, L3 {}, {}",
        machine.cpu,
        if machine.family.is_empty() { "family not reported" } else { &machine.family },
        machine.cores,
        kib(machine.l1d),
        kib(machine.l2),
        kib(machine.l3),
        machine.kernel,
    );
    let _ = writeln!(
        out,
        "load average {:.1} before, {:.1} after; sender on CPU {}, receiver on CPU {}; largest socket buffer {}",
        report.others.0,
        report.others.1,
        report.cpus.0,
        report.cpus.1,
        kib(machine.socket_buffer),
    );
    for peer in report.peers.iter().filter(|peer| peer.missing.is_none()) {
        let path = peer.path.as_deref().map_or_else(String::new, print::name);
        let _ = writeln!(out, "{}: {path}, {}", peer.name, peer.identity.as_deref().unwrap_or_default());
    }
    let _ = writeln!(
        out,
        "{} rounds of {} s in turns; medians (minimum to maximum); CPU of all threads while the stream ran",
        report.rounds, report.seconds
    );
    if report.interrupted {
        let _ = writeln!(out, "{INTERRUPTED}");
    }
    let _ = writeln!(
        out,
        "\n{:<15} {:<24} {:>20} {:>21} {:>21} {:>8}  skyhaul / peer",
        "row", "candidate", "Gb/s", "receive CPU s/GB", "send CPU s/GB", "lost"
    );
    report.rows.iter().for_each(|row| out.push_str(&lines(row)));
    for row in &report.rows {
        let _ = writeln!(out, "  {}: {}", row.name, row.title);
    }
    out
}

/// A line for each candidate of a row.
fn lines(row: &PeerRow) -> String {
    let mut out = String::new();
    for own in &row.candidates {
        let ratio = row.ratio.filter(|_| own.candidate == "skyhaul");
        let ratio = ratio.map(|ratio| format!("{} of {}", spread(ratio, 1.0, 2), row.compares));
        let _ = writeln!(out, "{:<15} {:<24} {}", row.name, own.candidate, figures(own, ratio.as_deref()));
    }
    out
}

fn figures(own: &BenchRow, ratio: Option<&str>) -> String {
    if let Some(why) = &own.skipped {
        return why.clone();
    }
    let text = format!(
        "{:>20} {:>21} {:>21} {:>8}  {}",
        spread(own.bits_per_second, 1e-9, 1),
        spread(own.receive_cpu, 1.0, 3),
        spread(own.send_cpu, 1.0, 3),
        print::count(own.lost),
        ratio.unwrap_or_default(),
    );
    text.trim_end().to_owned()
}

/// A median with its lowest and highest value, in a unit.
pub(super) fn spread(of: Spread, unit: f64, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$}-{:.digits$})", of.median * unit, of.min * unit, of.max * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_measure::bench::{BenchRun, Spread};

    fn own(candidate: &str, skipped: Option<&str>) -> BenchRow {
        BenchRow {
            candidate: candidate.into(),
            receive_cpu: Spread { median: 0.25, min: 0.2, max: 0.3 },
            runs: vec![BenchRun::default()],
            skipped: skipped.map(str::to_owned),
            ..BenchRow::default()
        }
    }

    #[test]
    fn a_row_shows_the_ratio_or_why_there_is_none() {
        let half = Spread { median: 0.5, min: 0.4, max: 0.6 };
        let mut row = PeerRow {
            name: "heaps-4k".into(),
            compares: "receive CPU".into(),
            ratio: Some(half),
            candidates: vec![own("peer", None), own("skyhaul", None)],
            ..PeerRow::default()
        };
        let text = lines(&row);
        let both: Vec<&str> = text.lines().collect();
        assert!(both[0].contains("0.250 (0.200-0.300)") && !both[0].contains("of receive CPU"), "{text}");
        assert!(both[1].ends_with("0.50 (0.40-0.60) of receive CPU"), "{text}");
        row.candidates[0] = own("peer", Some("not run: no peer in PATH; hint: build it"));
        row.ratio = None;
        let text = lines(&row);
        assert!(
            text.contains("peer                     not run: no peer in PATH; hint: build it\n"),
            "{text}"
        );
    }

    #[test]
    fn only_a_failure_of_skyhaul_fails() {
        let report = |peer: Option<&str>, ours: Option<&str>| PeerReport {
            rows: vec![PeerRow {
                candidates: vec![own("peer", peer), own("skyhaul", ours)],
                ..PeerRow::default()
            }],
            ..PeerReport::default()
        };
        assert!(!failed(&report(None, None)) && !failed(&report(Some("failed: x"), None)));
        assert!(!failed(&report(None, Some("not run: no sender"))));
        assert!(failed(&report(None, Some("failed: it ended"))));
        let (report, command) = (report(None, None), "skyhaul bench peers");
        let text = table(&CommandReport { command, report: &report });
        assert!(text.starts_with("skyhaul bench peers\n") && text.contains("family not reported"), "{text}");
    }
}
