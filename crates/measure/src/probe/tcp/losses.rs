//! A flow round trip by round trip, as its trace tells, for what judges its losses.
//!
//! ```text
//!   samples  ··|·····|·····|··r··|··r··|·····     each 10 ms; r: more was sent again
//!   rounds     └─ 1 ─┴─ 2 ─┴─ 3 ─┴─ 4 ─┴─ 5
//! ```

use super::report::{FlowReport, Sample};
use skyhaul_core::diagnose::tcp::{Flow, Pattern, Round};

/// Shortest round, s: a few samples.
const SHORTEST: f64 = 0.02;
/// A round trip that varies by more than this part of itself stood still for a moment: it says nothing of a queue.
const DISTURBED: f64 = 0.15;

/// The rounds of a flow.
pub(super) fn rounds(flow: &FlowReport) -> Vec<Round> {
    let length = flow.counts.rtt_least.max(SHORTEST);
    let mut all: Vec<Round> = Vec::new();
    let mut number = None;
    for (n, sample) in flow.trace.iter().enumerate() {
        let here = (sample.at / length) as u64;
        if number != Some(here) {
            number = Some(here);
            all.push(Round { at: sample.at, ..Round::default() });
        }
        let before = n.checked_sub(1).map_or(sample, |before| &flow.trace[before]);
        if let Some(round) = all.last_mut() {
            add(round, before, sample);
        }
    }
    // In a round that begins with what is sent again, the queue is that of the one before.
    for n in 1..all.len() {
        if all[n].lost > 0 && all[n].rtt <= 0.0 {
            all[n].rtt = all[n - 1].rtt;
        }
    }
    all
}

fn add(round: &mut Round, before: &Sample, sample: &Sample) {
    let again = sample.retransmits.wrapping_sub(before.retransmits);
    if again == 0 && round.lost == 0 && sample.rttvar < DISTURBED * sample.rtt {
        round.rtt = sample.rtt;
    }
    round.lost += again;
    round.sent += sample.segments.wrapping_sub(before.segments);
    (round.window, round.rate) = (sample.congestion_window as f64, sample.delivery_bits_per_second);
}

/// What its losses are judged by.
pub(super) fn lossy(flow: &FlowReport) -> Flow {
    Flow {
        seconds: (flow.end - flow.begin).max(1e-9),
        segments: flow.counts.segments.into(),
        retransmitted: flow.counts.retransmits.into(),
        doubled: flow.counts.doubled.into(),
        reordered: flow.counts.reordered.into(),
        min_rtt: flow.counts.rtt_least,
        paced: flow.congestion.starts_with("bbr"),
        rounds: rounds(flow),
        ..Flow::default()
    }
}

/// Of which kind its losses are.
pub(super) fn pattern(flow: &FlowReport) -> Pattern {
    Pattern::of(&lossy(flow))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A trace with losses at these windows (in segments), round trips (in s) and so many segments each, on a path of `least` seconds.
    /// Between two of them, the window grows, for as long as it is large: about two seconds.
    pub(in crate::probe::tcp) fn trace(losses: &[(f64, f64, u32)], least: f64) -> Vec<Sample> {
        let mean = losses.iter().map(|loss| loss.0).sum::<f64>() / losses.len().max(1) as f64;
        let (mut all, mut retransmits, mut begun) = (Vec::<Sample>::new(), 0, 0.0);
        for &(window, trip, lost) in losses {
            // The first is the end of slow start.
            let steps = (200.0 * window / mean).clamp(20.0, 800.0) as u32;
            let steps = if all.is_empty() { 60 } else { steps };
            for step in 0..steps {
                let part = f64::from(step) / f64::from(steps - 1);
                let at = begun + f64::from(step) / 100.0;
                // The queue is empty until the window is what the path holds.
                let rtt = if part > 0.6 { trip } else { least };
                let congestion_window = (window * (0.7 + 0.3 * part) * 1448.0) as u64;
                let segments = (at * 10_000.0) as u32;
                all.push(Sample {
                    at,
                    congestion_window,
                    rtt,
                    retransmits,
                    segments,
                    delivery_bits_per_second: congestion_window as f64 * 8.0 / rtt,
                    ..Sample::default()
                });
            }
            begun += f64::from(steps) / 100.0;
            retransmits += lost;
        }
        let last = all.last().copied().unwrap_or_default();
        all.extend((0..100).map(|n| Sample {
            at: begun + f64::from(n) / 100.0,
            retransmits,
            rtt: least,
            ..last
        }));
        all
    }
}
