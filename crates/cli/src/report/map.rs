//! Heat maps: a value in each cell of rows and columns, as a shade.
//!
//! ```text
//!            0 µs  5 µs  10 µs            none ≤ 1 % ≤ 2 %
//!     64 B  │ ▓▓ │  ▒▒ │     │              ░     ▒     ▓
//!   1472 B  │ ▒▒ │     │     │
//! ```
//!
//! Where in a numbered stream something was lost.
//!
//! The map reads like text: each cell is a run of consecutive numbers, and each row continues the one above.

use super::chart::WIDTH;
use super::drawing::{Drawing, Frame, width_of};
use super::words::{escape, nothing, number, short};
use crate::report::drawing::{Scale, nice};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Shades of cells that hold something.
pub(super) const SHADES: usize = 6;

/// What shades mean.
#[derive(Clone, Debug)]
pub(crate) struct Shades {
    /// Highest value of a shade, its class, its name.
    steps: Vec<(f64, usize, String)>,
    /// Name of the shade of nothing.
    zero: String,
    /// Name of cells without a value; not shown if empty.
    missing: String,
}

impl Shades {
    /// Equal steps to a round number that is at least `worst`.
    pub(crate) fn even(worst: f64, unit: &str) -> Self {
        let step = nice(worst / SHADES as f64);
        let steps = (1..=SHADES)
            .filter(|_| worst > 0.0)
            .map(|n| (step * n as f64, n, format!("≤ {} {unit}", short(step * n as f64))))
            .collect();
        Self { steps, zero: "none".into(), missing: String::new() }
    }

    /// Parts of a whole, in equal steps of per cent.
    pub(crate) fn percent(worst: f64) -> Self {
        let mut shades = Self::even(worst.min(1.0) * 100.0, "%");
        shades.steps.iter_mut().for_each(|step| step.0 /= 100.0);
        shades
    }

    /// Values below bounds, with the number of their shade and a name.
    pub(crate) fn below(bounds: &[(f64, usize, &str)], zero: &str, missing: &str) -> Self {
        let steps =
            bounds.iter().map(|&(bound, shade, name)| (bound, shade.min(SHADES), name.into())).collect();
        Self { steps, zero: zero.into(), missing: missing.into() }
    }

    /// The class of a value.
    pub(super) fn class(&self, value: Option<f64>) -> String {
        let shade = |value: f64| {
            let step = self.steps.iter().find(|step| value <= step.0 * 1.000_001).or(self.steps.last());
            step.map_or(0, |step| step.1)
        };
        match value {
            Some(value) if value > 0.0 => format!("q{}", shade(value)),
            Some(value) if value.is_finite() => "q0".into(),
            _ => "none".into(),
        }
    }

    /// The names of the shades from `at` to the right.
    pub(super) fn legend(&self, drawing: &mut Drawing, at: (f64, f64)) {
        let steps = self.steps.iter().map(|step| (format!("q{}", step.1), step.2.as_str()));
        let all = std::iter::once(("q0".to_owned(), self.zero.as_str()))
            .chain(steps)
            .chain(std::iter::once(("none".to_owned(), self.missing.as_str())));
        let mut x = at.0;
        for (class, name) in all.filter(|entry| !entry.1.is_empty()) {
            drawing.rect((x, at.1), 12.0, 12.0, &class, "");
            drawing.text((x + 18.0, at.1 + 10.0), "start", "", name);
            x += width_of(name) + 34.0;
        }
    }
}

/// A value in each cell of rows and columns. Titles and the axis below are drawn by the one who draws the map.
pub(crate) struct HeatMap {
    pub(crate) rows: Vec<String>,
    /// By row; what was not measured is `None`.
    pub(crate) cells: Vec<Vec<Option<f64>>>,
    pub(crate) shades: Shades,
}

