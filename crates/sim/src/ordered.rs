//! Streams of frames, of any family that has kinds of them, and the ordered window.
//!
//! What a receiver knows of a stream it learned from its first packets, as it does outside of worlds; where each packet
//! belongs is held against arithmetic on its position.

mod frames;
mod judge;

pub use frames::{Frames, Journey};

use crate::ledger::Held;
use crate::network::Network;
use crate::random::Random;
use crate::world::{Said, Side, World};
use judge::OrderedJudge;
use skyhaul_core::assembly::{Ordered, OrderedConfig};
use skyhaul_core::placement::{Nanos, Placement, Reject};
use skyhaul_core::wire::trial::{Draw, Trial};
use skyhaul_core::wire::{FAMILIES, FamilyRef};

/// All kinds of streams of all families.
pub fn kinds() -> impl Iterator<Item = (FamilyRef, fn(Draw<'_>) -> Trial)> {
    FAMILIES.iter().flat_map(|&family| family.trials().iter().map(move |&kind| (family, kind)))
}

impl World<Frames> {
    /// The world of this seed.
    ///
    /// # Errors
    /// A stream of its kind is not learned from its first packets.
    pub fn random(seed: u64) -> Held<World<Frames>> {
        let mut random = Random(seed);
        let kinds: Vec<_> = kinds().collect();
        let (family, kind) = random.pick(&kinds);
        let trial = kind(&mut |below| random.below(below));
        let units = random.pick(&[8, 30, 100, 700]);
        let is_large = (trial.packet)(trial.first.start).len() > 4000;
        let units = if is_large { units.min(40) } else { units };
        let mut frames = Frames::new(family, trial, units, random.draw())?;
        let window = random.between(1, 5) as usize;
        let ahead = frames.config.ahead.max(random.pick(&[1, 1, 4, 64]));
        let resync = random.pick(&[64, 256, 256]);
        frames.config = OrderedConfig { window, ahead, resync, ..frames.config };
        let gap = Nanos(random.pick(&[1_000, 1_000, 50_000, 2_000_000, 300_000_000]));
        let packets = random.between(50, if is_large { 400 } else { 3000 });
        let network = Network { cut: 0.0, ..Network::random(&mut random, packets) };
        let quiet = 16 + network.depth;
        let rough = !network.is_honest();
        let mut count = |chance: f64| if rough && random.chance(chance) { random.between(1, 3) } else { 0 };
        let (restarts, outages) = (count(0.2), count(0.3));
        let outage_longest = random.pick(&[1000, 100_000, 10_000_000]);
        let journey = Journey { packets, gap, restarts, outages, outage_longest };
        let kept = random.pick(&[0, 0, 0, 4]);
        let blocks = (window + 1 + kept) as u64 + random.pick(&[0, 1, 4, 16]);
        let tick = Nanos(random.pick(&[0, 0, 50_000_000]));
        Ok(World { tick, kept, ..World::of(seed, frames, Network { quiet, ..network }, journey, blocks) })
    }

    /// These packets of this stream over this network, to a receiver with so many blocks.
    pub fn of(seed: u64, frames: Frames, network: Network, journey: Journey, blocks: u64) -> World<Frames> {
        let mut random = Random(seed ^ 0x0A11);
        let order = frames.order(&journey, &mut random.fork());
        let arrivals = network.carry(&order, journey.gap, &mut random.fork());
        let sent = order.into_iter().map(|(_, position)| position).collect();
        let memory = blocks * frames.config.geometry.object_bytes;
        World::plain(seed, Frames { sent, journey, ..frames }, network, arrivals, memory)
    }
}

impl Side for Frames {
    type Id = u64;
    type Window = Ordered<Vec<u8>>;
    type Judge<'a> = OrderedJudge<'a>;

    fn name(&self) -> String {
        self.trial.name.to_owned()
    }

    fn window(&self) -> Ordered<Vec<u8>> {
        Ordered::new(self.config)
    }

    fn judge(&self) -> OrderedJudge<'_> {
        OrderedJudge { side: self, books: Default::default() }
    }

    fn packet(&self, position: u64) -> Vec<u8> {
        (self.trial.packet)(position)
    }

    /// Absurd numbers, lengths, times, and plain garbage. What is near the stream by chance cannot be told from it, and
    /// is garbage instead.
    fn forge(&self, position: u64, random: &mut Random) -> Vec<u8> {
        let mut packet = self.packet(position);
        match random.below(4) {
            // A packet of this very stream from far away in its numbers: legal in all but its place.
            0 => packet = self.packet(position.wrapping_add(1 << random.between(24, 27))),
            1 => {
                let reach = packet.len().min(40) as u64;
                for _ in 0..8 {
                    packet[random.below(reach) as usize] = random.pick(&[0, 0xFF, 0x80, 0x7F, 1]);
                }
            }
            2 => packet = (0..random.below(100)).map(|_| random.draw() as u8).collect(),
            _ => packet.iter_mut().for_each(|octet| *octet = random.draw() as u8),
        }
        let near = self.belongs(position).key.number;
        match self.layout.place(&packet) {
            Ok(placed) if placed.key.number.abs_diff(near) < 1000 => vec![0xEE; packet.len() / 2],
            _ => packet,
        }
    }

    fn belongs(&self, position: u64) -> Placement {
        self.place_of(position)
    }

    fn read(&self, _: u64, packet: &[u8]) -> Result<Said, Reject> {
        Ok(Said { placement: self.layout.place(packet)?, control: None })
    }
}
