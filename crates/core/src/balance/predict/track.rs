//! The ticks of one source: its last messages, its rate, and what does not fit.
//!
//! ```text
//!   message ─▶ fits? ─▶ samples (the last 12) ─▶ rate, lowest and highest tick at any time
//!                └ no ─▶ suspects ─▶ three that fit each other: the track begins again with them
//! ```

use crate::placement::Nanos;
use std::collections::VecDeque;

/// Maximum number of messages kept.
const KEPT: usize = 12;
/// A rate is measured over at least this time, ns; until then, the rate that the source states is used.
const MEASURED: u64 = 1_000_000_000;
/// The highest rate decays by half in this time, ns: a source that stops may continue at its former rate at any moment.
const FORGET: f64 = 30e9;
/// A shorter track does not determine the rate.
const SETTLED: Nanos = Nanos(500_000_000);
/// A message fits if its error is at most the ticks in this time, ns, plus a fraction of the time since the last
/// message.
const FITS: f64 = 1e9;
const FITS_PART: f64 = 0.1;
/// A jump is followed when this many consecutive messages fit each other but not the track.
const CONFIRMED: usize = 3;

/// How a message relates to its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// As predicted.
    Fits,
    /// Not as predicted; kept as a suspect.
    Suspect,
    /// Sent before a message that was already handled.
    Stale,
    /// The third consecutive suspect that fits the others: the track begins again with them.
    Jumps,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    tick: u64,
    /// Rate that the source states, ticks per nanosecond; 0 if it states none.
    claimed: f64,
    at: Nanos,
}

/// The ticks of one source.
#[derive(Clone, Debug)]
pub(super) struct Track {
    samples: VecDeque<Sample>,
    suspects: Vec<Sample>,
    since: Nanos,
    pub(super) heard: Nanos,
    /// When the last message was sent, by the source's clock.
    sent: u64,
    /// Ticks per nanosecond; 0 if unknown.
    rate: f64,
    /// The highest rate, which decays slowly.
    fastest: f64,
    /// It has gone on, though it may stand still now.
    pub(super) has_moved: bool,
    /// The tick of its last message, and since when no message stated an earlier one.
    pub(super) latest: u64,
    pub(super) risen: Nanos,
}

impl Track {
    /// The track of a source after its first message.
    #[must_use]
    pub(super) fn new(tick: u64, rate: u32, sent: u64, now: Nanos) -> Track {
        let claimed = f64::from(rate) / 1e9;
        let samples = VecDeque::from([Sample { tick, claimed, at: now }]);
        Track {
            samples,
            suspects: Vec::new(),
            since: now,
            heard: now,
            sent,
            rate: claimed,
            fastest: 0.0,
            has_moved: false,
            latest: tick,
            risen: now,
        }
    }

