//! What becomes of SPEAD packets between sender and receiver, by chance or one packet at a time.

use super::sender::{Id, Stream, assemble};
use crate::random::Random;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::spead::id;

/// How the network misbehaves. Chances are for each packet.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Lost one by one.
    pub loss: f64,
    /// Begins a run of losses, of up to 30.
    pub burst: f64,
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
    /// Only its front comes: a connection breaks.
    pub cut: f64,
    /// Something forged comes besides.
    pub hostile: f64,
}

impl Faults {
    /// Some network: a third of them only lose, double and reorder.
    #[must_use]
    pub fn random(random: &mut Random) -> Faults {
        let mild = random.chance(0.33);
        let mut sometimes = |chance: f64, most: f64| {
            if random.chance(chance) { random.below(1000) as f64 * most / 1000.0 } else { 0.0 }
        };
        let (loss, duplicate) = (sometimes(0.5, 0.1), sometimes(0.4, 0.1));
        let burst = sometimes(0.2, 0.01);
        let rough = [sometimes(0.3, 0.02), sometimes(0.2, 0.05), sometimes(0.25, 0.3)];
        let [late_chance, cut, hostile] = if mild { [0.0; 3] } else { rough };
        Faults {
            loss,
            burst,
            depth: if random.chance(0.6) { random.pick(&[1, 2, 8, 32, 100]) } else { 0 },
            duplicate,
            late: Nanos(random.pick(&[100_000_000, 900_000_000, 3_000_000_000])),
            late_chance,
            stalls: if !mild && random.chance(0.3) { random.between(1, 3) } else { 0 },
            cut,
            hostile,
        }
    }

    /// Whole packets of the stream come, or nothing.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        self.cut == 0.0 && self.hostile == 0.0
    }
}

/// What arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The packet as it was sent.
    Whole(Id),
    /// So many of its payload's bytes, then nothing more.
    Cut(Id, u64),
    /// Something like this packet, with damage that follows from this number.
    Forged(Id, u64),
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When.
    pub at: Nanos,
    /// What.
    pub what: What,
}

/// Everything that arrives, in order of arrival.
#[must_use]
pub fn carry(faults: &Faults, stream: &Stream, gap: Nanos, random: &mut Random) -> Vec<Arrival> {
    let count = stream.order.len() as u64;
    let stalls: Vec<u64> = (0..faults.stalls).map(|_| random.below(count)).collect();
    let (mut held, mut burst) = (Nanos(0), 0u64);
    let mut arrivals = Vec::new();
    for (n, &(sent, id)) in stream.order.iter().enumerate() {
        if stalls.contains(&(n as u64)) {
            held = held.plus(Nanos(random.below(3_000_000_000)));
        }
        if random.chance(faults.burst) {
            burst = random.between(1, 30);
        }
        let copies = if random.chance(faults.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let mut at = sent.plus(held).plus(Nanos(gap.0 * random.below(faults.depth + 1)));
            if random.chance(faults.late_chance) {
                at = at.plus(Nanos(random.below(faults.late.0)));
            }
            let lost = burst > 0 || random.chance(faults.loss);
            let cut = &stream.plans[id.plan].cuts[id.packet];
            let what = if random.chance(faults.cut) {
                What::Cut(id, random.below(cut.end - cut.start + 1))
            } else {
                What::Whole(id)
            };
            if !lost {
                arrivals.push(Arrival { at, what });
            }
        }
        if random.chance(faults.hostile) {
            arrivals.push(Arrival { at: sent.plus(held), what: What::Forged(id, random.draw()) });
        }
        burst = burst.saturating_sub(1);
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// A packet with absurd or nearly right numbers.
#[must_use]
pub fn forge(stream: &Stream, like: Id, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let plan = &stream.plans[like.plan];
    if random.chance(0.2) {
        let mut packet = plan.packet(like.packet, stream.flavour);
        let at = random.below(packet.len() as u64) as usize;
        packet[at] ^= 1 << random.below(8);
        return packet;
    }
    let flavour = stream.flavour;
    let near = |random: &mut Random, value: u64, most: u64| match random.below(5) {
        0 => value,
        1 => value.wrapping_add(1),
        2 => random.below(2 * most + 2),
        3 => flavour.max_value() - random.below(3),
        _ => random.draw(),
    };
    let counter = near(&mut random, plan.counter, 50);
    let size = near(&mut random, plan.size, plan.size);
    let offset = near(&mut random, plan.cuts[like.packet].start, plan.size);
    let length = random.below(40);
    let mut pointers = vec![
        flavour.immediate(id::HEAP_COUNTER, counter),
        flavour.immediate(id::HEAP_OFFSET, offset),
        flavour.immediate(id::PAYLOAD_LENGTH, length),
    ];
    if random.chance(0.7) {
        pointers.push(flavour.immediate(id::HEAP_SIZE, size));
    }
    assemble(flavour, &pointers, &vec![0xEE; length as usize])
}
