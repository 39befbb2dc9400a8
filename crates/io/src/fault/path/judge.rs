//! Judges every packet of a path, in both directions.

use super::firewall::Firewall;
use super::link::{Processor, Transmitter};
use super::stage::{Carried, Judged, Stage};
use super::{Cause, Conditions, Counts, Direction, Fate, FlowFilter, Outcome, Packet, Path, Section};
use crate::fault::Damage;

/// One direction.
#[derive(Debug)]
struct Side<T> {
    direction: Direction,
    /// Flows with conditions of their own.
    flows: Vec<(FlowFilter, Stage<T>)>,
    shared: Stage<T>,
    links: Vec<Transmitter>,
    turn: u32,
    processor: Processor,
    counts: Counts,
}

/// What both directions share.
#[derive(Debug, Default)]
struct Both {
    half_duplex: Transmitter,
    firewall: Firewall,
    seed: u64,
}

/// Judges the packets of a path. Times are given, and never go back; nothing is waited for.
#[derive(Debug)]
pub struct Judge<T> {
    path: Path,
    /// Number of sections in force.
    begun: usize,
    sides: [Side<T>; 2],
    both: Both,
    first: Judged<T>,
    second: Judged<T>,
}

impl<T: Clone> Judge<T> {
    /// A judge of this path, at time 0.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let side = |direction: Direction| Side {
            direction,
            flows: Vec::new(),
            shared: Stage::new(Conditions::CLEAN, seed_of(path.seed, direction)),
            links: Vec::new(),
            turn: 0,
            processor: Processor::default(),
            counts: Counts::default(),
        };
        let both = Both { seed: path.seed, ..Both::default() };
        let sides = Direction::BOTH.map(side);
        let path = path.clone();
        let mut judge = Self { path, begun: 0, sides, both, first: Vec::new(), second: Vec::new() };
        judge.advance(0, &mut |_, _| {});
        judge
    }

    /// When its conditions change next, in nanoseconds.
    #[must_use]
    pub fn next_change(&self) -> Option<u64> {
        self.path.sections.get(self.begun).map(|section| section.at)
    }

    /// Advances the time: sections come into force, and release packets that were held back.
    pub fn advance(&mut self, now: u64, out: &mut impl FnMut(Direction, Outcome<T>)) {
        while let Some(section) = self.path.sections.get(self.begun).filter(|section| section.at <= now) {
            let section = section.clone();
            self.begun += 1;
            for side in &mut self.sides {
                if section.direction.is_none_or(|is| is == side.direction) {
                    let first = &mut self.first;
                    side.change(&section, self.path.seed, first, &mut self.second);
                    let direction = side.direction;
                    side.conclude(first, &mut self.second, now, &mut self.both, &mut |o| out(direction, o));
                }
            }
        }
    }

    /// Judge a packet. It, or others that it releases, go to `out`; each copy exactly once, now or later.
    pub fn offer(&mut self, direction: Direction, packet: Packet, item: T, out: &mut impl FnMut(Outcome<T>)) {
        let side = &mut self.sides[direction as usize];
        let (number, now) = (side.counts.offered, packet.at);
        side.counts.offered += 1;
        side.counts.offered_octets += u64::from(packet.octets);
        let stage = side.flows.iter().rposition(|(filter, _)| filter.matches(&packet.flow));
        let carried =
            Carried { packet, item, number, copy: 0, damage: Damage::NONE, late: false, delay: 0, stage };
        match stage {
            // The common case: such packets need no queue between two stages.
            None if side.shared.only_delays() => {
                let delay = side.shared.conditions.delay.nanos();
                return out(side.settle(Carried { delay, ..carried }, None, now, &mut self.both));
            }
            None => self.first.push((carried, None)),
            Some(stage) => side.flows[stage].1.pass(carried, now, &mut self.first),
        }
        side.conclude(&mut self.first, &mut self.second, now, &mut self.both, out);
    }

    /// Nothing has arrived for a while, or nothing will: releases the packets held back in a direction.
    pub fn flush(&mut self, direction: Direction, now: u64, out: &mut impl FnMut(Outcome<T>)) {
        let side = &mut self.sides[direction as usize];
        side.flows.iter_mut().for_each(|(_, stage)| stage.flush(now, &mut self.first));
        side.conclude(&mut self.first, &mut self.second, now, &mut self.both, out);
        side.shared.flush(now, &mut self.second);
        side.finish(&mut self.second, now, &mut self.both, out);
    }

    /// Packets held back in a direction until others pass.
    #[must_use]
    pub fn held(&self, direction: Direction) -> usize {
        let side = &self.sides[direction as usize];
        side.shared.held() + side.flows.iter().map(|(_, stage)| stage.held()).sum::<usize>()
    }

    /// The sums of a direction.
    #[must_use]
    pub fn counts(&self, direction: Direction) -> &Counts {
        &self.sides[direction as usize].counts
    }

    /// What a direction does to all packets now.
    #[must_use]
    pub fn conditions(&self, direction: Direction) -> &Conditions {
        &self.sides[direction as usize].shared.conditions
    }
}

