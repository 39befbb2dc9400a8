//! A campaign in a directory: one page, and JSON and plot of each experiment.

use crate::report::chart::Series;
use crate::report::chart::{Chart, Panel, WIDTH};
use crate::report::drawing::Scale;
use crate::report::map::LossMap;
use crate::report::page::{Page, Tile, claims, titled};
use crate::report::table::Table;
use crate::report::words::{escape, json, short};
use crate::verb::output::write;
use anyhow::Result;
use skyhaul_experiments::campaign::{CampaignReport, Claim, ExperimentReport, Figure, Look, State};
use std::fmt::Write as _;
use std::path::Path;

/// Write what one experiment gave, as soon as it did.
pub(super) fn keep(directory: &Path, made: &ExperimentReport) -> Result<()> {
    write(directory, &format!("{}.json", made.name), &json(made))?;
    if let Some(figure) = &made.figure {
        write(directory, &format!("{}.svg", made.name), &chart(&made.title, figure).file())?;
    }
    Ok(())
}

/// Write the page, and all as JSON.
pub(super) fn finish(directory: &Path, told: &CampaignReport) -> Result<()> {
    write(directory, "report.json", &json(told))?;
    write(directory, "index.html", &page(told))?;
    say!("wrote index.html, report.json, and JSON and plot of each experiment to {}", directory.display());
    Ok(())
}

fn page(told: &CampaignReport) -> String {
    let mut page = Page::new("Skyhaul: the experiments of a talk", "SKYHAUL PROBE CAMPAIGN");
    let verdict = match (told.interrupted, told.failed, told.broken) {
        (true, ..) => (false, "interrupted".to_owned()),
        (_, 0, 0) => (true, "all as predicted".to_owned()),
        (_, 0, 1) => (false, "one prediction did not hold".to_owned()),
        (_, 0, broken) => (false, format!("{broken} predictions did not hold")),
        (_, failed, _) => (false, format!("{failed} could not be made")),
    };
    page.headline(
        &format!("{} experiments,", told.made),
        Some((verdict.0, &verdict.1)),
        &["On paths emulated on this machine, on loopback, or on its disk.", &told.machine],
    );
    page.tiles(&[
        Tile::new("made", told.made.to_string(), "measured beside what theory predicts"),
        Tile::new("predictions", told.claims.to_string(), format!("{} held", told.claims - told.broken)),
        Tile::new("skipped", told.skipped.to_string(), "what they need is not here"),
        Tile::new("failed", told.failed.to_string(), "could not be made"),
    ]);
    let mut table = Table::new(&["experiment", "where", "", "#predictions held", "#seconds"]);
    for made in &told.experiments {
        let (claims, broken) = made.claims();
        let held =
            if made.figure.is_some() { format!("{} of {claims}", claims - broken) } else { String::new() };
        let seconds = format!("{:.1}", made.seconds);
        let cells = [&made.title, made.place(), made.state.word(), &held, &seconds];
        table.add(&cells, "", if broken > 0 || made.state == State::Failed { "✘" } else { "" });
    }
    page.section("All", "", &table.html());
    for made in &told.experiments {
        page.section(&made.title, &made.shows, &section(made));
    }
    page.source(&told.command, &json(told));
    page.finish()
}

fn section(made: &ExperimentReport) -> String {
    let mut about = Table::new(&["", ""]);
    for (what, text) in [
        ("name", made.name.as_ref()),
        ("where", made.place()),
        ("test", &made.call),
        ("theory", &made.theory),
    ] {
        about.add(&[what, text], "", "");
    }
    for note in &made.notes {
        about.add(&["the lab did not keep up", note], "", "✘");
    }
    let Some(figure) = &made.figure else {
        let word = made.state.word();
        let why = made.why.as_deref().unwrap_or_default();
        return format!("{}<p><b>{word}</b>: {}</p>\n", about.html(), escape(why));
    };
    let mut body = about.html() + &chart(&made.title, figure).inline(WIDTH);
    for map in &figure.maps {
        let (label, lost) = (map.title.clone(), map.lost.as_slice());
        let drawn = LossMap { label, unit: "packets", first: 0, span: map.packets, lost };
        body += &titled(&map.title, &drawn.inline());
    }
    let said: Vec<String> = figure.claims.iter().map(evidence).collect();
    let all = figure.claims.iter().zip(&said);
    body += &claims(all.map(|(claim, said)| (claim.held(), claim.what.as_str(), said.as_str())));
    let headings = figure.columns.iter().map(|column| format!("#{}", column.title));
    let headings: Vec<String> = std::iter::once(figure.of.to_string()).chain(headings).collect();
    let mut table = Table::new(&headings);
    figure.rows.iter().for_each(|row| table.add(&figure.cells(row), "", ""));
    body + &table.html()
}

