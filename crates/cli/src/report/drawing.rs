//! A drawing as SVG, whose classes are rules of `chart.css`, and its axes: from values to pixels, with round ticks.
//!
//! ```text
//!   value ── Axis::at ──▶ pixel      0 │▔╲__╱▔▔     y_axis: ticks, grid, unit
//!                                      └────────    x_axis: ticks, unit
//! ```
//!
//! The colours are the same in pages and files; most eyes tell series apart, on white and on black (Okabe and Ito's colours, and
//! two more).
//!
//! Limits: a value that is not a number is drawn at the axis' beginning, one outside at its end.

use super::words::{escape, short};
use std::fmt::Write as _;

/// Where in a drawing a chart's axes stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) floor: f64,
}

/// What is drawn so far.
pub(crate) struct Drawing {
    body: String,
}

impl Drawing {
    /// An empty one, `width` by `height` pixels, and what it shows for who cannot see it.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Self {
        let body =
            format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(label));
        Self { body }
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// A box of `width` and `height` with its upper left corner at `at`, and a text to show over it (may be empty).
    pub(crate) fn rect(&mut self, at: (f64, f64), width: f64, height: f64, class: &str, tip: &str) {
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"",
            at.0,
            at.1,
            width.max(0.0),
            height.max(0.0)
        );
        self.tip(tip);
        self.body.push_str("/>");
    }

    /// A path through `points`, closed where it is an area.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], closed: bool, class: &str) {
        if points.is_empty() {
            return;
        }
        let _ = write!(self.body, "<path class=\"{class}\" d=\"");
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(self.body, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        }
        self.body.push_str(if closed { "Z\"/>" } else { "\"/>" });
    }

    /// A point, and a text to show over it (may be empty).
    pub(crate) fn dot(&mut self, (x, y): (f64, f64), class: &str, tip: &str) {
        let _ = write!(self.body, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"");
        self.tip(tip);
        self.body.push_str("/>");
    }

    fn tip(&mut self, tip: &str) {
        if !tip.is_empty() {
            let _ = write!(self.body, " data-t=\"{}\"", escape(tip));
        }
    }

    /// Text; `anchor` is `start`, `middle` or `end`.
    pub(crate) fn text(&mut self, at: (f64, f64), anchor: &str, class: &str, text: &str) {
        let _ = write!(
            self.body,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            at.0,
            at.1,
            escape(text)
        );
    }

    /// A piece of SVG as it is.
    pub(crate) fn raw(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    /// Ticks and title under the line at height `y`; ticks whose text would run into the one before have none.
    pub(crate) fn x_axis(&mut self, axis: &Axis, y: f64, scale: &Scale) {
        self.line((axis.from, y), (axis.to, y), "axis");
        let mut free = f64::NEG_INFINITY;
        for tick in axis.ticks(10) {
            let (x, text) = (axis.at(tick), (scale.words)(tick));
            self.line((x, y), (x, y + 4.0), "axis");
            let half = width_of(&text) / 2.0;
            if x - half >= free {
                self.text((x, y + 17.0), "middle", "", &text);
                free = x + half + 6.0;
            }
        }
        self.text((axis.to, y + 34.0), "end", "title", &scale.title);
    }

    /// Grid lines with their values, and the title above.
    pub(crate) fn y_axis(&mut self, axis: &Axis, frame: Frame, scale: &Scale) {
        for tick in axis.ticks(rows(frame)) {
            let y = axis.at(tick);
            self.line((frame.left, y), (frame.right, y), "grid");
            self.text((frame.left - 7.0, y + 4.0), "end", "", &(scale.words)(tick));
        }
        self.text((frame.left, frame.top - 9.0), "start", "title", &scale.title);
    }

    /// Values and title of a second axis, at the right.
    pub(crate) fn right_axis(&mut self, axis: &Axis, frame: Frame, scale: &Scale) {
        for tick in axis.ticks(rows(frame)) {
            self.text((frame.right + 7.0, axis.at(tick) + 4.0), "start", "", &(scale.words)(tick));
        }
        self.text((frame.right + 40.0, frame.top - 9.0), "end", "title", &scale.title);
    }

    /// The finished picture as a file of its own: name space, colours, white ground.
    pub(crate) fn into_file(self, width: f64, height: f64) -> String {
        let svg = self.finish();
        let (head, body) = svg.split_once('>').unwrap_or_default();
        let named =
            format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" ");
        let head = head.replacen("<svg ", &named, 1);
        let style = file_style();
        format!("{head}><style>{style}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{body}")
    }

    /// The finished picture.
    pub(crate) fn finish(mut self) -> String {
        self.body.push_str("</svg>\n");
        self.body
    }
}

