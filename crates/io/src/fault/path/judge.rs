//! Judges every packet of a path, in both directions.

use super::flow::{Bucket, Processor, Transmitter};
use super::{Cause, Conditions, Counts, Direction, Fate, Flow, FlowFilter, Outcome, Packet, Path, Section};
use crate::fault::{Damage, Faults, Line, XorShift};
use std::cell::Cell;
use std::collections::BTreeMap;

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

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Carried<T> {
    pub(super) packet: Packet,
    pub(super) item: T,
    pub(super) number: u64,
    pub(super) copy: u8,
    pub(super) damage: Damage,
    pub(super) late: bool,
    /// Its delay in addition to that of the link, ns.
    pub(super) delay: u64,
    /// The flow stage that it passed.
    pub(super) stage: Option<usize>,
}

/// Packets, and why they were lost.
pub(super) type Judged<T> = Vec<(Carried<T>, Option<Cause>)>;

/// Conditions at work.
#[derive(Debug)]
pub(super) struct Stage<T> {
    pub(super) conditions: Conditions,
    line: Line<Carried<T>>,
    model: XorShift,
    bad: bool,
    bits: XorShift,
    jitter: XorShift,
    police: Bucket,
    packets: Bucket,
    /// When the last packet was due, for those that keep their order.
    pub(super) last: u64,
}

