//! What the checks of a host found, as text.

use skyhaul_measure::host::{
    BothEnds, CheckLine, CheckVerdict, HostReport, SettingChange, SnapshotDiff, UndoResult,
};
use std::fmt::Write as _;

/// Verdicts in the order in which they are shown, and their headings.
const SHOWN: [(CheckVerdict, &str); 6] = [
    (CheckVerdict::Fail, "failed: a counter increased"),
    (CheckVerdict::Warn, "warnings"),
    (CheckVerdict::Info, "worth knowing"),
    (CheckVerdict::Pass, "passed"),
    (CheckVerdict::Unknown, "unknown"),
    (CheckVerdict::NotApplicable, "not applicable"),
];

/// The report; with `all`, also what needs no attention.
pub(crate) fn report(report: &HostReport, all: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}, Linux {}, interface {}", report.host, report.kernel, report.interface);
    let _ = writeln!(out, "for {}", report.target);
    if !report.target.assumed.is_empty() {
        let _ = writeln!(out, "assumed: {}", report.target.assumed.join("; "));
    }
    if let Some(watched) = &report.watched {
        let _ = writeln!(
            out,
            "while `{}` ran {:.1} s ({})",
            watched.command.join(" "),
            watched.seconds,
            watched.ended
        );
    }
    let attention = [CheckVerdict::Fail, CheckVerdict::Warn, CheckVerdict::Info];
    for (verdict, heading) in SHOWN {
        let lines = report.of(verdict);
        if lines.is_empty() || !(all || attention.contains(&verdict)) {
            continue;
        }
        let _ = writeln!(out, "\n{heading}");
        for line in lines {
            one(&mut out, line);
        }
    }
    let _ = writeln!(out, "\n{}", summary(report, all));
    out
}

fn one(out: &mut String, line: &CheckLine) {
    let head = format!("  {:<4}{}", line.id, line.title);
    match line.verdict {
        CheckVerdict::Unknown | CheckVerdict::NotApplicable => {
            let _ = writeln!(out, "{head}: {}", line.evidence.join("; "));
            return;
        }
        CheckVerdict::Pass => {
            let _ = writeln!(out, "{head}: {}", line.value);
            return;
        }
        _ => {
            let _ = writeln!(out, "{head}: {} (expected: {})", line.value, line.wanted);
        }
    }
    for evidence in &line.evidence {
        let _ = writeln!(out, "      {evidence}");
    }
    let _ = writeln!(out, "      {} [{}]", line.why, line.sources.join(", "));
    for (when, commands) in [("now", &line.fix_now), ("always", &line.fix_persistent)] {
        for (number, command) in commands.iter().enumerate() {
            let when = if number == 0 { when } else { "" };
            let _ = writeln!(out, "      {when:<7} {command}");
        }
    }
}

/// One line of sums.
fn summary(report: &HostReport, all: bool) -> String {
    let names = [
        (CheckVerdict::Fail, "failed"),
        (CheckVerdict::Warn, "warnings"),
        (CheckVerdict::Info, "worth knowing"),
        (CheckVerdict::Pass, "passed"),
        (CheckVerdict::Unknown, "unknown"),
        (CheckVerdict::NotApplicable, "not applicable"),
    ];
    let sums: Vec<String> =
        names.iter().map(|(verdict, name)| format!("{} {name}", report.count(*verdict))).collect();
    let rest = if all { "" } else { " (--all shows them)" };
    format!("{} checks: {}{rest}", report.checks.len(), sums.join(", "))
}

/// What differs between two snapshots.
pub(crate) fn difference(found: &SnapshotDiff) -> String {
    let mut out = format!("a: {}\nb: {}\n", found.a, found.b);
    if !found.checks.is_empty() {
        out.push_str("\nchecks\n");
    }
    for check in &found.checks {
        let _ = writeln!(out, "  {:<4}{}", check.id, check.title);
        for (side, (verdict, value)) in [("a", &check.a), ("b", &check.b)] {
            let _ = writeln!(out, "      {side} {}: {value}", word(*verdict));
        }
    }
    if !found.facts.is_empty() {
        out.push_str("\nread\n");
    }
    let shown = |value: &Option<String>| match value {
        Some(value) => value.replace('\n', "; "),
        None => "missing".to_owned(),
    };
    for fact in &found.facts {
        let _ = writeln!(out, "  {}: {} -> {}", fact.name, shown(&fact.a), shown(&fact.b));
    }
    let _ = writeln!(out, "\n{} checks and {} values differ", found.checks.len(), found.facts.len());
    out
}

/// One word for a verdict.
fn word(verdict: CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Fail => "fail",
        CheckVerdict::Warn => "warn",
        CheckVerdict::Info => "info",
        CheckVerdict::Pass => "pass",
        CheckVerdict::Unknown => "unknown",
        CheckVerdict::NotApplicable => "not applicable",
    }
}

/// What would be written.
pub(crate) fn changes(changes: &[SettingChange]) -> String {
    let mut out = String::new();
    for change in changes {
        let _ = writeln!(
            out,
            "  {:<4}{}: {} -> {}",
            change.check,
            change.name,
            change.old.trim_end(),
            change.new
        );
    }
    let _ = writeln!(out, "{} settings to write", changes.len());
    out
}

/// What was written, and what was not.
pub(crate) fn changed<'a>(
    done: impl Iterator<Item = (&'a SettingChange, Option<String>)>,
    journal: &std::path::Path,
) -> String {
    let (mut out, mut written) = (String::new(), 0);
    for (change, failed) in done {
        let head =
            format!("  {:<4}{}: {} -> {}", change.check, change.name, change.old.trim_end(), change.new);
        match failed {
            Some(why) => drop(writeln!(out, "{head}  NOT WRITTEN: {why}")),
            None => {
                written += 1;
                let _ = writeln!(out, "{head}");
            }
        }
    }
    let _ = writeln!(
        out,
        "{written} settings written; `skyhaul host --undo` reverts them (recorded in {})",
        journal.display()
    );
    out
}

/// What was taken back, or would be.
pub(crate) fn undone(all: &[(SettingChange, UndoResult)], dry_run: bool) -> String {
    let mut out = String::new();
    for (change, how) in all {
        let text = match how {
            UndoResult::Restored => format!("restored to {}", change.old.trim_end()),
            UndoResult::Unchanged => "already restored".to_owned(),
            UndoResult::ChangedSince(now) => format!("kept: it was changed since, to {now}"),
            UndoResult::Failed(why) => format!("NOT RESTORED: {why}"),
        };
        let _ = writeln!(out, "  {}: {text}", change.name);
    }
    let restored = all.iter().filter(|(_, how)| *how == UndoResult::Restored).count();
    let _ = match dry_run {
        true => {
            writeln!(out, "{restored} of {} settings to restore (dry run: nothing was written)", all.len())
        }
        false => writeln!(out, "{restored} of {} settings restored", all.len()),
    };
    out
}

/// The other end, and of what the two say different things.
pub(crate) fn other_end(both: &BothEnds, all: bool) -> String {
    let mut out = format!("other host\n{}", report(&both.there, all));
    if !both.differs.is_empty() {
        out.push_str("\ndifferences between the two hosts\n");
    }
    for check in &both.differs {
        let _ = writeln!(out, "  {:<4}{}: here {}, there {}", check.id, check.title, check.a.1, check.b.1);
    }
    out
}
