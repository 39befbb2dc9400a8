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

use super::delivered::{Look, is_recent, record_of};
use super::delivery::{DeliveryEvent, DeliveryRecord, DeliveryRule, DeliveryTarget};
use super::part::{QueuedId, QueuedPart};
use super::queued::QueuedRequest;
use super::state::UnixMillis;
use super::{Station, StationAction, StationRefusal};
use crate::hint::split;
use std::collections::BTreeSet;

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
            // As its destination says.
            encrypt: false,
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
