//! SPEAD worlds: senders of heaps, a network, and a receiver with the core's real head parser and table of heaps.
//!
//! ```text
//!   plans ─▶ packets ─▶ network: lost, doubled, late, stalled, cut, forged ─▶ Head ▶ Heaps ─▶ judge
//! ```
//!
//! [`SpeadWorld::random`] is the world of a seed. [`small`] are all the worlds of a few packets: each fault at each of
//! them, and each pair of faults.
//!
//! What must hold in each: a heap is handed on once, with exactly what is missing; nothing waits past its deadline; no
//! more memory is held than the windows allow; each refusal has its reason, and a heap that was not finished is never
//! refused for one that was. Where the network was [orderly](expect), each heap lacks just what the network lost.

mod block;
pub mod expect;
pub mod judge;
pub mod network;
pub mod sender;
pub mod small;
mod tally;

pub use tally::SpeadTally;

use crate::model::{Held, hold};
use crate::random::Random;
use crate::world::Log;
use block::Block;
use judge::Judge;
use network::{Arrival, Faults, What};
use sender::{Shape, Stream};
use skyhaul_core::assembly::{Keyed, KeyedConfig, Slot, Window};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use skyhaul_core::wire::spead::Head;
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Fixed limits and everything that will happen.
#[derive(Clone, Debug)]
pub struct SpeadWorld {
    /// What happens is drawn from this too.
    pub seed: u64,
    /// What is sent.
    pub stream: Stream,
    /// What arrives.
    pub arrivals: Vec<Arrival>,
    /// Nothing is forged and nothing cut.
    pub honest: bool,
    /// The receiver's limits.
    pub config: KeyedConfig,
    /// Heaps are keyed by their sender too.
    pub keyed: bool,
    /// The stream ends when so many senders said so; 0: never.
    pub stops: u64,
    /// The receiver looks at its clock this often; 0: exactly when it should.
    pub tick: Nanos,
    /// Bytes for all heaps.
    pub memory: u64,
    /// Whoever takes the heaps keeps this many before their memory comes free.
    pub kept: usize,
    /// Most bytes that are handed in at a time; 0: whole packets.
    pub piece: u64,
}

impl SpeadWorld {
    /// The world of this seed.
    #[must_use]
    pub fn random(seed: u64) -> SpeadWorld {
        if seed % 10 == 7 {
            return SpeadWorld::of_laps(seed);
        }
        let mut random = Random(seed ^ 0x0005_9EAD);
        let second = Nanos::SECOND.0;
        let gap = Nanos(random.pick(&[1_000, 1_000, 50_000, 5_000_000]));
        let shape = Shape {
            senders: random.pick(&[1, 1, 2, 3, 8]),
            heaps: random.between(1, 40),
            packets: random.pick(&[1, 3, 10, 40]),
            equal: random.chance(0.4),
            payload: random.between(2, 48),
            in_turn: random.pick(&[1, 1, 2, 5]),
            told: random.pick(&[Some(sender::Told::Always), Some(sender::Told::Never), None, None]),
            alike: random.chance(0.5),
            step: random.pick(&[1, 1, 3, 1 << 20]),
            runs: if random.chance(0.2) { 2 } else { 1 },
            gap,
            pause: Nanos(random.between(1, 20) * second),
        };
        let keyed = shape.alike && shape.senders > 1 || random.chance(0.2);
        let stream = Stream::new(&shape, random.pick(&[40, 48, 56]), &mut random.fork());
        let faults = Faults::random(&mut random);
        let arrivals = network::carry(&faults, &stream, gap, &mut random.fork());
        let config = KeyedConfig {
            window: random.pick(&[1, 2, 4, 16, 16]),
            substreams: random.pick(&[1, 1, 2, 8]),
            in_order: random.chance(0.15),
            unsized_objects: random.chance(0.8),
            largest: 1 << 16,
            timeout: random.pick(&[None, Some(second), Some(second), Some(second / 10)]).map(Nanos),
            remember: random.pick(&[0, 8, 4096, 4096, 4096]),
            remember_for: Nanos(random.pick(&[second, 60 * second, u64::MAX])),
            runs: random.pick(&[1, 4, 64, 64]),
        };
        SpeadWorld {
            seed,
            honest: faults.is_honest(),
            stream,
            arrivals,
            config,
            keyed,
            stops: if random.chance(0.7) { random.between(1, shape.senders) } else { 0 },
            tick: Nanos(random.pick(&[0, 0, 50_000_000])),
            memory: random.pick(&[2_000, 1 << 24, 1 << 24, 1 << 24]),
            kept: random.pick(&[0, 0, 4, 64]),
            piece: random.pick(&[0, 0, 0, 7, 24]),
        }
    }