fn chart(title: &str, figure: &Figure) -> Chart {
    let scale = |log: bool, name: &str| if log { Scale::log(name) } else { Scale::linear(name) };
    figure.panels.iter().fold(Chart::new(title).x(scale(figure.x_log, &figure.x)), |chart, lines| {
        let mut panel = Panel::new(200.0, scale(lines.log, &lines.y));
        for values in &lines.lines {
            let (name, points) = (values.name.clone(), values.points.iter().copied());
            panel = panel.series(match values.look {
                Look::Measured => Series::points(name, points),
                Look::Theory => Series::dotted(name, points),
                Look::Dots => Series::dots(name, points),
            });
        }
        let levels = lines.levels.iter();
        chart.panel(levels.fold(panel, |panel, (at, name)| panel.level(*at, name.to_string())))
    })
}

/// A line that says how it ended, its table, and its predictions.
pub(super) fn text(made: &ExperimentReport) -> String {
    let mut out = format!("{}\n", line(made));
    if let Some(figure) = &made.figure {
        out += &table(figure);
        for claim in &figure.claims {
            let mark = if claim.held() { "✔" } else { "✘" };
            let _ = writeln!(out, "  {mark} {}: {}", claim.what, evidence(claim));
        }
    }
    for note in &made.notes {
        let _ = writeln!(out, "  note: the lab did not keep up: {note}");
    }
    out
}

fn line(made: &ExperimentReport) -> String {
    let name = format!("{:<13}", made.name);
    let why = made.why.as_deref().unwrap_or_default();
    match made.state {
        State::Done => {
            let (claims, broken) = made.claims();
            format!(
                "{name} {}: {} of {claims} predictions held, {:.1} s",
                made.title,
                claims - broken,
                made.seconds
            )
        }
        State::Skipped => format!("{name} skipped: {why}"),
        State::Failed => format!("{name} FAILED: {why}"),
    }
}

/// A prediction in words.
fn evidence(claim: &Claim) -> String {
    let value = |value: f64| format!("{} {}", short(value), claim.unit).trim_end().to_owned();
    let within = if claim.predicted == 0.0 {
        value(claim.tolerance)
    } else {
        format!("{:.0} %", claim.tolerance * 100.0)
    };
    let measured = claim.measured.map_or_else(|| "nothing".to_owned(), value);
    format!("predicted {}, measured {measured}; within {within}", value(claim.predicted))
}

/// The rows under their headings, numbers to the right.
fn table(figure: &Figure) -> String {
    let headings = figure.columns.iter().map(|column| column.title.to_string());
    let mut lines = vec![std::iter::once(figure.of.to_string()).chain(headings).collect::<Vec<String>>()];
    lines.extend(figure.rows.iter().map(|row| figure.cells(row)));
    let width = |n: usize| lines.iter().map(|line| line[n].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let mut text = format!("  {:<1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use skyhaul_experiments::campaign::Verdict;

    #[test]
    fn columns_stand_below_each_other_and_claims_say_how_near_they_are() {
        let figure: Figure = serde_json::from_value(json!({
            "of": "rate", "columns": [{"key": "received_mbps", "title": "received, Mb/s", "digits": 1}],
            "rows": [{"of": "50 Mb/s", "received_mbps": 49.0}, {"of": "100 Mb/s"}],
            "x": "", "x_log": false, "panels": [], "maps": [], "claims": []
        }))
        .unwrap();
        assert_eq!(table(&figure), "  rate      received, Mb/s\n  50 Mb/s             49.0\n  100 Mb/s\n");
        let said = |predicted: f64, measured: Option<f64>| {
            let (unit, tolerance, verdict) = ("Mb/s".into(), 0.05, Verdict::Held);
            evidence(&Claim { what: String::new(), predicted, measured, unit, tolerance, verdict })
        };
        assert_eq!(said(50.0, Some(49.0)), "predicted 50 Mb/s, measured 49 Mb/s; within 5 %");
        assert_eq!(said(0.0, None), "predicted 0 Mb/s, measured nothing; within 0.05 Mb/s");
    }
}
