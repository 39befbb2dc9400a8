//! The memo's figures, as self-contained SVG files.

use crate::report::axis::Scale;
use crate::report::chart::{Chart, Panel};
use crate::report::series::Series;
use crate::report::words::short;
use skyhaul_measure::bench::Spread;
use skyhaul_measure::bench::heaps::{MemoReport, Point};

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
    let most = points.iter().map(|p| gbps(p.rate as f64)).fold(0.0, f64::max);
    let series = |name: &str, unit: f64, value: &dyn Fn(&Point) -> Spread| {
        let at = |p: &Point| (gbps(p.rate as f64), value(p));
        let band = |(x, s): (f64, Spread)| (x, s.min * unit, s.median * unit, s.max * unit);
        Series::band(name, points.iter().map(at).map(band).collect::<Vec<_>>())
    };
    let panel = Panel::new(298.0, Scale::linear("all pairs together, Gb/s"))
        .right(Scale::linear("heaps lost, %").to(100.0))
        .series(series("UDP sent", 1e-9, &|p| p.figures.sent))
        .series(series("UDP effective", 1e-9, &|p| p.figures.effective).colour(4))
        .series(series("UDP heaps lost", 100.0, &|p| p.figures.lost).right().colour(5))
        .series(
            Series::dotted(format!("{count} × the rate"), [(0.0, 0.0), (most, most * count as f64)])
                .colour(2),
        );
    let panel = match &report.pairs_tcp {
        Some(tcp) => panel.level(gbps(tcp.figures.sent.median), "TCP"),
        None => panel,
    };
    Chart::new("Aggregate speed and loss by the rate of each sender")
        .x(Scale::linear("requested rate of each sender, Gb/s"))
        .panel(panel)
        .file()
}

/// Figure 4: speed by number of senders, one colour for each rate.
fn scaling(points: &[Point]) -> String {
    let counts = points.iter().map(|p| p.pairs).max().unwrap_or(1) as f64;
    let mut panel = Panel::new(298.0, Scale::linear("all senders together, Gb/s"));
    for (colour, &rate) in rates(points).iter().enumerate() {
        let rate_each = gbps(rate as f64);
        let of_it = points.iter().filter(|p| p.rate == rate);
        let dots = of_it.map(|p| (p.pairs as f64, gbps(p.figures.sent.median)));
        panel = panel
            .series(Series::dotted("", [(0.0, 0.0), (counts, rate_each * counts)]).colour(colour))
            .series(Series::dots(format!("{} Gb/s", short(rate_each)), dots).colour(colour));
    }
    Chart::new("Aggregate speed by number of senders")
        .x(Scale::linear("senders").to(counts + 0.3))
        .panel(panel)
        .file()
}

/// Figure 5: shortfall from the target, by the target.
fn scaling_loss(points: &[Point]) -> String {
    let target = |p: &Point| gbps(p.rate as f64) * p.pairs as f64;
    let panel = Panel::new(298.0, Scale::linear("shortfall from the target, %").at_least(5.0).from(0.0));
    let dots = |&rate: &u64| {
        let of_it = points.iter().filter(move |p| p.rate == rate);
        let dots = of_it.map(|p| (target(p), p.scaling_loss() * 100.0));
        Series::dots(format!("{} Gb/s each", short(gbps(rate as f64))), dots)
    };
    Chart::new("Scaling loss by target speed")
        .x(Scale::linear("target of all senders together, Gb/s"))
        .panel(panel.all(rates(points).iter().map(dots)))
        .file()
}

fn rates(points: &[Point]) -> Vec<u64> {
    let mut rates: Vec<u64> = points.iter().map(|p| p.rate).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_measure::bench::heaps::Figures;

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