    /// A world in which counters of 8 bits come round, while nothing is late by a good part of a lap.
    fn of_laps(seed: u64) -> SpeadWorld {
        let mut random = Random(seed ^ 0x0001_A905);
        let senders = random.pick(&[1, 1, 2, 4]);
        let keyed = random.chance(0.4);
        let gap = Nanos(1_000);
        let shape = Shape {
            senders,
            heaps: random.between(200, 1000) / senders,
            packets: random.pick(&[1, 1, 2, 3]),
            equal: random.chance(0.5),
            payload: random.between(2, 48),
            in_turn: random.pick(&[1, 1, 3]),
            told: Some(sender::Told::Always),
            alike: keyed,
            // Strides divide the lap, so that senders stay apart.
            step: if senders == 4 { 1 } else { random.pick(&[1, 2, 3]) },
            runs: 1,
            gap,
            pause: Nanos(0),
        };
        let shape = Shape { step: if keyed || senders == 1 { shape.step } else { 1 }, ..shape };
        let stream = Stream::new(&shape, 8, &mut random.fork());
        let mut sometimes = || if random.chance(0.6) { random.below(100) as f64 / 1000.0 } else { 0.0 };
        let (loss, duplicate) = (sometimes(), sometimes());
        let depth = random.pick(&[0, 1, 4]);
        let faults = Faults { loss, duplicate, depth, ..Faults::default() };
        let arrivals = network::carry(&faults, &stream, gap, &mut random.fork());
        let config = KeyedConfig {
            in_order: random.chance(0.15),
            timeout: None,
            remember_for: Nanos(u64::MAX),
            window: random.pick(&[4, 16, 64]),
            ..KeyedConfig::default()
        };
        SpeadWorld {
            seed,
            honest: true,
            stream,
            arrivals,
            config,
            keyed,
            stops: 0,
            tick: Nanos(0),
            memory: 1 << 24,
            kept: 0,
            piece: 0,
        }
    }

    /// Whether all that comes under one key is of one heap.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.honest && !self.stream.restarted
    }

    /// The key of a heap of this sender.
    #[must_use]
    pub fn key(&self, sender: u64, counter: u64) -> Key {
        Key { source: if self.keyed { sender + 1 } else { 0 }, number: counter }
    }

    /// Play it to its end.
    ///
    /// # Errors
    /// What did not hold.
    pub fn run(&self, log: Log<'_>) -> Held<SpeadTally> {
        let free = Rc::new(Cell::new(self.memory));
        let mut receiver = Receiver {
            world: self,
            heaps: Keyed::new(self.config),
            judge: Judge::new(self.config, self.stream.flavour.max_value()),
            tally: SpeadTally { worlds: 1, ..SpeadTally::default() },
            free: Rc::clone(&free),
            kept: VecDeque::new(),
            stopped: BTreeSet::new(),
            now: Nanos(0),
        };
        log(&|| format!("{:#?}", (&self.config, &self.stream.plans)));
        for arrival in &self.arrivals {
            receiver.pass(arrival.at, log)?;
            if receiver.receive(arrival, log)? {
                break;
            }
        }
        receiver.end(log)?;
        let Receiver { judge, mut tally, kept, .. } = receiver;
        drop(kept);
        hold!(free.get() == self.memory, "{} bytes did not come back", self.memory - free.get());
        tally.exact += u64::from(expect::hold(self, &judge, &tally)?);
        Ok(tally)
    }
}

struct Receiver<'a> {
    world: &'a SpeadWorld,
    heaps: Keyed<Block>,
    judge: Judge,
    tally: SpeadTally,
    free: Rc<Cell<u64>>,
    /// Heaps in the hands of whoever takes them.
    kept: VecDeque<Block>,
    /// Senders that said that they end.
    stopped: BTreeSet<u64>,
    now: Nanos,
}

