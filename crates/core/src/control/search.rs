//! The highest rate at which nothing is lost, found by trials, for a receiver that cannot report while data flow.
//!
//! The caller sends at the requested rate for a second or more, checks whether anything was lost (a report at the end, a
//! counter read by hand), and passes the verdict. Doubling finds a rate with loss, bisection narrows the limit, and
//! repeated trials confirm it. A margin is subtracted because the limit varies.
//!
//! ```
//! use skyhaul_core::control::{Search, SearchConfig, Step};
//! let mut search = Search::new(SearchConfig::default());
//! let found = loop {
//!     match search.step() {
//!         Step::Try(rate) => search.verdict(rate <= 9_300_000_000), // this link carries 9.3 Gb/s
//!         Step::Done(rate) => break rate,
//!         Step::Nothing => panic!("even the least rate loses"),
//!     }
//! };
//! assert!((8_500_000_000..9_300_000_000).contains(&found));
//! ```
//!
//! Limits: about 25 trials; after 60 it accepts any rate without loss. The rate is valid for now; only a
//! [`Controller`](super::Controller) follows changes.

/// Trials after which any rate without loss is accepted.
const PATIENCE: u32 = 60;

/// How to search. Rates are bits of datagram payload per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// The first rate tried.
    pub start: u64,
    /// Minimum rate.
    pub least: u64,
    /// Maximum rate.
    pub most: u64,
    /// Relative accuracy at which the search stops.
    pub resolution: f64,
    /// Consecutive trials without loss that confirm a rate.
    pub confirmations: u32,
    /// Margin below the confirmed rate, as a fraction.
    pub margin: f64,
}

impl Default for SearchConfig {
    /// Start at 1 Gb/s, between 1 Mb/s and 400 Gb/s, accuracy 2 %, 3 confirmations, margin 5 %.
    fn default() -> Self {
        Self {
            start: 1_000_000_000,
            least: 1_000_000,
            most: 400_000_000_000,
            resolution: 0.02,
            confirmations: 3,
            margin: 0.05,
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send at this rate for a while, then give the [`verdict`](Search::verdict).
    Try(u64),
    /// Use this rate.
    Done(u64),
    /// Even the minimum rate has loss.
    Nothing,
}

/// The search.
#[derive(Clone, Debug)]
pub struct Search {
    config: SearchConfig,
    /// Highest rate without loss, lowest rate with loss.
    good: Option<u64>,
    bad: Option<u64>,
    now: Step,
    confirmed: u32,
    trials: u32,
}

impl Search {
    /// A search before its first trial. Bounds in the wrong order are corrected.
    #[must_use]
    pub fn new(mut config: SearchConfig) -> Self {
        config.least = config.least.max(1);
        config.most = config.most.max(config.least);
        config.start = config.start.clamp(config.least, config.most);
        config.resolution = if config.resolution > 0.001 { config.resolution.min(0.5) } else { 0.001 };
        config.margin = if config.margin > 0.0 { config.margin.min(0.9) } else { 0.0 };
        Self { good: None, bad: None, now: Step::Try(config.start), confirmed: 0, trials: 0, config }
    }

    /// What to do next. It does not change until the next verdict.
    #[must_use]
    pub fn step(&self) -> Step {
        self.now
    }

    /// Trials so far.
    #[must_use]
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// The verdict of the trial: `true` if nothing was lost.
    pub fn verdict(&mut self, lossless: bool) {
        let Step::Try(rate) = self.now else { return };
        self.trials += 1;
        if lossless {
            self.confirmed = if self.good == Some(rate) { self.confirmed + 1 } else { 1 };
            self.good = Some(rate);
        } else {
            self.bad = Some(self.bad.map_or(rate, |bad| bad.min(rate)));
            // A rate that had no loss before has now: the limit is lower, or not sharp.
            if self.good.is_some_and(|good| good >= rate) {
                self.good = None;
            }
        }
        self.now = self.next();
    }

    fn next(&self) -> Step {
        let SearchConfig { least, most, resolution, confirmations, margin, .. } = self.config;
        // If the limit is not sharp, the search might not end.
        let tired = self.trials >= PATIENCE;
        match (self.good, self.bad) {
            (None, None) => self.now,
            (Some(good), None) if good < most => Step::Try(good.saturating_mul(2).min(most)),
            (None, Some(bad)) if bad <= least => Step::Nothing,
            // Try just below the last rate with loss, because the limit was near; then further and further below.
            (None, Some(bad)) => {
                let part = if self.confirmed == 0 || tired { 0.5 } else { 1.0 - 2.0 * resolution };
                Step::Try(scaled(bad, part).clamp(least, most))
            }
            (Some(good), _) if tired => Step::Done(scaled(good, 1.0 - margin).max(least)),
            (Some(good), Some(bad)) if bad as f64 > good as f64 * (1.0 + resolution) && bad - good > 1 => {
                // Rates are compared by ratio, so the middle is the geometric one.
                let middle = (good as f64 * bad as f64).sqrt() as u64;
                Step::Try(middle.clamp(good + 1, bad - 1))
            }
            (Some(good), _) if self.confirmed < confirmations => Step::Try(good),
            (Some(good), _) => Step::Done(scaled(good, 1.0 - margin).max(least)),
        }
    }
}

fn scaled(rate: u64, part: f64) -> u64 {
    (rate as f64 * part) as u64
}
