//! The closed scans of a recorder, and which of them the store has.

use super::key::FleetName;
use super::value::ClosedScan;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of closed scans that a member holds in memory. The oldest that the store has are dropped first; of those that it
/// does not have, the oldest wait in the journal for the next run.
pub const MAX_CLOSED_SCANS: usize = 20_000;
pub(super) type ScanKey = (FleetName, FleetName);

/// A closed scan, and what the store has of it.
#[derive(Clone, Debug)]
pub(super) struct PublishedScan {
    pub(super) scan: ClosedScan,
    /// The revision at which the store has it.
    pub(super) published: Option<u64>,
    /// The store has it without its Adler-32.
    pub(super) lacks_sum: bool,
}

/// Closed scans.
#[derive(Clone, Debug, Default)]
pub(super) struct Published {
    pub(super) scans: BTreeMap<ScanKey, PublishedScan>,
    order: VecDeque<ScanKey>,
    recordings: BTreeMap<String, ScanKey>,
    unpublished: u64,
}

impl Published {
    pub(super) fn remember(&mut self, scan: ClosedScan, published: Option<u64>) {
        let key = (scan.experiment.clone(), scan.scan.clone());
        match self.scans.get_mut(&key) {
            Some(before) => {
                if before.published.is_none() && published.is_some() {
                    self.unpublished -= 1;
                }
                before.published = published.or(before.published);
            }
            None => {
                self.unpublished += u64::from(published.is_none());
                self.order.push_back(key.clone());
                self.recordings.insert(scan.recording.clone(), key.clone());
                self.scans.insert(key, PublishedScan { scan, published, lacks_sum: false });
            }
        }
        while self.scans.len() > MAX_CLOSED_SCANS {
            let is_published = |key: &ScanKey| self.scans.get(key).is_some_and(|of| of.published.is_some());
            let at = self.order.iter().position(is_published).unwrap_or(0);
            let Some(key) = self.order.remove(at) else { return };
            if let Some(of) = self.scans.remove(&key) {
                self.recordings.remove(&of.scan.recording);
            }
        }
    }

    pub(super) fn contains(&self, scan: &ClosedScan) -> bool {
        self.scans.contains_key(&(scan.experiment.clone(), scan.scan.clone()))
    }

    pub(super) fn has_recording(&self, recording: &str) -> bool {
        self.recordings.contains_key(recording)
    }

    /// Notes the Adler-32 of a recording; its scan, if it had none and has the digest that is known of whole recordings.
    pub(super) fn sum(&mut self, recording: &str, adler32: u32) -> Option<&PublishedScan> {
        let of = self.scans.get_mut(self.recordings.get(recording)?)?;
        if of.scan.adler32.is_some() || of.scan.crc32c.is_none() {
            return None;
        }
        of.scan.adler32 = Some(adler32);
        of.lacks_sum = of.published.is_some();
        Some(of)
    }

    pub(super) fn unpublished(&self) -> u64 {
        self.unpublished
    }

    /// The store has forgotten what was written after `revision`.
    pub(super) fn went_back(&mut self, revision: u64) {
        for of in self.scans.values_mut() {
            if of.published.is_some_and(|published| published > revision) {
                (of.published, of.lacks_sum) = (None, false);
                self.unpublished += 1;
            }
        }
    }
}