impl HeatMap {
    /// What its shades mean, from `at` to the right.
    pub(crate) fn legend(&self, drawing: &mut Drawing, at: (f64, f64)) {
        self.shades.legend(drawing, at);
    }

    /// The cells and the names of the rows.
    pub(crate) fn draw(&self, drawing: &mut Drawing, frame: Frame) {
        let high = (frame.floor - frame.top) / self.rows.len().max(1) as f64;
        for (row, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
            let y = frame.top + row as f64 * high;
            drawing.text((frame.left - 7.0, y + high / 2.0 + 4.0), "end", "", name);
            let wide = (frame.right - frame.left) / cells.len().max(1) as f64;
            // Neighbours apart, where they are wide enough to show it.
            let gap = if wide > 4.0 { 1.0 } else { 0.0 };
            for (column, &value) in cells.iter().enumerate() {
                let at = (frame.left + column as f64 * wide, y);
                drawing.rect(at, wide - gap, high - 1.5, &self.shades.class(value), "");
            }
        }
    }
}

const COLUMNS: u64 = 120;
const ROWS: u64 = 20;
/// Left end of the map.
const LEFT: f64 = 92.0;

/// A run of numbers in cells of equal size.
struct Cells {
    /// The first number.
    first: u64,
    /// How many there are.
    span: u64,
    /// Numbers in a cell.
    each: u64,
    /// Lost numbers of each cell.
    lost: Vec<u64>,
}

impl Cells {
    fn new(first: u64, span: u64, lost_runs: &[(u64, u64)]) -> Self {
        let each = span.div_ceil(COLUMNS * ROWS).max(1);
        let mut lost = vec![0u64; span.div_ceil(each) as usize];
        for &(from, to) in lost_runs {
            let (from, to) = (from.saturating_sub(first).min(span), to.saturating_sub(first).min(span));
            let mut at = from;
            while at < to {
                let cell = at / each;
                let end = (cell + 1).saturating_mul(each).min(to);
                lost[cell as usize] += end - at;
                at = end;
            }
        }
        Self { first, span, each, lost }
    }

    fn size(&self, cell: usize) -> u64 {
        self.each.min(self.span - cell as u64 * self.each)
    }

    fn fraction(&self, cell: usize) -> f64 {
        self.lost[cell].min(self.size(cell)) as f64 / self.size(cell).max(1) as f64
    }

    /// The largest fraction of a cell.
    fn worst(&self) -> f64 {
        (0..self.lost.len()).map(|c| self.fraction(c)).fold(0.0, f64::max)
    }
}

/// What a loss map shows.
pub(crate) struct LossMap<'a> {
    pub(crate) label: String,
    /// What is numbered: `frames`, `packets`.
    pub(crate) unit: &'a str,
    pub(crate) first: u64,
    /// How many numbers there are from the first.
    pub(crate) span: u64,
    /// Runs of lost numbers: first, and behind the last.
    pub(crate) lost: &'a [(u64, u64)],
}

