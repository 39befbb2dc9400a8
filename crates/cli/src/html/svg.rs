//! Drawings as inline SVG: axes with units, bars, lines. Colours are classes that the page's style sheet gives.
//!
//! ```text
//!   value ── Axis::at ──▶ pixel      0 │▔╲__╱▔▔     y_axis: ticks, grid, unit
//!                                      └────────    x_axis: ticks, unit
//! ```
//!
//! Limits: nothing here fails. A value that is not a number is drawn at the axis' beginning, one outside at its end.

use std::fmt::Write as _;

/// `text` with all that means something in HTML escaped; characters that no text has are left out.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => {}
            c => out.push(c),
        }
    }
    out
}

/// From values to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
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

/// `value` with as few digits as it needs.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    let digits = if !(1e-9..100.0).contains(&size) {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        4
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Colours of series in a file of its own, by their number: readable on white, and apart for most eyes.
pub(crate) const COLOURS: [&str; 8] =
    ["#1f4e9c", "#c0392b", "#2e8b57", "#b8860b", "#6a3d9a", "#008b8b", "#8b4513", "#555555"];
/// Shades of parts, from nothing to all.
const SHADES: [&str; 7] = ["#e6ebe4", "#f7dcb9", "#f2b872", "#e8903f", "#d4632a", "#b03a1f", "#7a1414"];

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
        if !tip.is_empty() {
            let _ = write!(self.body, " data-t=\"{}\"", escape(tip));
        }
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

    /// A point.
    pub(crate) fn dot(&mut self, (x, y): (f64, f64), class: &str) {
        let _ = write!(self.body, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
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

    /// Ticks and title under the line at height `y`.
    pub(crate) fn x_axis(&mut self, axis: &Axis, y: f64, title: &str, words: &dyn Fn(f64) -> String) {
        self.line((axis.from, y), (axis.to, y), "axis");
        for tick in axis.ticks(10) {
            let x = axis.at(tick);
            self.line((x, y), (x, y + 4.0), "axis");
            self.text((x, y + 17.0), "middle", "", &words(tick));
        }
        self.text((axis.to, y + 34.0), "end", "title", title);
    }

    /// Grid lines from `left` to `right` with their values, and the title above.
    pub(crate) fn y_axis(
        &mut self,
        axis: &Axis,
        (left, right): (f64, f64),
        title: &str,
        words: &dyn Fn(f64) -> String,
    ) {
        let most = ((axis.from - axis.to).abs() / 32.0).clamp(2.0, 8.0) as usize;
        for tick in axis.ticks(most) {
            let y = axis.at(tick);
            self.line((left, y), (right, y), "grid");
            self.text((left - 7.0, y + 4.0), "end", "", &words(tick));
        }
        self.text((left, axis.to - 9.0), "start", "title", title);
    }

    /// The finished picture as a file of its own: name space, colours, white ground.
    pub(crate) fn into_file(self, width: f64, height: f64) -> String {
        let mut style = String::from(
            "text{font-family:sans-serif;font-size:12px;fill:#333}.title{font-weight:600}.axis{stroke:#333}\
             .grid{stroke:#ddd}path{fill:none;stroke-width:1.8}.dotted{stroke-dasharray:2 4}line.s3{stroke-width:1.8}\
             rect.none{fill:#fff;stroke:#bbb;stroke-width:0.5}",
        );
        for (number, colour) in COLOURS.iter().enumerate() {
            let _ = write!(
                style,
                "path.s{number},line.s{number}{{stroke:{colour}}}circle.s{number},rect.s{number}{{fill:{colour}}}"
            );
        }
        for (number, colour) in SHADES.iter().enumerate() {
            let _ = write!(style, "rect.q{number}{{fill:{colour}}}");
        }
        let svg = self.finish();
        let (head, body) = svg.split_once('>').unwrap_or_default();
        let named =
            format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" ");
        let head = head.replacen("<svg ", &named, 1);
        format!("{head}><style>{style}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{body}")
    }

    /// The finished picture.
    pub(crate) fn finish(mut self) -> String {
        self.body.push_str("</svg>\n");
        self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn numbers_are_short() {
        let words: Vec<String> = [0.0, 0.5, 2.0, 12.5, 1000.0, 0.0001].map(short).to_vec();
        assert_eq!(words, ["0", "0.5", "2", "12.5", "1000", "0.0001"]);
        assert_eq!((nice(0.0), nice(3.0), nice(0.11), nice(f64::NAN)), (1.0, 5.0, 0.2, 1.0));
    }
}
