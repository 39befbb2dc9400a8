//! Worlds of a load balancer: senders of events, a network, several threads with tables of different age, and workers that
//! join, leave, die, come back and change their minds. In some worlds, threads and the control plane get no processor for
//! seconds.
//!
//! ```text
//!   senders ─▶ Network ─▶ threads: Table ─▶ Ledger     a tick has one member; every refusal has its cause
//!      │ synchronisation        ▲ late, each alone
//!      └──────────────▶ Balancer ◀── workers, forgers
//! ```
//!
//! What must hold is said without the balancer's own arithmetic: all packets of a tick reach one address, at whichever
//! thread they arrive and whenever; what is refused was damaged on purpose, or is explained by what happened in the world;
//! and the counters are the number of packets, one by one.

mod traffic;

use crate::balance::traffic::Workers;
use crate::network::Arrival;
use crate::random::Random;
use core::net::SocketAddr;
use skyhaul_core::balance::{
    AllowList, Balancer, BalancerConfig, Counters, EpochStats, MEMBERS, PredictStats, Refusal, Route, Routed,
    Seat, Settled, Table, TickRange, Ticks,
};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::keyed::{Keyed, VisitKeyed};
use skyhaul_core::wire::labelled::{Labelled, VisitLabelled};
use skyhaul_core::wire::{FAMILIES, FamilyRef};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use traffic::{Make, Packet, Traffic};

/// Events of a world, in which all happens that can.
pub const EVENTS: u64 = 10_000;

/// Packets of a train at most.
const TRAIN: usize = 8;
/// Times between two looks of the control thread.
const LOOK: Nanos = Nanos(50_000_000);
/// A thread uses a table at most this much later, and as many times that if threads get no processor.
const PICK_UP: u64 = 200_000_000;
const STARVED: u64 = 25;
/// Looks that the control thread misses at most, if it gets no processor.
const MISSED: u64 = 30;

/// Play world `seed` with so many events.
///
/// # Errors
/// What did not hold.
pub fn play(seed: u64, events: u64) -> Result<Played, String> {
    struct Player(u64, u64, FamilyRef);
    impl VisitLabelled for Player {
        type Out = Result<Played, String>;
        fn visit<L: Labelled>(self) -> Self::Out {
            let Player(seed, events, family) = self;
            let make = family.visit_keyed(Maker).ok_or("a labelled family without packets")?;
            World::new(seed, events, make).play::<L>()
        }
    }
    struct Maker;
    impl VisitKeyed for Maker {
        type Out = Make;
        fn visit<W: Keyed>(self) -> Make {
            W::packet
        }
    }
    let mut played =
        FAMILIES.iter().filter_map(|family| family.visit_labelled(Player(seed, events, *family)));
    let outcome = played.next().ok_or("no family is labelled")?;
    outcome.map_err(|why| format!("balancer world {seed}: {why}"))
}

/// A thread that forwards.
struct Thread {
    table: Arc<Table>,
    /// What it may forward by it.
    ticks: TickRange,
    /// Tables that it has not seen yet, and when it will.
    coming: Vec<(Nanos, Arc<Table>)>,
    counters: Counters,
}

struct World {
    random: Random,
    make: Make,
    traffic: Traffic,
    balancer: Balancer,
    workers: Workers,
    threads: Vec<Thread>,
    /// What all threads share.
    settled: Settled,
    /// Whether threads get no processor for a while, and how many looks the control thread misses.
    is_starved: bool,
    missed: u64,
    fate: Random,
    /// When the control plane hears which table is in use.
    reply: Option<Nanos>,
    ledger: Ledger,
    looked: Nanos,
    /// When the first calendar was given out.
    begun: Option<Nanos>,
}

impl World {
    fn new(seed: u64, events: u64, make: Make) -> World {
        let mut random = Random(seed);
        let traffic = Traffic::random(&mut random.fork(), events);
        let mut balancer = Balancer::new(BalancerConfig::default());
        balancer.allow(AllowList::of(&traffic::allowed()));
        let workers = Workers::new(&mut random);
        let mut fate = Random(!seed);
        let empty = Arc::new(Table::new(AllowList::of(&traffic::allowed()), Vec::new(), &[]));
        let thread = |_| Thread {
            table: Arc::clone(&empty),
            ticks: TickRange::NONE,
            coming: Vec::new(),
            counters: Counters::default(),
        };
        let threads = (0..random.between(1, 4)).map(thread).collect();
        World {
            random,
            make,
            traffic,
            balancer,
            workers,
            threads,
            settled: Settled::new(empty),
            is_starved: fate.chance(0.3),
            missed: 0,
            fate,
            reply: None,
            ledger: Ledger::default(),
            looked: Nanos(0),
            begun: None,
        }
    }

