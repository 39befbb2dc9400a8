//! Charts: panels below each other over one axis, each with any number of series.
//!
//! ```text
//!   Chart ─┬─ Panel: lines, points, steps, bands, bars, levels     │▔╲__╱▔▔
//!          ├─ Panel: its own height and y axis                     │ ▁▂█▁
//!          └─ x axis, marks across all panels, legend              └────────
//! ```

use super::drawing::{Axis, COLOURS, Drawing, Frame, Scale, width_of};
use super::words::nothing;

/// Width of a chart that fills a page.
pub(crate) const WIDTH: f64 = 1040.0;
/// Width of one that fills half of it.
pub(crate) const HALF: f64 = 500.0;
/// Width of one in a file.
const FILE: f64 = 820.0;
const LEFT: f64 = 64.0;
/// Room above a panel, for its title.
const ABOVE: f64 = 30.0;
/// Room below the last panel, for ticks and title of the x axis.
const BELOW: f64 = 42.0;

/// Series over one y axis.
pub(crate) struct Panel {
    height: f64,
    y: Scale,
    right: Option<Scale>,
    series: Vec<Series>,
    levels: Vec<(f64, String)>,
}

impl Panel {
    /// Its height in pixels without title and axis.
    pub(crate) fn new(height: f64, y: Scale) -> Self {
        Self { height, y, right: None, series: Vec::new(), levels: Vec::new() }
    }

    /// A second y axis, at the right.
    pub(crate) fn right(mut self, scale: Scale) -> Self {
        self.right = Some(scale);
        self
    }

    pub(crate) fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    pub(crate) fn all(mut self, series: impl IntoIterator<Item = Series>) -> Self {
        self.series.extend(series);
        self
    }

    /// A dashed line across the panel.
    pub(crate) fn level(mut self, at: f64, name: impl Into<String>) -> Self {
        if at.is_finite() {
            self.levels.push((at, name.into()));
        }
        self
    }

    fn is_empty(&self) -> bool {
        self.along().next().is_none()
    }

    /// Values along the x axis.
    pub(crate) fn along(&self) -> impl Iterator<Item = f64> + '_ {
        self.series.iter().flat_map(Series::along)
    }

    /// Draw it over an x axis.
    pub(crate) fn draw(&self, drawing: &mut Drawing, frame: Frame, x: &Axis) {
        let values = |right: bool| {
            let levels = self.levels.iter().filter(move |_| !right).map(|level| level.0);
            self.series.iter().filter(move |s| s.right == right).flat_map(Series::up).chain(levels)
        };
        let y = self.y.axis(values(false), frame.floor, frame.top);
        drawing.y_axis(&y, frame, &self.y);
        let other =
            self.right.as_ref().map(|scale| (scale, scale.axis(values(true), frame.floor, frame.top)));
        if let Some((scale, axis)) = &other {
            drawing.right_axis(axis, frame, scale);
        }
        for (place, series) in self.series.iter().enumerate() {
            let (scale, axis) = match &other {
                Some((scale, axis)) if series.right => (*scale, axis),
                _ => (&self.y, &y),
            };
            series.draw(drawing, frame, (x, axis), &series.class(place));
            series.heights(drawing, (x, axis), scale);
        }
        for (at, _) in &self.levels {
            drawing.line((frame.left, y.at(*at)), (frame.right, y.at(*at)), "level");
        }
        drawing.line((frame.left, frame.floor), (frame.right, frame.floor), "axis");
    }

    fn names(&self) -> impl Iterator<Item = (Mark, String)> + '_ {
        let named = |(place, series): (usize, &Series)| {
            let class = series.class(place);
            let mark =
                if series.is_dotted() { Mark::Line(format!("dotted {class}")) } else { Mark::Dot(class) };
            (!series.name.is_empty() && !series.is_named_beside()).then(|| (mark, series.name.clone()))
        };
        let levels = self.levels.iter().map(|level| (Mark::Line("level".into()), level.1.clone()));
        self.series.iter().enumerate().filter_map(named).chain(levels.filter(|level| !level.1.is_empty()))
    }
}

/// Panels below each other over one x axis.
pub(crate) struct Chart {
    label: String,
    x: Scale,
    panels: Vec<Panel>,
    marks: Vec<(f64, String)>,
    tips: Vec<(f64, f64, String)>,
}

