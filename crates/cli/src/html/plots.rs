//! Over time, and over disks: rate, loss, write progress, chunk latency.

use super::svg::{Axis, Drawing, short};
use super::words;
use crate::print;
use skyhaul::recording::{DiskStatus, Latency};

/// Width of a drawing that fills the page.
pub(super) const WIDTH: f64 = 1040.0;
/// Left and right end of the axes in it.
const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 16.0;
/// Maximum number of points.
const MOST_POINTS: usize = 240;
/// Maximum number of disks in a drawing.
const MOST_DISKS: usize = 32;

/// One sample of a timeline: seconds, bytes so far, frames lost so far.
pub(super) type Sample = (f64, u64, u64);

/// At most [`MOST_POINTS`] of `all`, the last one always.
fn thin<T>(all: &[T]) -> Vec<&T> {
    let step = all.len().div_ceil(MOST_POINTS).max(1);
    let mut some: Vec<&T> = all.iter().step_by(step).collect();
    if let Some(last) = all.last()
        && !(all.len() - 1).is_multiple_of(step)
    {
        some.push(last);
    }
    some
}

/// Divisor and name of the best unit for `largest`.
fn unit(largest: f64, names: &[&'static str]) -> (f64, &'static str) {
    let mut divisor = 1.0;
    let mut at = 0;
    while largest / divisor >= 1000.0 && at + 1 < names.len() {
        divisor *= 1000.0;
        at += 1;
    }
    (divisor, names.get(at).copied().unwrap_or_default())
}

fn seconds(value: f64) -> String {
    short(value)
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
    let mut drawing = Drawing::new(WIDTH, 410.0, "Received rate and frames lost over time");
    let x = Axis::linear(0.0, before.0, LEFT, RIGHT);
    let y = Axis::linear(0.0, most / divisor * 1.06, 220.0, 26.0);
    drawing.y_axis(&y, (LEFT, RIGHT), &format!("received, {name}"), &short);
    let mut steps = Vec::new();
    for &(from, to, rate, _) in &intervals {
        steps.extend([(x.at(from), y.at(rate / divisor)), (x.at(to), y.at(rate / divisor))]);
    }
    let mut area = steps.clone();
    area.extend([(x.at(before.0), y.at(0.0)), (x.at(0.0), y.at(0.0))]);
    drawing.path(&area, true, "area");
    drawing.path(&steps, false, "line");
    if mean.is_finite() && mean > 0.0 {
        let at = y.at(mean / divisor);
        drawing.line((LEFT, at), (RIGHT, at), "mean");
        let text = format!("mean, first packet to last: {}", print::rate(mean));
        drawing.text((RIGHT - 6.0, 20.0), "end", "", &text);
        drawing.line((RIGHT - 260.0, 16.0), (RIGHT - 232.0, 16.0), "mean");
    }
    drawing.line((LEFT, 220.0), (RIGHT, 220.0), "axis");
    let worst = intervals.iter().map(|i| i.3).max().unwrap_or(0).max(4) as f64;
    let y = Axis::linear(0.0, worst * 1.05, 370.0, 262.0);
    drawing.y_axis(&y, (LEFT, RIGHT), "frames found lost in each interval", &|v| words::number(v as u64));
    for &(from, to, _, lost) in &intervals {
        let (left, right) = (x.at(from), x.at(to));
        drawing.rect(
            (left + 0.5, y.at(lost as f64)),
            right - left - 1.0,
            370.0 - y.at(lost as f64),
            "loss",
            "",
        );
    }
    drawing.x_axis(&x, 370.0, "seconds since the receiver's start", &seconds);
    for &(from, to, rate, lost) in &intervals {
        let tip = format!("{from:.2} s to {to:.2} s\n{}\n{} lost", print::rate(rate), words::number(lost));
        drawing.rect((x.at(from), 26.0), x.at(to) - x.at(from), 344.0, "hover", &tip);
    }
    drawing.finish()
}

/// Bytes written by each disk, stacked, and the bytes received before them.
pub(super) fn progress(disks: &[DiskStatus], over_time: &[(f64, Vec<u64>)], timeline: &[Sample]) -> String {
    let points: Vec<&(f64, Vec<u64>)> = thin(over_time).into_iter().filter(|p| p.0.is_finite()).collect();
    let count = points.iter().map(|p| p.1.len()).max().unwrap_or(0).min(MOST_DISKS);
    if points.is_empty() || count == 0 {
        return nothing("No disk observed.");
    }
    let received: Vec<&Sample> = thin(timeline).into_iter().filter(|p| p.0.is_finite()).collect();
    let last = points.iter().map(|p| p.0).chain(received.iter().map(|p| p.0)).fold(0.0, f64::max);
    let sum = |bytes: &[u64], disks: usize| bytes.iter().take(disks).map(|b| *b as f64).sum::<f64>();
    let written = points.iter().map(|p| sum(&p.1, count)).fold(0.0, f64::max);
    let most = received.iter().map(|p| p.1 as f64).fold(written, f64::max);
    let (divisor, name) = unit(most, &["B", "kB", "MB", "GB", "TB"]);
    let mut drawing = Drawing::new(WIDTH, 300.0, "Bytes written to each disk over time");
    let x = Axis::linear(0.0, last, LEFT, RIGHT - 70.0);
    let y = Axis::linear(0.0, most / divisor * 1.04, 258.0, 26.0);
    drawing.y_axis(&y, (LEFT, RIGHT - 70.0), &format!("written so far, {name}, disks stacked"), &short);
    for disk in 0..count {
        let edge = |n: usize| {
            let at = points.iter().map(move |p| (x.at(p.0), y.at(sum(&p.1, n) / divisor)));
            std::iter::once((x.at(0.0), y.at(0.0))).chain(at).collect::<Vec<_>>()
        };
        let mut band = edge(disk + 1);
        band.extend(edge(disk).into_iter().rev());
        drawing.path(&band, true, &format!("band s{}", disk % 6));
        if let Some((_, bytes)) = points.last()
            && count <= 12
        {
            let middle = (sum(bytes, disk) + sum(bytes, disk + 1)) / 2.0 / divisor;
            let end = x.at(points.last().map_or(0.0, |p| p.0));
            drawing.text((end + 8.0, y.at(middle) + 4.0), "start", "strong", &name_of(disks, disk));
        }
    }
    let line: Vec<(f64, f64)> = received.iter().map(|p| (x.at(p.0), y.at(p.1 as f64 / divisor))).collect();
    drawing.path(&line, false, "received");
    drawing.path(&[(LEFT + 250.0, 13.0), (LEFT + 278.0, 13.0)], false, "received");
    drawing.text((LEFT + 284.0, 17.0), "start", "", "received so far");
    drawing.x_axis(&x, 258.0, "seconds", &seconds);
    let mut from = 0.0;
    for (t, bytes) in points {
        let each: Vec<String> = (0..count.min(8))
            .map(|d| format!("{}: {}", name_of(disks, d), print::bytes(bytes.get(d).copied().unwrap_or(0))))
            .collect();
        let tip = format!("{t:.2} s\n{}", each.join("\n"));
        drawing.rect((x.at(from), 26.0), x.at(*t) - x.at(from), 232.0, "hover", &tip);
        from = *t;
    }
    drawing.finish()
}

fn name_of(disks: &[DiskStatus], number: usize) -> String {
    let name = disks.get(number).and_then(|d| d.path.file_name()).map(|n| n.to_string_lossy().into_owned());
    name.unwrap_or_else(|| format!("disk {}", number + 1))
}

/// Microseconds as text.
pub(super) fn micros(value: f64) -> String {
    if value >= 1e6 {
        format!("{} s", short(value / 1e6))
    } else if value >= 1e3 {
        format!("{} ms", short(value / 1e3))
    } else {
        format!("{} µs", short(value))
    }
}

/// A row for each disk: its share, and the latency of its chunks.
pub(super) fn disks(disks: &[DiskStatus]) -> String {
    if disks.is_empty() {
        return nothing("No disks.");
    }
    let shown = &disks[..disks.len().min(MOST_DISKS)];
    let total = disks.iter().map(|d| d.bytes as f64).sum::<f64>().max(1.0);
    let largest = shown.iter().map(|d| d.bytes as f64).fold(1.0, f64::max) / total;
    let buckets: Vec<Vec<(f64, f64, u64)>> = shown.iter().map(|d| spread(&d.latency)).collect();
    let low = buckets.iter().flatten().map(|b| b.0).fold(f64::INFINITY, f64::min);
    let high = buckets.iter().flatten().map(|b| b.1).fold(0.0, f64::max);
    let row = 62.0;
    let bottom = 28.0 + row * shown.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 38.0, "Share and chunk latency of each disk");
    let share = Axis::linear(0.0, largest, 74.0, 300.0);
    let time = Axis::log(low / 1.3, high * 1.3, 440.0, RIGHT);
    drawing.text((74.0, 14.0), "start", "title", "share of the bytes");
    drawing.text((440.0, 14.0), "start", "title", "chunks by latency (each disk scaled on its own)");
    for (i, (disk, buckets)) in shown.iter().zip(&buckets).enumerate() {
        let base = 28.0 + row * (i + 1) as f64 - 10.0;
        let class = format!("s{}", i % 6);
        let part = disk.bytes as f64 / total;
        drawing.text((66.0, base - 14.0), "end", "strong", &name_of(disks, i));
        drawing.rect((74.0, base - 30.0), share.at(largest) - 74.0, 24.0, "track", "");
        drawing.rect((74.0, base - 30.0), share.at(part) - 74.0, 24.0, &class, "");
        drawing.text((308.0, base - 20.0), "start", "strong", &format!("{:.1} %", part * 100.0));
        drawing.text((308.0, base - 5.0), "start", "", &print::bytes(disk.bytes));
        let tallest = buckets.iter().map(|b| b.2).max().unwrap_or(1).max(1) as f64;
        drawing.line((440.0, base), (RIGHT, base), "axis");
        for &(from, to, n) in buckets {
            let (left, right) = (time.at(from), time.at(to));
            let height = (n as f64 / tallest * (row - 18.0)).max(1.5);
            let tip = format!("{} to {}\n{} chunks", micros(from), micros(to), words::number(n));
            drawing.rect((left, base - height), (right - left - 1.0).max(1.0), height, &class, &tip);
        }
        if disk.latency.count() > 0 {
            for (part, mark) in [(0.5, "mark"), (0.99, "mark99")] {
                let at = time.at(disk.latency.quantile(part).as_micros() as f64);
                drawing.line((at, base + 2.0), (at, base - row + 16.0), mark);
            }
        }
    }
    drawing.line((RIGHT - 250.0, 10.0), (RIGHT - 226.0, 10.0), "mark");
    drawing.text((RIGHT - 220.0, 14.0), "start", "", "median");
    drawing.line((RIGHT - 160.0, 10.0), (RIGHT - 136.0, 10.0), "mark99");
    drawing.text((RIGHT - 130.0, 14.0), "start", "", "99th percentile");
    if high > 0.0 {
        drawing.x_axis(&time, bottom, "from the first write of a chunk to its durable name", &micros);
    }
    drawing.finish()
}

/// What a drawing over the logarithm shows of each bucket: lower end, upper end in µs, count.
fn spread(latency: &Latency) -> Vec<(f64, f64, u64)> {
    latency.buckets().map(|(bucket, n)| (bucket.start.max(1) as f64, bucket.end as f64, n)).collect()
}

/// Text in place of a drawing.
pub(super) fn nothing(why: &str) -> String {
    format!("<p class=\"soft\">{why}</p>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_ends() {
        let all: Vec<usize> = (0..1000).collect();
        let some = thin(&all);
        assert!(some.len() <= MOST_POINTS + 1);
        assert_eq!((**some.first().unwrap(), **some.last().unwrap()), (0, 999));
        assert!(thin::<u8>(&[]).is_empty());
    }
}
