//! Deliveries of schedules: each recording is put into the queue of copies once, whenever the program dies.
//!
//! ```text
//!   scan over ─▶ FindRecording ─▶ Found ─▶ queue.add ─▶ NoteDelivery ─▶ Noted
//!                                            │             │  the queue, then the journal are on a disk
//!                                            ▼             ▼
//!                                       in the queue,  in the journal: it may leave the queue
//!                                       which it cannot leave
//! ```
//!
//! A recording was queued if the queue or the journal of its schedule says so. A copy stays in the queue until the journal has it, so at
//! each moment one of both does. What died before the queue was kept was not queued, and is queued again.
//!
//! The unit is a recording, not a scan: what is recorded of a scan after a cut, or after a wrong clock was set right, is delivered too.

use super::delivery::{
    DELIVERY_RETRY_MILLIS, DeliveryEvent, DeliveryRecord, DeliveryRule, DeliveryState, DeliveryStatus,
    DeliveryTarget, ScanDelivery,
};
use super::queued::{QueuedId, QueuedPart, QueuedRequest, QueuedStatus};
use super::schedule::{Followed, PlannedState, PlannedStatus};
use super::state::UnixMillis;
use super::{Station, StationAction, StationRefusal};
use crate::hint::split;
use crate::observation::delivery::DeliveryMoment;
use crate::observation::sequencer::attempt_name;
use std::collections::{BTreeMap, BTreeSet};

/// By recording and destination.
type OfRecording<T> = BTreeMap<String, BTreeMap<String, T>>;

/// What is known of deliveries, of all schedules of this run.
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    /// Copies that were queued, by schedule.
    queued: BTreeMap<String, OfRecording<QueuedId>>,
    /// What could not be queued, by schedule: when, and why.
    failed: BTreeMap<String, OfRecording<(UnixMillis, String)>>,
    /// What a thread looks for.
    looking: Option<DeliveryTarget>,
    /// Copies that a thread writes down, or that could not be at this time.
    noting: BTreeMap<QueuedId, Option<UnixMillis>>,
    /// When schedules were looked at last, seconds.
    looked_at: Option<i64>,
}

impl Deliveries {
    /// Takes note of what a journal holds.
    pub(super) fn remember(&mut self, schedule: &str, records: &[DeliveryRecord]) {
        let known = self.queued.entry(schedule.to_owned()).or_default();
        for DeliveryRecord { copy, destination, recording } in records {
            known.entry(recording.clone()).or_default().insert(destination.clone(), *copy);
        }
    }

    /// Takes note of the copies that an earlier run kept.
    pub(super) fn restore(&mut self, copies: &[QueuedStatus]) {
        for status in copies {
            if let Some((schedule, record)) = record_of(status) {
                self.remember(&schedule, &[record]);
            }
        }
    }

    /// When and why a recording could not be queued, if that is no reason to try now.
    fn held_back(&self, target: (&str, &str, &str), now: UnixMillis) -> Option<&str> {
        let (schedule, recording, destination) = target;
        let (at, why) = self.failed.get(schedule)?.get(recording)?.get(destination)?;
        is_recent(*at, now).then_some(why.as_str())
    }

    fn fail(&mut self, target: &DeliveryTarget, now: UnixMillis, why: &str) {
        let of_schedule = self.failed.entry(target.schedule.clone()).or_default();
        let of_recording = of_schedule.entry(target.recording.clone()).or_default();
        of_recording.insert(target.destination.clone(), (now, why.to_owned()));
    }

    fn forget_failure(&mut self, target: &DeliveryTarget) {
        if let Some(of_schedule) = self.failed.get_mut(&target.schedule)
            && let Some(of_recording) = of_schedule.get_mut(&target.recording)
        {
            of_recording.remove(&target.destination);
        }
    }
}

/// Whether a failure is to be waited for; after a step of the clock it means nothing.
fn is_recent(failed: UnixMillis, now: UnixMillis) -> bool {
    (0..DELIVERY_RETRY_MILLIS).contains(&now.0.saturating_sub(failed.0))
}

