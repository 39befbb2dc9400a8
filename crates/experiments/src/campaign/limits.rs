//! Experiments with what drops: a policer, a switch, a firewall.

use super::bench::{Bench, Context};
use super::figure::{Figure, Lines, Look, Map};
use anyhow::{Context as _, Result};
use skyhaul::core::predict::Policer;
use skyhaul_measure::probe::udp::{
    ReceivedReport, SentReport, UdpDirectionReport, UdpPoint, UdpPointReport, bottleneck, spacing,
};
use std::time::Duration;

/// Octets of Ethernet, IP and UDP that the lab counts with a payload.
const HEADERS: f64 = 42.0;
/// The usual datagram.
pub(super) const SIZE: u32 = 1472;
/// Packets that pass a limit of packets per second as one burst.
const BURST: f64 = 64.0;

pub(super) fn way(report: &UdpPointReport) -> Result<&UdpDirectionReport> {
    report.forward.as_ref().context("nothing was sent")
}

pub(super) fn received(report: &UdpPointReport) -> Result<&ReceivedReport> {
    report.server.received.first().context("nothing was received")
}

fn sent(report: &UdpPointReport) -> Result<&SentReport> {
    report.client.sent.first().context("nothing was sent")
}

pub(super) fn mbps(bits_per_second: f64) -> f64 {
    bits_per_second / 1e6
}

/// Where packets were lost.
pub(super) fn map(title: &str, report: &UdpPointReport) -> Result<Map> {
    let received = received(report)?;
    Ok(Map { title: title.to_owned(), packets: way(report)?.sent, lost: received.losses.clone() })
}

/// A policer: a rate and a bucket, which drop what is above.
pub(super) fn policing(context: &mut Context<'_>) -> Result<Figure> {
    const POLICER: Policer = Policer { rate: 50e6, burst: 65_536.0 };
    let time = Duration::from_secs_f64(context.or(1.0, 0.4));
    let rates: Vec<u64> = context.or(vec![20, 30, 40, 50, 60, 70, 80, 90], vec![20, 70, 80, 90]);
    let points: Vec<UdpPoint> =
        rates.iter().map(|&rate| UdpPoint::even(SIZE, spacing(SIZE, rate * 1_000_000), time)).collect();
    let reports = context.lab(context.path, |bench| bench.udp(&points))?;
    let framed = (f64::from(SIZE) + HEADERS) / f64::from(SIZE);
    let columns = [
        ("sent_mbps", "sent, Mb/s", 1),
        ("received_mbps", "received, Mb/s", 1),
        ("lost_percent", "lost, %", 2),
        ("predicted", "predicted, %", 2),
    ];
    let mut figure = Figure::new("asked for", &columns, "sent, Mb/s of payload");
    let (mut rate, mut loss) = (Lines::new("received, Mb/s"), Lines::new("lost, %"));
    let mut lines = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for (report, asked) in reports.iter().zip(&rates) {
        let (way, seconds) = (way(report)?, sent(report)?.seconds);
        let offered = way.sent as f64 * f64::from(SIZE) * 8.0 / seconds.max(1e-9);
        let predicted = POLICER.loss(offered * framed, seconds);
        let values = [
            mbps(offered),
            mbps(offered) * (1.0 - way.loss_fraction),
            way.loss_fraction * 1e2,
            predicted * 1e2,
        ];
        figure.row(format!("{asked} Mb/s"), &values);
        let more = [values[1], mbps(offered) * (1.0 - predicted), values[2], values[3]];
        lines.iter_mut().zip(more).for_each(|(line, y)| line.push((values[0], y)));
    }
    let ends =
        |n: usize| (lines[n].first().map_or(f64::NAN, |p| p.1), lines[n].last().map_or(f64::NAN, |p| p.1));
    figure.claim("lost at the lowest rate", (0.0, ends(2).0), "%", 0.5);
    figure.claim("lost at the highest rate", (ends(3).1, ends(2).1), "%", 0.08);
    let last = reports.last().context("no point")?;
    let (r, b) = found(&reports)?;
    figure.claim("the policer's rate, found from the losses", (mbps(POLICER.rate), mbps(r)), "Mb/s", 0.02);
    figure.claim(
        "the policer's bucket, found from the losses",
        (POLICER.burst / 1024.0, b / 1024.0),
        "KiB",
        0.1,
    );
    let all: u64 = reports.iter().flat_map(|report| &report.forward).map(|way| way.lost).sum();
    figure.claim(
        "packets lost, beside those that the router dropped",
        (context.lost("policed") as f64, all as f64),
        "",
        0.01,
    );
    let [got, more, lost, theory] = lines;
    rate.add("received", Look::Measured, got);
    rate.add("theory", Look::Theory, more);
    rate.levels.push((mbps(POLICER.rate / framed), "the policer's rate".into()));
    loss.add("lost", Look::Measured, lost);
    loss.add("theory", Look::Theory, theory);
    figure.panels = vec![rate, loss];
    figure.maps.push(map("Packets lost at the highest rate", last)?);
    Ok(figure)
}

