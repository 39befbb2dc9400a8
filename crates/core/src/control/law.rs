//! The control law: what the rate becomes after each report.
//!
//! ```text
//!            signs of congestion          response
//!   Climb    loss, queue, receiver        fall to a fraction of the delivered rate, then Settle
//!            none, and a round is over    ×2 (slow start, RFC 9438, 4.10)
//!   Settle   what was sent before the     no rise; lower still if less than expected is delivered
//!            fall, and the queue, drain   then Raise
//!   Raise    loss, queue, receiver        fall, Settle
//!            none                         × (1 + gain · time); far above the last congestion the gain doubles
//!   Blind    no reports                   halve, and again
//! ```
//!
//! At a higher rate, the relative increase is slower, and a shorter delay counts as congestion: of several senders at
//! one queue, the fastest yields first and rises last, which makes their shares equal (Chiu and Jain 1989; Bansal and
//! Balakrishnan 2001 for steps that are not linear; Swift 2020 for the target delay).
//!
//! A sequential test (CUSUM, Page 1954) compares loss with the path's own, which occurs at any rate: loss while the rate
//! is well below the last congestion does not mean that the rate is too high. If a fall does not reduce a small loss, it
//! is undone (compare RFC 4015).

use super::{
    Cause, ControlConfig, ControlStats, OWN_MOST, Phase, Report, Run, Sample, Sense, Trial, Verdict,
};
use crate::placement::Nanos;

/// After loss: this fraction of the delivered rate.
const KEEP_LOSS: f64 = 0.8;
/// After signs that precede loss.
const KEEP_EARLY: f64 = 0.9;
/// Lost packets that are a sign of congestion if the path has no loss of its own.
const LOST: f64 = 3.0;
/// Tolerated loss: the greatest that is attributed to the path without a trial, and less than the goal of 1e-4.
const FORGIVEN: f64 = 3e-5;
/// A measurement of the path's own loss lasts until this many packets are lost, and half a second, or [`OWN_LONGEST`]
/// seconds.
const OWN_LOST: f64 = 20.0;
/// If this many lost packets were expected and none was lost, the path does not lose that fraction: chance is 1 in 400.
const GAP: f64 = 6.0;
const OWN_LONGEST: f64 = 4.0;
/// Below this fraction of the rate at the last congestion, loss is the path's own.
const BELOW: f64 = 0.95;
/// After this time above it without congestion, there is new room.
const ROOM: Nanos = Nanos(2_000_000_000);
/// A fall costs packets; the rate approaches the last congestion again when they are this fraction of what was sent
/// since.
const REPAY: f64 = 5e-5;
/// But at the latest after this time, or new room would not be found.
const REPAY_MOST: Nanos = Nanos(4_000_000_000);
/// The same limit after a climb.
const TRIED: Nanos = Nanos(1_000_000_000);
/// Maximum growth, per second: e-fold in half a second.
const FASTEST: f64 = 2.0;
/// Settling longer than this means that another sender keeps the queue full.
const PATIENCE: Nanos = Nanos(1_000_000_000);
/// Finds and keeps the highest rate at which nothing is lost. See the [module](super).
#[derive(Clone, Debug)]
pub struct Controller {
    config: ControlConfig,
    sense: Sense,
    rate: f64,
    phase: Phase,
    /// When the rate last changed by a step: packets sent earlier carry no information about the new rate.
    stepped: Nanos,
    /// The delivered rate at the last congestion.
    known: Option<f64>,
    /// Growth as a multiple of the gentle one.
    gain: f64,
    /// Fraction of the packets that is lost at any rate.
    own: f64,
    window: Run,
    gap: Run,
    /// The sequential test: packets lost beyond the tolerated loss, and lost and sent since it was last zero.
    excess: f64,
    run: Run,
    /// Reports without loss before that.
    calm_before: f64,
    trial: Option<Trial>,
    /// No probing near the last congestion before this time.
    repaid: Nanos,
    /// At most this long after the fall.
    patient: Nanos,
    /// Seconds from sending a mark to its report.
    round: f64,
    quiet: Quiet,
    stats: ControlStats,
}

