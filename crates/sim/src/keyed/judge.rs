//! What must hold of a keyed window: what each object that is handed on lacks, why it is, when, and which of them must still
//! be remembered.
//!
//! In an orderly network, what arrived and when decides which objects come out and what each of them lacks. Orderly is: nothing forged or cut, each object's last packet in time for its deadline, and never more objects begun and
//! not yet whole than a window holds.

use super::stream::{Id, Objects, Plan};
use crate::ledger::{Held, Ledger, Tally, hold};
use crate::network::Origin;
use crate::world::{Judge, World};
use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use skyhaul_core::wire::keyed::{Control, Keyed};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An object of which something came.
#[derive(Debug, Default)]
struct Open {
    /// The plans that its parts are of.
    plans: BTreeSet<usize>,
    /// Something of it was damaged or forged.
    forged: bool,
    size: Option<u64>,
    first: Nanos,
    last: Nanos,
    /// Where the furthest part ends that came too early, where order is wanted.
    missed: u64,
    /// How many opened before it.
    number: u64,
}

/// Who sends, everything that is under construction, and everything that was handed on.
#[derive(Debug)]
pub struct KeyedJudge<'a, W> {
    pub(super) side: &'a Objects<W>,
    pub(super) books: Books,
}

#[derive(Debug, Default)]
pub(super) struct Books {
    open: BTreeMap<Key, Open>,
    opened: u64,
    /// When each object was handed on, in order, and whether it was complete.
    done: Vec<(Nanos, bool)>,
    latest: BTreeMap<Key, usize>,
    /// Of each source, how many of `done` are forgotten.
    forgotten: BTreeMap<u64, usize>,
    told: Told,
}

impl<W: Keyed> KeyedJudge<'_, W> {
    /// Whether the object is finished and must be remembered at `now`; then, whether it was complete.
    fn remembers(&self, key: Key, now: Nanos) -> Option<bool> {
        let &at = self.books.latest.get(&key)?;
        let from = self.books.done.len().saturating_sub(self.side.config.remember);
        let from = from.max(self.books.forgotten.get(&key.source).copied().unwrap_or(0));
        let (when, complete) = self.books.done[at];
        (at >= from && now.since(when) < self.side.config.remember_for).then_some(complete)
    }

    /// Whether packets tell the same number for both.
    fn is_like(&self, one: Key, other: Key) -> bool {
        one.source == other.source && (one.number ^ other.number) & self.side.highest == 0
    }

    fn substream(&self, key: Key) -> u64 {
        (if key.source == 0 { key.number } else { key.source }) % self.side.config.substreams
    }

    fn beside(&self, key: Key) -> impl Iterator<Item = &Open> {
        let substream = self.substream(key);
        self.books
            .open
            .iter()
            .filter(move |(other, _)| self.substream(**other) == substream)
            .map(|(_, open)| open)
    }

    /// The object of this part, which begins here if it is not under construction.
    fn begin(&mut self, part: &Placement, of: Option<Id>, now: Nanos) -> Held<&mut Open> {
        let key = part.key;
        if !self.books.open.contains_key(&key) {
            hold!(self.remembers(key, now).is_none(), "{key:?} is finished, and begins again");
            self.books.opened += 1;
        }
        let fresh = Open { first: now, last: now, number: self.books.opened, ..Open::default() };
        let open = self.books.open.entry(key).or_insert(fresh);
        open.plans.extend(of.map(|id| id.plan));
        open.forged |= of.is_none();
        open.size = open.size.or(part.size);
        Ok(open)
    }

    fn has_cause(&self, told: &Retired<Vec<u8>>, open: &Open, now: Nanos) -> Held {
        let whole = open.size == Some(told.received());
        hold!(whole == told.is_complete(), "{:?} is handed on for {}", told.key, told.cause.name());
        let came_round =
            |(key, other): (&Key, &Open)| other.number > open.number && self.is_like(*key, told.key);
        let just = match told.cause {
            Cause::Window if self.books.open.iter().any(came_round) => true,
            Cause::Window => {
                self.beside(told.key).count() >= self.side.config.window
                    && self.beside(told.key).all(|other| other.number >= open.number)
            }
            Cause::Timeout => self.side.config.timeout.is_some_and(|timeout| {
                let due = open.first.plus(timeout);
                if self.side.exact { now == due } else { now >= due }
            }),
            Cause::Complete | Cause::Finish => true,
            Cause::Linger | Cause::Idle | Cause::Flush | Cause::Restart | Cause::Stray => false,
        };
        hold!(just, "{:?} is handed on for {} at {}: {open:?}", told.key, told.cause.name(), now.0);
        Ok(())
    }
}

