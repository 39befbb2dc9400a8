//! Movers that race for claims on links, some of them paused for longer than their lease without knowing it.

use super::store::{LeaseId, Store};
use crate::random::Random;
use skyhaul_core::fleet::{
    ClaimRecord, ClaimResource, FencingGuard, FencingToken, FleetKey, FleetName, FleetValue, ReplicaRecord,
    ReplicaState,
};
use skyhaul_core::station::UnixMillis;
use std::collections::BTreeMap;

const LEASE_MILLIS: i64 = 10_000;

struct Mover {
    name: String,
    paused_until: i64,
    /// The claim it believes to hold: its token, lease, and the scan it copies.
    claim: Option<(FencingToken, LeaseId, FleetKey)>,
}

pub(super) struct Movers {
    random: Random,
    movers: Vec<Mover>,
    guard: FencingGuard,
    /// The largest token that the link was used with.
    newest: FencingToken,
    /// States that each replica has had, as the resource saw them.
    histories: BTreeMap<String, Vec<(FencingToken, ReplicaState)>>,
    /// The scan behind which the next copy is looked for.
    cursor: String,
    pub(super) claims: u64,
    pub(super) lost_races: u64,
    pub(super) stale: u64,
}

fn link() -> FleetKey {
    FleetKey::Claim(ClaimResource::Link(FleetName::new("ON-JIVE").expect("a name")))
}

impl Movers {
    pub(super) fn new(random: Random) -> Self {
        let mover = |number| Mover { name: format!("mover{number}"), paused_until: 0, claim: None };
        Self {
            random,
            movers: (0..3).map(mover).collect(),
            guard: FencingGuard::default(),
            newest: FencingToken::default(),
            histories: BTreeMap::new(),
            cursor: "scans/".into(),
            claims: 0,
            lost_races: 0,
            stale: 0,
        }
    }

    /// One step of each mover.
    pub(super) fn step(&mut self, now: i64, store: &mut Store) -> Result<(), String> {
        for at in 0..self.movers.len() {
            if self.movers[at].paused_until > now || !self.random.chance(0.3) {
                continue;
            }
            if self.random.chance(0.02) {
                self.movers[at].paused_until = now + self.random.between(1_000, 60_000) as i64;
                continue;
            }
            match self.movers[at].claim.clone() {
                None => self.claim(at, now, store),
                Some((token, lease, replica)) => self.work(at, now, (token, lease, &replica), store)?,
            }
        }
        Ok(())
    }

    /// A transaction: put under a lease if the key was never created.
    fn claim(&mut self, at: usize, now: i64, store: &mut Store) {
        let Some(replica) = self.next_replica(store) else { return };
        if store.get(&link()).is_some() {
            self.lost_races += 1;
            return;
        }
        let lease = store.grant(now + LEASE_MILLIS);
        let holder = ClaimRecord { holder: self.movers[at].name.clone(), purpose: replica.to_string() };
        if let Some(revision) = store.put(&link(), FleetValue::Claim(holder), Some(lease)) {
            self.claims += 1;
            self.movers[at].claim = Some((FencingToken(revision), lease, replica));
        }
    }

    /// A scan whose replica is not verified.
    fn next_replica(&mut self, store: &Store) -> Option<FleetKey> {
        let site = FleetName::new("JIVE").ok()?;
        let wanted = |key: &FleetKey| match key {
            FleetKey::ClosedScan(experiment, scan, station) => {
                let key = FleetKey::Replica(experiment.clone(), scan.clone(), station.clone(), site.clone());
                let state = store.get(&key).map(|stored| stored.value.clone());
                let is_done = matches!(state, Some(FleetValue::Replica(record)) if record.state == ReplicaState::Verified);
                (!is_done).then_some(key)
            }
            _ => None,
        };
        let behind = store.keys.range(self.cursor.clone()..).take_while(|(key, _)| key.starts_with("scans/"));
        let found =
            behind.take(64).map(|(text, (key, _))| (text, wanted(key))).find(|(_, key)| key.is_some());
        let Some((text, replica)) = found else {
            self.cursor = "scans/".into();
            return None;
        };
        self.cursor = text.clone();
        replica
    }

    /// The link is used, and the replica enters its next state. The mover asks nobody whether it still holds the claim: the guard
    /// of the link, and the record, know.
    fn work(
        &mut self,
        at: usize,
        now: i64,
        (token, lease, key): (FencingToken, LeaseId, &FleetKey),
        store: &mut Store,
    ) -> Result<(), String> {
        let is_holder = store.get(&link()).is_some_and(|stored| stored.created == token.0);
        if let Err(stale) = self.guard.admit(token) {
            if is_holder {
                return Err(format!("the holder of the link was refused: {stale}"));
            }
            self.stale += 1;
            self.movers[at].claim = None;
            return Ok(());
        }
        if token < self.newest {
            return Err(format!("token {} was admitted behind {}", token.0, self.newest.0));
        }
        self.newest = token;
        let before = store.get(key).map(|stored| stored.value.clone());
        let next = match before {
            Some(FleetValue::Replica(record)) => {
                let state = match record.state {
                    ReplicaState::Copying if self.random.chance(0.2) => ReplicaState::Deleted,
                    ReplicaState::Copying => ReplicaState::Complete,
                    ReplicaState::Complete => ReplicaState::Verified,
                    ReplicaState::Verified => {
                        self.release(at, store);
                        return Ok(());
                    }
                    ReplicaState::Deleted => ReplicaState::Copying,
                };
                match record.next(UnixMillis(now), token, state) {
                    Ok(next) => next,
                    // Another holder has come meanwhile.
                    Err(_) => {
                        self.stale += 1;
                        self.movers[at].claim = None;
                        return Ok(());
                    }
                }
            }
            _ => ReplicaRecord {
                url: "https://jive.example/f".into(),
                state: ReplicaState::Copying,
                bytes: 1,
                digest: None,
                at: UnixMillis(now),
                token,
            },
        };
        let state = next.state;
        if store.put(key, FleetValue::Replica(next), None).is_some() {
            self.histories.entry(key.to_string()).or_default().push((token, state));
        }
        store.keep(lease, now + LEASE_MILLIS);
        Ok(())
    }

    fn release(&mut self, at: usize, store: &mut Store) {
        if let Some((token, ..)) = self.movers[at].claim.take()
            && store.get(&link()).is_some_and(|stored| stored.created == token.0)
        {
            store.delete(&link());
        }
    }

    /// Tokens never go back, and states follow each other.
    pub(super) fn judge(&self) -> Result<(), String> {
        for (key, history) in &self.histories {
            for pair in history.windows(2) {
                let [(token, state), (next_token, next)] = pair else { continue };
                if next_token < token || !state.may_become(*next) {
                    return Err(format!("{key}: {pair:?}"));
                }
            }
        }
        Ok(())
    }
}
