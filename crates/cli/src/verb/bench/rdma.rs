//! `skyhaul bench rdma`: RDMA beside plain sockets, as a table and as an HTML page.
//!
//! Nothing here fails by being slow: the exit status is 1 only if a run failed, or if Ctrl-C ended the measurement early.

use super::super::output::command_line;
use super::super::receiving::print_json;
use super::peers::spread;
use crate::args::BenchArgs;
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::{self, Progress};
use crate::report::chart::{Chart, Panel, Series, WIDTH};
use crate::report::drawing::Scale;
use crate::report::page::Page;
use crate::report::table::Table;
use crate::report::words::json;
use anyhow::{Result, bail};
use serde::Serialize;
use skyhaul::core::hint::Hint;
use skyhaul::io::file::{failed, replace};
use skyhaul::io::quantity::{Rate, Size};
use skyhaul::wire::Format;
use skyhaul_measure::bench::Spread;
use skyhaul_measure::bench::rdma::{
    self, RDMA_EXPERIMENTS, RdmaBenchOptions, RdmaBenchReport, RdmaBenchRow, RdmaRatio,
};
use std::fmt::Write as _;
use std::fs::OpenOptions;

/// Bits per second if no rate is given: what one CPU can do beside others.
const RATE: u64 = 4_000_000_000;

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: &'a str,
    #[serde(flatten)]
    report: &'a RdmaBenchReport,
}

pub(super) fn run(args: &BenchArgs) -> Result<Outcome> {
    if args.format != Format::Auto {
        bail!("`bench rdma` has no format{}", Hint("omit --format"));
    }
    let options = options(args, &Interrupt::listen()?)?;
    let estimate = options.estimate()?;
    let page = args.heaps.report.as_deref();
    // Found out before the minutes of measuring.
    if let Some(path) = page {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| failed("write", path, &error))?;
    }
    if !args.output.quiet {
        say!("this takes about {:.0} s; Ctrl-C ends it with what was measured", estimate.as_secs_f64());
    }
    let mut progress = Progress::new(args.output.quiet);
    let report = rdma::run(&options, &mut |line| progress.show(line));
    progress.clear();
    let (report, command) = (report?, command_line());
    let told = CommandReport { command: &command, report: &report };
    if let Some(path) = page {
        replace(path, html(&told))?;
    }
    if args.output.json {
        print_json(&told)?;
    } else {
        tell_text!("{}", text(&told));
    }
    let any_failed = report.rows.iter().any(|row| !row.failed.is_empty());
    Ok(if report.interrupted || any_failed { Outcome::Failed } else { Outcome::Done })
}

fn options(args: &BenchArgs, interrupt: &Interrupt) -> Result<RdmaBenchOptions> {
    Ok(RdmaBenchOptions {
        messages: args.rdma.message_sizes.iter().map(|size| size.bytes()).collect(),
        losses: args.rdma.losses.clone(),
        only: args.peers.only.clone(),
        candidates: args.candidates.clone(),
        datagram_bytes: args.rdma.datagram_bytes,
        train: args.rdma.train,
        memory: args.memory.bytes(),
        lanes: args.rdma.lanes,
        time: args.time.duration(),
        rounds: args.rounds,
        rate: args.rate.map_or(RATE, |rate| rate.bits_per_second()),
        address: args.address,
        networks: args.networks()?,
        veth: args.rdma.veth,
        cpus: args.cpus,
        stop: interrupt.flag().into(),
    })
}

/// What every row of an experiment says, the first column being its name.
fn headings(experiment: &str) -> Vec<&'static str> {
    let mut all = vec!["message", "withheld", "candidate"];
    match experiment {
        "latency" => all.extend(["#p50, µs", "#p99, µs", "#p99.9, µs", "#lost"]),
        "lanes" => all.extend([
            "#lanes",
            "#clock slowed for all",
            "#Gb/s",
            "#send CPU s/GB",
            "#receive CPU s/GB",
            "#sent",
            "#lost",
        ]),
        "receivers" | "wakes" => all.extend([
            "#Gb/s",
            "#send CPU s/GB",
            "#receive CPU s/GB",
            "#both s/GB",
            if experiment == "receivers" { "#beyond drop s/GB" } else { "#sleeps/message" },
            "#softirq s/GB",
            "#sleeps/10⁶",
            "#sent",
            "#lost",
            "#refused",
        ]),
        _ => all.extend([
            "#Gb/s",
            "#send CPU s/GB",
            "#receive CPU s/GB",
            "#softirq s/GB",
            "#sleeps/10⁶",
            "#kept, %",
            "#whole, %",
            "#sent",
            "#lost",
            "#refused",
        ]),
    }
    all
}

