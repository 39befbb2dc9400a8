//! One world: a sender, a network, a receiver with limits, and the account of what happened.
//!
//! ```
//! use skyhaul_sim::world::World;
//! let tally = World::random(7).run(&mut |_| ()).unwrap();
//! assert!(tally.packets > 0);
//! ```

use crate::memory::Memory;
use crate::model::{Held, Model, hold};
use crate::network::{self, Arrival, Network, Origin};
use crate::random::Random;
use crate::sender::{Sender, Spot};
use skyhaul_core::assembly::{Cause, Ordered, OrderedConfig, Slot, Window};
use skyhaul_core::placement::{Nanos, Placement, Reject, Rejects};
use std::collections::{BTreeMap, BTreeSet};

/// All that is chosen before the first packet.
#[derive(Debug)]
pub struct World {
    /// Replays it.
    pub seed: u64,
    /// Who sends.
    pub sender: Sender,
    /// What the way does to it.
    pub network: Network,
    /// Packets sent.
    pub packets: u64,
    /// Between two packets.
    pub gap: Nanos,
    /// The receiver's limits.
    pub config: OrderedConfig,
    /// The receiver's blocks.
    pub blocks: usize,
    /// The receiver looks at its clock this often; 0: exactly when it should.
    pub tick: Nanos,
}

/// What happened, over any number of worlds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Worlds.
    pub worlds: u64,
    /// Worlds in which the loss map had to equal the injected loss.
    pub exact: u64,
    /// Datagrams that came.
    pub packets: u64,
    /// Put in their place.
    pub accepted: u64,
    /// Of these, given back as no part of the stream.
    pub strays: u64,
    /// Refused, by reason.
    pub rejects: Rejects,
    /// Parts retired, by cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// Restarts that were followed.
    pub epochs: u64,
    /// Blocks that a second disk had to write.
    pub rewritten: u64,
    /// Worlds by family.
    pub families: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Add another's counts.
    pub fn add(&mut self, other: &Tally) {
        self.worlds += other.worlds;
        self.exact += other.exact;
        self.packets += other.packets;
        self.accepted += other.accepted;
        self.strays += other.strays;
        self.rejects.merge(&other.rejects);
        self.epochs += other.epochs;
        self.rewritten += other.rewritten;
        for (mine, theirs) in [(&mut self.causes, &other.causes), (&mut self.families, &other.families)] {
            theirs.iter().for_each(|(name, count)| *mine.entry(name).or_default() += count);
        }
    }
}

/// Takes one line for each event.
pub type Log<'a> = &'a mut dyn FnMut(&dyn Fn() -> String);

impl World {
    /// The world of this seed.
    #[must_use]
    pub fn random(seed: u64) -> World {
        let mut random = Random(seed);
        let units = random.pick(&[8, 30, 100, 700]);
        let sender = Sender::random(&mut random, units);
        let large = sender.object_bytes() / sender.units > 4000;
        let packets = random.between(50, if large { 400 } else { 3000 });
        let network = Network::random(&mut random, packets);
        let window = random.between(1, 5) as usize;
        let config = OrderedConfig {
            window,
            ahead: sender.ahead().max(random.pick(&[1, 1, 4, 64])),
            resync: random.pick(&[64, 256, 256]),
            open_ended: sender.short_objects(),
            ..OrderedConfig::new(sender.layout.geometry())
        };
        let blocks = window + 1 + random.pick(&[0, 1, 4, 16]);
        let gap = Nanos(random.pick(&[1_000, 1_000, 50_000, 2_000_000, 300_000_000]));
        let tick = Nanos(random.pick(&[0, 0, 50_000_000]));
        World { seed, sender, network, packets, gap, config, blocks, tick }
    }

