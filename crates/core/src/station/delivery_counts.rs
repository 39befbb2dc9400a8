//! What became of the deliveries of a schedule: its copies by state, and why scans are not among them.

use super::part::QueuedId;
use super::queued::QueuedState;
use super::state::UnixMillis;
use super::{DeliveryState, Station};
use std::collections::BTreeMap;

/// Maximum number of different reasons in the counts; the rest are counted as one.
const MAX_REASONS: usize = 8;

/// What became of a delivery of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Its copies by state: those of [`QueuedState::name`]; `waiting_for_hours`, out of the hours of the delivery; and `forgotten`, those
    /// that are not in the queue any more.
    pub copies: BTreeMap<&'static str, usize>,
    /// Scans that were not recorded, by reason.
    pub not_recorded: BTreeMap<String, usize>,
    /// Why one is pending, if any is.
    pub pending: Option<String>,
}

impl Station {
    /// Returns what became of each delivery of a schedule, in the order of its rules; nothing if there is no such schedule.
    #[must_use]
    pub fn delivery_counts(&self, schedule: &str, now: UnixMillis) -> Vec<DeliveryCounts> {
        let Some(followed) = self.schedules.get(schedule) else { return Vec::new() };
        let mut all = vec![DeliveryCounts::default(); followed.deliveries.len()];
        for one in followed.scans.values().flat_map(|status| &status.deliveries) {
            let Some(counts) = all.get_mut(one.rule) else { continue };
            for copy in &one.copies {
                *counts.copies.entry(self.copy_state(*copy, now)).or_default() += 1;
            }
            let Some(reason) = &one.reason else { continue };
            match one.state {
                DeliveryState::NotRecorded => {
                    let is_new = !counts.not_recorded.contains_key(reason);
                    let is_too_many = is_new && counts.not_recorded.len() >= MAX_REASONS;
                    let reason = if is_too_many { "other reasons" } else { reason };
                    *counts.not_recorded.entry(reason.to_owned()).or_default() += 1;
                }
                _ => {
                    counts.pending.get_or_insert_with(|| reason.clone());
                }
            }
        }
        all
    }

    /// The name of a copy's state, for counts.
    fn copy_state(&self, copy: QueuedId, now: UnixMillis) -> &'static str {
        match self.queue.status(copy) {
            None => "forgotten",
            Some(status) if status.is_out_of_hours(now) => "waiting_for_hours",
            Some(status) => status.state.name(),
        }
    }
}

impl super::QueuedStatus {
    /// Whether it waits for its own hours.
    #[must_use]
    pub fn is_out_of_hours(&self, now: UnixMillis) -> bool {
        self.state == QueuedState::Waiting && !self.request.is_in_hours(now)
    }
}
