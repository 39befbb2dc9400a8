//! `skyhaul report`: what can be done with reports that verbs have printed.

mod page;
mod told;

use crate::Outcome;
use crate::args::{DiffArgs, FailOn, ReportArgs, ReportWhat};
use crate::print;
use crate::verb::receiving::print_json;
use crate::verb::written::command_line;
use anyhow::{Context, Result};
use serde_json::Value;
use skyhaul::io::file::{failed, read_small};
use skyhaul::report::compare::{Figure, Options, Verdict, compare};
use std::fmt::Write as _;
use std::path::Path;
use told::{Told, conclusion, number, ratio, word};

/// A report is no larger.
const MOST_BYTES: usize = 256 << 20;

pub(crate) fn run(args: &ReportArgs) -> Result<Outcome> {
    match &args.what {
        ReportWhat::Diff(args) => diff(args),
    }
}

fn diff(args: &DiffArgs) -> Result<Outcome> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = compare(&a, &b, &Options { tolerance: args.tolerance })
        .with_context(|| format!("{} and {}", args.a.display(), args.b.display()))
        .context("hint: compare two reports of one verb, of versions that print the same fields")?;
    let command = command_line();
    let told = Told {
        command: &command,
        a: &args.a,
        b: &args.b,
        worse: comparison.count(Verdict::Worse),
        better: comparison.count(Verdict::Better),
        different: comparison.count(Verdict::Different),
        comparison: &comparison,
    };
    if let Some(path) = &args.page {
        std::fs::write(path, page::page(&told)).map_err(|error| failed("write", path, &error))?;
        say!("page: {}", print::name(path));
    }
    if args.json {
        print_json(&told)?;
    } else {
        print::page(&text(&told, args.all))?;
    }
    Ok(if fails(&told, args.fail_on) { Outcome::Failed } else { Outcome::Done })
}

fn fails(told: &Told<'_>, on: FailOn) -> bool {
    let gone = !told.comparison.only_a.is_empty();
    match on {
        FailOn::Never => false,
        FailOn::Worse => told.worse > 0 || gone,
        FailOn::Any => {
            told.worse + told.better + told.different > 0 || gone || !told.comparison.only_b.is_empty()
        }
    }
}

/// The report in a file, or `report.json` in a directory that a verb wrote.
fn read(path: &Path) -> Result<Value> {
    let inside = path.join("report.json");
    let path = if path.is_dir() { inside.as_path() } else { path };
    let text = read_small(path, MOST_BYTES)?;
    serde_json::from_slice(&text).with_context(|| {
        format!("{}: not a JSON report\nhint: give what `--json` printed", print::name(path))
    })
}

fn text(told: &Told<'_>, all: bool) -> String {
    let mut out = String::new();
    let comparison = told.comparison;
    let shown: Vec<&Figure> = if all { comparison.figures.iter().collect() } else { comparison.different() };
    if !shown.is_empty() {
        let _ = writeln!(out, "{:<10} {:>16} {:>16} {:>8}  figure", "", "A", "B", "B / A");
    }
    for figure in shown {
        let (a, b) = (number(&figure.a), number(&figure.b));
        let _ = writeln!(
            out,
            "{:<10} {a:>16} {b:>16} {:>8}  {}",
            word(figure.verdict),
            ratio(figure),
            figure.path
        );
    }
    for change in &comparison.changes {
        let _ = writeln!(out, "{:<10} {}: {} → {}", "changed", change.path, change.a, change.b);
    }
    for (which, paths) in [("only in A", &comparison.only_a), ("only in B", &comparison.only_b)] {
        paths.iter().for_each(|path| {
            let _ = writeln!(out, "{which:<10} {path}");
        });
    }
    let _ = writeln!(out, "{}", conclusion(told));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_gate_fails_on_what_it_is_asked_to() {
        let gate = |a: &Value, b: &Value| {
            let comparison = compare(a, b, &Options::default()).unwrap();
            let told = Told {
                command: "skyhaul report diff",
                a: Path::new("a<b>"),
                b: Path::new("b"),
                worse: comparison.count(Verdict::Worse),
                better: comparison.count(Verdict::Better),
                different: comparison.count(Verdict::Different),
                comparison: &comparison,
            };
            let page = page::page(&told);
            assert!(page.contains("a&lt;b&gt;") && page.ends_with("</html>\n"));
            assert!(text(&told, true).contains("figures compared"));
            [FailOn::Never, FailOn::Worse, FailOn::Any].map(|on| fails(&told, on))
        };
        let report = json!({"lost": 3, "seconds": 1.0});
        assert_eq!(gate(&report, &report), [false, false, false]);
        assert_eq!(gate(&report, &json!({"lost": 9, "seconds": 1.0})), [false, true, true]);
        assert_eq!(gate(&report, &json!({"lost": 1, "seconds": 1.0})), [false, false, true]);
        assert_eq!(gate(&report, &json!({"seconds": 1.0})), [false, true, true], "a figure that is gone");
    }
}
