//! A path from a sender to a reader, with places for faults: queues, buckets, links that fail, things that pause or change.

use crate::random::Random;
use skyhaul_core::diagnose::{Arrived, Counters, Setting};
use skyhaul_core::measure::clock::Exchange;
use skyhaul_core::placement::Nanos;
use std::collections::VecDeque;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    at: f64,
    number: u64,
    sent: f64,
    hops: u8,
    /// What the receiver's clock reads beyond the sender's.
    offset: f64,
}

/// Packets that each place counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) nic_out: u64,
    pub(super) nic_in: u64,
    pub(super) ip_in: u64,
    pub(super) udp_in: u64,
    pub(super) reader_busy: f64,
}

/// The path; the fields of faults are empty on a good one.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) rate: f64,
    pub(super) line: f64,
    pub(super) least: [f64; 2],
    jitter: f64,
    cross: (f64, f64),
    late: Pauses,
    offset: f64,
    pub(super) sender: Option<Queue>,
    pub(super) bit_errors: f64,
    pub(super) damage_counted: bool,
    pub(super) mtu: u32,
    pub(super) cut: Option<Cut>,
    pub(super) failing: Option<Failing>,
    pub(super) policer: Option<Bucket>,
    pub(super) queue: Option<Queue>,
    pub(super) spread: Vec<f64>,
    last: Vec<f64>,
    pub(super) round_robin: bool,
    pub(super) links: Vec<f64>,
    pub(super) route: Option<Change>,
    pub(super) step: Option<Change>,
    pub(super) doubled: f64,
    pub(super) pause: Option<Pauses>,
    pub(super) starved: Option<(Pauses, f64)>,
    pub(super) backlog: Option<Queue>,
    pub(super) comb: f64,
    pub(super) wake: Option<(f64, f64)>,
    pub(super) service: f64,
    pub(super) away: Pauses,
    pub(super) socket: usize,
    pub(super) memory: bool,
    pub(super) counters: Counters,
    hops: u8,
}

impl Path {
    /// A good path, with the disturbances that good paths have.
    pub(super) fn new(rate: f64, random: &mut Random) -> Path {
        let rtt = 10f64.powf(random.uniform(5.0, 7.7));
        let spacing = 8e9 * 1538.0 / rate;
        Path {
            rate,
            line: random.pick(&[10e9, 25e9, 100e9]),
            least: [rtt * random.uniform(0.45, 0.55), rtt * random.uniform(0.45, 0.55)],
            jitter: random.uniform(300.0, 2500.0),
            cross: (random.uniform(0.0, 0.6), random.uniform(500.0, 20_000.0)),
            late: Pauses { chance: random.uniform(0.0, 2e-3), length: random.uniform(5e3, 80e3) },
            offset: random.uniform(-1e8, 1e8),
            sender: None,
            bit_errors: 0.0,
            damage_counted: false,
            mtu: 9000,
            cut: None,
            failing: None,
            policer: None,
            queue: None,
            spread: vec![0.0],
            last: vec![0.0; 8],
            round_robin: false,
            links: Vec::new(),
            route: None,
            step: None,
            doubled: 0.0,
            pause: None,
            starved: None,
            backlog: None,
            comb: 0.0,
            wake: None,
            service: random.uniform(0.02, 0.12) * spacing,
            away: Pauses { chance: random.uniform(0.0, 2e-3), length: random.uniform(1e4, 2e6) },
            socket: 2500,
            memory: false,
            counters: Counters::default(),
            hops: 60,
        }
    }

    /// Play a point from `begin`; the packets that arrive, in order.
    pub(super) fn run(
        &mut self,
        setting: &Setting,
        point: usize,
        begin: f64,
        random: &mut Random,
    ) -> (Vec<Arrived>, Counts) {
        let mut counts = Counts::default();
        let bits = 8.0 * (f64::from(setting.size) + 66.0);
        let mut wire = Vec::new();
        for n in 0..setting.sent {
            let burst = u64::from(setting.burst);
            let sent = begin
                + (n / burst * burst) as f64 * setting.spacing
                + (n % burst) as f64 * bits / self.line * 1e9;
            let Some(left) = self.leave(sent, bits) else { continue };
            counts.nic_out += 1;
            if let Some(at) = self.travel(setting, point, n, left, bits, random) {
                let copies = 1 + usize::from(random.chance(self.doubled));
                for copy in 0..copies {
                    let at = at + copy as f64 * random.uniform(1e3, 1e5);
                    wire.push(Flying { at, number: n, sent, hops: self.hops, offset: self.offset });
                }
            }
        }
        wire.sort_by(|a, b| a.at.total_cmp(&b.at));
        counts.nic_in = wire.len() as u64;
        let kernel = self.interrupts(wire, setting, random);
        counts.ip_in = kernel.len() as u64;
        let read = self.read(&kernel, random, &mut counts);
        (read, counts)
    }

