//! The member: what a recorder does in its fleet.

use super::events::{
    KeyLease, MemberAction, MemberConfig, MemberEvent, MemberRecord, MemberRequestId, PutCondition,
    StationAnswer, StationFact, StoreEntry, StoreListing, WriteOutcome,
};
use super::held::{Desires, FollowedSchedule};
use super::key::{FleetKey, FleetName};
use super::outbox::{Change, Outbox};
use super::published::Published;
use super::value::{CurrentSchedule, FleetAlarm, FleetValue, LiveState, RecorderInfo};
use crate::station::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of alarms of a recorder in the store.
pub const MAX_FLEET_ALARMS: usize = 256;

/// State of a member, and what follows from each event.
///
/// The loop around it: begin with [`new`](Self::new) and [`MemberEvent::Began`]; hand each event to [`handle`](Self::handle), and carry
/// out its actions in order.
#[derive(Clone, Debug)]
pub struct FleetMember {
    pub(super) config: MemberConfig,
    pub(super) is_connected: bool,
    /// The largest revision of the store that was seen, in all runs.
    pub(super) revision: u64,
    pub(super) outbox: Outbox,
    pub(super) desires: Desires,
    pub(super) published: Published,
    /// Names of recordings that run.
    pub(super) active: BTreeSet<String>,
    pub(super) next_request: u64,
    live: LiveState,
    sequence: u64,
    pub(super) live_due: UnixMillis,
    info: RecorderInfo,
    alarms: BTreeMap<FleetName, FleetAlarm>,
    pub(super) schedule: FollowedSchedule,
}

/// What can be seen of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetMemberStatus {
    /// Whether the store is reached.
    pub is_connected: bool,
    /// The largest revision seen.
    pub revision: u64,
    /// Writes that the store does not have yet.
    pub unwritten: usize,
    /// Closed scans that the store does not have yet.
    pub unpublished_scans: u64,
    /// Why the store refused the last write, until one succeeds.
    pub refused: Option<String>,
    /// Desired scans that are remembered.
    pub desired_scans: usize,
    /// Desired scans that found no room.
    pub desired_refused: u64,
    /// The schedule that is followed for the fleet.
    pub schedule: Option<CurrentSchedule>,
}

impl FleetMember {
    /// Returns a member that remembers what its journal holds, the records in their order.
    #[must_use]
    pub fn new(config: MemberConfig, journal: Vec<MemberRecord>) -> Self {
        let mut member = Self {
            outbox: Outbox::new(config.seed),
            config,
            is_connected: false,
            revision: 0,
            desires: Desires::default(),
            published: Published::default(),
            active: BTreeSet::new(),
            next_request: 1,
            live: LiveState::default(),
            sequence: 0,
            live_due: UnixMillis(i64::MIN),
            info: RecorderInfo::default(),
            alarms: BTreeMap::new(),
            schedule: FollowedSchedule::default(),
        };
        journal.into_iter().for_each(|record| member.remember(record));
        member
    }

    fn remember(&mut self, record: MemberRecord) {
        match record {
            MemberRecord::Desired(record) => {
                self.revision = self.revision.max(record.ack.desired_revision);
                self.desires.remember(record);
            }
            MemberRecord::Forgotten { scan } => self.desires.forget(&scan),
            MemberRecord::Schedule(loaded) => self.schedule.loaded = loaded,
            MemberRecord::Closed { scan, published } => {
                self.revision = self.revision.max(published.unwrap_or(0));
                self.published.remember(scan, published);
            }
        }
    }

    /// Returns what follows from an event at `now`.
    pub fn handle(&mut self, now: UnixMillis, event: MemberEvent) -> Vec<MemberAction> {
        let mut actions = Vec::new();
        match event {
            MemberEvent::Began { active, closed } => self.began(active, closed, &mut actions),
            MemberEvent::Connected(listing) => self.connected(now, listing, &mut actions),
            MemberEvent::Put(entry) => {
                self.revision = self.revision.max(entry.revision);
                self.put(now, entry, &mut actions);
            }
            MemberEvent::Deleted { key, revision } => {
                self.revision = self.revision.max(revision);
                self.deleted(&key, &mut actions);
            }
            MemberEvent::Lost => {
                self.is_connected = false;
                self.outbox.lost();
            }
            MemberEvent::LeaseEnded(lease) => self.lease_ended(now, lease),
            MemberEvent::Fact(fact) => self.fact(now, fact, &mut actions),
            MemberEvent::Answered { request, answer } => self.answered(now, request, answer, &mut actions),
            MemberEvent::Written { write, outcome } => {
                if let Some((key, outcome)) = self.outbox.written(now, write, outcome) {
                    self.settled(now, &key, outcome, &mut actions);
                }
            }
            MemberEvent::TimePassed => {}
        }
        self.begin_due(now, &mut actions);
        self.follow_schedule(now, &mut actions);
        if self.is_connected {
            self.report_live(now);
            self.outbox.send(now, &mut actions);
        }
        actions
    }

