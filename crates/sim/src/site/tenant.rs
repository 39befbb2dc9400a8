//! A tenant's load balancer and workers.

use super::fates::{Fate, Fates, Given};
use super::plan::{FORGED, PAYLOAD, Packet, Plan};
use crate::random::Random;
use crate::site::plan::{MS, Wire};
use core::net::{IpAddr, SocketAddr};
use skyhaul_core::{
    assembly::{KeyedConfig, KeyedWindow, Retired, Slot, Window},
    balance::{
        AllowList, Balancer, BalancerConfig, Counters, Load, Member, PortRange, Prefix, Refusal,
        Registration, Route, Session, StateError, Table, Ticks, WorkerState,
    },
    pattern,
    placement::{Nanos, Reject},
    wire::labelled::{Labelled, Sync},
};

/// A forwarding thread uses a table at most this much later.
const PICK_UP: u64 = 100 * MS;

struct Worker {
    number: u64,
    at: SocketAddr,
    like: Registration,
    session: Option<Session>,
    events: KeyedWindow<Vec<u8>>,
    finished: u64,
}

pub(super) struct Tenant {
    number: usize,
    pub(super) wire: Wire,
    random: Random,
    balancer: Balancer,
    /// When this balancer began to count its time.
    origin: u64,
    /// Until when there is no control plane, and no data plane.
    control_away: u64,
    plane_away: u64,
    table: Table,
    /// Tables that threads do not use yet.
    coming: Vec<(u64, Table)>,
    given_out: Option<Table>,
    counters: Counters,
    before: Counters,
    workers: Vec<Worker>,
    born: u64,
    sent: u64,
}

impl Tenant {
    pub(super) fn new(number: usize, wire: Wire, random: Random) -> Tenant {
        let allow = Tenant::allowed(number);
        let mut balancer = Balancer::new(BalancerConfig::default());
        balancer.allow(allow.clone());
        let mut tenant = Tenant {
            number,
            wire,
            random,
            balancer,
            origin: 0,
            control_away: 0,
            plane_away: 0,
            table: Table::new(allow, Vec::new(), &[]),
            coming: Vec::new(),
            given_out: None,
            counters: Counters::default(),
            before: Counters::default(),
            workers: Vec::new(),
            born: 0,
            sent: 0,
        };
        (0..tenant.random.between(2, 5)).for_each(|_| tenant.start_worker(None));
        tenant
    }

    fn allowed(number: usize) -> AllowList {
        AllowList::of(&[Prefix::new([10, number as u8, 0, 0].into(), 16).expect("a network of 16 bits")])
    }

    /// A worker starts: at a new address, or at that of one that was killed.
    fn start_worker(&mut self, at: Option<SocketAddr>) {
        self.born += 1;
        let ip: IpAddr = [10, 10 + self.number as u8, 1, self.born as u8].into();
        let at = at.unwrap_or(SocketAddr::new(ip, 17_750));
        let member = Member::new(at.ip(), at.port(), PortRange::default(), false).expect("a member");
        let weight = self.random.between(1, 4) as f64;
        let config = KeyedConfig { window: 4096, contest: Some(Nanos(10 * MS)), ..KeyedConfig::default() };
        self.workers.push(Worker {
            number: self.born,
            at,
            like: Registration { member, weight, min_factor: 0.0, max_factor: 0.0 },
            session: None,
            events: KeyedWindow::new(config),
            finished: 0,
        });
    }

    pub(super) fn kill_worker(&mut self, at: u64, fates: &mut Fates) -> Result<(), String> {
        let which = self.random.below(self.workers.len() as u64) as usize;
        self.settle(at, fates)?;
        let gone = self.workers.remove(which);
        fates.kill(gone.number);
        let same = self.random.chance(0.5);
        self.start_worker(same.then_some(gone.at));
        Ok(())
    }

