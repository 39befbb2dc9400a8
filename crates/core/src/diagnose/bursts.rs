//! Losses of many packets in a row at any rate: outages, and links that fail for a moment.

use super::case::{Case, Cause, Finding};
use super::clusters::{LossBurst, MIN_CLUSTER, by_chance};
use super::odds::{at_most, if_chance};
use super::point::Point;

/// Points below this fraction of the fastest rate are slow: a rate limit affects them less.
pub(super) const SLOW: f64 = 0.6;

/// A rate below this fraction of a limit does not exceed it, as far as the limit is known.
const BELOW: f64 = 0.9;

/// A point whose `steady` loss is below this loses packets only at times. One above it exceeds a limit, or its path is
/// down.
const AT_TIMES: f64 = 0.05;
/// What loses packets all the time loses some in at least every other of ten parts: a few behind the first loss do not show it.
const LASTING: u64 = 5;
/// As many losses may be chance.
const CHANCE: u64 = 3;
/// Number of bursts needed for a finding, and for more confidence in it: a host or other traffic may cause a few.
const MIN_BURSTS: u64 = 2;
const SOME: u64 = 3;
const MANY: u64 = 6;
/// If more bursts than this are expected at low rates and none is seen, the bursts depend on the rate.
const EXPECTED: f64 = 4.0;
/// Points that lose a smaller fraction than this count as free of loss.
const CLEAN: f64 = 0.005;
/// A delay before a loss that is too short to be a full queue, ns.
const QUIET: f64 = 30_000.0;

/// Maximum fraction of a point's time that bursts take. A rate that exceeds a limit loses packets all the time.
const SELDOM: f64 = 0.3;
/// Loss within the bursts of a point that loses all the time is at least this many times as high as that loss.
const DENSER: f64 = 2.0;

/// Decides whether packets before a loss had waited in a queue, and whether a rate limit would have passed some of them.
struct Waits {
    /// Bits per second of a limit: what passed of a rate that loses all the time. `None` if nothing loses all the time.
    limit: Option<f64>,
    /// Bits and packets per second of the slowest limit that may be there: what passed behind a loss. `None` if bursts are known to
    /// be there.
    slowest: Option<(f64, f64)>,
    /// Lowest 99 % delay of the points without loss, ns: what the path delays without a queue. `None` if there is no such
    /// point.
    clean: Option<f64>,
    /// Time that the hosts need to wake up, ns.
    wakes: f64,
}

impl Waits {
    fn of(case: &Case) -> Waits {
        let clean = even(case).filter(|p| p.loss() < CLEAN).map(|p| p.delay_p99).reduce(f64::min);
        let all_the_time = |p: &&Point| p.steady > AT_TIMES && p.loss_events() >= LASTING;
        let limits = even(case).filter(all_the_time).map(|p| p.limit_pps * p.wire_bits());
        let mut limits: Vec<f64> = limits.collect();
        // Most points show it. Some passed more while a bucket was not empty yet, and some less, as other things lost packets.
        let at = limits.len() / 2;
        let limit = (!limits.is_empty()).then(|| *limits.select_nth_unstable_by(at, f64::total_cmp).1);
        // A limit is one for most of the points that exceed it and lose packets. Dense bursts meet some of them.
        let most = |limit: &f64| {
            let over = even(case).filter(|p| p.bps() >= *limit && p.lost() > CHANCE);
            let (steady, all) = over.fold((0, 0), |(n, all), p| (n + usize::from(all_the_time(&p)), all + 1));
            2 * steady >= all
        };
        let limit = limit.filter(most);
        let most = |of: fn(&Point) -> f64| even(case).map(of).fold(0.0, f64::max);
        let slowest = (most(|p| p.passed_pps * p.wire_bits()), most(|p| p.passed_pps));
        Waits { limit, slowest: Some(slowest), clean, wakes: case.wakes }
    }

    /// Whether a burst of this point may be what a limit drops: no part of it was without packets for longer than an empty bucket is.
    /// Where no limit is known, it is the slowest one that explains what passed elsewhere.
    fn limits(&self, point: &Point, burst: &LossBurst) -> bool {
        let slowest = self.slowest.map(|(bps, pps)| (bps / point.wire_bits()).min(pps));
        let limit = self.limit.map(|limit| limit / point.wire_bits()).or(slowest);
        limit.is_some_and(|pps| burst.is_of_limit(pps))
    }

