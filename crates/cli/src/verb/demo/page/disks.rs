//! Over time, and over disks: rate, loss, write progress, chunk latency.

use crate::print;
use crate::report::chart::{Chart, Panel, Series, WIDTH};
use crate::report::drawing::Scale;
use crate::report::table::{Row, Rows, Table};
use crate::report::words::{micros, nothing, number, unit};
use skyhaul::recording::{DiskStatus, Latency};

/// Maximum number of points.
const MAX_POINTS: usize = 240;
/// Maximum number of disks in a drawing.
const MAX_DISKS: usize = 32;

/// One sample of a timeline: seconds, bytes so far, frames lost so far.
pub(super) type Sample = (f64, u64, u64);

/// At most [`MAX_POINTS`] of `all`, the last one always.
fn thin<T>(all: &[T]) -> Vec<&T> {
    let step = all.len().div_ceil(MAX_POINTS).max(1);
    let mut some: Vec<&T> = all.iter().step_by(step).collect();
    if let Some(last) = all.last()
        && !(all.len() - 1).is_multiple_of(step)
    {
        some.push(last);
    }
    some
}

/// Received rate, and below it the frames lost, interval by interval.
pub(super) fn rate(timeline: &[Sample], mean: f64) -> String {
    let mut before = (0.0, 0, 0);
    let mut intervals = Vec::new();
    for &&(t, bytes, lost) in &thin(timeline) {
        if t.is_finite() && t > before.0 {
            let rate = bytes.saturating_sub(before.1) as f64 * 8.0 / (t - before.0);
            intervals.push((before.0, t, rate, lost.saturating_sub(before.2)));
            before = (t, bytes, lost);
        }
    }
    if intervals.is_empty() {
        return nothing("No rate measured.");
    }
    let most = intervals.iter().map(|i| i.2).fold(mean, f64::max);
    let (divisor, name) = unit(most, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]);
    let received = Panel::new(194.0, Scale::linear(format!("received, {name}")))
        .series(Series::steps("", intervals.iter().map(|&(from, to, rate, _)| (from, to, rate / divisor))));
    let received = match mean > 0.0 {
        true => received.level(mean / divisor, format!("mean, first packet to last: {}", print::rate(mean))),
        false => received,
    };
    let lost = Scale::linear("frames found lost in each interval").at_least(4.0).words(|v| number(v as u64));
    let lost = Panel::new(108.0, lost).series(
        Series::bars("", intervals.iter().map(|&(from, to, _, lost)| (from, to, lost as f64))).colour(5),
    );
    let chart = Chart::new("Received rate and frames lost over time")
        .x(Scale::linear("seconds since the receiver's start").to(before.0))
        .panel(received)
        .panel(lost);
    let tipped = intervals.iter().fold(chart, |chart, &(from, to, rate, lost)| {
        let text = format!("{from:.2} s to {to:.2} s\n{}\n{} lost", print::rate(rate), number(lost));
        chart.tip(from, to, text)
    });
    tipped.inline(WIDTH)
}

