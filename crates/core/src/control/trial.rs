//! Tests whether a small loss is the path's own: then it is the same at a lower rate.
//!
//! ```text
//!   rate  ────┐                         ┌────   undone: the loss is the path's own
//!             └───first───┬───second────┤
//!             losses here and here      └────   kept: the rate was too high
//! ```
//!
//! Both halves must have losses, and not in bursts: a full queue loses many packets at once, while random losses are
//! scattered (the index of dispersion of a Poisson process is 1). So the rise of another sender, or a process that was
//! not scheduled, is not mistaken for steady loss. The length of the halves depends on the number of losses: at a loss
//! of 1e-4 and 10 000 packets a second, it is seconds.

use super::sense::Sample;

/// Loss above this is never attributed to the path itself.
pub(super) const OWN_MOST: f64 = 2e-3;
/// Lost packets that complete a half, and its minimum and maximum duration in seconds.
const HALF: f64 = 4.0;
const SHORTEST: f64 = 0.2;
const LONGEST: f64 = 1.5;

/// Packets sent and lost in some seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) sent: f64,
    pub(super) lost: f64,
    pub(super) seconds: f64,
    /// Reports, and the sum of the squares of their losses.
    pub(super) reports: f64,
    squares: f64,
}

impl Run {
    pub(super) fn add(&mut self, sample: &Sample) {
        self.sent += sample.packets;
        self.lost += sample.lost;
        self.seconds += sample.seconds;
        self.reports += 1.0;
        self.squares += sample.lost * sample.lost;
    }

    /// The sum of two runs.
    fn with(self, other: Run) -> Run {
        Run {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
            seconds: self.seconds + other.seconds,
            reports: self.reports + other.reports,
            squares: self.squares + other.squares,
        }
    }

    /// Whether the losses are scattered, not in bursts; `before` reports without loss came first.
    pub(super) fn is_scattered(&self, before: f64) -> bool {
        let a_report = self.lost / (self.reports + before).max(1.0);
        self.squares / self.lost.max(1.0) <= 1.5 * (1.0 + a_report) + 0.5
    }

    pub(super) fn part(&self) -> f64 {
        (self.lost / self.sent.max(1.0)).max(0.0)
    }

    fn is_over(&self) -> bool {
        (self.lost >= HALF && self.seconds >= SHORTEST) || self.seconds >= LONGEST
    }
}

/// A fall for a loss so small that it may be the path's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// The rate before.
    pub(super) rate: f64,
    /// The fraction lost before.
    pub(super) part: f64,
    /// It was climbing.
    pub(super) climbing: bool,
    halves: [Run; 2],
}

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Not yet.
    Open,
    /// This fraction is lost at any rate.
    Own(f64),
    /// The loss was caused by the rate.
    Rate,
}

impl Trial {
    pub(super) fn new(rate: f64, part: f64, climbing: bool) -> Self {
        Self { rate, part, climbing, halves: Default::default() }
    }

    pub(super) fn add(&mut self, sample: &Sample) {
        let half = usize::from(self.halves[0].is_over());
        self.halves[half].add(sample);
    }

    pub(super) fn verdict(&self) -> Verdict {
        let [first, second] = self.halves;
        let all = first.with(second);
        let (part, expected) = (all.part(), all.sent * self.part);
        if first.seconds >= SHORTEST && expected >= 12.0 && all.lost < expected / 12.0 {
            return Verdict::Rate;
        }
        if !second.is_over() {
            return Verdict::Open;
        }
        // The trial was started by a cluster of losses, so the fraction before is probably too high.
        let both = first.lost >= 1.0 && second.lost >= 1.0 && all.lost >= 3.0;
        if both && all.is_scattered(0.0) && part <= OWN_MOST && part < 2.0 * self.part {
            Verdict::Own(part)
        } else {
            Verdict::Rate
        }
    }
}
