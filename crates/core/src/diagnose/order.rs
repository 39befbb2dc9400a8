//! Order, delay and clocks: causes that need no loss.

use super::{
    case::{Case, Cause, Counters, Finding},
    point::Point,
};

/// If more than this fraction of the packets is reordered, arrival times depend on the paths.
const SPRAYED: f64 = 0.2;

/// Looks for duplication, reordering, sleeping CPUs, interrupt moderation, pause frames, clock steps and route changes.
pub(super) fn find(case: &Case, findings: &mut Vec<Finding>) {
    let received: u64 = case.points.iter().map(|p| p.received).sum();
    let part = |n: u64| n as f64 / received.max(1) as f64;
    let (reordered, doubled) = (
        case.points.iter().map(|p| p.reordered).sum::<u64>(),
        case.points.iter().map(|p| p.duplicates).sum::<u64>(),
    );
    if part(doubled) > 2e-4 && doubled > 5 {
        let text = format!("{doubled} packets arrived twice");
        findings.push(Finding::new(Cause::Duplication, 0.95, text));
    }
    if part(reordered) > 1e-3 && reordered > 10 {
        let text = format!("{:.2} % of the packets arrived behind later ones", part(reordered) * 100.0);
        findings.push(Finding::new(Cause::Spraying, 0.9, text));
    }
    let late = woken(case);
    if late > 15_000.0 + case.wakes {
        let text = format!(
            "the first packet of a burst comes {:.0} µs later than packets of a steady stream",
            late / 1e3
        );
        // Of several paths, some may be longer by as much.
        let confidence = if part(reordered) > SPRAYED { 0.45 } else { 0.9 };
        findings.push(Finding::new(Cause::IdleStates, confidence, text));
    }
    let combs: Vec<f64> = case.points.iter().map(|p| p.comb).filter(|&comb| comb > 0.0).collect();
    let comb = combs.iter().copied().fold(0.0, f64::max);
    if combs.len() >= 2 && comb > 10_000.0 {
        let text = format!("packets arrive in heaps {:.0} µs apart", comb / 1e3);
        // Packets that take several paths also arrive in batches.
        let confidence = if part(reordered) > SPRAYED { 0.45 } else { 0.9 };
        findings.push(Finding::new(Cause::Moderation, confidence, text));
    }
    let spikes: u64 = case.points.iter().filter(|p| p.loss() < 0.001).map(|p| p.spikes).sum();
    let stalls: u64 = case.points.iter().map(|p| p.stalls).sum();
    if case.counters.pauses > 0 && spikes.max(stalls) > 2 {
        let text = format!(
            "{} pause frames; the delay jumped {spikes} times, and {stalls} times nothing came, without a loss",
            case.counters.pauses
        );
        findings.push(Finding::new(Cause::Pause, 0.93, text));
    }
    let steps = case.clock_steps.iter().map(|step| step.unsigned_abs()).max().unwrap_or(0);
    if steps > 0 {
        let text = format!(
            "a clock stepped by {:.1} µs: both directions show it, with opposite signs",
            steps as f64 / 1e3
        );
        findings.push(Finding::new(Cause::ClockStep, 0.95, text));
    }
    let known = findings.iter().any(|f| matches!(f.cause, Cause::RouteChange | Cause::ClockStep));
    let moved = case.points.iter().find(|p| p.ttl_changed);
    match moved {
        _ if known => {}
        Some(point) => {
            let text = format!("the number of hops changed; the delay by {:.1} µs", point.shift / 1e3);
            findings.push(Finding::new(Cause::RouteChange, 0.9, text));
        }
        None => findings.extend(moved_for_good(case)),
    }
}

/// A change of the delay at the same rate that shows a change of the route, even if only one point was measured before
/// it, ns. The first packets of a measurement may be late because a CPU was asleep, but not by this much.
const PLAIN: f64 = 1e6;

/// The smallest delay of all points from some point on differs from the one before, at the same rate, and no clock
/// stepped.
fn moved_for_good(case: &Case) -> Option<Finding> {
    let size = case.points.first()?.size;
    let even = case.points.iter().enumerate();
    let even = even.filter(|(_, p)| p.burst <= 1 && p.size == size && p.received > 50 && p.idle == 0.0);
    let even: Vec<(usize, &Point)> = even.collect();
    // Points of the first port, and their indices.
    let (places, points): (Vec<usize>, Vec<&Point>) =
        even.iter().filter(|(_, p)| p.flow == 0).copied().unzip();
    let noise = points.iter().map(|p| p.noise).fold(0.0, f64::max);
    let least = (6.0 * noise).max(30_000.0) + case.wakes + case.clock_drift;
    let part = |points: &[&Point]| {
        points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (l.min(p.floor), h.max(p.floor)))
    };
    (1..points.len()).find_map(|at| {
        let (before, after) = points.split_at(at);
        let ((low, high), (least_after, most_after)) = (part(before), part(after));
        let change = if least_after > high { least_after - high } else { most_after - low };
        let is_apart = |floor: f64| if change > 0.0 { floor > high + least } else { floor < low - least };
        let apart = is_apart(least_after) && is_apart(most_after);
        // The change happened within a point, or points at the same rate (of any port) lie on both sides: at a lower
        // rate, a CPU may be asleep.
        let seen = before.last().is_some_and(|p| (p.shift - change).abs() < 0.3 * change.abs());
        let later = even.iter().filter(|(place, p)| *place >= places[at] && is_apart(p.floor));
        let later: Vec<&Point> = later.map(|(_, p)| *p).collect();
        let same = before.iter().any(|b| later.iter().any(|a| a.pps() > 0.9 * b.pps()));
        let told = seen || same && (at > 1 || change.abs() > PLAIN);
        (apart && case.clock_steps.is_empty() && told && later.len() > 1).then(|| {
            let text = format!("the delay changed by {:.1} µs for good, and no clock stepped", change / 1e3);
            Finding::new(Cause::RouteChange, if seen { 0.85 } else { 0.75 }, text)
        })
    })
}

/// Extra delay of the first packets of bursts, which wait for no other packet of the burst, over the packets of even
/// streams before and after, ns. Both are compared because a change of the route or of a clock affects only one side.
///
/// If there are other signs of delay (pause frames, batches, ring drops, several paths), the smallest delays of both
/// are compared, which these do not affect.
fn woken(case: &Case) -> f64 {
    let Counters { pauses, ring_drops, .. } = case.counters;
    let apart = case.points.iter().any(|p| p.comb > 0.0 || p.reordered > 10);
    let disturbed = pauses > 0 || ring_drops > 0 || apart;
    let late = |p: &Point| if disturbed { p.noise } else { (3.0 * p.delay).max(p.delay_p99) };
    let steady = |points: &[Point]| {
        let steady = points.iter().filter(|p| p.burst <= 1 && p.flow == 0 && p.idle == 0.0 && p.received > 0);
        steady.map(|p| p.floor + late(p)).fold(f64::INFINITY, f64::min)
    };
    let bursts = case.points.iter().enumerate().filter(|(_, p)| p.burst >= 4 && p.received > 0);
    let late = bursts.map(|(at, p)| {
        let (before, after) = (steady(&case.points[..at]), steady(&case.points[at + 1..]));
        p.floor + if disturbed { p.first_least } else { p.first } - before.max(after)
    });
    late.filter(|late| late.is_finite()).fold(0.0, f64::max)
}