    /// Returns when [`MemberEvent::TimePassed`] is due next, if it is.
    #[must_use]
    pub fn next_deadline(&self) -> Option<UnixMillis> {
        let written = self.is_connected.then(|| self.outbox.next_deadline()).flatten();
        let live = self.is_connected.then_some(self.live_due);
        let waits = self.is_connected && self.schedule.is_due();
        let schedule = waits.then_some(self.schedule.not_before);
        [written, live, schedule, self.desires.next_deadline()].into_iter().flatten().min()
    }

    /// Returns what can be seen from outside.
    #[must_use]
    pub fn status(&self) -> FleetMemberStatus {
        FleetMemberStatus {
            is_connected: self.is_connected,
            revision: self.revision,
            unwritten: self.outbox.len(),
            unpublished_scans: self.published.unpublished(),
            refused: self.outbox.refused.clone(),
            desired_scans: self.desires.len(),
            desired_refused: self.desires.refused,
            schedule: self.schedule.loaded.clone(),
        }
    }

    pub(super) fn request_id(&mut self) -> MemberRequestId {
        let request = MemberRequestId(self.next_request);
        self.next_request += 1;
        request
    }

    pub(super) fn put_key(&mut self, key: FleetKey, value: FleetValue, lease: KeyLease) {
        self.outbox.set(key, Change::Put { value: Box::new(value), lease, condition: PutCondition::Always });
    }

    /// The store is reached: what it holds is compared with what the station knows, and the station's truth is published.
    fn connected(&mut self, now: UnixMillis, listing: StoreListing, actions: &mut Vec<MemberAction>) {
        self.outbox.lost();
        self.outbox.connected();
        self.is_connected = true;
        // A store that was restored from a copy is older than what this member saw: what it lacks was not deleted.
        let went_back = listing.revision < self.revision;
        self.revision = listing.revision;
        if went_back {
            self.published.went_back(listing.revision);
        }
        let (mut acks, mut alarms, mut desired) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut current = None;
        for entry in listing.entries {
            match (&entry.key, entry.value) {
                (FleetKey::ScanAck(_, _, scan), Ok(FleetValue::Ack(ack))) => {
                    drop(acks.insert(scan.clone(), Some(ack)));
                }
                (FleetKey::ScanAck(_, _, scan), _) => drop(acks.insert(scan.clone(), None)),
                (FleetKey::Alarm(_, _, name), _) => drop(alarms.insert(name.clone())),
                (FleetKey::CurrentSchedule(_), value) => current = Some(value),
                (FleetKey::DesiredScan(_, _, scan), value) => {
                    desired.insert(scan.clone());
                    let (key, revision) = (entry.key.clone(), entry.revision);
                    self.put(now, StoreEntry { key, revision, value }, actions);
                }
                _ => {}
            }
        }
        self.listed_schedule(now, current, went_back, actions);
        if !went_back {
            self.forget_all_but(&desired, actions);
        }
        self.publish_acks(&acks);
        let raised: Vec<FleetName> = self.alarms.keys().cloned().collect();
        alarms.iter().filter(|name| !self.alarms.contains_key(name)).for_each(|name| {
            self.outbox.set(self.config.alarm(name), Change::Delete);
        });
        raised.iter().for_each(|name| self.publish_alarm(name));
        let key = FleetKey::RecorderInfo(self.config.station.clone(), self.config.recorder.clone());
        self.put_key(key, FleetValue::Info(self.info.clone()), KeyLease::Permanent);
        self.publish_scans();
        self.live_due = now;
    }

    /// A watched key was written, or is in the listing.
    fn put(&mut self, now: UnixMillis, entry: StoreEntry, actions: &mut Vec<MemberAction>) {
        let is_own = |station: &FleetName, recorder: &FleetName| {
            (station, recorder) == (&self.config.station, &self.config.recorder)
        };
        match entry.key {
            FleetKey::CurrentSchedule(station) if station == self.config.station => {
                self.current_written(now, entry.value);
            }
            FleetKey::DesiredScan(station, recorder, scan) if is_own(&station, &recorder) => {
                self.desired_written(now, scan, entry.revision, entry.value, actions);
            }
            _ => {}
        }
    }

    fn deleted(&mut self, key: &FleetKey, actions: &mut Vec<MemberAction>) {
        match key {
            FleetKey::CurrentSchedule(station) if *station == self.config.station => {
                self.current_deleted(actions);
            }
            FleetKey::DesiredScan(station, recorder, scan)
                if (station, recorder) == (&self.config.station, &self.config.recorder) =>
            {
                self.desired_deleted(scan, actions);
            }
            _ => {}
        }
    }

