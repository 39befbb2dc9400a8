//! What is said of a copy while it runs and at its end.

use crate::args::CopyFilesArgs;
use crate::outcome::Outcome;
use crate::print;
use crate::report::words::micros;
use crate::verb::output::command_line;
use crate::verb::receiving::print_json;
use anyhow::Result;
use serde::Serialize;
use skyhaul::core::hint::{Hint, lines};
use skyhaul_transfer::copy::{CopyReport, Plan, Progress};
use std::fmt::Write as _;

/// Failed files that are listed.
const TOLD: usize = 20;

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: String,
    #[serde(flatten)]
    report: &'a CopyReport,
}

pub(super) fn tell(args: &CopyFilesArgs, report: &CopyReport) -> Result<Outcome> {
    if args.output.json {
        print_json(&CommandReport { command: command_line(), report })?;
    } else {
        tell_text!("{}", summary(report));
    }
    Ok(if report.is_whole() { Outcome::Done } else { Outcome::Failed })
}

pub(super) fn shown(progress: &Progress) -> String {
    let Progress { files, all_files, bytes, all_bytes, seconds, .. } = *progress;
    let rate = bytes as f64 * 8.0 / seconds.max(1e-3);
    let left = all_bytes.saturating_sub(bytes) as f64 * 8.0 / rate.max(1.0);
    format!(
        "{} of {} files, {} of {}, {}, {left:.0} s left",
        print::count(files as u64),
        print::count(all_files as u64),
        print::bytes(bytes),
        print::bytes(all_bytes),
        print::rate(rate)
    )
}

fn summary(report: &CopyReport) -> String {
    let mut out = String::new();
    if let Some(plan) = &report.plan {
        out.push_str(&plan_text(plan));
    }
    if let Some(found) = &report.to_copy {
        let _ =
            writeln!(out, "to copy: {}, {}", print::counted(found.files, "file"), print::bytes(found.bytes));
    } else if report.verified {
        out.push_str(&compared(report));
    } else if report.seconds > 0.0 {
        let _ = writeln!(
            out,
            "copied {}, {} in {:.1} s ({}), {}{}{}",
            print::counted((report.files - report.kept_files) as u64, "file"),
            print::bytes(report.moved_bytes + report.hole_bytes),
            report.seconds,
            print::rate(report.bits_per_second),
            print::counted(report.flows as u64, "flow"),
            if report.data_encrypted == Some(true) { ", encrypted" } else { "" },
            cpu(report),
        );
    }
    if report.kept_files > 0 && !report.verified {
        let (files, bytes) =
            (print::counted(report.kept_files as u64, "file"), print::bytes(report.kept_bytes));
        let _ = writeln!(out, "  already there: {files}, {bytes}");
    }
    if report.resumed_bytes > 0 {
        let _ = writeln!(out, "  resumed: {} already there", print::bytes(report.resumed_bytes));
    }
    if report.again > 0 {
        let _ =
            writeln!(out, "  damaged on the way and sent again: {}", print::counted(report.again, "range"));
    }
    if let Some(bound) = report.bound {
        let _ = writeln!(out, "  bounded by {}", bound.words());
    }
    let failed = if report.verified { "DIFFERS" } else { "NOT COPIED" };
    for one in report.failed.iter().take(TOLD) {
        let _ = writeln!(out, "  {failed} {}: {}", print::name(&one.path), print::indented(&one.error));
    }
    if report.failed.len() > TOLD {
        let _ = writeln!(out, "  and {} more (--json)", report.failed.len() - TOLD);
    }
    for path in report.unchecked.iter().take(TOLD) {
        let path = print::name(path);
        let _ = writeln!(out, "  note: {path}: the server gives no checksum: only its size was compared");
    }
    for path in report.special.iter().take(TOLD) {
        let _ = writeln!(out, "  note: {} is not a file, directory or link: not copied", print::name(path));
    }
    if report.temporary_names > 0 {
        let names = print::counted(report.temporary_names as u64, "name");
        let _ = writeln!(out, "  note: {names} of unfinished copies at the source: not copied");
    }
    for path in report.dropped_links.iter().take(TOLD) {
        let path = print::name(path);
        let _ = writeln!(out, "  note: {path} is a symbolic link, which web servers do not have: not copied");
    }
    for path in report.dropped_bits.iter().take(TOLD) {
        let path = print::name(path);
        let _ = writeln!(out, "  note: {path}: set-user-ID, set-group-ID and sticky bits are not copied");
    }
    if let Some(why) = &report.stopped {
        let hint = Hint("run the same command again to copy the rest");
        let _ = writeln!(out, "{}", lines("", &format!("STOPPED: {}{hint}", print::indented(why))));
    }
    out
}