/// Rate and bucket of a policer by the losses of all points that had any: the median rate, and the largest bucket, because one
/// that fills while the sender is held up is found too small, and never too large.
fn found(reports: &[UdpPointReport]) -> Result<(f64, f64)> {
    let mut all = Vec::with_capacity(reports.len());
    for report in reports {
        all.extend(bottleneck(&report.point, false, sent(report)?, received(report)?));
    }
    all.sort_by(|a, b| a.bits_per_second.total_cmp(&b.bits_per_second));
    let rate = all.get(all.len() / 2).map_or(f64::NAN, |one| one.bits_per_second);
    Ok((rate, all.iter().map(|one| one.bytes).fold(f64::NAN, f64::max)))
}

/// What came of packets that were sent at a rate.
struct Passed {
    size: u32,
    /// Packets per second that were asked for.
    asked: u32,
    /// Sent and received per second.
    sent: f64,
    received: f64,
    lost: f64,
    seconds: f64,
}

impl Passed {
    /// What a limit lets through of it, per second: its bucket besides.
    fn predicted(&self, limit: f64) -> f64 {
        self.sent.min(limit + BURST / self.seconds)
    }

    fn mbps(&self, rate: f64) -> f64 {
        mbps(rate * f64::from(self.size) * 8.0)
    }
}

/// Sizes, and of each the packets per second that are offered.
fn packets(bench: &Bench<'_>, sizes: &[u32], offered: &[u32], seconds: f64) -> Result<Vec<Passed>> {
    let pairs: Vec<(u32, u32)> =
        sizes.iter().flat_map(|&size| offered.iter().map(move |&pps| (size, pps))).collect();
    let time = Duration::from_secs_f64(seconds);
    let points: Vec<UdpPoint> = pairs
        .iter()
        .map(|&(size, pps)| UdpPoint::even(size, 1_000_000_000_000 / u64::from(pps), time))
        .collect();
    let passed = |(report, &(size, asked)): (&UdpPointReport, &(u32, u32))| {
        let (way, seconds) = (way(report)?, sent(report)?.seconds.max(1e-9));
        let (sent, received) = (way.sent as f64 / seconds, way.arrived as f64 / seconds);
        Ok(Passed { size, asked, sent, received, lost: way.loss_fraction, seconds })
    };
    bench.udp(&points)?.iter().zip(&pairs).map(passed).collect()
}

