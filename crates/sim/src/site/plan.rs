//! What happens in a world, drawn before it is played: what is sent, when it arrives, and what is restarted when.

use crate::random::Random;
use core::net::IpAddr;
use skyhaul_core::pattern;
use skyhaul_core::placement::{Placement, Reject};
use skyhaul_core::wire::keyed::Part;
use std::collections::BTreeMap;

/// Bytes of a packet's payload.
pub(super) const PAYLOAD: u64 = 100;

/// All bytes of a forged packet: this, and which start of the sender its event is of.
pub(super) const FORGED: u8 = 0xE0;

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packet {
    /// Number of its event among all of the tenant.
    pub(super) event: usize,
    pub(super) part: u64,
    /// It states this size in place of the event's, and is nobody's.
    pub(super) forged: Option<u64>,
}

/// What happens at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Packet(Packet),
    Sync {
        source: u32,
        tick: u64,
        rate: u32,
    },
    KillWorker,
    /// Another is there after so much time.
    KillPlane(u64),
    KillControl(u64),
}

/// An event that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Which start of the sender it is of.
    pub(super) run: u64,
    pub(super) tick: u64,
    pub(super) own: u16,
    pub(super) parts: u64,
}

/// What happens to a tenant.
pub(super) struct Plan {
    pub(super) events: Vec<Event>,
    pub(super) all: Vec<(u64, What)>,
    /// Packets that the network lost.
    pub(super) lost: Vec<(usize, u64)>,
    form: u8,
}

/// The address of a tenant's senders.
pub(super) fn source(tenant: usize) -> IpAddr {
    [10, tenant as u8, 0, 9].into()
}

/// How the senders and the network of a tenant are.
struct Manner {
    step: u64,
    gap: u64,
    base: u64,
    tells: bool,
    loss: f64,
    duplicate: f64,
    late: f64,
    forged: f64,
    sources: u16,
}

impl Plan {
    pub(super) fn draw(tenant: usize, random: &mut Random) -> Plan {
        let manner = Manner {
            step: random.pick(&[1, 1, 3, 1000]),
            gap: random.between(4, 9) * MS,
            base: random.pick(&[0, 0, 1, 1 << 40]),
            tells: random.chance(0.7),
            loss: random.pick(&[0.0, 0.0, 0.01]),
            duplicate: random.pick(&[0.0, 0.01]),
            late: random.pick(&[0.0, 0.0, 0.01]),
            forged: random.pick(&[0.0, 0.0, 0.02]),
            sources: random.between(1, 2) as u16,
        };
        let mut plan =
            Plan { events: Vec::new(), all: Vec::new(), lost: Vec::new(), form: random.between(1, 2) as u8 };
        let mut at = 2 * SECOND + tenant as u64;
        for run in 0..random.between(1, 3) {
            let length = random.between(2, 6) * SECOND;
            plan.run(run, at, length, &manner, random);
            at += length + random.between(200, 2500) * MS + SECOND;
        }
        for (chance, what) in [
            (0.8, What::KillWorker),
            (0.5, What::KillWorker),
            (0.5, What::KillPlane(random.between(20, 300) * MS)),
            (0.5, What::KillControl(random.between(50, 1500) * MS)),
        ] {
            if random.chance(chance) {
                plan.all.push((random.between(2 * SECOND, at), what));
            }
        }
        plan
    }

    /// A sender is started at `at`, says so if it tells, and sends a second later.
    fn run(&mut self, run: u64, at: u64, length: u64, manner: &Manner, random: &mut Random) {
        let ticks = |time: u64| manner.base + time / manner.gap * manner.step;
        let rate = (SECOND / manner.gap * manner.step) as u32;
        if manner.tells {
            for second in 0..=length / SECOND {
                let tick = ticks((second * SECOND).saturating_sub(SECOND));
                for source in 0..u32::from(manner.sources) {
                    let sync = What::Sync { source, tick, rate: if second == 0 { 0 } else { rate } };
                    self.all.push((at + second * SECOND + random.below(5 * MS), sync));
                }
            }
        }
        let begin = at + SECOND;
        for n in 0..length / manner.gap {
            for own in 0..manner.sources {
                let parts = random.pick(&[1, 2, 3, 5]);
                let event = Event { run, tick: manner.base + n * manner.step, own, parts };
                self.events.push(event);
                self.send(begin + n * manner.gap, manner, random);
            }
        }
    }

