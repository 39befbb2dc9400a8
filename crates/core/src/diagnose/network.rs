//! Patterns of what happens between the interfaces.

use super::{
    case::{Case, Cause, Finding, Shares},
    point::Point,
};

/// A point whose loss is worth a thought.
fn lossy(point: &&Point) -> bool {
    point.loss() > 0.001 && point.lost() > 3
}

/// Points without a silence before them and of one flow: the plain ones.
fn plain<'a>(case: &'a Case, more: impl Fn(&&'a Point) -> bool) -> Vec<&'a Point> {
    case.points.iter().filter(|p| p.idle == 0.0 && p.flow == 0).filter(more).collect()
}

/// Causes of loss in the network: each is looked for in what those before it do not explain.
pub(super) fn loss(case: &Case, shares: &Shares, findings: &mut Vec<Finding>) {
    let rules = [mtu, route_change, firewall, polarisation, damage, microburst, ceiling];
    let network = shares.network as f64 / shares.lost().max(1) as f64;
    let mut left = case.clone();
    // As if the hosts had lost nothing.
    left.points.iter_mut().for_each(|p| p.received = (p.received + p.in_hosts).min(p.sent));
    let mut weight = 0.7 + 0.3 * network;
    for rule in rules {
        let Some(mut found) = rule(&left) else { continue };
        match found.cause {
            Cause::Mtu => left.points.retain(|p| p.loss() <= 0.999),
            Cause::RouteChange => left.points.retain(|p| !(lossy(&p) && one_gap(p))),
            Cause::Firewall => left.points.retain(|p| !cut(&p)),
            Cause::Polarisation => left.points.retain(|p| p.flow == 0),
            Cause::Microburst => left.points.retain(|p| p.burst <= 1),
            _ => {}
        }
        found.confidence *= weight;
        // What is found in a part of the points is less sure.
        weight *= if found.cause == Cause::BitErrors { 1.0 } else { 0.85 };
        findings.push(found);
    }
}

/// All above a size, none below.
fn mtu(case: &Case) -> Option<Finding> {
    let gone: Vec<&Point> = case.points.iter().filter(|p| p.loss() > 0.999).collect();
    let least = gone.iter().map(|p| p.size).min()?;
    let below = case.points.iter().filter(|p| p.size < least);
    let passes = below.clone().map(|p| p.size).max()?;
    let clean = below.clone().all(|p| p.loss() < 0.95)
        && case.points.iter().all(|p| p.size < least || p.loss() > 0.999);
    clean.then(|| {
        Finding::new(
            Cause::Mtu,
            0.98,
            format!("no packet of {least} bytes arrived, packets of {passes} bytes did"),
        )
    })
}

/// A gap, and another delay or another number of hops behind it.
fn route_change(case: &Case) -> Option<Finding> {
    let changed = |p: &&Point| {
        let shifted = p.shift.abs() > (6.0 * p.noise).max(5_000.0);
        (p.ttl_changed || shifted && case.clock_steps.is_empty()) && p.loss() < 0.5
    };
    let point = case.points.iter().filter(lossy).find(changed)?;
    // The loss is one gap, at the place of the change.
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

/// Most of what is lost is lost in a row.
fn one_gap(point: &Point) -> bool {
    point.longest_run as f64 > 0.7 * point.lost() as f64
}

/// All is lost from the beginning, or to the end.
fn cut(p: &&Point) -> bool {
    let piece = p.end_lost.max(p.front_lost);
    piece > 20 && piece as f64 > 0.01 * p.sent as f64 && piece as f64 > 0.8 * p.lost() as f64
}

/// Nothing any more after some time or some silence, whatever the rate.
fn firewall(case: &Case) -> Option<Finding> {
    let points: Vec<&Point> = case.points.iter().filter(cut).collect();
    let idle = points.iter().filter(|p| p.idle > 0.0).count();
    let first = points.first()?;
    // Whatever else is lost: all of what follows a silence, or the end of every point.
    let silent = idle == points.len() && points.iter().all(|p| p.loss() > 0.999);
    let ends = |p: &&Point| p.end_lost > 20 && p.end_lost as f64 > 0.05 * p.sent as f64;
    let lasting = silent
        || case.points.iter().filter(|p| p.loss() > 0.001).all(|p| cut(&p))
        || case.points.iter().filter(ends).count() * 10 >= case.points.len() * 9;
    let counted = case.counters.conntrack_drops > 0;
    // One gap behind which all was well again is none that forgot the flow.
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

/// Some flows lose, others of the same kind do not.
fn polarisation(case: &Case) -> Option<Finding> {
    // One that was sent more slowly shows nothing.
    let flows = || case.points.iter().filter(|p| p.flow > 0);
    let fastest = flows().map(Point::pps).fold(0.0, f64::max);
    let flows: Vec<&Point> = flows().filter(|p| p.pps() > 0.9 * fastest).collect();
    let (bad, good): (Vec<&Point>, Vec<&Point>) = flows.iter().partition(|p| p.loss() > 0.005);
    let worst = bad.iter().map(|p| p.loss()).fold(0.0, f64::max);
    let best = good.iter().map(|p| p.loss()).fold(0.0, f64::max);
    // As likely for all, so few losses of the good ones would be no chance.
    let sums = |all: &[&Point]| all.iter().fold((0, 0), |(l, s), p| (l + p.lost(), s + p.sent));
    let ((all_lost, all_sent), (lost, sent)) = (sums(&flows), sums(&good));
    let expected = all_lost as f64 * sent as f64 / all_sent.max(1) as f64;
    let unlike = expected > 3.5 && (lost as f64) < 0.25 * expected;
    (flows.len() >= 4
        && !bad.is_empty()
        && good.len() * 4 >= flows.len()
        && worst > 10.0 * best.max(1e-3)
        && unlike)
        .then(|| {
            let text = format!(
                "{} of {} ports lose up to {:.1} %, the others nothing",
                bad.len(),
                flows.len(),
                worst * 100.0
            );
            Finding::new(Cause::Polarisation, 0.92, text)
        })
}

/// Single losses that do not care for the rate.
fn damage(case: &Case) -> Option<Finding> {
    let smooth = plain(case, |p| p.burst <= 1 && p.loss() < 0.5);
    let fastest = smooth.iter().map(|p| p.bps()).fold(0.0, f64::max);
    let slow: Vec<&&Point> = smooth.iter().filter(|p| p.bps() < 0.6 * fastest).collect();
    let lost: u64 = slow.iter().map(|p| p.lost()).sum();
    let sent: f64 = slow.iter().map(|p| p.sent as f64 * p.wire_bits()).sum();
    let rate = lost as f64 / sent.max(1.0);
    let single = slow.iter().filter(|p| p.lost() > 5).all(|p| p.burstiness < 2.0);
    // Congestion leaves slow points alone, and the slowest most of all.
    let calm = slow.iter().filter(|p| p.bps() < 0.35 * fastest);
    let (seen, offered) =
        calm.fold((0, 0.0), |(lost, bits), p| (lost + p.lost(), bits + p.sent as f64 * p.wire_bits()));
    let spared = rate * offered > 6.0 && (seen as f64) < 0.3 * rate * offered;
    if lost < 8 || !single || spared {
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

/// Loss in bursts only.
fn microburst(case: &Case) -> Option<Finding> {
    let bursts = plain(case, |p| p.burst > 1);
    let bad: Vec<&&Point> = bursts.iter().filter(|p| p.loss() > 0.002).collect();
    let worst = bad.iter().max_by(|a, b| a.loss().total_cmp(&b.loss()))?;
    let smooth = plain(case, |p| p.burst <= 1 && p.bps() >= worst.bps() * 0.9);
    let clean = smooth.iter().all(|p| p.loss() < 0.2 * worst.loss()) && !smooth.is_empty();
    clean.then(|| {
        let text = format!(
            "bursts of {} packets lose {:.1} %, the same rate without bursts nothing",
            worst.burst,
            worst.loss() * 100.0
        );
        Finding::new(Cause::Microburst, 0.93, text)
    })
}

/// A rate that is not exceeded: in bits or in packets, with a queue or without.
fn ceiling(case: &Case) -> Option<Finding> {
    let bad = plain(case, |p| {
        p.burst <= 1 && p.loss() > 0.01 && p.loss() < 0.999 && !(one_gap(p) && p.lost() > 20)
    });
    let worst = bad.iter().max_by(|a, b| a.loss().total_cmp(&b.loss()))?;
    let slow_clean = plain(case, |p| p.burst <= 1 && p.pps() < 0.6 * worst.pps() && p.loss() < 0.005);
    if slow_clean.is_empty() {
        return None;
    }
    let spread = |of: &dyn Fn(&Point) -> f64| {
        let values: Vec<f64> = bad.iter().map(|p| of(p)).collect();
        let (low, high) = values.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &v| (l.min(v), h.max(v)));
        high / low.max(1e-9)
    };
    let sizes = bad.iter().map(|p| p.size).min() != bad.iter().map(|p| p.size).max();
    let (in_packets, in_bits) = (spread(&|p| p.delivered_pps), spread(&|p| p.delivered_pps * p.wire_bits()));
    // Another size at the same bit rate passes or not: that tells what is limited, even if only one size loses.
    let others = plain(case, |p| {
        p.burst <= 1 && p.size != worst.size && p.bps() > 0.9 * worst.delivered_pps * worst.wire_bits() * 1.15
    });
    let by_packets = if sizes {
        in_packets < in_bits
    } else {
        others.iter().any(|p| p.loss() < 0.002 && p.size > worst.size)
    };
    if by_packets {
        let text = format!("{:.0} packets a second pass, whatever their size", worst.delivered_pps);
        return Some(Finding::new(Cause::PacketRate, 0.92, text));
    }
    let noise = slow_clean.iter().map(|p| p.delay_p99).fold(0.0, f64::max);
    let waits = worst.delay_at_loss > (3.0 * noise).max(15_000.0);
    let rate = worst.delivered_pps * worst.wire_bits() / 1e6;
    Some(if waits {
        let text =
            format!("{rate:.0} Mb/s pass; packets before a loss waited {:.0} µs", worst.delay_at_loss / 1e3);
        Finding::new(Cause::FullQueue, 0.92, text)
    } else {
        let text = format!("{rate:.0} Mb/s pass; packets before a loss waited no longer than others");
        Finding::new(Cause::Policer, 0.92, text)
    })
}

/// Causes that need no loss.
pub(super) fn order_and_delay(case: &Case, findings: &mut Vec<Finding>) {
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
        findings.push(Finding::new(Cause::IdleStates, 0.9, text));
    }
    let combs: Vec<f64> = case.points.iter().map(|p| p.comb).filter(|&comb| comb > 0.0).collect();
    let comb = combs.iter().copied().fold(0.0, f64::max);
    if combs.len() >= 2 && comb > 10_000.0 {
        let text = format!("packets arrive in heaps {:.0} µs apart", comb / 1e3);
        findings.push(Finding::new(Cause::Moderation, 0.9, text));
    }
    let spikes: u64 = case.points.iter().filter(|p| p.loss() < 0.001).map(|p| p.spikes).sum();
    if case.counters.pauses > 0 && spikes > 2 {
        let text = format!(
            "{} pause frames, and the delay jumped {spikes} times without a loss",
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

/// Another least delay from some packet on, for all points that follow, though the rate is the same. No clock stepped.
fn moved_for_good(case: &Case) -> Option<Finding> {
    let size = case.points.first()?.size;
    let points = plain(case, |p| p.burst <= 1 && p.size == size && p.received > 50);
    let noise = points.iter().map(|p| p.noise).fold(0.0, f64::max);
    let least = (6.0 * noise).max(30_000.0) + case.wakes;
    let part = |points: &[&Point]| {
        points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (l.min(p.floor), h.max(p.floor)))
    };
    (1..points.len().saturating_sub(1)).find_map(|at| {
        let (before, after) = points.split_at(at);
        let ((low, high), (least_after, most_after)) = (part(before), part(after));
        let change = if least_after > high { least_after - high } else { most_after - low };
        let apart = least_after > high + least || most_after < low - least;
        // It was seen to happen, or the same rate is on both sides: a slower one may find a processor asleep.
        let seen = before.last().is_some_and(|p| (p.shift - change).abs() < 0.3 * change.abs());
        let same = before.iter().any(|b| after.iter().any(|a| a.pps() > 0.9 * b.pps()));
        (apart && case.clock_steps.is_empty() && (seen || at > 1 && same)).then(|| {
            let text = format!("the delay changed by {:.1} µs for good, and no clock stepped", change / 1e3);
            Finding::new(Cause::RouteChange, if seen { 0.85 } else { 0.75 }, text)
        })
    })
}

/// By how much the first packets of bursts, which meet no queue of their own, are later than those of steady streams before and
/// after, ns. A change of the route or of a clock is on one side only.
fn woken(case: &Case) -> f64 {
    let steady = |points: &[Point]| {
        let steady = points.iter().filter(|p| p.burst <= 1 && p.flow == 0 && p.idle == 0.0 && p.received > 0);
        steady.map(|p| p.floor + (3.0 * p.delay).max(p.delay_p99)).fold(f64::INFINITY, f64::min)
    };
    let late =
        case.points.iter().enumerate().filter(|(_, p)| p.burst >= 4 && p.received > 0).map(|(at, p)| {
            let (before, after) = (steady(&case.points[..at]), steady(&case.points[at + 1..]));
            p.floor + p.first - before.max(after)
        });
    late.filter(|late| late.is_finite()).fold(0.0, f64::max)
}