/// The cells of a row under [`headings`], and what is wrong with it.
fn cells(row: &RdmaBenchRow) -> (Vec<String>, String) {
    let withheld = if row.loss > 0.0 { format!("{} %", row.loss * 100.0) } else { "-".into() };
    let mut cells = vec![Size::from_bytes(row.message_bytes).to_string(), withheld, row.candidate.clone()];
    if let Some(why) = &row.skipped {
        return (cells, format!("SKIPPED: {why}"));
    }
    let mut wrong: Vec<String> = row.failed.iter().map(|why| format!("FAILED: {why}")).collect();
    if row.lossy_runs > 0 {
        wrong.push(format!(
            "{} of {} runs lost datagrams: not in the medians",
            row.lossy_runs,
            row.runs.len()
        ));
    }
    if row.incomplete {
        wrong.push("incomplete".into());
    }
    let sum = |of: fn(&rdma::RdmaBenchRun) -> u64| print::count(row.runs.iter().map(of).sum());
    let or_none = |of: Option<String>| of.unwrap_or_else(|| "-".into());
    if row.runs.len() == row.lossy_runs {
        return (cells, wrong.join("; "));
    }
    if let Some(latency) = row.latency {
        cells.extend(latency.map(|of| spread(of, 1.0, 1)));
        cells.push(sum(|run| run.lost));
        return (cells, wrong.join("; "));
    }
    let own = |of: Option<Spread>, digits| or_none(of.map(|of| spread(of, 1.0, digits)));
    let rate =
        [spread(row.bits_per_second, 1e-9, 2), spread(row.send_cpu, 1.0, 3), spread(row.receive_cpu, 1.0, 3)];
    if row.experiment == "lanes" {
        cells.extend([own(row.lanes, 0), own(row.slowdown, 2)]);
        cells.extend(rate);
        cells.extend([sum(|run| run.sent), sum(|run| run.lost)]);
        return (cells, wrong.join("; "));
    }
    if matches!(row.experiment.as_str(), "receivers" | "wakes") {
        let is_beside = row.experiment == "receivers";
        let special = if is_beside { row.beyond_drop } else { row.switches_per_message };
        cells.extend(rate);
        cells.extend([
            spread(row.both_cpu, 1.0, 3),
            own(special, 3),
            own(row.softirq, 3),
            own(row.switches_per_million, 0),
            sum(|run| run.sent),
            sum(|run| run.lost),
            sum(|run| run.refused),
        ]);
        return (cells, wrong.join("; "));
    }
    cells.extend([
        spread(row.bits_per_second, 1e-9, 2),
        spread(row.send_cpu, 1.0, 3),
        spread(row.receive_cpu, 1.0, 3),
        or_none(row.softirq.map(|of| spread(of, 1.0, 3))),
        or_none(row.switches_per_million.map(|of| spread(of, 1.0, 0))),
        spread(row.kept, 100.0, 2),
        or_none(row.whole.map(|of| spread(of, 100.0, 2))),
        sum(|run| run.sent),
        sum(|run| run.lost),
        sum(|run| run.refused),
    ]);
    (cells, wrong.join("; "))
}

/// What a table of ratios says, the first column being of both names.
const RATIOS: [&str; 8] = [
    "message",
    "withheld",
    "candidate : other",
    "#rounds",
    "#rate",
    "#CPU of both",
    "#receive CPU",
    "#latency or lanes",
];

/// A line for each candidate and each other that it is compared with.
fn ratios(rows: &[&RdmaBenchRow]) -> Vec<Vec<String>> {
    let or_none = |of: Option<Spread>| of.map_or_else(|| "-".into(), |of| spread(of, 1.0, 2));
    let line = |row: &RdmaBenchRow, ratio: &RdmaRatio| {
        let mut all = cells(row).0;
        all.truncate(2);
        all.extend([format!("{} : {}", row.candidate, ratio.to), ratio.rounds.to_string()]);
        all.extend([spread(ratio.rate, 1.0, 2), spread(ratio.cpu, 1.0, 2), or_none(ratio.receive_cpu)]);
        all.push(or_none(ratio.latency.or(ratio.lanes)));
        all
    };
    rows.iter().flat_map(|row| row.ratios.iter().map(|ratio| line(row, ratio))).collect()
}

fn of<'a>(report: &'a RdmaBenchReport, experiment: &str) -> Vec<&'a RdmaBenchRow> {
    report.rows.iter().filter(|row| row.experiment == experiment).collect()
}

