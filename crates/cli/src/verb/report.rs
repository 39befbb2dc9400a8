//! `skyhaul report`: what can be done with reports that verbs have printed.

use super::output::command_line;
use super::receiving::print_json;
use crate::args::{DiffArgs, FailOn, ReportArgs, ReportWhat};
use crate::outcome::Outcome;
use crate::print;
use crate::report::chart::{Chart, Panel, Series, WIDTH};
use crate::report::drawing::Scale;
use crate::report::page::{Page, Tile};
use crate::report::table::Table;
use crate::report::words::json;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use skyhaul::core::hint::Hint;
use skyhaul::io::file::{read_small, replace};
use skyhaul::report::compare::{Comparison, Figure, Options, Verdict, compare};
use std::fmt::Write as _;
use std::path::Path;

/// A report is no larger.
const MAX_BYTES: usize = 256 << 20;

pub(crate) fn run(args: &ReportArgs) -> Result<Outcome> {
    match &args.what {
        ReportWhat::Diff(args) => diff(args),
    }
}

fn diff(args: &DiffArgs) -> Result<Outcome> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = compare(&a, &b, &Options { tolerance: args.tolerance }).with_context(|| {
        let hint = Hint("compare two reports of the same verb, from versions with the same fields");
        format!("{} and {}{hint}", args.a.display(), args.b.display())
    })?;
    let command = command_line();
    let told = CommandReport {
        command: &command,
        a: &args.a,
        b: &args.b,
        worse: comparison.count(Verdict::Worse),
        better: comparison.count(Verdict::Better),
        different: comparison.count(Verdict::Different),
        comparison: &comparison,
    };
    if let Some(path) = &args.page {
        replace(path, page(&told))?;
        say!("page: {}", print::name(path));
    }
    if args.json {
        print_json(&told)?;
    } else {
        print::page(&text(&told, args.all))?;
    }
    Ok(if fails(&told, args.fail_on) { Outcome::Failed } else { Outcome::Done })
}

fn fails(told: &CommandReport<'_>, on: FailOn) -> bool {
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
    let text = read_small(path, MAX_BYTES)?;
    serde_json::from_slice(&text).with_context(|| {
        format!("{}: not a JSON report{}", print::name(path), Hint("give the output of `--json`"))
    })
}

fn text(told: &CommandReport<'_>, all: bool) -> String {
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

/// Figures in the plot.
const MAX_ROWS: usize = 40;

fn page(told: &CommandReport<'_>) -> String {
    let comparison = told.comparison;
    let mut page = Page::new("Skyhaul: two reports", "SKYHAUL REPORT DIFF");
    let verdict = match told.worse {
        0 => (true, "no figure is worse".to_owned()),
        worse => (false, format!("{worse} figures are worse")),
    };
    page.headline(
        &format!("{} figures,", comparison.figures.len()),
        Some((verdict.0, &verdict.1)),
        &[&format!("A: {}. B: {}.", told.a.display(), told.b.display()), &conclusion(told)],
    );
    page.tiles(&[
        Tile::new("worse", told.worse.to_string(), "beyond spread and tolerance"),
        Tile::new("better", told.better.to_string(), "likewise"),
        Tile::new("different", told.different.to_string(), "no direction is better"),
        Tile::new(
            "within or the same",
            (comparison.count(Verdict::Within) + comparison.count(Verdict::Same)).to_string(),
            format!("tolerance {:.3} %", comparison.tolerance * 100.0),
        ),
    ]);
    let different = comparison.different();
    page.section(
        "What differs most",
        "B divided by A; the bars are in the order of the table.",
        &bars(&different),
    );
    page.section("Figures that differ", "Worse ones first, then by how much.", &table(&different));
    let mut changes = Table::new(&["setting", "A", "B"]);
    for change in &comparison.changes {
        changes = changes.row(&[&change.path, &change.a, &change.b]);
    }
    page.section("Settings and texts that differ", "", &changes.html());
    if !(comparison.only_a.is_empty() && comparison.only_b.is_empty()) {
        let mut only = Table::new(&["only in", "figure"]);
        for (which, paths) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
            only = paths.iter().fold(only, |only, path| only.row(&[which, path]));
        }
        page.section("Figures in one report only", "", &only.html());
    }
    let all: Vec<&Figure> = comparison.figures.iter().collect();
    page.section("All figures", "", &table(&all));
    page.source(told.command, &json(told));
    page.finish()
}

fn table(figures: &[&Figure]) -> String {
    let mut table = Table::new(&["figure", "#A", "#B", "#B / A", ""]);
    for figure in figures {
        let cells = [figure.path.clone(), number(&figure.a), number(&figure.b), ratio(figure)];
        match figure.verdict {
            Verdict::Worse => table.add(&[&cells[..], &[String::new()]].concat(), "", "✘ worse"),
            other => table.add(&[&cells[..], &[word(other).to_owned()]].concat(), "", ""),
        }
    }
    table.html()
}

/// The ratios as bars from 1, a colour for each verdict.
fn bars(figures: &[&Figure]) -> String {
    let of = |verdict: Verdict, name: &str, colour: usize| {
        let shown = figures.iter().take(MAX_ROWS).enumerate();
        let shown = shown
            .filter(move |(_, figure)| figure.verdict == verdict && figure.ratio.is_some_and(|r| r > 0.0));
        let bars: Vec<(f64, f64, f64)> =
            shown.clone().map(|(n, f)| (n as f64 + 0.6, n as f64 + 1.4, f.ratio.unwrap_or(1.0))).collect();
        let tips = shown.map(|(_, f)| format!("{}\n{} → {}", f.path, number(&f.a), number(&f.b))).collect();
        Series::bars(if bars.is_empty() { "" } else { name }, bars).colour(colour).tips(tips)
    };
    let whole = |v: f64| if v.fract() == 0.0 { format!("{v:.0}") } else { String::new() };
    let panel = Panel::new(200.0, Scale::log("B / A"))
        .series(of(Verdict::Worse, "worse", 5))
        .series(of(Verdict::Better, "better", 2))
        .series(of(Verdict::Different, "different", 7))
        .level(1.0, "the same");
    Chart::new("Ratio of each figure that differs")
        .x(Scale::linear("figure").from(0.4).words(whole))
        .panel(panel)
        .inline(WIDTH)
}

/// A comparison and where it comes from.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: &'a str,
    a: &'a Path,
    b: &'a Path,
    worse: usize,
    better: usize,
    different: usize,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// A number with as many digits as tell something.
fn number(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        Some(number) if number.abs() >= 1000.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.4}"),
        None => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

fn ratio(figure: &Figure) -> String {
    figure.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}"))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Different => "different",
        Verdict::Within => "within",
        Verdict::Same => "same",
    }
}

fn conclusion(told: &CommandReport<'_>) -> String {
    format!(
        "{} figures compared: {} worse, {} better, {} different; {} within their spread or {:.3} %, {} the same",
        told.comparison.figures.len(),
        told.worse,
        told.better,
        told.different,
        told.comparison.count(Verdict::Within),
        told.comparison.tolerance * 100.0,
        told.comparison.count(Verdict::Same),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_gate_fails_on_what_it_is_asked_to() {
        let gate = |a: &Value, b: &Value| {
            let comparison = compare(a, b, &Options::default()).unwrap();
            let told = CommandReport {
                command: "skyhaul report diff",
                a: Path::new("a<b>"),
                b: Path::new("b"),
                worse: comparison.count(Verdict::Worse),
                better: comparison.count(Verdict::Better),
                different: comparison.count(Verdict::Different),
                comparison: &comparison,
            };
            let page = page(&told);
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
