//! Heaps, events and messages of any family that has keyed objects, and the keyed window.
//!
//! A world of a seed is drawn; [`small`] are all the worlds of a few packets: each fault at each of them, and each pair of
//! faults.

mod expect;
mod judge;
mod objects;
pub mod small;
pub mod stream;

pub use objects::Objects;

use crate::network::Network;
use crate::random::Random;
use crate::world::{Said, Side, World};
use judge::KeyedJudge;
use objects::number_bits;
use skyhaul_core::assembly::{Counting, KeyedConfig, KeyedWindow};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use skyhaul_core::wire::keyed::{self as wire, Control, Part};
use stream::{Id, Shape, Told};

impl<W: wire::Keyed> World<Objects<W>> {
    /// The world of this seed.
    pub fn random(seed: u64) -> World<Objects<W>> {
        let mut random = Random(seed ^ 0x0005_9EAD);
        let forms = (0..).map_while(|form| Some((form, number_bits::<W>(form)?)));
        let (short, long): (Vec<_>, Vec<_>) = forms.partition(|&(_, bits)| bits <= 8);
        if seed % 10 == 7 && !short.is_empty() {
            return Self::of_laps(seed, random.pick(&short).0);
        }
        let second = Nanos::SECOND.0;
        let gap = Nanos(random.pick(&[1_000, 1_000, 50_000, 5_000_000]));
        let shape = Shape {
            senders: random.pick(&[1, 1, 2, 3, 8]),
            objects: random.between(1, 40),
            packets: random.pick(&[1, 3, 10, 40]),
            equal: random.chance(0.4),
            payload: random.between(2, 48),
            in_turn: random.pick(&[1, 1, 2, 5]),
            told: random.pick(&[Some(Told::Always), Some(Told::Never), None, None]),
            alike: random.chance(0.5),
            step: random.pick(&[1, 1, 3, 1 << 20]),
            runs: if random.chance(0.2) { 2 } else { 1 },
            gap,
            pause: Nanos(random.between(1, 20) * second),
        };
        let keyed = shape.alike && shape.senders > 1 || random.chance(0.2);
        let config = KeyedConfig {
            window: random.pick(&[1, 2, 4, 16, 16]),
            counting: Counting::Incomplete,
            substreams: random.pick(&[1, 1, 2, 8]),
            in_order: random.chance(0.15),
            unsized_objects: random.chance(0.8),
            largest: 1 << 16,
            timeout: random.pick(&[None, Some(second), Some(second), Some(second / 10)]).map(Nanos),
            remember: random.pick(&[0, 8, 4096, 4096, 4096]),
            remember_for: Nanos(random.pick(&[second, 60 * second, u64::MAX])),
            runs: random.pick(&[1, 4, 64, 64]),
            contest: None,
        };
        let network = Network::random(&mut random, shape.senders * shape.objects * shape.packets);
        let tick = Nanos(random.pick(&[0, 0, 50_000_000]));
        let form = random.pick(&long).0;
        let side = Objects::new(form, &shape, keyed, config, tick, &mut random.fork());
        let arrivals = network.carry(&side.stream.order, gap, &mut random.fork());
        World {
            seed,
            side,
            network,
            arrivals,
            memory: random.pick(&[2_000, 1 << 24, 1 << 24, 1 << 24]),
            kept: random.pick(&[0, 0, 4, 64]),
            tick,
            piece: random.pick(&[0, 0, 0, 7, 24]),
            stops: if random.chance(0.7) { random.between(1, shape.senders) } else { 0 },
        }
    }

