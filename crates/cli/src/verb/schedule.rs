//! `skyhaul schedule check`: what a station will record when, and what prevents it. `record --schedule`: recording it. `schedule load`,
//! `list` and `remove`: the same in a station that runs.

mod delivery;
mod file;
mod follow;
mod served;

pub(crate) use follow::follow;

use super::receiving::{now, print_json};
use crate::args::{ScheduleArgs, ScheduleCheckArgs, ScheduleWhat};
use crate::outcome::Outcome;
use crate::print;
use anyhow::{Result, ensure};
use delivery::DeliveryReport;
use serde::Serialize;
use served::time_of_day;
use skyhaul::core::hint::{Hint, lines};
use skyhaul::core::observation::check::{CheckLimits, CheckedScan, ScanProblem, check};
use skyhaul::core::observation::scan::{ScheduledScan, StationSchedule};
use skyhaul::core::redundancy::room;
use skyhaul::io::disk::{device, free_bytes};
use skyhaul::io::file::failed;
use skyhaul::io::say::escaped_name;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

pub(crate) fn run(args: &ScheduleArgs) -> Result<Outcome> {
    match &args.what {
        ScheduleWhat::Check(args) => run_check(args),
        ScheduleWhat::Load(args) => served::load(args),
        ScheduleWhat::List(args) => served::list(args),
        ScheduleWhat::Remove(args) => served::remove(args),
    }
}

fn run_check(args: &ScheduleCheckArgs) -> Result<Outcome> {
    let mut schedule = file::read(&args.schedule)?;
    ensure!(!schedule.scans.is_empty(), "{}: no scan for {}", args.schedule.file.display(), schedule.station);
    if let Some(delivery) = args.deliver.delivery() {
        schedule.deliveries = vec![delivery];
    }
    let all = schedule.scans.len();
    schedule.scans.retain(|scan| {
        args.from.is_none_or(|from| scan.stop > from) && args.until.is_none_or(|until| scan.start < until)
    });
    let limits = CheckLimits {
        now: Some(now()),
        max_rate: args.rate.map(|rate| rate.bits_per_second() / u64::from(args.copies.max(1))),
        free_bytes: free(&args.disk, args.copies)?,
        min_gap: args.min_gap.duration().as_secs_f64().ceil() as u64,
    };
    let checked = check(&schedule.scans, &limits);
    let report = report(args, &schedule, &checked, &limits);
    if args.json {
        print_json(&report)?;
    } else {
        tell_text!("{}", text(&report, &schedule, all));
    }
    Ok(if report.problems == 0 { Outcome::Done } else { Outcome::Failed })
}

/// Bytes of data that fit on all disks with so many copies of each; directories on one file system count once.
fn free(disks: &[PathBuf], copies: u32) -> Result<Option<u64>> {
    let (mut seen, mut free) = (BTreeSet::new(), Vec::new());
    for disk in disks {
        let failing = |error| failed("look at", disk, &error);
        if seen.insert(device(disk).map_err(failing)?) {
            free.push(free_bytes(disk).map_err(failing)?);
        }
    }
    ensure!(
        disks.is_empty() || free.len() >= copies as usize,
        "{copies} copies of each chunk need {copies} disks, and {} file systems are given{}",
        free.len(),
        Hint("name more with --disk, or ask for fewer --copies")
    );
    Ok((!disks.is_empty()).then(|| room(&free, copies)))
}

/// The report of a check. Times are UTC, rates bits per second.
#[derive(Serialize)]
struct ScheduleReport {
    file: PathBuf,
    format: String,
    experiment: String,
    station: String,
    station_name: String,
    remarks: Vec<String>,
    free_bytes: Option<u64>,
    total_bytes: u64,
    /// Reasons for which a scan cannot be recorded as scheduled.
    problems: usize,
    deliveries: Vec<DeliveryReport>,
    scans: Vec<ScanReport>,
}

#[derive(Serialize)]
struct ScanReport {
    name: String,
    source: String,
    mode: String,
    recorded: bool,
    start: String,
    stop: String,
    good_from: String,
    seconds: u64,
    format: Option<String>,
    sample_bits_per_second: Option<u64>,
    disk_bits_per_second: Option<u64>,
    bytes: Option<u64>,
    total_bytes: u64,
    line: u32,
    problems: Vec<ProblemReport>,
}

#[derive(Serialize)]
struct ProblemReport {
    problem: &'static str,
    text: String,
    prevents_recording: bool,
}

