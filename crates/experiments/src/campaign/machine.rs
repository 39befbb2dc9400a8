//! Experiments with this machine itself: its CPUs, its disk.

use super::bench::{Context, NotHere};
use super::figure::{Figure, Lines, Look};
use anyhow::{Result, bail, ensure};
use skyhaul_measure::disk::{DiskOperation, DiskReport, MeasureOptions, measure};
use skyhaul_measure::probe::tcp::TcpPoint;
use std::thread::available_parallelism;

/// Sender and receiver on one CPU, and on two.
pub(super) fn cores(context: &mut Context<'_>) -> Result<Figure> {
    let count = available_parallelism()?.get();
    if count < 2 {
        bail!(NotHere("needs two CPUs: this machine has one".to_owned()));
    }
    let most = context.or(4, 2).min(count);
    let pairs: Vec<(usize, usize)> =
        (0..most).flat_map(|here| (0..most).map(move |there| (here, there))).collect();
    let seconds = context.or(1.0, 0.4);
    let point = |(here, there): (usize, usize)| TcpPoint {
        seconds,
        omit: 0.2,
        cpus_here: vec![here],
        cpus_there: vec![there],
        ..TcpPoint::default()
    };
    let reports = context
        .loopback(|bench| pairs.iter().map(|&pair| bench.tcp(&point(pair))).collect::<Result<Vec<_>>>())?;
    let columns = [
        ("rate_gbps", "rate, Gb/s", 2),
        ("sender_cpu", "sender, CPU s/GB", 3),
        ("receiver_cpu", "receiver, CPU s/GB", 3),
        ("predicted", "predicted, Gb/s", 2),
    ];
    let mut figure = Figure::new("sender : receiver", &columns, "CPU of the receiver");
    let mut lines = Lines::new("rate, Gb/s");
    let (mut same, mut other) = ((0.0, f64::NAN), (0.0, f64::NAN));
    for here in 0..most {
        let of = pairs.iter().zip(&reports).filter(|((from, _), _)| *from == here);
        let line = of.map(|((_, to), report)| (*to as f64, report.there.bits_per_second / 1e9));
        lines.add(format!("sender on CPU {here}"), Look::Measured, line);
    }
    for ((here, there), report) in pairs.iter().zip(&reports) {
        let rate = report.there.bits_per_second / 1e9;
        let (sender, receiver) = (report.here.cpu_seconds_per_gb, report.there.cpu_seconds_per_gb);
        let predicted = carried((sender, receiver), here == there);
        let best = if here == there { &mut same } else { &mut other };
        if rate > best.0 {
            *best = (rate, predicted);
        }
        figure.row(format!("{here} : {there}"), &[rate, sender, receiver, predicted]);
    }
    for (what, (rate, predicted)) in [("one CPU for both", same), ("a CPU each", other)] {
        figure.claim(format!("the best pair, {what}"), (predicted, rate), "Gb/s", 0.35);
    }
    figure.panels = vec![lines];
    Ok(figure)
}

/// Gb/s that CPUs can carry by the CPU seconds per GB of both ends: one that does all, or the busier of two.
fn carried((sender, receiver): (f64, f64), same: bool) -> f64 {
    8.0 / if same { sender + receiver } else { sender.max(receiver) }
}

/// The time of a file is a constant and its size by a rate: a line.
pub(super) fn file_sizes(context: &mut Context<'_>) -> Result<Figure> {
    let sizes: Vec<u64> = context.or(vec![4, 8, 16, 32, 64, 128, 256, 512], vec![4, 16, 64]);
    let options = MeasureOptions {
        sizes: sizes.into_iter().map(|mib| mib << 20).collect(),
        rounds: context.or(3, 1),
        operations: vec![DiskOperation::Write, DiskOperation::Read],
        stop: context.options.interrupt.clone().into(),
        ..MeasureOptions::new([context.options.directory])
    };
    let report = measure(&options, &mut |line| (context.options.say)(line))?;
    ensure!(!report.interrupted, "interrupted");
    let columns =
        [("seconds", "seconds", 4), ("rate_mbyte", "MB/s", 0), ("predicted", "by the line, MB/s", 0)];
    let mut figure = Figure::new("file", &columns, "size of a file, MiB").log();
    let mut rates = Lines::new("rate, MB/s");
    for (operation, name) in [(DiskOperation::Write, "write"), (DiskOperation::Read, "read")] {
        of_operation(&report, operation, name, &mut figure, &mut rates)?;
    }
    figure.panels = vec![rates];
    Ok(figure)
}

/// What one operation took, and the line through it.
fn of_operation(
    report: &DiskReport,
    operation: DiskOperation,
    name: &str,
    figure: &mut Figure,
    rates: &mut Lines,
) -> Result<()> {
    let of = || report.points.iter().filter(|point| point.operation == operation && point.bytes > 0);
    let points: Vec<(f64, f64)> = of().map(|point| (point.bytes as f64, point.seconds)).collect();
    let largest = points.iter().map(|point| point.0).fold(0.0, f64::max);
    // The line of the smaller files must tell the time of the largest.
    let smaller: Vec<(f64, f64)> = points.iter().copied().filter(|point| point.0 < largest).collect();
    ensure!(!smaller.is_empty(), "{name}: nothing was measured in {}", report.disks[0].display());
    let (begin, each) = line(&smaller);
    let mib = |bytes: f64| bytes / 1_048_576.0;
    let by_line = |bytes: f64| bytes / (begin + bytes * each).max(1e-9) / 1e6;
    let mut seen: Vec<f64> = Vec::new();
    for &(bytes, seconds) in &points {
        let round = 1 + seen.iter().filter(|&&before| before == bytes).count();
        seen.push(bytes);
        let row = format!("{name} {:.0} MiB, {round}", mib(bytes));
        figure.row(row, &[seconds, bytes / seconds / 1e6, by_line(bytes)]);
    }
    rates.add(name, Look::Dots, points.iter().map(|&(bytes, s)| (mib(bytes), bytes / s / 1e6)));
    let mut theory: Vec<(f64, f64)> = points.iter().map(|&(bytes, _)| (mib(bytes), by_line(bytes))).collect();
    theory.sort_by(|a, b| a.0.total_cmp(&b.0));
    rates.add(format!("{name}: {:.1} ms and {:.0} MB/s", begin * 1e3, 1e-6 / each), Look::Theory, theory);
    let mut times: Vec<f64> = points.iter().filter(|point| point.0 == largest).map(|point| point.1).collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
    let what = format!("{name}: time of the largest file, by the line of the others");
    figure.claim(what, (begin + largest * each, median), "s", 0.3);
    Ok(())
}

/// Constant and slope of the straight line with the least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let slope = if spread > 0.0 { both / spread } else { 0.0 };
    (y - slope * x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_does_the_work_of_both() {
        assert!((carried((0.1, 0.3), true) - 20.0).abs() < 1e-9);
        assert!((carried((0.1, 0.2), false) - 40.0).abs() < 1e-9);
        assert!(!carried((0.0, 0.0), true).is_finite(), "nothing was measured");
    }

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<(f64, f64)> = (1..9).map(|n| (f64::from(n), 0.5 + 0.25 * f64::from(n))).collect();
        let (begin, each) = line(&points);
        assert!((begin - 0.5).abs() < 1e-9 && (each - 0.25).abs() < 1e-9);
    }
}
