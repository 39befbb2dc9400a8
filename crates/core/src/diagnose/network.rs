//! Causes of loss between the interfaces, recognised by their patterns.

use super::bursts::{self, SLOW};
use super::case::{Case, Cause, Finding, Shares, plain};
use super::clusters::{JOIN, together};
use super::microburst::{microburst, unless_known};
use super::odds::{at_least, at_most, in_common, unless_chance};
use super::point::Point;
use crate::units::display_rate;
use std::collections::{BTreeMap, BTreeSet};

/// Points below this fraction of the fastest rate are hardly affected by a rate limit.
const CALM: f64 = 0.35;

/// If the rate exceeds a limit, the median part of a point loses at least this fraction of the point's mean loss.
const STEADY: f64 = 0.3;

/// Whether the loss of a point is more than background.
pub(super) fn lossy(point: &&Point) -> bool {
    point.loss() > 0.001 && point.lost() > 3
}

/// Causes of loss in the network. Each is looked for in the losses that the causes before it do not explain.
pub(super) fn loss(case: &Case, shares: &Shares, findings: &mut Vec<Finding>) {
    let rules = [mtu, firewall, route_change, bursts::find, polarisation, damage, microburst, ceiling];
    let network = shares.network as f64 / shares.lost().max(1) as f64;
    let mut left = case.clone();
    // Count packets that a host lost as received.
    for point in &mut left.points {
        let came = (point.received + point.in_hosts).min(point.sent);
        point.delivered_pps *= came as f64 / point.received.max(1) as f64;
        point.received = came;
    }
    let mut weight = 0.7 + 0.3 * network;
    let mut bursts_are_doubtful = false;
    for rule in rules {
        let Some(mut found) = rule(&left) else { continue };
        match found.cause {
            Cause::Mtu => {
                let gone = left.points.iter().filter(gone).map(|p| p.size).min();
                left.points.retain(|p| gone.is_none_or(|least| p.size < least));
            }
            Cause::RouteChange => left.points.retain(|p| !(lossy(&p) && one_gap(p))),
            Cause::Firewall => {
                left.points.iter_mut().filter(|p| cut(p) || ends(p)).for_each(Point::without_end);
                left.points.retain(|p| p.received > 0);
            }
            Cause::BurstLoss => {
                bursts_are_doubtful = bursts::a_limit_explains(&left);
                bursts::without(&mut left);
            }
            Cause::BitErrors => undamaged(&mut left),
            Cause::Polarisation => left.points.retain(|p| p.flow == 0),
            Cause::Microburst => {
                let at_any_rate = |cause| matches!(cause, Cause::BurstLoss | Cause::BitErrors);
                if findings.iter().any(|finding| at_any_rate(finding.cause)) {
                    found.confidence *= unless_known(case, &left);
                }
                left.points.retain(|p| p.burst <= 1);
            }
            _ => {}
        }
        found.confidence *= weight;
        // Each finding leaves fewer losses for the next, which is less certain.
        weight *= if matches!(found.cause, Cause::BitErrors | Cause::BurstLoss) { 1.0 } else { 0.85 };
        findings.push(found);
    }
    let is_limit =
        |found: &Finding| matches!(found.cause, Cause::Policer | Cause::PacketRate | Cause::FullQueue);
    if bursts_are_doubtful && findings.iter().any(is_limit) {
        findings.retain(|found| found.cause != Cause::BurstLoss);
    }
    // A rate limit whose bucket is smaller than a burst also drops the end of the burst: prefer the explanation that
    // covers more.
    let place = |is: fn(Cause) -> bool| findings.iter().position(|finding| is(finding.cause));
    let limit = place(|cause| matches!(cause, Cause::Policer | Cause::PacketRate));
    if let (Some(burst), Some(limit)) = (place(|cause| cause == Cause::Microburst), limit) {
        let (less, more) = (findings[limit].confidence, findings[burst].confidence);
        findings[limit].confidence = less.max(more);
        findings[burst].confidence = less.min(more);
    }
}

/// Whether nothing of the point arrived, though the flow was not silent before it.
fn gone(p: &&Point) -> bool {
    p.loss() > 0.999 && p.idle == 0.0
}

