//! Heat maps: a value in each cell of rows and columns, as a shade.
//!
//! ```text
//!            0 µs  5 µs  10 µs            none ≤ 1 % ≤ 2 %
//!     64 B  │ ▓▓ │  ▒▒ │     │              ░     ▒     ▓
//!   1472 B  │ ▒▒ │     │     │
//! ```

use super::axis::nice;
use super::drawing::{Drawing, Frame, width_of};
use super::words::short;

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
}