    /// Whether the packets before a loss had waited: in a queue that filled up now and then, or in one that was always
    /// full. They had waited nearly as long as any packet then, and longer than packets wait on this path without loss.
    fn before_loss(&self, point: &Point) -> bool {
        let (at_loss, delay) = (point.delay_at_loss - self.wakes, point.delay - self.wakes);
        let alone = at_loss > (3.0 * point.delay).max(point.delay_p99).max(QUIET);
        let fills = at_loss > (1.5 * delay).max(0.9 * point.delay_p99);
        let beside = |clean: f64| {
            at_loss > (2.0 * clean).max(QUIET) && (fills || at_loss.min(delay) > (3.0 * clean).max(QUIET))
        };
        alone || self.clean.is_some_and(beside)
    }
}

/// Bursts of a point that are not explained by a rate limit. A queue delays packets before it drops any.
fn of(point: &Point, waits: &Waits) -> u64 {
    if waits.before_loss(point) { 0 } else { at_times(point, waits) }
}

/// Bursts of a point that do not go on for all of its time. A rate limit loses much all the time, and a bucket that refilled while the
/// sender was held up cuts this loss into pieces: they are bursts only if they lose more than the rest. Where as
/// much passed during a burst as the limit allows, nothing else was lost.
fn at_times(point: &Point, waits: &Waits) -> u64 {
    let seldom = point.burst_time < SELDOM * point.sent as f64 * point.spacing;
    let dense = point.burst_lost as f64 * point.spacing > DENSER * point.steady * point.burst_time;
    let every = point.steady < AT_TIMES || seldom && dense;
    let counted = point.each_burst.iter().filter(|burst| every || burst.solid);
    let by_limit = counted.filter(|burst| waits.limits(point, burst)).count() as u64;
    let found = if every { point.bursts } else { point.solid };
    found.saturating_sub(by_limit)
}

/// The fraction of a point's bursts that [`of`] counts.
fn share(point: &Point, waits: &Waits) -> f64 {
    of(point, waits) as f64 / point.bursts.max(1) as f64
}

/// Whether nearly all losses are at an end of the point or in the counted bursts.
fn one_piece(point: &Point, waits: &Waits) -> bool {
    let pieces = point.front_lost + point.end_lost + (point.burst_lost as f64 * share(point, waits)) as u64;
    pieces as f64 > 0.9 * point.lost() as f64
}

/// Points with an even stream of which at least one packet arrived.
fn even(case: &Case) -> impl Iterator<Item = &Point> {
    case.points.iter().filter(|p| p.burst <= 1 && p.idle == 0.0 && p.received > 0)
}

/// What the points of a case lost in bursts.
#[derive(Default)]
struct Bursts {
    count: u64,
    /// Packets.
    lost: u64,
    /// ns.
    time: f64,
    /// How many of them at low rates.
    at_low: u64,
}

impl Bursts {
    fn of(case: &Case, waits: &Waits, is_slow: impl Fn(&&Point) -> bool) -> Bursts {
        let mut found = Bursts::default();
        for point in even(case) {
            let (count, share) = (of(point, waits), share(point, waits));
            found.count += count;
            found.lost += (point.burst_lost as f64 * share) as u64;
            found.time += point.burst_time * share;
            found.at_low += if is_slow(&point) { count } else { 0 };
        }
        found
    }
}

/// Points that send at less than this many bits per second while they send have a low rate: well below the fastest, and below what
/// passes of rates that lose all the time.
pub(super) fn slow_bps(case: &Case) -> f64 {
    let fastest = even(case).map(Point::pace_bps).fold(0.0, f64::max);
    (SLOW * fastest).min(BELOW * Waits::of(case).limit.unwrap_or(f64::INFINITY))
}

/// Decides which points of a case have a low rate.
fn slow(case: &Case) -> impl Fn(&&Point) -> bool + use<> {
    let most = slow_bps(case);
    move |point| point.pace_bps() < most
}

/// Whether a rate limit explains the bursts as well: there are few, and none at low rates. A sender that a busy host holds up sends
/// what is due at once, and a bucket that is empty drops all of it.
pub(super) fn a_limit_explains(case: &Case) -> bool {
    let found = Bursts::of(case, &Waits::of(case), slow(case));
    found.count < SOME && found.at_low == 0
}