impl Chart {
    /// An empty one, and what it shows for who cannot see it.
    pub(crate) fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            x: Scale::linear(""),
            panels: Vec::new(),
            marks: Vec::new(),
            tips: Vec::new(),
        }
    }

    /// The x axis.
    pub(crate) fn x(mut self, scale: Scale) -> Self {
        self.x = scale;
        self
    }

    pub(crate) fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// A dashed line down all panels: something that happened.
    pub(crate) fn mark(mut self, at: f64, name: impl Into<String>) -> Self {
        if at.is_finite() {
            self.marks.push((at, name.into()));
        }
        self
    }

    /// What is shown over all panels from one x to another.
    pub(crate) fn tip(mut self, from: f64, to: f64, text: impl Into<String>) -> Self {
        self.tips.push((from, to, text.into()));
        self
    }

    /// As a part of a page.
    pub(crate) fn inline(&self, width: f64) -> String {
        if self.panels.iter().all(Panel::is_empty) {
            return nothing("Nothing was measured.");
        }
        self.draw(width).0.finish()
    }

    /// As a file of its own.
    pub(crate) fn file(&self) -> String {
        let (drawing, height) = self.draw(FILE);
        drawing.into_file(FILE, height)
    }

    /// The drawing, and its height.
    fn draw(&self, width: f64) -> (Drawing, f64) {
        let beside = self.panels.iter().flat_map(|p| &p.series).any(Series::is_named_beside);
        let room = if beside || self.panels.iter().any(|p| p.right.is_some()) { 72.0 } else { 16.0 };
        let (left, right) = (LEFT, width - room);
        let names: Vec<(Mark, String)> = self
            .panels
            .iter()
            .flat_map(Panel::names)
            .chain(self.marks.iter().map(|mark| (Mark::Line("level".into()), mark.1.clone())))
            .filter(|name| !name.1.is_empty())
            .collect();
        let floor = self.panels.iter().fold(0.0, |at, panel| at + ABOVE + panel.height);
        let below = height(&names, right - left);
        let height = floor + BELOW + below + 4.0;
        let mut drawing = Drawing::new(width, height, &self.label);
        let marks = self.marks.iter().map(|mark| mark.0);
        let x = self.x.axis(self.panels.iter().flat_map(Panel::along).chain(marks), left, right);
        let mut top = 0.0;
        for panel in &self.panels {
            top += ABOVE;
            panel.draw(&mut drawing, Frame { left, right, top, floor: top + panel.height }, &x);
            top += panel.height;
        }
        for (at, _) in &self.marks {
            drawing.line((x.at(*at), ABOVE), (x.at(*at), floor), "level");
        }
        drawing.x_axis(&x, floor, &self.x);
        legend(&mut drawing, &names, (left, floor + BELOW), right - left);
        for (from, to, text) in &self.tips {
            drawing.rect((x.at(*from), ABOVE), x.at(*to) - x.at(*from), floor - ABOVE, "hover", text);
        }
        (drawing, height)
    }
}

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

/// Points of a line; of more, the lowest and the highest of each part are drawn.
const MAX_POINTS: usize = 2048;
/// Points of a line that carry dots.
const MAX_DOTS: usize = 400;

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Line,
    Points,
    Dots,
    Dotted,
    Steps,
    Band,
    Stack,
    Bars,
}

/// A value at `x`, or from `x` to `to`; with a spread from `low` to `high`.
#[derive(Clone, Copy, Debug)]
struct Spot {
    x: f64,
    to: f64,
    low: f64,
    y: f64,
    high: f64,
}

/// Values of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// For the legend, which shows none that is empty.
    pub(super) name: String,
    look: Look,
    colour: Option<usize>,
    pub(super) right: bool,
    spots: Vec<Spot>,
    tips: Vec<String>,
}

impl Series {
    fn of(name: impl Into<String>, look: Look, spots: impl Iterator<Item = Spot>) -> Self {
        let finite = |s: &Spot| [s.x, s.to, s.low, s.y, s.high].iter().all(|v| v.is_finite());
        let spots = spots.filter(finite).collect();
        Self { name: name.into(), look, colour: None, right: false, spots, tips: Vec::new() }
    }

    fn single(name: impl Into<String>, look: Look, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::of(name, look, points.into_iter().map(|(x, y)| Spot { x, to: x, low: y, y, high: y }))
    }

