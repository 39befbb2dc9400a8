//! The highest rate at which nothing is lost, found and kept while conditions change.
//!
//! A [`Controller`] gets reports of what was sent and received up to each mark (see
//! [`wire::feedback`](crate::wire::feedback)), and sets the rate. [`Search`] is for a receiver that cannot report: trials
//! with a verdict each, then a fixed rate. Neither has a clock or a socket.
//!
//! ```text
//!   rate   ╱▔╲ climb: ×2 until the first sign of congestion           room again: faster and faster
//!         ╱   ╲╱╲╱╲╱╲ raise gently, fall to 0.85 of the delivered rate   ╱
//!        ╱           ╲________________________________________________╱
//!       start         the link became slower: down to the delivered rate
//! ```
//!
//! The rate falls when more packets are lost than are lost at any rate, when packets are delayed more and more (a queue
//! grows, but has not overflowed yet), or when the receiver's buffers fill. It falls to a fraction of the rate
//! *delivered*, not of the rate sent. The laws and their sources: `docs/internals/rate-control.md`.
//!
//! ```
//! use skyhaul_core::{control::*, placement::Nanos};
//! let mut control = Controller::new(&ControlConfig::default());
//! let start = control.rate();
//! // Ten marks, 10 ms apart; all packets sent before each had arrived.
//! for n in 1..=10u64 {
//!     let (time, packets) = (Nanos(n * 10_000_000), n * 1000);
//!     control.marked(time);
//!     let report = Report {
//!         mark_time: time, sent_packets: packets, sent_bytes: packets * 1472, packets, bytes: packets * 1472,
//!         arrived: time, ..Report::default()
//!     };
//!     control.report(&report, time.plus(Nanos(1_000_000)));
//! }
//! assert!(control.rate() > 4 * start);
//! ```
//!
//! Limits: one receiver. It is fair among senders that all use this law; a TCP flow with CUBIC, which fills the queue
//! before it yields, takes more than its share.

mod law;

pub use law::Controller;

use crate::placement::Nanos;
use crate::wire::feedback;

/// Bounds of a [`Controller`]. Rates are bits of datagram payload per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlConfig {
    /// The rate before the first report.
    pub start: u64,
    /// Minimum rate, whatever is lost; a sender that gets no reports falls back to it.
    pub least: u64,
    /// Maximum rate.
    pub most: u64,
    /// Time between two marks. A shorter one reacts faster; 10 to 50 ms is sensible.
    pub interval: Nanos,
}

impl Default for ControlConfig {
    /// Start at 100 Mb/s, between 1 Mb/s and 400 Gb/s, a mark every 10 ms.
    fn default() -> Self {
        Self { start: 100_000_000, least: 1_000_000, most: 400_000_000_000, interval: Nanos(10_000_000) }
    }
}

/// The part of a receiver's report that the law uses. Counts are since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When the mark was sent, by the sender's clock.
    pub mark_time: Nanos,
    /// Packets sent before the mark.
    pub sent_packets: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// Packets that arrived before it.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets that arrived but were rejected because there was no memory or the reader was too slow.
    pub refused: u64,
    /// When the mark arrived, by the receiver's clock (any clock; only differences count).
    pub arrived: Nanos,
    /// Fill level of the socket's buffer, in thousandths.
    pub socket_fill: u16,
    /// Fill level of the ring of finished heaps, in thousandths.
    pub ring_fill: u16,
}

impl From<&feedback::Report> for Report {
    fn from(report: &feedback::Report) -> Self {
        let feedback::Report { echo, state } = report;
        Self {
            mark_time: Nanos(echo.mark_time),
            sent_packets: echo.mark_packets,
            sent_bytes: state.mark_bytes,
            packets: echo.packets,
            bytes: echo.bytes,
            refused: state.no_memory.saturating_add(state.ring_full),
            arrived: Nanos(echo.arrived),
            socket_fill: state.socket_fill,
            ring_fill: state.ring_fill,
        }
    }
}

/// Why the rate fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// More packets were lost than are lost at any rate.
    Loss,
    /// Packets were delayed longer: a queue grew.
    Queue,
    /// The receiver's socket buffer or ring was filling.
    Receiver,
    /// Marks were sent, but no report arrived.
    Silence,
}

impl Cause {
    /// In reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Loss => "loss",
            Cause::Queue => "queue",
            Cause::Receiver => "receiver",
            Cause::Silence => "silence",
        }
    }
}

/// What the controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Doubling.
    Climb,
    /// Just fell: packets sent before are still arriving, or the queue drains.
    Settle,
    /// Raising gently.
    Raise,
    /// No reports: falling back.
    Blind,
}

impl Phase {
    /// In reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Climb => "climb",
            Phase::Settle => "settle",
            Phase::Raise => "raise",
            Phase::Blind => "blind",
        }
    }
}