    /// Handles a message that arrived at `now`; `sent` is the send time by the source's clock, if stated.
    pub(super) fn hear(&mut self, tick: u64, rate: u32, sent: Option<u64>, now: Nanos) -> Heard {
        let sample = Sample { tick, claimed: f64::from(rate) / 1e9, at: now };
        let Some(&last) = self.samples.back() else { return Heard::Stale };
        // If the clock was set back but the tick advanced, the message is not stale.
        if sent.is_some_and(|sent| sent < self.sent) && tick <= last.tick {
            return Heard::Stale;
        }
        self.heard = now;
        self.risen = if tick < self.latest { now } else { self.risen };
        self.latest = tick;
        if self.fits(&sample, &last) {
            self.sent = sent.unwrap_or(self.sent);
            self.suspects.clear();
            self.has_moved |= tick > last.tick;
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

    /// Whether a message at `now` puts the source, whose rate is known, far behind its track.
    #[must_use]
    pub(super) fn falls_back(&self, tick: u64, sent: u64, now: Nanos) -> bool {
        let here = self.samples.back().map_or(0, |last| last.tick).max(self.lowest(now));
        let near = (self.fastest() * 2.0 * FITS).max(1.0) as u64;
        // A source that was only delayed continues from where it was.
        let is_back = self.samples.back().is_some_and(|last| tick < last.tick);
        sent > self.sent && self.is_settled() && is_back && tick.saturating_add(near) < here
    }

    /// Whether the source has gone on to about this tick: its last message states it, or a tick at most `behind` later, or a little
    /// before. One that was held up has, though nothing that it says was predicted.
    #[must_use]
    pub(super) fn continues(&self, tick: u64, behind: u64, now: Nanos) -> bool {
        let near = (self.fastest() * (2.0 * FITS + now.since(self.heard).0 as f64)).max(1.0) as u64;
        let range = self.latest.saturating_sub(behind)..=self.latest.saturating_add(near);
        self.samples.len() + self.suspects.len() >= CONFIRMED && range.contains(&tick)
    }

    /// Whether it has passed this tick since its last message, if nothing held it up.
    #[must_use]
    pub(super) fn may_have_reached(&self, tick: u64, now: Nanos) -> bool {
        self.samples.back().is_some_and(|last| (last.tick..=self.highest(now)).contains(&tick))
    }

    /// Whether a message that arrives at `now` would fit.
    #[must_use]
    pub(super) fn would_fit(&self, tick: u64, now: Nanos) -> bool {
        let sample = Sample { tick, claimed: 0.0, at: now };
        self.samples.back().is_some_and(|last| self.fits(&sample, last))
    }

    fn fits(&self, sample: &Sample, last: &Sample) -> bool {
        if self.rate == 0.0 {
            // The rate is unknown: accept any progress for the first messages.
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
        self.is_confirmed() && self.rate > 0.0
    }

    /// Whether it has been consistent for three messages, though it may stand still.
    #[must_use]
    pub(super) fn is_confirmed(&self) -> bool {
        let ends = self.samples.front().zip(self.samples.back());
        let span = ends.map_or(Nanos(0), |(first, last)| last.at.since(first.at));
        self.samples.len() >= CONFIRMED && span >= SETTLED
    }

    /// Since when it has been consistent.
    #[must_use]
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    /// When it was last heard.
    #[must_use]
    pub(super) fn heard(&self) -> Nanos {
        self.heard
    }

    /// The highest recent rate, ticks per nanosecond; 0 if unknown.
    #[must_use]
    pub(super) fn fastest(&self) -> f64 {
        self.fastest.max(self.rate)
    }

    /// This track in place of `old`, a track of the same source: keeps its highest rate.
    #[must_use]
    pub(super) fn after(self, old: &Track) -> Track {
        Track { fastest: old.fastest, ..self }
    }

    /// The tick at `at` according to the message that was delayed least, extrapolated at the highest rate after the
    /// last message.
    #[must_use]
    pub(super) fn highest(&self, at: Nanos) -> u64 {
        let last = self.samples.back().map_or(at, |last| last.at);
        let then = self.samples.iter().map(|sample| self.carried(sample, last)).max().unwrap_or(0);
        then.saturating_add((self.fastest() * at.since(last).0 as f64) as u64)
    }

    /// The tick at `at` according to the message that was delayed most; before the last message, extrapolated back at
    /// the highest rate.
    #[must_use]
    fn lowest(&self, at: Nanos) -> u64 {
        let last = self.samples.back().map_or(at, |last| last.at);
        let then = self.samples.iter().map(|sample| self.carried(sample, last)).min().unwrap_or(0);
        if at >= last {
            return then.saturating_add((self.rate * at.since(last).0 as f64) as u64);
        }
        then.saturating_sub((self.fastest() * last.since(at).0 as f64) as u64)
    }

    /// The tick that it had certainly reached at `at`: nobody knows whether it went on after its last message.
    #[must_use]
    pub(super) fn reached(&self, at: Nanos) -> u64 {
        self.lowest(self.samples.back().map_or(at, |last| at.min(last.at)))
    }

    /// The tick at `at`, which is after `sample`, extrapolated from `sample` alone.
    fn carried(&self, sample: &Sample, at: Nanos) -> u64 {
        sample.tick.saturating_add((self.rate * at.since(sample.at).0 as f64) as u64)
    }
}

/// Ticks from `a` to `b`. A tick has more bits than the mantissa of an `f64`, but the differences that matter are
/// small.
fn ticks(a: &Sample, b: &Sample) -> f64 {
    let ticks = b.tick.abs_diff(a.tick) as f64;
    if b.tick >= a.tick { ticks } else { -ticks }
}

/// Whether `next` continues the suspects: forward, and after two of them at their rate.
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

/// The median rate of all pairs that are at least half of the span apart (Theil–Sen). Until the messages span a second,
/// the rate that the source states.
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