    /// A line through (x, y).
    pub(crate) fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::single(name, Look::Line, points)
    }

    /// A line, with a dot for each point.
    pub(crate) fn points(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::single(name, Look::Points, points)
    }

    /// Dots only.
    pub(crate) fn dots(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::single(name, Look::Dots, points)
    }

    /// A dotted line: what theory says.
    pub(crate) fn dotted(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::single(name, Look::Dotted, points)
    }

    /// Values that hold from one x to another, over an area.
    pub(crate) fn steps(name: impl Into<String>, steps: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        Self::of(name, Look::Steps, steps.into_iter().map(|(x, to, y)| Spot { x, to, low: y, y, high: y }))
    }

    /// (x, least, median, highest): a line with dots, within its band.
    pub(crate) fn band(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64, f64)>,
    ) -> Self {
        let spot = |(x, low, y, high)| Spot { x, to: x, low, y, high };
        Self::of(name, Look::Band, points.into_iter().map(spot))
    }

    /// (x, lower edge, upper edge): an area on top of another.
    pub(crate) fn stack(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        let spot = |(x, low, high)| Spot { x, to: x, low, y: high, high };
        Self::of(name, Look::Stack, points.into_iter().map(spot))
    }

    /// (from, to, height): the bars of a histogram.
    pub(crate) fn bars(name: impl Into<String>, bars: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        Self::of(name, Look::Bars, bars.into_iter().map(|(x, to, y)| Spot { x, to, low: y, y, high: y }))
    }

    /// In this colour, by number; otherwise by its place among the series.
    pub(crate) fn colour(mut self, colour: usize) -> Self {
        self.colour = Some(colour % COLOURS);
        self
    }

    /// On the right axis.
    pub(crate) fn right(mut self) -> Self {
        self.right = true;
        self
    }

    /// What is shown over each point or bar, in their order.
    pub(crate) fn tips(mut self, tips: Vec<String>) -> Self {
        self.tips = tips;
        self
    }

    pub(super) fn class(&self, place: usize) -> String {
        format!("s{}", self.colour.unwrap_or(place % COLOURS))
    }

    /// Whether the name stands at the end of the area, not in the legend.
    pub(super) fn is_named_beside(&self) -> bool {
        self.look == Look::Stack
    }

    pub(super) fn is_dotted(&self) -> bool {
        self.look == Look::Dotted
    }

    pub(super) fn along(&self) -> impl Iterator<Item = f64> + '_ {
        self.spots.iter().flat_map(|s| [s.x, s.to])
    }

    pub(super) fn up(&self) -> impl Iterator<Item = f64> + '_ {
        self.spots.iter().flat_map(|s| [s.low, s.high])
    }

    pub(super) fn draw(&self, drawing: &mut Drawing, frame: Frame, (x, y): (&Axis, &Axis), class: &str) {
        let points: Vec<(f64, f64)> = self.spots.iter().map(|s| (x.at(s.x), y.at(s.y))).collect();
        match self.look {
            Look::Line => drawing.path(&thin(&points), false, class),
            Look::Dotted => drawing.path(&thin(&points), false, &format!("dotted {class}")),
            Look::Points => drawing.path(&thin(&points), false, class),
            Look::Dots => {}
            Look::Steps => self.steps_over_area(drawing, (x, y), class),
            Look::Band | Look::Stack => self.area(drawing, frame, (x, y), class),
            Look::Bars => self.draw_bars(drawing, (x, y), class),
        }
        if self.look == Look::Band {
            drawing.path(&thin(&points), false, class);
        }
        let dots = match self.look {
            Look::Dots => usize::MAX,
            Look::Points | Look::Band => MAX_DOTS,
            _ => 0,
        };
        if points.len() <= dots {
            for (n, &point) in points.iter().enumerate() {
                drawing.dot(point, class, self.tips.get(n).map_or("", String::as_str));
            }
        }
    }

    fn steps_over_area(&self, drawing: &mut Drawing, (x, y): (&Axis, &Axis), class: &str) {
        let ends = |s: &Spot| [(x.at(s.x), y.at(s.y)), (x.at(s.to), y.at(s.y))];
        let steps: Vec<(f64, f64)> = self.spots.iter().flat_map(ends).collect();
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return };
        let mut area = steps.clone();
        area.extend([(last.0, y.from), (first.0, y.from)]);
        drawing.path(&area, true, &format!("area {class}"));
        drawing.path(&steps, false, class);
    }

    fn area(&self, drawing: &mut Drawing, frame: Frame, (x, y): (&Axis, &Axis), class: &str) {
        let mut edge: Vec<(f64, f64)> = self.spots.iter().map(|s| (x.at(s.x), y.at(s.high))).collect();
        edge.extend(self.spots.iter().rev().map(|s| (x.at(s.x), y.at(s.low))));
        let look = if self.look == Look::Stack { "band" } else { "area" };
        drawing.path(&edge, true, &format!("{look} {class}"));
        if let (Look::Stack, Some(last)) = (self.look, self.spots.last()) {
            let at = (frame.right + 8.0, y.at((last.low + last.high) / 2.0) + 4.0);
            drawing.text(at, "start", "strong", &self.name);
        }
    }

    fn draw_bars(&self, drawing: &mut Drawing, (x, y): (&Axis, &Axis), class: &str) {
        for (n, s) in self.spots.iter().enumerate() {
            let (left, top) = (x.at(s.x), y.at(s.y));
            let width = (x.at(s.to) - left - 1.0).max(2.0);
            let tip = self.tips.get(n).map_or("", String::as_str);
            drawing.rect((left + 0.5, top), width, y.from - top, class, tip);
        }
    }

    /// The height above each bar, where there are few and there is room.
    pub(super) fn heights(&self, drawing: &mut Drawing, (x, y): (&Axis, &Axis), scale: &Scale) {
        if self.look != Look::Bars || self.spots.len() > 8 {
            return;
        }
        for s in self.spots.iter().filter(|s| x.at(s.to) - x.at(s.x) > 17.0) {
            let middle = (x.at(s.x) + x.at(s.to)) / 2.0;
            drawing.text((middle, y.at(s.y) - 4.0), "middle", "strong", &(scale.words)(s.y));
        }
    }
}

