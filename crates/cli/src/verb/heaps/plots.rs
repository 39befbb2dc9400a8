//! The memo's figures, as self-contained SVG files.

use crate::html::svg::{Axis, COLOURS, Drawing, short};
use skyhaul::bench::heaps::{MemoReport, Point};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 64.0;
const TOP: f64 = 46.0;
const FLOOR: f64 = HEIGHT - 86.0;

/// A file's name and its SVG.
pub(super) type Plot = (&'static str, String);

/// Plots of the figures in the report.
pub(super) fn all(report: &MemoReport) -> Vec<Plot> {
    let mut plots = Vec::new();
    if !report.pairs.is_empty() {
        plots.push(("pairs.svg", pairs(report)));
    }
    if !report.scaling.is_empty() {
        plots.push(("scaling.svg", scaling(&report.scaling)));
        plots.push(("scaling-loss.svg", scaling_loss(&report.scaling)));
    }
    plots
}

fn gbps(bits: f64) -> f64 {
    bits / 1e9
}

/// Figures 2, 3 and 6: aggregate and effective speed, loss, the ideal line, and TCP.
fn pairs(report: &MemoReport) -> String {
    let points = &report.pairs;
    let count = points[0].pairs;
    let mut drawing = Drawing::new(WIDTH, HEIGHT, "Aggregate speed and loss by the rate of each sender");
    let most_rate = points.iter().map(|p| gbps(p.rate as f64)).fold(0.0, f64::max);
    let tcp = report.pairs_tcp.as_ref().map(|p| gbps(p.figures.sent.median));
    let ideal = most_rate * count as f64;
    let most =
        points.iter().map(|p| gbps(p.figures.sent.median)).fold(tcp.unwrap_or(0.0), f64::max).max(ideal);
    let x = Axis::linear(0.0, most_rate * 1.05, LEFT, RIGHT);
    let y = Axis::linear(0.0, most * 1.05, FLOOR, TOP);
    let loss = Axis::linear(0.0, 100.0, FLOOR, TOP);
    drawing.y_axis(&y, (LEFT, RIGHT), "all pairs together, Gb/s", &short);
    drawing.x_axis(&x, FLOOR, "requested rate of each sender, Gb/s", &short);
    for tick in loss.ticks(5) {
        drawing.text((RIGHT + 7.0, loss.at(tick) + 4.0), "start", "", &short(tick));
    }
    drawing.text((RIGHT + 50.0, TOP - 9.0), "end", "title", "heaps lost, %");
    drawing.path(&[(x.at(0.0), y.at(0.0)), (x.at(most_rate), y.at(ideal))], false, "dotted s2");
    if let Some(tcp) = tcp {
        drawing.line((LEFT, y.at(tcp)), (RIGHT, y.at(tcp)), "s3");
    }
    let series = |value: &dyn Fn(&Point) -> (f64, f64)| points.iter().map(value).collect::<Vec<_>>();
    let at = |p: &Point| x.at(gbps(p.rate as f64));
    let sent = series(&|p| (at(p), y.at(gbps(p.figures.sent.median))));
    let effective = series(&|p| (at(p), y.at(gbps(p.figures.effective.median))));
    let lost = series(&|p| (at(p), loss.at(p.figures.lost.median * 100.0)));
    for (class, line) in [("s4", &effective), ("s0", &sent), ("s1", &lost)] {
        drawing.path(line, false, class);
        line.iter().for_each(|&point| drawing.dot(point, class));
    }
    let mut names =
        vec![(0, "UDP sent".to_owned()), (4, "UDP effective".into()), (1, "UDP heaps lost".into())];
    names.push((2, format!("{count} × the rate")));
    if tcp.is_some() {
        names.push((3, "TCP".into()));
    }
    legend(&mut drawing, &names);
    drawing.into_file(WIDTH, HEIGHT)
}

/// Figure 4: speed by number of senders, one colour for each rate.
fn scaling(points: &[Point]) -> String {
    let mut drawing = Drawing::new(WIDTH, HEIGHT, "Aggregate speed by number of senders");
    let counts = points.iter().map(|p| p.pairs).max().unwrap_or(1) as f64;
    let rates = rates(points);
    let most = points
        .iter()
        .map(|p| gbps(p.figures.sent.median).max(gbps(p.rate as f64) * p.pairs as f64))
        .fold(0.0, f64::max);
    let x = Axis::linear(0.0, counts + 0.3, LEFT, RIGHT);
    let y = Axis::linear(0.0, most * 1.05, FLOOR, TOP);
    drawing.y_axis(&y, (LEFT, RIGHT), "all senders together, Gb/s", &short);
    drawing.x_axis(&x, FLOOR, "senders", &short);
    let mut names = Vec::new();
    for (number, &rate) in rates.iter().enumerate() {
        let colour = number % COLOURS.len();
        let class = format!("s{colour}");
        let end = (x.at(counts), y.at(gbps(rate as f64) * counts));
        drawing.path(&[(x.at(0.0), y.at(0.0)), end], false, &format!("dotted {class}"));
        for p in points.iter().filter(|p| p.rate == rate) {
            drawing.dot((x.at(p.pairs as f64), y.at(gbps(p.figures.sent.median))), &class);
        }
        names.push((colour, format!("{} Gb/s", short(gbps(rate as f64)))));
    }
    legend(&mut drawing, &names);
    drawing.into_file(WIDTH, HEIGHT)
}

/// Figure 5: shortfall from the target, by the target.
fn scaling_loss(points: &[Point]) -> String {
    let mut drawing = Drawing::new(WIDTH, HEIGHT, "Scaling loss by target speed");
    let rates = rates(points);
    let target = |p: &Point| gbps(p.rate as f64) * p.pairs as f64;
    let most = points.iter().map(target).fold(0.0, f64::max);
    let x = Axis::linear(0.0, most * 1.05, LEFT, RIGHT);
    let worst = points.iter().map(|p| p.scaling_loss() * 100.0).fold(5.0, f64::max);
    let y = Axis::linear(0.0, worst * 1.05, FLOOR, TOP);
    drawing.y_axis(&y, (LEFT, RIGHT), "shortfall from the target, %", &short);
    drawing.x_axis(&x, FLOOR, "target of all senders together, Gb/s", &short);
    let mut names = Vec::new();
    for (number, &rate) in rates.iter().enumerate() {
        let colour = number % COLOURS.len();
        for p in points.iter().filter(|p| p.rate == rate) {
            drawing.dot((x.at(target(p)), y.at(p.scaling_loss() * 100.0)), &format!("s{colour}"));
        }
        names.push((colour, format!("{} Gb/s each", short(gbps(rate as f64)))));
    }
    legend(&mut drawing, &names);
    drawing.into_file(WIDTH, HEIGHT)
}

fn rates(points: &[Point]) -> Vec<u64> {
    let mut rates: Vec<u64> = points.iter().map(|p| p.rate).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

/// Names of the series below the drawing.
fn legend(drawing: &mut Drawing, names: &[(usize, String)]) {
    let step = (RIGHT - LEFT) / names.len().max(1) as f64;
    for (number, (colour, name)) in names.iter().enumerate() {
        let left = LEFT + number as f64 * step;
        drawing.dot((left + 4.0, HEIGHT - 18.0), &format!("s{colour}"));
        drawing.text((left + 13.0, HEIGHT - 14.0), "start", "", name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::bench::Spread;
    use skyhaul::bench::heaps::Figures;

    #[test]
    fn every_figure_is_a_whole_drawing() {
        let point = |pairs: usize, rate: u64, sent: f64| Point {
            pairs,
            rate,
            figures: Figures {
                sent: Spread::of([sent]),
                effective: Spread::of([sent / 2.0]),
                ..Figures::default()
            },
        };
        let report = MemoReport {
            pairs: vec![point(2, 1_000_000_000, 2e9), point(2, 4_000_000_000, f64::NAN)],
            pairs_tcp: Some(point(2, 0, 3e9)),
            scaling: vec![point(1, 1_000_000_000, 1e9), point(2, 1_000_000_000, 1.5e9)],
            ..MemoReport::default()
        };
        let plots = all(&report);
        assert_eq!(plots.len(), 3);
        for (name, svg) in plots {
            assert!(svg.starts_with("<svg xmlns") && svg.trim_end().ends_with("</svg>"), "{name}");
            assert!(!svg.contains("NaN") && svg.matches("<circle").count() >= 2, "{name}");
        }
        assert!(all(&MemoReport::default()).is_empty());
    }
}
