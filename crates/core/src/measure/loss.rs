//! The pattern of losses: how they cluster, and models that describe it.
//!
//! All functions take the lost numbers of a run as ranges in ascending order, and how many were sent:
//!
//! ```text
//!   sent   0 ───────────────────────────────────────────────── n
//!   lost        ▆      ▆▆▆  ▆▆                    ▆
//!   runs        1      3    2                     1              (measure::SequenceMeter::runs)
//!   episodes    └─ 1 ─┘└── 2 ──┘                  └ 3            fewer than `gap` arrived between their losses
//! ```
//!
//! | model | parameters | method |
//! |---|---|---|
//! | [`Gilbert`] | p (good to bad), r (bad to good); all is lost in bad, nothing in good | maximum likelihood: counts of transitions |
//! | [`Elliott`] | the same, and k, h: the fraction that arrives in good and in bad | Baum-Welch from the simple model, on the first 2¹⁷ packets |
//!
//! ```
//! use skyhaul_core::measure::loss::{Episodes, Gilbert};
//!
//! let lost = [10..12, 50..52, 54..55];
//! let model = Gilbert::fit(&lost, 100).unwrap();
//! assert_eq!((model.loss(), model.mean_run()), (0.05, 5.0 / 3.0));
//! assert_eq!(Episodes::of(&lost, 100, 8).count, 2);
//! ```

use std::ops::Range;

/// Number of packets to which the hidden model is fitted.
const MOST: u64 = 1 << 17;
/// Rounds of the fit of the hidden model.
const ROUNDS: usize = 60;

/// The simple Gilbert model: two states, in one of which all is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gilbert {
    /// Probability that a loss follows a packet that arrived.
    pub p: f64,
    /// Probability that a packet that arrives follows a loss.
    pub r: f64,
}

impl Gilbert {
    /// The model of these losses; `None` if nothing was lost, or nothing arrived.
    #[must_use]
    pub fn fit(lost: &[Range<u64>], sent: u64) -> Option<Gilbert> {
        let gone = total(lost, sent);
        let arrived = sent.checked_sub(gone).filter(|&n| n > 0 && gone > 0)?;
        let runs = lost.iter().filter(|run| run.start < sent && !run.is_empty()).count() as f64;
        Some(Gilbert { p: (runs / arrived as f64).min(1.0), r: (runs / gone as f64).min(1.0) })
    }

    /// The part that is lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.p / (self.p + self.r)
    }

    /// The mean length of a run of losses, packets.
    #[must_use]
    pub fn mean_run(&self) -> f64 {
        1.0 / self.r
    }

    /// How much longer runs are than independent losses make them: 1 for those, more for bursts.
    #[must_use]
    pub fn burstiness(&self) -> f64 {
        self.mean_run() * (1.0 - self.loss())
    }
}

/// The Gilbert-Elliott model: two hidden states, in each of which a fraction of the packets is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elliott {
    /// Probability of going from good to bad.
    pub p: f64,
    /// Probability of going from bad to good.
    pub r: f64,
    /// The part that arrives in bad.
    pub h: f64,
    /// The part that arrives in good.
    pub k: f64,
}

impl Elliott {
    /// Fits the model by the algorithm of Baum and Welch, which finds a local optimum. `None` as for [`Gilbert::fit`],
    /// or if fewer than 10 packets are lost among the first 2¹⁷.
    #[must_use]
    pub fn fit(lost: &[Range<u64>], sent: u64) -> Option<Elliott> {
        let sent = sent.min(MOST);
        let simple = Gilbert::fit(lost, sent)?;
        if total(lost, sent) < 10 {
            return None;
        }
        let mut seen = vec![false; sent as usize];
        for run in lost.iter().filter(|run| run.start < sent) {
            seen[run.start as usize..run.end.min(sent) as usize].fill(true);
        }
        let loss = simple.loss();
        // Start with a tenth of the losses in the good state, and a bad state that lasts for a few of the observed
        // runs.
        let start = Elliott { p: simple.p / 2.0, r: simple.r / 3.0, h: 0.5, k: 1.0 - loss / 10.0 };
        Some((0..ROUNDS).fold(start, |model, _| model.better(&seen)))
    }

