//! Heaps, events and messages of any family that has keyed objects, and the keyed window.
//!
//! A world of a seed is drawn; [`worlds`] are all the worlds of a few packets: each fault at each of them, alone and in pairs.
//!
//! ```text
//!   kind of stream × limits × fault at packet i × fault at packet j        small world n, always the same
//! ```

mod judge;
pub mod stream;

use crate::network::{Arrival, Network, Origin};
use crate::random::Random;
use crate::world::{Said, Side, World};
use judge::KeyedJudge;
use skyhaul_core::assembly::{Counting, KeyedConfig, KeyedWindow};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use skyhaul_core::wire::keyed::{self as wire, Control, Keyed, Part};
pub use stream::Objects;
use stream::{Id, Shape, Told, number_bits};

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

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is lost.
    Lose(usize),
    /// It comes again, behind the one so many after it.
    Double(usize, usize),
    /// It comes behind the one so many after it.
    Delay(usize, usize),
    /// It comes 1.5 s late: behind all others, after its object's deadline.
    Late(usize),
    /// It and all after it come 1.5 s late.
    Stall(usize),
    /// It and all after it never come.
    End(usize),
}

const MILLISECOND: u64 = 1_000_000;
const LATE: Nanos = Nanos(1500 * MILLISECOND);

/// Every fault that can happen to a stream of `count` packets; the first is none.
pub fn faults(count: usize) -> Vec<Option<Fault>> {
    let mut out = vec![None];
    for at in 0..count {
        out.extend([Fault::Lose(at), Fault::Late(at), Fault::Stall(at), Fault::End(at)].map(Some));
        for by in 0..count - at {
            out.push(Some(Fault::Double(at, by)));
            out.extend((by > 0).then_some(Some(Fault::Delay(at, by))));
        }
    }
    out
}

fn shape(senders: u64, objects: u64, packets: u64, in_turn: usize, told: Told) -> Shape {
    Shape {
        senders,
        objects,
        packets,
        equal: true,
        payload: 8,
        in_turn,
        told: Some(told),
        alike: senders > 1,
        step: 1,
        runs: 1,
        gap: Nanos(MILLISECOND),
        pause: Nanos(0),
    }
}

/// Every kind of stream.
pub fn shapes() -> Vec<Shape> {
    vec![
        shape(1, 3, 3, 1, Told::Always),
        shape(1, 3, 3, 3, Told::First),
        shape(1, 3, 3, 2, Told::Last),
        shape(1, 3, 3, 1, Told::Never),
        shape(1, 8, 1, 1, Told::Always),
        shape(2, 2, 2, 2, Told::Always),
        Shape { equal: false, ..shape(1, 4, 4, 2, Told::Always) },
    ]
}

/// Every choice of limits.
pub fn limits() -> Vec<KeyedConfig> {
    let mut out = Vec::new();
    for window in [1, 2, 16] {
        for in_order in [false, true] {
            for timeout in [None, Some(Nanos::SECOND)] {
                for (unsized_objects, remember) in [(true, 64), (false, 64), (true, 0)] {
                    let limits =
                        KeyedConfig { window, in_order, timeout, unsized_objects, ..KeyedConfig::default() };
                    out.push(KeyedConfig { remember, remember_for: Nanos(u64::MAX), ..limits });
                }
            }
        }
    }
    out
}

/// The senders of one kind of stream, to a receiver with these limits.
pub fn side<W: Keyed>(kind: usize, config: KeyedConfig) -> Objects<W> {
    let shape = &shapes()[kind];
    Objects::new(0, shape, shape.senders > 1, config, Nanos(0), &mut Random(kind as u64))
}

/// The world in which `first` happens, and then `second`.
pub fn world<W: Keyed>(
    kind: usize,
    config: KeyedConfig,
    first: Option<Fault>,
    second: Option<Fault>,
) -> World<Objects<W>> {
    let side = side(kind, config);
    let mut arrivals: Vec<(usize, Arrival<Id>)> = (side.stream.order.iter().enumerate())
        .map(|(n, &(at, id))| (n, Arrival { at, origin: Origin::Sent(id) }))
        .collect();
    for fault in [first, second].into_iter().flatten() {
        apply(&mut arrivals, fault);
    }
    let mut arrivals: Vec<_> = arrivals.into_iter().map(|(_, arrival)| arrival).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    let stops = side.stream.senders;
    World { stops, ..World::plain(0, side, Network::default(), arrivals, 1 << 20) }
}

/// Packets keep the numbers in order of sending that they came with.
fn apply(arrivals: &mut Vec<(usize, Arrival<Id>)>, fault: Fault) {
    let by = |packets: usize| Nanos(packets as u64 * MILLISECOND + MILLISECOND / 2);
    let mut delay = |which: &dyn Fn(usize) -> bool, by: Nanos| {
        let moved = arrivals.iter_mut().filter(|(n, _)| which(*n));
        moved.for_each(|(_, arrival)| arrival.at = arrival.at.plus(by));
    };
    match fault {
        Fault::Lose(which) => arrivals.retain(|(n, _)| *n != which),
        Fault::End(from) => arrivals.retain(|(n, _)| *n < from),
        Fault::Double(which, behind) => {
            let copies: Vec<_> = arrivals.iter().filter(|(n, _)| *n == which).copied().collect();
            let again = |(n, a): (usize, Arrival<Id>)| (n, Arrival { at: a.at.plus(by(behind)), ..a });
            arrivals.extend(copies.into_iter().map(again));
        }
        Fault::Delay(which, behind) => delay(&|n| n == which, by(behind)),
        Fault::Late(which) => delay(&|n| n == which, LATE),
        Fault::Stall(from) => delay(&|n| n >= from, LATE),
    }
}

/// Every small world with one fault, and of those with two each `every`-th. Each with what it is called.
pub fn worlds<W: Keyed>(every: usize) -> impl Iterator<Item = (String, World<Objects<W>>)> {
    (0..shapes().len()).flat_map(move |kind| {
        limits().into_iter().enumerate().flat_map(move |(limit, config)| {
            let faults = faults(side::<W>(kind, config).stream.order.len());
            let count = faults.len();
            let chosen = move |n: &usize| n.is_multiple_of(count) || (n + limit).is_multiple_of(every.max(1));
            (0..count * count).filter(chosen).map(move |n| {
                let (first, second) = (faults[n / count], faults[n % count]);
                let name = format!("stream {kind}, limits {limit}, {first:?}, {second:?}");
                (name, world(kind, config, first, second))
            })
        })
    })
}
