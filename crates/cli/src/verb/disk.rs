//! `skyhaul disk`: what disks write and read, as a table or as JSON.

use super::output::command_line;
use super::receiving::print_json;
use crate::args::{DiskEngine, DiskMeasureArgs};
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::{self, Progress};
use anyhow::{Result, bail};
use serde::Serialize;
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::{Engine, Faults};
use skyhaul::io::quantity::Size;
use skyhaul_measure::disk::{
    CacheMode, DiskOperation, DiskPoint, DiskReport, MeasureOptions, TransferBudget, TransferRate, fio_json,
    measure,
};
use std::fmt::Write as _;
use std::path::PathBuf;

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport {
    command: String,
    #[serde(flatten)]
    report: DiskReport,
}

pub(crate) fn run(args: &DiskMeasureArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut options = options(args)?;
    options.stop = interrupt.flag().into();
    let mut progress = Progress::new(args.output.quiet);
    let report = measure(&options, &mut |line| progress.show(line));
    progress.clear();
    let told = CommandReport { command: command_line(), report: report? };
    if args.fio_json {
        print_json(&fio_json(&told.report))?;
    } else if args.output.json {
        print_json(&told)?;
    } else {
        tell_text!("{}", table(&told));
    }
    Ok(if told.report.is_whole() { Outcome::Done } else { Outcome::Failed })
}

fn options(args: &DiskMeasureArgs) -> Result<MeasureOptions> {
    let mut options = MeasureOptions::new(&args.disks);
    options.operations = match (args.write, args.read) {
        (true, _) => vec![DiskOperation::Write],
        (_, true) => vec![DiskOperation::Read],
        _ => vec![DiskOperation::Write, DiskOperation::Read],
    };
    options.sizes = args.sizes.0.clone();
    if let Some(large) = args.blocks.0.iter().find(|&&bytes| bytes > 1 << 30) {
        bail!("--blocks {large}: a request is at most 1 GiB{}", Hint("such as --blocks 1MiB"));
    }
    options.blocks = args.blocks.0.iter().map(|&bytes| bytes as usize).collect();
    options.depths.clone_from(&args.depths);
    options.streams.clone_from(&args.streams);
    let modes = [
        (args.direct, CacheMode::Direct),
        (args.buffered, CacheMode::Buffered),
        (args.cached, CacheMode::Cached),
    ];
    let modes: Vec<CacheMode> = modes.into_iter().filter(|(asked, _)| *asked).map(|(_, mode)| mode).collect();
    options.modes = if modes.is_empty() { vec![CacheMode::Direct] } else { modes };
    options.rounds = args.rounds;
    options.engine = match args.disk_engine {
        DiskEngine::Auto => Engine::Auto,
        DiskEngine::Uring => Engine::Uring,
        DiskEngine::Plain => Engine::Plain,
    };
    options.reserve = args.reserve.bytes();
    options.against = args.against.map(|rate| rate.bits_per_second());
    options.faults = args.disk_faults.iter().map(|spec| fault(spec, args)).collect::<Result<_>>()?;
    Ok(options)
}

fn fault(spec: &str, args: &DiskMeasureArgs) -> Result<(PathBuf, Faults)> {
    let (path, faults) = spec.rsplit_once(':').ok_or_else(|| {
        anyhow::anyhow!("--disk-faults: expected PATH:SPEC, got {spec}{}", Hint("such as /data/d1:slow=200"))
    })?;
    let path = PathBuf::from(path);
    if !args.disks.contains(&path) {
        bail!(
            "--disk-faults {spec}: {} is not one of the measured disks{}",
            path.display(),
            Hint("write it exactly as given on the command line")
        );
    }
    Ok((path, faults.parse().map_err(anyhow::Error::msg)?))
}

fn table(told: &CommandReport) -> String {
    let CommandReport { command, report } = told;
    let mut out = format!("{command}\n");
    let (before, after) = report.others;
    let _ = writeln!(out, "{}; load average {before:.1} before, {after:.1} after", report.machine);
    if report.interrupted {
        let _ = writeln!(out, "{INTERRUPTED}");
    }
    let _ = writeln!(
        out,
        "{:<6} {:<9} {:>9} {:>7} {:>5} {:>5} {:>8} {:>9} {:>8} {:>8} {:>8}  measured",
        "", "mode", "file", "block", "depth", "files", "GB/s", "CPU s/GB", "p50 ms", "p99 ms", "max ms"
    );
    for point in &report.points {
        let _ = writeln!(out, "{}", line(point));
        let several = point.disks.len() > 1;
        for disk in point.disks.iter().filter(|disk| several || disk.error.is_some()) {
            let path = disk.path.display();
            let _ = match &disk.error {
                Some(error) => writeln!(out, "         {path}: {}", print::indented(error)),
                None => writeln!(out, "         {path}: {:.2} GB/s", disk.bytes_per_second / 1e9),
            };
        }
    }
    if let Some(budget) = &report.budget {
        out.push_str(&budget_text(budget));
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn line(point: &DiskPoint) -> String {
    let operation = if point.operation == DiskOperation::Write { "write" } else { "read" };
    let mode = match point.mode {
        CacheMode::Direct if !point.direct => "buffered*",
        CacheMode::Direct => "direct",
        CacheMode::Buffered => "buffered",
        CacheMode::Cached => "cached",
    };
    let ms = |ns: u64| ns as f64 / 1e6;
    format!(
        "{operation:<6} {mode:<9} {:>9} {:>7} {:>5} {:>5} {:>8.2} {:>9.3} {:>8.2} {:>8.2} {:>8.2}  {}",
        Size::from_bytes(point.size).to_string(),
        Size::from_bytes(point.block as u64).to_string(),
        point.depth,
        point.streams,
        point.bytes_per_second / 1e9,
        point.cpu_seconds_per_gb,
        ms(point.latency.p50_ns),
        ms(point.latency.p99_ns),
        ms(point.latency.max_ns),
        point.measured.words(),
    )
}

fn budget_text(budget: &TransferBudget) -> String {
    let mut out = format!("against a network of {}\n", print::rate(budget.network_bits_per_second));
    for (way, piped) in [("disk to network", &budget.sending), ("network to disk", &budget.receiving)] {
        if let Some(piped) = piped {
            out.push_str(&piped_text(way, piped));
        }
    }
    if let (Some(through), Some(bound)) = (budget.through_bits_per_second, budget.bound) {
        let _ = writeln!(
            out,
            "  disk to network to disk, both ends like this: {} predicted, bounded by {}",
            print::rate(through),
            bound.words()
        );
    }
    out
}

fn piped_text(way: &str, piped: &TransferRate) -> String {
    let mut out = format!(
        "  {way}: {} predicted, bounded by {}; {} measured, bounded by {}, CPU {:.3} s/GB\n",
        print::rate(piped.predicted_bits_per_second),
        piped.predicted_bound.words(),
        print::rate(piped.measured_bits_per_second),
        piped.measured_bound.words(),
        piped.cpu_seconds_per_gb
    );
    if let Some(error) = &piped.error {
        let _ = writeln!(out, "    ended early: {error}");
    }
    out
}