    fn answered(
        &mut self,
        now: UnixMillis,
        request: MemberRequestId,
        answer: StationAnswer,
        actions: &mut Vec<MemberAction>,
    ) {
        match self.schedule.asked.take_if(|(asked, _)| *asked == request) {
            Some((_, schedule)) => self.schedule_answered(now, &schedule, answer, actions),
            None => self.desired_answered(now, request, answer, actions),
        }
    }

    fn fact(&mut self, now: UnixMillis, fact: StationFact, actions: &mut Vec<MemberAction>) {
        match fact {
            StationFact::Opened { recording } => {
                self.desired_opened(&recording, actions);
                self.active.insert(recording);
                self.live_due = now;
            }
            StationFact::Closed(scan) => {
                self.active.remove(&scan.recording);
                self.desired_ended(&scan.recording, &scan.outcome, actions);
                self.close(scan, actions);
                self.live_due = now;
            }
            StationFact::Failed { recording, reason } => {
                self.active.remove(&recording);
                self.desired_ended(&recording, &reason, actions);
                self.live_due = now;
            }
            StationFact::Summed { recording, adler32 } => self.sum(&recording, adler32, actions),
            StationFact::Live(live) => self.live = live,
            StationFact::Info(info) => {
                if self.is_connected && self.info != info {
                    let key =
                        FleetKey::RecorderInfo(self.config.station.clone(), self.config.recorder.clone());
                    self.put_key(key, FleetValue::Info(info.clone()), KeyLease::Permanent);
                }
                self.info = info;
            }
            StationFact::AlarmRaised { name, text, since } => {
                self.raise_alarm(&name, FleetAlarm { text, since });
            }
            StationFact::AlarmCleared { name } => self.clear_alarm(&name),
        }
    }

    pub(super) fn raise_alarm(&mut self, name: &FleetName, alarm: FleetAlarm) {
        if let Some(raised) = self.alarms.get_mut(name) {
            if raised.text == alarm.text {
                return;
            }
            raised.text = alarm.text;
        } else if self.alarms.len() < MAX_FLEET_ALARMS {
            self.alarms.insert(name.clone(), alarm);
        }
        if self.is_connected {
            self.publish_alarm(name);
        }
    }

    pub(super) fn clear_alarm(&mut self, name: &FleetName) {
        if self.alarms.remove(name).is_some() {
            self.outbox.set(self.config.alarm(name), Change::Delete);
        }
    }

    fn publish_alarm(&mut self, name: &FleetName) {
        if let Some(alarm) = self.alarms.get(name).cloned() {
            self.put_key(self.config.alarm(name), FleetValue::Alarm(alarm), KeyLease::Alarm);
        }
    }

    fn lease_ended(&mut self, now: UnixMillis, lease: KeyLease) {
        match lease {
            KeyLease::Permanent => {}
            KeyLease::Live => self.live_due = now,
            KeyLease::Alarm => {
                let raised: Vec<FleetName> = self.alarms.keys().cloned().collect();
                raised.iter().for_each(|name| self.publish_alarm(name));
            }
        }
    }

    /// A live report that waits in the outbox is replaced by the next: the store gets the newest, or none.
    fn report_live(&mut self, now: UnixMillis) {
        if now < self.live_due {
            return;
        }
        self.live_due = UnixMillis(now.0.saturating_add_unsigned(self.config.heartbeat_millis.max(1)));
        self.sequence += 1;
        let live = LiveState {
            scans: self.active.iter().cloned().collect(),
            schedule: self.schedule.loaded.clone(),
            unpublished_scans: self.published.unpublished(),
            sequence: self.sequence,
            at: now,
            ..self.live.clone()
        };
        let key = FleetKey::RecorderLive(self.config.station.clone(), self.config.recorder.clone());
        self.put_key(key, FleetValue::Live(live), KeyLease::Live);
    }

    /// The store has a key as this member wrote it, or it was there already.
    fn settled(
        &mut self,
        now: UnixMillis,
        key: &FleetKey,
        outcome: WriteOutcome,
        actions: &mut Vec<MemberAction>,
    ) {
        let revision = match &outcome {
            WriteOutcome::Stored { revision } | WriteOutcome::Exists { revision, .. } => *revision,
            WriteOutcome::Gone => self.revision,
            WriteOutcome::Refused { .. } | WriteOutcome::Unknown => return,
        };
        self.revision = self.revision.max(revision);
        if let FleetKey::ClosedScan(experiment, scan, _) = key {
            self.scan_published(now, (experiment, scan), outcome, revision, actions);
        }
    }
}

impl MemberConfig {
    pub(super) fn alarm(&self, name: &FleetName) -> FleetKey {
        FleetKey::Alarm(self.station.clone(), self.recorder.clone(), name.clone())
    }

    pub(super) fn ack(&self, scan: &FleetName) -> FleetKey {
        FleetKey::ScanAck(self.station.clone(), self.recorder.clone(), scan.clone())
    }
}
