//! What an experiment measured: a table, lines, maps of losses, and predictions that were compared.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A text of this program, or read from a report.
pub type Text = Cow<'static, str>;

/// What was measured, as table and plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What a row is of.
    pub of: Text,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Title of the x axis.
    pub x: Text,
    /// Whether the x axis is logarithmic.
    pub x_log: bool,
    /// Plots, one below the other.
    pub panels: Vec<Lines>,
    /// Maps of lost packets.
    pub maps: Vec<Map>,
    /// Predictions beside what was measured.
    pub claims: Vec<Claim>,
}

/// Numbers of one kind in the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Their name in the rows: `report diff` tells by it which way is better.
    pub key: Text,
    /// Heading of the column.
    pub title: Text,
    /// Decimal places.
    pub digits: usize,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is of, such as `50 Mb/s`: the same in each run, so that two reports can be compared.
    pub of: String,
    /// By the keys of the columns; what was not measured is left out.
    #[serde(flatten)]
    pub values: BTreeMap<String, f64>,
}

impl Figure {
    /// An empty one: what a row is of, key, title and digits of each column, and the x axis.
    pub(super) fn new(
        of: &'static str,
        columns: &[(&'static str, &'static str, usize)],
        x: &'static str,
    ) -> Self {
        let column = |&(key, title, digits): &(&'static str, &'static str, usize)| Column {
            key: key.into(),
            title: title.into(),
            digits,
        };
        Self { of: of.into(), columns: columns.iter().map(column).collect(), x: x.into(), ..Self::default() }
    }

    /// The same over a logarithmic axis.
    pub(super) fn log(mut self) -> Self {
        self.x_log = true;
        self
    }

    /// Add a row: a number for each column, NaN for what there is not.
    pub(super) fn row(&mut self, of: impl Into<String>, values: &[f64]) {
        let keyed = self.columns.iter().zip(values).filter(|(_, value)| value.is_finite());
        let values = keyed.map(|(column, &value)| (column.key.to_string(), value)).collect();
        self.rows.push(Row { of: of.into(), values });
    }

    /// Add a claim.
    pub(super) fn claim(
        &mut self,
        what: impl Into<String>,
        pair: (f64, f64),
        unit: &'static str,
        tolerance: f64,
    ) {
        self.claims.push(Claim::new(what, pair, unit, tolerance));
    }

    /// Returns all columns of a row as text, its name first.
    #[must_use]
    pub fn cells(&self, row: &Row) -> Vec<String> {
        let value = |column: &Column| {
            row.values
                .get(column.key.as_ref())
                .map_or(String::new(), |value| format!("{value:.*}", column.digits))
        };
        std::iter::once(row.of.clone()).chain(self.columns.iter().map(value)).collect()
    }
}

/// Lines over one y axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// Title of the y axis.
    pub y: Text,
    /// Whether the y axis is logarithmic.
    pub log: bool,
    /// Series over the axis.
    pub lines: Vec<Values>,
    /// Horizontal lines: value and name.
    pub levels: Vec<(f64, Text)>,
}

/// Values of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// Name in the legend.
    pub name: String,
    /// How they are drawn.
    pub look: Look,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Look {
    /// A line through points.
    Measured,
    /// A dotted line.
    Theory,
    /// Points alone.
    Dots,
}

impl Lines {
    pub(super) fn new(y: &'static str) -> Self {
        Self { y: y.into(), ..Self::default() }
    }

    /// Add values. What is no number is in no plot.
    pub(super) fn add(
        &mut self,
        name: impl Into<String>,
        look: Look,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        let points = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        self.lines.push(Values { name: name.into(), look, points });
    }
}

/// Which packets of a run were lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Map {
    /// Heading of the map.
    pub title: String,
    /// Packets sent.
    pub packets: u64,
    /// Runs: the first, and behind the last.
    pub lost: Vec<(u64, u64)>,
}

/// A prediction, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is predicted.
    pub what: String,
    /// By theory.
    pub predicted: f64,
    /// None, if nothing was.
    pub measured: Option<f64>,
    /// Unit of both values.
    pub unit: Text,
    /// They may differ by this part of the prediction, or by this much if that is 0.
    pub tolerance: f64,
    /// Whether they agree.
    pub verdict: Verdict,
}

/// Whether a prediction held. `report diff` knows the order of these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the tolerance.
    Held,
    /// Beyond it, or not measured.
    Broken,
}

impl Claim {
    pub(super) fn new(
        what: impl Into<String>,
        (predicted, measured): (f64, f64),
        unit: &'static str,
        tolerance: f64,
    ) -> Self {
        let most = if predicted == 0.0 { tolerance } else { predicted.abs() * tolerance };
        // What was not measured is NaN, and holds nothing.
        let verdict = if (measured - predicted).abs() <= most { Verdict::Held } else { Verdict::Broken };
        let measured = measured.is_finite().then_some(measured);
        Self { what: what.into(), predicted, measured, unit: unit.into(), tolerance, verdict }
    }

    /// Whether the prediction held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.verdict == Verdict::Held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_within_its_part_or_its_amount_and_not_beyond() {
        let held = |predicted, measured| Claim::new("", (predicted, measured), "", 0.1).held();
        assert!(held(50.0, 54.9) && held(50.0, 45.1) && !held(50.0, 55.1) && !held(50.0, 44.9));
        assert!(held(0.0, 0.09) && !held(0.0, 0.11) && held(-2.0, -2.1) && !held(-2.0, -2.3));
        assert!(!held(1.0, f64::NAN) && !held(0.0, f64::NAN), "what was not measured holds nothing");
    }

    #[test]
    fn a_row_keeps_what_was_measured_under_its_keys() {
        let mut figure =
            Figure::new("rate", &[("received_mbps", "received", 1), ("lost_percent", "lost", 2)], "x");
        figure.row("50 Mb/s", &[49.26, f64::NAN]);
        assert_eq!(figure.cells(&figure.rows[0]), ["50 Mb/s", "49.3", ""]);
        let json = serde_json::to_value(&figure.rows[0]).unwrap();
        assert_eq!(json, serde_json::json!({"of": "50 Mb/s", "received_mbps": 49.26}));
        let text = serde_json::to_string(&figure).unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), figure);
    }
}