    /// The packets of the last event.
    fn send(&mut self, at: u64, manner: &Manner, random: &mut Random) {
        let event = self.events.len() - 1;
        let parts = self.events[event].parts;
        let (mut first, mut is_near) = (u64::MAX, true);
        for part in 0..parts {
            if random.chance(manner.loss) {
                self.lost.push((event, part));
                is_near = false;
                continue;
            }
            let delay = if random.chance(manner.late) { random.below(200 * MS) } else { random.below(MS) };
            is_near &= delay <= MS;
            let arrives = at + part * 1000 + delay;
            first = first.min(arrives);
            let packet = Packet { event, part, forged: None };
            self.all.push((arrives, What::Packet(packet)));
            if random.chance(manner.duplicate) {
                self.all.push((arrives + random.below(20 * MS), What::Packet(packet)));
            }
        }
        // A forger is a moment faster, but does not know all of the event.
        if parts > 1 && is_near && random.chance(manner.forged) {
            let forged = random.pick(&[PAYLOAD, PAYLOAD + 1, parts * PAYLOAD * 50]);
            let packet = Packet { event, part: 0, forged: Some(forged) };
            self.all.push((first.saturating_sub(1000), What::Packet(packet)));
        }
    }

    /// How often senders, workers, data planes and control planes are restarted.
    pub(super) fn restarts(&self) -> [u64; 4] {
        let of = |is: fn(&What) -> bool| self.all.iter().filter(|(_, what)| is(what)).count() as u64;
        [
            self.events.last().map_or(0, |event| event.run),
            of(|what| matches!(what, What::KillWorker)),
            of(|what| matches!(what, What::KillPlane(_))),
            of(|what| matches!(what, What::KillControl(_))),
        ]
    }

    /// The pattern of an event: another one after a restart of its sender.
    pub(super) fn pattern_of(tick: u64, run: u64, own: u16) -> u64 {
        tick ^ run << 50 ^ u64::from(own) << 60
    }

    /// A packet's octets.
    pub(super) fn octets(&self, packet: &Packet, wire: Wire) -> Option<Vec<u8>> {
        let event = &self.events[packet.event];
        let mut payload = vec![0; PAYLOAD as usize];
        pattern::fill(
            Plan::pattern_of(event.tick, event.run, event.own),
            packet.part * PAYLOAD,
            &mut payload,
        );
        if packet.forged.is_some() {
            payload.fill(FORGED + event.run as u8);
        }
        let part = Part {
            own: event.own,
            number: event.tick,
            size: Some(packet.forged.unwrap_or(event.parts * PAYLOAD)),
            offset: packet.part * PAYLOAD,
            payload: &payload,
            ..Part::default()
        };
        (wire.make)(self.form, &part)
    }
}

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MS: u64 = 1_000_000;

/// How packets of the family with labels are made and read.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    pub(super) make: fn(u8, &Part<'_>) -> Option<Vec<u8>>,
    pub(super) place: fn(&[u8]) -> Result<Placement, Reject>,
}

/// What happened in a world, or in several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Events that were sent.
    pub events: u64,
    /// Those that became whole.
    pub whole: u64,
    /// Packets by what became of them.
    pub packets: BTreeMap<&'static str, u64>,
    /// Restarts of senders, workers, data planes and control planes.
    pub restarts: [u64; 4],
}

impl Played {
    /// Add another world.
    pub fn add(&mut self, other: &Played) {
        self.events += other.events;
        self.whole += other.whole;
        other.packets.iter().for_each(|(why, count)| *self.packets.entry(why).or_default() += count);
        self.restarts.iter_mut().zip(other.restarts).for_each(|(mine, theirs)| *mine += theirs);
    }
}
