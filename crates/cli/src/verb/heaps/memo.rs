//! `skyhaul bench --format spead`: the experiments of SDP memo 046 on this machine, as tables and plots;
//! and `--experiments limited`: receivers with a share of a CPU.

use super::super::output::{command_line, create, write};
use super::super::receiving::print_json;
use crate::args::{BenchArgs, Experiment};
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::{self, Progress};
use crate::report::chart::{Chart, Panel, Series};
use crate::report::drawing::Scale;
use crate::report::words::short;
use anyhow::{Context, Result};
use serde::Serialize;
use skyhaul::io::host::sockets::largest_buffer;
use skyhaul::io::quantity::Size;
use skyhaul::stop::StopFlag;
use skyhaul_experiments::memo::limited::{LimitedOptions, LimitedRow, ReceiverCommand};
use skyhaul_experiments::memo::{
    self as heaps, Experiments, HeapTransport, MemoCell, MemoOptions, MemoReport, MemoSetting, RatePoint,
};
use skyhaul_measure::bench::Spread;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: &'a str,
    #[serde(flatten)]
    report: &'a MemoReport,
}

pub(crate) fn run(args: &BenchArgs) -> Result<Outcome> {
    let stop: StopFlag = Interrupt::listen()?.flag().into();
    let options = options(args, stop)?;
    let directory = args.heaps.report.as_deref().unwrap_or(Path::new("spead-bench"));
    create(directory)?;
    let mut progress = Progress::new(args.output.quiet);
    let report = heaps::run(&options, &mut |line| progress.show(line));
    progress.clear();
    let report = report?;
    let command = command_line();
    let plots = all(&report);
    let page = page(&report, &command, &plots);
    for (name, svg) in &plots {
        write(directory, name, svg)?;
    }
    write(directory, "README.md", &page)?;
    let told = CommandReport { command: &command, report: &report };
    write(directory, "figures.json", &serde_json::to_string_pretty(&told)?)?;
    if args.output.json {
        print_json(&told)?;
    } else {
        tell_text!("{page}");
        say!("wrote README.md, figures.json and {} plots to {}", plots.len(), directory.display());
    }
    Ok(if report.interrupted { Outcome::Failed } else { Outcome::Done })
}

fn options(args: &BenchArgs, stop: StopFlag) -> Result<MemoOptions> {
    let wanted = &args.heaps.experiments;
    let has = |one| wanted.is_empty() || wanted.contains(&one);
    let interfaces = &args.heaps.interfaces;
    let addresses = if interfaces.is_empty() { vec![args.address] } else { interfaces.clone() };
    Ok(MemoOptions {
        experiments: Experiments {
            link: has(Experiment::Link),
            light: has(Experiment::Light),
            receiver: has(Experiment::Receiver),
            pairs: has(Experiment::Pairs),
            scaling: has(Experiment::Scaling),
        },
        heap_bytes: args.heaps.heap_size.bytes() as usize,
        time: args.time.duration(),
        rounds: args.rounds,
        pairs: args.heaps.pairs,
        rates: args.heaps.rates.iter().map(|rate| rate.bits_per_second()).collect(),
        limited: limited_options(args, addresses[0], &stop)?,
        addresses,
        networks: args.networks()?,
        stop,
    })
}

/// The whole report as one page.
pub(super) fn page(report: &MemoReport, command: &str, plots: &[Plot]) -> String {
    let mut out = format!("# SPEAD on this machine\n\n`{command}`\n\n{}\n\n", report.machine);
    let _ = writeln!(
        out,
        "Received on {}. Heaps of {}, runs of {:.1} s, {} rounds; medians (minimum to maximum). Load average {:.1} before, \
         {:.1} after.\n",
        report.interfaces.join(", "),
        print::bytes(report.heap_bytes as u64),
        report.seconds,
        report.rounds,
        report.others.0,
        report.others.1
    );
    if report.interrupted {
        let _ = writeln!(out, "**{INTERRUPTED}.**\n");
    }
    if !report.link.is_empty() {
        out.push_str("## Limit of the link (memo, table 1)\n\n| transport | Gb/s |\n|---|---|\n");
        for cell in &report.link {
            let _ = writeln!(out, "| {} | {} |", cell.way.name(), speed(cell.figures.sent));
        }
        out.push('\n');
    }
    if !report.light.is_empty() {
        out.push_str("## Senders with a light receiver (table 2)\n\n");
        table(&mut out, &report.light, false);
    }
    if !report.receiver.is_empty() {
        out.push_str("## Senders with receivers (tables 3 and 4)\n\nGb/s; below, heaps lost.\n\n");
        table(&mut out, &report.receiver, true);
    }
    points(&mut out, report);
    limited_table(&mut out, &report.limited);
    for (name, _) in plots {
        let _ = writeln!(out, "![{}]({name})\n", name.trim_end_matches(".svg"));
    }
    out
}

