//! `skyhaul probe monitor`: tests that are repeated for weeks.

mod plan;

use super::super::receiving::print_json;
use super::super::token_file;
use super::path::resolve_port;
use crate::Outcome;
use crate::args::{MonitorArgs, OutputArgs};
use crate::interrupt::Interrupt;
#[cfg(not(feature = "services"))]
use crate::verb::unbuilt::Metrics as Server;
use anyhow::{Result, ensure};
use skyhaul::peer::{PORT, Token};
#[cfg(feature = "services")]
use skyhaul_daemon::metrics::Server;
use skyhaul_measure::probe::monitor::{Keep, Line, Monitor, MonitorOptions, MonitorReport, Test, Told};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most tests of one monitor: what a day has minutes.
const MOST: usize = 1440;

pub(super) fn run(args: &MonitorArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let token = Token::new(&token_file::read(&args.token_file)?)?;
    let mut tests =
        args.tests.iter().map(|target| plan::test(target, None, &args.how)).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &args.plan {
        tests.extend(plan::read(path, &args.how)?);
    }
    ensure!(tests.len() <= MOST, "{} tests\nhint: at most {MOST} for one monitor", tests.len());
    distinct(&mut tests);
    let mut monitor = Monitor::new(MonitorOptions {
        tests,
        token,
        lines: args.lines.clone(),
        keep: Keep {
            bytes: args.rotate.bytes(),
            files: args.keep,
            age: args.keep_for.map(|span| span.duration()),
        },
        metrics: args.metrics.clone(),
        seed: args.seed.unwrap_or_else(any_seed),
        find: Box::new(|host| {
            let why = |error: anyhow::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
            resolve_port(host, PORT).map_err(why)
        }),
    })?;
    if monitor.cut_bytes() > 0 {
        let (bytes, path) = (monitor.cut_bytes(), args.lines.display());
        say!("note: {bytes} bytes of a line that was cut off were removed from {path}");
    }
    let http = args.http.map(|at| Server::start(at, monitor.metrics())).transpose()?;
    if let Some(http) = &http {
        say!("metrics at http://{}/metrics", http.address());
    }
    say!("monitoring; lines go to {}", args.lines.display());
    let (stop, mut served) = (interrupt.flag(), true);
    monitor.run(&stop, args.length.map(|span| span.duration()), &mut |told| {
        show(&told, &args.output);
        if http.as_ref().is_some_and(|http| !http.is_running()) {
            served = false;
            stop.store(true, Ordering::Relaxed);
        }
    });
    let report = monitor.report();
    if args.output.json {
        print_json(&report)?;
    } else {
        conclude(&report);
    }
    ensure!(served, "metrics are not served any more, by a fault in this program");
    let lines = &report.totals.lines;
    Ok(if lines.lost + lines.waiting > 0 { Outcome::Failed } else { Outcome::Done })
}

/// Names are labels of metrics: no two may be the same.
fn distinct(tests: &mut [Test]) {
    let mut seen = BTreeSet::new();
    for test in tests {
        let name = test.name.clone();
        let mut n = 1;
        while !seen.insert(test.name.clone()) {
            n += 1;
            test.name = format!("{name} {n}");
        }
    }
}

/// Of this moment and this process.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40)
}

fn show(told: &Told<'_>, output: &OutputArgs) {
    match told {
        Told::Ran(_) if output.quiet => {}
        // Standard output is for the report.
        Told::Ran(line) if output.json => say!("{}", shown(line)),
        Told::Ran(line) => tell!("{}", shown(line)),
        Told::Full(error) => {
            say!("note: {error}\nnote: tests go on; what waits is written when there is room");
        }
        Told::Room => say!("note: it can be written again"),
    }
}

/// A line for the terminal.
fn shown(line: &Line) -> String {
    let mut text = format!("{} {:<24} {:<11}", line.at, line.test, line.outcome.name());
    for way in &line.udp {
        text +=
            &format!(" {} {:.1} Mb/s, {} of {} lost", way.way, way.bits_per_second / 1e6, way.lost, way.sent);
        if let Some(jitter) = way.jitter_seconds {
            text += &format!(", jitter {:.1} us", jitter * 1e6);
        }
    }
    for flow in &line.tcp {
        text += &format!(
            " {} {:.1} Mb/s, window {} KiB, round trip {:.3} ms, {} again",
            flow.way,
            flow.bits_per_second / 1e6,
            flow.congestion_window_mean >> 10,
            flow.rtt_mean_seconds * 1e3,
            flow.retransmits
        );
    }
    if let Some(why) = &line.why {
        text += &format!(" {}", why.lines().next().unwrap_or_default());
    }
    text
}

fn conclude(report: &MonitorReport) {
    for test in &report.totals.tests {
        let runs = test.runs.iter().filter(|(_, n)| **n > 0);
        let runs: Vec<String> = runs.map(|(outcome, n)| format!("{n} {}", outcome.name())).collect();
        let runs = if runs.is_empty() { "none ran".to_owned() } else { runs.join(", ") };
        tell!("{}: {runs}; {} missed", test.test, test.missed);
    }
    let lines = &report.totals.lines;
    tell!("{} written, {} lost", crate::print::counted(lines.written, "line"), lines.lost + lines.waiting);
}