/// At most [`MAX_POINTS`] points: the lowest and the highest of each part, in their order.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let each = (points.len() * 2).div_ceil(MAX_POINTS);
    let mut some = Vec::with_capacity(MAX_POINTS);
    for part in points.chunks(each) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (part.iter().min_by(by_height), part.iter().max_by(by_height)) else {
            continue;
        };
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        some.push(*first);
        if first != second {
            some.push(*second);
        }
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_look() -> Chart {
        let points = || (1..9).map(|n| (f64::from(n), f64::from(n * n)));
        let wide = || points().map(|(x, y)| (x, x + 1.0, y));
        Chart::new("all <looks>")
            .x(Scale::log("spacing, µs"))
            .panel(
                Panel::new(100.0, Scale::linear("rate"))
                    .right(Scale::linear("loss, %").to(100.0))
                    .series(Series::line("line", points()))
                    .series(Series::points("points", points()).tips(vec!["<tip>".into()]))
                    .series(Series::dots("dots", points()).right())
                    .series(Series::dotted("dotted", points()))
                    .level(5.0, "level"),
            )
            .panel(
                Panel::new(80.0, Scale::log("µs"))
                    .series(Series::steps("steps", wide()))
                    .series(Series::band("band", points().map(|(x, y)| (x, y / 2.0, y, y * 2.0))))
                    .series(Series::stack("stack", points().map(|(x, y)| (x, 0.0, y))))
                    .series(Series::bars("bars", wide())),
            )
            .mark(3.0, "killed")
            .tip(1.0, 2.0, "over & under")
    }

    #[test]
    fn every_look_is_drawn_inline_and_as_a_file() {
        let inline = every_look().inline(WIDTH);
        assert_eq!((inline.matches("<circle").count(), inline.matches("<svg").count()), (8 * 3 + 6, 1));
        assert_eq!(inline.matches("class=\"level\"").count(), 4, "a level and a mark, each with its name");
        assert!(inline.contains("&lt;tip&gt;") && inline.contains("over &amp; under"));
        assert!(!inline.contains("all <looks>") && !inline.contains("NaN"));
        let file = every_look().file();
        assert!(file.starts_with("<svg xmlns") && file.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn what_is_no_number_is_not_drawn() {
        let points = [(f64::NAN, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY), (2.0, 1e300)];
        let chart =
            Chart::new("odd").panel(Panel::new(90.0, Scale::linear("y")).series(Series::dots("", points)));
        let drawn = chart.inline(HALF);
        assert_eq!(drawn.matches("<circle").count(), 1);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
        let none = Chart::new("none").panel(Panel::new(90.0, Scale::log("y")).level(f64::NAN, "mean"));
        assert!(!none.inline(HALF).contains("<svg") && none.file().contains("<svg"));
    }

    #[test]
    fn what_stands_out_is_kept_where_points_are_left_out() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 0.0)).collect();
        points[77_777].1 = 5.0;
        points[33_333].1 = -5.0;
        let some = thin(&points);
        assert!(some.len() <= MAX_POINTS && some.is_sorted_by(|a, b| a.0 <= b.0));
        assert!(some.contains(&(77_777.0, 5.0)) && some.contains(&(33_333.0, -5.0)));
    }
}