/// All packets above a size are lost, and smaller ones pass.
fn mtu(case: &Case) -> Option<Finding> {
    let least = case.points.iter().filter(gone).map(|p| p.size).min()?;
    let busy = || case.points.iter().filter(|p| p.idle == 0.0);
    let below = busy().filter(|p| p.size < least);
    let passes = below.clone().map(|p| p.size).max()?;
    let clean = below.clone().all(|p| p.loss() < 0.95) && busy().all(|p| p.size < least || p.loss() > 0.999);
    clean.then(|| {
        Finding::new(
            Cause::Mtu,
            0.98,
            format!("no packet of {least} bytes arrived, packets of {passes} bytes did"),
        )
    })
}

/// A gap, after which the delay or the number of hops differs.
fn route_change(case: &Case) -> Option<Finding> {
    let changed = |p: &&Point| {
        let shifted = p.shift.abs() > (6.0 * p.noise).max(5_000.0) + case.wakes + case.clock_drift;
        // A host may have caused the gap.
        let elsewhere = p.in_hosts < p.longest_run;
        (p.ttl_changed || shifted && case.clock_steps.is_empty()) && p.loss() < 0.5 && elsewhere
    };
    let point = case.points.iter().filter(lossy).find(changed)?;
    // Most of the loss must be one gap.
    one_gap(point).then(|| {
        Finding::new(
            Cause::RouteChange,
            if point.ttl_changed { 0.97 } else { 0.85 },
            format!(
                "{} packets in a row were lost, and the delay changed by {:.1} µs{}",
                point.longest_run,
                point.shift / 1e3,
                if point.ttl_changed { "; the number of hops changed" } else { "" }
            ),
        )
    })
}

/// Whether most losses are one run.
fn one_gap(point: &Point) -> bool {
    point.longest_run as f64 > 0.7 * point.lost() as f64
}

/// Whether the losses are mainly one run at the beginning or the end of the point.
fn cut(p: &Point) -> bool {
    let piece = p.end_lost.max(p.front_lost);
    piece > 20 && piece as f64 > 0.01 * p.sent as f64 && piece as f64 > 0.8 * p.lost() as f64
}

/// Whether the point ends with a long run of losses, in addition to any other losses.
fn ends(p: &Point) -> bool {
    p.end_lost > 20 && p.end_lost as f64 > 0.05 * p.sent as f64
}

/// Nothing arrives any more after some time or after a silence, at any rate.
fn firewall(case: &Case) -> Option<Finding> {
    // What never let anything pass has forgotten nothing.
    if case.points.iter().all(|p| p.received == 0) {
        return None;
    }
    let points: Vec<&Point> = case.points.iter().filter(|p| cut(p)).collect();
    let idle = points.iter().filter(|p| p.idle > 0.0).count();
    let first = points.first()?;
    // Apart from other losses: all points after a silence are lost, or the end of nearly every point, or all packets
    // from some time on.
    let silent = idle == points.len() && points.iter().all(|p| p.loss() > 0.999);
    let for_good = || {
        let mut behind = case.points.iter().skip_while(|p| !cut(p)).skip(1).peekable();
        case.points.iter().filter(|p| p.loss() > 0.001).all(cut)
            && behind.peek().is_some()
            && behind.all(|p| p.loss() > 0.999)
    };
    let lasting =
        silent || for_good() || case.points.iter().filter(|p| ends(p)).count() * 10 >= case.points.len() * 9;
    let counted = case.counters.conntrack_drops > 0;
    // If packets pass again after a single gap, no firewall has forgotten the flow.
    let once = points.len() == 1 && idle == 0 && case.points.last().is_some_and(|last| last != *first);
    if once && !counted {
        return None;
    }
    (lasting || counted).then(|| {
        let how = if idle == points.len() { "after a silence" } else { "in one piece" };
        let text =
            format!("{} packets were lost {how}, whatever the rate", first.end_lost.max(first.front_lost));
        Finding::new(Cause::Firewall, if counted || idle > 0 { 0.95 } else { 0.85 }, text)
    })
}

