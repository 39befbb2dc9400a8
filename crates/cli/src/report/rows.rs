//! A row for each of several things: its share as a bar, and how its values are spread, over one logarithmic axis.

use super::axis::Scale;
use super::chart::WIDTH;
use super::drawing::Drawing;
use super::words::{micros, nothing, number};

const HEIGHT: f64 = 62.0;
const BARS: f64 = 74.0;
const BARS_END: f64 = 300.0;
const SPREAD: f64 = 440.0;
const RIGHT: f64 = WIDTH - 16.0;

/// One of them.
pub(crate) struct Row {
    pub(crate) name: String,
    /// Its part of the whole, 0 to 1.
    pub(crate) share: f64,
    /// The share in other words.
    pub(crate) amount: String,
    /// (From, to, count): times in µs.
    pub(crate) times: Vec<(f64, f64, u64)>,
    /// Median and 99th percentile, µs.
    pub(crate) marks: Option<(f64, f64)>,
}

/// Several of them, and what is written around them.
pub(crate) struct Rows<'a> {
    pub(crate) label: &'a str,
    pub(crate) shares: &'a str,
    pub(crate) times: &'a str,
    pub(crate) along: &'a str,
    /// What is counted.
    pub(crate) unit: &'a str,
    pub(crate) rows: Vec<Row>,
}

impl Rows<'_> {
    /// As a part of a page, as wide as it.
    pub(crate) fn inline(&self) -> String {
        if self.rows.is_empty() {
            return nothing("None.");
        }
        let largest = self.rows.iter().map(|row| row.share).fold(1e-9, f64::max);
        let ends = || self.rows.iter().flat_map(|row| row.times.iter().flat_map(|b| [b.0, b.1]));
        let bottom = 28.0 + HEIGHT * self.rows.len() as f64;
        let mut drawing = Drawing::new(WIDTH, bottom + 38.0, self.label);
        let scale = Scale::log(self.along).words(micros);
        let time = scale.axis(ends(), SPREAD, RIGHT);
        drawing.text((BARS, 14.0), "start", "title", self.shares);
        drawing.text((SPREAD, 14.0), "start", "title", self.times);
        for (n, row) in self.rows.iter().enumerate() {
            let base = 28.0 + HEIGHT * (n + 1) as f64 - 10.0;
            let class = format!("s{}", n % 6);
            let part = if row.share.is_finite() { row.share / largest } else { 0.0 };
            drawing.text((BARS - 8.0, base - 14.0), "end", "strong", &row.name);
            drawing.rect((BARS, base - 30.0), BARS_END - BARS, 24.0, "track", "");
            drawing.rect((BARS, base - 30.0), (BARS_END - BARS) * part, 24.0, &class, "");
            let percent = format!("{:.1} %", row.share * 100.0);
            drawing.text((BARS_END + 8.0, base - 20.0), "start", "strong", &percent);
            drawing.text((BARS_END + 8.0, base - 5.0), "start", "", &row.amount);
            drawing.line((SPREAD, base), (RIGHT, base), "axis");
            let tallest = row.times.iter().map(|b| b.2).max().unwrap_or(1).max(1) as f64;
            for &(from, to, count) in &row.times {
                let (left, right) = (time.at(from), time.at(to));
                let high = (count as f64 / tallest * (HEIGHT - 18.0)).max(1.5);
                let tip = format!("{} to {}\n{} {}", micros(from), micros(to), number(count), self.unit);
                drawing.rect((left, base - high), (right - left - 1.0).max(1.0), high, &class, &tip);
            }
            for (value, mark) in row.marks.iter().flat_map(|marks| [(marks.0, "mark"), (marks.1, "mark99")]) {
                let at = time.at(value);
                drawing.line((at, base + 2.0), (at, base - HEIGHT + 16.0), mark);
            }
        }
        drawing.line((RIGHT - 250.0, 10.0), (RIGHT - 226.0, 10.0), "mark");
        drawing.text((RIGHT - 220.0, 14.0), "start", "", "median");
        drawing.line((RIGHT - 160.0, 10.0), (RIGHT - 136.0, 10.0), "mark99");
        drawing.text((RIGHT - 130.0, 14.0), "start", "", "99th percentile");
        if ends().next().is_some() {
            drawing.x_axis(&time, bottom, &scale);
        }
        drawing.finish()
    }
}
