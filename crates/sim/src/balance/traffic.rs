//! What the senders of a world send, what others send in their name, and what the workers do to the balancer.

use crate::network::{Arrival, Network, Origin};
use crate::random::Random;
use core::net::IpAddr;
use skyhaul_core::balance::{
    Balancer, DemandError, Load, Member, PortRange, Prefix, Refusal, Registration, Session, SlotRange,
    StateError, WorkerState,
};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::keyed::Part;
use skyhaul_core::wire::labelled::Sync;

/// Makes a packet of the family.
pub(super) type Make = fn(u8, &Part<'_>) -> Option<Vec<u8>>;

/// A packet of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Number of the event.
    pub(super) event: u64,
    pub(super) sender: u16,
    pub(super) part: u64,
}

/// The networks whose hosts may send.
pub(super) fn allowed() -> [Prefix; 1] {
    [Prefix::new([10, 0, 0, 0].into(), 16).expect("a network of 16 bits")]
}

/// Where a packet comes from.
pub(super) fn source(origin: Origin<Packet>) -> IpAddr {
    let sender = origin.like().sender.to_be_bytes();
    match origin {
        Origin::Hostile(_, damage) if damage % 5 == 0 => [10, 9, sender[0], sender[1]].into(),
        _ => [10, 0, sender[0], sender[1]].into(),
    }
}

/// How long a message of its sender's ticks lasts.
const SECOND: u64 = 1_000_000_000;
/// A sender is held up for at most this long: less than calendars are kept for one that lags behind.
const HELD: u64 = 8 * SECOND;

#[derive(Debug)]
pub(super) struct Traffic {
    events: u64,
    senders: Vec<Sender>,
    /// First tick, and ticks from one event to the next.
    first: u64,
    step: u64,
    /// Time from one event to the next.
    gap: u64,
    form: u8,
    network: Network,
    /// Forged messages in a second.
    forged: u64,
}

#[derive(Debug)]
struct Sender {
    /// It is so much behind.
    behind: u64,
    /// Packets of its part of an event, at most.
    parts: u64,
    /// What it says of its rate, as a part of the truth; `None`: it sends no messages.
    claims: Option<f64>,
    /// When it has no processor, by the clock of its data, and for how long. It never makes up for that.
    held: (u64, u64),
    next: Nanos,
}

impl Sender {
    /// When it sends what is due at `at`, both by the clock of the data.
    fn sends(&self, at: u64) -> u64 {
        let (from, time) = self.held;
        self.behind + at + if at >= from { time } else { 0 }
    }

    /// Up to when it has sent what is due, at `at` by the same clock.
    fn has_sent(&self, at: u64) -> u64 {
        let ((from, time), at) = (self.held, at.saturating_sub(self.behind));
        at.min(from.max(at.saturating_sub(time)))
    }
}

impl Traffic {
    pub(super) fn random(random: &mut Random, events: u64) -> Traffic {
        let messages = random.chance(0.8);
        let mut sender = |_| Sender {
            behind: random.below(150_000_000),
            parts: random.pick(&[1, 2, 5, 12]),
            claims: messages.then(|| random.pick(&[0.0, 1.0, 1.0, 1.0, 0.8, 1.3])),
            held: (0, 0),
            next: Nanos(random.below(SECOND / 10)),
        };
        let mut senders = (0..3).map(&mut sender).collect::<Vec<_>>();
        let many = random.between(1, 3) as usize;
        // A busy host stops one. Without messages, nobody knows whether it was started anew.
        if messages && random.chance(0.3) {
            senders[0].held = (random.between(3 * SECOND, 30 * SECOND), random.between(SECOND, HELD));
        }
        let rough = random.chance(0.2);
        let network = Network {
            loss: random.pick(&[0.0, 0.01, 0.05]),
            burst: random.pick(&[0.0, 0.0002]),
            burst_longest: 100,
            depth: random.pick(&[0, 16, 200]),
            duplicate: random.pick(&[0.0, 0.01, 0.1]),
            late: Nanos(random.pick(&[900_000_000, 900_000_000, 6_000_000_000])),
            late_chance: random.pick(&[0.0, 0.02]),
            stalls: if rough { random.between(1, 3) } else { 0 },
            hostile: random.pick(&[0.0, 0.1]),
            ..Network::default()
        };
        Traffic {
            events,
            senders: senders.into_iter().take(many).collect(),
            first: random.pick(&[0, 1, 1 << 20, 1_700_000_000_000_000, 1 << 63]),
            step: random.pick(&[1, 3, 512, 1000, 2000]),
            gap: random.between(1_000_000, 4_000_000),
            form: random.between(1, 2) as u8,
            network,
            forged: if random.chance(0.3) { 5 } else { 0 },
        }
    }

