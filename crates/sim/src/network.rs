//! What a network, and those who share it, do to a sender's packets before they arrive.

use crate::random::Random;
use skyhaul_core::placement::Nanos;

/// How the network misbehaves. Chances are for each packet.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Lost one by one.
    pub loss: f64,
    /// Begins a run of losses.
    pub burst: f64,
    /// Longest run.
    pub burst_longest: u64,
    /// Overtaken by at most this many.
    pub depth: u64,
    /// Comes twice.
    pub duplicate: f64,
    /// Comes up to this much later.
    pub late: Nanos,
    /// With this chance.
    pub late_chance: f64,
    /// Everything stops for up to 3 s, so many times.
    pub stalls: u64,
    /// One bit is flipped.
    pub corrupt: f64,
    /// The end is missing.
    pub truncate: f64,
    /// Only the front of its payload comes: a connection breaks.
    pub cut: f64,
    /// Something that is no packet of the stream comes besides.
    pub hostile: f64,
    /// Packets before the first of that kind: who comes first decides where a stream begins.
    pub quiet: u64,
}

impl Network {
    /// Some network: a third of them only lose, double, reorder and stall.
    pub fn random(random: &mut Random, packets: u64) -> Network {
        let mild = random.chance(0.33);
        let mut sometimes = |chance: f64, most: f64| {
            if random.chance(chance) { random.below(1000) as f64 * most / 1000.0 } else { 0.0 }
        };
        let (loss, duplicate) = (sometimes(0.45, 0.1), sometimes(0.4, 0.1));
        let often = sometimes(0.1, 0.01);
        let rough = [(0.25, 0.02), (0.3, 0.02), (0.3, 0.02), (0.15, 0.05), (0.35, 0.3)];
        let rough = rough.map(|(chance, most)| if mild { 0.0 } else { sometimes(chance, most) });
        let [late_chance, corrupt, truncate, cut, hostile] = rough;
        let few = 3.0 / packets.max(1) as f64;
        let depth = if random.chance(0.6) { random.pick(&[1, 2, 8, 16, 32, 64, 64, 100, 200]) } else { 0 };
        Network {
            loss,
            burst: if random.chance(0.25) { few.min(0.1) } else { often },
            burst_longest: random.pick(&[10, 30, 100, 500]),
            depth,
            duplicate,
            late: Nanos(random.pick(&[100_000_000, 900_000_000, 3_000_000_000])),
            late_chance,
            stalls: if random.chance(0.3) { random.between(1, 3) } else { 0 },
            corrupt,
            truncate,
            cut,
            hostile,
            quiet: 0,
        }
    }

    /// Nothing that was not sent so can get into the stream: everything the receiver tells can be held against what was.
    pub fn is_honest(&self) -> bool {
        self.corrupt == 0.0 && self.truncate == 0.0 && self.cut == 0.0 && self.hostile == 0.0
    }

    /// Everything that arrives of the packets in `order`, in order of arrival. `gap` is about the time between two.
    pub fn carry<I: Copy>(&self, order: &[(Nanos, I)], gap: Nanos, random: &mut Random) -> Vec<Arrival<I>> {
        let stalls: Vec<u64> = (0..self.stalls).map(|_| random.below(order.len() as u64)).collect();
        let (mut held, mut burst) = (Nanos(0), 0);
        let mut arrivals = Vec::new();
        for (n, &(sent, id)) in (0u64..).zip(order) {
            if stalls.contains(&n) {
                held = held.plus(Nanos(random.below(3_000_000_000)));
            }
            let sent = sent.plus(held);
            if random.chance(self.burst) {
                burst = random.between(1, self.burst_longest);
            }
            let copies = if random.chance(self.duplicate) { 2 } else { 1 };
            for _ in 0..copies {
                let mut at = sent.plus(Nanos(gap.0 * random.below(self.depth + 1)));
                if random.chance(self.late_chance) {
                    at = at.plus(Nanos(random.below(self.late.0)));
                }
                let lost = burst > 0 || random.chance(self.loss);
                let damage = random.draw();
                let origin = if random.chance(self.corrupt + self.truncate) {
                    Origin::Damaged(id, damage)
                } else if random.chance(self.cut) {
                    Origin::Cut(id, damage)
                } else {
                    Origin::Sent(id)
                };
                if !lost {
                    arrivals.push(Arrival { at, origin });
                }
            }
            if n >= self.quiet && random.chance(self.hostile) {
                arrivals.push(Arrival { at: sent, origin: Origin::Hostile(id, random.draw()) });
            }
            burst = burst.saturating_sub(1);
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }

    /// What is left of a packet.
    pub fn damage(&self, mut packet: Vec<u8>, random: &mut Random) -> Vec<u8> {
        let either = self.corrupt + self.truncate;
        if random.chance(self.truncate / either.max(f64::MIN_POSITIVE)) {
            packet.truncate(random.below(packet.len() as u64) as usize);
        } else if !packet.is_empty() {
            // Headers are hit as often as samples, though they are smaller.
            let reach = if random.chance(0.5) { 40 } else { packet.len() as u64 };
            let at = random.below(reach.min(packet.len() as u64)) as usize;
            packet[at] ^= 1 << random.below(8);
        }
        packet
    }
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<I> {
    /// The packet as it was sent.
    Sent(I),
    /// Its front, as long as this number makes it, then nothing more.
    Cut(I, u64),
    /// That packet, with damage that follows from this number.
    Damaged(I, u64),
    /// Not of the stream; made like this packet, from this number.
    Hostile(I, u64),
}

impl<I: Copy> Origin<I> {
    /// The packet that it is, or was made from.
    pub fn like(self) -> I {
        match self {
            Origin::Sent(id) | Origin::Cut(id, _) | Origin::Damaged(id, _) | Origin::Hostile(id, _) => id,
        }
    }

    /// The packet that it is, as far as it goes.
    pub fn sent(self) -> Option<I> {
        match self {
            Origin::Sent(id) | Origin::Cut(id, _) => Some(id),
            Origin::Damaged(..) | Origin::Hostile(..) => None,
        }
    }
}

/// A datagram on its way.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<I> {
    /// When.
    pub at: Nanos,
    /// What.
    pub origin: Origin<I>,
}