/// The record of a copy that a schedule asked for.
fn record_of(status: &QueuedStatus) -> Option<(String, DeliveryRecord)> {
    let QueuedRequest { scan, destination, schedule, .. } = &status.request;
    let record =
        DeliveryRecord { copy: status.copy, destination: destination.clone(), recording: scan.clone() };
    Some((schedule.clone()?, record))
}

/// What the delivery of a scan depends on.
struct Look<'a> {
    now: UnixMillis,
    /// Names of recordings on the disks, and of those that are being recorded.
    names: &'a BTreeSet<String>,
    active: &'a BTreeSet<&'a str>,
    deliveries: &'a Deliveries,
}

impl Station {
    /// Looks at all schedules now, not when the second is over.
    pub(super) fn look_at_deliveries(&mut self) {
        self.deliveries.looked_at = None;
    }

    /// Puts what is over into the queue, once a second or when something has changed.
    pub(super) fn deliver(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        self.note_deliveries(now, actions);
        let seconds = now.0.div_euclid(1000);
        if self.deliveries.looked_at == Some(seconds) {
            return;
        }
        self.deliveries.looked_at = Some(seconds);
        let active: BTreeSet<&str> = self.active.values().map(|held| held.status.name.as_str()).collect();
        let look = Look { now, names: &self.names, active: &active, deliveries: &self.deliveries };
        let mut wanted: Option<DeliveryTarget> = None;
        for (name, followed) in &mut self.schedules {
            if !followed.deliveries.is_empty() {
                look.schedule(name, followed, &mut wanted, actions);
            }
        }
        if self.deliveries.looking.is_none()
            && !self.shutting_down
            && let Some(target) = wanted
        {
            self.deliveries.looking = Some(target.clone());
            actions.push(StationAction::FindRecording(target));
        }
    }

    pub(super) fn delivery_event(
        &mut self,
        now: UnixMillis,
        event: DeliveryEvent,
        actions: &mut Vec<StationAction>,
    ) {
        self.look_at_deliveries();
        match event {
            DeliveryEvent::Found { target, parts } => {
                if self.deliveries.looking.as_ref() != Some(&target) {
                    return;
                }
                self.deliveries.looking = None;
                match self.queue_recording(now, &target, parts, actions) {
                    Ok(()) => self.deliveries.forget_failure(&target),
                    Err(why) => self.deliveries.fail(&target, now, &why),
                }
            }
            DeliveryEvent::Noted { copy, is_kept: true } => {
                self.deliveries.noting.remove(&copy);
                self.queue.noted(copy, actions);
            }
            DeliveryEvent::Noted { copy, is_kept: false } => {
                self.deliveries.noting.insert(copy, Some(now));
            }
        }
    }

    /// Puts a recording into the queue, or returns why not.
    fn queue_recording(
        &mut self,
        now: UnixMillis,
        target: &DeliveryTarget,
        parts: Result<Vec<QueuedPart>, String>,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), String> {
        let DeliveryTarget { schedule, recording, destination, directories } = target;
        let said = |refusal: StationRefusal| split(&refusal.to_string()).0.to_owned();
        let parts = parts?;
        if parts.is_empty() {
            return Err("it is not on the disks".to_owned());
        }
        if self.shutting_down {
            return Err(said(StationRefusal::ShuttingDown));
        }
        // It may have been removed, or changed, while the disks were looked at.
        let rules = self.schedules.get(schedule).map(|followed| followed.deliveries.as_slice());
        let is_meant =
            |rule: &&DeliveryRule| rule.destination == *destination && rule.directories == *directories;
        let Some(rule) = rules.and_then(|rules| rules.iter().find(is_meant)).cloned() else {
            return Err("its schedule has changed".to_owned());
        };
        self.is_to_copy(recording).map_err(said)?;
        let request = QueuedRequest {
            scan: recording.clone(),
            destination: destination.clone(),
            parts,
            not_before: UnixMillis(0),
            rate_bits: rule.rate_bits,
            priority: rule.priority,
            hours: rule.hours,
            schedule: Some(schedule.clone()),
        };
        let known = &self.config.destinations;
        self.queue.add(now, vec![request], (known, &[]), actions).map_err(|refusal| said(refusal.into()))?;
        let copy = QueuedId(self.queue.last());
        let (destination, recording) = (destination.clone(), recording.clone());
        self.deliveries.remember(schedule, &[DeliveryRecord { copy, destination, recording }]);
        self.note_deliveries(now, actions);
        Ok(())
    }

