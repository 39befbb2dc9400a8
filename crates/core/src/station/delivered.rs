//! What is known of deliveries, and where each scan is: see [`deliver`](super::deliver).

use super::delivery::{
    DELIVERY_RETRY_MILLIS, DeliveryRecord, DeliveryRule, DeliveryState, DeliveryStatus, DeliveryTarget,
    ScanDelivery,
};
use super::events::StationAction;
use super::part::QueuedId;
use super::queued::{QueuedRequest, QueuedStatus};
use super::schedule::{Followed, PlannedState, PlannedStatus};
use super::state::UnixMillis;
use crate::observation::delivery::DeliveryMoment;
use crate::observation::sequencer::attempt_name;
use std::collections::{BTreeMap, BTreeSet};

/// By recording and destination.
type OfRecording<T> = BTreeMap<String, BTreeMap<String, T>>;

/// What is known of deliveries, of all schedules of this run.
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    /// Copies that were queued, by schedule.
    pub(super) queued: BTreeMap<String, OfRecording<QueuedId>>,
    /// What could not be queued, by schedule: when, and why.
    failed: BTreeMap<String, OfRecording<(UnixMillis, String)>>,
    /// What a thread looks for.
    pub(super) looking: Option<DeliveryTarget>,
    /// Copies that a thread writes down, or that could not be at this time.
    pub(super) noting: BTreeMap<QueuedId, Option<UnixMillis>>,
    /// When schedules were looked at last, seconds.
    pub(super) looked_at: Option<i64>,
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

    pub(super) fn fail(&mut self, target: &DeliveryTarget, now: UnixMillis, why: &str) {
        let of_schedule = self.failed.entry(target.schedule.clone()).or_default();
        let of_recording = of_schedule.entry(target.recording.clone()).or_default();
        of_recording.insert(target.destination.clone(), (now, why.to_owned()));
    }

    pub(super) fn forget_failure(&mut self, target: &DeliveryTarget) {
        if let Some(of_schedule) = self.failed.get_mut(&target.schedule)
            && let Some(of_recording) = of_schedule.get_mut(&target.recording)
        {
            of_recording.remove(&target.destination);
        }
    }
}

/// Whether a failure is to be waited for; after a step of the clock it means nothing.
pub(super) fn is_recent(failed: UnixMillis, now: UnixMillis) -> bool {
    (0..DELIVERY_RETRY_MILLIS).contains(&now.0.saturating_sub(failed.0))
}

/// The record of a copy that a schedule asked for.
pub(super) fn record_of(status: &QueuedStatus) -> Option<(String, DeliveryRecord)> {
    let QueuedRequest { scan, destination, schedule, .. } = &status.request;
    let record =
        DeliveryRecord { copy: status.copy, destination: destination.clone(), recording: scan.clone() };
    Some((schedule.clone()?, record))
}

/// What the delivery of a scan depends on.
pub(super) struct Look<'a> {
    pub(super) now: UnixMillis,
    /// Names of recordings on the disks, and of those that are being recorded.
    pub(super) names: &'a BTreeSet<String>,
    pub(super) active: &'a BTreeSet<&'a str>,
    pub(super) deliveries: &'a Deliveries,
}

impl Look<'_> {
    /// Looks at the scans of a schedule; `wanted` becomes the first recording that is to be found.
    pub(super) fn schedule(
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
