//! What a network, and those who share it, do to a sender's packets before they arrive.

use crate::random::Random;
use crate::sender::Sender;
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
    /// One bit is flipped.
    pub corrupt: f64,
    /// The end is missing.
    pub truncate: f64,
    /// Something that is no packet of the stream comes besides.
    pub hostile: f64,
    /// The sender's counter begins again, so many times.
    pub restarts: u64,
    /// The sender goes on but nothing arrives, so many times; up to this many packets.
    pub outages: u64,
    /// Longest outage in packets.
    pub outage_longest: u64,
    /// The sender waits, so many times, up to 3 s.
    pub pauses: u64,
}

impl Network {
    /// Some network: a third of them only lose, double and reorder.
    #[must_use]
    pub fn random(random: &mut Random, packets: u64) -> Network {
        let sometimes = |random: &mut Random, most: f64| {
            if random.chance(0.4) { random.below(1000) as f64 * most / 1000.0 } else { 0.0 }
        };
        let mild = random.chance(0.33);
        let rough = |random: &mut Random, most: f64| if mild { 0.0 } else { sometimes(random, most) };
        let count = |random: &mut Random, chance: f64| {
            if !mild && random.chance(chance) { random.between(1, 3) } else { 0 }
        };
        Network {
            loss: sometimes(random, 0.1),
            burst: if random.chance(0.3) { 1.0 / packets.max(1) as f64 * 3.0 } else { 0.0 },
            burst_longest: random.pick(&[10, 100, 500]),
            depth: if random.chance(0.6) { random.pick(&[2, 16, 64, 64, 200]) } else { 0 },
            duplicate: sometimes(random, 0.05),
            corrupt: rough(random, 0.02),
            truncate: rough(random, 0.02),
            hostile: rough(random, 0.1),
            restarts: count(random, 0.2),
            outages: count(random, 0.3),
            outage_longest: random.pick(&[1000, 100_000, 10_000_000]),
            pauses: if random.chance(0.3) { random.between(1, 3) } else { 0 },
        }
    }

    /// Nothing that is not of the stream can get into it, and its counter never goes back: everything the receiver
    /// tells can be held against what was sent.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        self.corrupt == 0.0 && self.truncate == 0.0 && self.hostile == 0.0 && self.restarts == 0
    }
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The packet at this position, as it was sent.
    Sent(u64),
    /// That packet, with damage that follows from this number.
    Damaged(u64, u64),
    /// Not of the stream; made from a position near the stream's and this number.
    Hostile(u64, u64),
}

/// A datagram on its way.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When.
    pub at: Nanos,
    /// What.
    pub origin: Origin,
}

/// Everything that arrives of `packets` packets that are sent `gap` apart, in order of arrival; and which positions
/// were sent (ascending, but for restarts).
pub fn carry(
    network: &Network,
    sender: &Sender,
    packets: u64,
    gap: Nanos,
    random: &mut Random,
) -> (Vec<Arrival>, Vec<u64>) {
    let mut moments = |count: u64| -> Vec<u64> { (0..count).map(|_| random.below(packets)).collect() };
    let (restarts, outages, pauses) =
        (moments(network.restarts), moments(network.outages), moments(network.pauses));
    let (mut now, mut position, mut left_in_burst) = (Nanos(1_000_000), sender.first, 0);
    let (mut arrivals, mut sent) = (Vec::new(), Vec::new());
    for n in 0..packets {
        if pauses.contains(&n) {
            now = now.plus(Nanos(random.between(100_000_000, 3_000_000_000)));
        }
        if outages.contains(&n) {
            // The whole stream was sent; nobody remembers the packets of an outage one by one.
            position += random.between(1, network.outage_longest);
        }
        if restarts.contains(&n) {
            position = sender.first.saturating_sub(random.below(sender.first.min(100_000)));
        }
        sent.push(position);
        if random.chance(network.burst) {
            left_in_burst = random.between(1, network.burst_longest);
        }
        let copies = if random.chance(network.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let lost = left_in_burst > 0 || random.chance(network.loss);
            let at = now.plus(Nanos(gap.0 * random.below(network.depth + 1)));
            let damage = random.draw();
            let origin = if random.chance(network.corrupt + network.truncate) {
                Origin::Damaged(position, damage)
            } else {
                Origin::Sent(position)
            };
            if !lost {
                arrivals.push(Arrival { at, origin });
            }
        }
        // The stream is there before its enemies are: who comes first decides where it begins.
        if n >= 16 + network.depth && random.chance(network.hostile) {
            arrivals.push(Arrival { at: now, origin: Origin::Hostile(position, random.draw()) });
        }
        left_in_burst = left_in_burst.saturating_sub(1);
        position += 1;
        now = now.plus(gap);
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    (arrivals, sent)
}

/// The octets of a datagram.
#[must_use]
pub fn octets(origin: Origin, sender: &Sender, network: &Network) -> Vec<u8> {
    match origin {
        Origin::Sent(position) => sender.packet(position),
        Origin::Damaged(position, damage) => {
            let mut random = Random(damage);
            let mut packet = sender.packet(position);
            let whole = network.corrupt + network.truncate;
            if random.chance(network.truncate / whole.max(f64::MIN_POSITIVE)) {
                packet.truncate(random.below(packet.len() as u64) as usize);
            } else if !packet.is_empty() {
                // Headers are hit as often as samples, though they are smaller.
                let reach = if random.chance(0.5) { 40 } else { packet.len() as u64 };
                let at = random.below(reach.min(packet.len() as u64)) as usize;
                packet[at] ^= 1 << random.below(8);
            }
            packet
        }
        Origin::Hostile(position, seed) => hostile(position, seed, sender),
    }
}

/// Absurd numbers, lengths, times, and plain garbage. What is near the stream by chance cannot be told from it, and
/// is garbage instead.
fn hostile(position: u64, seed: u64, sender: &Sender) -> Vec<u8> {
    let packet = forged(position, seed, sender);
    let near = sender.spot(position).object;
    match sender.layout.place(&packet) {
        Ok(placed) if placed.key.number.abs_diff(near) < 1000 => vec![0xEE; packet.len() / 2],
        _ => packet,
    }
}

fn forged(position: u64, seed: u64, sender: &Sender) -> Vec<u8> {
    let mut random = Random(seed);
    match random.below(4) {
        // A packet of this very stream from far away in its numbers: legal in all but its place.
        0 => sender.packet(position.wrapping_add(1 << random.between(24, 27))),
        1 => {
            let mut packet = sender.packet(position);
            let reach = packet.len().min(40) as u64;
            for _ in 0..8 {
                let at = random.below(reach) as usize;
                packet[at] = random.pick(&[0, 0xFF, 0x80, 0x7F, 1]);
            }
            packet
        }
        2 => (0..random.below(100)).map(|_| random.draw() as u8).collect(),
        _ => {
            let length = sender.packet(position).len();
            (0..length).map(|_| random.draw() as u8).collect()
        }
    }
}