    /// Has the copies written down that journals do not have.
    fn note_deliveries(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        for status in self.queue.unnoted() {
            let is_waited_for = match self.deliveries.noting.get(&status.copy) {
                Some(None) => true,
                Some(Some(failed)) => is_recent(*failed, now),
                None => false,
            };
            if !is_waited_for && let Some((schedule, record)) = record_of(status) {
                self.deliveries.noting.insert(status.copy, None);
                actions.push(StationAction::NoteDelivery { schedule, record });
            }
        }
    }
}

impl Look<'_> {
    /// Looks at the scans of a schedule; `wanted` becomes the first recording that is to be found.
    fn schedule(
        &self,
        name: &str,
        followed: &mut Followed,
        wanted: &mut Option<DeliveryTarget>,
        actions: &mut Vec<StationAction>,
    ) {
        let is_session_over = followed.scans.values().all(|status| status.state.is_over());
        let mut counts = vec![BTreeMap::new(); followed.deliveries.len()];
        for status in followed.scans.values_mut() {
            let mut is_changed = false;
            for at in 0..status.deliveries.len() {
                let rule = &followed.deliveries[status.deliveries[at].rule];
                let is_due = match rule.after {
                    DeliveryMoment::Scan => status.state.is_over(),
                    DeliveryMoment::Session => is_session_over,
                };
                let before = &status.deliveries[at];
                if is_due
                    && before.state == DeliveryState::Queued
                    && before.copies.len() == status.attempts as usize
                {
                    *counts[before.rule].entry(before.state).or_default() += 1;
                    continue;
                }
                let now = self.scan(name, (status, is_due), rule, wanted);
                let before = &mut status.deliveries[at];
                let now = ScanDelivery { rule: before.rule, destination: before.destination.clone(), ..now };
                *counts[now.rule].entry(now.state).or_default() += 1;
                if *before != now {
                    *before = now;
                    is_changed = true;
                }
            }
            if is_changed {
                actions.push(StationAction::ScanChanged(status.clone()));
            }
        }
        let rules = followed.deliveries.iter().cloned();
        let status = |(rule, states)| DeliveryStatus { rule, states };
        followed.status.deliveries = rules.zip(counts).map(status).collect();
    }

    /// Where the delivery of a scan is.
    fn scan(
        &self,
        schedule: &str,
        (status, is_due): (&PlannedStatus, bool),
        rule: &DeliveryRule,
        wanted: &mut Option<DeliveryTarget>,
    ) -> ScanDelivery {
        let queued = self.deliveries.queued.get(schedule);
        let mut found = ScanDelivery::default();
        for attempt in 1..=status.attempts {
            let recording = attempt_name(&status.scan.name, attempt);
            let of_recording = queued.and_then(|all| all.get(&recording));
            if let Some(copy) = of_recording.and_then(|all| all.get(&rule.destination)) {
                found.copies.push(*copy);
                continue;
            }
            if !is_due || !self.names.contains(&recording) {
                continue;
            }
            found.state = DeliveryState::Pending;
            if self.active.contains(recording.as_str()) {
                found.reason.get_or_insert_with(|| format!("{recording} is being recorded"));
                continue;
            }
            let held_back = self.deliveries.held_back((schedule, &recording, &rule.destination), self.now);
            if let Some(why) = held_back {
                found.reason.get_or_insert_with(|| format!("{recording}: {why}"));
            } else if wanted.is_none() {
                *wanted = Some(DeliveryTarget {
                    schedule: schedule.to_owned(),
                    recording,
                    destination: rule.destination.clone(),
                    directories: rule.directories.clone(),
                });
            }
        }
        if is_due && found.state == DeliveryState::Waiting {
            (found.state, found.reason) = match (found.copies.is_empty(), status.state) {
                (false, _) => (DeliveryState::Queued, None),
                (true, PlannedState::Missed) => {
                    (DeliveryState::NotRecorded, Some("it was never begun".into()))
                }
                (true, _) => (DeliveryState::NotRecorded, Some("no recording of it is on the disks".into())),
            };
        }
        found
    }
}
