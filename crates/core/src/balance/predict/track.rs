//! The ticks of one source over time.

use crate::placement::Nanos;
use std::collections::VecDeque;

/// Messages that are kept.
const KEPT: usize = 12;
/// A rate is measured over at least this time; until then the source's own word counts.
const MEASURED: u64 = 1_000_000_000;
/// Half of the highest rate is forgotten in this time: a source that stops may go on at any moment as it was.
const FORGET: f64 = 30e9;
/// A track shorter than this says little of the rate.
const SETTLED: Nanos = Nanos(500_000_000);
/// A message fits if it is off by less than this time's ticks, and this part of the time since the last.
const FITS: f64 = 1e9;
const FITS_PART: f64 = 0.1;
/// Messages in a row that fit each other, and not what was known, for a jump to be followed.
const CONFIRMED: usize = 3;

/// What a message is to its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// As predicted.
    Fits,
    /// Not as predicted; kept apart.
    Suspect,
    /// Sent before one that was heard.
    Stale,
    /// The third that fits the suspects before it: the track begins anew with them.
    Jumps,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    tick: u64,
    /// What the source says of its rate, ticks per nanosecond; 0: nothing.
    claimed: f64,
    at: Nanos,
}

/// The ticks of one source.
#[derive(Clone, Debug)]
pub(super) struct Track {
    samples: VecDeque<Sample>,
    suspects: Vec<Sample>,
    since: Nanos,
    heard: Nanos,
    /// When the last was sent, by the source's clock.
    sent: u64,
    /// Ticks per nanosecond; 0 if unknown.
    rate: f64,
    /// The highest rate, which is slowly forgotten.
    fastest: f64,
}

impl Track {
    /// A source that was heard for the first time.
    #[must_use]
    pub(super) fn new(tick: u64, rate: u32, sent: u64, now: Nanos) -> Track {
        let claimed = f64::from(rate) / 1e9;
        let samples = VecDeque::from([Sample { tick, claimed, at: now }]);
        Track { samples, suspects: Vec::new(), since: now, heard: now, sent, rate: claimed, fastest: 0.0 }
    }

