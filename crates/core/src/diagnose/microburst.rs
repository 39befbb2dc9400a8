//! Queues that are too short for bursts.

use super::case::{Case, Cause, Finding, plain};
use super::odds::{at_least, unless_chance};
use super::point::Point;

/// A queue that is too short for the bursts drops packets of at least this fraction of them.
const MOST_BURSTS: f64 = 0.6;

/// The point of bursts that a short queue may have dropped, and that lost the most. It drops the end of most bursts; other causes affect
/// only some.
fn worst_of_bursts(case: &Case) -> Option<&Point> {
    let bad = plain(case, |p| p.burst > 1 && p.loss() > 0.002 && p.hit > MOST_BURSTS);
    bad.into_iter().max_by(|a, b| a.loss().total_cmp(&b.loss()))
}

/// Where packets are lost at any rate, what lost those of bursts is known: how many times less likely chance must be to call it another
/// cause. One of a hundred such lines hits as many bursts as one of a hundred does: that is no evidence of a second cause.
const KNOWN: f64 = 1000.0;

/// What remains of the confidence in a short queue where packets are lost at any rate, one by one or in a row, and so in bursts too. Their
/// losses are gone from what is `left` of the case, and so they are counted in the whole.
pub(super) fn unless_known(case: &Case, left: &Case) -> f64 {
    worst_of_bursts(left).map_or(1.0, |worst| unless_chance(KNOWN * hit_by_chance(case, worst)))
}

/// Packets are lost only if they are sent in bursts, or more of them than a rate limit with a bucket explains.
pub(super) fn microburst(case: &Case) -> Option<Finding> {
    let worst = worst_of_bursts(case)?;
    let smooth = plain(case, |p| p.burst <= 1 && p.bps() >= worst.bps() * 0.9);
    let spared = |p: &&Point| p.loss() < 0.2 * worst.loss();
    let clean = smooth.iter().all(spared);
    let same = smooth.iter().filter(|p| p.bps() < worst.bps() * 1.3).all(spared);
    let most = 1.0 - passes(&smooth, worst) / f64::from(worst.burst);
    (!smooth.is_empty() && (clean || same && worst.loss() > most.max(0.0) + 0.15)).then(|| {
        let text = format!(
            "bursts of {} packets lose {:.1} %, the same rate without bursts {}",
            worst.burst,
            worst.loss() * 100.0,
            if clean { "nothing" } else { "less; what limits the rate lets more pass at once" }
        );
        Finding::new(Cause::Microburst, 0.93 * unless_chance(hit_by_chance(case, worst)), text)
    })
}

/// Probability that losses which begin as often at any packet of an even stream hit as many of the bursts, or are as many in them. Losses
/// near each other are one event, which may hit several bursts one after the other.
fn hit_by_chance(case: &Case, burst: &Point) -> f64 {
    let even = plain(case, |p| p.burst <= 1);
    let sum = |of: fn(&Point) -> u64| even.iter().map(|p| of(p)).sum::<u64>();
    let (events, sent) = (sum(Point::loss_events), sum(|p| p.sent));
    // One more than were seen: few events do not give a rate.
    let each = (events + 1) as f64 / sent.max(1) as f64;
    let bursts = burst.sent.div_ceil(u64::from(burst.burst.max(1)));
    let hit = 1.0 - (1.0 - each.min(1.0)).powf(f64::from(burst.burst));
    let here = burst.loss_events();
    let hits = at_least(((burst.hit * bursts as f64).round() as u64).min(here), bursts, hit);
    hits.min(at_least(here, here + events, burst.sent as f64 / (burst.sent + sent).max(1) as f64))
}

/// Burst size that the rate limit lets pass, packets, as the even streams that exceed it show.
fn passes(smooth: &[&Point], burst: &Point) -> f64 {
    let bad = |same: bool| {
        let bad = smooth.iter().filter(move |p| p.loss() > 0.01 && (p.size == burst.size) == same);
        bad.map(|p| p.passed_first as f64 * (1.0 - p.delivered_pps / p.pps()).max(0.0))
    };
    // Prefer points of the same packet size. If only smaller packets exceed the limit, it counts packets, and size does
    // not matter.
    bad(true).reduce(f64::max).or(bad(false).reduce(f64::max)).unwrap_or(0.0)
}