    /// Play it to its end.
    ///
    /// # Errors
    /// What did not hold.
    pub fn run(&self, log: Log<'_>) -> Held<Tally> {
        let mut random = Random(self.seed ^ 0x5EED);
        let (arrivals, sent) =
            network::carry(&self.network, &self.sender, self.packets, self.gap, &mut random.fork());
        let memory = Memory::random(&mut random.fork(), self.blocks, self.sender.object_bytes() as usize);
        let mut receiver = Receiver {
            world: self,
            assembly: Ordered::new(self.config),
            memory,
            model: Model::default(),
            tally: Tally { worlds: 1, ..Tally::default() },
            highest: 0,
            refused: false,
            now: Nanos(0),
        };
        log(&|| format!("{self:#?}"));
        for arrival in &arrivals {
            receiver.pass(arrival.at, log)?;
            receiver.receive(arrival, log)?;
        }
        receiver.pass(receiver.now.plus(Nanos(30_000_000_000)), log)?;
        hold!(receiver.assembly.poll_timeout().is_none(), "something waits for ever");
        receiver.assembly.finish(receiver.now);
        receiver.drain(log)?;
        receiver.judge(&arrivals, &sent)
    }

    /// Whether reordering stays inside the window, and no loss looks like a jump.
    fn is_orderly(&self) -> bool {
        let Network { depth, burst, burst_longest, outages, .. } = self.network;
        let jump = depth + if burst > 0.0 { burst_longest * 3 } else { 30 };
        let before = (self.config.window as u64 - 1) * self.sender.units;
        let quick = self.gap.0 * (depth + 1) < self.config.linger.0;
        self.network.is_honest()
            && outages == 0
            && self.sender.counts_gaps()
            && depth <= before
            && jump <= self.config.ahead * self.sender.units
            && quick
    }
}

struct Receiver<'a> {
    world: &'a World,
    assembly: Ordered<Vec<u8>>,
    memory: Memory,
    model: Model,
    tally: Tally,
    /// Highest object that was accepted.
    highest: u64,
    /// A packet that was not there yet was refused.
    refused: bool,
    now: Nanos,
}