    /// A message came at `now`; `sent` is the time at which the source sent it by its clock, if it says so.
    pub(super) fn hear(&mut self, tick: u64, rate: u32, sent: Option<u64>, now: Nanos) -> Heard {
        let sample = Sample { tick, claimed: f64::from(rate) / 1e9, at: now };
        let Some(&last) = self.samples.back() else { return Heard::Stale };
        // A clock that is set back makes none stale: its ticks go on.
        if sent.is_some_and(|sent| sent < self.sent) && tick <= last.tick {
            return Heard::Stale;
        }
        self.heard = now;
        if self.fits(&sample, &last) {
            self.sent = sent.unwrap_or(self.sent);
            self.suspects.clear();
            if self.samples.len() == KEPT {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
            self.rate = measured(&self.samples);
            if self.samples.len() == KEPT {
                let passed = now.since(last.at).0 as f64;
                self.fastest = self.rate.max(self.fastest * (-passed / FORGET).exp2());
            }
            return Heard::Fits;
        }
        if !follows(&self.suspects, &sample) {
            self.suspects.clear();
        }
        self.suspects.push(sample);
        if self.suspects.len() < CONFIRMED {
            return Heard::Suspect;
        }
        self.samples = self.suspects.drain(..).collect();
        self.sent = sent.unwrap_or(self.sent);
        self.since = now;
        self.rate = measured(&self.samples);
        Heard::Jumps
    }

    /// Whether its source, whose rate is known, says at `now` that it is far behind where it was.
    #[must_use]
    pub(super) fn falls_back(&self, tick: u64, sent: u64, now: Nanos) -> bool {
        let here = self.samples.back().map_or(0, |last| last.tick).max(self.lowest(now));
        let near = (self.fastest() * 2.0 * FITS).max(1.0) as u64;
        // One that was only held up goes on from where it was.
        let is_back = self.samples.back().is_some_and(|last| tick < last.tick);
        sent > self.sent && self.is_settled() && is_back && tick.saturating_add(near) < here
    }

    /// Whether the source has gone on without a jump to about this tick: at most `behind` later, or a little before.
    #[must_use]
    pub(super) fn continues(&self, tick: u64, behind: u64, now: Nanos) -> bool {
        let near = (self.fastest() * 2.0 * FITS).max(1.0) as u64;
        let range = self.lowest(now).saturating_sub(behind)..=self.highest(now).saturating_add(near);
        self.suspects.is_empty() && self.is_settled() && range.contains(&tick)
    }

    /// Whether a message that came at `now` would fit.
    #[must_use]
    pub(super) fn would_fit(&self, tick: u64, now: Nanos) -> bool {
        let sample = Sample { tick, claimed: 0.0, at: now };
        self.samples.back().is_some_and(|last| self.fits(&sample, last))
    }

    fn fits(&self, sample: &Sample, last: &Sample) -> bool {
        if self.rate == 0.0 {
            // Nothing is known of the rate: any progress will do, once.
            return sample.tick >= last.tick && self.samples.len() < CONFIRMED;
        }
        let passed = sample.at.since(last.at).0 as f64;
        let off = ticks(last, sample) - self.rate * passed;
        off.abs() <= (self.rate * (FITS + FITS_PART * passed)).max(1.0)
    }

    /// Whether it was heard less than `silent` ago.
    #[must_use]
    pub(super) fn is_live(&self, now: Nanos, silent: Nanos) -> bool {
        now.since(self.heard) < silent
    }

    /// Whether it has been consistent for three messages, and its rate is known.
    #[must_use]
    pub(super) fn is_settled(&self) -> bool {
        let ends = self.samples.front().zip(self.samples.back());
        let span = ends.map_or(Nanos(0), |(first, last)| last.at.since(first.at));
        self.samples.len() >= CONFIRMED && span >= SETTLED && self.rate > 0.0
    }

    /// Since when it is consistent.
    #[must_use]
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    /// When it was last heard.
    #[must_use]
    pub(super) fn heard(&self) -> Nanos {
        self.heard
    }

    /// The highest rate of late, ticks per nanosecond; 0 if unknown.
    #[must_use]
    pub(super) fn fastest(&self) -> f64 {
        self.fastest.max(self.rate)
    }

    /// The same source, whose ticks begin anew.
    #[must_use]
    pub(super) fn after(self, old: &Track) -> Track {
        Track { fastest: old.fastest, ..self }
    }

    /// The tick at `at`, by the message that was least delayed; after the last message at the highest rate.
    #[must_use]
    pub(super) fn highest(&self, at: Nanos) -> u64 {
        let last = self.samples.back().map_or(at, |last| last.at);
        let then = self.samples.iter().map(|sample| self.carried(sample, last)).max().unwrap_or(0);
        then.saturating_add((self.fastest() * at.since(last).0 as f64) as u64)
    }

    /// The tick at `at`, by the message that was most delayed; before the last message at the highest rate.
    #[must_use]
    pub(super) fn lowest(&self, at: Nanos) -> u64 {
        let last = self.samples.back().map_or(at, |last| last.at);
        let then = self.samples.iter().map(|sample| self.carried(sample, last)).min().unwrap_or(0);
        if at >= last {
            return then.saturating_add((self.rate * at.since(last).0 as f64) as u64);
        }
        then.saturating_sub((self.fastest() * last.since(at).0 as f64) as u64)
    }

    /// The tick at `at`, which is after that message, by one message.
    fn carried(&self, sample: &Sample, at: Nanos) -> u64 {
        sample.tick.saturating_add((self.rate * at.since(sample.at).0 as f64) as u64)
    }
}

/// Ticks from `a` to `b`. A tick has more bits than a float; the difference of two that count is small.
fn ticks(a: &Sample, b: &Sample) -> f64 {
    let ticks = b.tick.abs_diff(a.tick) as f64;
    if b.tick >= a.tick { ticks } else { -ticks }
}

/// Whether `next` goes on with what `suspects` began: forward, and after two at their rate.
fn follows(suspects: &[Sample], next: &Sample) -> bool {
    let step = |a: &Sample, b: &Sample| (ticks(a, b), b.at.since(a.at).0 as f64);
    let Some(before) = suspects.last() else { return true };
    let (ticks, passed) = step(before, next);
    let rate = match suspects {
        [first, second, ..] => {
            let (ticks, passed) = step(first, second);
            ticks / passed
        }
        _ => return passed > 0.0 && ticks >= 0.0,
    };
    passed > 0.0
        && ticks >= 0.0
        && (ticks - rate * passed).abs() <= (rate * (FITS + FITS_PART * passed)).max(1.0)
}

/// The median rate of pairs at least half of the time apart (Theil–Sen); until messages span a second, what the source says.
fn measured(samples: &VecDeque<Sample>) -> f64 {
    let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return 0.0 };
    let span = last.at.since(first.at).0;
    if (span < MEASURED || samples.len() < CONFIRMED) && last.claimed > 0.0 {
        return last.claimed;
    }
    let mut rates = Vec::with_capacity(KEPT * KEPT / 2);
    for (n, a) in samples.iter().enumerate() {
        for b in samples.iter().skip(n + 1) {
            let apart = b.at.since(a.at).0;
            if apart > 0 && apart >= span / 2 {
                rates.push(ticks(a, b) / apart as f64);
            }
        }
    }
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(last.claimed).max(0.0)
}
