//! What an orderly network lets one say beforehand: which heaps come out, and what each of them lacks, from nothing but
//! what arrived and when.
//!
//! Orderly is: nothing forged or cut, each heap's last packet in time for its deadline, and never more heaps begun and
//! not yet whole than a window holds.

use super::judge::Judge;
use super::network::What;
use super::sender::Plan;
use super::{SpeadTally, SpeadWorld};
use crate::model::{Held, hold};
use skyhaul_core::placement::{Key, Nanos, Reject};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Of a heap: when each of its packets came first.
#[derive(Debug, Default)]
struct Came {
    packets: BTreeMap<usize, Nanos>,
}

impl Came {
    fn first(&self) -> Nanos {
        self.packets.values().min().copied().unwrap_or_default()
    }

    fn last(&self) -> Nanos {
        self.packets.values().max().copied().unwrap_or_default()
    }

    /// Whether all of it came, and how long it is was told.
    fn is_whole(&self, plan: &Plan) -> bool {
        self.packets.len() == plan.cuts.len() && self.size(plan).is_some()
    }

    fn size(&self, plan: &Plan) -> Option<u64> {
        self.packets.keys().any(|&n| plan.tells(n)).then_some(plan.size)
    }

    fn missing(&self, plan: &Plan) -> Vec<Range<u64>> {
        let came = |n: &usize| self.packets.contains_key(n);
        let high = plan.cuts.iter().enumerate().filter(|(n, cut)| came(n) && !cut.is_empty());
        let end = self.size(plan).unwrap_or(high.map(|(_, cut)| cut.end).max().unwrap_or(0));
        let mut out: Vec<Range<u64>> = Vec::new();
        for (n, cut) in plan.cuts.iter().enumerate() {
            let cut = cut.start..cut.end.min(end);
            match out.last_mut() {
                _ if came(&n) || cut.is_empty() => {}
                Some(last) if last.end == cut.start => last.end = cut.end,
                _ => out.push(cut),
            }
        }
        out
    }
}

/// Hold what was handed on against what arrived. Whether all of it had to be exact.
///
/// # Errors
/// What does not hold.
pub fn hold(world: &SpeadWorld, judge: &Judge, tally: &SpeadTally) -> Held<bool> {
    let came = came(world);
    let refused = |why: Reject| tally.rejects.get(why) > 0;
    let remembers = !judge.forgot
        && world.config.remember >= world.stream.plans.len()
        && world.arrivals.last().is_none_or(|last| last.at < world.config.remember_for);
    if world.is_alone() {
        every_heap_is_there(world, judge, tally, &came, remembers)?;
    }
    let by_choice = [Reject::NoBuffer, Reject::OutOfOrder, Reject::Unsized, Reject::Fragmented];
    if !world.is_alone() || !remembers || by_choice.into_iter().any(refused) {
        return Ok(false);
    }
    if !is_orderly(world, &came) {
        return Ok(false);
    }
    for (&plan, came) in &came {
        let plan = &world.stream.plans[plan];
        let key = world.key(plan.sender, plan.counter);
        let missing = came.missing(plan);
        let given = &judge.given[&key][0];
        hold!(given.missing == missing, "{key:?}: the network lost {missing:?}, {:?} is told", given.missing);
        hold!(given.size == came.size(plan), "{key:?}: its size is told as {:?}", given.size);
    }
    let filled = |plan: usize, n: &&usize| !world.stream.plans[plan].cuts[**n].is_empty();
    let distinct: usize =
        came.iter().map(|(&plan, came)| came.packets.keys().filter(|n| filled(plan, n)).count()).sum();
    hold!(
        world.piece > 0 || tally.accepted == distinct as u64,
        "{distinct} came, {} accepted",
        tally.accepted
    );
    Ok(true)
}

/// When each packet of each heap came, up to the stop.
fn came(world: &SpeadWorld) -> BTreeMap<usize, Came> {
    let mut out: BTreeMap<usize, Came> = BTreeMap::new();
    let mut stopped = BTreeSet::new();
    for arrival in &world.arrivals {
        let What::Whole(id) = arrival.what else { continue };
        let plan = &world.stream.plans[id.plan];
        if plan.control == Some(2) {
            stopped.insert(plan.sender);
            if world.stops > 0 && stopped.len() as u64 >= world.stops {
                break;
            }
            continue;
        }
        out.entry(id.plan).or_default().packets.entry(id.packet).or_insert(arrival.at);
    }
    out
}

/// A heap of which a packet came is handed on, and once; unless all its packets were refused for a limit.
fn every_heap_is_there(
    world: &SpeadWorld,
    judge: &Judge,
    tally: &SpeadTally,
    came: &BTreeMap<usize, Came>,
    remembers: bool,
) -> Held {
    let limits = [Reject::NoBuffer, Reject::Unsized];
    let limited = limits.into_iter().any(|why| tally.rejects.get(why) > 0);
    for &plan in came.keys() {
        let Plan { sender, counter, .. } = world.stream.plans[plan];
        let key = world.key(sender, counter);
        let given = judge.given.get(&key).map_or(0, Vec::len);
        hold!(given > 0 || limited, "{key:?} came, and is not handed on");
        hold!(given < 2 || !remembers, "{key:?} is handed on {given} times");
        for given in judge.given.get(&key).into_iter().flatten() {
            hold!(given.plans == BTreeSet::from([plan]), "{key:?} holds bytes of {:?}", given.plans);
        }
    }
    let keys: BTreeSet<Key> = came
        .keys()
        .map(|&plan| world.key(world.stream.plans[plan].sender, world.stream.plans[plan].counter))
        .collect();
    hold!(judge.given.keys().all(|key| keys.contains(key)), "a heap is handed on that never came");
    Ok(())
}

fn is_orderly(world: &SpeadWorld, came: &BTreeMap<usize, Came>) -> bool {
    let timeout = world.config.timeout.unwrap_or(Nanos(u64::MAX));
    let mut changes: BTreeMap<u64, Vec<(Nanos, i64)>> = BTreeMap::new();
    for (&plan, came) in came {
        let plan = &world.stream.plans[plan];
        let due = came.first().plus(timeout);
        if came.last() >= due {
            return false;
        }
        let key = world.key(plan.sender, plan.counter);
        let by = if key.source == 0 { key.number } else { key.source };
        let until = if came.is_whole(plan) { came.last() } else { due.plus(world.tick) };
        let changes = changes.entry(by % world.config.substreams).or_default();
        // Ends count after beginnings of the same moment: more may be open then than are.
        changes.extend([(came.first(), 1), (until.plus(Nanos(1)), -1)]);
    }
    changes.values_mut().all(|changes| {
        changes.sort();
        let mut open = 0;
        changes.iter().all(|(_, change)| {
            open += change;
            open <= world.config.window as i64
        })
    })
}
