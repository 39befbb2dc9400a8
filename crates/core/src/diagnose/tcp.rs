//! Finds what bounds a TCP transfer, from the times that the sender's kernel counts, from retransmissions, and from the
//! waiting times of both applications.

use super::case::{Cause, Finding};
pub use super::flow::{Flow, ReaderTimes, Round, WindowDoubt, WindowLimit};
use super::waits::waits;

/// Returns what bounds this flow, most important first; empty if only the path does.
#[must_use]
pub fn diagnose(flow: &Flow) -> Vec<Finding> {
    let mut findings = Vec::new();
    if flow.has_vanished() {
        let text = format!("none of {} full segments arrived, though the connection was made", flow.segments);
        return vec![Finding::new(Cause::Mtu, 0.7, text)];
    }
    let of = |time: f64| time / flow.seconds.max(1e-9);
    let (rwnd, sndbuf, idle) = (of(flow.rwnd_limited), of(flow.sndbuf_limited), 1.0 - of(flow.busy).min(1.0));
    waits(flow, [rwnd, sndbuf, idle], &mut findings);
    let limited = rwnd + sndbuf + idle;
    let share = (1.0 - limited) * 0.8;
    if flow.is_sprayed() {
        let text = format!(
            "{} times a segment arrived behind a later one, of {}; {} of {} retransmissions were not needed",
            flow.reordered, flow.segments, flow.doubled, flow.retransmitted
        );
        findings.push(Finding::new(Cause::Spraying, 0.9, text));
    }
    if limited < 0.6 {
        let causes = Pattern::of(flow).causes();
        findings.extend(causes.into_iter().map(|(cause, sure, text)| {
            Finding::new(cause, if sure { 0.5 + share / 2.0 } else { 0.5 }, text)
        }));
    }
    findings.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    findings
}

/// The pattern of a TCP flow's losses, from its measurements per round trip.
///
/// ```text
///   losses    at the top of the queue ──────────── the bottleneck: full, or with a buffer that is too short
///             no queue, always at one rate ─────── a policer
///             at any window, many at a time ────── bursts
///             at any window, one or two ────────── loss
///             anything else ────────────────────── not known
/// ```
///
/// The kernel smooths round-trip times and may round the smallest to a millisecond, so a shorter queue is not visible.
/// Slow start ends in losses on any path, so the first losses are left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Nothing was lost after slow start.
    None,
    /// Too few loss events for a pattern (their number), and the queue was not full.
    Few(usize),
    /// The bottleneck is full, and its queue is as long as congestion control needs.
    Full {
        /// Fraction of the segments that were retransmitted.
        lost: f64,
    },
    /// The queue of the bottleneck is full, and shorter than congestion control needs.
    Shallow {
        /// Its length as a fraction of the round-trip time.
        queue: f64,
        /// Segments lost per event.
        each: f64,
    },
    /// Losses at the same rate each time, without a queue.
    Policer {
        /// Segments lost per event.
        each: f64,
        /// Loss events, or round trips with losses.
        times: usize,
        /// Whether the rate was higher for a moment, as a token bucket allows and a line does not. Otherwise, the cause
        /// may also be a buffer that is too short to be visible.
        bucket: bool,
    },
    /// Many segments lost at a time, at any window.
    Bursts {
        /// Segments lost per event.
        each: f64,
        /// Loss events.
        times: usize,
    },
    /// One or two segments lost at a time, at any window.
    Random {
        /// Fraction of the segments lost.
        lost: f64,
    },
    /// From some time on, nothing arrived any more: segments were only sent again.
    Stalled {
        /// How long this lasted, s.
        seconds: f64,
    },
    /// None of these patterns.
    Unknown,
}

impl Pattern {
    /// The pattern of a flow's losses.
    #[must_use]
    pub fn of(flow: &Flow) -> Pattern {
        if let Some(seconds) = stalled(flow) {
            return Pattern::Stalled { seconds };
        }
        let Some(seen) = seen(flow) else { return Pattern::None };
        let lossy = seen.rounds.iter().filter(|round| round.lost > 0).count();
        match seen.events.len() {
            0 => Pattern::None,
            _ if lossy as f64 > ALWAYS * seen.rounds.len() as f64 => always(&seen, lossy),
            times if times < FEWEST => few(&seen),
            _ => at_times(flow, &seen),
        }
    }