    pub(super) fn kill_plane(&mut self, back: u64) {
        self.plane_away = back;
        self.before.merge(&std::mem::take(&mut self.counters));
        // The next one is given the last table.
        self.table = self
            .given_out
            .clone()
            .unwrap_or_else(|| Table::new(Tenant::allowed(self.number), Vec::new(), &[]));
        self.coming.clear();
    }

    pub(super) fn kill_control(&mut self, back: u64) {
        self.control_away = back;
    }

    pub(super) fn sync(&mut self, source: u32, tick: u64, rate: u32, now: u64) {
        if now >= self.control_away {
            self.resume(now);
            let sync = Sync { source, tick, rate, sent: now };
            self.balancer.handle_sync(source.into(), &sync, Nanos(now - self.origin));
        }
    }

    /// If the control plane was killed: the next one goes on with the table, and with the workers of its state.
    fn resume(&mut self, now: u64) {
        if self.control_away == 0 {
            return;
        }
        self.control_away = 0;
        let table = self.given_out.clone().unwrap_or_else(|| self.table.clone());
        let known: Vec<(Session, Registration)> =
            self.workers.iter().filter_map(|worker| Some((worker.session?, worker.like))).collect();
        self.balancer = Balancer::resume(BalancerConfig::default(), &table, &known, Nanos(0));
        self.balancer.allow(Tenant::allowed(self.number));
        self.origin = now;
    }

    /// A packet comes to the balancer.
    pub(super) fn packet<L: Labelled>(
        &mut self,
        bytes: &[u8],
        source: IpAddr,
        now: u64,
        packet: &Packet,
    ) -> Result<Fate, String> {
        if now < self.plane_away {
            return Ok(Fate::Away);
        }
        while let Some(at) = self.coming.iter().position(|(at, _)| *at <= now) {
            self.table = self.coming.remove(at).1;
        }
        self.sent += 1;
        let mut routes: [Result<Route, Refusal>; 1] = [Err(Refusal::Empty)];
        self.table.route_train::<L>(source, [bytes], &mut routes, &mut self.counters);
        let route = match routes[0] {
            Ok(route) => route,
            Err(why) => return Ok(Fate::Refused(why.name())),
        };
        let at = self.table.address(route).ok_or("a seat that is empty")?;
        let Some(worker) = self.workers.iter_mut().find(|worker| worker.at == at) else {
            return Ok(Fate::Dead(at));
        };
        let behind = &bytes[usize::from(route.skip)..];
        let place =
            (self.wire.place)(behind).map_err(|why| format!("a packet that cannot be read: {why:?}"))?;
        let room = |bytes: u64, old: Option<Vec<u8>>| {
            let mut block = old.unwrap_or_default();
            block.resize(bytes as usize, 0);
            Ok(block)
        };
        let came = Fate::Came(worker.number, at);
        match worker.events.reserve(place, Nanos(now), room) {
            Ok(mut slot) => {
                let range = slot.range();
                slot.block()[range.start as usize..range.end as usize]
                    .copy_from_slice(&behind[place.start as usize..]);
                slot.commit(Nanos(now));
                Ok(came)
            }
            // It has it already.
            Err(Reject::Duplicate | Reject::Late) => Ok(came),
            Err(Reject::WrongSize) if packet.forged.is_some() => Ok(Fate::Rejected("wrong_size")),
            Err(why) => Err(format!("{packet:?} is refused by a worker: {why:?}")),
        }
    }

