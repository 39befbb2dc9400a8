//! Worlds of a whole site: two tenants, each with senders, a load balancer and workers that put events together, of which
//! anything is restarted at any moment.
//!
//! ```text
//!   senders ─▶ network ─▶ data plane: Table ─▶ worker: KeyedWindow ─▶ events    all of it twice, for two tenants
//!      │         │            ▲ Ticks ▼           │ states
//!      └─ syncs ─┴───────▶ control: Balancer ◀────┘
//!   restarts of:  senders (their ticks begin anew), workers, data planes, control planes
//! ```
//!
//! What must hold, for every event: if all of its packets came to a worker that lived on, it is whole there, once, and its
//! bytes are right; it is at no second worker, and at none of the other tenant; and each packet that is missing was lost by
//! the network, refused and counted with its reason, sent while no data plane was there, or came to a worker that was killed.
//!
//! What happens in a world is drawn before it is played ([`Plan`]): what is sent, when it arrives, and what is restarted when.

use crate::random::Random;
use core::net::IpAddr;
use fates::{Fate, Fates};
use skyhaul_core::pattern;
use skyhaul_core::placement::{Nanos, Placement, Reject};
use skyhaul_core::wire::FAMILIES;
use skyhaul_core::wire::keyed::{Keyed, Part, VisitKeyed};
use skyhaul_core::wire::labelled::{Labelled, VisitLabelled};
use std::collections::BTreeMap;
use tenant::Tenant;

mod fates;
mod tenant;

/// Time between two looks of a control plane, and two reports of a worker.
const LOOK: u64 = 50_000_000;

/// Play world `seed`.
///
/// # Errors
/// What did not hold.
pub fn play(seed: u64) -> Result<Played, String> {
    struct Player(u64, Wire);
    impl VisitLabelled for Player {
        type Out = Result<Played, String>;
        fn visit<L: Labelled>(self) -> Self::Out {
            World::new(self.0, self.1)?.play::<L>()
        }
    }
    struct Reader;
    impl VisitKeyed for Reader {
        type Out = Wire;
        fn visit<W: Keyed>(self) -> Wire {
            Wire { make: W::packet, place: |packet| W::read(packet).map(|head| W::placement(&head, 0)) }
        }
    }
    let of = |family: &skyhaul_core::wire::FamilyRef| {
        family.visit_labelled(Player(seed, family.visit_keyed(Reader)?))
    };
    let outcome = FAMILIES.iter().find_map(of).ok_or("no family is labelled")?;
    outcome.map_err(|why| format!("site {seed}: {why}"))
}

struct World {
    random: Random,
    plans: Vec<Plan>,
    tenants: Vec<Tenant>,
    fates: Vec<Fates>,
    now: u64,
}

impl World {
    fn new(seed: u64, wire: Wire) -> Result<World, String> {
        let mut random = Random(seed);
        let plans: Vec<Plan> = (0..2).map(|tenant| Plan::draw(tenant, &mut random.fork())).collect();
        let tenants = (0..2).map(|number| Tenant::new(number, wire, random.fork())).collect();
        let fates = plans.iter().map(Fates::of).collect();
        Ok(World { random, plans, tenants, fates, now: 0 })
    }

    fn play<L: Labelled>(mut self) -> Result<Played, String> {
        let mut restarts = [0; 4];
        let mut due: Vec<(u64, usize, What)> = Vec::new();
        for (tenant, plan) in self.plans.iter().enumerate() {
            due.extend(plan.all.iter().map(|&(at, what)| (at, tenant, what)));
            restarts.iter_mut().zip(plan.restarts()).for_each(|(all, some)| *all += some);
        }
        due.sort_by_key(|&(at, tenant, _)| (at, tenant));
        let end = due.last().map_or(0, |last| last.0) + 4 * SECOND;
        let mut next = 0;
        while self.now < end {
            self.now += LOOK;
            while let Some(&(at, tenant, what)) = due.get(next).filter(|one| one.0 < self.now) {
                next += 1;
                self.happen::<L>(at, tenant, what)?;
            }
            for (tenant, fates) in self.tenants.iter_mut().zip(&mut self.fates) {
                tenant.look(self.now, fates)?;
            }
        }
        let mut played = Played { restarts, ..Played::default() };
        for (number, (tenant, fates)) in self.tenants.iter_mut().zip(&mut self.fates).enumerate() {
            tenant.finish(Nanos(self.now), fates)?;
            fates.judge(&self.plans[number], &mut played).map_err(|why| format!("tenant {number}: {why}"))?;
            tenant.judge()?;
        }
        Ok(played)
    }