/// What holds for all rows.
fn conditions(report: &RdmaBenchReport) -> Vec<String> {
    let rate = match report.rate {
        0 => "as fast as possible".to_owned(),
        rate => format!("Writes and sockets at {}", Rate::from_bits_per_second(rate)),
    };
    vec![
        format!(
            "{}; load average {:.1} before, {:.1} after",
            report.machine, report.others.0, report.others.1
        ),
        format!(
            "{} rounds of {} s in turns, {rate}; sender on CPU {}, receiver on CPU {}; medians (minimum to maximum); of Reads, the sender is the \
             server, and each has {} s",
            report.rounds, report.seconds, report.cpus.0, report.cpus.1, report.read_deadline_seconds
        ),
        format!(
            "path: {}; datagrams of at most {} bytes, trains of {} from the sender of receivers and lanes; region of {}",
            report.path,
            report.datagram_bytes,
            report.train,
            Size::from_bytes(report.memory)
        ),
        format!("energy: {}", report.energy),
        format!("softirq: {}", report.softirq),
    ]
}

/// How each candidate works, once.
fn methods(report: &RdmaBenchReport) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for row in report.rows.iter().filter(|row| !row.how.is_empty()) {
        let line = format!("{}: {}", row.candidate, row.how);
        if !told.contains(&line) {
            told.push(line);
        }
    }
    told
}

fn text(told: &CommandReport<'_>) -> String {
    let (report, mut out) = (told.report, format!("{}\n", told.command));
    conditions(report).iter().for_each(|line| out.push_str(&format!("{line}\n")));
    if report.interrupted {
        let _ = writeln!(out, "{INTERRUPTED}");
    }
    for experiment in RDMA_EXPERIMENTS {
        let rows = of(report, experiment);
        if rows.is_empty() {
            continue;
        }
        let line = |cells: &[String]| {
            let wide = |(n, cell): (usize, &String)| match n {
                0 | 1 => format!("{cell:<9}"),
                2 => format!("{cell:<22}"),
                _ => format!("{cell:>21}"),
            };
            cells.iter().enumerate().map(wide).collect::<Vec<_>>().join(" ")
        };
        let names: Vec<String> =
            headings(experiment).iter().map(|name| name.trim_start_matches('#').to_owned()).collect();
        let _ = writeln!(out, "\n{experiment}\n{}", line(&names));
        for row in &rows {
            let (cells, wrong) = cells(row);
            let _ = writeln!(out, "{}", format!("{}  {wrong}", line(&cells)).trim_end());
        }
        let ratios = ratios(&rows);
        if !ratios.is_empty() {
            let names = RATIOS.map(|name| name.trim_start_matches('#').to_owned());
            let _ = writeln!(out, "\nby round: {experiment}\n{}", line(&names));
            ratios.iter().for_each(|cells| {
                let _ = writeln!(out, "{}", line(cells));
            });
        }
    }
    out.push('\n');
    methods(report).iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    out
}

fn html(told: &CommandReport<'_>) -> String {
    let report = told.report;
    let mut page = Page::new("Skyhaul: RDMA beside sockets", "SKYHAUL BENCH RDMA");
    let conditions = conditions(report);
    let mut lines: Vec<&str> = conditions.iter().skip(1).map(String::as_str).collect();
    lines.push(&conditions[0]);
    page.headline(
        "RDMA in software beside sockets",
        report.interrupted.then_some((false, INTERRUPTED)),
        &lines,
    );
    for experiment in RDMA_EXPERIMENTS {
        let rows = of(report, experiment);
        if rows.is_empty() {
            continue;
        }
        let mut table = Table::new(&headings(experiment));
        for row in &rows {
            let (cells, wrong) = cells(row);
            table.add(&cells, "", &wrong);
        }
        let (title, caption) = match experiment {
            "messages" => ("Message sizes", "Nothing is withheld."),
            "loss" => ("Losses", "Datagrams are withheld on purpose, by a seed for each round."),
            "receivers" => ("Receivers", "The same datagrams, from one sender."),
            "wakes" => ("Wake-ups", "With and without solicited events."),
            "lanes" => ("LOFAR lanes", "The most lanes in real time without loss, by the receiver's ledger."),
            _ => ("Latency", "From a Write of 64 bytes until a polling reader sees them."),
        };
        let mut tables = chart(experiment, &rows) + &table.html();
        let ratios = ratios(&rows);
        if !ratios.is_empty() {
            let mut table = Table::new(&RATIOS);
            ratios.iter().for_each(|cells| table.add(cells, "", ""));
            tables += &table.html();
        }
        page.section(title, caption, &tables);
    }
    page.section("Methods", &methods(report).join(" · "), "");
    page.source(told.command, &json(told));
    page.finish()
}