    /// The control plane and the workers look, every 50 ms.
    pub(super) fn look(&mut self, now: u64, fates: &mut Fates) -> Result<(), String> {
        self.settle(now, fates)?;
        if now < self.control_away {
            return Ok(());
        }
        self.resume(now);
        let time = Nanos(now - self.origin);
        for worker in &mut self.workers {
            let session = match worker.session {
                Some(session) => session,
                None => {
                    let session =
                        self.balancer.register(worker.like, time).map_err(|error| error.to_string())?;
                    *worker.session.insert(session)
                }
            };
            let load = Load { fill: 0.1, received: worker.finished, taken: worker.finished };
            let signal = if self.random.chance(0.1) { self.random.below(600) as f64 - 300.0 } else { 0.0 };
            let state = WorkerState { ready: true, signal, load };
            match self.balancer.handle_state(session, state, time) {
                Ok(()) => {}
                Err(StateError::NoSession) => worker.session = None,
                Err(error) => return Err(error.to_string()),
            }
        }
        let mut ticks = Ticks::default();
        ticks.merge(&self.counters.take_ticks());
        self.balancer.handle_ticks(&ticks, time);
        self.balancer.handle_timeout(time);
        if let Some(table) = self.balancer.poll_table() {
            let at = now + self.random.below(PICK_UP);
            let at = self.coming.last().map_or(at, |(last, _)| at.max(*last));
            self.coming.push((at.max(self.plane_away), table.clone()));
            self.given_out = Some(table);
        }
        Ok(())
    }

    /// What workers have finished.
    fn settle(&mut self, now: u64, fates: &mut Fates) -> Result<(), String> {
        for worker in &mut self.workers {
            worker.events.handle_timeout(Nanos(now));
            while let Some(one) = worker.events.poll_retired() {
                worker.finished += 1;
                give(worker.number, &one, fates)?;
            }
            worker.events.take_dropped();
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, now: Nanos, fates: &mut Fates) -> Result<(), String> {
        self.workers.iter_mut().for_each(|worker| worker.events.finish(now));
        self.settle(now.0, fates)
    }

    /// The counters are the number of packets.
    pub(super) fn judge(&mut self) -> Result<(), String> {
        self.before.merge(&self.counters);
        let forwarded: u64 = self.before.members().map(|(_, traffic)| traffic.packets).sum();
        let counted = forwarded + self.before.refused_total();
        match (self.before.packets, counted) {
            (packets, counted) if packets == self.sent && counted == self.sent => Ok(()),
            (packets, counted) => {
                Err(format!("{} packets came, {packets} and {counted} are counted", self.sent))
            }
        }
    }
}

/// An event that a worker gave out: of which sender's start it is, its bytes say.
fn give(worker: u64, one: &Retired<Vec<u8>>, fates: &mut Fates) -> Result<(), String> {
    let (tick, own) = (one.key.number, one.key.source as u16);
    let there = |at: u64| one.missing.iter().all(|gap| !(gap.start..gap.end).contains(&at));
    let first = (0..one.range.end / PAYLOAD).map(|part| part * PAYLOAD).find(|&at| there(at));
    let Some(first) = first else { return Ok(()) };
    // A forged packet alone, that nothing confirmed.
    let part = &one.block[first as usize..(first + PAYLOAD) as usize];
    let forged =
        part[0].checked_sub(FORGED).filter(|run| *run < 8 && part.iter().all(|byte| *byte == part[0]));
    if let Some(run) = forged.filter(|_| one.received() == PAYLOAD) {
        if one.is_complete() {
            fates.forge((tick, own, run.into()), worker);
        }
        return Ok(());
    }
    let run_of = |run: u64| {
        let number = Plan::pattern_of(tick, run, own);
        let mut want = [0; 8];
        pattern::fill(number, first, &mut want);
        one.block[first as usize..first as usize + 8] == want
    };
    let run = (0..8).find(|&run| run_of(run));
    let is_right = run.is_some_and(|run| {
        let mut want = vec![0; one.block.len()];
        pattern::fill(Plan::pattern_of(tick, run, own), 0, &mut want);
        (0..one.range.end).all(|at| !there(at) || one.block[at as usize] == want[at as usize])
    });
    let given =
        Given { worker, is_whole: one.is_complete(), bytes: one.received(), size: one.range.end, is_right };
    fates.give((tick, own), run, given)
}
