//! Streams of frames, of any family that has kinds of them, and the ordered window.
//!
//! What a receiver knows of a stream it learned from its first packets, as it does outside of worlds; where each packet
//! belongs is held against arithmetic on its position.
//!
//! What must hold of an ordered window: parts come out in order, and, laid end to end with the gaps between them, are the
//! stream from its first packet to its last. Where the network was orderly, the gaps are just what it lost.

use crate::ledger::{Held, Ledger, Tally, hold};
use crate::network::Network;
use crate::random::Random;
use crate::world::{Judge, Said, Side, World};
use skyhaul_core::assembly::{Cause, Mark, Ordered, OrderedConfig, Retired};
use skyhaul_core::placement::{Key, Layout, Nanos, Placement, Reject};
use skyhaul_core::wire::trial::{Draw, Trial};
use skyhaul_core::wire::{FAMILIES, FamilyRef, LearnOptions, Learner, StreamFormat};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// All kinds of streams of all families.
pub fn kinds() -> impl Iterator<Item = (FamilyRef, fn(Draw<'_>) -> Trial)> {
    FAMILIES.iter().flat_map(|&family| family.trials().iter().map(move |&kind| (family, kind)))
}

impl World<Frames> {
    /// The world of this seed.
    ///
    /// # Errors
    /// A stream of its kind is not learned from its first packets.
    pub fn random(seed: u64) -> Held<World<Frames>> {
        let mut random = Random(seed);
        let kinds: Vec<_> = kinds().collect();
        let (family, kind) = random.pick(&kinds);
        let trial = kind(&mut |below| random.below(below));
        let units = random.pick(&[8, 30, 100, 700]);
        let is_large = (trial.packet)(trial.first.start).len() > 4000;
        let units = if is_large { units.min(40) } else { units };
        let mut frames = Frames::new(family, trial, units, random.draw())?;
        let window = random.between(1, 5) as usize;
        let ahead = frames.config.ahead.max(random.pick(&[1, 1, 4, 64]));
        let resync = random.pick(&[64, 256, 256]);
        frames.config = OrderedConfig { window, ahead, resync, ..frames.config };
        let gap = Nanos(random.pick(&[1_000, 1_000, 50_000, 2_000_000, 300_000_000]));
        let packets = random.between(50, if is_large { 400 } else { 3000 });
        let network = Network { cut: 0.0, ..Network::random(&mut random, packets) };
        let quiet = 16 + network.depth;
        let rough = !network.is_honest();
        let mut count = |chance: f64| if rough && random.chance(chance) { random.between(1, 3) } else { 0 };
        let (restarts, outages) = (count(0.2), count(0.3));
        let outage_longest = random.pick(&[1000, 100_000, 10_000_000]);
        let journey = Journey { packets, gap, restarts, outages, outage_longest };
        let kept = random.pick(&[0, 0, 0, 4]);
        let blocks = (window + 1 + kept) as u64 + random.pick(&[0, 1, 4, 16]);
        let tick = Nanos(random.pick(&[0, 0, 50_000_000]));
        Ok(World { tick, kept, ..World::of(seed, frames, Network { quiet, ..network }, journey, blocks) })
    }

    /// These packets of this stream over this network, to a receiver with so many blocks.
    pub fn of(seed: u64, frames: Frames, network: Network, journey: Journey, blocks: u64) -> World<Frames> {
        let mut random = Random(seed ^ 0x0A11);
        let order = frames.order(&journey, &mut random.fork());
        let arrivals = network.carry(&order, journey.gap, &mut random.fork());
        let sent = order.into_iter().map(|(_, position)| position).collect();
        let memory = blocks * frames.config.geometry.object_bytes;
        World::plain(seed, Frames { sent, journey, ..frames }, network, arrivals, memory)
    }
}

impl Side for Frames {
    type Id = u64;
    type Window = Ordered<Vec<u8>>;
    type Judge<'a> = OrderedJudge<'a>;

    fn name(&self) -> String {
        self.trial.name.to_owned()
    }

    fn window(&self) -> Ordered<Vec<u8>> {
        Ordered::new(self.config)
    }

    fn judge(&self) -> OrderedJudge<'_> {
        OrderedJudge { side: self, books: Default::default() }
    }

    fn packet(&self, position: u64) -> Vec<u8> {
        (self.trial.packet)(position)
    }

    /// Absurd numbers, lengths, times, and plain garbage. What is near the stream by chance cannot be told from it, and
    /// is garbage instead.
    fn forge(&self, position: u64, random: &mut Random) -> Vec<u8> {
        let mut packet = self.packet(position);
        match random.below(4) {
            // A packet of this very stream from far away in its numbers: legal in all but its place.
            0 => packet = self.packet(position.wrapping_add(1 << random.between(24, 27))),
            1 => {
                let reach = packet.len().min(40) as u64;
                for _ in 0..8 {
                    packet[random.below(reach) as usize] = random.pick(&[0, 0xFF, 0x80, 0x7F, 1]);
                }
            }
            2 => packet = (0..random.below(100)).map(|_| random.draw() as u8).collect(),
            _ => packet.iter_mut().for_each(|octet| *octet = random.draw() as u8),
        }
        let near = self.belongs(position).key.number;
        match self.layout.place(&packet) {
            Ok(placed) if placed.key.number.abs_diff(near) < 1000 => vec![0xEE; packet.len() / 2],
            _ => packet,
        }
    }

    fn belongs(&self, position: u64) -> Placement {
        self.place_of(position)
    }

    fn read(&self, _: u64, packet: &[u8]) -> Result<Said, Reject> {
        Ok(Said { placement: self.layout.place(packet)?, control: None })
    }
}

