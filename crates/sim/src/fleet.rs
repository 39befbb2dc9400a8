//! Worlds of a fleet: stations of the core with their members, beside a store as etcd is one.
//!
//! ```text
//!   scheduler ─ desired/ ─▶ Store ◀─ cuts, full, compaction, lost answers ─▶ node: FleetMember ─▶ Station     × N
//!   movers ─ claims/, replicas/ ─┘                                            killed at any moment: journal, disks
//! ```
//!
//! What must hold at the end, when the store is reached again: no recording was begun twice; each desired scan has a final answer
//! at its revision, and either its recording or a reason; the store has exactly the closed scans of the disks, as they are there; a
//! scan that a reachable recorder saw in time is recorded; movers whose claim was lost are refused.

mod movers;
mod node;
mod store;

use crate::random::Random;
use movers::Movers;
use node::Node;
use skyhaul_core::fleet::{
    AckState, ClosedScan, DesiredAction, DesiredScan, FleetKey, FleetName, FleetValue, recording_name,
};
use std::collections::{BTreeMap, BTreeSet};
use store::Store;

/// Stations of a world that the command plays.
pub const STATIONS: usize = 4;
/// Scans of each of them.
pub const SCANS: usize = 30;
/// Time of a step, milliseconds.
const STEP: i64 = 500;
/// When a world begins, milliseconds of UNIX time.
const BEGIN: i64 = 1_764_000_000_000;

/// Counts of worlds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Desired scans.
    pub desired: u64,
    /// Recordings.
    pub recorded: u64,
    /// Desired scans by their last answer.
    pub answers: BTreeMap<&'static str, u64>,
    /// Recorders that were cut off.
    pub cuts: u64,
    /// Recorders that were killed.
    pub kills: u64,
    /// Compactions of the store.
    pub compactions: u64,
    /// Times that the store was full.
    pub full: u64,
    /// Writes whose answer was lost.
    pub lost_answers: u64,
    /// Claims that were won.
    pub claims: u64,
    /// Races for claims that were lost.
    pub lost_races: u64,
    /// Uses with a stale claim, all refused.
    pub stale: u64,
}

impl Played {
    /// Adds the counts of other worlds.
    pub fn add(&mut self, other: &Self) {
        self.desired += other.desired;
        self.recorded += other.recorded;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.compactions += other.compactions;
        self.full += other.full;
        self.lost_answers += other.lost_answers;
        self.claims += other.claims;
        self.lost_races += other.lost_races;
        self.stale += other.stale;
        other.answers.iter().for_each(|(state, count)| *self.answers.entry(state).or_default() += count);
    }
}

/// What the scheduler does.
#[derive(Clone, Debug)]
enum Order {
    Write(usize, FleetName, DesiredScan),
    Delete(usize, FleetName),
}

struct World {
    random: Random,
    store: Store,
    nodes: Vec<Node>,
    movers: Movers,
    orders: Vec<(i64, Order)>,
    /// Scans that a recorder must have recorded if it is reached all the time.
    plain: Vec<(usize, String, i64, i64)>,
    /// When each recorder was cut off or killed, from and to.
    away: Vec<Vec<(i64, i64)>>,
    full: Vec<(i64, i64)>,
    end: i64,
    played: Played,
}

/// Plays world `seed` with so many stations and scans for each.
///
/// # Errors
/// What did not hold.
pub fn play(seed: u64, stations: usize, scans: usize) -> Result<Played, String> {
    let why = |why| format!("fleet {seed} ({stations} stations, {scans} scans): {why}");
    World::new(seed, stations, scans).play().map_err(why)
}

fn name(text: &str) -> FleetName {
    FleetName::new(text).expect("made of letters and digits")
}

impl World {
    fn new(seed: u64, stations: usize, scans: usize) -> Self {
        let mut random = Random(seed);
        let node = |number| Node::new(name(&format!("S{number}")), name("rec1"), random.fork());
        let nodes: Vec<Node> = (0..stations).map(node).collect();
        let movers = Movers::new(random.fork());
        let mut world = Self {
            store: Store::default(),
            movers,
            orders: Vec::new(),
            plain: Vec::new(),
            away: vec![Vec::new(); stations],
            full: Vec::new(),
            end: BEGIN,
            played: Played::default(),
            random,
            nodes,
        };
        (0..stations).for_each(|station| world.plan(station, scans));
        let length = (world.end - BEGIN) as u64;
        for _ in 0..=length / 20_000_000 {
            let from = BEGIN + world.random.below(length) as i64;
            world.full.push((from, from + world.random.between(5_000, 300_000) as i64));
        }
        world.orders.sort_by_key(|(at, _)| *at);
        world
    }

