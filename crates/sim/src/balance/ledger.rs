//! What must hold of every packet, and at the end.

use super::{traffic::Packet, workers::Workers};
use core::net::SocketAddr;
use skyhaul_core::{
    balance::{Counters, EpochStats, MEMBERS, PredictStats, Refusal, Seat},
    placement::Nanos,
};
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

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
pub(super) struct Ledger {
    /// Not every thread has a calendar yet.
    pub(super) is_early: bool,
    /// The member of each event.
    owners: HashMap<u64, IpAddr>,
    packets: u64,
    forwarded: u64,
    refused: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// A packet arrived `age` after it was sent: it is to be refused for `expected`, or it is honest.
    pub(super) fn packet(
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
    pub(super) fn finish(
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
