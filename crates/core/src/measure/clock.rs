//! Offset and drift of another host's clock, from exchanges of time stamps.
//!
//! ```text
//!   remote     t2 ┌──┐ t3           the other clock reads `local + offset`; no delay is negative, so of each exchange
//!                ╱    ╲
//!   local    t1 ╱      ╲ t4            t3 − t4  ≤  offset  ≤  t2 − t1
//! ```
//!
//! Packets that waited in no queue are closest to the truth, so nothing is averaged. Over time, the upper bounds have a
//! lower convex hull, the lower bounds an upper one, and the line of the offset lies between the two:
//!
//! ```text
//!   offset │  ·    ·      ·    ·  ·      t2 − t1: the way there, and its queues
//!          │ · ·· ────·────────·─·       lower hull
//!          │ ════════════════════        the widest strip between the hulls: its slope is the drift, its middle the offset
//!          │  ·─·──────·────·──·         upper hull
//!          │    ·   ·    ·       ·       t3 − t4: the way back
//!          └──────────────────────── local time
//! ```
//!
//! The middle is right if the smallest delays of both directions are equal, which no exchange of time stamps can show.
//! But it is certain that the offset lies between the hulls, so their distance is the error bar: half of the smallest
//! round-trip time, and more if there are few exchanges. It does not shrink with more of them.
//!
//! If one of the clocks steps, there is no line between the hulls, or only a much thinner strip than for the exchanges
//! before and after the step alone. The series is then divided at the step. If neither is the case, the step was
//! smaller than the error bar.
//!
//! ```
//! use skyhaul_core::{measure::clock::{ClockFit, Exchange}, placement::Nanos};
//!
//! // 1 ms there, 1 ms back; the other clock is 5 s ahead and gains 20 ppm.
//! let other = |t: u64| Nanos(t + 5_000_000_000 + t / 50_000);
//! let exchanges: Vec<Exchange> = (0..100u64)
//!     .map(|n| n * 100_000_000)
//!     .map(|t| Exchange {
//!         sent: Nanos(t),
//!         received: other(t + 1_000_000),
//!         replied: other(t + 1_001_000),
//!         returned: Nanos(t + 2_001_000),
//!     })
//!     .collect();
//! let fit = ClockFit::new(&exchanges).unwrap();
//! assert!((fit.drift_ppm() - 20.0).abs() < 0.01);
//! let offset = fit.offset(Nanos(5_000_000_000));
//! assert!((offset.nanos - 5_000_100_000).abs() < 100 && offset.error < 1_001_000);
//! ```
//!
//! Limits: clocks must run evenly between steps, within 500 ppm; times must be within 104 days of the first, so that
//! nanoseconds are exact.

use crate::placement::Nanos;

/// The four times of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// t1: when the request was sent, by the local clock.
    pub sent: Nanos,
    /// t2: when it arrived, by the remote clock.
    pub received: Nanos,
    /// t3: when the answer was sent, by the remote clock.
    pub replied: Nanos,
    /// t4: when the answer arrived, by the local clock.
    pub returned: Nanos,
}

impl Exchange {
    /// Round-trip time without the time at the remote host, ns; negative if a clock stepped meanwhile.
    #[must_use]
    pub fn round_trip(&self) -> i64 {
        difference(self.returned, self.sent).wrapping_sub(difference(self.replied, self.received))
    }
}

/// What the remote clock reads beyond the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Remote less local, ns.
    pub nanos: i64,
    /// The truth is within this, ns.
    pub error: u64,
}

/// Where one of the clocks stepped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Between these local times.
    pub between: (Nanos, Nanos),
    /// By how much the offset grew, ns.
    pub nanos: i64,
}

/// The offset of a remote clock over time.
#[derive(Clone, Debug)]
pub struct ClockFit {
    /// Local time from which times are counted, and a value subtracted from each offset to keep numbers small.
    origin: Nanos,
    base: i64,
    /// Between steps, in order of time.
    pieces: Vec<Strip>,
    least_rtt: i64,
}

/// `a − b`, which may be times of different clocks.
fn difference(a: Nanos, b: Nanos) -> i64 {
    a.0.wrapping_sub(b.0) as i64
}

impl ClockFit {
    /// From the exchanges before, during and after a measurement, in any order. `None` if there are none. Impossible
    /// replies (received before they were sent, by the same clock) are ignored.
    #[must_use]
    pub fn new(exchanges: &[Exchange]) -> Option<ClockFit> {
        let possible = |e: &&Exchange| e.returned >= e.sent && e.replied >= e.received;
        let mut all: Vec<Exchange> = exchanges.iter().filter(possible).copied().collect();
        all.sort_by_key(|exchange| exchange.sent);
        let first = all.first()?;
        let (origin, base) = (first.sent, difference(first.received, first.sent));
        let bounds: Vec<[(f64, f64); 2]> = all
            .iter()
            .map(|e| {
                let at = |time: Nanos| difference(time, origin) as f64;
                let offset = |remote, local| difference(remote, local).wrapping_sub(base) as f64;
                [(at(e.sent), offset(e.received, e.sent)), (at(e.returned), offset(e.replied, e.returned))]
            })
            .collect();
        let least_rtt = all.iter().map(Exchange::round_trip).filter(|&rtt| rtt >= 0).min().unwrap_or(0);
        let pieces = pieces(&bounds);
        Some(ClockFit { origin, base, pieces, least_rtt })
    }