    /// The scans of a station, and what happens to it.
    fn plan(&mut self, station: usize, scans: usize) {
        let random = &mut self.random;
        let mut at = BEGIN / 1000 + random.between(10, 60) as i64;
        for number in 0..scans {
            let scan = name(&format!("no{number:04}"));
            let (start, stop) = (at, at + random.between(5, 40) as i64);
            let desired = DesiredScan {
                action: DesiredAction::Start,
                experiment: name("x1"),
                start: Some(start),
                stop: Some(stop),
                source: String::new(),
                mode: String::new(),
                deadline: random.chance(0.3).then_some(start + 10),
            };
            let kind = random.below(20);
            let ahead = if kind == 0 { -60 } else { random.between(1, 600) as i64 };
            let written = (start - ahead) * 1000;
            self.orders.push((written, Order::Write(station, scan.clone(), desired.clone())));
            let extra = random.between(0, 60_000) as i64;
            let stop_it = DesiredScan { action: DesiredAction::Stop, ..desired.clone() };
            match kind {
                1 => self.orders.push((written + extra, Order::Write(station, scan, stop_it))),
                2 => self.orders.push((written + extra, Order::Delete(station, scan))),
                3 => self.orders.push((written + extra, Order::Write(station, scan, desired))),
                0 => {}
                _ => {
                    let recording = recording_name(&name("x1"), &self.nodes[station].name, &scan);
                    self.plain.push((station, recording, written, stop * 1000));
                }
            }
            at = stop + random.between(3, 30) as i64;
        }
        let end = at * 1000;
        for _ in 0..1 + scans / 30 {
            let from = BEGIN + random.below((end - BEGIN) as u64) as i64;
            let longest = if random.chance(0.1) { 3_600_000 } else { 60_000 };
            let until = from + random.below(longest) as i64;
            self.away[station].push((from, until));
        }
        self.end = self.end.max(end);
    }

    fn play(mut self) -> Result<Played, String> {
        let last = self.away.iter().flatten().chain(&self.full).map(|(_, until)| *until).max();
        let end = self.end.max(last.unwrap_or(BEGIN)) + 300_000;
        let mut now = BEGIN - 700_000;
        let mut next = 0;
        let mut cut: Vec<Vec<bool>> = self.away.iter().map(|all| vec![false; all.len()]).collect();
        while now < end {
            now += STEP;
            while let Some((_, order)) = self.orders.get(next).filter(|(at, _)| *at <= now).cloned() {
                next += 1;
                self.order(order);
            }
            self.faults(now, &mut cut);
            self.store.expire(now);
            for node in &mut self.nodes {
                node.step(now, &mut self.store);
                if let Some(wrong) = node.wrong.take() {
                    return Err(format!("{}: {wrong}", node.name));
                }
            }
            self.movers.step(now, &mut self.store)?;
        }
        self.movers.judge()?;
        self.judge()
    }

    /// The scheduler is beside the store: its writes are never refused, so that the world is about the recorders.
    fn order(&mut self, order: Order) {
        let key = |node: &Node, scan| FleetKey::DesiredScan(node.name.clone(), name("rec1"), scan);
        let was_full = std::mem::take(&mut self.store.is_full);
        match order {
            Order::Write(station, scan, desired) => {
                self.store.put(&key(&self.nodes[station], scan), FleetValue::Desired(desired), None);
            }
            Order::Delete(station, scan) => {
                self.store.delete(&key(&self.nodes[station], scan));
            }
        }
        self.store.is_full = was_full;
    }

    fn faults(&mut self, now: i64, cut: &mut [Vec<bool>]) {
        for (station, all) in self.away.iter().enumerate() {
            for (at, (from, until)) in all.iter().enumerate() {
                if *from > now || std::mem::replace(&mut cut[station][at], true) {
                    continue;
                }
                // A cut, a kill, or a kill during a cut.
                let kind = self.random.below(3);
                if kind > 0 {
                    self.nodes[station].cut_until = self.nodes[station].cut_until.max(*until);
                    self.played.cuts += 1;
                }
                if kind < 2 {
                    self.nodes[station].kill_after = Some(self.random.between(1, 12));
                }
            }
        }
        let is_full = self.full.iter().any(|(from, until)| (*from..*until).contains(&now));
        self.played.full += u64::from(is_full && !self.store.is_full);
        self.store.is_full = is_full;
        if self.random.chance(0.005) {
            self.store.compact();
            self.played.compactions += 1;
        }
    }

