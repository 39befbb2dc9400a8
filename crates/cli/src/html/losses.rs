//! Where in the stream, and at which stage, frames were lost.
//!
//! The map reads like text: each cell is a run of consecutive frames, and each row continues the one above.

use super::plots::{WIDTH, nothing};
use super::svg::{Axis, Drawing, nice, short};
use super::words;
use skyhaul::report::{Distribution, StreamSummary};
use std::fmt::Write as _;

const COLUMNS: u64 = 120;
const ROWS: u64 = 20;
/// Shades of a cell that lost anything.
const SHADES: f64 = 6.0;
/// Left end of the map.
const LEFT: f64 = 92.0;

/// A stream's frames in cells of equal size.
struct Cells {
    /// Number of the first frame.
    first: u64,
    /// Total number of frames.
    span: u64,
    /// Frames in a cell.
    each: u64,
    /// Lost frames of each cell.
    lost: Vec<u64>,
}

impl Cells {
    /// `first` is the number of the first packet as far as it is known; the loss map corrects what cannot be.
    fn new(stream: &StreamSummary, first: u64) -> Self {
        let span = stream.placed.saturating_add(stream.lost);
        let lowest = stream.loss_map.iter().map(|r| r.0).min().unwrap_or(first);
        let first = if lowest < first || lowest - first > span { lowest } else { first };
        let each = span.div_ceil(COLUMNS * ROWS).max(1);
        let mut lost = vec![0u64; span.div_ceil(each) as usize];
        for &(from, to) in &stream.loss_map {
            let (from, to) = (from.saturating_sub(first).min(span), to.saturating_sub(first).min(span));
            let mut at = from;
            while at < to {
                let cell = at / each;
                let end = (cell + 1).saturating_mul(each).min(to);
                lost[cell as usize] += end - at;
                at = end;
            }
        }
        Self { first, span, each, lost }
    }

    fn size(&self, cell: usize) -> u64 {
        self.each.min(self.span - cell as u64 * self.each)
    }

    fn fraction(&self, cell: usize) -> f64 {
        self.lost[cell].min(self.size(cell)) as f64 / self.size(cell).max(1) as f64
    }

    /// The largest fraction of a cell, rounded up.
    fn worst(&self) -> f64 {
        let worst = (0..self.lost.len()).map(|c| self.fraction(c)).fold(0.0, f64::max);
        // Shades end at round numbers: a multiple of 0.6 %, 1.2 %, 3 %, ...
        (nice(worst / SHADES) * SHADES).min(1.0)
    }
}

/// The loss map of one stream.
pub(super) fn map(stream: &StreamSummary, first: u64) -> String {
    let cells = Cells::new(stream, first);
    if cells.lost.is_empty() {
        return nothing("No frames.");
    }
    let rows = (cells.lost.len() as u64).div_ceil(COLUMNS);
    let (cell, high) = ((WIDTH - LEFT - 16.0) / COLUMNS as f64, 13.0);
    let (top, bottom) = (34.0, 34.0 + high * rows as f64);
    let worst = cells.worst();
    let mut drawing =
        Drawing::new(WIDTH, bottom + 38.0, &format!("Loss map of the stream from {}", stream.sender));
    drawing.text((LEFT, 12.0), "start", "title", "frames lost in a cell:");
    legend(&mut drawing, worst, stream.lost > 0);
    drawing.text((LEFT - 7.0, 28.0), "end", "title", "frame no.");
    let mut shades = vec![String::new(); SHADES as usize + 1];
    for i in 0..cells.lost.len() {
        let fraction = cells.fraction(i);
        let shade = if fraction > 0.0 { (fraction / worst * SHADES).ceil().clamp(1.0, SHADES) } else { 0.0 };
        let (row, column) = (i as u64 / COLUMNS, i as u64 % COLUMNS);
        let (x, y) = (LEFT + column as f64 * cell, top + row as f64 * high);
        let _ =
            write!(shades[shade as usize], "M{x:.1} {y:.1}h{0:.1}v{1:.1}h-{0:.1}z", cell - 0.7, high - 0.7);
    }
    for (shade, path) in shades.iter().enumerate().filter(|s| !s.1.is_empty()) {
        drawing.raw(&format!("<path class=\"q{shade}\" d=\"{path}\"/>"));
    }
    for row in (0..rows).step_by(2) {
        let number = cells.first.saturating_add((row * COLUMNS).saturating_mul(cells.each));
        let at = top + row as f64 * high + 10.5;
        drawing.text((LEFT - 7.0, at), "end", "", &words::number(number));
    }
    let width = cell * COLUMNS as f64;
    let x = Axis::linear(0.0, COLUMNS as f64 * cells.each as f64, LEFT, LEFT + width);
    let each = format!("frames on from the row's first; a cell is {} frames", words::number(cells.each));
    drawing.x_axis(&x, bottom + 1.0, &each, &|v| words::number(v as u64));
    let list: Vec<String> = cells.lost.iter().map(u64::to_string).collect();
    drawing.raw(&format!(
        "<rect class=\"over\" x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{:.1}\" \
         data-first=\"{}\" data-span=\"{}\" data-each=\"{}\" data-columns=\"{COLUMNS}\" data-rows=\"{rows}\" \
         data-cells=\"{}\"/>",
        bottom - top,
        cells.first,
        cells.span,
        cells.each,
        list.join(",")
    ));
    drawing.finish()
}