/// Bytes written by each disk, stacked, and the bytes received before them.
pub(super) fn progress(disks: &[DiskStatus], over_time: &[(f64, Vec<u64>)], timeline: &[Sample]) -> String {
    let points: Vec<&(f64, Vec<u64>)> = thin(over_time).into_iter().filter(|p| p.0.is_finite()).collect();
    let count = points.iter().map(|p| p.1.len()).max().unwrap_or(0).min(MAX_DISKS);
    if points.is_empty() || count == 0 {
        return nothing("No disk observed.");
    }
    let received: Vec<&Sample> = thin(timeline).into_iter().filter(|p| p.0.is_finite()).collect();
    let sum = |bytes: &[u64], disks: usize| bytes.iter().take(disks).map(|b| *b as f64).sum::<f64>();
    let written = points.iter().map(|p| sum(&p.1, count)).fold(0.0, f64::max);
    let most = received.iter().map(|p| p.1 as f64).fold(written, f64::max);
    let (divisor, name) = unit(most, &["B", "kB", "MB", "GB", "TB"]);
    let stacked = (0..count).map(|disk| {
        let edges = points.iter().map(|p| (p.0, sum(&p.1, disk) / divisor, sum(&p.1, disk + 1) / divisor));
        let label = if count <= 12 { name_of(disks, disk) } else { String::new() };
        Series::stack(label, std::iter::once((0.0, 0.0, 0.0)).chain(edges)).colour(disk % 6)
    });
    let line = received.iter().map(|p| (p.0, p.1 as f64 / divisor));
    let panel = Panel::new(232.0, Scale::linear(format!("written so far, {name}, disks stacked")))
        .all(stacked)
        .series(Series::dotted("received so far", line).colour(7));
    let mut chart =
        Chart::new("Bytes written to each disk over time").x(Scale::linear("seconds")).panel(panel);
    let mut from = 0.0;
    for (t, bytes) in points {
        let each: Vec<String> = (0..count.min(8))
            .map(|d| format!("{}: {}", name_of(disks, d), print::bytes(bytes.get(d).copied().unwrap_or(0))))
            .collect();
        chart = chart.tip(from, *t, format!("{t:.2} s\n{}", each.join("\n")));
        from = *t;
    }
    chart.inline(WIDTH)
}

fn name_of(disks: &[DiskStatus], number: usize) -> String {
    let name = disks.get(number).and_then(|d| d.path.file_name()).map(|n| n.to_string_lossy().into_owned());
    name.unwrap_or_else(|| format!("disk {}", number + 1))
}

/// A row for each disk: its share, and the latency of its chunks.
pub(super) fn disks(disks: &[DiskStatus]) -> String {
    if disks.is_empty() {
        return nothing("No disks.");
    }
    let total = disks.iter().map(|d| d.bytes as f64).sum::<f64>().max(1.0);
    let row = |(n, disk): (usize, &DiskStatus)| {
        let at = |part| disk.latency.quantile(part).as_micros() as f64;
        Row {
            name: name_of(disks, n),
            share: disk.bytes as f64 / total,
            amount: print::bytes(disk.bytes),
            times: spread(&disk.latency),
            marks: (disk.latency.count() > 0).then(|| (at(0.5), at(0.99))),
        }
    };
    let rows = Rows {
        label: "Share and chunk latency of each disk",
        shares: "share of the bytes",
        times: "chunks by latency (each disk scaled on its own)",
        along: "from the first write of a chunk to its durable name",
        unit: "chunks",
        rows: disks.iter().take(MAX_DISKS).enumerate().map(row).collect(),
    };
    rows.inline()
}

/// The disks in numbers.
pub(super) fn table(disks: &[DiskStatus]) -> String {
    let mut table = Table::new(&[
        "Disk",
        "State",
        "Method",
        "#Chunks",
        "#Acknowledged",
        "#Median",
        "#99 %",
        "#Maximum",
        "#Rate when busy",
    ]);
    for disk in disks {
        let time = |part| micros(disk.latency.quantile(part).as_micros() as f64);
        let name = disk.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let error = disk.error.as_ref().map(|e| format!(": {e}")).unwrap_or_default();
        let direct = if disk.direct { ", O_DIRECT" } else { "" };
        table = table.row(&[
            name,
            format!("{}{error}", format!("{:?}", disk.state).to_lowercase()),
            format!("{}{direct}", disk.engine),
            number(disk.chunks),
            print::bytes(disk.acknowledged_bytes),
            time(0.5),
            time(0.99),
            micros(disk.latency.max().as_micros() as f64),
            format!("{}/s", print::bytes(disk.rate as u64)),
        ]);
    }
    table.html()
}

/// What a drawing over the logarithm shows of each bucket: lower end, upper end in µs, count.
fn spread(latency: &Latency) -> Vec<(f64, f64, u64)> {
    latency.buckets().map(|(bucket, n)| (bucket.start.max(1) as f64, bucket.end as f64, n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_ends() {
        let all: Vec<usize> = (0..1000).collect();
        let some = thin(&all);
        assert!(some.len() <= MAX_POINTS + 1);
        assert_eq!((**some.first().unwrap(), **some.last().unwrap()), (0, 999));
        assert!(thin::<u8>(&[]).is_empty());
    }
}
