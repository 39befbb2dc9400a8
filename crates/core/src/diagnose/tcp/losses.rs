//! Of which kind the losses of a flow are, from what it did round trip by round trip.
//!
//! ```text
//!   losses    at the top of the queue ──────────── the bottleneck: full, or with a buffer that is too short
//!             no queue, always at one rate ─────── a policer
//!             at any window, many at a time ────── bursts
//!             at any window, one or two ────────── loss
//!             anything else ────────────────────── not known
//! ```
//!
//! Round trips are smoothed by the kernel, and its least one may be rounded to a millisecond: a queue that is shorter than that is
//! not seen. The first losses are the end of slow start, which ends in losses on any path, and are left out.

use super::flow::{Flow, Round};
use crate::diagnose::Cause;

/// Of which kind the losses are.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Nothing was lost after slow start.
    None,
    /// Too few times, without a full queue, to tell.
    Few(usize),
    /// The bottleneck is full: its queue is as long as congestion control needs.
    Full {
        /// Part of the segments that were sent again.
        lost: f64,
    },
    /// The queue of the bottleneck is full, and short: by the round trip.
    Shallow {
        /// Its length by the round trip.
        queue: f64,
        /// Segments lost each time.
        each: f64,
    },
    /// At one rate each time, without a queue.
    Policer {
        /// Segments lost each time.
        each: f64,
        /// How often, or in how many round trips.
        times: usize,
        /// More passed for moments, as a bucket lets it and a line does not. Without, a buffer that is too short to be seen does the same.
        bucket: bool,
    },
    /// Many at a time, at any window.
    Bursts {
        /// Segments lost each time.
        each: f64,
        /// How often.
        times: usize,
    },
    /// One or two at a time, at any window.
    Random {
        /// Part of the segments.
        lost: f64,
    },
    /// None of these.
    Unknown,
}

/// Times of losses of which a pattern is made.
pub(super) const FEWEST: usize = 3;
/// Round trips that are joined if no more than so many without a loss are between.
const APART: usize = 2;
/// Most round trips of slow start's end, and its longest time, s.
const START: (usize, f64) = (20, 1.0);
/// Most round trips for which slow start lasts.
const GROWS: usize = 30;
/// Round trips of which something can be said.
const ROUNDS: usize = 10;
/// A queue that is seen: longer than this, s, and than this part of the round trip.
const VISIBLE: (f64, f64) = (1.2e-3, 0.04);
/// A queue, by the round trip, that was filled. CUBIC needs 0.43.
const FULL: f64 = 0.35;
/// Part of the longest queue that is there when a queue overflows; with less than the second, it was not the queue.
const TOP: f64 = 0.8;
const BELOW: f64 = 0.55;
/// Segments lost at a time, from which on they are many; and up to which they are single ones.
const MANY: f64 = 4.0;
const SINGLE: f64 = 2.5;
/// Deviation, by the mean, of windows that are the same (of three times, of five), and that are unlike.
const SAME: (f64, f64) = (0.05, 0.09);
const UNLIKE: f64 = 0.15;
const WILD: f64 = 0.4;
/// Deviation, by the mean, of the segments from one loss to the next: what a limit lets pass until the window is back, and chance.
const REGULAR: f64 = 0.3;
const CHANCE: f64 = 0.4;
/// Those at which a queue overflows differ by less.
const ALIKE: f64 = 0.2;
/// Part of the round trips with losses from which on they have no times of their own.
const ALWAYS: f64 = 0.2;
/// How much longer a round trip before a loss is than after it, where there is no queue at all: s, and part of it.
const NO_QUEUE: (f64, f64) = (2e-4, 2e-3);

/// Losses that belong together.
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    window: f64,
    rtt: f64,
    /// A while after it.
    later: f64,
    lost: u32,
    /// Segments sent since the one before.
    since: f64,
}

/// What is known of the rounds behind slow start.
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

    /// Median and lowest quarter of the queues before losses, by the longest queue.
    fn height(&self, rtts: &[f64]) -> (f64, f64) {
        let queues: Vec<f64> = rtts.iter().filter(|rtt| **rtt > 0.0).map(|&rtt| self.queue(rtt)).collect();
        let part = |q| quantile(&queues, q) / self.top.max(1e-9);
        (part(0.5), part(0.25))
    }

    /// How even the rate of delivery is: 90 %, and 99 %, by the median.
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

impl Pattern {
    /// The pattern of a flow's losses.
    #[must_use]
    pub fn of(flow: &Flow) -> Pattern {
        let Some(seen) = seen(flow) else { return Pattern::None };
        let lossy = seen.rounds.iter().filter(|round| round.lost > 0).count();
        match seen.events.len() {
            0 => Pattern::None,
            _ if lossy as f64 > ALWAYS * seen.rounds.len() as f64 => always(&seen, lossy),
            times if times < FEWEST => few(&seen),
            _ => at_times(flow, &seen),
        }
    }

    /// The causes that it shows, whether they are sure, and the evidence.
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
            Pattern::None | Pattern::Few(_) | Pattern::Full { .. } | Pattern::Unknown => Vec::new(),
        }
    }
}