/// What a comparison found.
fn compared(report: &CopyReport) -> String {
    let (same, bytes) = (report.compared.len() as u64, report.compared.iter().map(|file| file.bytes).sum());
    let verdict = if report.is_whole() { "all equal" } else { "equal" };
    let (count, bytes) = (print::counted(same, "file"), print::bytes(bytes));
    format!("compared at both ends in {:.1} s: {count} {verdict}, {bytes}\n", report.seconds)
}

/// The CPU time of both ends, as far as they say it: a server of HTTP does not.
fn cpu(report: &CopyReport) -> String {
    let each = [(&report.sender, "reading"), (&report.receiver, "writing")];
    let known = each.iter().filter(|(side, _)| side.cpu_seconds > 0.0);
    let texts =
        known.map(|(side, what)| format!("{:.3} s/GB {what}", per_gb(side.cpu_seconds, report.moved_bytes)));
    let text = texts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { text } else { format!(", CPU {text}") }
}

fn per_gb(seconds: f64, bytes: u64) -> f64 {
    if bytes == 0 { 0.0 } else { seconds / (bytes as f64 / 1e9) }
}

fn plan_text(plan: &Plan) -> String {
    let mut out = format!(
        "plan: reading {}, network {}, writing {}, round trip {:.2} ms\n",
        print::rate(plan.read.bits_per_second),
        print::rate(plan.network.bits_per_second),
        print::rate(plan.write.bits_per_second),
        plan.rtt_seconds * 1e3
    );
    if let Some(rate) = plan.window_bits_per_second {
        let _ = writeln!(out, "  windows of all flows a round trip: {}", print::rate(rate));
    }
    if plan.trial.bytes > 0 {
        let rate = print::rate(plan.trial.bits_per_second);
        let _ =
            writeln!(out, "  bytes, all concurrently: {rate}, and {} more", time(plan.trial.delay_seconds));
    }
    if plan.tried_files > 0 {
        let (files, each) = (print::count(plan.tried_files), time(plan.file_seconds));
        let _ = writeln!(
            out,
            "  {files} files in small: {} for a copy, {each} for a file",
            time(plan.fixed_seconds)
        );
    }
    let bound = plan.bound.map_or("nothing", skyhaul_transfer::copy::Bounds::words);
    let predicted = time(plan.seconds.unwrap_or(0.0));
    let rate = print::rate(plan.bits_per_second);
    let _ = writeln!(out, "  predicted: {predicted}, {rate}, bounded by {bound}");
    if let (Some(seconds), Some(measured), Some(ratio)) =
        (plan.measured_seconds, plan.measured_bits_per_second, plan.ratio)
    {
        let (took, rate, percent) = (time(seconds), print::rate(measured), ratio * 100.0);
        let _ = writeln!(out, "  measured: {took}, {rate}, {percent:.0} % of the predicted rate");
    }
    out
}

fn time(seconds: f64) -> String {
    micros(seconds * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_time_and_rate_and_so_does_its_end() {
        let mut plan = Plan {
            tried_files: 2000,
            fixed_seconds: 0.0312,
            file_seconds: 170e-6,
            seconds: Some(0.4),
            bits_per_second: 164e6,
            ..Plan::default()
        };
        let text = plan_text(&plan);
        assert!(text.contains("2 000 files in small: 31.2 ms for a copy, 170 µs for a file"), "{text}");
        assert!(text.contains("predicted: 400 ms, 164 Mb/s") && !text.contains("measured"), "{text}");
        (plan.measured_seconds, plan.measured_bits_per_second, plan.ratio) =
            (Some(0.41), Some(160e6), Some(0.976));
        let text = plan_text(&plan);
        assert!(text.contains("measured: 410 ms, 160 Mb/s, 98 % of the predicted rate"), "{text}");
    }
}