fn table(out: &mut String, cells: &[MemoCell], losses: bool) {
    let names = MemoSetting::ALL.map(MemoSetting::name).join(" | ");
    let _ = writeln!(out, "| | {names} |\n|---|---|---|---|---|");
    for way in [HeapTransport::Udp, HeapTransport::Tcp, HeapTransport::TcpHeaps] {
        let row: Vec<&MemoCell> = MemoSetting::ALL
            .iter()
            .filter_map(|&s| cells.iter().find(|c| c.way == way && c.setting == s))
            .collect();
        if row.is_empty() {
            continue;
        }
        let told: Vec<String> = row.iter().map(|c| speed(c.figures.sent)).collect();
        let _ = writeln!(out, "| {} | {} |", way.name(), told.join(" | "));
        if losses {
            let told: Vec<String> = row.iter().map(|c| percent(c.figures.lost)).collect();
            let _ = writeln!(out, "| heaps lost | {} |", told.join(" | "));
        }
        let cpu = |c: &&MemoCell| {
            format!("{:.3} + {:.3} s/GB", c.figures.send_cpu.median, c.figures.receive_cpu.median)
        };
        let told: Vec<String> = row.iter().map(cpu).collect();
        let _ = writeln!(out, "| CPU, sending + receiving | {} |", told.join(" | "));
    }
    out.push('\n');
}

fn points(out: &mut String, report: &MemoReport) {
    if !report.pairs.is_empty() {
        out.push_str("## Pairs at rising rates (figures 2, 3 and 6)\n\n");
        out.push_str(
            "| pairs | rate of each | sent, Gb/s | heaps lost | effective, Gb/s |\n|---|---|---|---|---|\n",
        );
        for p in report.pairs.iter().chain(&report.pairs_tcp) {
            let asked = if p.rate == 0 { "TCP, unlimited".to_owned() } else { print::rate(p.rate as f64) };
            let f = &p.figures;
            let _ = writeln!(
                out,
                "| {} | {asked} | {} | {} | {} |",
                p.pairs,
                speed(f.sent),
                percent(f.lost),
                speed(f.effective)
            );
        }
        out.push('\n');
    }
    if !report.scaling.is_empty() {
        out.push_str("## Scaling (figures 4 and 5)\n\n");
        out.push_str("| senders | rate of each | sent, Gb/s | shortfall from the target | heaps lost |\n|---|---|---|---|---|\n");
        for p in &report.scaling {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {:.1} % | {} |",
                p.pairs,
                print::rate(p.rate as f64),
                speed(p.figures.sent),
                p.scaling_loss() * 100.0,
                percent(p.figures.lost)
            );
        }
        out.push('\n');
    }
}

fn speed(of: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", of.median / 1e9, of.min / 1e9, of.max / 1e9)
}

fn percent(of: Spread) -> String {
    format!("{:.2} % ({:.2}-{:.2})", of.median * 100.0, of.min * 100.0, of.max * 100.0)
}