/// Looks for burst loss.
pub(super) fn find(case: &Case) -> Option<Finding> {
    let waits = Waits::of(case);
    let slow = slow(case);
    let Bursts { count: bursts, lost, time, at_low } = Bursts::of(case, &waits, &slow);
    // Random losses form some bursts by chance.
    let calm = || even(case).filter(|p| p.steady < AT_TIMES);
    let rest: u64 = calm().map(|p| p.single().saturating_sub(p.front_lost + p.end_lost)).sum();
    let sent: u64 = calm().map(|p| p.sent).sum();
    let chance = by_chance(rest, rest as f64 / sent.max(1) as f64);
    if bursts < MIN_BURSTS || (bursts as f64) < 1.0 + 3.0 * chance {
        return None;
    }
    let (waited, not): (Vec<&Point>, Vec<&Point>) =
        even(case).filter(|p| at_times(p, &waits) > 0).partition(|p| waits.before_loss(p));
    if waited.len() > not.len() {
        return None;
    }
    // If bursts are as frequent per packet, or per second, at any rate, some must occur at low rates.
    let part = |value: fn(&Point) -> f64| {
        even(case).filter(&slow).map(value).sum::<f64>() / even(case).map(value).sum::<f64>().max(1e-9)
    };
    let part = part(|p| p.sent as f64).min(part(|p| p.sent as f64 * p.spacing));
    if at_low == 0 && bursts as f64 * part > EXPECTED {
        return None;
    }
    let alike = if_chance(at_most(at_low, bursts, part));
    let confidence = match bursts {
        MANY.. => 0.92,
        SOME.. => 0.8,
        _ => 0.45,
    };
    let (each, took) = (lost as f64 / bursts as f64, time / bursts as f64 / 1e6);
    let text = format!(
        "{bursts} times some {each:.0} packets in a row were lost, in {took:.1} ms; {at_low} of these at low rates, and none of them waited before"
    );
    Some(Finding::new(Cause::BurstLoss, confidence * alike.min(1.0), text))
}

/// Whether the losses outside the bursts are only bursts of the same kind that are too short to count as such. The packets that bursts lose
/// are distributed geometrically (a path that fails and recovers at random), so those that lose fewer than [`MIN_CLUSTER`] follow from
/// the others. More loss events than these have another cause.
fn rest_is_short_bursts(case: &Case, waits: &Waits) -> bool {
    let Bursts { count, lost, .. } = Bursts::of(case, waits, |_| false);
    if count == 0 {
        return false;
    }
    let short = (MIN_CLUSTER - 1) as f64;
    let mean = (lost as f64 / count as f64 - short).max(1.0);
    let long = (1.0 - 1.0 / mean).powf(short).max(0.02);
    let expected = count as f64 * (1.0 - long) / long;
    let scatter = SCATTER * (expected + expected * expected / count as f64).sqrt();
    let events: u64 = even(case).filter(|p| p.steady < AT_TIMES).map(|p| p.times).sum();
    events as f64 <= expected + scatter
}

/// Standard deviations by which the number of short bursts may exceed what is expected.
const SCATTER: f64 = 2.0;

/// Remove the bursts from the case, so that other causes are looked for in the remaining losses.
pub(super) fn without(case: &mut Case) {
    let waits = Waits { slowest: None, ..Waits::of(case) };
    let short_too = rest_is_short_bursts(case, &waits);
    // A point sent in bursts of which few lost packets only shows that these met an outage.
    case.points.retain(|p| p.received > 0 && (p.burst <= 1 || p.hit > 0.6));
    for point in case.points.iter_mut().filter(|p| p.burst <= 1) {
        // Losses at an end of a point may be part of a burst.
        let ends = if point.steady < AT_TIMES || one_piece(point, &waits) {
            point.front_lost + point.end_lost
        } else {
            0
        };
        let share = share(point, &waits);
        let of_bursts = (point.burst_lost as f64 * share) as u64;
        let all = short_too && point.steady < AT_TIMES;
        let rest = if all { point.single() } else { ends };
        let back = rest + of_bursts;
        if back == 0 {
            continue;
        }
        if all {
            (point.times, point.calm_steady) = (0, (0.0, 0));
        }
        point.burst_lost -= of_bursts;
        point.received = (point.received + back).min(point.sent);
        if share > 0.0 {
            let mut each = std::mem::take(&mut point.each_burst);
            each.retain(|burst| waits.limits(point, burst));
            point.each_burst = each;
        }
        if share >= 1.0 {
            ((point.steady, point.events), point.bursts, point.solid) = (point.calm_steady, 0, 0);
        }
        (point.burstiness, point.longest_run) = point.calm;
        (point.front_lost, point.end_lost) = (0, 0);
        point.delivered_pps = point.pps() * (1.0 - point.loss());
    }
}

#[cfg(test)]
mod tests;