impl Receiver<'_> {
    /// Let time pass until `until`, doing what falls due.
    fn pass(&mut self, until: Nanos, log: Log<'_>) -> Held {
        while let Some(due) = self.assembly.poll_timeout() {
            let tick = self.world.tick.0.max(1);
            let due = Nanos(due.max(self.now).0.div_ceil(tick) * tick);
            if due > until {
                break;
            }
            self.now = due;
            self.memory.pass(due);
            self.assembly.handle_timeout(due);
            log(&|| format!("{:>14} time", due.0));
            hold!(
                self.assembly.poll_timeout().is_none_or(|next| next > due),
                "a time that is past is due for ever"
            );
            self.drain(log)?;
        }
        self.now = self.now.max(until);
        self.memory.pass(self.now);
        Ok(())
    }

    fn receive(&mut self, arrival: &Arrival, log: Log<'_>) -> Held {
        let World { sender, network, .. } = self.world;
        let packet = network::octets(arrival.origin, sender, network);
        self.tally.packets += 1;
        let placed = sender.layout.place(&packet);
        if let Origin::Sent(position) = arrival.origin {
            let want = sender.spot(position);
            let got =
                placed.map(|p| Spot { object: p.key.number, offset: p.offset, length: p.length as u32 });
            hold!(got == Ok(want), "position {position} belongs to {want:?}, the layout says {got:?}");
        }
        let outcome = placed.and_then(|placement| self.put(&placement, &packet));
        log(&|| format!("{:>14} {:?} {placed:?} -> {outcome:?}", self.now.0, arrival.origin));
        hold!(
            self.memory.held() <= self.world.config.window + 1 + 1,
            "{} blocks are held",
            self.memory.held()
        );
        match (outcome, placed) {
            (Ok(()), _) => self.tally.accepted += 1,
            (Err(why), placed) => {
                self.tally.rejects.add(why);
                if let Ok(placement) = placed {
                    self.justify(why, &placement)?;
                }
            }
        }
        self.drain(log)?;
        hold!(self.memory.held() <= self.world.config.window + 1, "{} blocks are held", self.memory.held());
        Ok(())
    }

    fn put(&mut self, placement: &Placement, packet: &[u8]) -> Result<(), Reject> {
        let start = placement.start as usize;
        let payload = &packet[start..start + placement.length as usize];
        let memory = &mut self.memory;
        let mut slot = self.assembly.reserve(*placement, self.now, |_, old| memory.take().ok_or(old))?;
        let range = slot.range().start as usize..slot.range().end as usize;
        slot.block()[range].copy_from_slice(payload);
        slot.commit(self.now);
        self.model.accept(placement, payload);
        self.highest = self.highest.max(placement.key.number);
        Ok(())
    }

    /// A refusal must have its reason.
    fn justify(&mut self, why: Reject, placement: &Placement) -> Held {
        let known = self.model.knows(placement);
        self.refused |= !known;
        let just = match why {
            Reject::Duplicate => known || !self.world.network.is_honest(),
            Reject::Late => placement.key.number <= self.highest,
            Reject::NoBuffer => self.memory.is_empty(),
            Reject::Stray => true,
            _ => !self.world.network.is_honest(),
        };
        hold!(just, "{placement:?} was refused as {why:?} without reason");
        Ok(())
    }

    fn drain(&mut self, log: Log<'_>) -> Held {
        while let Some(part) = self.assembly.poll_retired() {
            log(&|| {
                let missing = part.missing.len();
                format!(
                    "{:>14} retired {:?} {:?} of epoch {} after {:?}, {missing} holes, {:?}",
                    self.now.0, part.key.number, part.range, part.epoch, part.after, part.cause
                )
            });
            *self.tally.causes.entry(part.cause.name()).or_default() += 1;
            self.model.retire(&part, &self.world.sender)?;
            match part.cause {
                Cause::Stray => self.memory.give_back(part.block),
                _ => self.memory.write(part.block, self.now),
            }
        }
        Ok(())
    }

    fn judge(mut self, arrivals: &[Arrival], sent: &[u64]) -> Held<Tally> {
        let World { sender, network, .. } = self.world;
        self.model.finish()?;
        hold!(self.memory.is_whole(), "{} blocks did not come back", self.memory.held());
        let arrived =
            arrivals.iter().filter_map(|a| if let Origin::Sent(at) = a.origin { Some(at) } else { None });
        let arrived: BTreeSet<u64> = arrived.collect();
        if network.is_honest() && self.assembly.epoch() == 0 {
            // Nothing is told that was not sent, and nothing twice: positions and places are the same thing.
            let sent: BTreeSet<Spot> = arrived.iter().map(|&at| sender.spot(at)).collect();
            hold!(self.model.there.is_subset(&sent), "something is told that never arrived");
            hold!(self.model.there.len() as u64 == self.model.retired, "something is told twice");
        }
        hold!(
            self.assembly.epoch() == 0 || !self.world.is_orderly(),
            "an epoch began though nothing restarted"
        );
        // Where a whole object found no block, the stream seems to have jumped.
        if self.world.is_orderly() && self.tally.rejects.get(Reject::NoBuffer) == 0 {
            let in_time = self.tally.rejects.get(Reject::Late) + self.tally.rejects.get(Reject::Stray);
            hold!(in_time == 0, "{in_time} packets refused though reordered inside the window");
        }
        if self.world.is_orderly() && !self.refused {
            self.loss_map_is_exact(&arrived, sent)?;
            self.tally.exact += 1;
        }
        self.tally.strays = self.model.strays;
        self.tally.epochs = u64::from(self.assembly.epoch());
        self.tally.rewritten = self.memory.rewritten;
        *self.tally.families.entry(sender.family.name()).or_default() += 1;
        Ok(self.tally)
    }

    /// What is told as missing is what was sent and did not arrive, from the first that did to the last.
    fn loss_map_is_exact(&self, arrived: &BTreeSet<u64>, sent: &[u64]) -> Held {
        let (Some(&first), Some(&last)) = (arrived.first(), arrived.last()) else { return Ok(()) };
        let lost: Vec<u64> =
            sent.iter().copied().filter(|at| (first..=last).contains(at) && !arrived.contains(at)).collect();
        let told: Vec<u64> = self.model.missing.iter().cloned().flatten().collect();
        hold!(
            told == lost,
            "{} lost, {} told: first {:?} and {:?}",
            lost.len(),
            told.len(),
            lost.first(),
            told.first()
        );
        let doubled = self.tally.packets - arrived.len() as u64;
        let counted = self.tally.rejects.get(Reject::Duplicate) + self.model.strays;
        hold!(counted == doubled, "{doubled} duplicates arrived, {counted} counted");
        Ok(())
    }
}