impl LossMap<'_> {
    /// As a part of a page, as wide as it.
    pub(crate) fn inline(&self) -> String {
        let cells = Cells::new(self.first, self.span, self.lost);
        if cells.lost.is_empty() {
            return nothing(&format!("No {}.", self.unit));
        }
        let rows = (cells.lost.len() as u64).div_ceil(COLUMNS);
        let (cell, high) = ((WIDTH - LEFT - 16.0) / COLUMNS as f64, 13.0);
        let (top, bottom) = (34.0, 34.0 + high * rows as f64);
        let mut drawing = Drawing::new(WIDTH, bottom + 38.0, &self.label);
        let title = format!("{} lost in a cell:", self.unit);
        drawing.text((LEFT, 12.0), "start", "title", &title);
        let shades = Shades::percent(cells.worst());
        shades.legend(&mut drawing, (LEFT + 24.0 + width_of(&title), 2.0));
        drawing.text((LEFT - 7.0, 28.0), "end", "title", "number");
        // One path for each shade: thousands of rectangles would make the page large.
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        for i in 0..cells.lost.len() {
            let (row, column) = (i as u64 / COLUMNS, i as u64 % COLUMNS);
            let (x, y) = (LEFT + column as f64 * cell, top + row as f64 * high);
            let path = paths.entry(shades.class(Some(cells.fraction(i)))).or_default();
            let _ = write!(path, "M{x:.1} {y:.1}h{0:.1}v{1:.1}h-{0:.1}z", cell - 0.7, high - 0.7);
        }
        for (class, path) in &paths {
            drawing.raw(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
        for row in (0..rows).step_by(2) {
            let first = cells.first.saturating_add((row * COLUMNS).saturating_mul(cells.each));
            let at = top + row as f64 * high + 10.5;
            drawing.text((LEFT - 7.0, at), "end", "", &number(first));
        }
        let width = cell * COLUMNS as f64;
        let each = format!("{0} on from the row's first; a cell is {1} {0}", self.unit, number(cells.each));
        let scale = Scale::linear(each).to(COLUMNS as f64 * cells.each as f64).words(|v| number(v as u64));
        let x = scale.axis(std::iter::empty(), LEFT, LEFT + width);
        drawing.x_axis(&x, bottom + 1.0, &scale);
        self.over(&mut drawing, &cells, (width, bottom - top, rows));
        drawing.finish()
    }

    /// What the page's script shows under the pointer.
    fn over(&self, drawing: &mut Drawing, cells: &Cells, (width, high, rows): (f64, f64, u64)) {
        let list: Vec<String> = cells.lost.iter().map(u64::to_string).collect();
        drawing.raw(&format!(
            "<rect class=\"over\" x=\"{LEFT}\" y=\"34\" width=\"{width:.1}\" height=\"{high:.1}\" \
             data-first=\"{}\" data-span=\"{}\" data-each=\"{}\" data-columns=\"{COLUMNS}\" data-rows=\"{rows}\" \
             data-unit=\"{}\" data-cells=\"{}\"/>",
            cells.first,
            cells.span,
            cells.each,
            escape(self.unit),
            list.join(",")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_shade_of_its_value() {
        let map = HeatMap {
            rows: vec!["64 B".into(), "1472 B".into()],
            cells: vec![vec![Some(0.0), Some(0.01), Some(0.12)], vec![None, Some(f64::NAN), Some(9.0)]],
            shades: Shades::percent(0.12),
        };
        let mut drawing = Drawing::new(500.0, 100.0, "loss");
        map.legend(&mut drawing, (92.0, 22.0));
        map.draw(&mut drawing, Frame { left: 92.0, right: 484.0, top: 46.0, floor: 82.0 });
        let drawn = drawing.finish();
        for (class, count) in [("q0", 2), ("q1", 2), ("q6", 3), ("none", 2)] {
            assert_eq!(drawn.matches(&format!("<rect class=\"{class}\"")).count(), count, "{class}");
        }
        assert!(drawn.contains(">1472 B<") && drawn.contains("≤ 12 %"));
    }

    #[test]
    fn shades_of_nothing_have_one_name() {
        assert!(Shades::even(0.0, "ms").steps.is_empty());
        assert_eq!(Shades::even(f64::NAN, "ms").class(Some(3.0)), "q0");
    }

    #[test]
    fn every_lost_number_is_in_one_cell() {
        let cells = Cells::new(1_000, 10_000, &[(1_000, 1_001), (1_400, 1_499)]);
        assert_eq!((cells.first, cells.each, cells.lost.len()), (1_000, 5, 2_000));
        assert_eq!(cells.lost.iter().sum::<u64>(), 100);
        assert_eq!((cells.lost[0], cells.lost[80], cells.lost[99], cells.lost[100]), (1, 5, 4, 0));
        assert!(cells.worst() <= 1.0);
    }
}