    fn play<L: Labelled>(mut self) -> Result<Played, String> {
        let arrivals = self.traffic.arrivals(&mut self.random);
        let mut left = &arrivals[..];
        // Workers and senders begin a little before the data.
        while self.looked < Nanos(1_000_000_000) {
            self.look()?;
        }
        while let Some(first) = left.first() {
            let now = first.at.plus(Nanos(1_000_000_000));
            while self.looked.plus(LOOK) <= now {
                self.look()?;
            }
            // A train: of one sender, and at once.
            let most = self.random.between(1, TRAIN as u64) as usize;
            let source = |one: &Arrival<Packet>| traffic::source(one.origin);
            let near = |one: &&Arrival<Packet>| {
                one.at <= first.at.plus(Nanos(1_000_000)) && source(one) == source(first)
            };
            let n = left.iter().take(most).take_while(near).count();
            let (train, rest) = left.split_at(n);
            left = rest;
            self.forward::<L>(train, now)?;
        }
        let mut counters = Counters::default();
        self.threads.iter().for_each(|thread| counters.merge(&thread.counters));
        let (epochs, predicted) = self.balancer.stats();
        self.ledger.finish(&counters, epochs, predicted, &self.workers)
    }

    fn forward<L: Labelled>(&mut self, train: &[Arrival<Packet>], now: Nanos) -> Result<(), String> {
        let number = self.random.below(self.threads.len() as u64) as usize;
        let thread = &mut self.threads[number];
        while let Some(at) = thread.coming.iter().position(|(at, _)| *at <= now) {
            (thread.table, thread.ticks) = (thread.coming.remove(at).1, TickRange::NONE);
        }
        let make = |one: &Arrival<Packet>| self.traffic.octets(self.make, one.origin);
        let packets: Vec<(Vec<u8>, Option<Refusal>)> = train.iter().map(make).collect::<Result<_, _>>()?;
        let source = traffic::source(train[0].origin);
        let mut routes: [Result<Route, Refusal>; TRAIN] = [Err(Refusal::Empty); TRAIN];
        self.ledger.is_early = self.begun.is_none_or(|begun| now.since(begun) < Nanos(PICK_UP));
        let mut left = train.iter().zip(&packets);
        while left.len() > 0 {
            let slices = left.clone().map(|(_, (octets, _))| octets.as_slice());
            let Routed { packets: n, unsettled } = thread.table.route_settled::<L>(
                source,
                slices,
                thread.ticks,
                &mut routes,
                &mut thread.counters,
            );
            for ((one, (_, expected)), route) in left.by_ref().take(n).zip(routes) {
                let packet = one.origin.like();
                let address = route.map(|route| thread.table.address(route));
                let age = now.since(self.traffic.when(packet));
                self.ledger.packet(packet, *expected, address, age, &self.workers)?;
            }
            match unsettled {
                Some(tick) => {
                    thread.ticks = self.settled.claim(tick, now);
                    thread.table = Arc::clone(self.settled.table());
                    thread.coming.clear();
                    if !thread.ticks.contains(tick) {
                        return Err(format!("tick {tick} is asked for, and not settled"));
                    }
                }
                None if left.len() > 0 => {
                    return Err(format!("{} packets of a train were not routed", left.len()));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The control thread looks: at workers, messages, the data; time passes; a table is given out.
    fn look(&mut self) -> Result<(), String> {
        self.looked = self.looked.plus(LOOK);
        let now = self.looked;
        if self.missed > 0 {
            self.missed -= 1;
            return Ok(());
        }
        self.workers.act(&mut self.balancer, &mut self.random, now)?;
        for (from, sync) in self.traffic.messages(now, &mut self.random) {
            self.balancer.handle_sync(from, &sync, now);
        }
        let mut ticks = Ticks::default();
        self.threads.iter_mut().for_each(|thread| ticks.merge(&thread.counters.take_ticks()));
        self.balancer.handle_ticks(&ticks, now);
        if self.reply.take_if(|at| *at <= now).is_some() {
            self.balancer.handle_settled(self.settled.table(), now);
        }
        if self.reply.is_none() && self.balancer.poll_timeout() <= now {
            self.balancer.handle_timeout(now);
        }
        if let Some(table) = self.balancer.poll_table() {
            if !table.epochs().is_empty() {
                self.begun.get_or_insert(now);
            }
            let table = self.settled.commit(table);
            self.reply = Some(now.plus(Nanos(self.fate.below(PICK_UP))));
            for thread in &mut self.threads {
                let times = if self.is_starved { STARVED } else { 1 };
                let at = now.plus(Nanos(self.random.below(PICK_UP) * times));
                // A newer table is never seen before an older one.
                let at = thread.coming.last().map_or(at, |(last, _)| at.max(*last));
                thread.coming.push((at, Arc::clone(&table)));
            }
        }
        if self.is_starved && self.fate.chance(0.02) {
            self.missed = self.fate.below(MISSED);
        }
        Ok(())
    }
}

/// What happened in a world, or in several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Events of which packets arrived.
    pub events: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets forwarded.
    pub forwarded: u64,
    /// Refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Calendars that began.
    pub calendars: u64,
    /// Boundaries withdrawn.
    pub withdrawn: u64,
    /// Messages of ticks that were not followed.
    pub suspect: u64,
    /// Workers that joined, left, died and were evicted.
    pub workers: [u64; 4],
}

impl Played {
    /// Add another world.
    pub fn add(&mut self, other: &Played) {
        self.events += other.events;
        self.packets += other.packets;
        self.forwarded += other.forwarded;
        self.calendars += other.calendars;
        self.withdrawn += other.withdrawn;
        self.suspect += other.suspect;
        other.refused.iter().for_each(|(why, count)| *self.refused.entry(why).or_default() += count);
        self.workers.iter_mut().zip(other.workers).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// Packets are refused as too old only after this time: what an epoch is kept, less what a boundary is ahead and senders
/// differ.
const KEPT: Nanos = Nanos(2_500_000_000);

#[derive(Default)]
struct Ledger {
    /// Not every thread has a calendar yet.
    is_early: bool,
    /// The member of each event.
    owners: HashMap<u64, IpAddr>,
    packets: u64,
    forwarded: u64,
    refused: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// A packet arrived `age` after it was sent: it is to be refused for `expected`, or it is honest.
    fn packet(
        &mut self,
        packet: Packet,
        expected: Option<Refusal>,
        address: Result<Option<SocketAddr>, Refusal>,
        age: Nanos,
        workers: &Workers,
    ) -> Result<(), String> {
        self.packets += 1;
        let why = match address {
            Ok(Some(address)) => return self.forwarded(packet, expected, address),
            Ok(None) => return Err(format!("{packet:?} goes to a seat that is empty")),
            Err(why) => why,
        };
        *self.refused.entry(why.name()).or_default() += 1;
        let explained = match (expected, why) {
            (Some(expected), why) => expected == why,
            (None, Refusal::NoEpoch) => self.is_early,
            (None, Refusal::TooOld) => age >= KEPT,
            (None, Refusal::Evicted) => workers.evicted > 0,
            // Every worker left.
            (None, Refusal::UnassignedSlot) => workers.left + workers.evicted > 0,
            (None, _) => false,
        };
        if explained { Ok(()) } else { Err(format!("{packet:?}, {age:?} old, is refused: {why:?}")) }
    }

    fn forwarded(
        &mut self,
        packet: Packet,
        expected: Option<Refusal>,
        address: SocketAddr,
    ) -> Result<(), String> {
        self.forwarded += 1;
        if let Some(why) = expected {
            return Err(format!("{packet:?} is forwarded, though {why:?}"));
        }
        let owner = *self.owners.entry(packet.event).or_insert(address.ip());
        if owner != address.ip() {
            return Err(format!("event {} is split: {owner} and {}", packet.event, address.ip()));
        }
        let (first, ports) = Workers::ports(owner);
        if address.port() != first + packet.sender % ports {
            return Err(format!("{packet:?} goes to {address}"));
        }
        Ok(())
    }

    /// The counters must be the number of packets.
    fn finish(
        self,
        counters: &Counters,
        epochs: EpochStats,
        predicted: PredictStats,
        workers: &Workers,
    ) -> Result<Played, String> {
        let members = (0..MEMBERS).filter_map(Seat::new);
        let forwarded: u64 = members.map(|seat| counters.member(seat).packets).sum();
        if (counters.packets, forwarded) != (self.packets, self.forwarded) {
            return Err(format!(
                "{} packets, {} forwarded; counted {counters:?}",
                self.packets, self.forwarded
            ));
        }
        for why in Refusal::ALL {
            let (mine, theirs) = (self.refused.get(why.name()).copied().unwrap_or(0), counters.refused(*why));
            if mine != theirs {
                return Err(format!("{mine} packets were refused as {why:?}, counted {theirs}"));
            }
        }
        Ok(Played {
            events: self.owners.len() as u64,
            packets: self.packets,
            forwarded,
            refused: self.refused,
            calendars: epochs.begun,
            withdrawn: epochs.withdrawn,
            suspect: predicted.suspect,
            workers: [workers.joined, workers.left, workers.died, workers.evicted],
        })
    }
}