/// One sender's stream, and the window that it goes to.
pub struct Frames {
    trial: Trial,
    format: StreamFormat,
    layout: Box<dyn Layout + Send + Sync>,
    /// Packets of an object, of the largest where they differ; octets kept of each.
    units: u64,
    unit: u64,
    first: u64,
    /// The receiver's limits.
    pub config: OrderedConfig,
    /// Positions that were sent, ascending but for restarts.
    sent: Vec<u64>,
    /// What happened while they were.
    journey: Journey,
}

/// What a sender does while it sends.
#[derive(Clone, Debug, Default)]
pub struct Journey {
    /// Packets.
    pub packets: u64,
    /// Between two of them.
    pub gap: Nanos,
    /// The sender's counter begins again, so many times.
    pub restarts: u64,
    /// The sender goes on but nothing leaves, so many times; up to this many packets.
    pub outages: u64,
    /// Longest outage in packets.
    pub outage_longest: u64,
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frames { trial, format, units, first, config, journey, .. } = self;
        let format = format.describe();
        write!(f, "{trial:?}: {format}, {units} to an object, from {first}\n{config:#?}\n{journey:#?}")
    }
}

impl Frames {
    /// A stream with about `units` packets to an object, and limits as they are by default. `position` chooses where it
    /// begins.
    ///
    /// # Errors
    /// It is not learned from its first packets, or a frame of each thread has no room.
    pub fn new(family: FamilyRef, trial: Trial, units: u64, position: u64) -> Held<Frames> {
        let first = trial.first.start + position % (trial.first.end - trial.first.start);
        let mut learner = Learner::new(LearnOptions {
            format: family.into(),
            threads: trial.threads.clone(),
            frames_per_second: trial.frames_per_second,
            ..LearnOptions::default()
        });
        (first..first + Learner::MOST as u64).for_each(|position| learner.observe(&(trial.packet)(position)));
        let learned = learner.conclude(true).unwrap_or(Err(Reject::Unproven));
        let mut format = learned.map_err(|why| format!("{trial:?} is not learned: {}", why.name()))?;
        // The rate may show in the first packets, and is not to be known where it is not told.
        format.frames_per_second = trial.frames_per_second;
        let unit = format.unit_bytes() as u64;
        format.object_bytes = units * unit;
        let cannot = |why: Reject| format!("{trial:?} cannot be placed: {}", why.name());
        let (layout, units) = (format.layout().map_err(cannot)?, format.blocks().map_err(cannot)?.units);
        let open_ended = format.short_objects();
        hold!(open_ended == trial.seconds.is_some(), "{trial:?}: whether seconds begin objects");
        // A second without a known rate spans so many object numbers.
        let ahead = trial.seconds.map_or(1, |(_, most)| most / units + 2);
        let config = OrderedConfig { ahead, open_ended, ..OrderedConfig::new(layout.geometry()) };
        let (sent, journey) = (Vec::new(), Journey::default());
        Ok(Frames { trial, format, layout, units, unit, first, config, sent, journey })
    }

    /// All positions that are sent, and when.
    fn order(&self, journey: &Journey, random: &mut Random) -> Vec<(Nanos, u64)> {
        let mut moments =
            |count: u64| -> Vec<u64> { (0..count).map(|_| random.below(journey.packets)).collect() };
        let (restarts, outages) = (moments(journey.restarts), moments(journey.outages));
        let (mut now, mut position) = (Nanos(1_000_000), self.first);
        let mut order = Vec::new();
        for n in 0..journey.packets {
            if outages.contains(&n) {
                // The whole stream was sent; nobody remembers the packets of an outage one by one.
                position += random.between(1, journey.outage_longest);
            }
            if restarts.contains(&n) {
                position = self.first.saturating_sub(random.below(self.first.min(100_000)));
            }
            order.push((now, position));
            position += 1;
            now = now.plus(journey.gap);
        }
        order
    }

