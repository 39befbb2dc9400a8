//! The closed scans of a recorder, and which of them the store has.

use super::key::FleetName;
use super::value::ClosedScan;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of closed scans that a member holds in memory. The oldest that the store has are dropped first; of those that it
/// does not have, the oldest wait in the journal for the next run.
pub const MAX_CLOSED_SCANS: usize = 20_000;
type ScanKey = (FleetName, FleetName);

/// Closed scans.
#[derive(Clone, Debug, Default)]
pub(super) struct Published {
    pub(super) scans: BTreeMap<ScanKey, (ClosedScan, Option<u64>)>,
    order: VecDeque<ScanKey>,
    recordings: BTreeSet<String>,
    unpublished: u64,
}

impl Published {
    pub(super) fn remember(&mut self, scan: ClosedScan, published: Option<u64>) {
        let key = (scan.experiment.clone(), scan.scan.clone());
        match self.scans.get_mut(&key) {
            Some((_, before)) => {
                if before.is_none() && published.is_some() {
                    self.unpublished -= 1;
                }
                *before = published.or(*before);
            }
            None => {
                self.unpublished += u64::from(published.is_none());
                self.order.push_back(key.clone());
                self.recordings.insert(scan.recording.clone());
                self.scans.insert(key, (scan, published));
            }
        }
        while self.scans.len() > MAX_CLOSED_SCANS {
            let is_published = |key: &ScanKey| self.scans.get(key).is_some_and(|(_, at)| at.is_some());
            let at = self.order.iter().position(is_published).unwrap_or(0);
            let Some(key) = self.order.remove(at) else { return };
            if let Some((scan, _)) = self.scans.remove(&key) {
                self.recordings.remove(&scan.recording);
            }
        }
    }

    pub(super) fn contains(&self, scan: &ClosedScan) -> bool {
        self.scans.contains_key(&(scan.experiment.clone(), scan.scan.clone()))
    }

    pub(super) fn has_recording(&self, recording: &str) -> bool {
        self.recordings.contains(recording)
    }

    pub(super) fn unpublished(&self) -> u64 {
        self.unpublished
    }

    /// The store has forgotten what was written after `revision`.
    pub(super) fn went_back(&mut self, revision: u64) {
        for (_, published) in self.scans.values_mut() {
            if published.is_some_and(|published| published > revision) {
                *published = None;
                self.unpublished += 1;
            }
        }
    }
}
