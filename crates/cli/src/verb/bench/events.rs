//! `skyhaul bench ejfat`: events from senders through a balancer to workers, as tables and plots.

use super::super::output::{command_line, create, write};
use super::super::receiving::print_json;
use crate::args::BenchArgs;
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::{self, Progress};
use crate::report::chart::Series;
use crate::report::chart::{Chart, Panel};
use crate::report::drawing::Scale;
use anyhow::Result;
use serde::Serialize;
use skyhaul::balance::BalanceOptions;
use skyhaul::io::quantity::{Rate, Size};
use skyhaul_experiments::events::{
    self, EventBenchOptions, EventBenchReport, EventLosses, EventPoint, EventSetting,
};
use skyhaul_measure::bench::Spread;
use std::fmt::Write as _;
use std::path::Path;

/// Rates if none are given.
const RATES: [u64; 4] = [500_000_000, 1_000_000_000, 2_000_000_000, 4_000_000_000];

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: &'a str,
    #[serde(flatten)]
    report: &'a EventBenchReport,
}

pub(super) fn run(args: &BenchArgs) -> Result<Outcome> {
    let options = options(args, &Interrupt::listen()?);
    let directory = args.heaps.report.as_deref().unwrap_or(Path::new("ejfat-bench"));
    create(directory)?;
    let mut progress = Progress::new(args.output.quiet);
    let report = events::run(&options, &mut |line| progress.show(line));
    progress.clear();
    let (report, command) = (report?, command_line());
    let plots = all(&report);
    for (name, svg) in &plots {
        write(directory, name, svg)?;
    }
    let page = page(&report, &command, &plots);
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

fn options(args: &BenchArgs, interrupt: &Interrupt) -> EventBenchOptions {
    let rates: Vec<u64> = args.heaps.rates.iter().map(|rate| rate.bits_per_second()).collect();
    EventBenchOptions {
        family: args.format.family().unwrap_or(BalanceOptions::default().family),
        mtus: args.events.mtus.clone(),
        events: args.events.events.iter().map(|size| size.bytes()).collect(),
        senders: args.events.senders.clone(),
        workers: args.events.workers.clone(),
        threads: args.events.balancer_threads.clone(),
        rates: if rates.is_empty() { RATES.to_vec() } else { rates },
        time: args.time.duration(),
        rounds: args.rounds,
        address: args.address,
        stop: interrupt.flag().into(),
    }
}

/// The whole report as one page.
fn page(report: &EventBenchReport, command: &str, plots: &[(String, String)]) -> String {
    let mut out =
        format!("# Events through a balancer on this machine\n\n`{command}`\n\n{}\n\n", report.machine);
    let _ = writeln!(
        out,
        "Runs of {:.1} s, {} rounds; medians (minimum to maximum); CPU seconds per GB of events sent, senders' with waiting. Sent \
         on: {}. Load average {:.1} before, {:.1} after.\n",
        report.seconds, report.rounds, report.mode, report.others.0, report.others.1
    );
    if report.interrupted {
        let _ = writeln!(out, "**{INTERRUPTED}.**\n");
    }
    out.push_str(
        "| MTU | event | senders | workers | threads | asked | sent, Gb/s | whole, Gb/s | events/s | kpkt/s | CPU send + balance + \
         receive | events lost | packets lost: before + in + behind the balancer + in workers |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    report.points.iter().for_each(|point| out.push_str(&row(point)));
    out.push('\n');
    for (name, _) in plots {
        let _ = writeln!(out, "![{}]({name})\n", name.trim_end_matches(".svg"));
    }
    out
}

fn row(point: &EventPoint) -> String {
    let EventSetting { mtu, event_bytes, senders, workers, threads, rate } = point.setting;
    let asked = if rate == 0 { "all".to_owned() } else { Rate::from_bits_per_second(rate).to_string() };
    let EventLosses { before, balancer, behind, workers: in_workers } = point.lost;
    format!(
        "| {mtu} | {} | {senders} | {workers} | {threads} | {asked} | {} | {} | {:.0} | {:.1} | {:.3} + {:.3} + {:.3} | {} of {} | {} |\n",
        Size::from_bytes(event_bytes),
        speed(point.sent),
        speed(point.whole),
        point.events_per_second.median,
        point.packets_per_second.median / 1e3,
        point.send_cpu.median,
        point.balance_cpu.median,
        point.receive_cpu.median,
        print::count(point.events_lost),
        print::count(point.events),
        [before, balancer, behind, in_workers].map(print::count).join(" + "),
    )
}

fn speed(of: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", of.median / 1e9, of.min / 1e9, of.max / 1e9)
}

/// Combinations that are drawn.
const MAX_SERIES: usize = 8;

/// Files' names and their SVG; none without points.
fn all(report: &EventBenchReport) -> Vec<(String, String)> {
    if report.points.is_empty() {
        return Vec::new();
    }
    let whole = |p: &EventPoint| p.whole.median / 1e9;
    let lost = |p: &EventPoint| p.events_lost as f64 / p.events.max(1) as f64 * 100.0;
    let cpu = |p: &EventPoint| p.balance_cpu.median;
    vec![
        ("whole.svg".to_owned(), by_rate(&report.points, "events that arrived whole, Gb/s", &whole)),
        ("lost.svg".to_owned(), by_rate(&report.points, "events lost, %", &lost)),
        ("balance-cpu.svg".to_owned(), by_rate(&report.points, "CPU of the balancer, s/GB", &cpu)),
    ]
}

/// All but the rate.
fn series(point: &EventPoint) -> EventSetting {
    EventSetting { rate: 0, ..point.setting }
}

fn by_rate(points: &[EventPoint], title: &str, value: &dyn Fn(&EventPoint) -> f64) -> String {
    let mut all: Vec<EventSetting> = points.iter().map(series).collect();
    all.dedup();
    all.truncate(MAX_SERIES);
    let line = |setting: &EventSetting| {
        let EventSetting { mtu, event_bytes, senders, workers, .. } = *setting;
        let name = format!("MTU {mtu}, {}, {senders} to {workers}", Size::from_bytes(event_bytes));
        let of_it = points.iter().filter(|p| series(p) == *setting);
        Series::points(name, of_it.map(|p| (p.sent.median / 1e9, value(p))))
    };
    Chart::new(title)
        .x(Scale::linear("sent, Gb/s"))
        .panel(Panel::new(310.0, Scale::linear(title).at_least(1e-3)).all(all.iter().map(line)))
        .file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_row_for_each_combination_and_every_plot() {
        let point = |mtu, rate, sent: f64| EventPoint {
            setting: EventSetting { mtu, event_bytes: 1 << 20, senders: 1, workers: 4, threads: 1, rate },
            sent: Spread::of([sent]),
            whole: Spread::of([sent / 2.0]),
            events: 10,
            events_lost: 5,
            lost: EventLosses { behind: 77, ..EventLosses::default() },
            ..EventPoint::default()
        };
        let points =
            vec![point(1500, 1_000_000_000, 1e9), point(9000, 2_000_000_000, 2e9), point(9000, 0, f64::NAN)];
        let report = EventBenchReport { points, interrupted: true, ..EventBenchReport::default() };
        let plots = all(&report);
        assert_eq!(plots.len(), 3);
        for (name, svg) in &plots {
            assert!(
                svg.starts_with("<svg xmlns") && !svg.contains("NaN") && svg.contains("<circle"),
                "{name}"
            );
        }
        let page = page(&report, "skyhaul bench ejfat", &plots);
        assert!(
            page.contains("| 1500 | 1MiB | 1 | 4 | 1 | 1Gbps | 1.00 (1.00-1.00) | 0.50 (0.50-0.50) |"),
            "{page}"
        );
        assert!(page.contains("| 5 of 10 | 0 + 0 + 77 + 0 |") && page.contains(INTERRUPTED), "{page}");
        assert_eq!(page.matches("![").count(), 3);
    }
}
