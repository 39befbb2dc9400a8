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

mod strip;
#[cfg(test)]
mod tests;

use crate::placement::Nanos;
use strip::Strip;

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
        let pieces = strip::pieces(&bounds);
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

    /// The drifts that are possible, ppm.
    #[must_use]
    pub fn drift_bounds_ppm(&self) -> (f64, f64) {
        let longest = self.pieces.iter().max_by(|a, b| (a.to - a.from).total_cmp(&(b.to - b.from)));
        longest.map_or((0.0, 0.0), |piece| (piece.slopes.0 * 1e6, piece.slopes.1 * 1e6))
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
