//! Experiments with order and delay.

use super::bench::Context;
use super::figure::{Figure, Lines, Look};
use super::limits::{SIZE, map, received, way};
use anyhow::{Context as _, Result};
use skyhaul_measure::probe::udp::UdpPoint;
use std::time::Duration;

/// Two links in turn, of which one takes longer: packets closer than the difference change their order.
pub(super) fn reordering(context: &mut Context<'_>) -> Result<Figure> {
    const LATER: f64 = 400.0;
    let packets = context.or(4000, 1000);
    let spacings =
        context.or(vec![50u64, 100, 150, 200, 300, 500, 600, 800, 1200], vec![100, 200, 800, 1200]);
    let point =
        |&us: &u64| UdpPoint { packets, ..UdpPoint::even(SIZE, us * 1_000_000, Duration::from_secs(20)) };
    let points: Vec<UdpPoint> = spacings.iter().map(point).collect();
    let reports = context.lab(context.path, |bench| bench.udp(&points))?;
    let columns = [
        ("reordered_percent", "reordered, %", 1),
        ("predicted", "predicted, %", 1),
        ("extent_packets", "extent, packets", 1),
        ("predicted_extent", "predicted", 0),
        ("lost_packets", "lost", 0),
    ];
    let mut figure = Figure::new("spacing", &columns, "spacing, us").log();
    let mut lines = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let mut lost = 0;
    for (report, &us) in reports.iter().zip(&spacings) {
        let us = us as f64;
        let (way, received) = (way(report)?, received(report)?);
        let (part, extent) = overtaken(us, LATER);
        let values = [
            way.reordered as f64 * 1e2 / way.arrived.max(1) as f64,
            part,
            received.extent.mean,
            extent,
            way.lost as f64,
        ];
        lines.iter_mut().zip(values).for_each(|(line, y)| line.push((us, y)));
        figure.row(format!("{us} us"), &values);
        lost += way.lost;
    }
    let [measured, theory, extents, lengths] = lines;
    let (first, last) =
        (measured.first().map_or(f64::NAN, |p| p.1), measured.last().map_or(f64::NAN, |p| p.1));
    figure.claim("reordered where packets are closest", (50.0, first), "%", 0.1);
    figure.claim("reordered where they are farthest", (0.0, last), "%", 2.0);
    figure.claim("packets lost", (0.0, lost as f64), "", 0.0);
    let (mut part, mut long) = (Lines::new("reordered, %"), Lines::new("extent (RFC 4737), packets"));
    part.add("measured", Look::Measured, measured);
    part.add("theory", Look::Theory, theory);
    long.add("measured", Look::Measured, extents);
    long.add("theory", Look::Theory, lengths);
    figure.panels = vec![part, long];
    Ok(figure)
}

/// Per cent of packets that are behind a later one, and their extent (RFC 4737), where every second packet takes `later`
/// longer: those on the fast link overtake it that are sent within that time, an odd number of spacings behind.
fn overtaken(spacing: f64, later: f64) -> (f64, f64) {
    let faster = ((later / spacing + 1.0) / 2.0).floor();
    // Between the first of them and the late packet, all but one of the late ones before it arrive, too.
    if faster > 0.0 { (50.0, faster * 2.0 - 1.0) } else { (0.0, 0.0) }
}