/// A file's name and its SVG.
pub(super) type Plot = (&'static str, String);

/// Plots of the figures in the report.
pub(super) fn all(report: &MemoReport) -> Vec<Plot> {
    let mut plots = Vec::new();
    if !report.pairs.is_empty() {
        plots.push(("pairs.svg", pairs(report)));
    }
    if !report.scaling.is_empty() {
        plots.push(("scaling.svg", scaling(&report.scaling)));
        plots.push(("scaling-loss.svg", scaling_loss(&report.scaling)));
    }
    plots
}

fn gbps(bits: f64) -> f64 {
    bits / 1e9
}

/// Figures 2, 3 and 6: aggregate and effective speed, loss, the ideal line, and TCP.
fn pairs(report: &MemoReport) -> String {
    let points = &report.pairs;
    let count = points[0].pairs;
    let most = points.iter().map(|p| gbps(p.rate as f64)).fold(0.0, f64::max);
    let series = |name: &str, unit: f64, value: &dyn Fn(&RatePoint) -> Spread| {
        let at = |p: &RatePoint| (gbps(p.rate as f64), value(p));
        let band = |(x, s): (f64, Spread)| (x, s.min * unit, s.median * unit, s.max * unit);
        Series::band(name, points.iter().map(at).map(band).collect::<Vec<_>>())
    };
    let panel = Panel::new(298.0, Scale::linear("all pairs together, Gb/s"))
        .right(Scale::linear("heaps lost, %").to(100.0))
        .series(series("UDP sent", 1e-9, &|p| p.figures.sent))
        .series(series("UDP effective", 1e-9, &|p| p.figures.effective).colour(4))
        .series(series("UDP heaps lost", 100.0, &|p| p.figures.lost).right().colour(5))
        .series(
            Series::dotted(format!("{count} × the rate"), [(0.0, 0.0), (most, most * count as f64)])
                .colour(2),
        );
    let panel = match &report.pairs_tcp {
        Some(tcp) => panel.level(gbps(tcp.figures.sent.median), "TCP"),
        None => panel,
    };
    Chart::new("Aggregate speed and loss by the rate of each sender")
        .x(Scale::linear("requested rate of each sender, Gb/s"))
        .panel(panel)
        .file()
}

/// Figure 4: speed by number of senders, one colour for each rate.
fn scaling(points: &[RatePoint]) -> String {
    let counts = points.iter().map(|p| p.pairs).max().unwrap_or(1) as f64;
    let mut panel = Panel::new(298.0, Scale::linear("all senders together, Gb/s"));
    for (colour, &rate) in rates(points).iter().enumerate() {
        let rate_each = gbps(rate as f64);
        let of_it = points.iter().filter(|p| p.rate == rate);
        let dots = of_it.map(|p| (p.pairs as f64, gbps(p.figures.sent.median)));
        panel = panel
            .series(Series::dotted("", [(0.0, 0.0), (counts, rate_each * counts)]).colour(colour))
            .series(Series::dots(format!("{} Gb/s", short(rate_each)), dots).colour(colour));
    }
    Chart::new("Aggregate speed by number of senders")
        .x(Scale::linear("senders").to(counts + 0.3))
        .panel(panel)
        .file()
}

/// Figure 5: shortfall from the target, by the target.
fn scaling_loss(points: &[RatePoint]) -> String {
    let target = |p: &RatePoint| gbps(p.rate as f64) * p.pairs as f64;
    let panel = Panel::new(298.0, Scale::linear("shortfall from the target, %").at_least(5.0).from(0.0));
    let dots = |&rate: &u64| {
        let of_it = points.iter().filter(move |p| p.rate == rate);
        let dots = of_it.map(|p| (target(p), p.scaling_loss() * 100.0));
        Series::dots(format!("{} Gb/s each", short(gbps(rate as f64))), dots)
    };
    Chart::new("Scaling loss by target speed")
        .x(Scale::linear("target of all senders together, Gb/s"))
        .panel(panel.all(rates(points).iter().map(dots)))
        .file()
}

fn rates(points: &[RatePoint]) -> Vec<u64> {
    let mut rates: Vec<u64> = points.iter().map(|p| p.rate).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

/// Bits per second at which CPU time is measured: less than half a processor receives.
const RATE: u64 = 4_000_000_000;
/// Socket buffer that every candidate requests, in bytes, if all of them can have it.
const BUFFER: u64 = 64 << 20;
/// The largest heap that `receive` takes unasked, bytes.
const LARGEST_HEAP: u64 = 256 << 20;

/// What is measured with a share of a processor, if that was asked for.
///
/// # Errors
/// A line of another program that cannot be meant.
pub(super) fn limited_options(
    args: &BenchArgs,
    address: IpAddr,
    stop: &StopFlag,
) -> Result<Option<LimitedOptions>> {
    let limited = &args.heaps;
    if !limited.experiments.contains(&Experiment::Limited) {
        return Ok(None);
    }
    let share = match limited.receiver_cpu {
        Some(share) => share,
        None => "50%".parse()?,
    };
    let own = std::env::current_exe().context("where this command lies")?;
    let heap = limited.heap_size.bytes();
    let words = format!(
        "receive --format spead --listen udp://{{address}}:{{port}} --socket-buffer {{buffer}} --largest-heap {} \
         --json --quiet",
        heap.max(LARGEST_HEAP)
    );
    let mut candidates = vec![ReceiverCommand::own(&own, &words)?];
    for line in &limited.against {
        candidates.push(ReceiverCommand::parse(line)?);
    }
    let packets = if limited.packets.is_empty() { vec![1472, 8972] } else { limited.packets.clone() };
    Ok(Some(LimitedOptions {
        candidates,
        share,
        cpus: args.cpus,
        packets,
        heap_bytes: heap as usize,
        // As root, ours may exceed the limit, which the others do not try: every candidate requests what all can get.
        buffer: BUFFER.min(largest_buffer()),
        rate: limited.rates.first().map_or(RATE, |rate| rate.bits_per_second()),
        time: args.time.duration(),
        rounds: args.rounds,
        address,
        networks: args.networks()?,
        stop: stop.clone(),
    }))
}

/// The rows in Markdown.
pub(super) fn limited_table(out: &mut String, rows: &[LimitedRow]) {
    let Some(first) = rows.first() else { return };
    let _ = writeln!(
        out,
        "## Receivers with {:.0} % of a CPU\n\nLimited by {}. Sent by our sender to each; lossless: the drop counter of \
         the port in `/proc/net/udp` did not move. Socket buffers of {}{}.\n",
        first.share * 100.0,
        first.limit,
        Size::from_bytes(first.buffer),
        if first.buffer < BUFFER {
            ", the most that every program gets here: `sysctl -w net.core.rmem_max=67108864`"
        } else {
            ""
        }
    );
    let _ = writeln!(
        out,
        "| program | packet | highest rate without loss, Gb/s | receive CPU s/GB at {} | CPU used, maximum |\n\
         |---|---|---|---|---|",
        print::rate(first.rate as f64)
    );
    for row in rows {
        let _ = writeln!(
            out,
            "| {} | {} | {}{} | {}{} | {:.0} % |",
            row.program,
            row.packet,
            spread(row.lossless_bits, 1e-9, 2),
            if row.sender_ended { ", limited by the sender" } else { "" },
            spread(row.cpu_s_per_gb, 1.0, 3),
            if row.whole_at_rate { String::new() } else { lost(row.dropped_at_rate) },
            row.most_used * 100.0
        );
    }
    out.push('\n');
    let mut told = Vec::new();
    for row in rows.iter().filter(|row| row.packet == first.packet) {
        if !told.contains(&&row.command) {
            told.push(&row.command);
            let _ = writeln!(out, "- {}: `{}`", row.program, row.command);
        }
    }
    out.push('\n');
}

fn lost(dropped: u64) -> String {
    if dropped > 0 { format!(", {} dropped", print::count(dropped)) } else { ", incomplete".into() }
}

fn spread(of: Spread, unit: f64, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$}-{:.digits$})", of.median * unit, of.min * unit, of.max * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_experiments::memo::PairFigures;

    #[test]
    fn a_table_has_a_row_for_each_way_that_was_measured() {
        let cell = |way, setting| MemoCell { way, setting, packet: 1472, figures: PairFigures::default() };
        let receiver = MemoSetting::ALL
            .into_iter()
            .flat_map(|s| [cell(HeapTransport::Udp, s), cell(HeapTransport::TcpHeaps, s)])
            .collect();
        let report = MemoReport { receiver, ..MemoReport::default() };
        let page = page(&report, "skyhaul bench", &[("pairs.svg", String::new())]);
        assert!(
            page.contains("| UDP | 0.00 (0.00-0.00) |") && page.contains("| TCP, whole heaps |"),
            "{page}"
        );
        assert!(!page.contains("| TCP |") && page.contains("![pairs](pairs.svg)"), "{page}");
    }

    #[test]
    fn every_figure_is_a_whole_drawing() {
        let point = |pairs: usize, rate: u64, sent: f64| RatePoint {
            pairs,
            rate,
            figures: PairFigures {
                sent: Spread::of([sent]),
                effective: Spread::of([sent / 2.0]),
                ..PairFigures::default()
            },
        };
        let report = MemoReport {
            pairs: vec![point(2, 1_000_000_000, 2e9), point(2, 4_000_000_000, f64::NAN)],
            pairs_tcp: Some(point(2, 0, 3e9)),
            scaling: vec![point(1, 1_000_000_000, 1e9), point(2, 1_000_000_000, 1.5e9)],
            ..MemoReport::default()
        };
        let plots = all(&report);
        assert_eq!(plots.len(), 3);
        for (name, svg) in plots {
            assert!(svg.starts_with("<svg xmlns") && svg.trim_end().ends_with("</svg>"), "{name}");
            assert!(!svg.contains("NaN") && svg.matches("<circle").count() >= 2, "{name}");
        }
        assert!(all(&MemoReport::default()).is_empty());
    }

    #[test]
    fn a_row_tells_what_was_found_and_what_is_wrong_with_it() {
        let row = LimitedRow {
            program: "other".into(),
            command: "other {port}".into(),
            packet: 1472,
            share: 0.5,
            lossless_bits: Spread::of([7e9, 8e9, 9e9]),
            whole_at_rate: true,
            buffer: BUFFER,
            rate: RATE,
            most_used: 0.498,
            ..LimitedRow::default()
        };
        let broken =
            LimitedRow { whole_at_rate: false, dropped_at_rate: 17, sender_ended: true, ..row.clone() };
        let mut out = String::new();
        limited_table(&mut out, &[row, broken]);
        assert!(out.contains("## Receivers with 50 % of a CPU"), "{out}");
        assert!(out.contains("| other | 1472 | 8.00 (7.00-9.00) | 0.000 (0.000-0.000) | 50 % |"), "{out}");
        assert!(out.contains("limited by the sender") && out.contains("17 dropped"), "{out}");
        assert_eq!(out.matches("`other {port}`").count(), 1, "{out}");
        assert!(!out.contains("sysctl"), "{out}");
    }
}
