//! Plots of a sweep: over the spacing that was asked for, a line for each size.

use super::parts::{One, Plot, jitter, one_way};
use crate::report::chart::Series;
use crate::report::chart::{Chart, Panel};
use crate::report::drawing::Scale;

/// Height of a panel.
const HIGH: f64 = 240.0;

pub(super) fn plots(all: &[One<'_>]) -> Vec<Plot> {
    let mut plots = vec![
        over(
            "rate.svg",
            "Received rate",
            "Payload, by the receiver's stamps.",
            "received, Mb/s",
            all,
            &|one| Some(one.way.user_bits_per_second / 1e6),
        ),
        over("loss.svg", "Loss", "Of the packets that were to be sent.", "lost, %", all, &|one| {
            Some(one.way.loss_fraction * 100.0)
        }),
        over(
            "gap.svg",
            "Achieved spacing",
            "Mean time between packets at the sender.",
            "achieved, µs",
            all,
            &|one| one.sender.sent.first().map(|sent| sent.gaps_ns.mean / 1e3),
        ),
        over(
            "jitter.svg",
            "Jitter",
            "RFC 3550, by the kernel's stamps where there are any.",
            "jitter, µs",
            all,
            &jitter,
        ),
        over(
            "cpu.svg",
            "CPU time",
            "Of the sending and the receiving thread, for each GB received.",
            "CPU, s/GB",
            all,
            &|one| {
                let bytes: u64 = one.receiver.received.iter().map(|r| r.bytes).sum();
                let sending: f64 = one.sender.sent.iter().map(|s| s.cpu_seconds).sum();
                let receiving: f64 = one.receiver.received.iter().map(|r| r.cpu_seconds).sum();
                (bytes > 0).then(|| (sending + receiving) / bytes as f64 * 1e9)
            },
        ),
    ];
    if all.iter().any(|one| one.way.delay_ns.is_some()) {
        plots.push(delay(all));
    }
    plots
}

fn spacing(one: &One<'_>) -> f64 {
    one.report.point.spacing_ps as f64 / 1e6
}

/// Spacings are drawn as they are if they are near each other or one is 0.
fn along(all: &[One<'_>]) -> Scale {
    let (least, most) =
        all.iter().map(spacing).fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    let title = "spacing that was asked for, µs";
    if least > 0.0 && most > 30.0 * least { Scale::log(title) } else { Scale::linear(title) }
}

/// The kinds of points: a size, and a way.
fn kinds(all: &[One<'_>]) -> Vec<(u32, bool)> {
    let mut kinds: Vec<(u32, bool)> = all.iter().map(|one| (one.report.point.size, one.reverse)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn name((size, reverse): (u32, bool), both: bool) -> String {
    let way = if reverse { " from the server" } else { " to the server" };
    format!("{size} bytes{}", if both { way } else { "" })
}

fn over(
    file: &'static str,
    title: &'static str,
    caption: &'static str,
    axis: &'static str,
    all: &[One<'_>],
    value: &dyn Fn(&One<'_>) -> Option<f64>,
) -> Plot {
    let line = |kind: (u32, bool)| {
        let of_it = all.iter().filter(|one| (one.report.point.size, one.reverse) == kind);
        Series::points(name(kind, !one_way(all)), of_it.filter_map(|one| Some((spacing(one), value(one)?))))
    };
    let panel = Panel::new(HIGH, Scale::linear(axis).at_least(1e-3)).all(kinds(all).into_iter().map(line));
    Plot::new(file, title, caption, Chart::new(title).x(along(all)).panel(panel))
}

/// Median, with the range from the least to 99 %; the error of the clocks stands in the tips.
fn delay(all: &[One<'_>]) -> Plot {
    let line = |kind: (u32, bool)| {
        let of_it = || {
            let of_it = all.iter().filter(move |one| (one.report.point.size, one.reverse) == kind);
            of_it.filter_map(|one| Some((one, one.way.delay_ns?)))
        };
        let bands = of_it().map(|(one, d)| (spacing(one), d.least / 1e3, d.median / 1e3, d.p99 / 1e3));
        let tips = of_it().map(|(_, d)| format!("median {:.1} µs ± {:.1}", d.median / 1e3, d.error / 1e3));
        Series::band(name(kind, !one_way(all)), bands).tips(tips.collect())
    };
    let error = all.iter().filter_map(|one| one.way.delay_ns).map(|d| d.error / 1e3).fold(0.0, f64::max);
    let panel =
        Panel::new(HIGH, Scale::linear(format!("one-way delay, µs (each ± {error:.1} by the clocks)")))
            .all(kinds(all).into_iter().map(line));
    let chart = Chart::new("One-way delay").x(along(all)).panel(panel);
    Plot::new(
        "delay.svg",
        "One-way delay",
        "Median, within the range from the least to 99 %; the clocks were compared before, during and after.",
        chart,
    )
}