/// A route that changes: the delay steps, and for a moment nothing arrives.
pub(super) fn steps(context: &mut Context<'_>) -> Result<Figure> {
    /// From when on, seconds, and milliseconds one way there.
    const STEPS: [(f64, f64, f64); 3] = [(0.0, 2.0, 5.0), (2.0, 4.0, 9.0), (4.0, 6.0, 7.0)];
    /// Time in which a packet is lost at each step, and from one packet to the next, in milliseconds.
    const BREAK: f64 = 40.0;
    const EVERY: f64 = 2.0;
    let point = UdpPoint::even(500, (EVERY * 1e9) as u64, Duration::from_secs_f64(5.6));
    let (reports, begun) = context.lab(context.path, |bench| Ok((bench.udp(&[point])?, bench.begun)))?;
    let report = reports.first().context("no point")?;
    let received = received(report)?;
    let at = |sent: i64| (i128::from(received.base_ns) + i128::from(sent) - i128::from(begun)) as f64 / 1e9;
    let samples = received.samples.iter();
    let all: Vec<(f64, f64)> =
        samples.map(|&(_, sent, under_way)| (at(sent), under_way as f64 / 1e6)).collect();
    let columns = [
        ("packets", "packets", 0),
        ("delay_ms", "median delay, ms", 3),
        ("delay_most_ms", "greatest", 3),
        ("predicted", "predicted, ms", 0),
    ];
    let mut figure = Figure::new("since the path began", &columns, "since the path began, s");
    let mut theory = Vec::new();
    for (from, to, ms) in STEPS {
        let of = all.iter().filter(|(at, _)| (from + 0.05..to - 0.05).contains(at));
        let mut of: Vec<f64> = of.map(|(_, delay)| *delay).collect();
        of.sort_by(f64::total_cmp);
        let median = of.get(of.len() / 2).copied().unwrap_or(f64::NAN);
        let most = of.last().copied().unwrap_or(f64::NAN);
        figure.row(format!("{from} to {to} s"), &[of.len() as f64, median, most, ms]);
        figure.claim(format!("delay from {from} s"), (ms, median), "ms", 0.06);
        theory.extend([(from, ms), (to, ms)]);
    }
    figure.claim("packets lost at each step", (BREAK / EVERY, received.runs.mean), "", 0.2);
    figure.claim("steps at which packets are lost", (2.0, received.runs.count as f64), "", 0.0);
    let mut lines = Lines::new("delay one way, ms");
    lines.add("packets", Look::Dots, all);
    lines.add("theory", Look::Theory, theory);
    figure.panels = vec![lines];
    figure.maps.push(map("Packets lost", report)?);
    Ok(figure)
}

/// A path as between virtual machines: it stalls periodically, and then delivers everything together.
pub(super) fn jitter(context: &mut Context<'_>) -> Result<Figure> {
    /// Microseconds in which nothing arrives, and from one such time to the next.
    const STALL: f64 = 3e3;
    const EVERY: f64 = 50e3;
    let time = Duration::from_secs_f64(context.or(4.0, 1.0));
    let spacings = context.or(vec![100u64, 200, 800], vec![200, 800]);
    let points: Vec<UdpPoint> =
        spacings.iter().map(|us| UdpPoint::even(SIZE, us * 1_000_000, time)).collect();
    let reports = context.lab(context.path, |bench| bench.udp(&points))?;
    let columns = [
        ("median_us", "median gap, us", 1),
        ("p99_us", "99 %", 1),
        ("most_us", "longest", 1),
        ("jitter_us", "jitter (RFC 3550), us", 1),
        ("stalls", "stalls", 0),
        ("predicted", "predicted", 0),
    ];
    let mut figure = Figure::new("spacing", &columns, "between arrivals, us").log();
    let mut lines = Lines::new("arrivals");
    lines.log = true;
    for (report, us) in reports.iter().zip(&spacings) {
        let received = received(report)?;
        let stamped = received.kernel.as_ref().unwrap_or(&received.user);
        let gaps = &stamped.gaps_ns;
        let micros = |ns: u64| ns as f64 / 1e3;
        // A bucket has the least value that it holds. What is much longer is not the path's, but this machine's.
        let stall = 0.8 * STALL..1.5 * STALL;
        let held =
            gaps.buckets.iter().filter(|gap| stall.contains(&micros(gap.0))).map(|gap| gap.1).sum::<u64>();
        let predicted = stamped.seconds * 1e6 / EVERY;
        let values = [
            micros(gaps.p50),
            micros(gaps.p99),
            micros(gaps.max),
            stamped.jitter_ns / 1e3,
            held as f64,
            predicted,
        ];
        figure.row(format!("{us} us"), &values);
        figure.claim(format!("median gap of {us} us"), (*us as f64, values[0]), "us", 0.1);
        figure.claim(format!("stalls at {us} us"), (predicted, held as f64), "", 0.15);
        let bars = gaps.buckets.iter().map(|&(ns, n)| (micros(ns).max(0.1), n as f64));
        lines.add(format!("sent each {us} us"), Look::Measured, bars);
    }
    lines.levels.push((time.as_secs_f64() * 1e6 / EVERY, "stalls".into()));
    figure.panels = vec![lines];
    Ok(figure)
}