/// Ticks of an upright axis.
fn rows(frame: Frame) -> usize {
    ((frame.floor - frame.top).abs() / 32.0).clamp(2.0, 8.0) as usize
}

/// About how wide a text is.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 6.8
}

/// Colours of series.
pub(super) const COLOURS: usize = 8;
/// Name of a variable, its colour on white, and on black.
const PALETTE: [(&str, &str, &str); 20] = [
    ("ink", "#16181d", "#eceef1"),
    ("soft", "#5b6068", "#a0a6af"),
    ("rule", "#dcdcd8", "#343941"),
    ("grid", "#ebebe7", "#2a2e35"),
    ("card", "#ffffff", "#1b1e23"),
    ("q0", "#f0f1ee", "#24282f"),
    ("q1", "#c9ddf2", "#1d3f63"),
    ("q2", "#95bde6", "#23588e"),
    ("q3", "#5d97d3", "#2f78bd"),
    ("q4", "#2f70b4", "#5a9fdc"),
    ("q5", "#164c88", "#97c6ee"),
    ("q6", "#08284f", "#e2f1fd"),
    ("s0", "#0072b2", "#3a9ad9"),
    ("s1", "#e69f00", "#e69f00"),
    ("s2", "#009e73", "#009e73"),
    ("s3", "#cc79a7", "#cc79a7"),
    ("s4", "#56b4e9", "#56b4e9"),
    ("s5", "#d55e00", "#e8743b"),
    ("s6", "#8b4513", "#b5794f"),
    ("s7", "#555555", "#9a9a9a"),
];
const STYLE: &str = include_str!("chart.css");

/// The rules of drawings in a page, whose colours follow the reader's scheme.
pub(super) fn page_style() -> String {
    let variables = |of: fn(&(&str, &'static str, &'static str)) -> &'static str| {
        PALETTE.iter().fold(String::new(), |mut out, entry| {
            let _ = write!(out, " --{}: {};", entry.0, of(entry));
            out
        })
    };
    format!(
        ":root {{{} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{} }} }}\n{STYLE}{}",
        variables(|entry| entry.1),
        variables(|entry| entry.2),
        series()
    )
}

/// The rules of a drawing in a file of its own, on white.
pub(super) fn file_style() -> String {
    PALETTE.iter().fold(
        format!("svg text {{ font-family: sans-serif; }}\n{STYLE}{}", series()),
        |style, (name, light, _)| style.replace(&format!("var(--{name})"), light),
    )
}

fn series() -> String {
    (0..COLOURS).fold(String::new(), |mut out, n| {
        let _ = writeln!(
            out,
            "path.s{n}, line.s{n} {{ stroke: var(--s{n}); }} \
             circle.s{n}, rect.s{n}, path.area.s{n}, path.band.s{n} {{ fill: var(--s{n}); }}"
        );
        out
    })
}

/// From values to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    pub(super) from: f64,
    pub(super) to: f64,
    log: bool,
}

impl Axis {
    /// Values `low` to `high` on pixels `from` to `to`.
    pub(crate) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { low, high, from, to, log: false }
    }

    /// The same, logarithmic; values below the smallest positive one are drawn there.
    pub(crate) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        Self { low, high, from, to, log: true }
    }

    /// Its pixel.
    pub(crate) fn at(&self, value: f64) -> f64 {
        if !value.is_finite() {
            return self.from;
        }
        let value = value.clamp(self.low, self.high);
        let part = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    /// Round values to write at the axis: about `most` of them.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { self.linear_ticks(most) }
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let step = nice((self.high - self.low) / most.max(1) as f64);
        let first = (self.low / step).ceil();
        (0..=most + 1)
            .map(|i| (first + i as f64) * step)
            .take_while(|v| *v <= self.high + step * 1e-6)
            .collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let each = (decades / most.max(1) as f64).ceil().max(1.0) as i32;
        let steps: &[f64] = if decades * 3.0 <= most as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .step_by(each as usize)
            .flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)))
            .filter(|v| *v >= self.low * 0.999_999 && *v <= self.high * 1.000_001)
            .collect()
    }
}