/// Whether nearly all that a point lost was lost in one or two stretches of time, and little in between.
fn is_gap(point: &Point) -> bool {
    let (ends, lost) = (point.front_lost + point.end_lost, point.lost());
    let longest =
        if point.longest_run > point.front_lost.max(point.end_lost) { point.longest_run } else { 0 };
    let stretches =
        (ends + if point.bursts <= 2 { point.burst_lost.max(longest) } else { longest }).min(lost);
    lost >= 20 && stretches as f64 > 0.9 * lost as f64
}

/// Some flows lose packets and others at the same rate do not, and a second measurement shows the same flows.
fn polarisation(case: &Case) -> Option<Finding> {
    // A flow at a much lower rate proves nothing.
    let flows = || case.points.iter().filter(|p| p.flow > 0);
    let fastest = flows().map(Point::pps).fold(0.0, f64::max);
    let points: Vec<&Point> = flows().filter(|p| p.pps() > 0.8 * fastest).collect();
    let mut flows: BTreeMap<u16, Vec<&Point>> = BTreeMap::new();
    points.iter().for_each(|p| flows.entry(p.flow).or_default().push(p));
    let worst = points.iter().map(|p| p.loss()).fold(0.0, f64::max);
    // A flow that shares a link for a moment loses a little: it is neither good nor bad. If there are many of these,
    // the pattern is chance.
    let all = |is: &dyn Fn(&Point) -> bool| -> Vec<&Point> {
        let flows = flows.values().filter(|of| of.iter().all(|p| is(p)));
        flows.flatten().copied().collect()
    };
    let bad = all(&|p| p.loss() > 0.005);
    let good = all(&|p| p.loss() <= 0.005 && p.loss() < worst / 10.0);
    let between = points.len() - bad.len() - good.len();
    // If all flows lost with the same probability, so few losses of the good ones would be unlikely.
    let sums = |all: &[&Point]| all.iter().fold((0, 0), |(l, s), p| (l + p.lost(), s + p.sent));
    let ((all_lost, all_sent), (lost, sent)) = (sums(&points), sums(&good));
    let expected = all_lost as f64 * sent as f64 / all_sent.max(1) as f64;
    let unlike = expected > 3.5 && (lost as f64) < 0.25 * expected;
    // If every bad flow is faster than every good one, the rate may be the cause.
    let rate =
        |all: &[&Point], of: fn(f64, f64) -> f64| all.iter().map(|p| p.pps()).reduce(of).unwrap_or(0.0);
    let mixed = rate(&good, f64::max) > 0.999 * rate(&bad, f64::min);
    // What fails for a time may meet the same ports twice. A link that is full loses packets all the time.
    let partly = bad.iter().filter(|p| p.received > 0);
    let (gaps, partly) = partly.fold((0, 0), |(gaps, all), p| (gaps + usize::from(is_gap(p)), all + 1));
    (flows.len() >= 4
        && !bad.is_empty()
        && (partly == 0 || 2 * gaps < partly)
        && good.len() * 6 >= points.len()
        && between * 3 <= bad.len()
        && mixed
        && worst > 0.01
        && unlike)
        .then(|| {
            let again = flows.values().all(|of| of.len() > 1);
            let ports = |all: &[&Point]| all.iter().map(|p| p.flow).collect::<BTreeSet<_>>().len();
            let text = format!(
                "{} of {} ports lose up to {:.1} %, the others nothing{}",
                ports(&bad),
                flows.len(),
                worst * 100.0,
                if again { "; a second time, they are the same ports" } else { "" }
            );
            // In a single measurement, any intermittent loss may look like this; in two, unless few ports lose the first time and few
            // others the second.
            let all_the_time = bad.iter().all(|p| p.steady > STEADY * p.loss());
            let chance = if all_the_time { 0.0 } else { again_by_chance(&flows) };
            Finding::new(Cause::Polarisation, if again { 0.92 * unless_chance(chance) } else { 0.5 }, text)
        })
}

/// Probability that as many ports lose again in the second measurement if the two have nothing to do with each other.
fn again_by_chance(flows: &BTreeMap<u16, Vec<&Point>>) -> f64 {
    let lose = |of: &Vec<&Point>, n: usize| of.get(n).is_some_and(|p| p.loss() > 0.005);
    let count = |is: &dyn Fn(&Vec<&Point>) -> bool| flows.values().filter(|of| is(of)).count() as u64;
    let (first, second) = (count(&|of| lose(of, 0)), count(&|of| lose(of, 1)));
    in_common(flows.len() as u64, first, second, count(&|of| lose(of, 0) && lose(of, 1)))
}

