//! Plots of the sweep: what arrived whole, what was lost, and CPU time, by the rate; a line for each other combination.

use crate::report::axis::Scale;
use crate::report::chart::{Chart, Panel};
use crate::report::series::Series;
use skyhaul::io::quantity::Size;
use skyhaul_measure::bench::events::{EventBenchReport, Point, Setting};

/// Combinations that are drawn.
const MOST: usize = 8;

/// Files' names and their SVG; none without points.
pub(super) fn all(report: &EventBenchReport) -> Vec<(String, String)> {
    if report.points.is_empty() {
        return Vec::new();
    }
    let whole = |p: &Point| p.whole.median / 1e9;
    let lost = |p: &Point| p.events_lost as f64 / p.events.max(1) as f64 * 100.0;
    let cpu = |p: &Point| p.balance_cpu.median;
    vec![
        ("whole.svg".to_owned(), by_rate(&report.points, "events that arrived whole, Gb/s", &whole)),
        ("lost.svg".to_owned(), by_rate(&report.points, "events lost, %", &lost)),
        ("balance-cpu.svg".to_owned(), by_rate(&report.points, "CPU of the balancer, s/GB", &cpu)),
    ]
}

/// All but the rate.
fn series(point: &Point) -> Setting {
    Setting { rate: 0, ..point.setting }
}

fn by_rate(points: &[Point], title: &str, value: &dyn Fn(&Point) -> f64) -> String {
    let mut all: Vec<Setting> = points.iter().map(series).collect();
    all.dedup();
    all.truncate(MOST);
    let line = |setting: &Setting| {
        let Setting { mtu, event_bytes, senders, workers, .. } = *setting;
        let name = format!("MTU {mtu}, {}, {senders} to {workers}", Size::from_bytes(event_bytes));
        let of_it = points.iter().filter(|p| series(p) == *setting);
        Series::points(name, of_it.map(|p| (p.sent.median / 1e9, value(p))))
    };
    Chart::new(title)
        .x(Scale::linear("sent, Gb/s"))
        .panel(Panel::new(310.0, Scale::linear(title).at_least(1e-3)).all(all.iter().map(line)))
        .file()
}