/// The forward direction uses the seed itself; neighbouring seeds also give unrelated reverse directions.
fn seed_of(seed: u64, direction: Direction) -> u64 {
    match direction {
        Direction::Forward => seed,
        Direction::Reverse => seed.rotate_left(32) ^ 0xD1B5_4A32_D192_ED03,
    }
}

impl<T: Clone> Side<T> {
    /// Apply a section; packets that were held back continue through the following stages.
    fn change(&mut self, section: &Section, seed: u64, first: &mut Judged<T>, second: &mut Judged<T>) {
        let (stage, out) = match section.flow {
            None => (&mut self.shared, second),
            Some(filter) => {
                let known = self.flows.iter().position(|(of, _)| *of == filter);
                let at = known.unwrap_or_else(|| {
                    let seed = seed_of(seed, self.direction).wrapping_add(1 + self.flows.len() as u64);
                    self.flows.push((filter, Stage::new(Conditions::CLEAN, seed)));
                    self.flows.len() - 1
                });
                (&mut self.flows[at].1, first)
            }
        };
        let mut conditions = stage.conditions;
        for (key, value) in &section.set {
            // They were tried when the text was read.
            let _ = conditions.set(key, value);
        }
        stage.change(conditions, section.at, out);
        let links = self.shared.conditions.parallel.map_or(1, |parallel| parallel.links) as usize;
        self.links.resize_with(links.max(1), Transmitter::default);
    }

    /// From the flow's stage through the shared stage and the link.
    fn conclude(
        &mut self,
        first: &mut Judged<T>,
        second: &mut Judged<T>,
        now: u64,
        both: &mut Both,
        out: &mut impl FnMut(Outcome<T>),
    ) {
        for (carried, cause) in first.drain(..) {
            match cause {
                Some(_) => second.push((carried, cause)),
                None => self.shared.pass(carried, now, second),
            }
        }
        self.finish(second, now, both, out);
    }

    /// Through the link.
    fn finish(
        &mut self,
        judged: &mut Judged<T>,
        now: u64,
        both: &mut Both,
        out: &mut impl FnMut(Outcome<T>),
    ) {
        judged.drain(..).for_each(|(carried, cause)| out(self.settle(carried, cause, now, both)));
    }

    fn settle(&mut self, carried: Carried<T>, cause: Option<Cause>, now: u64, both: &mut Both) -> Outcome<T> {
        let fate = match cause {
            Some(cause) => Fate::Lost(cause),
            None => self.send(&carried, now, both),
        };
        let Carried { item, number, copy, packet, .. } = carried;
        let outcome = Outcome { item, number, copy, at: packet.at, octets: packet.octets, fate };
        self.counts.add(&outcome);
        outcome
    }

    fn send(&mut self, carried: &Carried<T>, now: u64, both: &mut Both) -> Fate {
        let (of, packet) = (&self.shared.conditions, &carried.packet);
        if let Some(idle) = of.idle_cut
            && !both.firewall.passes(self.direction, packet, idle.nanos())
        {
            return Fate::Lost(Cause::Idle);
        }
        let link = match of.parallel {
            None => 0,
            Some(parallel) if parallel.spray => {
                self.turn = self.turn.wrapping_add(1);
                self.turn % parallel.links
            }
            Some(parallel) => (packet.flow.hash(both.seed) % u64::from(parallel.links)) as u32,
        };
        let mut sent = now;
        if let Some(rate) = of.rate {
            let line = if of.half_duplex {
                &mut both.half_duplex
            } else {
                let last = self.links.len() - 1;
                &mut self.links[(link as usize).min(last)]
            };
            let octets = u64::from(packet.octets) + u64::from(of.overhead);
            let taken = line.take(now, octets, rate.bits_per_second(), of.buffer.bytes());
            let Some((at, waiting)) = taken else { return Fate::Lost(Cause::QueueFull) };
            self.counts.most_waiting = self.counts.most_waiting.max(waiting);
            sent = at;
        }
        let apart = of.parallel.map_or(0, |parallel| parallel.apart.nanos());
        let mut due =
            sent.saturating_add(carried.delay).saturating_add(u64::from(link).saturating_mul(apart));
        due = self.in_order(carried.stage, due);
        let of = &self.shared.conditions;
        if let Some((length, every)) = of.stall {
            let (length, every) = (length.nanos(), every.nanos().max(1));
            if due % every >= every - length {
                due = due.next_multiple_of(every);
            }
        }
        if let Some(comb) = of.comb {
            due = due.next_multiple_of(comb.nanos().max(1));
        }
        if let Some((late, silence)) = of.wake {
            due = self.processor.takes(due, late.nanos(), silence.nanos());
        }
        Fate::Sent { due, damage: carried.damage, hops: of.hops, late: carried.late }
    }

    /// No earlier than the packet before, if a longer delay holds back later packets.
    fn in_order(&mut self, stage: Option<usize>, mut due: u64) -> u64 {
        let flow = stage.and_then(|stage| self.flows.get_mut(stage)).map(|(_, stage)| stage);
        for stage in flow.into_iter().chain([&mut self.shared]) {
            if stage.keeps_order() {
                due = due.max(stage.last);
                stage.last = due;
            }
        }
        due
    }
}
