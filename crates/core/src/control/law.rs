//! The control law: what the rate becomes after each report.
//!
//! ```text
//!            signs of trouble             answer
//!   Climb    loss, queue, receiver        fall to a part of the delivered rate, then Settle
//!            none, and a round is over    ×2 (slow start, RFC 9438, 4.10)
//!   Settle   what was sent before the     nothing new; lower still if less than thought gets through
//!            fall, and the queue, drain   then Raise
//!   Raise    loss, queue, receiver        fall, Settle
//!            none                         × (1 + gain · time); far above the last trouble the gain doubles
//!   Blind    no reports                   halve, and again
//! ```
//!
//! Increase is the slower, in proportion, the greater the rate, and the waiting time taken for trouble is the shorter:
//! of several senders at one queue the fastest yields first and rises last, which makes their shares equal (Chiu and
//! Jain 1989; Bansal and Balakrishnan 2001 for steps that are not linear; Swift 2020 for the target delay).
//!
//! Loss is counted against what is lost at any rate by a sequential test (CUSUM, Page 1954): the part that is lost while
//! the rate is well below the last trouble is no sign of too high a rate. Where a fall changes nothing about a small
//! loss, it is taken back (compare RFC 4015).

use super::{
    Cause, ControlConfig, ControlStats, Phase, Report,
    sense::{Sample, Sense},
    trial::{OWN_MOST, Run, Trial, Verdict},
};
use crate::placement::Nanos;

/// After loss: this part of what was delivered.
const KEEP_LOSS: f64 = 0.8;
/// After signs that came before any loss.
const KEEP_EARLY: f64 = 0.9;
/// Lost packets that are a sign, where none are lost at any rate.
const LOST: f64 = 3.0;
/// Loss that is forgiven: the greatest that is held for the way's own without a trial, and less than the goal of 1e-4.
const FORGIVEN: f64 = 3e-5;
/// A look at the way's own loss lasts until this many packets are lost, and half a second, or [`OWN_LONGEST`] seconds.
const OWN_LOST: f64 = 20.0;
/// Where so many lost packets were to be expected and none was, the way does not lose that part: chance is 1 in 400.
const GAP: f64 = 6.0;
const OWN_LONGEST: f64 = 4.0;
/// Below this part of the rate of the last trouble, loss is the way's own.
const BELOW: f64 = 0.95;
/// Without trouble for so long above it, there is new room.
const ROOM: Nanos = Nanos(2_000_000_000);
/// A fall costs packets; the rate goes near the last trouble again when this part of what was sent since is as much.
const REPAY: f64 = 5e-5;
/// But after this time in any case, or new room would not be found.
const REPAY_MOST: Nanos = Nanos(4_000_000_000);
/// After a climb, after this.
const TRIED: Nanos = Nanos(1_000_000_000);
/// Greatest growth, per second: e-fold in half a second.
const FASTEST: f64 = 2.0;
/// Settling longer than this means that what keeps the queue full is not this sender.
const PATIENCE: Nanos = Nanos(1_000_000_000);
/// Finds and keeps the highest rate at which nothing is lost. See the [module](super).
#[derive(Clone, Debug)]
pub struct Controller {
    config: ControlConfig,
    sense: Sense,
    rate: f64,
    phase: Phase,
    /// When the rate was last changed by a step: what was sent earlier says nothing about it.
    stepped: Nanos,
    /// What got through at the last trouble.
    known: Option<f64>,
    /// Growth is this many times the gentle one.
    gain: f64,
    /// Part of the packets that is lost at any rate.
    own: f64,
    window: Run,
    gap: Run,
    /// The sequential test: packets lost beyond what is forgiven, and lost and sent since it was last zero.
    excess: f64,
    run: Run,
    /// Reports without loss before that.
    calm_before: f64,
    trial: Option<Trial>,
    /// No probing near the last trouble before this time.
    repaid: Nanos,
    /// At most this long after the fall.
    patient: Nanos,
    /// Seconds from sending a mark to its report.
    round: f64,
    quiet: Quiet,
    stats: ControlStats,
}