/// The smallest of 1, 2, 5 × 10ⁿ that is at least `value`.
pub(crate) fn nice(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|d| value <= d * power * 1.000_001).unwrap_or(10.0);
    digit * power
}

/// What an axis shows, before the values are known.
pub(crate) struct Scale {
    pub(super) title: String,
    log: bool,
    low: Option<f64>,
    high: Option<f64>,
    least: f64,
    pub(super) words: Box<dyn Fn(f64) -> String>,
}

impl Scale {
    /// From 0, or from the least value if that is negative, to a little above the highest.
    pub(crate) fn linear(title: impl Into<String>) -> Self {
        Self { title: title.into(), log: false, low: None, high: None, least: 0.0, words: Box::new(short) }
    }

    /// Logarithmic, a little wider than the positive values.
    pub(crate) fn log(title: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(title) }
    }

    /// Begin at this value.
    pub(crate) fn from(mut self, low: f64) -> Self {
        self.low = Some(low);
        self
    }

    /// End at this value.
    pub(crate) fn to(mut self, high: f64) -> Self {
        self.high = Some(high);
        self
    }

    /// Reach at least to this value.
    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.least = least;
        self
    }

    /// How values are written at the ticks.
    pub(crate) fn words(mut self, words: impl Fn(f64) -> String + 'static) -> Self {
        self.words = Box::new(words);
        self
    }

    /// The axis for these values, on pixels `from` to `to`.
    pub(crate) fn axis(&self, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let shown = values.filter(|v| v.is_finite() && (!self.log || *v > 0.0));
        let (least, most) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let most = if most.is_finite() { most.max(self.least) } else { self.least };
        if self.log {
            let least = if least.is_finite() { least } else { 1.0 };
            Axis::log(self.low.unwrap_or(least / 1.25), self.high.unwrap_or(most * 1.25), from, to)
        } else {
            let least = if least < 0.0 { least } else { 0.0 };
            let margin = (most - least) * 0.05;
            let low = if least < 0.0 { least - margin } else { 0.0 };
            Axis::linear(self.low.unwrap_or(low), self.high.unwrap_or(most + margin), from, to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_no_variable_and_a_page_defines_each() {
        assert!(!file_style().contains("var("));
        let page = page_style();
        for used in page.split("var(--").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert_eq!(page.matches(&format!(" --{used}: #")).count(), 2, "{used}");
        }
    }

    #[test]
    fn the_stations_dashboard_has_the_colours_of_the_reports() {
        let style = include_str!("../../../daemon/src/station/dashboard/dashboard.css");
        let mut shared = 0;
        for (name, light, dark) in PALETTE {
            let used: Vec<&str> = style
                .split(&format!("--{name}: "))
                .skip(1)
                .filter_map(|rest| rest.split(';').next())
                .collect();
            assert!(used.is_empty() || used == [light, dark], "{name}: {used:?}");
            shared += used.len();
        }
        assert!(shared >= 20, "{shared}");
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(Axis::linear(0.0, 4.3, 0.0, 100.0).ticks(5), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(Axis::log(3.0, 2000.0, 0.0, 100.0).ticks(4), [10.0, 100.0, 1000.0]);
        for (low, high) in [(f64::NAN, f64::NAN), (0.0, 0.0), (5.0, 1.0), (0.0, f64::INFINITY), (0.0, 1e300)]
        {
            for axis in [Axis::linear(low, high, 0.0, 9.0), Axis::log(low, high, 0.0, 9.0)] {
                assert!(axis.ticks(6).len() < 40);
                assert!(axis.at(f64::NAN).is_finite() && axis.at(1e308).is_finite());
            }
        }
    }
}