    /// A world in which numbers of few bits come round, while nothing is late by a good part of a lap.
    fn of_laps(seed: u64, form: u8) -> World<Objects<W>> {
        let mut random = Random(seed ^ 0x0001_A905);
        let senders = random.pick(&[1, 1, 2, 4]);
        let keyed = random.chance(0.4);
        // Strides divide the lap, so that senders stay apart.
        let is_apart = senders < 4 && (keyed || senders == 1);
        let shape = Shape {
            senders,
            objects: random.between(200, 1000) / senders,
            packets: random.pick(&[1, 1, 2, 3]),
            equal: random.chance(0.5),
            payload: random.between(2, 48),
            in_turn: random.pick(&[1, 1, 3]),
            told: Some(Told::Always),
            alike: keyed,
            step: if is_apart { random.pick(&[1, 2, 3]) } else { 1 },
            runs: 1,
            gap: Nanos(1_000),
            pause: Nanos(0),
        };
        let config = KeyedConfig {
            in_order: random.chance(0.15),
            timeout: None,
            remember_for: Nanos(u64::MAX),
            window: random.pick(&[4, 16, 64]),
            ..KeyedConfig::default()
        };
        let mut sometimes = || if random.chance(0.6) { random.below(100) as f64 / 1000.0 } else { 0.0 };
        let (loss, duplicate) = (sometimes(), sometimes());
        let network = Network { loss, duplicate, depth: random.pick(&[0, 1, 4]), ..Network::default() };
        let side = Objects::new(form, &shape, keyed, config, Nanos(0), &mut random.fork());
        let arrivals = network.carry(&side.stream.order, shape.gap, &mut random.fork());
        World::plain(seed, side, network, arrivals, 1 << 24)
    }
}

impl<W: wire::Keyed> Side for Objects<W> {
    type Id = Id;
    type Window = KeyedWindow<Vec<u8>>;
    type Judge<'a> = KeyedJudge<'a, W>;

    fn name(&self) -> String {
        let wire = std::any::type_name::<W>();
        format!("{}, form {}", wire.rsplit("::").next().unwrap_or(wire), self.form)
    }

    fn window(&self) -> KeyedWindow<Vec<u8>> {
        KeyedWindow::new(self.config)
    }

    fn judge(&self) -> KeyedJudge<'_, W> {
        KeyedJudge { side: self, books: Default::default() }
    }

    fn packet(&self, id: Id) -> Vec<u8> {
        let plan = &self.stream.plans[id.plan];
        let payload = plan.payload(id.packet);
        self.octets(plan.sender, plan.part(id.packet, &payload)).expect("a packet that was planned")
    }

    /// A packet with absurd or nearly right numbers.
    fn forge(&self, like: Id, random: &mut Random) -> Vec<u8> {
        let plan = &self.stream.plans[like.plan];
        let near = |random: &mut Random, value: u64, most: u64| match random.below(5) {
            0 => value,
            1 => value.wrapping_add(1),
            2 => random.below(2 * most + 2),
            3 => self.highest - random.below(3),
            _ => random.draw(),
        };
        let number = near(random, plan.number, 50);
        let size = near(random, plan.size, plan.size);
        let offset = near(random, plan.cuts[like.packet].start, plan.size);
        let payload = vec![0xEE; random.below(40) as usize];
        let size = random.chance(0.7).then_some(size);
        let part = Part { number, size, offset, payload: &payload, ..Part::default() };
        self.octets(plan.sender, part).unwrap_or(payload)
    }

    fn belongs(&self, id: Id) -> Placement {
        let plan = &self.stream.plans[id.plan];
        let cut = &plan.cuts[id.packet];
        Placement {
            key: Key { source: self.source(plan.sender), number: plan.number & self.highest },
            offset: cut.start,
            length: cut.end - cut.start,
            size: plan.tells(id.packet).then_some(plan.size),
            ..Placement::default()
        }
    }

    fn read(&self, like: Id, packet: &[u8]) -> Result<Said, Reject> {
        let head = W::read(packet)?;
        let source = self.source(self.sender(like));
        // What the packet itself says of its source is enough where senders do not count by themselves.
        let placement = W::placement(&head, if W::COUNTED_BY_SENDER { source } else { 0 });
        let control = match head {
            _ if W::is_stop(&head) => Some(Control::Stop),
            _ if W::is_start(&head) => Some(Control::Start),
            _ => None,
        };
        Ok(Said { placement, control })
    }

    fn sender(&self, id: Id) -> u64 {
        self.stream.plans[id.plan].sender
    }

    fn number(&self, id: Id) -> u64 {
        self.stream.plans[id.plan].number
    }

    fn forget(window: &mut KeyedWindow<Vec<u8>>, start: Key, now: Nanos) {
        window.forget(start, now);
    }
}
