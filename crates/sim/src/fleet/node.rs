//! A recorder of the fleet: the core's station and its member, and the driver between them, which is cut, killed and restarted.

use super::store::{LeaseId, Store};
use crate::random::Random;
use skyhaul_core::fleet::{
    ClosedScan, DesiredScan, FleetBranch, FleetKey, FleetMember, FleetName, FleetValue, KeyLease, LiveState,
    MemberAction, MemberConfig, MemberEvent, MemberRecord, MemberRequestId, PutCondition, StationAnswer,
    StationFact, StoreEntry, WriteId, WriteOutcome,
};
use skyhaul_core::station::{
    InputConfig, RecordingCounts, RecordingId, RecordingOutcome, RequestId, StartRequest, Station,
    StationAction, StationConfig, StationEvent, StationRefusal, StationRequest, UnixMillis,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const LIVE_LEASE_MILLIS: i64 = 15_000;
const ALARM_LEASE_MILLIS: i64 = 3_600_000;

/// A write on its way: `arrives` at the store, if the link holds.
struct Flying {
    arrives: i64,
    write: WriteId,
    key: FleetKey,
    /// The value, its lease, and whether the key must be absent; `None` deletes.
    put: Option<(FleetValue, KeyLease, PutCondition)>,
    is_answered: bool,
}

pub(super) struct Node {
    pub(super) name: FleetName,
    config: MemberConfig,
    random: Random,
    member: FleetMember,
    journal: BTreeMap<String, MemberRecord>,
    station: Station,
    /// Recordings on the disks, by name: all that was ever begun.
    pub(super) disks: BTreeMap<String, Option<ClosedScan>>,
    /// Recordings whose Adler-32 becomes known later, and when.
    unsummed: Vec<(i64, String)>,
    running: BTreeMap<String, RecordingId>,
    requests: BTreeMap<RequestId, MemberRequestId>,
    next_request: u64,
    flying: Vec<Flying>,
    events: VecDeque<MemberEvent>,
    /// The revision up to which the watch has come, while connected.
    watched: Option<u64>,
    leases: [Option<LeaseId>; 2],
    pub(super) cut_until: i64,
    pub(super) kills: u64,
    /// It is killed after so many more actions of its member: also between a question and its answer.
    pub(super) kill_after: Option<u64>,
    begun_before_kill: BTreeSet<String>,
    /// What must not happen.
    pub(super) wrong: Option<String>,
    pub(super) lost_answers: u64,
}

fn station() -> Station {
    let input = InputConfig { name: "mh1".into(), memory_bytes: 1 << 20, ..InputConfig::default() };
    Station::new(StationConfig { memory_bytes: 1 << 20, inputs: vec![input], ..StationConfig::default() })
}

impl Node {
    pub(super) fn new(name: FleetName, recorder: FleetName, mut random: Random) -> Self {
        let config =
            MemberConfig { station: name.clone(), recorder, heartbeat_millis: 5_000, seed: random.draw() };
        let member = FleetMember::new(config.clone(), Vec::new());
        let began = MemberEvent::Began { active: vec![], closed: vec![] };
        Self {
            name,
            config,
            random,
            member,
            journal: BTreeMap::new(),
            station: station(),
            disks: BTreeMap::new(),
            unsummed: Vec::new(),
            running: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 1,
            flying: Vec::new(),
            events: VecDeque::from([began]),
            watched: None,
            leases: [None; 2],
            cut_until: i64::MIN,
            kills: 0,
            kill_after: None,
            begun_before_kill: BTreeSet::new(),
            wrong: None,
            lost_answers: 0,
        }
    }

    /// One step of time.
    pub(super) fn step(&mut self, now: i64, store: &mut Store) {
        if now < self.cut_until {
            if self.watched.take().is_some() {
                self.events.push_back(MemberEvent::Lost);
            }
            // What was on its way is at the store, or lost; nobody hears of it.
            self.flying.retain(|flying| !flying.is_answered);
        } else {
            self.keep_leases(now, store);
            self.look(store);
        }
        self.land(now, store);
        if self.station.next_deadline().is_some_and(|due| due.0 <= now) {
            self.station(now, StationEvent::TimePassed);
        }
        self.sum(now);
        if self.member.next_deadline().is_some_and(|due| due.0 <= now) {
            self.events.push_back(MemberEvent::TimePassed);
        }
        while let Some(event) = self.events.pop_front() {
            let actions = self.member.handle(UnixMillis(now), event);
            for action in actions {
                self.kill_after = self.kill_after.map(|more| more.saturating_sub(1));
                if self.kill_after == Some(0) {
                    return self.kill(now);
                }
                self.act(now, action);
            }
        }
    }

    /// Sums that are due: what the disks have is read when there is time for it.
    fn sum(&mut self, now: i64) {
        let disks = &mut self.disks;
        let events = &mut self.events;
        self.unsummed.retain(|(due, name)| {
            let Some(Some(scan)) = disks.get_mut(name).filter(|_| *due <= now) else { return true };
            let adler32 = scan.bytes as u32;
            scan.adler32 = Some(adler32);
            events.push_back(MemberEvent::Fact(StationFact::Summed { recording: name.clone(), adler32 }));
            false
        });
    }

    fn keep_leases(&mut self, now: i64, store: &mut Store) {
        let kinds = [(KeyLease::Live, LIVE_LEASE_MILLIS), (KeyLease::Alarm, ALARM_LEASE_MILLIS)];
        for (at, (kind, length)) in kinds.into_iter().enumerate() {
            if let Some(lease) = self.leases[at]
                && !store.keep(lease, now + length)
            {
                self.leases[at] = None;
                self.events.push_back(MemberEvent::LeaseEnded(kind));
            }
        }
    }

    /// The watch, or a listing where there is none.
    fn look(&mut self, store: &Store) {
        let prefixes =
            |branches: &[FleetBranch]| branches.iter().map(FleetBranch::prefix).collect::<Vec<_>>();
        let changes = self.watched.and_then(|after| store.watch(after));
        let Some(changes) = changes else {
            self.events.push_back(MemberEvent::Connected(store.list(&prefixes(&self.config.listed()))));
            self.watched = Some(store.revision);
            return;
        };
        let watched = prefixes(&self.config.watched());
        for change in changes {
            let text = change.key.to_string();
            if !watched.iter().any(|prefix| text.starts_with(prefix.as_str())) {
                continue;
            }
            let (key, revision) = (change.key.clone(), change.revision);
            self.events.push_back(match change.value.clone() {
                Some(value) => MemberEvent::Put(StoreEntry { key, revision, value: Ok(value) }),
                None => MemberEvent::Deleted { key, revision },
            });
        }
        self.watched = Some(store.revision);
    }

    /// Writes arrive.
    fn land(&mut self, now: i64, store: &mut Store) {
        let (landed, flying) =
            std::mem::take(&mut self.flying).into_iter().partition(|one| one.arrives <= now);
        self.flying = flying;
        for Flying { write, key, put, is_answered, .. } in landed {
            let outcome = match put {
                None => WriteOutcome::Stored { revision: store.delete(&key) },
                Some((value, lease, condition)) => match (store.get(&key), condition) {
                    (None, PutCondition::Unchanged(_)) => WriteOutcome::Gone,
                    (Some(stored), PutCondition::Absent | PutCondition::Unchanged(_))
                        if condition != PutCondition::Unchanged(stored.revision) =>
                    {
                        WriteOutcome::Exists {
                            value: Box::new(Ok(stored.value.clone())),
                            revision: stored.revision,
                        }
                    }
                    _ => {
                        let lease = self.lease(now, lease, store);
                        match store.put(&key, value, lease) {
                            Some(revision) => WriteOutcome::Stored { revision },
                            None => WriteOutcome::Refused { reason: "database space exceeded".into() },
                        }
                    }
                },
            };
            if is_answered {
                self.events.push_back(MemberEvent::Written { write, outcome });
            } else {
                self.lost_answers += 1;
                self.events.push_back(MemberEvent::Written { write, outcome: WriteOutcome::Unknown });
            }
        }
    }

    fn lease(&mut self, now: i64, lease: KeyLease, store: &mut Store) -> Option<LeaseId> {
        let (at, length) = match lease {
            KeyLease::Permanent => return None,
            KeyLease::Live => (0, LIVE_LEASE_MILLIS),
            KeyLease::Alarm => (1, ALARM_LEASE_MILLIS),
        };
        Some(*self.leases[at].get_or_insert_with(|| store.grant(now + length)))
    }

    fn act(&mut self, now: i64, action: MemberAction) {
        let (write, key, put) = match action {
            MemberAction::Journal(record) => return drop(self.journal.insert(record.key(), record)),
            MemberAction::Start { request, recording, desired } => {
                return self.start(now, request, recording, &desired);
            }
            MemberAction::Stop { request, recording } => {
                let ask = StationRequest::Stop { name: recording, wait: false };
                return self.ask(now, request, ask);
            }
            MemberAction::LoadSchedule { request, .. } => {
                let answer = StationAnswer::Done;
                return self.events.push_back(MemberEvent::Answered { request, answer });
            }
            MemberAction::RemoveSchedule { .. } => return,
            MemberAction::Put { write, key, value, lease, condition } => {
                (write, key, Some((*value, lease, condition)))
            }
            MemberAction::Delete { write, key } => (write, key, None),
        };
        let arrives = now + self.random.below(1_500) as i64;
        let is_answered = !self.random.chance(0.03);
        self.flying.push(Flying { arrives, write, key, put, is_answered });
    }

    fn start(&mut self, now: i64, request: MemberRequestId, recording: String, desired: &DesiredScan) {
        let (name, stop) = (recording, desired.stop);
        self.ask(now, request, StationRequest::Start(StartRequest { name, stop, ..StartRequest::default() }));
    }

    fn ask(&mut self, now: i64, request: MemberRequestId, ask: StationRequest) {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(id, request);
        self.station(now, StationEvent::Request { id, request: ask });
    }

    /// The station, and what its threads do.
    fn station(&mut self, now: i64, event: StationEvent) {
        let actions = self.station.handle(UnixMillis(now), event);
        for action in actions {
            match action {
                StationAction::Open(plan) => {
                    if self.disks.insert(plan.name.clone(), None).is_some() {
                        self.wrong = Some(format!("{} was recorded twice", plan.name));
                    }
                    self.running.insert(plan.name.clone(), plan.recording);
                    self.events.push_back(MemberEvent::Fact(StationFact::Opened { recording: plan.name }));
                    self.live();
                    self.station(now, StationEvent::Opened { recording: plan.recording });
                }
                StationAction::Stop { recording } => {
                    let ended = self.running.iter().find(|(_, id)| **id == recording);
                    let Some((name, _)) = ended.map(|(name, id)| (name.clone(), *id)) else { continue };
                    self.running.remove(&name);
                    let bytes = 1 + self.random.below(1 << 40);
                    let counts = RecordingCounts { written_bytes: bytes, ..RecordingCounts::default() };
                    let outcome = RecordingOutcome::Complete;
                    let scan = self.close(now, &name, bytes, "complete");
                    self.events.push_back(MemberEvent::Fact(StationFact::Closed(scan)));
                    self.live();
                    self.station(now, StationEvent::Ended { recording, outcome, counts });
                }
                StationAction::Reply { id, reply } => {
                    let Some(request) = self.requests.remove(&id) else { continue };
                    let answer = match reply {
                        Ok(_) => StationAnswer::Done,
                        Err(StationRefusal::NameTaken { name }) => {
                            if !self.begun_before_kill.contains(&name) {
                                self.wrong = Some(format!("{name} was to be begun twice"));
                            }
                            StationAnswer::NameTaken
                        }
                        Err(refusal @ StationRefusal::InputBusy { .. }) => {
                            StationAnswer::Busy { reason: refusal.to_string() }
                        }
                        Err(refusal) => StationAnswer::Refused { reason: refusal.to_string() },
                    };
                    self.events.push_back(MemberEvent::Answered { request, answer });
                }
                _ => {}
            }
        }
    }

    fn live(&mut self) {
        let scans = self.running.keys().cloned().collect();
        self.events
            .push_back(MemberEvent::Fact(StationFact::Live(LiveState { scans, ..LiveState::default() })));
    }

    fn close(&mut self, now: i64, name: &str, bytes: u64, outcome: &str) -> ClosedScan {
        let level = |text: &str| FleetName::new(text).expect("made of names");
        let mut parts = name.splitn(3, '_').map(level);
        let mut next = || parts.next().expect("three parts");
        let (experiment, _, scan) = (next(), next(), next());
        let scan = ClosedScan {
            experiment,
            scan,
            recorder: self.config.recorder.clone(),
            recording: name.to_owned(),
            bytes,
            start: None,
            stop: None,
            valid_fraction: None,
            lost_frames: 0,
            lost_is_lower_bound: false,
            missing_sha256: None,
            adler32: None,
            crc32c: Some(1),
            outcome: outcome.to_owned(),
        };
        self.unsummed.push((now + (bytes % 60_000) as i64, name.to_owned()));
        self.disks.insert(name.to_owned(), Some(scan.clone()));
        scan
    }

    /// The process is killed, its recordings with it, and begins anew with its journal and its disks.
    fn kill(&mut self, now: i64) {
        self.kills += 1;
        self.kill_after = None;
        self.begun_before_kill.extend(self.disks.keys().cloned());
        for name in std::mem::take(&mut self.running).into_keys() {
            let bytes = self.random.below(1 << 40);
            self.close(now, &name, bytes, "failed");
        }
        self.station = station();
        for name in self.disks.keys() {
            self.station.handle(UnixMillis(0), StationEvent::ScanFound { name: name.clone() });
        }
        // What was sent may arrive, and is answered to nobody.
        let random = &mut self.random;
        self.flying.retain(|_| random.chance(0.5));
        self.flying.iter_mut().for_each(|flying| flying.write = WriteId(u64::MAX));
        self.requests.clear();
        self.leases = [None; 2];
        self.watched = None;
        let in_journal: BTreeMap<&str, Option<u32>> = self
            .journal
            .values()
            .filter_map(|record| match record {
                MemberRecord::Closed { scan, .. } => Some((scan.recording.as_str(), scan.adler32)),
                _ => None,
            })
            .collect();
        let scans = || self.disks.values().flatten();
        let closed =
            scans().filter(|scan| !in_journal.contains_key(scan.recording.as_str())).cloned().collect();
        let sums = scans().filter(|scan| in_journal.get(scan.recording.as_str()) == Some(&None)).filter_map(
            |scan| {
                let recording = scan.recording.clone();
                Some(MemberEvent::Fact(StationFact::Summed { recording, adler32: scan.adler32? }))
            },
        );
        let sums: Vec<_> = sums.collect();
        self.member = FleetMember::new(self.config.clone(), self.journal.values().cloned().collect());
        self.events = VecDeque::from([MemberEvent::Began { active: vec![], closed }]);
        self.events.extend(sums);
    }

    pub(super) fn unpublished(&self) -> u64 {
        self.member.status().unpublished_scans
    }
}