impl<T: Clone> Stage<T> {
    pub(super) fn new(conditions: Conditions, seed: u64) -> Self {
        // Each key has its own random numbers, so that omitting one does not change the others.
        let stream = |tag: u64| XorShift::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(tag));
        let faults = Faults { seed, ..conditions.faults };
        Self {
            conditions,
            line: Line::new(&faults),
            model: stream(1),
            bad: false,
            bits: stream(2),
            jitter: stream(3),
            police: Bucket::default(),
            packets: Bucket::default(),
            last: 0,
        }
    }

    /// Changes the conditions; packets that were held back continue.
    pub(super) fn change(&mut self, conditions: Conditions, now: u64, out: &mut Judged<T>) {
        if conditions.faults != self.conditions.faults {
            let mut held = Vec::new();
            self.line.change(&conditions.faults, &mut |carried, damage| held.push((carried, damage)));
            held.into_iter().for_each(|(carried, damage)| self.admit(carried, damage, now, out));
        }
        self.conditions = conditions;
    }

    /// Releases packets that were held back, because none follow for now.
    pub(super) fn flush(&mut self, now: u64, out: &mut Judged<T>) {
        let mut held = Vec::new();
        self.line.flush(&mut |carried, damage| held.push((carried, damage)));
        held.into_iter().for_each(|(carried, damage)| self.admit(carried, damage, now, out));
    }

    /// Whether a packet is only delayed here, and none is held back, so that no random number is needed.
    pub(super) fn only_delays(&self) -> bool {
        let Conditions { gilbert, bit_errors, jitter, police, packet_limit, longest, .. } = &self.conditions;
        let limits = police.is_some() || packet_limit.is_some() || longest.is_some();
        let draws = gilbert.is_some() || *bit_errors > 0.0 || jitter.nanos() > 0;
        !limits && !draws && self.line.is_idle()
    }

    /// Packets held back.
    pub(super) fn held(&self) -> usize {
        self.line.held()
    }

    /// Judge a packet; it and others that it releases go to `out`.
    pub(super) fn pass(&mut self, mut carried: Carried<T>, now: u64, out: &mut Judged<T>) {
        let bursts = self.line.injected().lost_in_bursts;
        let fate = self.line.decide();
        // All is drawn for each packet, so that one fate changes no other.
        let model = self.model_loses();
        let bits = self.has_bit_error(carried.packet.octets);
        let jitter = self.draw_jitter();
        let cause = match (fate.lost, model, bits) {
            (true, _, _) if self.line.injected().lost_in_bursts > bursts => Some(Cause::Burst),
            (true, _, _) => Some(Cause::Random),
            (_, true, _) => Some(Cause::Model),
            (_, _, true) => Some(Cause::Bits),
            _ => None,
        };
        carried.delay += self.conditions.delay.nanos() + jitter;
        if cause.is_some() {
            out.push((carried, cause));
        } else {
            let copies = Cell::new(u8::from(fate.late == 0));
            let copy = || {
                let copy = copies.replace(1);
                Carried {
                    late: carried.late || fate.late > 0,
                    copy: carried.copy.max(copy),
                    ..carried.clone()
                }
            };
            if self.line.keep(fate, copy) {
                self.admit(carried, fate.damage, now, out);
            }
        }
        let mut due = Vec::new();
        self.line.step(&mut |carried, damage| due.push((carried, damage)));
        due.into_iter().for_each(|(carried, damage)| self.admit(carried, damage, now, out));
    }

    /// Apply the limits to a packet.
    fn admit(&mut self, mut carried: Carried<T>, damage: Damage, now: u64, out: &mut Judged<T>) {
        carried.damage =
            Damage { flip: damage.flip.or(carried.damage.flip), cut: damage.cut.or(carried.damage.cut) };
        let (packet, of) = (&carried.packet, &self.conditions);
        let octets = u64::from(packet.octets) + u64::from(of.overhead);
        let cause = if of.longest.is_some_and(|longest| packet.ip > longest) {
            Some(Cause::TooLong)
        } else if of.police.is_some_and(|(rate, burst)| {
            !self.police.octets(now, octets, rate.bits_per_second(), burst.bytes())
        }) {
            Some(Cause::Policed)
        } else if of.packet_limit.is_some_and(|(rate, burst)| !self.packets.packet(now, rate, burst.into())) {
            Some(Cause::PacketLimit)
        } else {
            None
        };
        out.push((carried, cause));
    }

    fn model_loses(&mut self) -> bool {
        let Some(of) = self.conditions.gilbert else { return false };
        let turns = self.model.chance(if self.bad { of.recovers } else { of.worsens });
        self.bad ^= turns;
        self.model.chance(if self.bad { of.bad_loss } else { of.good_loss })
    }

    fn has_bit_error(&mut self, octets: u32) -> bool {
        let chance = self.conditions.bit_errors;
        // 1 - (1 - p)^n, without the loss of digits that small p would bring.
        chance > 0.0 && {
            let none = f64::from(octets) * 8.0 * (-chance).ln_1p();
            self.bits.chance(-none.exp_m1())
        }
    }

    fn draw_jitter(&mut self) -> u64 {
        let most = self.conditions.jitter.nanos();
        if most == 0 { 0 } else { ((u128::from(self.jitter.next()) * (u128::from(most) + 1)) >> 64) as u64 }
    }

    /// Whether packets that take longer hold back those that follow.
    pub(super) fn keeps_order(&self) -> bool {
        self.conditions.jitter.nanos() > 0 && !self.conditions.jitter_reorders
    }
}

/// Maximum number of flows remembered.
const FLOWS: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Known {
    seen: u64,
    cut: bool,
}

/// The flows that passed, in either direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Firewall(BTreeMap<Flow, Known>);

impl Firewall {
    /// Whether a packet passes.
    pub(super) fn passes(&mut self, direction: Direction, packet: &Packet, idle: u64) -> bool {
        const TCP: u8 = 6;
        let flow = packet.flow.both_ways();
        if !self.0.contains_key(&flow) && self.0.len() >= FLOWS {
            return true;
        }
        let known = self.0.entry(flow).or_insert(Known { seen: packet.at, cut: false });
        known.cut |= packet.at.saturating_sub(known.seen) > idle;
        known.seen = packet.at;
        let opens = packet.opens || (packet.flow.protocol != TCP && direction == Direction::Forward);
        known.cut &= !opens;
        !known.cut
    }
}
