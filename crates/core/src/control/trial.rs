//! Whether a small loss is the way's own: it goes on just the same at a lower rate.
//!
//! ```text
//!   rate  ────┐                         ┌────   taken back: the loss is the way's own
//!             └───first───┬───second────┤
//!             losses here and here      └────   or not: the rate was too high
//! ```
//!
//! Both halves must have losses, and not in bursts: a full queue loses many packets within a moment, chance one here and
//! one there (the index of dispersion of a Poisson process is 1). So others who climb meanwhile, or a process that did
//! not run, do not pass for a steady loss. How long the halves are follows from how many losses there are: at 1e-4 of 10,000 packets a second it takes
//! seconds.

use super::sense::Sample;

/// Loss above this is never held for the way's own.
pub(super) const OWN_MOST: f64 = 2e-3;
/// Lost packets that make a half, and seconds it lasts at least and at most.
const HALF: f64 = 4.0;
const SHORTEST: f64 = 0.2;
const LONGEST: f64 = 1.5;

/// Packets sent, and lost of them, in some seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) sent: f64,
    pub(super) lost: f64,
    pub(super) seconds: f64,
    /// Reports, and the sum of the squares of what each lost.
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

    /// This and what came before or after.
    fn with(self, other: Run) -> Run {
        Run {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
            seconds: self.seconds + other.seconds,
            reports: self.reports + other.reports,
            squares: self.squares + other.squares,
        }
    }

    /// Lost one here and one there, not in bursts; `before` so many reports without loss.
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

/// A fall for a loss so small that it may be the way's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// The rate before.
    pub(super) rate: f64,
    /// The part lost before.
    pub(super) part: f64,
    /// It was climbing.
    pub(super) climbing: bool,
    halves: [Run; 2],
}

/// What a trial says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Not yet.
    Open,
    /// This part is lost at any rate.
    Own(f64),
    /// The loss came from the rate.
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
        // What brought the trial about was a cluster, so the part before is rather too high.
        let both = first.lost >= 1.0 && second.lost >= 1.0 && all.lost >= 3.0;
        if both && all.is_scattered(0.0) && part <= OWN_MOST && part < 2.0 * self.part {
            Verdict::Own(part)
        } else {
            Verdict::Rate
        }
    }
}