    /// The part that is lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let bad = self.p / (self.p + self.r);
        bad * (1.0 - self.h) + (1.0 - bad) * (1.0 - self.k)
    }

    /// One round: expectation forwards and backwards, then the parameters that make it most likely.
    fn better(&self, lost: &[bool]) -> Elliott {
        let chance = |lost: bool| if lost { [1.0 - self.k, 1.0 - self.h] } else { [self.k, self.h] };
        let to = [[1.0 - self.p, self.p], [self.r, 1.0 - self.r]];
        let mut forward = Vec::with_capacity(lost.len());
        let mut state = [self.r / (self.p + self.r), self.p / (self.p + self.r)];
        for &l in lost {
            let see = chance(l);
            let both = [state[0] * see[0], state[1] * see[1]];
            let sum = (both[0] + both[1]).max(f64::MIN_POSITIVE);
            let here = [both[0] / sum, both[1] / sum];
            forward.push((here, sum));
            state = [here[0] * to[0][0] + here[1] * to[1][0], here[0] * to[0][1] + here[1] * to[1][1]];
        }
        let (mut back, mut moves, mut times, mut losses) = ([1.0, 1.0], [[0.0; 2]; 2], [0.0; 2], [0.0; 2]);
        for n in (0..lost.len()).rev() {
            let (here, sum) = forward[n];
            for s in 0..2 {
                let weight = here[s] * back[s];
                times[s] += weight;
                losses[s] += if lost[n] { weight } else { 0.0 };
            }
            let see = chance(lost[n]);
            let next = [see[0] * back[0] / sum, see[1] * back[1] / sum];
            if let Some((before, _)) = n.checked_sub(1).map(|n| forward[n]) {
                for (s, row) in moves.iter_mut().enumerate() {
                    (0..2).for_each(|t| row[t] += before[s] * to[s][t] * next[t]);
                }
            }
            back = [to[0][0] * next[0] + to[0][1] * next[1], to[1][0] * next[0] + to[1][1] * next[1]];
        }
        let part = |a: f64, b: f64| (a / (a + b).max(f64::MIN_POSITIVE)).clamp(1e-9, 1.0 - 1e-9);
        let arrives = |s: usize| 1.0 - (losses[s] / times[s].max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        Elliott {
            p: part(moves[0][1], moves[0][0]),
            r: part(moves[1][0], moves[1][1]),
            h: arrives(1),
            k: arrives(0),
        }
    }
}

/// Losses that belong together (RFC 6534: loss episodes).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Episodes {
    /// Episodes.
    pub count: u64,
    /// Fraction of all packets that were sent within an episode.
    pub share: f64,
    /// Mean number of packets of an episode, from its first loss to its last.
    pub mean_length: f64,
    /// Number of packets of the longest episode.
    pub longest: u64,
    /// Mean number of packets from the start of an episode to the start of the next; 0 for fewer than two episodes.
    pub mean_period: f64,
    /// Variation of the periods: their standard deviation divided by their mean. Near 0: periodic; near 1: random.
    pub period_variation: f64,
}

