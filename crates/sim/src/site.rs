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

mod fates;
mod plan;
mod tenant;

pub use crate::site::plan::Played;

use crate::random::Random;
use crate::site::plan::{SECOND, Wire};
use fates::{Fate, Fates};
use plan::{Plan, What};
use skyhaul_core::{
    placement::Nanos,
    wire::{
        FAMILIES,
        keyed::{Keyed, VisitKeyed},
        labelled::{Labelled, VisitLabelled},
    },
};
use tenant::Tenant;

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
        let source = plan::source(tenant);
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