    /// Whether every position is told, gaps over whole objects too.
    fn counts_gaps(&self) -> bool {
        self.trial.seconds.is_none()
    }

    /// Where a packet belongs.
    fn place_of(&self, position: u64) -> Placement {
        let (object, within) = match self.trial.seconds {
            Some((in_second, most)) => {
                let (second, within) = (position / in_second, position % in_second);
                (second * most.div_ceil(self.units) + within / self.units, within % self.units)
            }
            None => (position / self.units, position % self.units),
        };
        let size = Some(self.units * self.unit);
        let offset = within * self.unit;
        Placement { key: Key::of(object), offset, length: self.unit, size, ..Placement::default() }
    }
}

/// A place in the stream: object, offset.
type Spot = (u64, u64);

/// Who sends, and what was told so far.
#[derive(Debug)]
pub struct OrderedJudge<'a> {
    side: &'a Frames,
    books: Books,
}

#[derive(Debug, Default)]
struct Books {
    /// Places of which something was accepted.
    ever: BTreeSet<Spot>,
    /// Epoch and end of the last part.
    last: Option<(u32, Mark)>,
    /// Places told as there, and how many were told.
    there: BTreeSet<Spot>,
    told: u64,
    /// Positions told as missing, as ranges; of streams whose positions are told.
    missing: Vec<Range<u64>>,
    /// Where the told part of the stream ends.
    end: Option<u64>,
    /// Highest object of which something was accepted.
    highest: u64,
    /// A packet that was not there yet was refused.
    refused: bool,
}

impl OrderedJudge<'_> {
    fn epoch(&self) -> u32 {
        self.books.last.map_or(0, |(epoch, _)| epoch)
    }

    /// Nothing comes that was not sent, and the sender's counter never goes back.
    fn is_honest(&self, network: &Network) -> bool {
        network.is_honest() && self.side.journey.restarts == 0
    }

    fn in_order(&mut self, part: &Retired<Vec<u8>>) -> Held {
        let start = Mark { number: part.key.number, offset: part.range.start };
        let end = Mark { number: part.key.number, offset: part.range.end };
        match self.books.last {
            Some((epoch, last)) if epoch == part.epoch => {
                hold!(last <= start, "out of order: {start:?} after {last:?}");
                let Some(after) = part.after else {
                    return Err(format!("{start:?} follows nothing, but {last:?} was"));
                };
                hold!(last <= after && after <= start, "{start:?} is said to follow {after:?}, not {last:?}");
            }
            Some((epoch, _)) => {
                hold!(part.epoch == epoch + 1 && part.after.is_none(), "epoch {} after {epoch}", part.epoch);
            }
            None => hold!(part.after.is_none() && part.epoch == 0, "the first part follows {:?}", part.after),
        }
        self.books.last = Some((part.epoch, end));
        Ok(())
    }

    fn tell_positions(&mut self, part: &Retired<Vec<u8>>) -> Held {
        let (unit, units) = (self.side.unit, self.side.units);
        let linear = |mark: Mark| mark.number.wrapping_mul(units).wrapping_add(mark.offset / unit);
        let start = Mark { number: part.key.number, offset: part.range.start };
        if let Some(after) = part.after {
            let gap = self.side.layout.units_between(after.number, start.number);
            let told = gap.map(|gap| gap.wrapping_add(start.offset / unit).wrapping_sub(after.offset / unit));
            let counted = linear(start).wrapping_sub(linear(after));
            hold!(told.is_none_or(|told| told == counted), "a gap of {counted} is told as {told:?}");
            hold!(
                self.books.end == Some(linear(after)),
                "told up to {:?}, this part follows {after:?}",
                self.books.end
            );
            self.miss(linear(after)..linear(start));
        }
        for hole in &part.missing {
            let at = |offset| linear(Mark { number: part.key.number, offset });
            self.miss(at(hole.start)..at(hole.end));
        }
        self.books.end = Some(linear(Mark { number: part.key.number, offset: part.range.end }));
        Ok(())
    }

    fn miss(&mut self, positions: Range<u64>) {
        match self.books.missing.last_mut() {
            Some(last) if last.end == positions.start => last.end = positions.end,
            _ if positions.is_empty() => {}
            _ => self.books.missing.push(positions),
        }
    }

    /// Whether reordering stays inside the window, and no loss looks like a jump.
    fn is_orderly(&self, network: &Network) -> bool {
        let Frames { config, journey, units, .. } = self.side;
        let &Network { depth, burst, burst_longest, late_chance, .. } = network;
        let jump = depth + if burst > 0.0 { burst_longest * 3 } else { 30 };
        let before = (config.window as u64 - 1) * units;
        self.is_honest(network)
            && journey.outages == 0
            && late_chance == 0.0
            && self.side.counts_gaps()
            && depth <= before
            && jump <= config.ahead * units
            && journey.gap.0 * (depth + 1) < config.linger.0
    }

    /// What is told as missing is what was sent and did not arrive, from the first that did to the last.
    fn loss_map_is_exact(&self, arrived: &BTreeSet<u64>, tally: &Tally) -> Held {
        let (Some(&first), Some(&last)) = (arrived.first(), arrived.last()) else { return Ok(()) };
        let is_lost = |at: &u64| (first..=last).contains(at) && !arrived.contains(at);
        let lost: Vec<u64> = self.side.sent.iter().copied().filter(is_lost).collect();
        let told: Vec<u64> = self.books.missing.iter().cloned().flatten().collect();
        let begin = (lost.first(), told.first());
        hold!(told == lost, "{} lost, {} told: first {begin:?}", lost.len(), told.len());
        let doubled = tally.packets - arrived.len() as u64;
        let counted = tally.rejects.get(Reject::Duplicate) + tally.strays;
        hold!(counted == doubled, "{doubled} duplicates arrived, {counted} counted");
        Ok(())
    }
}