impl<W: Keyed> Judge<Objects<W>> for KeyedJudge<'_, W> {
    fn accept(&mut self, ledger: &Ledger, part: &Placement, of: Option<Id>, now: Nanos) -> Held {
        let (high, end) = (ledger.high(part.key), part.offset + part.length);
        hold!(part.length == 0 || !ledger.overlaps(part), "{part:?} is written over another");
        let is_next = !self.side.config.in_order || part.length == 0 || part.offset == high;
        hold!(is_next, "{part:?} is not the next");
        let open = self.begin(part, of, now)?;
        open.last = now;
        hold!(open.size.is_none_or(|size| high.max(end) <= size), "{part:?} is beyond its object");
        Ok(())
    }

    /// Those of the part's own numbers are held where nothing is forged.
    fn refuse(&mut self, ledger: &Ledger, part: &Placement, why: Reject, of: Option<Id>, now: Nanos) -> Held {
        let (key, config) = (part.key, &self.side.config);
        let open = self.books.open.get(&key);
        let remembered = self.remembers(key, now);
        // An honest part may come to an object that a forged one, or one of an earlier run, began.
        let is_of =
            |plan: usize| open.is_none_or(|open| !open.forged && open.plans.iter().all(|&of| of == plan));
        let is_alone = of.is_some_and(|id| is_of(id.plan));
        let just = match why {
            Reject::Duplicate => open.map_or(remembered == Some(true), |_| ledger.overlaps(part)),
            Reject::Late => open.is_none() && remembered == Some(false),
            Reject::Overlap => ledger.overlaps(part),
            Reject::OutOfOrder => config.in_order && part.offset != ledger.high(key),
            Reject::Unsized => !config.unsized_objects && open.is_none() && part.size.is_none(),
            Reject::Fragmented => ledger.parts(key).count() >= config.runs as usize,
            Reject::WrongSize => {
                !is_alone && open.is_some_and(|open| open.size.is_some() && open.size != part.size)
            }
            Reject::Outside => !is_alone,
            // The memory knows.
            Reject::NoBuffer => true,
            _ => false,
        };
        hold!(just, "{part:?} is refused as {} without reason: {open:?}", why.name());
        if why == Reject::OutOfOrder {
            let open = self.begin(part, of, now)?;
            open.missed = open.missed.max(part.offset + part.length);
        }
        Ok(())
    }

    fn retire(
        &mut self,
        ledger: &Ledger,
        told: &Retired<Vec<u8>>,
        payloads: &[Range<u64>],
        now: Nanos,
    ) -> Held {
        let key = told.key;
        let Some(open) = self.books.open.get(&key) else {
            return Err(format!("{key:?} is handed on, and nothing of it was accepted"));
        };
        self.has_cause(told, open, now)?;
        hold!(ledger.parts(key).next().is_none(), "{key:?} is handed on without some that came");
        hold!(told.size == open.size, "{key:?}: size {:?} is told as {:?}", open.size, told.size);
        let high = payloads.iter().map(|part| part.end).max().unwrap_or(0);
        let bytes = open.size.unwrap_or(high.max(open.missed));
        hold!(told.range == (0..bytes), "{key:?} is {bytes} bytes long, not {:?}", told.range);
        hold!((told.first, told.last) == (open.first, open.last), "{key:?}: times");
        self.books.latest.insert(key, self.books.done.len());
        self.books.done.push((now, told.is_complete()));
        if let Some(Open { size, plans, .. }) = self.books.open.remove(&key) {
            self.books.told.given.entry(key).or_default().push(Given {
                missing: told.missing.clone(),
                size,
                plans,
            });
        }
        Ok(())
    }

    /// The whole number of the object that is handed on with this one: of two laps, the older.
    fn known_as(&self, told: Key) -> Key {
        let like = self.books.open.iter().filter(|(key, _)| self.is_like(**key, told));
        like.min_by_key(|(_, open)| open.number).map_or(told, |(key, _)| *key)
    }

    /// What then comes out of objects that the sender left behind is still to be retired, before it is forgotten.
    fn begins(&self, start: Key, now: Nanos) -> bool {
        let long = |since: Nanos| now.since(since) >= Nanos(100_000_000);
        let finished = self.books.latest.get(&start).filter(|_| self.remembers(start, now).is_some());
        let fresh = finished.is_some_and(|&at| !long(self.books.done[at].0));
        let live = self.books.open.get(&start).is_some_and(|open| start.source == 0 || !long(open.last));
        !live && !fresh
    }

    fn forget(&mut self, source: u64) {
        self.books.told.forgot |= self.books.latest.keys().any(|key| key.source == source);
        self.books.forgotten.insert(source, self.books.done.len());
    }

    fn limits(&self, overdue: Nanos, held: usize) -> Held {
        hold!(
            held == self.books.open.len(),
            "{held} objects are live, {} are not handed on",
            self.books.open.len()
        );
        let mut each: BTreeMap<u64, usize> = BTreeMap::new();
        self.books.open.keys().for_each(|&key| *each.entry(self.substream(key)).or_default() += 1);
        let window = self.side.config.window;
        hold!(each.values().all(|&count| count <= window), "a window holds too many: {each:?}");
        if let Some(timeout) = self.side.config.timeout {
            let over = self.books.open.iter().find(|(_, open)| open.first.plus(timeout) < overdue);
            hold!(over.is_none(), "{:?} waits past its deadline", over.map(|(key, _)| key));
        }
        Ok(())
    }

    fn finish(&self, world: &World<Objects<W>>, _: &Ledger, tally: &mut Tally) -> Held {
        hold!(self.books.open.is_empty(), "{} objects never came out", self.books.open.len());
        tally.exact += u64::from(hold(world, &self.books.told, tally)?);
        Ok(())
    }
}

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