    fn leave(&mut self, sent: f64, bits: f64) -> Option<f64> {
        let Some(queue) = &mut self.sender else { return Some(sent) };
        let left = queue.pass(sent, bits);
        self.counters.send_drops += u64::from(left.is_none());
        left
    }

    /// Through the network, to the interface of the receiver.
    fn travel(
        &mut self,
        setting: &Setting,
        point: usize,
        n: u64,
        t: f64,
        bits: f64,
        random: &mut Random,
    ) -> Option<f64> {
        let part = n as f64 / setting.sent as f64;
        let cut = match self.cut {
            Some(Cut::Silence(most)) => setting.idle > most,
            Some(Cut::After(after)) => part > after,
            None => false,
        };
        if cut
            || setting.size + 28 > self.mtu
            || self.policer.as_mut().is_some_and(|bucket| !bucket.pass(t, bits))
        {
            return None;
        }
        if random.chance(1.0 - (1.0 - self.bit_errors).powf(bits)) {
            self.counters.damaged += u64::from(self.damage_counted);
            return None;
        }
        if let Some(link) = &mut self.failing {
            link.bad = random.chance(if link.bad { 1.0 - link.ends } else { link.begins });
            if link.bad && !random.chance(link.arrives) {
                return None;
            }
        }
        let link = self.links.get(usize::from(setting.flow)).copied().unwrap_or(0.0);
        if random.chance(link) {
            return None;
        }
        let mut at = match &mut self.queue {
            Some(queue) => queue.pass(t, bits)?,
            None => t,
        };
        at += self.least[0] + random.exponential(self.jitter);
        if random.chance(self.cross.0) {
            at += random.exponential(self.cross.1);
        }
        // Each way is first in, first out.
        let way = if self.round_robin { n } else { random.draw() } as usize % self.spread.len();
        at = (at + self.spread[way]).max(self.last[way] + 100.0);
        self.last[way] = at;
        if let Some(change) = self.route {
            let gone = setting.sent as f64 * change.part;
            let here = point == change.point;
            if here && n as f64 >= gone && (n as f64) < gone + change.gap as f64 {
                return None;
            }
            if here && n as f64 >= gone + change.gap as f64 {
                self.least[0] += change.nanos;
                self.hops -= change.hops;
                self.route = None;
                at += change.nanos;
            }
        }
        if let Some(change) = self.step.filter(|change| change.point == point && part >= change.part) {
            self.offset += change.nanos;
            self.step = None;
        }
        Some(at)
    }

    /// From the interface to IP, where the kernel stamps them.
    fn interrupts(&mut self, wire: Vec<Flying>, setting: &Setting, random: &mut Random) -> Vec<Flying> {
        let (mut blocked, mut waiting, mut last, mut before) = (0.0, 0.0, f64::NEG_INFINITY, 0.0f64);
        let mut passed = Vec::with_capacity(wire.len());
        for packet in wire {
            let t = packet.at;
            let mut pauses = vec![self.late];
            pauses.extend(self.pause);
            pauses.extend(self.starved.map(|(pauses, _)| pauses));
            for (kind, pause) in pauses.into_iter().enumerate() {
                if t >= blocked && random.chance(pause.chance) {
                    blocked = t + pause.length * random.uniform(0.7, 1.3);
                    waiting = 0.0;
                    self.counters.pauses += if kind > 0 && self.pause.is_some() { 2 } else { 0 };
                }
            }
            let mut at = t.max(blocked);
            if t < blocked {
                waiting += 1.0;
                if self.starved.is_some_and(|(_, room)| waiting > room) {
                    self.counters.ring_drops += 1;
                    continue;
                }
                at += waiting * 200.0;
            }
            if let Some(queue) = &mut self.backlog {
                let Some(out) = queue.pass(at, 0.0) else {
                    self.counters.backlog_drops += 1;
                    continue;
                };
                at = out;
            }
            if let Some((silence, latency)) = self.wake
                && t - last > silence
            {
                at += latency * random.uniform(0.9, 1.1);
                blocked = blocked.max(at);
            }
            last = t;
            if self.comb > 0.0 && setting.burst <= 1 {
                at = (at / self.comb).ceil() * self.comb;
            }
            before = at.max(before + 60.0);
            passed.push(Flying { at: before, ..packet });
        }
        passed
    }

