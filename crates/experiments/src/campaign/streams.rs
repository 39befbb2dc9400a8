//! Experiments with TCP over a path.

use super::bench::{Bench, Context};
use super::figure::{Figure, Lines, Look};
use super::limits::mbps;
use anyhow::{Context as _, Result};
use skyhaul::core::predict::window_rate;
use skyhaul_measure::probe::tcp::{TcpPoint, TcpPointReport};

/// What the path carries of a rate of 100 Mb/s, bits per second: less headers of Ethernet, IP and TCP.
const CARRIES: f64 = 100e6 * 1448.0 / 1514.0;

/// One flow with windows, each for a time; what is counted begins behind slow start.
fn windows(bench: &Bench<'_>, windows: &[u64], seconds: f64) -> Result<Vec<TcpPointReport>> {
    let point = |&window: &u64| TcpPoint {
        window: Some(window),
        seconds,
        omit: 0.5,
        block: 128 << 10,
        ..TcpPoint::default()
    };
    windows.iter().map(|window| bench.tcp(&point(window))).collect()
}

/// Rate at the receiver, round trip in seconds, and bytes of the window that the kernels granted.
fn figures(report: &TcpPointReport) -> Result<(f64, f64, f64)> {
    let flow = report.here.flows.first().context("no flow")?;
    let window = (flow.send_buffer as f64).min(flow.counts.peer_window_most as f64);
    Ok((report.there.bits_per_second, flow.counts.rtt_least, window))
}

/// One window, several round trips: the rate is window by round trip.
pub(super) fn window_limit(context: &mut Context<'_>) -> Result<Figure> {
    const WINDOW: u64 = 128 << 10;
    let delays = context.or(vec![5u64, 10, 20, 40, 80], vec![10, 40]);
    let seconds = context.or(3.0, 1.0);
    let columns = [
        ("rtt_ms", "round trip, ms", 2),
        ("window_kib", "window, KiB", 0),
        ("rate_mbps", "rate, Mb/s", 1),
        ("predicted", "predicted, Mb/s", 1),
    ];
    let mut figure = Figure::new("delay there and back", &columns, "round trip, ms").log();
    let (mut measured, mut theory) = (Vec::new(), Vec::new());
    for delay in delays {
        let path = format!("rate=400Mbps,delay={}us,seed=7", delay * 500);
        let reports = context.lab(&path, |bench| windows(bench, &[WINDOW], seconds))?;
        let (rate, rtt, window) = figures(reports.first().context("no point")?)?;
        let predicted = window_rate(window, rtt);
        measured.push((rtt * 1e3, mbps(rate)));
        theory.push((rtt * 1e3, mbps(predicted)));
        figure.row(format!("{delay} ms"), &[rtt * 1e3, window / 1024.0, mbps(rate), mbps(predicted)]);
        figure.claim(format!("rate at {delay} ms"), (mbps(predicted), mbps(rate)), "Mb/s", 0.35);
    }
    if let ([near, .., far], [first, .., last]) = (theory.as_slice(), measured.as_slice()) {
        let what = "how much faster the nearest is than the farthest";
        figure.claim(what, (near.1 / far.1, first.1 / last.1), "times", 0.15);
    }
    let mut lines = Lines::new("rate, Mb/s");
    lines.log = true;
    lines.add("one flow", Look::Measured, measured);
    lines.add("theory: window / round trip", Look::Theory, theory);
    figure.panels = vec![lines];
    Ok(figure)
}