fn report(
    args: &ScheduleCheckArgs,
    schedule: &StationSchedule,
    checked: &[CheckedScan<'_>],
    limits: &CheckLimits,
) -> ScheduleReport {
    let scans: Vec<ScanReport> = checked.iter().map(scan_report).collect();
    let prevented =
        |scan: &ScanReport| scan.problems.iter().filter(|problem| problem.prevents_recording).count();
    let recorded = || scans.iter().filter(|scan| scan.recorded).map(|scan| (scan.name.as_str(), scan.bytes));
    ScheduleReport {
        file: args.schedule.file.clone(),
        format: schedule.format.clone(),
        experiment: schedule.experiment.clone(),
        station: schedule.station.clone(),
        station_name: schedule.station_name.clone(),
        remarks: schedule.remarks.clone(),
        free_bytes: limits.free_bytes,
        total_bytes: checked.last().map_or(0, |checked| checked.total_bytes),
        problems: scans.iter().map(prevented).sum(),
        deliveries: schedule.deliveries.iter().map(|one| delivery::report(one, recorded())).collect(),
        scans,
    }
}

fn scan_report(checked: &CheckedScan<'_>) -> ScanReport {
    let ScheduledScan { name, source, mode, start, stop, good_from, recorded, rate, line } = checked.scan;
    let rate = rate.as_ref().ok();
    let problem = |problem: &ScanProblem| ProblemReport {
        problem: problem.name(),
        text: problem.to_string(),
        prevents_recording: problem.prevents_recording(),
    };
    ScanReport {
        name: name.clone(),
        source: source.clone(),
        mode: mode.clone(),
        recorded: *recorded,
        start: skyhaul::time::format(*start),
        stop: skyhaul::time::format(*stop),
        good_from: skyhaul::time::format(*good_from),
        seconds: checked.scan.seconds(),
        format: rate.map(|rate| rate.format.clone()),
        sample_bits_per_second: rate.map(|rate| rate.sample_bits_per_second),
        disk_bits_per_second: rate.map(|rate| rate.disk_bits_per_second()),
        bytes: checked.bytes,
        total_bytes: checked.total_bytes,
        line: *line,
        problems: checked.problems.iter().map(problem).collect(),
    }
}

/// The report for people.
fn text(report: &ScheduleReport, schedule: &StationSchedule, all: usize) -> String {
    let mut out = heading(report, all);
    for remark in &schedule.remarks {
        let _ = writeln!(out, "note: {}", escaped_name(remark));
    }
    let width = |of: fn(&ScanReport) -> &str| {
        report
            .scans
            .iter()
            .map(|scan| escaped_name(of(scan)).chars().count().min(24))
            .max()
            .unwrap_or(0)
            .max(6)
    };
    let (name, source, mode) =
        (width(|scan| &scan.name), width(|scan| &scan.source), width(|scan| &scan.mode));
    let _ = writeln!(
        out,
        "{:<name$}  {:<source$}  {:<20}  {:<8}  {:>7}  {:<mode$}  {:>9}  {:>8}  {:>8}",
        "scan", "source", "start (UTC)", "stop", "seconds", "mode", "rate", "size", "total"
    );
    for scan in &report.scans {
        let unknown = || "?".to_owned();
        let rate = scan.sample_bits_per_second.map_or_else(unknown, |rate| print::rate(rate as f64));
        let bytes = scan.bytes.map_or_else(unknown, print::bytes);
        let (rate, bytes) = if scan.recorded { (rate, bytes) } else { ("-".to_owned(), "-".to_owned()) };
        let _ = writeln!(
            out,
            "{:<name$}  {:<source$}  {:<20}  {:<8}  {:>7}  {:<mode$}  {rate:>9}  {bytes:>8}  {:>8}",
            escaped_name(&scan.name),
            escaped_name(&scan.source),
            scan.start,
            time_of_day(&scan.stop),
            scan.seconds,
            escaped_name(&scan.mode),
            print::bytes(scan.total_bytes),
        );
        for problem in &scan.problems {
            let kind = if problem.prevents_recording { "PROBLEM" } else { "note" };
            let _ = writeln!(out, "  {kind}: {}", escaped_name(&problem.text));
        }
    }
    for one in &report.deliveries {
        out.push_str(&one.text());
    }
    out + &verdict(report)
}

fn heading(report: &ScheduleReport, all: usize) -> String {
    let recorded = report.scans.iter().filter(|scan| scan.recorded).count();
    let name = match report.station_name.as_str() {
        "" => String::new(),
        name => format!(" ({})", escaped_name(name)),
    };
    let of =
        if report.scans.len() < all { format!(" of {}", print::count(all as u64)) } else { String::new() };
    let pointing = report.scans.len() - recorded;
    let pointing = if pointing > 0 {
        format!(", {} not recorded", print::count(pointing as u64))
    } else {
        String::new()
    };
    let experiment = if report.experiment.is_empty() { "schedule" } else { &report.experiment };
    format!(
        "{} ({}), station {}{name}: {}{of}{pointing}, {}\n",
        escaped_name(experiment),
        escaped_name(&report.format),
        if report.station.is_empty() { "?".into() } else { escaped_name(&report.station) },
        print::counted(report.scans.len() as u64, "scan"),
        print::bytes(report.scans.iter().filter_map(|scan| scan.bytes).sum()),
    )
}

fn verdict(report: &ScheduleReport) -> String {
    let mut out = String::new();
    if let Some(free) = report.free_bytes {
        let _ = writeln!(
            out,
            "free on the disks: {}, needed: {}",
            print::bytes(free),
            print::bytes(report.total_bytes)
        );
    }
    let unknown = report.scans.iter().filter(|scan| scan.bytes.is_none()).count();
    if unknown > 0 {
        let _ = writeln!(
            out,
            "not counted, as their rate is unknown: {}",
            print::counted(unknown as u64, "scan")
        );
    }
    let past = |scan: &&ScanReport| {
        scan.problems.iter().any(|problem| matches!(problem.problem, "past" | "under_way"))
    };
    match report.problems {
        0 => out.push_str("all can be recorded as scheduled\n"),
        n => {
            let problems = print::counted(n as u64, "problem");
            let _ = writeln!(out, "not all can be recorded as scheduled: {problems}");
            if report.scans.iter().any(|scan| past(&scan)) {
                let _ = writeln!(
                    out,
                    "{}",
                    lines("", &Hint("--from now leaves out scans of the past").to_string())
                );
            }
        }
    }
    out
}