/// Losses in a large part of the round trips.
fn always(seen: &Seen, lossy: usize) -> Pattern {
    let of: Vec<&Round> = seen.rounds.iter().filter(|round| round.lost > 0).collect();
    let each = quantile(&of.iter().map(|round| f64::from(round.lost)).collect::<Vec<_>>(), 0.5);
    let (height, low) = seen.height(&of.iter().map(|round| round.rtt).collect::<Vec<_>>());
    if seen.is_visible() && height >= TOP && low >= BELOW {
        return seen.overflow(each);
    }
    let (even, most) = seen.rates();
    // A bucket lets more pass for a moment, which a slower line never does.
    if !seen.is_visible() && seen.lost() > 0.01 && even < 1.12 && most > 1.07 {
        return Pattern::Policer { each, times: lossy, bucket: true };
    }
    let all: Vec<f64> = seen.rounds.iter().map(|round| f64::from(round.lost)).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|lost| (lost - mean).powi(2)).sum::<f64>() / all.len() as f64;
    // Chance: as many in each round trip as in any other. What only keeps a rate, without a queue, is something else.
    if variance < 2.0 * mean && (seen.is_visible() || even > 1.3) {
        return Pattern::Random { lost: seen.lost() };
    }
    Pattern::Unknown
}

/// Segments that a queue which is full drops at a time, at the most: the window has grown by so many beyond it.
const BEYOND: u32 = 8;

/// Too few times for a pattern, but that of a full queue, of which one is enough.
fn few(seen: &Seen) -> Pattern {
    let rtts: Vec<f64> = seen.events.iter().map(|event| event.rtt).collect();
    let one_by_one = seen.events.iter().all(|event| event.lost <= BEYOND);
    let full = one_by_one && seen.top / seen.base.max(1e-9) >= FULL && seen.height(&rtts).1 >= TOP;
    if full { Pattern::Full { lost: seen.lost() } } else { Pattern::Few(seen.events.len()) }
}

/// Losses at times.
fn at_times(flow: &Flow, seen: &Seen) -> Pattern {
    let times = seen.events.len();
    let of = |value: fn(&Event) -> f64| seen.events.iter().map(value).collect::<Vec<_>>();
    let each = quantile(&of(|event| f64::from(event.lost)), 0.5);
    let (height, low) = seen.height(&of(|event| event.rtt));
    let spread = variation(&of(|event| event.window));
    let overflows = seen.is_visible() && height >= TOP && low >= BELOW;
    if overflows && (flow.paced || spread < ALIKE) {
        return match seen.overflow(each) {
            // A window that has grown by a few segments loses no more than that.
            Pattern::Full { .. } if !flow.paced && each > f64::from(BEYOND) => Pattern::Unknown,
            pattern => pattern,
        };
    }
    let elsewhere = !seen.is_visible() || height < BELOW;
    let same = if times >= 5 { SAME.1 } else { SAME.0 };
    let grew = quantile(&of(|event| event.rtt - event.later), 0.5);
    let no_queue = grew < NO_QUEUE.0 + NO_QUEUE.1 * seen.base;
    // The first one came after what was left of slow start.
    let apart = variation(&of(|event| event.since)[1..]);
    let regular = spread < same && apart < REGULAR;
    if !seen.is_visible() && !flow.paced && regular && no_queue && seen.rates().0 < 1.4 {
        return Pattern::Policer { each, times, bucket: false };
    }
    // Who keeps a rate sees it in the queue alone.
    let unlike = |least: f64| if flow.paced { seen.is_visible() } else { spread >= least };
    if elsewhere && each >= MANY && unlike(if seen.is_visible() { UNLIKE } else { WILD }) {
        return Pattern::Bursts { each, times };
    }
    if elsewhere && each <= SINGLE && unlike(UNLIKE) && apart > CHANCE {
        return Pattern::Random { lost: seen.lost() };
    }
    Pattern::Unknown
}

/// The rounds behind slow start; none if there are too few.
fn seen(flow: &Flow) -> Option<Seen> {
    let rounds = &flow.rounds;
    let first = rounds.iter().position(|round| round.lost > 0)?;
    let slow = first <= GROWS || rounds[first].at - rounds[0].at <= START.1;
    let quiet = |n: usize| rounds[n..].iter().take(APART + 1).all(|round| round.lost == 0);
    let over = |n: usize| n - first >= START.0 && rounds[n].at - rounds[first].at > START.1;
    // Losses that come later are not the end of slow start.
    let begin = if slow { (first + 1..rounds.len()).find(|&n| quiet(n) || over(n))? } else { GROWS };
    let rounds = &rounds[begin..];
    if rounds.len() < ROUNDS {
        return None;
    }
    let rtts: Vec<f64> = rounds.iter().map(|round| round.rtt).filter(|rtt| *rtt > 0.0).collect();
    let low = quantile(&rtts, 0.05);
    // A queue that never drains is one, too; the least round trip is a millisecond too short, at the most.
    let base = if flow.min_rtt > 0.0 && low - flow.min_rtt > 1.5e-3 { flow.min_rtt } else { low };
    let events = events(rounds);
    // CUBIC is at the end of a short queue for a few round trips of many.
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
        // A few round trips later it has recovered, and sends less than before.
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

/// Deviation by the mean.
fn variation(values: &[f64]) -> f64 {
    let number = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / number;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / number).sqrt() / mean.max(1e-9)
}