/// Counters of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Reports used.
    pub reports: u64,
    /// Reports ignored because a newer one had been used.
    pub stale: u64,
    /// Falls for [`Cause::Loss`].
    pub losses: u64,
    /// Falls for [`Cause::Queue`].
    pub queues: u64,
    /// Falls for [`Cause::Receiver`].
    pub receivers: u64,
    /// Halvings for [`Cause::Silence`].
    pub silences: u64,
    /// Falls undone because the loss was the same at the lower rate.
    pub undone: u64,
    /// Packets lost or rejected between the first report and the latest; one that arrives late is no longer counted.
    pub lost: u64,
    /// Cause of the last fall.
    pub last: Option<Cause>,
}

/// Reports over which rates are measured.
const SPAN: usize = 4;
/// The delay is the minimum of this many one-way times.
const WINDOW: usize = 3;
/// How long one half of the base's history lasts.
const BASE: Nanos = Nanos(10_000_000_000);

/// What changed from one report to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// When the earlier mark was sent: all packets counted here were sent after it.
    since: Nanos,
    /// Seconds between the two marks, by the sender's clock.
    seconds: f64,
    /// Packets sent.
    packets: f64,
    /// Packets lost or rejected; negative if late ones arrived.
    lost: f64,
    /// Bits per second sent, over the last few reports.
    sent: f64,
    /// Bits per second delivered, over the last few reports.
    delivered: f64,
    /// Queueing delay in seconds: one-way time above the base.
    waiting: f64,
    /// How uncertain `waiting` is.
    jitter: f64,
    /// Fill level of the fuller of the receiver's buffers, 0 to 1.
    socket: f64,
    ring: f64,
}

/// The last reports.
///
/// Converts cumulative reports to the input of the law: losses, rates and delays since the previous report.
///
/// ```text
///   marks          a      b      c      d            sent rate  = bytes sent from a to d / time they took to send
///   sender clock   ├──────┼──────┼──────┤            delivered  = bytes that came / time they took to arrive, or to
///   receiver clock   ├──────┼───────┼────────┤                    send, whichever is longer (BBR, rate samples)
///                    waiting time grows ▲            waiting    = least of the last one-way times above the base
/// ```
///
/// The two clocks need not agree: only differences count, and their drift (below 1e-4) is less than a queue's growth.
/// Scheduling can only increase a one-way time, so the least of three is taken; the base is the least of the last 10 to
/// 20 s, because routes and clocks drift (RFC 6817, 2.2 and 3.4.2).
#[derive(Clone, Debug, Default)]
struct Sense {
    /// Newest last.
    reports: [Report; SPAN],
    count: usize,
    ways: [i64; WINDOW],
    /// Least one-way times of the previous half and of the current one, which began at the time after it.
    base: [i64; 2],
    base_from: Nanos,
    jitter: f64,
    /// Difference of the counts when they were first compared.
    gone_before: f64,
}

impl Sense {
    /// Whether a report is not newer than the last.
    fn is_stale(&self, report: &Report) -> bool {
        self.count > 0 && report.mark_time <= self.reports[SPAN - 1].mark_time
    }

    /// What changed; `None` for the first report, and for the first after a restart of the receiver.
    fn take(&mut self, report: &Report) -> Option<Sample> {
        let last = self.reports[SPAN - 1];
        let restarted = report.packets < last.packets || report.sent_packets < last.sent_packets;
        let first = self.count == 0 || restarted;
        self.reports.rotate_left(1);
        self.reports[SPAN - 1] = *report;
        self.count = if first { 1 } else { (self.count + 1).min(SPAN) };
        let way = report.arrived.0.cast_signed().wrapping_sub(report.mark_time.0.cast_signed());
        if first {
            self.gone_before += gone(report) - gone(&last);
            (self.ways, self.base, self.base_from) = ([way; WINDOW], [way; 2], report.mark_time);
            return None;
        }
        let waiting = self.wait(way, report.mark_time);
        let oldest = self.reports[SPAN - self.count];
        let spent = seconds(report.mark_time.since(oldest.mark_time));
        let came = seconds(report.arrived.since(oldest.arrived));
        let bits = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8.0;
        let refused = report.refused.saturating_sub(oldest.refused) as f64;
        let good = report.packets.saturating_sub(oldest.packets) as f64;
        let useful = (1.0 - refused / good.max(1.0)).max(0.0);
        Some(Sample {
            since: last.mark_time,
            seconds: seconds(report.mark_time.since(last.mark_time)),
            packets: report.sent_packets.saturating_sub(last.sent_packets) as f64,
            lost: gone(report) - gone(&last),
            sent: bits(report.sent_bytes, oldest.sent_bytes) / spent,
            delivered: bits(report.bytes, oldest.bytes) * useful / spent.max(came),
            waiting,
            jitter: self.jitter,
            socket: f64::from(report.socket_fill) / 1000.0,
            ring: f64::from(report.ring_fill) / 1000.0,
        })
    }

