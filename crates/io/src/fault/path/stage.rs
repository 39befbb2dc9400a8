//! Decisions that concern a single packet: losses, damage, limits, delay; one stage for each flow that has its own
//! conditions, and one for all.

use super::link::Bucket;
use super::{Cause, Conditions, Packet};
use crate::fault::{Damage, Faults, Line, plan::XorShift};
use std::cell::Cell;

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
