//! The workers of a world, and what they do to the balancer.

use crate::random::Random;
use core::net::IpAddr;
use skyhaul_core::{
    balance::{
        Balancer, DemandError, Load, Member, PortRange, Registration, Session, SlotRange, StateError,
        WorkerState,
    },
    placement::Nanos,
};

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
