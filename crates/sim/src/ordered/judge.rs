//! What must hold of an ordered window: parts come out in order, and, laid end to end with the gaps between them, are the
//! stream from its first packet to its last. Where the network was orderly, the gaps are just what it lost.

use super::frames::Frames;
use crate::ledger::{Held, Ledger, hold};
use crate::network::Network;
use crate::tally::Tally;
use crate::world::{Judge, World};
use skyhaul_core::assembly::{Cause, Mark, Retired};
use skyhaul_core::placement::{Nanos, Placement, Reject};
use std::collections::BTreeSet;
use std::ops::Range;

/// A place in the stream: object, offset.
type Spot = (u64, u64);

/// Who sends, and what was told so far.
#[derive(Debug)]
pub struct OrderedJudge<'a> {
    pub(super) side: &'a Frames,
    pub(super) books: Books,
}

#[derive(Debug, Default)]
pub(super) struct Books {
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