    fn happen<L: Labelled>(&mut self, at: u64, tenant: usize, what: What) -> Result<(), String> {
        let packet = match what {
            What::Packet(packet) => packet,
            What::Sync { source, tick, rate } => {
                self.tenants[tenant].sync(source, tick, rate, at);
                return Ok(());
            }
            What::KillWorker => return self.tenants[tenant].kill_worker(at, &mut self.fates[tenant]),
            What::KillPlane(time) => {
                self.tenants[tenant].kill_plane(at + time);
                return Ok(());
            }
            What::KillControl(time) => {
                self.tenants[tenant].kill_control(at + time);
                return Ok(());
            }
        };
        let plan = &self.plans[tenant];
        let bytes = plan.octets(&packet, self.tenants[tenant].wire).ok_or("a packet that cannot be made")?;
        let source = source(tenant);
        // A client that ignores the port of its URI: the other tenant's balancer does not know its sender.
        let stray = packet.forged.is_none() && self.random.chance(0.002);
        let to = if stray { 1 - tenant } else { tenant };
        let fate = self.tenants[to].packet::<L>(&bytes, source, at, &packet)?;
        if stray && fate != Fate::Refused("blocked_source") && fate != Fate::Away {
            return Err(format!("a packet of tenant {tenant} at the balancer of {to} is {fate:?}"));
        }
        if packet.forged.is_none() {
            self.fates[tenant].note(&packet, fate);
        }
        Ok(())
    }
}

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// How packets of the family with labels are made and read.
#[derive(Clone, Copy)]
struct Wire {
    make: fn(u8, &Part<'_>) -> Option<Vec<u8>>,
    place: fn(&[u8]) -> Result<Placement, Reject>,
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

/// Bytes of a packet's payload.
const PAYLOAD: u64 = 100;

/// All bytes of a forged packet: this, and which start of the sender its event is of.
const FORGED: u8 = 0xE0;

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Packet {
    /// Number of its event among all of the tenant.
    event: usize,
    part: u64,
    /// It states this size in place of the event's, and is nobody's.
    forged: Option<u64>,
}

/// What happens at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
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
struct Event {
    /// Which start of the sender it is of.
    run: u64,
    tick: u64,
    own: u16,
    parts: u64,
}

/// What happens to a tenant.
struct Plan {
    events: Vec<Event>,
    all: Vec<(u64, What)>,
    /// Packets that the network lost.
    lost: Vec<(usize, u64)>,
    form: u8,
}

/// The address of a tenant's senders.
fn source(tenant: usize) -> IpAddr {
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
    fn draw(tenant: usize, random: &mut Random) -> Plan {
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
    fn restarts(&self) -> [u64; 4] {
        let of = |is: fn(&What) -> bool| self.all.iter().filter(|(_, what)| is(what)).count() as u64;
        [
            self.events.last().map_or(0, |event| event.run),
            of(|what| matches!(what, What::KillWorker)),
            of(|what| matches!(what, What::KillPlane(_))),
            of(|what| matches!(what, What::KillControl(_))),
        ]
    }

    /// The pattern of an event: another one after a restart of its sender.
    fn pattern_of(tick: u64, run: u64, own: u16) -> u64 {
        tick ^ run << 50 ^ u64::from(own) << 60
    }

    /// A packet's octets.
    fn octets(&self, packet: &Packet, wire: Wire) -> Option<Vec<u8>> {
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