/// How long no report has arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Quiet {
    /// The last mark.
    marked: Option<Nanos>,
    /// Time during which marks were sent since the last report.
    since_report: u64,
    ever_heard: bool,
}

impl Controller {
    /// A controller before its first report. Bounds in the wrong order are corrected.
    #[must_use]
    pub fn new(config: &ControlConfig) -> Self {
        let mut config = *config;
        config.least = config.least.max(1000);
        config.most = config.most.max(config.least);
        config.start = config.start.clamp(config.least, config.most);
        config.interval = Nanos(config.interval.0.clamp(1_000_000, 1_000_000_000));
        Self {
            rate: config.start as f64,
            config,
            sense: Sense::default(),
            phase: Phase::Climb,
            stepped: Nanos(0),
            known: None,
            gain: 1.0,
            own: 0.0,
            window: Run::default(),
            gap: Run::default(),
            excess: 0.0,
            run: Run::default(),
            calm_before: 0.0,
            trial: None,
            repaid: Nanos(0),
            patient: REPAY_MOST,
            round: 0.0,
            quiet: Quiet::default(),
            stats: ControlStats::default(),
        }
    }

    /// Bits of datagram payload per second that may be sent now.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate as u64
    }

    /// What it is doing.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> ControlStats {
        ControlStats { lost: self.sense.lost(), ..self.stats }
    }

    /// The fraction of packets lost at any rate, as measured so far.
    #[must_use]
    pub fn own_loss(&self) -> f64 {
        self.own
    }

    /// A mark was sent at `now`. While no reports arrive, the rate is halved repeatedly.
    pub fn marked(&mut self, now: Nanos) {
        let interval = self.config.interval.0;
        let quiet = &mut self.quiet;
        // A pause of the sender must not count as silence of the receiver.
        let active = quiet.marked.map_or(0, |before| now.since(before).0.min(3 * interval));
        quiet.marked = Some(now);
        quiet.since_report += active;
        let patience = if quiet.ever_heard { (12 * interval).max(100_000_000) } else { 1_000_000_000 };
        if quiet.since_report < patience {
            return;
        }
        quiet.since_report = 0;
        self.phase = Phase::Blind;
        self.stats.silences += 1;
        self.stats.last = Some(Cause::Silence);
        self.trial = None;
        self.set(self.rate / 2.0);
    }

    /// A report arrived at `now`, by the clock of the marks.
    pub fn report(&mut self, report: &Report, now: Nanos) {
        if self.sense.is_stale(report) {
            self.stats.stale += 1;
            return;
        }
        (self.quiet.since_report, self.quiet.ever_heard) = (0, true);
        self.stats.reports += 1;
        let Some(sample) = self.sense.take(report) else { return };
        let round = now.since(report.mark_time).0 as f64 / 1e9;
        self.round += (round - self.round) * if self.stats.reports == 1 { 1.0 } else { 0.125 };
        if self.phase == Phase::Blind {
            (self.phase, self.stepped) = (Phase::Climb, now);
        }
        let fresh = sample.since >= self.stepped;
        if self.phase == Phase::Settle && !fresh {
            self.refine(&sample);
            return;
        }
        self.count(&sample);
        if let Some(cause) = self.sign(&sample) {
            self.fall(cause, &sample, now);
            return;
        }
        match self.phase {
            Phase::Climb => self.climb(&sample, fresh, now),
            Phase::Settle => self.settle(&sample, now),
            Phase::Raise | Phase::Blind => self.raise(&sample, now),
        }
    }

    /// Packets sent before the fall: if the delivered rate is below the rate set, lower the rate to it.
    fn refine(&mut self, sample: &Sample) {
        let part = sample.lost / sample.packets.max(1.0);
        let beyond = sample.lost - self.own * sample.packets;
        self.repaid = self.repaid.plus(repayment(beyond, sample)).min(self.stepped.plus(self.patient));
        if part > 0.02 && sample.delivered * KEEP_LOSS < self.rate {
            self.known = self.known.map(|known| known.min(sample.delivered));
            self.trial = None;
            self.set((sample.delivered * KEEP_LOSS).max(self.rate * 0.5));
        }
    }

    /// Update the sequential test and the path's own loss.
    fn count(&mut self, sample: &Sample) {
        // While a loss is on trial, only greater loss is a sign.
        let own = self.trial.map_or(0.0, |trial| trial.part).max(self.own);
        let expected = sample.packets * (FORGIVEN + 2.0 * own);
        self.excess = (self.excess + sample.lost - expected).max(0.0);
        if self.excess == 0.0 {
            self.run = Run::default();
        }
        if self.run.reports == 0.0 {
            self.calm_before = self.gap.reports.min(20.0);
        }
        self.run.add(sample);
        if let Some(trial) = &mut self.trial {
            trial.add(sample);
        }
        self.window.add(sample);
        self.gap.add(sample);
        if sample.lost > 0.0 {
            self.gap = Run::default();
        } else if self.gap.seconds >= 0.5 && self.gap.sent * self.own >= GAP {
            (self.own, self.gap) = (self.own / 4.0, Run::default());
        }
        let Run { lost, seconds, .. } = self.window;
        if (lost >= OWN_LOST && seconds >= 0.5) || seconds >= OWN_LONGEST {
            // Only a trial can raise it: with several senders, every window contains loss from congestion too.
            self.own -= 0.5 * (self.own - self.window.part()).max(0.0);
            self.window = Run::default();
        }
    }

    /// The sign, if there is one, that the rate is too high.
    fn sign(&self, sample: &Sample) -> Option<Cause> {
        // The standard deviation of the number of lost packets is its root; four times that is not chance.
        let own = self.trial.map_or(0.0, |trial| trial.part).max(self.own);
        let a_second = own * sample.packets / sample.seconds.max(1e-6);
        let enough = LOST + 4.0 * a_second.sqrt();
        let settling = self.phase == Phase::Settle;
        if self.excess >= enough {
            return Some(Cause::Loss);
        }
        if settling {
            return None;
        }
        if sample.socket >= 0.5 || sample.ring >= 0.75 {
            return Some(Cause::Receiver);
        }
        (sample.waiting > self.patience(sample)).then_some(Cause::Queue)
    }

    /// Queueing delay that means congestion: 2 ms at 1 Gb/s, less at higher rates, more if the measurement is noisy.
    fn patience(&self, sample: &Sample) -> f64 {
        let scale = quarter_power(1e9 / self.rate);
        (2e-3 * scale).clamp(0.4e-3, 20e-3) + 4.0 * sample.jitter
    }

    fn fall(&mut self, cause: Cause, sample: &Sample, now: Nanos) {
        let keep = match cause {
            Cause::Loss => KEEP_LOSS,
            _ => KEEP_EARLY,
        };
        let part = self.run.part();
        let small = cause == Cause::Loss
            && part <= OWN_MOST
            && self.trial.is_none()
            && self.run.is_scattered(self.calm_before);
        let climbing = self.phase == Phase::Climb;
        self.trial = small.then_some(Trial::new(self.rate, part, climbing));
        match cause {
            Cause::Loss => self.stats.losses += 1,
            Cause::Queue => self.stats.queues += 1,
            Cause::Receiver => self.stats.receivers += 1,
            Cause::Silence => {}
        }
        self.stats.last = Some(cause);
        let lost = self.run.lost - self.own * self.run.sent;
        // The first search happens once: its cost is no reason to wait long.
        self.patient = if climbing { TRIED } else { REPAY_MOST };
        self.repaid = now.plus(repayment(lost, sample).min(self.patient));
        let delivered = sample.delivered.min(self.rate);
        self.known = Some(delivered);
        (self.phase, self.stepped, self.gain, self.excess) = (Phase::Settle, now, 1.0, 0.0);
        self.run = Run::default();
        // The receiver may not have been running when it measured: fall to half at most, and see the next report.
        self.set((delivered * keep).max(self.rate * 0.5));
    }

    fn climb(&mut self, sample: &Sample, fresh: bool, now: Nanos) {
        let near = self.known.is_some_and(|known| self.rate * 1.4 > known);
        if near {
            self.phase = Phase::Raise;
        } else if fresh && self.is_used(sample) && sample.waiting < self.patience(sample) / 2.0 {
            self.set(self.rate * 2.0);
            self.stepped = now;
        }
    }

    /// The packets sent before the fall have arrived; wait until the queue has drained and a trial is over.
    fn settle(&mut self, sample: &Sample, now: Nanos) {
        let settled = now.since(self.stepped);
        if let Some(trial) = self.trial {
            let verdict = trial.verdict();
            if verdict == Verdict::Open {
                return;
            }
            self.trial = None;
            // A queue that does not drain would lose packets at the lower rate too.
            let calm = sample.waiting <= 3.0 * sample.jitter + 1e-4;
            if let (Verdict::Own(part), true) = (verdict, calm) {
                self.take_back(trial, part, now);
                return;
            }
        }
        if sample.waiting < self.patience(sample) / 2.0 {
            self.phase = Phase::Raise;
        } else if settled > PATIENCE {
            self.sense.rebase();
            self.phase = Phase::Raise;
        }
    }

    /// Undo the fall: the loss occurs at any rate.
    fn take_back(&mut self, trial: Trial, part: f64, now: Nanos) {
        (self.own, self.window) = (part, Run::default());
        self.stats.undone += 1;
        self.stepped = now;
        self.phase = Phase::Raise;
        if trial.climbing {
            (self.phase, self.known) = (Phase::Climb, None);
        }
        self.set(trial.rate);
    }

    fn raise(&mut self, sample: &Sample, now: Nanos) {
        if !self.is_used(sample) {
            return;
        }
        let seconds = sample.seconds.min(0.1);
        let below = self.known.is_some_and(|known| self.rate < BELOW * known);
        if !below && now < self.repaid {
            return;
        }
        if now.since(self.stepped.max(self.repaid)) > ROOM && self.known.is_none_or(|known| self.rate > known)
        {
            self.gain = (self.gain * (1.0 + 1.4 * seconds)).min(200.0);
        }
        // The excess sent before the response grows with the square of the response time.
        let careful = 0.006 / (self.round + self.config.interval.0 as f64 / 1e9);
        let scale = (1e9 / self.rate).sqrt();
        let gentle = (0.07 * quarter_power(scale * scale * scale)).min(careful);
        let gain = if below { 4.0 } else { self.gain };
        self.set(self.rate * (1.0 + (gentle * gain).min(FASTEST) * seconds));
    }

    /// A rate that is not used carries no information about a higher one (RFC 7661).
    fn is_used(&self, sample: &Sample) -> bool {
        sample.sent >= 0.75 * self.rate
    }

    fn set(&mut self, rate: f64) {
        self.rate = rate.clamp(self.config.least as f64, self.config.most as f64);
    }
}

/// The time until `lost` packets are [`REPAY`] of those sent.
fn repayment(lost: f64, sample: &Sample) -> Nanos {
    let a_second = sample.packets / sample.seconds.max(1e-6);
    Nanos((lost.max(0.0) / (REPAY * a_second.max(1.0)) * 1e9) as u64)
}

/// Only square roots: they are exact on every machine, so a simulation gives the same result anywhere.
fn quarter_power(x: f64) -> f64 {
    x.sqrt().sqrt()
}