    pub(super) fn tick(&self, event: u64) -> u64 {
        self.first + event * self.step
    }

    /// When it is sent, by the clock of the data.
    fn sent(&self, event: u64) -> Nanos {
        Nanos(event * self.gap)
    }

    /// When a packet was sent, by the clock of the world.
    pub(super) fn when(&self, packet: Packet) -> Nanos {
        Nanos(self.senders[usize::from(packet.sender)].sends(self.sent(packet.event).0) + SECOND)
    }

    /// Everything that arrives, in order.
    pub(super) fn arrivals(&self, random: &mut Random) -> Vec<Arrival<Packet>> {
        let mut order = Vec::new();
        for event in 0..self.events {
            for (sender, one) in (0u16..).zip(&self.senders) {
                let parts = 1 + (event.wrapping_mul(0x9E37_79B9) >> 7) % one.parts;
                for part in 0..parts {
                    let at = Nanos(one.sends(self.sent(event).0) + part * 1000);
                    order.push((at, Packet { event, sender, part }));
                }
            }
        }
        order.sort_by_key(|&(at, _)| at);
        self.network.carry(&order, Nanos(50_000), random)
    }

    /// Its octets, and why it is to be refused, if it is.
    pub(super) fn octets(
        &self,
        make: Make,
        origin: Origin<Packet>,
    ) -> Result<(Vec<u8>, Option<Refusal>), String> {
        let packet = origin.like();
        let part = Part {
            own: packet.sender,
            number: self.tick(packet.event),
            size: Some(1 << 20),
            offset: packet.part * 64,
            payload: &[7; 64],
            ..Part::default()
        };
        let mut octets = make(self.form, &part).ok_or("a form that cannot be made")?;
        let Origin::Hostile(_, damage) = origin else { return Ok((octets, None)) };
        let why = match damage % 5 {
            0 => Refusal::BlockedSource,
            1 => {
                octets.truncate((damage >> 8) as usize % 16);
                Refusal::Truncated
            }
            2 => {
                octets[1] ^= 1 << (damage >> 8 & 7);
                Refusal::BadMagic
            }
            3 => {
                octets[2] = 4 + (damage >> 8) as u8 % 250;
                Refusal::BadVersion
            }
            _ => {
                octets.truncate(16);
                Refusal::Empty
            }
        };
        Ok((octets, Some(why)))
    }

    /// Messages that arrive at `now`: of the senders, and of forgers.
    pub(super) fn messages(&mut self, now: Nanos, random: &mut Random) -> Vec<(u64, Sync)> {
        let mut out = Vec::new();
        let rate = self.step as f64 * 1e9 / self.gap as f64;
        // The clock of the data begins a second later; before it, ticks stand still.
        let (first, step, gap, end) = (self.first, self.step, self.gap, self.events * self.gap);
        let tick = |at: u64| first + (at.min(end) as f64 / gap as f64 * step as f64) as u64;
        for (source, sender) in (0u32..).zip(&mut self.senders) {
            let Some(claims) = sender.claims.filter(|_| sender.next <= now) else { continue };
            sender.next = now.plus(Nanos(random.between(SECOND * 9 / 10, SECOND)));
            if random.chance(0.1) {
                continue;
            }
            // On its way for up to 20 ms.
            let sent = now.0.saturating_sub(random.below(20_000_000));
            let at = sender.has_sent(sent.saturating_sub(SECOND));
            let claimed = if now.0 < SECOND { 0.0 } else { rate * claims };
            out.push((source.into(), Sync { source, tick: tick(at), rate: claimed as u32, sent }));
        }
        for _ in 0..self.forged {
            if random.chance(0.05) {
                let tick = random.pick(&[0, 5, u64::MAX, u64::MAX - 9, 1 << 62]);
                let rate = random.pick(&[0, 1, 1_000_000, u32::MAX]);
                let from = random.between(100, 300);
                out.push((from, Sync { source: from as u32, tick, rate, sent: now.0 }));
            }
        }
        out
    }
}

struct Worker {
    session: Session,
    /// Reports, though it may be dead.
    every: u64,
    next: Nanos,
    dead: bool,
    signal: f64,
}