/// A switch that forwards so many packets a second, of whatever size.
pub(super) fn switch_limit(context: &mut Context<'_>) -> Result<Figure> {
    const LIMIT: f64 = 5000.0;
    let sizes = context.or(vec![100, 500, 1000, 1472], vec![100, 1472]);
    let offered = context.or(vec![2000, 3000, 4000, 5000, 6000, 7000, 8000], vec![3000, 8000]);
    let seconds = context.or(0.6, 0.4);
    let all = context.lab(context.path, |bench| packets(bench, &sizes, &offered, seconds))?;
    let columns = [
        ("sent_per_second", "sent, 1/s", 0),
        ("received_per_second", "received, 1/s", 0),
        ("received_mbps", "received, Mb/s", 2),
        ("lost_percent", "lost, %", 2),
        ("predicted", "predicted, %", 2),
    ];
    let mut figure = Figure::new("bytes, packets per second", &columns, "sent, packets per second");
    let (mut rate, mut loss) = (Lines::new("received, packets per second"), Lines::new("lost, %"));
    for of in &all {
        let predicted = (1.0 - of.predicted(LIMIT) / of.sent) * 1e2;
        let values = [of.sent, of.received, of.mbps(of.received), of.lost * 1e2, predicted];
        figure.row(format!("{} B at {}", of.size, of.asked), &values);
    }
    for &size in &sizes {
        let line = || all.iter().filter(|of| of.size == size);
        rate.add(format!("{size} bytes"), Look::Measured, line().map(|of| (of.sent, of.received)));
        loss.add(format!("{size} bytes"), Look::Measured, line().map(|of| (of.sent, of.lost * 1e2)));
        if let Some(last) = line().next_back() {
            let pair = (last.predicted(LIMIT), last.received);
            figure.claim(format!("passes of {size} bytes"), pair, "1/s", 0.05);
        }
    }
    let theory = |of: &Passed| (of.sent, of.predicted(LIMIT));
    let first: Vec<&Passed> = all.iter().filter(|of| of.size == sizes[0]).collect();
    rate.add("theory", Look::Theory, first.iter().map(|of| theory(of)));
    loss.add("theory", Look::Theory, first.iter().map(|of| (of.sent, (1.0 - theory(of).1 / of.sent) * 1e2)));
    figure.panels = vec![rate, loss];
    Ok(figure)
}

/// The same sizes with and without a firewall that looks at each packet.
pub(super) fn firewall(context: &mut Context<'_>) -> Result<Figure> {
    const LIMIT: f64 = 4000.0;
    const OFFERED: [u32; 1] = [8000];
    let sizes = context.or(vec![100, 300, 500, 700, 900, 1100, 1300, 1472], vec![100, 700, 1472]);
    let seconds = context.or(0.6, 0.4);
    let open = context.lab("delay=1ms,seed=7", |bench| packets(bench, &sizes, &OFFERED, seconds))?;
    let shut = context.lab(context.path, |bench| packets(bench, &sizes, &OFFERED, seconds))?;
    let columns = [
        ("without_mbps", "without, Mb/s", 1),
        ("with_mbps", "with, Mb/s", 1),
        ("predicted", "predicted, Mb/s", 1),
    ];
    let mut figure = Figure::new("size", &columns, "bytes of a datagram");
    let mut lines = Lines::new("received, Mb/s");
    let line = |all: &[Passed], rate: fn(&Passed) -> f64| -> Vec<(f64, f64)> {
        all.iter().map(|of| (f64::from(of.size), of.mbps(rate(of)))).collect()
    };
    let (without, with) = (line(&open, |of| of.received), line(&shut, |of| of.received));
    let theory = line(&shut, |of| of.predicted(LIMIT));
    for ((without, with), theory) in without.iter().zip(&with).zip(&theory) {
        figure.row(format!("{} B", without.0), &[without.1, with.1, theory.1]);
    }
    for (what, n) in [("the smallest through the firewall", 0), ("the largest", sizes.len() - 1)] {
        figure.claim(what, (theory[n].1, with[n].1), "Mb/s", 0.05);
    }
    lines.add("without firewall", Look::Measured, without);
    lines.add("with firewall", Look::Measured, with);
    lines.add("theory", Look::Theory, theory);
    figure.panels = vec![lines];
    Ok(figure)
}
