//! Plots of the sweep: what arrived whole, what was lost, and CPU time, by the rate; a line for each other combination.

use crate::html::svg::{Axis, COLOURS, Drawing, short};
use skyhaul::bench::events::{EventBenchReport, Point, Setting};
use skyhaul::io::quantity::Size;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 36.0;
const FLOOR: f64 = HEIGHT - 126.0;
/// Names in a row of the legend.
const IN_A_ROW: usize = 3;

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
    all.truncate(COLOURS.len());
    let sent = |p: &Point| p.sent.median / 1e9;
    let most = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).fold(1e-3, f64::max) * 1.05;
    let x = Axis::linear(0.0, most(&sent), LEFT, RIGHT);
    let y = Axis::linear(0.0, most(value), FLOOR, TOP);
    let mut drawing = Drawing::new(WIDTH, HEIGHT, title);
    drawing.y_axis(&y, (LEFT, RIGHT), title, &short);
    drawing.x_axis(&x, FLOOR, "sent, Gb/s", &short);
    for (n, setting) in all.iter().enumerate() {
        let class = format!("s{n}");
        let line: Vec<_> = points
            .iter()
            .filter(|p| series(p) == *setting)
            .map(|p| (x.at(sent(p)), y.at(value(p))))
            .collect();
        drawing.path(&line, false, &class);
        line.iter().for_each(|&at| drawing.dot(at, &class));
        let left = LEFT + (n % IN_A_ROW) as f64 * (RIGHT - LEFT) / IN_A_ROW as f64;
        let at = FLOOR + 62.0 + (n / IN_A_ROW) as f64 * 20.0;
        let Setting { mtu, event_bytes, senders, workers, .. } = *setting;
        drawing.dot((left + 4.0, at - 4.0), &class);
        let name = format!("MTU {mtu}, {}, {senders} to {workers}", Size::from_bytes(event_bytes));
        drawing.text((left + 13.0, at), "start", "", &name);
    }
    drawing.into_file(WIDTH, HEIGHT)
}
