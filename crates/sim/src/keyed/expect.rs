//! What an orderly network lets one say beforehand: which objects come out, and what each of them lacks, from nothing but
//! what arrived and when.
//!
//! Orderly is: nothing forged or cut, each object's last packet in time for its deadline, and never more objects begun and
//! not yet whole than a window holds.

use super::objects::Objects;
use super::stream::Plan;
use crate::ledger::{Held, hold};
use crate::network::Origin;
use crate::tally::Tally;
use crate::world::World;
use skyhaul_core::placement::{Key, Nanos, Reject};
use skyhaul_core::wire::keyed::{Control, Keyed};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What was handed on of an object.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// What was missing.
    pub missing: Vec<Range<u64>>,
    /// Its size, if it was told.
    pub size: Option<u64>,
    /// The plans that its parts are of.
    pub plans: BTreeSet<usize>,
}

/// What was handed on of all objects.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Each by its key: more than once where it was not remembered.
    pub given: BTreeMap<Key, Vec<Given>>,
    /// Something was forgotten before its time: the start of its sender came late, or again.
    pub forgot: bool,
}

/// Of an object: when each of its packets came first.
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
pub(super) fn hold<W: Keyed>(world: &World<Objects<W>>, told: &Told, tally: &Tally) -> Held<bool> {
    let came = came(world);
    let refused = |why: Reject| tally.rejects.get(why) > 0;
    let remembers = !told.forgot
        && world.side.config.remember >= world.side.stream.plans.len()
        && world.arrivals.last().is_none_or(|last| last.at < world.side.config.remember_for);
    if is_alone(world) {
        every_object_is_there(world, told, tally, &came, remembers)?;
    }
    let by_choice = [Reject::NoBuffer, Reject::OutOfOrder, Reject::Unsized, Reject::Fragmented];
    if !is_alone(world) || !remembers || by_choice.into_iter().any(refused) {
        return Ok(false);
    }
    if !is_orderly(world, &came) {
        return Ok(false);
    }
    for (&plan, came) in &came {
        let (key, plan) = (world.side.key(plan), &world.side.stream.plans[plan]);
        let missing = came.missing(plan);
        let given = &told.given[&key][0];
        hold!(given.missing == missing, "{key:?}: the network lost {missing:?}, {:?} is told", given.missing);
        hold!(given.size == came.size(plan), "{key:?}: its size is told as {:?}", given.size);
    }
    let filled = |plan: usize, n: &&usize| !world.side.stream.plans[plan].cuts[**n].is_empty();
    let distinct: usize =
        came.iter().map(|(&plan, came)| came.packets.keys().filter(|n| filled(plan, n)).count()).sum();
    hold!(
        world.piece > 0 || tally.accepted == distinct as u64,
        "{distinct} came, {} accepted",
        tally.accepted
    );
    Ok(true)
}

/// When each packet of each object came, up to the stop.
fn came<W: Keyed>(world: &World<Objects<W>>) -> BTreeMap<usize, Came> {
    let mut out: BTreeMap<usize, Came> = BTreeMap::new();
    let mut stopped = BTreeSet::new();
    for arrival in &world.arrivals {
        let Origin::Sent(id) = arrival.origin else { continue };
        let plan = &world.side.stream.plans[id.plan];
        if plan.control == Some(Control::Stop) {
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

/// An object of which a packet came is handed on, and once; unless all its packets were refused for a limit.
fn every_object_is_there<W: Keyed>(
    world: &World<Objects<W>>,
    told: &Told,
    tally: &Tally,
    came: &BTreeMap<usize, Came>,
    remembers: bool,
) -> Held {
    let limits = [Reject::NoBuffer, Reject::Unsized];
    let limited = limits.into_iter().any(|why| tally.rejects.get(why) > 0);
    for &plan in came.keys() {
        let key = world.side.key(plan);
        let given = told.given.get(&key).map_or(0, Vec::len);
        hold!(given > 0 || limited, "{key:?} came, and is not handed on");
        hold!(given < 2 || !remembers, "{key:?} is handed on {given} times");
        for given in told.given.get(&key).into_iter().flatten() {
            hold!(given.plans == BTreeSet::from([plan]), "{key:?} holds bytes of {:?}", given.plans);
        }
    }
    let keys: BTreeSet<Key> = came.keys().map(|&plan| world.side.key(plan)).collect();
    hold!(told.given.keys().all(|key| keys.contains(key)), "an object is handed on that never came");
    Ok(())
}

fn is_orderly<W: Keyed>(world: &World<Objects<W>>, came: &BTreeMap<usize, Came>) -> bool {
    let timeout = world.side.config.timeout.unwrap_or(Nanos(u64::MAX));
    let mut changes: BTreeMap<u64, Vec<(Nanos, i64)>> = BTreeMap::new();
    for (&plan, came) in came {
        let (key, plan) = (world.side.key(plan), &world.side.stream.plans[plan]);
        let due = came.first().plus(timeout);
        if came.last() >= due {
            return false;
        }
        let by = if key.source == 0 { key.number } else { key.source };
        let until = if came.is_whole(plan) { came.last() } else { due.plus(world.tick) };
        let changes = changes.entry(by % world.side.config.substreams).or_default();
        // Ends count after beginnings of the same moment: more may be open then than are.
        changes.extend([(came.first(), 1), (until.plus(Nanos(1)), -1)]);
    }
    changes.values_mut().all(|changes| {
        changes.sort();
        let mut open = 0;
        changes.iter().all(|(_, change)| {
            open += change;
            open <= world.side.config.window as i64
        })
    })
}

/// Whether all that comes under one key is of one object.
fn is_alone<W: Keyed>(world: &World<Objects<W>>) -> bool {
    world.network.is_honest() && !world.side.stream.restarted
}
