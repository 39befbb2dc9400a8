//! An experiment as text for people.

use super::figure::{Claim, Figure};
use super::told::{Made, State};
use crate::report::words::short;
use std::fmt::Write as _;

/// A line that says how it ended, its table, and its predictions.
pub(super) fn text(made: &Made) -> String {
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

fn line(made: &Made) -> String {
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
pub(super) fn evidence(claim: &Claim) -> String {
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

    #[test]
    fn columns_stand_below_each_other_and_claims_say_how_near_they_are() {
        let mut figure = Figure::new("rate", &[("received_mbps", "received, Mb/s", 1)], "");
        figure.row("50 Mb/s", &[49.0]);
        figure.row("100 Mb/s", &[f64::NAN]);
        assert_eq!(table(&figure), "  rate      received, Mb/s\n  50 Mb/s             49.0\n  100 Mb/s\n");
        let said = |predicted, measured| evidence(&Claim::new("", (predicted, measured), "Mb/s", 0.05));
        assert_eq!(said(50.0, 49.0), "predicted 50 Mb/s, measured 49 Mb/s; within 5 %");
        assert_eq!(said(0.0, f64::NAN), "predicted 0 Mb/s, measured nothing; within 0.05 Mb/s");
    }
}