fn legend(drawing: &mut Drawing, worst: f64, lossy: bool) {
    let mut x = LEFT + 150.0;
    drawing.rect((x, 1.0), 14.0, 13.0, "q0", "");
    drawing.text((x + 20.0, 12.0), "start", "", "none");
    x += 62.0;
    for shade in 1..=if lossy { SHADES as u32 } else { 0 } {
        let upper = worst * f64::from(shade) / SHADES * 100.0;
        drawing.rect((x, 1.0), 14.0, 13.0, &format!("q{shade}"), "");
        drawing.text((x + 20.0, 12.0), "start", "", &format!("≤ {} %", short(upper)));
        x += 92.0;
    }
}

/// Width of a drawing that fills half of the page.
const HALF: f64 = 500.0;

/// How many runs of lost frames had which length; the counts are on a logarithmic axis.
pub(super) fn runs(runs: &Distribution) -> String {
    let counts: Vec<(f64, f64, f64)> = bounds(runs).map(|(from, to, n)| (from, to, n as f64)).collect();
    bars(&counts, "runs of lost frames by length", "number of runs", "length of the run, frames", true)
}

/// How far behind the reordered packets were, per packet of distance.
pub(super) fn extent(extent: &Distribution) -> String {
    let counts: Vec<(f64, f64, f64)> =
        bounds(extent).map(|(from, to, n)| (from, to, n as f64 / (to - from))).collect();
    let title = "late packets";
    bars(&counts, title, "packets per distance", "packets behind the highest number", false)
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

fn bars(bars: &[(f64, f64, f64)], label: &str, up: &str, along: &str, log: bool) -> String {
    if bars.is_empty() {
        return nothing("None.");
    }
    let mut drawing = Drawing::new(HALF, 250.0, label);
    let (left, right, base, top) = (58.0, HALF - 12.0, 206.0, 26.0);
    let last = bars.iter().map(|b| b.1).fold(1.0, f64::max);
    let most = bars.iter().map(|b| b.2).fold(1.0, f64::max);
    let (shift, x) = if last <= 130.0 {
        (0.5, Axis::linear(0.0, last.max(8.0), left, right))
    } else {
        (0.0, Axis::log(0.9, last * 1.1, left, right))
    };
    let y = if log {
        Axis::log(0.5, (most * 2.5).max(8.0), base, top)
    } else {
        Axis::linear(0.0, most * 1.06, base, top)
    };
    drawing.y_axis(&y, (left, right), up, &|v| words::number(v as u64));
    for &(from, to, n) in bars {
        let (a, b) = (x.at(from - shift), x.at(to - shift));
        let tip = if to - from > 1.0 {
            format!("{} to {}: {}", words::number(from as u64), words::number(to as u64 - 1), short(n))
        } else {
            format!("{}: {}", words::number(from as u64), words::number(n.round() as u64))
        };
        let width = (b - a - 1.0).max(2.5);
        drawing.rect((a + 0.5, y.at(n)), width, base - y.at(n), "bar", &tip);
        if bars.len() <= 8 && width > 16.0 {
            drawing.text((a + width / 2.0, y.at(n) - 4.0), "middle", "strong", &words::number(n as u64));
        }
    }
    let whole = |v: f64| if v.fract() == 0.0 { words::number(v as u64) } else { String::new() };
    drawing.x_axis(&x, base, along, &whole);
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(placed: u64, lost: u64, loss_map: Vec<(u64, u64)>) -> StreamSummary {
        StreamSummary { placed, lost, loss_map, ..StreamSummary::default() }
    }

    #[test]
    fn every_lost_frame_is_in_one_cell() {
        let cells = Cells::new(&stream(9_900, 100, vec![(1_000, 1_001), (1_400, 1_499)]), 1_000);
        assert_eq!((cells.first, cells.each, cells.lost.len()), (1_000, 5, 2_000));
        assert_eq!(cells.lost.iter().sum::<u64>(), 100);
        assert_eq!((cells.lost[0], cells.lost[80], cells.lost[99], cells.lost[100]), (1, 5, 4, 0));
        assert!(cells.worst() <= 1.0);
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