impl Episodes {
    /// The episodes of these losses, each ended by `gap` packets that arrived.
    #[must_use]
    pub fn of(lost: &[Range<u64>], sent: u64, gap: u64) -> Episodes {
        let mut all: Vec<Range<u64>> = Vec::new();
        for run in lost.iter().filter(|run| !run.is_empty()) {
            match all.last_mut() {
                Some(last) if run.start.saturating_sub(last.end) < gap => last.end = run.end,
                _ => all.push(run.clone()),
            }
        }
        let count = all.len() as u64;
        let inside: u64 = all.iter().map(|episode| episode.end - episode.start).sum();
        let periods: Vec<f64> = all.windows(2).map(|pair| (pair[1].start - pair[0].start) as f64).collect();
        let mean = periods.iter().sum::<f64>() / (periods.len() as f64).max(1.0);
        let squares = periods.iter().map(|period| (period - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (periods.len() as f64).max(1.0)).sqrt();
        Episodes {
            count,
            share: inside as f64 / (sent as f64).max(1.0),
            mean_length: inside as f64 / (count as f64).max(1.0),
            longest: all.iter().map(|episode| episode.end - episode.start).max().unwrap_or(0),
            mean_period: mean,
            period_variation: if mean > 0.0 { deviation / mean } else { 0.0 },
        }
    }
}

/// Packets in these ranges, of those below `sent`.
fn total(lost: &[Range<u64>], sent: u64) -> u64 {
    lost.iter().map(|run| run.end.min(sent).saturating_sub(run.start)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses of a model, from a seed.
    fn played(model: Elliott, sent: u64, seed: u64) -> Vec<Range<u64>> {
        let mut state = seed;
        let mut part = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let (mut lost, mut bad) = (Vec::<Range<u64>>::new(), false);
        for n in 0..sent {
            bad = if bad { part() >= model.r } else { part() < model.p };
            if part() >= if bad { model.h } else { model.k } {
                match lost.last_mut() {
                    Some(last) if last.end == n => last.end = n + 1,
                    _ => lost.push(n..n + 1),
                }
            }
        }
        lost
    }

    fn near(found: f64, truth: f64, tolerance: f64) {
        assert!((found / truth - 1.0).abs() < tolerance, "{found}, not {truth}");
    }

    #[test]
    fn the_simple_model_is_found_again() {
        for (p, r) in [(0.001, 0.5), (0.01, 0.1), (0.0005, 0.02)] {
            let model =
                Gilbert::fit(&played(Elliott { p, r, h: 0.0, k: 1.0 }, 1_000_000, 7), 1_000_000).unwrap();
            near(model.p, p, 0.15);
            near(model.r, r, 0.15);
        }
        let single =
            Gilbert::fit(&played(Elliott { p: 1e-12, r: 1.0, h: 0.0, k: 0.99 }, 1_000_000, 9), 1_000_000);
        near(single.unwrap().burstiness(), 1.0, 0.05);
    }

    #[test]
    fn hidden_states_are_found_again() {
        let truth = Elliott { p: 0.002, r: 0.05, h: 0.6, k: 0.9995 };
        let mut worst: f64 = 0.0;
        for seed in 0..4 {
            let lost = played(truth, MOST, seed);
            let model = Elliott::fit(&lost, MOST).unwrap();
            near(model.loss(), total(&lost, MOST) as f64 / MOST as f64, 0.1);
            worst = worst.max((model.r / truth.r - 1.0).abs()).max((model.p / truth.p - 1.0).abs());
            assert!((model.h - truth.h).abs() < 0.1, "{model:?}");
        }
        assert!(worst < 0.35, "{worst}");
    }

    #[test]
    fn what_has_no_model_has_none() {
        assert_eq!(Gilbert::fit(&[], 100), None);
        assert_eq!(Gilbert::fit(&[0..50, 50..100], 100), None);
        assert_eq!(Gilbert::fit(&[], 0), None);
        assert_eq!(Elliott::fit(&[5..6, 8..9], 100), None);
        assert_eq!(Episodes::of(&[], 0, 10), Episodes::default());
    }

    #[test]
    fn episodes_end_where_enough_arrives() {
        let lost = [100..101, 105..108, 200..202, 300..302, 303..304];
        let found = Episodes::of(&lost, 1000, 10);
        assert_eq!((found.count, found.longest, found.mean_period), (3, 8, 100.0));
        assert_eq!((found.mean_length, found.period_variation), (14.0 / 3.0, 0.0));
        assert_eq!(Episodes::of(&lost, 1000, 1).count, 5);
    }
}