impl Receiver<'_> {
    /// Let time pass until `until`, doing what falls due.
    fn pass(&mut self, until: Nanos, log: Log<'_>) -> Held {
        while let Some(due) = self.heaps.poll_timeout() {
            let tick = self.world.tick.0.max(1);
            let due = Nanos(due.max(self.now).0.div_ceil(tick) * tick);
            if due > until {
                break;
            }
            self.now = due;
            self.heaps.handle_timeout(due);
            log(&|| format!("{:>14} time", due.0));
            hold!(self.heaps.poll_timeout().is_none_or(|next| next > due), "what was due is due again");
            self.drain(log)?;
        }
        self.now = self.now.max(until);
        let overdue = Nanos(self.now.0.saturating_sub(self.world.tick.0));
        self.judge.limits(overdue, self.heaps.live())
    }

    /// A packet. Whether it ends the stream.
    fn receive(&mut self, arrival: &Arrival, log: Log<'_>) -> Held<bool> {
        let stream = &self.world.stream;
        let (id, forged) = match arrival.what {
            What::Whole(id) | What::Cut(id, _) => (id, false),
            What::Forged(id, _) => (id, true),
        };
        let plan = &stream.plans[id.plan];
        let packet = match arrival.what {
            What::Forged(like, seed) => network::forge(stream, like, seed),
            _ => plan.packet(id.packet, stream.flavour),
        };
        self.tally.packets += 1;
        let head = match Head::read(&packet) {
            Ok(head) => head,
            Err(why) => {
                hold!(forged, "{arrival:?} cannot be read: {}", why.name());
                self.tally.rejects.add(why);
                return Ok(false);
            }
        };
        let cut = &plan.cuts[id.packet];
        let honest = (head.counter, head.offset, head.length)
            == (plan.counter & stream.flavour.max_value(), cut.start, cut.end - cut.start)
            && head.size == plan.tells(id.packet).then_some(plan.size);
        hold!(forged || honest, "{arrival:?} reads as {head:?}");
        if head.is_stop() {
            self.stopped.insert(plan.sender);
            log(&|| format!("{:>14} sender {} stops", self.now.0, plan.sender));
            return Ok(self.world.stops > 0 && self.stopped.len() as u64 >= self.world.stops);
        }
        let length = if let What::Cut(_, bytes) = arrival.what { bytes } else { head.length };
        let key = self.world.key(plan.sender, head.counter);
        let payload = &packet[head.start..head.start + length as usize];
        let content = (!forged).then_some(id.plan);
        if head.control == Some(0) {
            let begins = self.judge.begins(self.meant(key, content), self.now);
            self.heaps.forget(key, self.now);
            self.drain(log)?;
            if begins {
                self.judge.forget(key.source);
                self.tally.starts += 1;
            }
        }
        self.put(key, &head, payload, content, log)?;
        Ok(false)
    }

    /// The heap that a packet is of: its counter tells only the low bits.
    fn meant(&self, key: Key, plan: Option<usize>) -> Key {
        plan.map_or(key, |plan| Key { number: self.world.stream.plans[plan].counter, ..key })
    }

    /// Hand a payload in, in pieces if it must be.
    fn put(&mut self, key: Key, head: &Head<'_>, payload: &[u8], plan: Option<usize>, log: Log<'_>) -> Held {
        let piece = if self.world.piece == 0 { u64::MAX } else { self.world.piece };
        let mut at = 0u64;
        loop {
            let length = piece.min(payload.len() as u64 - at);
            let bytes = &payload[at as usize..(at + length) as usize];
            let offset = head.offset.saturating_add(at);
            let part = Placement { key, offset, length, ..head.placement(key.source) };
            let outcome = self.place(part, bytes);
            log(&|| format!("{:>14} {part:?} of {plan:?} -> {outcome:?}", self.now.0));
            let part = Placement { key: self.meant(key, plan), ..part };
            match outcome {
                Ok(()) => {
                    self.tally.accepted += u64::from(length > 0);
                    self.judge.accept(part, bytes, plan, self.now)?;
                }
                Err(why) => {
                    self.tally.rejects.add(why);
                    self.judge.refuse(part, why, self.now, self.world.is_alone())?;
                    if why == Reject::OutOfOrder {
                        self.judge.miss(part, plan, self.now)?;
                    }
                }
            }
            self.drain(log)?;
            self.judge.limits(Nanos(0), self.heaps.live())?;
            at += length;
            if at >= payload.len() as u64 {
                return Ok(());
            }
        }
    }

    fn place(&mut self, part: Placement, bytes: &[u8]) -> Result<(), Reject> {
        let (free, now) = (&self.free, self.now);
        let mut slot = self.heaps.reserve(part, now, |bytes, old| Block::take(bytes, old, free))?;
        let range = slot.range();
        slot.block().bytes[range.start as usize..range.end as usize].copy_from_slice(bytes);
        slot.commit(now);
        Ok(())
    }

    fn drain(&mut self, log: Log<'_>) -> Held {
        while let Some(mut heap) = self.heaps.poll_retired() {
            heap.key = self.judge.known_as(heap.key);
            log(&|| {
                let (key, missing, cause) = (heap.key, &heap.missing, heap.cause);
                format!("{:>14} {key:?} is handed on for {}, without {missing:?}", self.now.0, cause.name())
            });
            *self.tally.causes.entry(heap.cause.name()).or_default() += 1;
            self.judge.retire(&heap, self.now, self.world.tick.0 == 0)?;
            self.kept.push_back(heap.block);
            if self.kept.len() > self.world.kept {
                self.kept.pop_front();
            }
        }
        Ok(())
    }

    /// Nothing comes any more: by a stop, or because nothing does.
    fn end(&mut self, log: Log<'_>) -> Held {
        let stopped = self.world.stops > 0 && self.stopped.len() as u64 >= self.world.stops;
        self.tally.stopped += u64::from(stopped);
        if !stopped && let Some(timeout) = self.world.config.timeout {
            self.pass(self.now.plus(timeout).plus(self.world.tick), log)?;
            hold!(self.heaps.live() == 0, "{} heaps wait for ever", self.heaps.live());
        }
        self.heaps.finish(self.now);
        self.drain(log)?;
        hold!(self.heaps.poll_timeout().is_none(), "something is due after the end");
        self.judge.finish()
    }
}