    /// The socket and its reader.
    fn read(&mut self, kernel: &[Flying], random: &mut Random, counts: &mut Counts) -> Vec<Arrived> {
        let mut queue: VecDeque<f64> = VecDeque::new();
        let (mut free, mut worked) = (0.0f64, 0.0);
        let mut read = Vec::with_capacity(kernel.len());
        for packet in kernel {
            let at = packet.at;
            while queue.front().is_some_and(|&done| done <= at) {
                queue.pop_front();
            }
            if queue.len() >= self.socket {
                self.counters.mem_errors += u64::from(self.memory);
                self.counters.rcvbuf_errors += u64::from(!self.memory);
                continue;
            }
            counts.udp_in += 1;
            if random.chance(self.away.chance) {
                free = free.max(at) + self.away.length * random.uniform(0.7, 1.3);
            }
            free = free.max(at) + self.service;
            worked += self.service;
            queue.push_back(free);
            let Flying { number, sent, hops, offset, .. } = *packet;
            read.push(arrived(number, sent, at + offset, free + offset, hops));
        }
        let time = kernel.last().zip(kernel.first()).map_or(1.0, |(last, first)| last.at - first.at);
        counts.reader_busy = (worked / time.max(1.0)).min(1.0);
        read
    }

    /// An exchange of time stamps, when nothing else is on the way.
    pub(super) fn exchange(&self, t: f64, random: &mut Random) -> Exchange {
        let mut way = |least: f64| {
            let cross = if random.chance(self.cross.0) { random.exponential(self.cross.1) } else { 0.0 };
            least + cross + random.exponential(self.jitter)
        };
        let (there, back) = (way(self.least[0]), way(self.least[1]));
        exchange(t, there, back, self.offset)
    }
}

/// An exchange from its parts, ns.
fn exchange(sent: f64, there: f64, back: f64, offset: f64) -> Exchange {
    let at = |t: f64| Nanos(t.round() as u64);
    Exchange {
        sent: at(sent),
        received: at(sent + there + offset),
        replied: at(sent + there + 2000.0 + offset),
        returned: at(sent + there + 2000.0 + back),
    }
}

/// A packet from its times, ns.
fn arrived(number: u64, sent: f64, kernel: f64, user: f64, ttl: u8) -> Arrived {
    let at = |t: f64| Nanos(t.round() as u64);
    Arrived { number, sent: at(sent), kernel: at(kernel), user: at(user), ttl }
}

/// A queue that drains at a rate; what does not fit is lost.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// ns for a packet, and for each of its bits.
    pub(super) per_packet: f64,
    pub(super) per_bit: f64,
    /// What fits: bits, or packets if it drains by packets.
    pub(super) room: f64,
    free: f64,
}

impl Queue {
    pub(super) fn bits(rate: f64, octets: f64) -> Queue {
        Queue { per_packet: 0.0, per_bit: 1e9 / rate, room: octets * 8.0, free: 0.0 }
    }

    pub(super) fn packets(rate: f64, packets: f64) -> Queue {
        Queue { per_packet: 1e9 / rate, per_bit: 0.0, room: packets, free: 0.0 }
    }

    /// When a packet leaves; `None` if it is lost.
    pub(super) fn pass(&mut self, t: f64, bits: f64) -> Option<f64> {
        let waiting = (self.free - t).max(0.0);
        let takes = self.per_packet + self.per_bit * bits;
        let full = waiting / (self.per_packet + self.per_bit) > self.room;
        if full {
            return None;
        }
        self.free = t + waiting + takes;
        Some(self.free)
    }
}

/// A bucket of tokens: bits, or packets.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) per_second: f64,
    pub(super) most: f64,
    pub(super) packets: bool,
    pub(super) tokens: f64,
    pub(super) at: f64,
}

impl Bucket {
    pub(super) fn pass(&mut self, t: f64, bits: f64) -> bool {
        let cost = if self.packets { 1.0 } else { bits };
        self.tokens = (self.tokens + (t - self.at).max(0.0) * self.per_second / 1e9).min(self.most);
        self.at = self.at.max(t);
        let passes = self.tokens >= cost;
        self.tokens -= if passes { cost } else { 0.0 };
        passes
    }
}

/// A link of two states: packet by packet it begins and ends to fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    pub(super) begins: f64,
    pub(super) ends: f64,
    /// Part that arrives all the same.
    pub(super) arrives: f64,
    pub(super) bad: bool,
}

/// When a firewall forgets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cut {
    /// Silence, s.
    Silence(f64),
    /// A part of each run has passed.
    After(f64),
}

/// Times at which something pauses, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    pub(super) chance: f64,
    pub(super) length: f64,
}

/// A change in the middle of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) point: usize,
    pub(super) part: f64,
    pub(super) gap: u64,
    pub(super) nanos: f64,
    pub(super) hops: u8,
}