/// Packets lost in points below the fraction `part` of the fastest rate, and below a limit, and the number of bits sent in these
/// points.
fn below(case: &Case, part: f64) -> (u64, f64) {
    let smooth = plain(case, |p| p.burst <= 1 && p.loss() < 0.5);
    let fastest = smooth.iter().map(|p| p.pace_bps()).fold(0.0, f64::max);
    let most = bursts::slow_bps(case).min(part * fastest);
    let slow = smooth.iter().filter(|p| p.pace_bps() < most);
    slow.fold((0, 0.0), |(lost, bits), p| (lost + p.lost(), bits + p.sent as f64 * p.wire_bits()))
}

/// Remove the loss of damaged packets from the case, at the rate that the slowest points show. It is applied per bit,
/// but to a small packet as to one of the usual size.
fn undamaged(case: &mut Case) {
    let calm = below(case, CALM);
    // A few losses do not give a rate.
    let (lost, bits) = if calm.0 >= 8 { calm } else { below(case, SLOW) };
    let bit = lost as f64 / bits.max(1.0);
    let usual = case.points.first().map_or(0.0, Point::wire_bits);
    for point in &mut case.points {
        let passes = (-bit * point.wire_bits().max(usual)).exp();
        let expected = point.sent as f64 * (1.0 - passes);
        // Both this point's losses and those that the rate was measured by scatter.
        let scatter = CHANCE * (expected + expected * expected / (lost as f64).max(1.0)).sqrt();
        if point.lost() as f64 <= expected + scatter {
            (point.received, point.delivered_pps) = (point.sent, point.pps());
        } else {
            point.received = ((point.received as f64 / passes) as u64).min(point.sent);
            point.delivered_pps = (point.delivered_pps / passes).min(point.pps());
        }
    }
}

/// Standard deviations within which losses are those that were expected.
const CHANCE: f64 = 3.0;

/// If losses per event exceed those expected by chance by this factor, they are not independent.
const GROUPS: f64 = 1.35;

/// Probability below which losses are not near each other by chance, however few they are.
const NEAR: f64 = 0.01;

/// Whether losses outside bursts, in points that lose only at times, are closer together than by chance.
fn in_groups(points: &[&Point]) -> bool {
    let at_times = || points.iter().filter(|p| p.steady < 0.1);
    let sum = |of: fn(&Point) -> u64| at_times().map(|p| of(p)).sum::<u64>();
    let (lost, times) = (sum(|p| p.lost().min(p.single())), sum(|p| p.times));
    let part = lost as f64 / sum(|p| p.sent).max(1) as f64;
    // A loss that follows another one is near it by chance as often as any packet near it is lost.
    let near = 1.0 - (1.0 - part).powi(JOIN as i32);
    times > 0
        && (lost > 20 && together(lost, times, part) > GROUPS
            || at_least(lost.saturating_sub(times), lost.saturating_sub(1), near) < NEAR)
}

/// Whether the points above a rate lost far fewer packets than damage of this many packets per bit takes: what a slow point loses one by
/// one may be outages that are short for its spacing, and a fast point loses many packets in each of these.
fn fast_are_spared(smooth: &[&Point], above: f64, per_bit: f64) -> bool {
    let fast = smooth.iter().filter(|p| p.pace_bps() >= above);
    let (lost, bits) =
        fast.fold((0, 0.0), |(lost, bits), p| (lost + p.lost(), bits + p.sent as f64 * p.wire_bits()));
    let expected = per_bit * bits;
    expected > EXPECTED && (lost as f64) < SPARED_FAST * expected
}

/// Losses that must be expected in fast points before their absence counts, and the fraction of them below which damage is excluded.
const EXPECTED: f64 = 12.0;
const SPARED_FAST: f64 = 0.3;