    /// The causes that the pattern shows, whether each is certain, and the evidence.
    #[must_use]
    pub fn causes(&self) -> Vec<(Cause, bool, String)> {
        match *self {
            Pattern::Shallow { queue, each } => {
                let text = format!(
                    "{each:.0} segments are lost each time, when the queue has reached {:.0} % of the round trip",
                    queue * 100.0
                );
                vec![(Cause::ShallowBuffer, true, text)]
            }
            Pattern::Policer { each, times, bucket } => {
                let text = format!(
                    "segments are lost at the same rate each time ({times} times, {each:.0} each), and no queue grew before"
                );
                match bucket {
                    true => vec![(Cause::Policer, true, text)],
                    false => [Cause::ShallowBuffer, Cause::Policer]
                        .map(|cause| {
                            (
                                cause,
                                false,
                                format!("{text}: a policer, or a buffer that is too short to be seen"),
                            )
                        })
                        .into(),
                }
            }
            Pattern::Bursts { each, times } => {
                let text = format!(
                    "{times} times some {each:.0} segments were lost together, whatever the rate and the queue"
                );
                vec![(Cause::BurstLoss, true, text)]
            }
            Pattern::Random { lost } => {
                let text = format!("{lost:.1e} of the segments are lost, one or two at a time, at any rate");
                vec![(Cause::Loss, true, text)]
            }
            Pattern::None
            | Pattern::Few(_)
            | Pattern::Full { .. }
            | Pattern::Stalled { .. }
            | Pattern::Unknown => Vec::new(),
        }
    }
}

/// Minimum number of loss events for a pattern.
const FEWEST: usize = 3;
/// Losses with at most this many round trips without a loss between them are one event.
const APART: usize = 2;
/// Maximum duration of the losses that end slow start: round trips, and seconds.
const START: (usize, f64) = (20, 1.0);
/// Maximum duration of slow start, round trips.
const GROWS: usize = 30;
/// Minimum number of round trips for a pattern.
const ROUNDS: usize = 10;
/// A queue is visible if it is longer than this, s, and than this fraction of the round-trip time.
const VISIBLE: (f64, f64) = (1.2e-3, 0.04);
/// A queue of this fraction of the round-trip time is long enough for congestion control. CUBIC needs 0.43.
const FULL: f64 = 0.35;
/// A queue that overflows is at least this fraction of the longest queue; below the second value, the queue is not the
/// cause.
const TOP: f64 = 0.8;
const BELOW: f64 = 0.55;
/// An event of at least this many lost segments is a burst; one of at most the second is a single loss.
const MANY: f64 = 4.0;
const SINGLE: f64 = 2.5;
/// Relative standard deviation of windows that are equal (for three events, for five), different, and very different.
const SAME: (f64, f64) = (0.05, 0.09);
const UNLIKE: f64 = 0.15;
const WILD: f64 = 0.4;
/// Relative standard deviation of the number of segments between two losses: below the first, a rate limit; above the
/// second, chance.
const REGULAR: f64 = 0.3;
const CHANCE: f64 = 0.4;
/// Relative standard deviation of the windows at which a queue overflows is below this.
const ALIKE: f64 = 0.2;
/// If more than this fraction of the round trips has losses, there are no separate loss events.
const ALWAYS: f64 = 0.2;
/// Maximum decrease of the round-trip time after a loss if there is no queue: s, and fraction of the round-trip time.
const NO_QUEUE: (f64, f64) = (2e-4, 2e-3);

/// A loss event.
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    window: f64,
    rtt: f64,
    /// Round-trip time a few round trips after it.
    later: f64,
    lost: u32,
    /// Segments sent since the previous event.
    since: f64,
}

/// The rounds after slow start.
struct Seen {
    base: f64,
    top: f64,
    rounds: Vec<Round>,
    events: Vec<Event>,
}

impl Seen {
    fn queue(&self, rtt: f64) -> f64 {
        (rtt - self.base).max(0.0)
    }

    fn is_visible(&self) -> bool {
        self.top > VISIBLE.0.max(VISIBLE.1 * self.base)
    }

    /// Median and lower quartile of the queues before losses, as fractions of the longest queue.
    fn height(&self, rtts: &[f64]) -> (f64, f64) {
        let queues: Vec<f64> = rtts.iter().filter(|rtt| **rtt > 0.0).map(|&rtt| self.queue(rtt)).collect();
        let part = |q| quantile(&queues, q) / self.top.max(1e-9);
        (part(0.5), part(0.25))
    }

