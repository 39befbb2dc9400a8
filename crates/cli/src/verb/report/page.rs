//! The page of a comparison.

use super::told::{Told, conclusion, number, ratio, word};
use crate::report::axis::Scale;
use crate::report::chart::{Chart, Panel, WIDTH};
use crate::report::page::{Page, Tile};
use crate::report::series::Series;
use crate::report::table::Table;
use crate::report::words::json;
use skyhaul::report::compare::{Figure, Verdict};

/// Figures in the plot.
const MOST: usize = 40;

pub(super) fn page(told: &Told<'_>) -> String {
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
        let shown = figures.iter().take(MOST).enumerate();
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