/// Single losses at any rate.
fn damage(case: &Case) -> Option<Finding> {
    let smooth = plain(case, |p| p.burst <= 1 && p.loss() < 0.5);
    let fastest = smooth.iter().map(|p| p.pace_bps()).fold(0.0, f64::max);
    let most = bursts::slow_bps(case);
    let slow: Vec<&&Point> = smooth.iter().filter(|p| p.pace_bps() < most).collect();
    let (lost, sent) = below(case, SLOW);
    let rate = lost as f64 / sent.max(1.0);
    let single = slow.iter().filter(|p| p.lost() > 5).all(|p| p.burstiness < 2.0) && !in_groups(&smooth);
    // Congestion hardly affects slow points, and the slowest least.
    let (seen, offered) = below(case, CALM);
    let spared = rate * offered > 6.0 && (seen as f64) < 0.3 * rate * offered;
    if lost < 8 || !single || spared || fast_are_spared(&smooth, SLOW * fastest, rate) {
        return None;
    }
    let quiet = slow.iter().filter(|p| p.lost() > 5).all(|p| p.delay_at_loss < (4.0 * p.delay).max(20_000.0));
    let counted = case.counters.damaged > 0;
    quiet.then(|| {
        let text = format!(
            "single packets are lost at low rates too: one bit in {:.1e}; {} were counted",
            1.0 / rate,
            case.counters.damaged
        );
        Finding::new(Cause::BitErrors, if counted { 0.97 } else { 0.88 }, text)
    })
}

/// A point contradicts a limit if it lost less than the first fraction of the loss expected, where that is at least the second.
const SPARED: (f64, f64) = (0.5, 0.01);
/// The bucket may be this many times as large as it seemed: it may not have been full.
const BUCKET_DOUBT: f64 = 2.0;

/// Least loss of a point behind the limit of the worst one: what exceeds its rate, in bits or in packets (what `of` a packet counts), but for
/// what its bucket holds.
fn expected(p: &Point, worst: &Point, of: fn(&Point) -> f64) -> f64 {
    let (limit, offered) = (worst.delivered_pps * of(worst), |p: &Point| p.pps() * of(p));
    let bucket = worst.passed_first as f64 * of(worst) * (1.0 - limit / offered(worst)).max(0.0);
    1.0 - (limit / offered(p)).min(1.0) - BUCKET_DOUBT * bucket / (p.sent as f64 * of(p)).max(1.0)
}

/// Whether other points passed more than a limit allows, in bits or in packets (what `of` a packet counts): in any time, at most what it passes at its rate and what its bucket holds. What
/// comes and goes spares most points at the rate of the worst one.
fn passed_more(case: &Case, worst: &Point, of: fn(&Point) -> f64) -> bool {
    let even = case.points.iter().filter(|p| p.burst <= 1 && p.idle == 0.0);
    let over: Vec<&Point> = even.filter(|p| expected(p, worst, of) > SPARED.1).collect();
    let spared = over.iter().filter(|p| p.loss() < SPARED.0 * expected(p, worst, of)).count();
    let at_times = over.iter().filter(|p| p.steady <= STEADY * p.loss()).count();
    spared > 1 && spared * 4 > over.len() || at_times > 1 && at_times * 2 > over.len()
}

/// Whether most of what these points lost is bursts in which a limit with the rate of the worst one would have let packets pass.
fn contradicted(bad: &[&Point], worst: &Point) -> bool {
    let (pps, bps) = (worst.delivered_pps, worst.delivered_pps * worst.wire_bits());
    let lost_otherwise = |p: &Point| {
        let limit = pps.min(bps / p.wire_bits());
        p.each_burst.iter().filter(|burst| !burst.is_of_limit(limit)).map(|burst| burst.lost).sum::<u64>()
    };
    let lost: u64 = bad.iter().map(|p| p.lost()).sum();
    2 * bad.iter().map(|p| lost_otherwise(p).min(p.lost())).sum::<u64>() > lost
}