/// As many losses in runs, and at random.
pub(super) fn loss_maps(context: &mut Context<'_>) -> Result<Figure> {
    /// Good to bad, and bad to good.
    const ENTERS: f64 = 0.002;
    const LEAVES: f64 = 0.1;
    const LOST: f64 = ENTERS / (ENTERS + LEAVES);
    let packets = context.or(20_000, 6000);
    let point = UdpPoint { packets, ..UdpPoint::even(SIZE, 200_000_000, Duration::from_secs(30)) };
    let columns = [
        ("lost_percent", "lost, %", 2),
        ("predicted", "predicted, %", 2),
        ("run_packets", "mean run, packets", 2),
        ("predicted_run", "predicted", 2),
        ("longest_run", "longest run", 0),
    ];
    let mut figure = Figure::new("losses", &columns, "length of a run, packets").log();
    let mut lines = Lines::new("runs of losses");
    lines.log = true;
    let random = format!("delay=1ms,loss={LOST:.6},seed=7");
    for (name, path, run) in
        [("in runs", context.path, 1.0 / LEAVES), ("at random", &random, 1.0 / (1.0 - LOST))]
    {
        let reports = context.lab(path, |bench| bench.udp(&[point]))?;
        let report = reports.first().context("no point")?;
        let (way, received) = (way(report)?, received(report)?);
        let lost = way.loss_fraction * 1e2;
        figure.row(name, &[lost, LOST * 1e2, received.runs.mean, run, received.runs.max as f64]);
        // A mean over as many bad spells as there are in so many packets.
        let spread = if run > 2.0 { context.or(0.5, 0.8) } else { context.or(0.2, 0.4) };
        figure.claim(format!("lost {name}"), (LOST * 1e2, lost), "%", spread);
        figure.claim(format!("mean run of losses {name}"), (run, received.runs.mean), "packets", spread);
        let router = context.labs.last().map_or(0, |lab| lab.lost.values().sum::<u64>());
        let what = format!("packets lost {name}, beside those that the router dropped");
        figure.claim(what, (router as f64, way.lost as f64), "", 0.05);
        lines.add(
            name,
            Look::Measured,
            received.runs.buckets.iter().map(|&(length, n)| (length as f64, n as f64)),
        );
        figure.maps.push(map(&format!("Packets lost {name}"), report)?);
    }
    figure.panels = vec![lines];
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals in their order, of packets of which every second one is later.
    fn arrivals(spacing: f64, later: f64) -> Vec<usize> {
        let mut at: Vec<(f64, usize)> =
            (0..1000).map(|n| (n as f64 * spacing + if n % 2 == 1 { later } else { 0.0 }, n)).collect();
        at.sort_by(|a, b| a.0.total_cmp(&b.0));
        at.into_iter().map(|(_, n)| n).collect()
    }

    #[test]
    fn what_is_predicted_of_two_links_is_what_comes_of_them() {
        for spacing in [50.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1200.0] {
            let order = arrivals(spacing, 400.0);
            // RFC 4737: behind a later one; how far behind the first that is later.
            let extent = |place: usize| {
                order[..place].iter().position(|&before| before > order[place]).map(|first| place - first)
            };
            let all: Vec<usize> = (0..order.len()).filter_map(extent).collect();
            let part = all.len() as f64 * 100.0 / order.len() as f64;
            let mean = all.iter().sum::<usize>() as f64 / all.len().max(1) as f64;
            let (predicted, length) = overtaken(spacing, 400.0);
            assert!(
                (part - predicted).abs() < 1.0 && (mean - length).abs() < 0.1,
                "{spacing}: {part} % by {mean}"
            );
        }
    }
}
