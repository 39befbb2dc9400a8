//! Values of one kind in a chart: how they look, and drawing them.

use super::axis::{Axis, Scale};
use super::drawing::COLOURS;
use super::drawing::{Drawing, Frame};

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
