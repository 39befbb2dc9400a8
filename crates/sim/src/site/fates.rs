//! What became of each packet and of each event, and whether that may be.

use super::plan::{Packet, Plan};
use crate::site::plan::Played;
use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// It came to the worker with this number, at this address.
    Came(u64, SocketAddr),
    /// Nobody listens where it was sent: the worker was killed.
    Dead(SocketAddr),
    /// The balancer refused it.
    Refused(&'static str),
    /// There was no data plane.
    Away,
    /// The worker refused it, and counted it.
    Rejected(&'static str),
}

/// An event that a worker gave out.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) worker: u64,
    pub(super) is_whole: bool,
    /// Bytes of it that are there, and whether they are its own.
    pub(super) bytes: u64,
    pub(super) is_right: bool,
    pub(super) size: u64,
}

/// Of a tenant.
pub(super) struct Fates {
    /// Of each event: its packets, by part.
    packets: BTreeMap<usize, Vec<(u64, Fate)>>,
    /// The events by their keys, and by which start of their sender they are of.
    keys: BTreeMap<(u64, u16), BTreeMap<u64, usize>>,
    given: BTreeMap<usize, Vec<Given>>,
    /// Forged packets that a worker took for events: tick, source and start, and the worker.
    forged: BTreeSet<((u64, u16, u64), u64)>,
    /// Workers that were killed, and when.
    killed: BTreeSet<u64>,
}

impl Fates {
    pub(super) fn of(plan: &Plan) -> Fates {
        let mut keys: BTreeMap<(u64, u16), BTreeMap<u64, usize>> = BTreeMap::new();
        for (number, event) in plan.events.iter().enumerate() {
            keys.entry((event.tick, event.own)).or_default().insert(event.run, number);
        }
        Fates {
            packets: BTreeMap::new(),
            keys,
            given: BTreeMap::new(),
            forged: BTreeSet::new(),
            killed: BTreeSet::new(),
        }
    }

    pub(super) fn note(&mut self, packet: &Packet, fate: Fate) {
        self.packets.entry(packet.event).or_default().push((packet.part, fate));
    }

    /// A worker took a forged packet for this event.
    pub(super) fn forge(&mut self, key: (u64, u16, u64), worker: u64) {
        self.forged.insert((key, worker));
    }

    pub(super) fn kill(&mut self, worker: u64) {
        self.killed.insert(worker);
    }

    /// A worker gave out the object with this key, whose bytes say which start of its sender it is of.
    pub(super) fn give(&mut self, key: (u64, u16), run: Option<u64>, given: Given) -> Result<(), String> {
        let events = self.keys.get(&key).ok_or_else(|| format!("an event that nobody sent: {key:?}"))?;
        let event = run.and_then(|run| events.get(&run));
        let event = event.ok_or_else(|| format!("{key:?} has bytes of no event: {given:?}"))?;
        self.given.entry(*event).or_default().push(given);
        Ok(())
    }

    pub(super) fn judge(&self, plan: &Plan, played: &mut Played) -> Result<(), String> {
        let lost: BTreeSet<(usize, u64)> = plan.lost.iter().copied().collect();
        for (number, event) in plan.events.iter().enumerate() {
            let packets = self.packets.get(&number).map_or(&[][..], Vec::as_slice);
            let given = self.given.get(&number).map_or(&[][..], Vec::as_slice);
            let why = |text: String| Err(format!("{text}: {event:?}, {packets:?}, given {given:?}"));
            let addresses: BTreeSet<SocketAddr> = packets
                .iter()
                .filter_map(|(_, fate)| match fate {
                    Fate::Came(_, at) | Fate::Dead(at) => Some(*at),
                    _ => None,
                })
                .collect();
            if addresses.len() > 1 {
                return why("split".to_owned());
            }
            let size = event.parts * super::plan::PAYLOAD;
            if let Some(wrong) = given.iter().find(|one| !one.is_right || one.is_whole && one.size != size) {
                return why(format!("wrong bytes at worker {}", wrong.worker));
            }
            // Packets that are duplicates may come to a worker that was restarted at the same address.
            let copies = packets.len() as u64 > event.parts;
            let whole = given.iter().filter(|one| one.is_whole).count() as u64;
            if whole > 1 && !copies {
                return why("whole twice".to_owned());
            }
            let mut by_worker: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
            for (part, fate) in packets {
                if let Fate::Came(worker, _) = fate {
                    by_worker.entry(*worker).or_default().insert(*part);
                }
            }
            for (worker, parts) in &by_worker {
                // Alone it looks like an event. Beside two packets of the event it does not.
                if parts.len() > 1 && self.forged.contains(&((event.tick, event.own, event.run), *worker)) {
                    return why(format!("worker {worker} took a forged packet for it"));
                }
                let all = parts.len() as u64 == event.parts;
                if all && whole == 0 && !self.killed.contains(worker) {
                    return why(format!("all came to worker {worker}, and it is not whole"));
                }
                let bytes: u64 =
                    given.iter().filter(|one| one.worker == *worker).map(|one| one.bytes).max().unwrap_or(0);
                if bytes > parts.len() as u64 * super::plan::PAYLOAD {
                    return why(format!("worker {worker} has more than came"));
                }
            }
            let met: BTreeSet<u64> = packets.iter().map(|(part, _)| *part).collect();
            let unknown =
                (0..event.parts).find(|part| !met.contains(part) && !lost.contains(&(number, *part)));
            if let Some(part) = unknown {
                return why(format!("nothing is known of part {part}"));
            }
            played.events += 1;
            played.whole += u64::from(whole > 0);
            for (_, fate) in packets {
                *played.packets.entry(fate.name()).or_default() += 1;
            }
        }
        *played.packets.entry("lost").or_default() += lost.len() as u64;
        Ok(())
    }
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Came(..) => "came",
            Fate::Dead(_) => "worker_killed",
            Fate::Refused(why) | Fate::Rejected(why) => why,
            Fate::Away => "no_data_plane",
        }
    }
}