    /// The offset at a local time. Before the first and after the last exchange, the error grows with the possible
    /// drift; between the exchanges around a step, it includes both sides.
    #[must_use]
    pub fn offset(&self, local: Nanos) -> Offset {
        let t = difference(local, self.origin) as f64;
        let (mut low, mut high, mut middle) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
        let after = self.pieces.partition_point(|piece| piece.to < t);
        let here = self.pieces.get(after).filter(|piece| piece.from <= t);
        let around = match here {
            Some(_) => after..after + 1,
            None => after.saturating_sub(1)..(after + 1).min(self.pieces.len()),
        };
        let count = around.len() as f64;
        for piece in &self.pieces[around] {
            let (from, to) = piece.bounds(t);
            (low, high) = (low.min(from), high.max(to));
            middle += piece.middle(t) / count;
        }
        let error = (high - middle).max(middle - low).max(0.0).ceil();
        Offset { nanos: self.base.wrapping_add(middle.round() as i64), error: error as u64 }
    }

    /// The one-way delay of a packet that was sent at a time of the local clock and received at one of the remote
    /// clock, ns, and its error. The error is the same for all packets within a short time; differences of such delays
    /// do not have it.
    #[must_use]
    pub fn delay(&self, sent: Nanos, received: Nanos) -> Offset {
        let offset = self.offset(sent);
        Offset { nanos: difference(received, sent).wrapping_sub(offset.nanos), ..offset }
    }

    /// How much faster the remote clock runs, parts per million: that of the longest time without a step.
    #[must_use]
    pub fn drift_ppm(&self) -> f64 {
        let longest = self.pieces.iter().max_by(|a, b| (a.to - a.from).total_cmp(&(b.to - b.from)));
        longest.map_or(0.0, |piece| piece.slope * 1e6)
    }

    /// The least round trip of one exchange, ns.
    #[must_use]
    pub fn least_rtt(&self) -> Nanos {
        Nanos(self.least_rtt as u64)
    }

    /// Steps that were found.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.pieces.windows(2).map(|pair| {
            let at = |t: f64| Nanos(self.origin.0.wrapping_add_signed(t.round() as i64));
            let middle = f64::midpoint(pair[0].to, pair[1].from);
            let size = pair[1].middle(middle) - pair[0].middle(middle);
            Step { between: (at(pair[0].to), at(pair[1].from)), nanos: size.round() as i64 }
        })
    }
}

/// A clock that gains or loses more is broken: 500 ppm, as in NTP.
const MOST: f64 = 500e-6;
/// Exchanges that are too few to be divided.
const FEW: usize = 8;

type Point = (f64, f64);

/// The line of the offset between two steps.
#[derive(Clone, Debug)]
struct Strip {
    /// The time of its exchanges.
    from: f64,
    to: f64,
    /// The drift.
    slope: f64,
    /// The drifts of all lines between the bounds.
    slopes: (f64, f64),
    /// Offset at time 0, in the middle of the strip.
    at_zero: f64,
    /// Hulls of the bounds.
    upper: Vec<Point>,
    lower: Vec<Point>,
}