/// A line for each candidate; nothing for latencies.
fn chart(experiment: &str, rows: &[&RdmaBenchRow]) -> String {
    type Value = fn(&RdmaBenchRow) -> f64;
    let x: Value =
        if experiment == "messages" { |r| r.message_bytes as f64 / 1024.0 } else { |r| r.loss * 100.0 };
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.runs.len() > row.lossy_runs) {
        if !names.contains(&row.candidate.as_str()) {
            names.push(&row.candidate);
        }
    }
    let lines = |value: Value| -> Vec<Series> {
        let measured = |name: &&str| {
            let own = rows.iter().filter(|row| row.candidate == *name && row.runs.len() > row.lossy_runs);
            Series::points(*name, own.map(|row| (x(row), value(row))))
        };
        names.iter().map(measured).collect()
    };
    let panel =
        |title: &str, value: Value| Panel::new(200.0, Scale::linear(title).at_least(1e-3)).all(lines(value));
    let chart = match experiment {
        "messages" => Chart::new("Goodput and CPU by message size")
            .x(Scale::log("message, KiB"))
            .panel(panel("goodput, Gb/s", |row| row.bits_per_second.median / 1e9))
            .panel(panel("CPU of both ends, s/GB", |row| row.send_cpu.median + row.receive_cpu.median)),
        "loss" => Chart::new("What is kept by loss")
            .x(Scale::log("withheld, %"))
            .panel(panel("bytes kept, %", |row| row.kept.median * 100.0))
            .panel(panel("messages whole, %", |row| row.whole.map_or(0.0, |whole| whole.median * 100.0))),
        _ => return String::new(),
    };
    chart.inline(WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_measure::bench::rdma::RdmaBenchRun;

    fn row(experiment: &str, candidate: &str) -> RdmaBenchRow {
        let half = Spread { median: 0.5, min: 0.4, max: 0.6 };
        RdmaBenchRow {
            experiment: experiment.into(),
            candidate: candidate.into(),
            message_bytes: 8192,
            bits_per_second: Spread { median: 3e9, min: 2e9, max: 4e9 },
            receive_cpu: half,
            kept: half,
            runs: vec![RdmaBenchRun { sent: 1234, lost: 77, ..RdmaBenchRun::default() }],
            ..RdmaBenchRow::default()
        }
    }

    #[test]
    fn page_and_table_have_every_measurement_and_what_is_wrong() {
        let rows = vec![
            row("messages", "udp"),
            RdmaBenchRow { skipped: Some("needs <CAP_BPF>".into()), ..row("messages", "write-bpf") },
            RdmaBenchRow { failed: vec!["sums".into()], incomplete: true, loss: 0.03, ..row("loss", "read") },
            RdmaBenchRow { lossy_runs: 1, ..row("messages", "write-stage") },
            RdmaBenchRow { latency: Some([Spread::of([8.5]); 3]), ..row("latency", "udp") },
            RdmaBenchRow {
                beyond_drop: Some(Spread::of([0.123])),
                both_cpu: Spread::of([0.7]),
                ratios: vec![RdmaRatio {
                    to: "scatter".into(),
                    rounds: 5,
                    cpu: Spread { median: 0.41, min: 0.39, max: 0.47 },
                    ..RdmaRatio::default()
                }],
                ..row("receivers", "write-bpf")
            },
            RdmaBenchRow { lanes: Some(Spread::of([37.0])), ..row("lanes", "bpf") },
        ];
        let report = RdmaBenchReport {
            rows,
            energy: "no meter".into(),
            interrupted: true,
            ..RdmaBenchReport::default()
        };
        let told = CommandReport { command: "skyhaul bench rdma", report: &report };
        let (text, page) = (text(&told), html(&told));
        for all in [&text, &page] {
            for part in [
                "3.00 (2.00-4.00)",
                "0.500 (0.400-0.600)",
                "50.00 (40.00-60.00)",
                "8.5 (8.5-8.5)",
                "0.123 (0.123-0.123)",
                "write-bpf : scatter",
                "0.41 (0.39-0.47)",
                "37 (37-37)",
                "1 of 1 runs lost datagrams",
                "FAILED: sums; incomplete",
                "energy: no meter",
                "write-stage",
                INTERRUPTED,
            ] {
                assert!(all.contains(part), "{part}: {all}");
            }
        }
        assert!(text.contains("SKIPPED: needs <CAP_BPF>") && page.contains("SKIPPED: needs &lt;CAP_BPF&gt;"));
        assert!(page.contains("<circle") && !page.contains("NaN"), "{page}");
        // No figures of a run that is not in the medians.
        let lossy = text.lines().find(|line| line.contains("runs lost")).unwrap();
        assert!(!lossy.contains("3.00"), "{lossy}");
    }
}