impl Judge<Frames> for OrderedJudge<'_> {
    fn accept(&mut self, _: &Ledger, part: &Placement, _: Option<u64>, _: Nanos) -> Held {
        self.books.ever.insert((part.key.number, part.offset));
        self.books.highest = self.books.highest.max(part.key.number);
        Ok(())
    }

    /// Of what was damaged or forged a place may be refused for any reason.
    fn refuse(&mut self, _: &Ledger, part: &Placement, why: Reject, of: Option<u64>, _: Nanos) -> Held {
        let known = self.books.ever.contains(&(part.key.number, part.offset));
        self.books.refused |= !known;
        let just = match why {
            // After a restart a place was taken in another epoch.
            Reject::Duplicate => known || of.is_none(),
            Reject::Late => part.key.number <= self.books.highest,
            Reject::NoBuffer | Reject::Stray => true,
            _ => of.is_none(),
        };
        hold!(just, "{part:?} was refused as {} without reason", why.name());
        Ok(())
    }

    fn retire(&mut self, _: &Ledger, told: &Retired<Vec<u8>>, payloads: &[Range<u64>], _: Nanos) -> Held {
        if told.cause == Cause::Stray {
            return Ok(());
        }
        self.books.there.extend(payloads.iter().map(|payload| (told.key.number, payload.start)));
        self.books.told += payloads.len() as u64;
        self.in_order(told)?;
        if self.side.counts_gaps() { self.tell_positions(told) } else { Ok(()) }
    }

    fn limits(&self, _: Nanos, held: usize) -> Held {
        hold!(held <= self.side.config.window + 1, "{held} blocks are held");
        Ok(())
    }

    fn finish(&self, world: &World<Frames>, _: &Ledger, tally: &mut Tally) -> Held {
        let sent = world.arrivals.iter().filter_map(|arrival| arrival.origin.sent());
        let arrived: BTreeSet<u64> = sent.collect();
        let is_orderly = self.is_orderly(&world.network);
        tally.epochs = u64::from(self.epoch());
        if self.is_honest(&world.network) && self.epoch() == 0 {
            // Nothing is told that was not sent, and nothing twice: positions and places are the same thing.
            let places: BTreeSet<Spot> = arrived
                .iter()
                .map(|&at| self.side.place_of(at))
                .map(|place| (place.key.number, place.offset))
                .collect();
            hold!(self.books.there.is_subset(&places), "something is told that never arrived");
            hold!(self.books.there.len() as u64 == self.books.told, "something is told twice");
        }
        hold!(self.epoch() == 0 || !is_orderly, "an epoch began though nothing restarted");
        // Where a whole object found no block, the stream seems to have jumped.
        if is_orderly && tally.rejects.get(Reject::NoBuffer) == 0 {
            let late = tally.rejects.get(Reject::Late) + tally.rejects.get(Reject::Stray);
            hold!(late == 0, "{late} packets refused though reordered inside the window");
        }
        if is_orderly && !self.books.refused {
            self.loss_map_is_exact(&arrived, tally)?;
            tally.exact += 1;
        }
        Ok(())
    }
}
