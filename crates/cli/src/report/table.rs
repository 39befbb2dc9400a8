//! Tables of a page.

use super::chart::WIDTH;
use super::drawing::Drawing;
use super::words::{escape, micros, nothing, number};
use crate::report::drawing::Scale;
use std::fmt::Write as _;

/// A table; the heading of a column of numbers begins with `#`, which is not shown.
pub(crate) struct Table {
    numbers: Vec<bool>,
    out: String,
}

impl Table {
    pub(crate) fn new<S: AsRef<str>>(headings: &[S]) -> Self {
        let mut table = Self { numbers: Vec::new(), out: String::from("<table><tr>") };
        for heading in headings {
            let (number, name) =
                heading.as_ref().strip_prefix('#').map_or((false, heading.as_ref()), |name| (true, name));
            table.numbers.push(number);
            let class = if number { " class=\"n\"" } else { "" };
            let _ = write!(table.out, "<th{class}>{}</th>", escape(name));
        }
        table.out.push_str("</tr>\n");
        table
    }

    /// A row of texts.
    pub(crate) fn row<S: AsRef<str>>(mut self, cells: &[S]) -> Self {
        self.add(cells, "", "");
        self
    }

    /// Add a row of a class of its own (may be empty), with a remark that something is wrong (may be empty) after its last cell.
    pub(crate) fn add<S: AsRef<str>>(&mut self, cells: &[S], class: &str, wrong: &str) {
        self.out.push_str(&if class.is_empty() { "<tr>".into() } else { format!("<tr class=\"{class}\">") });
        for (n, cell) in cells.iter().enumerate() {
            let class = if self.numbers.get(n) == Some(&true) { " class=\"n\"" } else { "" };
            let _ = write!(self.out, "<td{class}>{}", escape(cell.as_ref()));
            if n + 1 == cells.len() && !wrong.is_empty() {
                let _ = write!(self.out, " <span class=\"broken\">{}</span>", escape(wrong));
            }
            self.out.push_str("</td>");
        }
        self.out.push_str("</tr>\n");
    }

    /// The finished table.
    pub(crate) fn html(&self) -> String {
        format!("{}</table>\n", self.out)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_numbers_stand_right() {
        let mut table = Table::new(&["size", "#lost"]).row(&["<b>", "1"]);
        table.add(&["x", "2"], "branch", "no & no");
        let html = table.html();
        assert!(html.contains("<th>size</th><th class=\"n\">lost</th>"), "{html}");
        assert!(html.contains("<td>&lt;b&gt;</td><td class=\"n\">1</td>"), "{html}");
        assert!(html.contains(
            "<tr class=\"branch\"><td>x</td><td class=\"n\">2 <span class=\"broken\">no &amp; no</span></td>"
        ));
    }
}