    /// 90th and 99th percentiles of the rate of delivery, relative to the median.
    fn rates(&self) -> (f64, f64) {
        let rates: Vec<f64> = self.rounds.iter().map(|round| round.rate).filter(|rate| *rate > 0.0).collect();
        let usual = quantile(&rates, 0.5).max(1e-9);
        (quantile(&rates, 0.9) / usual, quantile(&rates, 0.99) / usual)
    }

    fn lost(&self) -> f64 {
        let sum = |of: fn(&Round) -> u32| self.rounds.iter().map(|round| f64::from(of(round))).sum::<f64>();
        sum(|round| round.lost) / sum(|round| round.sent).max(1.0)
    }

    fn overflow(&self, each: f64) -> Pattern {
        match self.top / self.base.max(1e-9) {
            queue if queue >= FULL => Pattern::Full { lost: self.lost() },
            queue => Pattern::Shallow { queue, each },
        }
    }
}

/// The pattern if a large fraction of the round trips has losses.
fn always(seen: &Seen, lossy: usize) -> Pattern {
    let of: Vec<&Round> = seen.rounds.iter().filter(|round| round.lost > 0).collect();
    let each = quantile(&of.iter().map(|round| f64::from(round.lost)).collect::<Vec<_>>(), 0.5);
    let (height, low) = seen.height(&of.iter().map(|round| round.rtt).collect::<Vec<_>>());
    if seen.is_visible() && height >= TOP && low >= BELOW {
        return seen.overflow(each);
    }
    let (even, most) = seen.rates();
    // A token bucket lets a higher rate pass for a moment, which a slower line never does.
    if !seen.is_visible() && seen.lost() > 0.01 && even < 1.12 && most > 1.07 {
        return Pattern::Policer { each, times: lossy, bucket: true };
    }
    let all: Vec<f64> = seen.rounds.iter().map(|round| f64::from(round.lost)).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|lost| (lost - mean).powi(2)).sum::<f64>() / all.len() as f64;
    // Random losses are as frequent in each round trip. If the rate is constant and no queue is visible, there is
    // another cause.
    if variance < 2.0 * mean && (seen.is_visible() || even > 1.3) {
        return Pattern::Random { lost: seen.lost() };
    }
    Pattern::Unknown
}

/// Maximum number of segments that a full queue drops at a time: the window exceeds it by only a few segments.
const BEYOND: u32 = 8;

/// The pattern if there are few events: one is enough to recognise a full queue.
fn few(seen: &Seen) -> Pattern {
    let rtts: Vec<f64> = seen.events.iter().map(|event| event.rtt).collect();
    let one_by_one = seen.events.iter().all(|event| event.lost <= BEYOND);
    let full = one_by_one && seen.top / seen.base.max(1e-9) >= FULL && seen.height(&rtts).1 >= TOP;
    if full { Pattern::Full { lost: seen.lost() } } else { Pattern::Few(seen.events.len()) }
}

/// The pattern if there are separate loss events.
fn at_times(flow: &Flow, seen: &Seen) -> Pattern {
    let times = seen.events.len();
    let of = |value: fn(&Event) -> f64| seen.events.iter().map(value).collect::<Vec<_>>();
    let each = quantile(&of(|event| f64::from(event.lost)), 0.5);
    let (height, low) = seen.height(&of(|event| event.rtt));
    let spread = variation(&of(|event| event.window));
    let overflows = seen.is_visible() && height >= TOP && low >= BELOW;
    if overflows && (flow.paced || spread < ALIKE) {
        return match seen.overflow(each) {
            // A window that exceeds the queue by a few segments loses only these.
            Pattern::Full { .. } if !flow.paced && each > f64::from(BEYOND) => Pattern::Unknown,
            pattern => pattern,
        };
    }
    let elsewhere = !seen.is_visible() || height < BELOW;
    let same = if times >= 5 { SAME.1 } else { SAME.0 };
    let grew = quantile(&of(|event| event.rtt - event.later), 0.5);
    let no_queue = grew < NO_QUEUE.0 + NO_QUEUE.1 * seen.base;
    // The first event does not count: the distance to it depends on slow start.
    let apart = variation(&of(|event| event.since)[1..]);
    let regular = spread < same && apart < REGULAR;
    if !seen.is_visible() && !flow.paced && regular && no_queue && seen.rates().0 < 1.4 {
        return Pattern::Policer { each, times, bucket: false };
    }
    // The window of a paced flow says nothing; only its queue does.
    let unlike = |least: f64| if flow.paced { seen.is_visible() } else { spread >= least };
    if elsewhere && each >= MANY && unlike(if seen.is_visible() { UNLIKE } else { WILD }) {
        return Pattern::Bursts { each, times };
    }
    if elsewhere && each <= SINGLE && unlike(UNLIKE) && apart > CHANCE {
        return Pattern::Random { lost: seen.lost() };
    }
    Pattern::Unknown
}