    fn judge(mut self) -> Result<Played, String> {
        for node in &self.nodes {
            self.played.lost_answers += node.lost_answers;
            self.played.kills += node.kills;
            if node.unpublished() > 0 {
                return Err(format!("{}: {} scans are unpublished", node.name, node.unpublished()));
            }
            let live = FleetKey::RecorderLive(node.name.clone(), name("rec1"));
            if self.store.get(&live).is_none() {
                return Err(format!("{} is not live", node.name));
            }
            self.judge_scans(node)?;
            self.judge_acks(node)?;
        }
        self.judge_plain()?;
        for (key, stored) in self.store.keys.values() {
            if let (FleetKey::ScanAck(..), FleetValue::Ack(ack)) = (key, &stored.value) {
                self.played.desired += 1;
                *self.played.answers.entry(ack.state.name()).or_default() += 1;
            }
        }
        self.played.recorded = self.nodes.iter().map(|node| node.disks.len() as u64).sum();
        (self.played.claims, self.played.stale) = (self.movers.claims, self.movers.stale);
        self.played.lost_races = self.movers.lost_races;
        Ok(self.played)
    }

    /// The store has the scans of the disks.
    fn judge_scans(&self, node: &Node) -> Result<(), String> {
        let stored: BTreeMap<&str, &ClosedScan> = self
            .store
            .with_prefix("scans/")
            .filter_map(|(key, stored)| match (key, &stored.value) {
                (FleetKey::ClosedScan(_, _, station), FleetValue::Scan(scan)) if *station == node.name => {
                    Some((scan.recording.as_str(), scan))
                }
                _ => None,
            })
            .collect();
        for (recording, scan) in &node.disks {
            let scan = scan.as_ref().ok_or_else(|| format!("{recording} never ended"))?;
            if stored.get(recording.as_str()) != Some(&scan) {
                return Err(format!("{scan:?} is in the store as {:?}", stored.get(recording.as_str())));
            }
        }
        match stored.len() == node.disks.len() {
            true => Ok(()),
            false => Err(format!("{} has {} scans, the store {}", node.name, node.disks.len(), stored.len())),
        }
    }

    /// Each desired scan has a final answer at its revision, which fits what is on the disks.
    fn judge_acks(&self, node: &Node) -> Result<(), String> {
        let plain: BTreeSet<&String> = self.plain.iter().map(|(_, recording, ..)| recording).collect();
        for (key, stored) in self.store.with_prefix(&format!("desired/{}/", node.name)) {
            let FleetKey::DesiredScan(station, recorder, scan) = key else { continue };
            let ack = FleetKey::ScanAck(station.clone(), recorder.clone(), scan.clone());
            let ack = match self.store.get(&ack).map(|stored| &stored.value) {
                Some(FleetValue::Ack(ack)) => ack,
                other => return Err(format!("{key} has no answer: {other:?}")),
            };
            let has_recording = node.disks.contains_key(&ack.recording);
            let fits = match ack.state {
                AckState::Ended | AckState::Cut => has_recording,
                // A stop, or a new value, may come after the end; what was written once is not refused for its own recording.
                AckState::Refused => {
                    ack.reason.is_some() && !(has_recording && plain.contains(&ack.recording))
                }
                AckState::Cancelled | AckState::Late => !has_recording && ack.reason.is_some(),
                AckState::Accepted | AckState::Started => false,
            };
            if ack.desired_revision != stored.revision || !fits {
                return Err(format!(
                    "{key} at revision {}: {ack:?}, on the disks: {has_recording}",
                    stored.revision
                ));
            }
        }
        let orphans = self.store.with_prefix(&format!("acks/{}/", node.name)).count();
        let desired = self.store.with_prefix(&format!("desired/{}/", node.name)).count();
        if orphans == desired { Ok(()) } else { Err(format!("{orphans} answers to {desired} desired scans")) }
    }

    fn judge_plain(&self) -> Result<(), String> {
        for (station, recording, written, stop) in &self.plain {
            let is_away = self.away[*station].iter().any(|(from, until)| from <= stop && until >= written);
            let has_recording = self.nodes[*station].disks.contains_key(recording);
            if !is_away && !has_recording {
                return Err(format!("{recording} was seen in time and is not recorded"));
            }
        }
        Ok(())
    }
}