    /// Packets lost since the first report.
    fn lost(&self) -> u64 {
        (gone(&self.reports[SPAN - 1]) - self.gone_before).max(0.0) as u64
    }

    /// Make the present delay the base: it does not fall at a lower rate, so the path became longer, or other senders
    /// keep its queue full.
    fn rebase(&mut self) {
        let least = self.ways.into_iter().min().unwrap_or_default();
        self.base = [least; 2];
    }

    fn wait(&mut self, way: i64, now: Nanos) -> f64 {
        self.ways.rotate_left(1);
        self.ways[WINDOW - 1] = way;
        let least = self.ways.into_iter().min().unwrap_or(way);
        let above = way.saturating_sub(least) as f64 / 1e9;
        self.jitter += (above - self.jitter) / 16.0;
        if now.since(self.base_from) > BASE {
            (self.base, self.base_from) = ([self.base[1], way], now);
        }
        self.base[1] = self.base[1].min(way);
        least.saturating_sub(self.base[0].min(self.base[1])) as f64 / 1e9
    }
}

/// Packets that did not arrive, or were rejected. Negative if the sender counts fewer than the receiver.
fn gone(report: &Report) -> f64 {
    report.sent_packets as f64 - report.packets as f64 + report.refused as f64
}

fn seconds(span: Nanos) -> f64 {
    span.0.max(1) as f64 / 1e9
}

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
///
/// The highest rate at which nothing is lost, found by trials, for a receiver that cannot report while data flow.
///
/// The caller sends at the requested rate for a second or more, checks whether anything was lost (a report at the end, a
/// counter read by hand), and passes the verdict. Doubling finds a rate with loss, bisection narrows the limit, and
/// repeated trials confirm it. A margin is subtracted because the limit varies.
///
/// ```
/// use skyhaul_core::control::{Search, SearchConfig, Step};
/// let mut search = Search::new(SearchConfig::default());
/// let found = loop {
///     match search.step() {
///         Step::Try(rate) => search.verdict(rate <= 9_300_000_000), // this link carries 9.3 Gb/s
///         Step::Done(rate) => break rate,
///         Step::Nothing => panic!("even the least rate loses"),
///     }
/// };
/// assert!((8_500_000_000..9_300_000_000).contains(&found));
/// ```
///
/// Limits: about 25 trials; after 60 it accepts any rate without loss. The rate is valid for now; only a
/// [`Controller`] follows changes.
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

/// Loss above this is never attributed to the path itself.
const OWN_MOST: f64 = 2e-3;
/// Lost packets that complete a half, and its minimum and maximum duration in seconds.
const HALF: f64 = 4.0;
const SHORTEST: f64 = 0.2;
const LONGEST: f64 = 1.5;

/// Packets sent and lost in some seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    sent: f64,
    lost: f64,
    seconds: f64,
    /// Reports, and the sum of the squares of their losses.
    reports: f64,
    squares: f64,
}

impl Run {
    fn add(&mut self, sample: &Sample) {
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
    fn is_scattered(&self, before: f64) -> bool {
        let a_report = self.lost / (self.reports + before).max(1.0);
        self.squares / self.lost.max(1.0) <= 1.5 * (1.0 + a_report) + 0.5
    }

    fn part(&self) -> f64 {
        (self.lost / self.sent.max(1.0)).max(0.0)
    }

    fn is_over(&self) -> bool {
        (self.lost >= HALF && self.seconds >= SHORTEST) || self.seconds >= LONGEST
    }
}

/// A fall for a loss so small that it may be the path's own.
///
/// Tests whether a small loss is the path's own: then it is the same at a lower rate.
///
/// ```text
///   rate  ────┐                         ┌────   undone: the loss is the path's own
///             └───first───┬───second────┤
///             losses here and here      └────   kept: the rate was too high
/// ```
///
/// Both halves must have losses, and not in bursts: a full queue loses many packets at once, while random losses are
/// scattered (the index of dispersion of a Poisson process is 1). So the rise of another sender, or a process that was
/// not scheduled, is not mistaken for steady loss. The length of the halves depends on the number of losses: at a loss
/// of 1e-4 and 10 000 packets a second, it is seconds.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The rate before.
    rate: f64,
    /// The fraction lost before.
    part: f64,
    /// It was climbing.
    climbing: bool,
    halves: [Run; 2],
}

impl Trial {
    fn new(rate: f64, part: f64, climbing: bool) -> Self {
        Self { rate, part, climbing, halves: Default::default() }
    }

    fn add(&mut self, sample: &Sample) {
        let half = usize::from(self.halves[0].is_over());
        self.halves[half].add(sample);
    }

    fn verdict(&self) -> Verdict {
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

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// Not yet.
    Open,
    /// This fraction is lost at any rate.
    Own(f64),
    /// The loss was caused by the rate.
    Rate,
}

#[cfg(test)]
mod tests;