impl Strip {
    fn new(bounds: &[[Point; 2]]) -> Strip {
        let upper = hull(bounds.iter().map(|bound| bound[0]), 1.0);
        // Answers may overtake each other.
        let mut returned: Vec<Point> = bounds.iter().map(|bound| bound[1]).collect();
        returned.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lower = hull(returned.into_iter(), -1.0);
        let ends = |corners: &[Point]| Some((corners.first()?.0, corners.last()?.0));
        let (from, to) =
            ends(&upper).zip(ends(&lower)).map_or((0.0, 0.0), |(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        let mut strip = Strip { from, to, slope: 0.0, slopes: (0.0, 0.0), at_zero: 0.0, upper, lower };
        strip.widen();
        strip
    }

    /// The height of the strip with this slope: a concave function, bent where the slope is that of a hull's edge.
    fn gap(&self, slope: f64) -> f64 {
        least(&self.upper, slope) - most(&self.lower, slope)
    }

    /// Choose the slope of the widest strip.
    fn widen(&mut self) {
        self.slopes = (-MOST, MOST);
        if self.upper.len() < 2 || self.lower.len() < 2 {
            // A single exchange does not determine the drift.
            self.at_zero = f64::midpoint(least(&self.upper, 0.0), most(&self.lower, 0.0));
            return;
        }
        let edges = |corners: &[Point]| -> Vec<f64> {
            corners.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect()
        };
        let mut slopes = [edges(&self.upper), edges(&self.lower), vec![-MOST, MOST, 0.0]].concat();
        slopes.retain(|slope| slope.abs() <= MOST);
        slopes.sort_by(f64::total_cmp);
        let widest = slopes.iter().map(|&slope| self.gap(slope)).fold(f64::NEG_INFINITY, f64::max);
        // If an upper edge is parallel to a lower one, several slopes are equally good: take the middle of them.
        let best: Vec<f64> = slopes.iter().copied().filter(|&s| self.gap(s) >= widest - 1e-6).collect();
        self.slope = match best[..] {
            [] => 0.0,
            [first, .., last] => f64::midpoint(first, last),
            [only] => only,
        };
        self.at_zero = f64::midpoint(least(&self.upper, self.slope), most(&self.lower, self.slope));
        self.slopes = (self.last_slope(-MOST), self.last_slope(MOST));
    }

    /// The last slope towards `end` that leaves room for a line.
    fn last_slope(&self, end: f64) -> f64 {
        if self.gap(end) >= 0.0 {
            return end;
        }
        let (mut inside, mut outside) = (self.slope, end);
        for _ in 0..50 {
            let middle = f64::midpoint(inside, outside);
            if self.gap(middle) >= 0.0 { inside = middle } else { outside = middle }
        }
        inside
    }

    fn width(&self) -> f64 {
        self.gap(self.slope)
    }

    /// The offset in the middle of the strip.
    fn middle(&self, t: f64) -> f64 {
        self.at_zero + self.slope * t
    }

    /// Between which offsets all lines pass that the bounds leave.
    fn bounds(&self, t: f64) -> (f64, f64) {
        (self.beyond(&self.lower, t, -1.0), self.beyond(&self.upper, t, 1.0))
    }

    /// The hull's height; outside it, that of the line through its end with the steepest possible slope.
    fn beyond(&self, corners: &[Point], t: f64, sign: f64) -> f64 {
        if let Some(height) = height(corners, t) {
            return height;
        }
        let end =
            if corners.last().is_some_and(|last| last.0 < t) { corners.last() } else { corners.first() };
        let Some(&(x, y)) = end else { return 0.0 };
        let paths = [y + self.slopes.0 * (t - x), y + self.slopes.1 * (t - x)];
        if sign > 0.0 { paths[0].max(paths[1]) } else { paths[0].min(paths[1]) }
    }
}

/// The corners of the lower convex hull of points in order of time (`sign` 1), or of the upper one (−1).
fn hull(points: impl Iterator<Item = Point>, sign: f64) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::new();
    for (x, y) in points {
        while let [.., (ax, ay), (bx, by)] = corners[..] {
            // b is above the line from a to the new point.
            if sign * ((by - ay) * (x - ax) - (y - ay) * (bx - ax)) < 0.0 {
                break;
            }
            corners.pop();
        }
        corners.push((x, y));
    }
    corners
}

/// The smallest height of these corners above a line of this slope through 0.
fn least(corners: &[Point], slope: f64) -> f64 {
    corners.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min)
}

fn most(corners: &[Point], slope: f64) -> f64 {
    corners.iter().map(|(x, y)| y - slope * x).fold(f64::NEG_INFINITY, f64::max)
}

/// The hull's height at a time within it.
fn height(corners: &[Point], t: f64) -> Option<f64> {
    let after = corners.partition_point(|corner| corner.0 < t);
    let &(bx, by) = corners.get(after)?;
    if bx == t {
        return Some(by);
    }
    let &(ax, ay) = corners.get(after.checked_sub(1)?)?;
    Some(ay + (by - ay) * (t - ax) / (bx - ax))
}

/// The strips between the steps of a series in order of time.
fn pieces(bounds: &[[Point; 2]]) -> Vec<Strip> {
    let whole = Strip::new(bounds);
    let least = bounds.iter().map(|bound| bound[0].1 - bound[1].1).fold(f64::INFINITY, f64::min);
    // As wide as the least round trip, so no clock stepped.
    if bounds.len() < FEW || whole.width() >= 0.8 * least.max(0.0) && whole.width() >= 0.0 {
        return vec![whole];
    }
    let at = divide(bounds);
    let (before, after) = (Strip::new(&bounds[..at]), Strip::new(&bounds[at..]));
    let (a, b) = (before.width(), after.width());
    let thinner = a.min(b);
    let alike = (a - b).abs() < 0.5 * (thinner - whole.width());
    let stepped = thinner > 0.0 && whole.width() < 0.7 * thinner && alike;
    if stepped || whole.width() < 0.0 {
        return [pieces(&bounds[..at]), pieces(&bounds[at..])].concat();
    }
    vec![whole]
}

/// Where both parts have the widest strips: the strip before only thins, and the one after only widens, the later it is.
fn divide(bounds: &[[Point; 2]]) -> usize {
    let (mut low, mut high) = (1, bounds.len() - 1);
    while low < high {
        let middle = low.midpoint(high);
        if Strip::new(&bounds[..middle]).width() > Strip::new(&bounds[middle..]).width() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // The last position at which the strip before it was still the wider one, or the next position.
    let thinner = |at: usize| Strip::new(&bounds[..at]).width().min(Strip::new(&bounds[at..]).width());
    if low > 1 && thinner(low - 1) > thinner(low) { low - 1 } else { low }
}

#[cfg(test)]
mod tests;