/// One round trip, several buffers: the rate rises with the buffer until the path is full.
pub(super) fn buffer_scan(context: &mut Context<'_>) -> Result<Figure> {
    let sizes: Vec<u64> = context.or(vec![32, 64, 128, 256, 512, 1024, 2048], vec![64, 1024]);
    let bytes: Vec<u64> = sizes.iter().map(|kib| kib << 10).collect();
    let seconds = context.or(3.0, 1.5);
    let reports = context.lab(context.path, |bench| windows(bench, &bytes, seconds))?;
    let columns = [
        ("window_kib", "window, KiB", 0),
        ("rate_mbps", "rate, Mb/s", 1),
        ("predicted", "predicted, Mb/s", 1),
        ("retransmits", "sent again", 0),
    ];
    let mut figure = Figure::new("buffer", &columns, "buffer asked for, KiB").log();
    let (mut measured, mut theory, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for (report, &kib) in reports.iter().zip(&sizes) {
        let (rate, rtt, window) = figures(report)?;
        let predicted = window_rate(window, rtt).min(CARRIES);
        let retransmits = report.here.flows.first().map_or(0, |flow| flow.counts.retransmits);
        measured.push((kib as f64, mbps(rate)));
        theory.push((kib as f64, mbps(predicted)));
        again.push((kib as f64, f64::from(retransmits)));
        let values = [window / 1024.0, mbps(rate), mbps(predicted), f64::from(retransmits)];
        figure.row(format!("{kib} KiB"), &values);
    }
    for (n, what) in [(0, "rate with the smallest buffer"), (sizes.len() - 1, "rate with the largest buffer")]
    {
        figure.claim(what, (theory[n].1, measured[n].1), "Mb/s", 0.35);
    }
    let (mut rate, mut lost) = (Lines::new("rate, Mb/s"), Lines::new("segments sent again"));
    rate.add("one flow", Look::Measured, measured);
    rate.add("theory", Look::Theory, theory);
    lost.add("sent again", Look::Measured, again);
    figure.panels = vec![rate, lost];
    Ok(figure)
}

/// Four flows that begin one after another share a line.
pub(super) fn four_flows(context: &mut Context<'_>) -> Result<Figure> {
    const FLOWS: usize = 4;
    let stagger = context.or(3.0, 1.0);
    let seconds = context.or(18.0, 7.0);
    let point = TcpPoint { flows: FLOWS, stagger, seconds, block: 128 << 10, ..TcpPoint::default() };
    let report = context.lab(context.path, |bench| bench.tcp(&point))?;
    let columns = [
        ("from_s", "from, s", 1),
        ("mean_mbps", "mean, Mb/s", 1),
        ("with_all_mbps", "mean with all, Mb/s", 1),
        ("retransmits", "sent again", 0),
    ];
    let mut figure = Figure::new("flow", &columns, "since the first began, s");
    let mut lines = Lines::new("rate of each, Mb/s");
    let begins = stagger * (FLOWS - 1) as f64 + 1.0;
    let (mut together, mut squares) = (0.0, 0.0);
    for (n, (flow, sender)) in report.there.flows.iter().zip(&report.here.flows).enumerate() {
        let rate = |bytes: u64, seconds: f64| mbps(bytes as f64 * 8.0 / seconds.max(1e-9));
        let line = flow.intervals.iter().map(|i| ((i.begin + i.end) / 2.0, rate(i.bytes, i.end - i.begin)));
        lines.add(format!("flow {}", n + 1), Look::Measured, line);
        let all = flow.intervals.iter().filter(|i| i.begin >= begins && i.end <= seconds);
        let (bytes, time) = all.fold((0, 0.0), |(b, t), i| (b + i.bytes, t + i.end - i.begin));
        let mean = rate(bytes, time);
        (together, squares) = (together + mean, squares + mean * mean);
        let again = f64::from(sender.counts.retransmits);
        figure.row((n + 1).to_string(), &[stagger * n as f64, mbps(flow.bits_per_second), mean, again]);
    }
    let share = |n: usize| mbps(CARRIES) / (n + 1) as f64;
    let steps = (0..FLOWS).flat_map(|n| {
        let to = if n + 1 == FLOWS { seconds } else { stagger * (n + 1) as f64 };
        [(stagger * n as f64, share(n)), (to, share(n))]
    });
    lines.add("theory: equal shares", Look::Theory, steps);
    figure.claim("all together", (mbps(CARRIES), together), "Mb/s", 0.1);
    let fairness = if squares > 0.0 { together * together / (FLOWS as f64 * squares) } else { f64::NAN };
    figure.claim("fairness (Jain)", (1.0, fairness), "", 0.35);
    figure.panels = vec![lines];
    Ok(figure)
}
