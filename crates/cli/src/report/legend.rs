//! Names of series below a chart, in as many rows as they need.

use super::drawing::{Drawing, width_of};
use super::palette::COLOURS;

/// Height of a row.
pub(super) const ROW: f64 = 19.0;

/// How a name is marked.
pub(crate) enum Mark {
    Dot(String),
    /// A short line.
    Line(String),
    /// Not at all.
    None,
}

impl Mark {
    /// The mark of a series, by its number.
    pub(crate) fn series(number: usize) -> Self {
        Self::Dot(format!("s{}", number % COLOURS))
    }
}

/// Place of each name, from the left end and the top, within `width`.
fn places(names: &[(Mark, String)], width: f64) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (0.0, 0.0);
    names
        .iter()
        .map(|(_, name)| {
            let needed = width_of(name) + 46.0;
            if x > 0.0 && x + needed > width {
                (x, y) = (0.0, y + ROW);
            }
            let at = (x, y);
            x += needed;
            at
        })
        .collect()
}

/// Height of the legend.
pub(super) fn height(names: &[(Mark, String)], width: f64) -> f64 {
    places(names, width).last().map_or(0.0, |last| last.1 + ROW)
}

/// Draw it, its upper left corner at `at`.
pub(crate) fn legend(drawing: &mut Drawing, names: &[(Mark, String)], at: (f64, f64), width: f64) {
    for ((mark, name), (x, y)) in names.iter().zip(places(names, width)) {
        let (x, y) = (at.0 + x, at.1 + y);
        match mark {
            Mark::Dot(class) => drawing.dot((x + 4.0, y + 9.0), class, ""),
            Mark::Line(class) if class == "level" => drawing.line((x, y + 9.0), (x + 18.0, y + 9.0), class),
            Mark::None => {}
            Mark::Line(class) => drawing.path(&[(x, y + 9.0), (x + 18.0, y + 9.0)], false, class),
        }
        let indent = match mark {
            Mark::Dot(_) => 13.0,
            Mark::Line(_) => 24.0,
            Mark::None => 0.0,
        };
        drawing.text((x + indent, y + 13.0), "start", "", name);
    }
}