/// A flow that sends nothing new for this long at its end, s, and for this fraction of its time, has stalled, if it retransmitted as often.
const STALL: (f64, f64) = (1.0, 0.2);
const STALL_RETRANSMISSIONS: u32 = 2;

/// How long a flow only retransmitted at its end, s; `None` if it did not stall.
fn stalled(flow: &Flow) -> Option<f64> {
    let (first, last) = flow.rounds.first().zip(flow.rounds.last())?;
    let is_new = |round: &&Round| round.sent > round.lost;
    let tail = flow.rounds.iter().rposition(|round| is_new(&round)).map_or(0, |at| at + 1);
    let again: u32 = flow.rounds[tail..].iter().map(|round| round.lost).sum();
    let seconds = last.at - flow.rounds.get(tail)?.at;
    let long = STALL.0.max(STALL.1 * (last.at - first.at));
    (again >= STALL_RETRANSMISSIONS && seconds >= long).then_some(seconds)
}

/// The rounds after slow start; `None` if there are too few.
fn seen(flow: &Flow) -> Option<Seen> {
    let rounds = &flow.rounds;
    let first = rounds.iter().position(|round| round.lost > 0)?;
    let slow = first <= GROWS || rounds[first].at - rounds[0].at <= START.1;
    let quiet = |n: usize| rounds[n..].iter().take(APART + 1).all(|round| round.lost == 0);
    let over = |n: usize| n - first >= START.0 && rounds[n].at - rounds[first].at > START.1;
    // Losses that begin later than this are not the end of slow start.
    let begin = if slow { (first + 1..rounds.len()).find(|&n| quiet(n) || over(n))? } else { GROWS };
    let rounds = &rounds[begin..];
    if rounds.len() < ROUNDS {
        return None;
    }
    let rtts: Vec<f64> = rounds.iter().map(|round| round.rtt).filter(|rtt| *rtt > 0.0).collect();
    let low = quantile(&rtts, 0.05);
    // If the queue never drains, only the kernel's smallest round-trip time is without it; that is up to a millisecond
    // too short.
    let base = if flow.min_rtt > 0.0 && low - flow.min_rtt > 1.5e-3 { flow.min_rtt } else { low };
    let events = events(rounds);
    // CUBIC fills a short queue only for a few round trips, so the 95th percentile may miss it.
    let before: Vec<f64> = events.iter().map(|event| event.rtt).filter(|rtt| *rtt > 0.0).collect();
    let before = if before.len() >= FEWEST { quantile(&before, 0.5) } else { 0.0 };
    let top = (quantile(&rtts, 0.95).max(before) - base).max(0.0);
    Some(Seen { base, top, rounds: rounds.to_vec(), events })
}

fn events(rounds: &[Round]) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    let (mut last, mut sent) = (None, 0.0);
    let mut until = vec![0.0; rounds.len()];
    for (at, round) in until.iter_mut().zip(rounds) {
        sent += f64::from(round.sent);
        *at = sent;
    }
    let mut begun = 0.0;
    for (n, round) in rounds.iter().enumerate().filter(|(_, round)| round.lost > 0) {
        match (last, all.last_mut()) {
            (Some(last), Some(event)) if n - last <= APART + 1 => event.lost += round.lost,
            _ => {
                let window = rounds[n.saturating_sub(1)].window;
                let since = until[n] - std::mem::replace(&mut begun, until[n]);
                all.push(Event { window, rtt: round.rtt, later: round.rtt, lost: round.lost, since });
            }
        }
        last = Some(n);
        // A few round trips later, the flow has recovered with a smaller window.
        let later = rounds[n..].iter().skip(2).take(4).filter(|round| round.rtt > 0.0);
        let later: Vec<f64> = later.map(|round| round.rtt).collect();
        if let (Some(event), false) = (all.last_mut(), later.is_empty()) {
            event.later = quantile(&later, 0.5);
        }
    }
    all
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((last * q).round() as usize).copied().unwrap_or(0.0)
}

/// Relative standard deviation.
fn variation(values: &[f64]) -> f64 {
    let number = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / number;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / number).sqrt() / mean.max(1e-9)
}