/// The workers, and how often something happened.
#[derive(Default)]
pub(super) struct Workers {
    live: Vec<Worker>,
    most: u64,
    pub(super) joined: u64,
    pub(super) left: u64,
    pub(super) died: u64,
    pub(super) evicted: u64,
    next: Nanos,
}

impl Workers {
    pub(super) fn new(random: &mut Random) -> Workers {
        Workers { most: random.between(1, 12), ..Workers::default() }
    }

    /// The first port, and how many there are, of the member at this address.
    pub(super) fn ports(ip: IpAddr) -> (u16, u16) {
        let IpAddr::V4(ip) = ip else { return (0, 0) };
        let number = u16::from_be_bytes([ip.octets()[2], ip.octets()[3]]);
        (1000 + number, 1 << (number % 4))
    }

    pub(super) fn act(
        &mut self,
        balancer: &mut Balancer,
        random: &mut Random,
        now: Nanos,
    ) -> Result<(), String> {
        while (self.live.len() as u64) < self.most / 2 + 1 {
            self.join(balancer, random, now)?;
        }
        if self.next <= now {
            self.next = now.plus(Nanos(random.between(100_000_000, 2_000_000_000)));
            self.happen(balancer, random, now)?;
        }
        let due = self.live.iter_mut().filter(|worker| !worker.dead && worker.next <= now);
        let mut gone = Vec::new();
        for worker in due {
            worker.next = now.plus(Nanos(worker.every));
            if random.chance(0.2) {
                worker.signal = (random.below(1000) as f64 - 500.0) * random.pick(&[0.1, 1.0]);
            }
            let fill = random.below(1000) as f64 / 1000.0;
            let load = Load { fill, ..Load::default() };
            let state = WorkerState { ready: random.chance(0.98), signal: worker.signal, load };
            match balancer.handle_state(worker.session, state, now) {
                Ok(()) => {}
                // Removed while it was dead.
                Err(StateError::NoSession) => gone.push(worker.session),
                Err(error) => return Err(error.to_string()),
            }
        }
        self.live.retain(|worker| !gone.contains(&worker.session));
        Ok(())
    }

    fn join(&mut self, balancer: &mut Balancer, random: &mut Random, now: Nanos) -> Result<(), String> {
        self.joined += 1;
        let number = (self.joined as u16).to_be_bytes();
        let ip = IpAddr::from([10, 1, number[0], number[1]]);
        let (port, ports) = Workers::ports(ip);
        let range = PortRange::new(ports.trailing_zeros() as u8).ok_or("ports")?;
        let member = Member::new(ip, port, range, random.chance(0.2)).ok_or("a member")?;
        let registration = Registration {
            member,
            weight: random.between(1, 10) as f64,
            min_factor: random.pick(&[0.0, 0.0, 0.5]),
            max_factor: random.pick(&[0.0, 0.0, 2.0]),
        };
        let session = balancer.register(registration, now).map_err(|error| error.to_string())?;
        let every = random.pick(&[100_000_000, 500_000_000, 1_000_000_000]);
        self.live.push(Worker { session, every, next: now, dead: false, signal: 0.0 });
        Ok(())
    }

    fn happen(&mut self, balancer: &mut Balancer, random: &mut Random, now: Nanos) -> Result<(), String> {
        let at = random.below(self.live.len() as u64) as usize;
        match random.below(8) {
            0 | 1 if (self.live.len() as u64) < self.most => return self.join(balancer, random, now),
            2 if self.live.len() > 1 => {
                let worker = self.live.swap_remove(at);
                self.left += 1;
                // It may have been removed while it was dead.
                let _ = balancer.deregister(worker.session);
            }
            3 => {
                self.died += 1;
                self.live[at].dead = true;
            }
            4 if random.chance(0.3) && self.live.len() > 1 => {
                let worker = self.live.swap_remove(at);
                self.evicted += u64::from(balancer.evict(worker.session).is_ok());
            }
            5 if random.chance(0.5) => {
                let first = random.chance(0.5).then(|| random.below(512) as u16);
                let length = random.pick(&[0, 1, 40, 200]).min(512 - first.unwrap_or(0));
                match balancer.demand(self.live[at].session, &[SlotRange { first, length }]) {
                    // Removed while it was dead, or others demand too much.
                    Ok(()) | Err(DemandError::NoSession | DemandError::NoRoom(_)) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            _ => self.live.iter_mut().for_each(|worker| worker.dead &= random.chance(0.5)),
        }
        Ok(())
    }
}
