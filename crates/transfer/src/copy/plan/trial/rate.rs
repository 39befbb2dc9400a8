//! The rate of a trial, from the bytes that had come and been written at some times.
//!
//! ```text
//!   bytes │          ╱ ◀─ counted: the second half, when memory on the way is full and flows have their speed
//!         │      ╱
//!         │ _╱            what came before it is a delay that the copy will have, too
//!         └────┴─────┴── s
//! ```
//!
//! Bytes that arrive and bytes that are written are both counted, and the lower rate is the result: memory takes in what a
//! slow disk does not, and on a slow path few whole ranges are written in some seconds.

use super::super::super::message::TrialResult;
use std::time::Duration;

/// Seconds, and bytes that came and that were written by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) at: f64,
    pub(super) came: u64,
    pub(super) written: u64,
}

/// The rate, from bytes at some times; at `durable` all of them were.
pub(super) fn seen(points: &[Point], durable: f64, span: Duration) -> TrialResult {
    let span = span.as_secs_f64();
    let Some(first) = points.iter().find(|point| point.came > 0) else { return TrialResult::default() };
    let Some(last) = points.last() else { return TrialResult::default() };
    // When the last byte came, or was written.
    let all = |point: &&Point| (point.came, point.written) == (last.came, last.written);
    let moved = points.iter().find(all).map_or(last.at, |point| point.at);
    let bytes = last.written;
    let whole = TrialResult {
        bytes,
        bits_per_second: bytes as f64 * 8.0 / durable.max(1e-9),
        ..TrialResult::default()
    };
    // All that there was came before the time was over: what it took is what it takes.
    if moved < span * 0.9 {
        return whole;
    }
    // Writing is faster once nothing more is read.
    let end = points.iter().rev().find(|point| point.at <= span).unwrap_or(first);
    let half = f64::midpoint(first.at, end.at);
    let middle = points.iter().find(|point| point.at >= half).unwrap_or(first);
    if end.at - middle.at < 0.1 {
        return whole;
    }
    let counted = points.iter().filter(|point| point.at >= middle.at && point.at <= end.at);
    let came = slope(counted.clone().map(|point| (point.at, point.came)));
    let written = slope(counted.map(|point| (point.at, point.written)));
    // From the first byte on: what it takes to connect and to agree is measured with copies of few files.
    let before = |(rate, (at, bytes)): &(f64, (f64, u64))| (at - first.at - *bytes as f64 / rate).max(0.0);
    // On a path so slow that hardly a range is written, only the bytes received count.
    let Some(least) = [came, written].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return whole;
    };
    let after = (durable - last.at).max(0.0);
    TrialResult {
        bytes,
        bits_per_second: least.0 * 8.0,
        delay_seconds: before(&least) + after,
        ..TrialResult::default()
    }
}

/// Bytes a second from one step to another, since they come in steps; and the last step.
fn slope(points: impl Iterator<Item = (f64, u64)> + Clone) -> Option<(f64, (f64, u64))> {
    let mut steps = points.clone().zip(points.skip(1)).filter(|(from, to)| to.1 > from.1).map(|(_, to)| to);
    let first = steps.next()?;
    let last = steps.last()?;
    Some(((last.1 - first.1) as f64 / (last.0 - first.0).max(1e-9), last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(3);

    /// 30 points in 3 s.
    fn seen_of(came: impl Fn(u64) -> u64, written: impl Fn(u64) -> u64) -> TrialResult {
        let point = |n: u64| Point { at: n as f64 * 0.1, came: came(n), written: written(n) };
        let points: Vec<Point> = (0..30).map(point).collect();
        seen(&points, 3.0, SPAN)
    }

    fn is_about(trial: &TrialResult, bits_per_second: f64, delay: f64) -> bool {
        (trial.bits_per_second / bits_per_second - 1.0).abs() < 0.001
            && (trial.delay_seconds - delay).abs() < 0.001
    }

    #[test]
    fn the_second_half_counts_and_what_was_late_is_a_delay() {
        // A byte after 0.1 s, half a second later 100 MB/s; the last sync takes 0.1 s.
        let bytes = |n: u64| n.min(1) + n.saturating_sub(6) * 10_000_000;
        let trial = seen_of(bytes, bytes);
        assert!(is_about(&trial, 8e8, 0.6), "{trial:?}");
    }

    #[test]
    fn files_that_end_before_it_took_what_they_take() {
        let bytes = |n: u64| n.min(2) * 1_000_000;
        let points: Vec<Point> =
            (0..5).map(|n| Point { at: n as f64 * 0.1, came: bytes(n), written: bytes(n) }).collect();
        let trial = seen(&points, 0.5, SPAN);
        assert_eq!((trial.bytes, trial.bits_per_second, trial.delay_seconds), (2_000_000, 32e6, 0.0));
        assert_eq!(seen(&[], 1.0, SPAN), TrialResult::default());
    }

    #[test]
    fn the_slower_of_what_comes_and_what_is_written_is_its_rate() {
        // A full memory: 64 MB came at once, then 10 MB/s are written.
        let trial = seen_of(|n| 64_000_000 + n * 1_000_000, |n| n * 1_000_000);
        assert!(is_about(&trial, 8e7, 0.1), "{trial:?}");
        // A slow path: 50 MB/s come, and whole ranges of all four flows are written together.
        let trial = seen_of(|n| n * 5_000_000, |n| n * 5_000_000 / 16_777_216 * 16_777_216);
        assert!((trial.bits_per_second / 4e8 - 1.0).abs() < 0.2, "{trial:?}");
    }
}