/// How long nothing was heard.
#[derive(Clone, Copy, Debug, Default)]
struct Quiet {
    /// The last mark.
    marked: Option<Nanos>,
    /// Time during which marks were sent since the last report.
    since_report: u64,
    ever_heard: bool,
}

impl Controller {
    /// A controller that has heard nothing. Bounds in the wrong order are put right.
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

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> ControlStats {
        ControlStats { lost: self.sense.lost(), ..self.stats }
    }

    /// The part of all packets that is lost at any rate, as far as it was learnt.
    #[must_use]
    pub fn own_loss(&self) -> f64 {
        self.own
    }

    /// A mark was sent at `now`. Where marks are answered by silence, the rate is halved, again and again.
    pub fn marked(&mut self, now: Nanos) {
        let interval = self.config.interval.0;
        let quiet = &mut self.quiet;
        // A sender that paused is not a receiver that is silent.
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

    /// A report came at `now`, by the clock of the marks.
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

    /// Packets of before the fall: if even less gets through than the rate was set to, follow.
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

    /// The sequential test, and what is lost at any rate.
    fn count(&mut self, sample: &Sample) {
        // While a loss is on trial, only more than it is a sign.
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
            // Only a trial can raise it: with several senders congestion, too, is in every window.
            self.own -= 0.5 * (self.own - self.window.part()).max(0.0);
            self.window = Run::default();
        }
    }

    /// Whether something says that the rate is too high.
    fn sign(&self, sample: &Sample) -> Option<Cause> {
        // Chance makes the number of lost packets differ by its root; four times that is no chance.
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

    /// Waiting that means trouble: 2 ms at 1 Gb/s, less at higher rates, more where it cannot be told well.
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
        // What the first search costs is paid once: it is no reason to wait long.
        self.patient = if climbing { TRIED } else { REPAY_MOST };
        self.repaid = now.plus(repayment(lost, sample).min(self.patient));
        let delivered = sample.delivered.min(self.rate);
        self.known = Some(delivered);
        (self.phase, self.stepped, self.gain, self.excess) = (Phase::Settle, now, 1.0, 0.0);
        self.run = Run::default();
        // One report may be of a moment when the receiver did not run: half at most, the next will tell.
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

    /// What was sent before the fall has come; wait until the queue is gone and a trial is over.
    fn settle(&mut self, sample: &Sample, now: Nanos) {
        let settled = now.since(self.stepped);
        if let Some(trial) = self.trial {
            let verdict = trial.verdict();
            if verdict == Verdict::Open {
                return;
            }
            self.trial = None;
            // A queue that does not go away would lose packets at the lower rate too.
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

    /// The fall was for nothing: what is lost is lost at any rate.
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
        // What is sent too much before the answer comes grows with the square of the time that takes.
        let careful = 0.006 / (self.round + self.config.interval.0 as f64 / 1e9);
        let scale = (1e9 / self.rate).sqrt();
        let gentle = (0.07 * quarter_power(scale * scale * scale)).min(careful);
        let gain = if below { 4.0 } else { self.gain };
        self.set(self.rate * (1.0 + (gentle * gain).min(FASTEST) * seconds));
    }

    /// A rate that is not made use of says nothing about a higher one (RFC 7661).
    fn is_used(&self, sample: &Sample) -> bool {
        sample.sent >= 0.75 * self.rate
    }

    fn set(&mut self, rate: f64) {
        self.rate = rate.clamp(self.config.least as f64, self.config.most as f64);
    }
}

/// How long until so many lost packets are [`REPAY`] of those sent.
fn repayment(lost: f64, sample: &Sample) -> Nanos {
    let a_second = sample.packets / sample.seconds.max(1e-6);
    Nanos((lost.max(0.0) / (REPAY * a_second.max(1.0)) * 1e9) as u64)
}

/// Only roots: they are exact on every machine, so that a seed replays a world anywhere.
fn quarter_power(x: f64) -> f64 {
    x.sqrt().sqrt()
}
