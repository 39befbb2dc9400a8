//! Where in the stream frames were lost, in which runs, and how far packets were out of order.

use crate::report::axis::Scale;
use crate::report::chart::{Chart, HALF, Panel};
use crate::report::loss_map::LossMap;
use crate::report::series::Series;
use crate::report::words::{nothing, number, short};
use skyhaul::report::{Distribution, StreamSummary};

/// The loss map of one stream. `first` is the number of the first packet as far as it is known; the stream's own map
/// corrects what cannot be.
pub(super) fn map(stream: &StreamSummary, first: u64) -> String {
    let span = stream.placed.saturating_add(stream.lost);
    let lowest = stream.loss_map.iter().map(|r| r.0).min().unwrap_or(first);
    let first = if lowest < first || lowest - first > span { lowest } else { first };
    let label = format!("Loss map of the stream from {}", stream.sender);
    LossMap { label, unit: "frames", first, span, lost: &stream.loss_map }.inline()
}

/// How many runs of lost frames had which length; the counts are on a logarithmic axis.
pub(super) fn runs(runs: &Distribution) -> String {
    let counts: Vec<(f64, f64, f64)> = bounds(runs).map(|(from, to, n)| (from, to, n as f64)).collect();
    let up = Scale::log("number of runs").from(0.5).at_least(3.2);
    bars(&counts, "runs of lost frames by length", up, "length of the run, frames")
}

/// How far behind the reordered packets were, per packet of distance.
pub(super) fn extent(extent: &Distribution) -> String {
    let counts: Vec<(f64, f64, f64)> =
        bounds(extent).map(|(from, to, n)| (from, to, n as f64 / (to - from))).collect();
    let up = Scale::linear("packets per distance");
    bars(&counts, "late packets", up, "packets behind the highest number")
}

/// Buckets as (first value, behind the last, count): values below 16 have one each, then they are 1/8 octave wide.
fn bounds(distribution: &Distribution) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
    let largest = distribution.max.max(1);
    distribution.buckets.iter().map(move |&(from, n)| {
        let width = if from < 8 { 1 } else { 1u64 << (from.ilog2() - 3) };
        let to = from.saturating_add(width).min(largest.saturating_add(1)).max(from.saturating_add(1));
        (from as f64, (to as f64).max(from as f64 + 1.0), n)
    })
}

fn bars(bars: &[(f64, f64, f64)], label: &str, up: Scale, along: &str) -> String {
    if bars.is_empty() {
        return nothing("None.");
    }
    let last = bars.iter().map(|b| b.1).fold(1.0, f64::max);
    let (shift, x) = if last <= 130.0 {
        (0.5, Scale::linear(along).to(last.max(8.0)))
    } else {
        (0.0, Scale::log(along).from(0.9).to(last * 1.1))
    };
    let tip = |&(from, to, n): &(f64, f64, f64)| {
        if to - from > 1.0 {
            format!("{} to {}: {}", number(from as u64), number(to as u64 - 1), short(n))
        } else {
            format!("{}: {}", number(from as u64), number(n.round() as u64))
        }
    };
    let whole = |v: f64| if v.fract() == 0.0 { number(v as u64) } else { String::new() };
    let series = Series::bars("", bars.iter().map(|&(from, to, n)| (from - shift, to - shift, n)))
        .tips(bars.iter().map(tip).collect());
    let panel = Panel::new(180.0, up.words(|v| number(v as u64))).series(series);
    Chart::new(label).x(x.words(whole)).panel(panel).inline(HALF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(placed: u64, lost: u64, loss_map: Vec<(u64, u64)>) -> StreamSummary {
        StreamSummary { placed, lost, loss_map, ..StreamSummary::default() }
    }

    #[test]
    fn absurd_maps_stay_in_their_bounds() {
        for map in [vec![(0, u64::MAX)], vec![(u64::MAX - 1, u64::MAX)], vec![(9, 3), (5, 5)]] {
            for (placed, lost) in [(0, 0), (1, 1), (u64::MAX, u64::MAX), (0, 7)] {
                let stream = stream(placed, lost, map.clone());
                let page = super::map(&stream, 3);
                assert!(!page.contains("NaN") && page.len() < 400_000);
            }
        }
    }

    #[test]
    fn buckets_have_bounds() {
        let d = Distribution { max: 70, buckets: vec![(1, 5), (16, 4), (64, 2)], ..Distribution::default() };
        let all: Vec<_> = bounds(&d).collect();
        assert_eq!(all, [(1.0, 2.0, 5), (16.0, 18.0, 4), (64.0, 71.0, 2)]);
    }
}