/// Probability that losses which do not depend on the rate spare these points below a limit as they did.
fn spared(bad: &[&Point], below: &[&Point]) -> f64 {
    let events = |points: &[&Point]| points.iter().map(|p| p.loss_events()).sum::<u64>();
    let part = |of: fn(&Point) -> f64| {
        let sum = |points: &[&Point]| points.iter().map(|p| of(p)).sum::<f64>();
        sum(below) / (sum(below) + sum(bad)).max(1e-9)
    };
    let part = part(|p| p.sent as f64).min(part(|p| p.sent as f64 * p.spacing));
    at_most(events(below), events(below) + events(bad), part)
}

/// A rate limit, in bits or in packets, with or without a queue.
fn ceiling(case: &Case) -> Option<Finding> {
    let bad = plain(case, |p| {
        let steady = p.steady > STEADY * p.loss();
        p.burst <= 1 && p.loss() > 0.01 && p.loss() < 0.999 && steady && !one_gap(p)
    });
    let worst = bad.iter().max_by(|a, b| a.loss().total_cmp(&b.loss()))?;
    let slow_clean = plain(case, |p| p.burst <= 1 && p.pps() < 0.6 * worst.pps() && p.loss() < 0.005);
    // Below a limit, nearly all packets pass. If points there lose too, there is another cause.
    let (pps, bps) = (0.85 * worst.delivered_pps, 0.85 * worst.delivered_pps * worst.wire_bits());
    let below = plain(case, |p| p.burst <= 1 && p.pps() < pps && p.pace_bps() < bps && p.loss() < 0.95);
    let sum = |of: fn(&Point) -> u64| below.iter().map(|p| of(p)).sum::<u64>() as f64;
    if slow_clean.is_empty()
        || sum(Point::lost) > 0.15 * worst.loss() * sum(|p| p.sent)
        || contradicted(&bad, worst)
    {
        return None;
    }
    let spread = |of: &dyn Fn(&Point) -> f64| {
        let values: Vec<f64> = bad.iter().map(|p| of(p)).collect();
        let (low, high) = values.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &v| (l.min(v), h.max(v)));
        high / low.max(1e-9)
    };
    let sizes = bad.iter().map(|p| p.size).min() != bad.iter().map(|p| p.size).max();
    let (in_packets, in_bits) = (spread(&|p| p.delivered_pps), spread(&|p| p.delivered_pps * p.wire_bits()));
    // Whether larger packets pass at the same bit rate shows what is limited, even if only one size is lost.
    let others = plain(case, |p| {
        p.burst <= 1 && p.size != worst.size && p.bps() > 0.9 * worst.delivered_pps * worst.wire_bits() * 1.15
    });
    let by_packets = if sizes {
        in_packets < in_bits
    } else {
        others.iter().any(|p| p.loss() < 0.002 && p.size > worst.size)
    };
    let unit = if by_packets { |_: &Point| 1.0 } else { Point::wire_bits };
    if passed_more(case, worst, unit) {
        return None;
    }
    // What the limit spares, by its rate or by its bucket.
    let slow = plain(case, |p| {
        let slower = p.pps() < 0.6 * worst.pps() && p.pace_bps() < 0.6 * worst.pace_bps();
        p.burst <= 1 && slower && expected(p, worst, unit) <= 0.0
    });
    let confidence = 0.92 * unless_chance(spared(&bad, &slow));
    if by_packets {
        let text = format!("{:.0} packets a second pass, whatever their size", worst.delivered_pps);
        return Some(Finding::new(Cause::PacketRate, confidence, text));
    }
    let noise = slow_clean.iter().map(|p| p.delay_p99).fold(0.0, f64::max);
    // Pauses and several paths delay some packets at any rate and raise `noise`, so a higher median delay is a sign of
    // a queue too.
    let half = slow_clean.iter().map(|p| 1.5 * p.delay + p.noise).fold(15_000.0, f64::max);
    let waits =
        worst.delay_at_loss > (3.0 * noise).max(15_000.0) || worst.delay.min(worst.delay_at_loss) > half;
    let rate = display_rate(worst.delivered_pps * worst.wire_bits());
    Some(if waits {
        let text = format!("{rate} pass; packets before a loss waited {:.0} µs", worst.delay_at_loss / 1e3);
        Finding::new(Cause::FullQueue, confidence, text)
    } else {
        let text = format!("{rate} pass; packets before a loss waited no longer than others");
        Finding::new(Cause::Policer, confidence, text)
    })
}
