//! Closed scans: each goes to the store once, and again if the store has lost it.
//!
//! A recorder does not compute the Adler-32 of what it writes. When it becomes known later, what the store has is replaced, if it is still
//! what this member wrote:
//!
//! ```text
//!   closed ─▶ put if absent ─▶ stored at revision N ─▶ summed ─▶ put if unchanged since N ─▶ stored, in the journal
//!                           └▶ exists, without the Adler-32 ──────┘
//! ```
//!
//! Until the store has it, the journal has the scan as it was published; the sum is reported again in the next run.

use super::events::{KeyLease, MemberAction, MemberRecord, PutCondition, WriteOutcome};
use super::key::{FleetKey, FleetName};
use super::member::FleetMember;
use super::outbox::Change;
use super::published::PublishedScan;
use super::value::{ClosedScan, FleetAlarm, FleetValue};
use crate::station::UnixMillis;

/// The alarm of a scan that the store has in another version.
const CONFLICT_ALARM: &str = "fleet-scan-differs";

impl FleetMember {
    /// A recording has ended. The journal has it once.
    pub(super) fn close(&mut self, scan: ClosedScan, actions: &mut Vec<MemberAction>) {
        if self.published.contains(&scan) {
            return;
        }
        actions.push(MemberAction::Journal(MemberRecord::Closed { scan: scan.clone(), published: None }));
        self.published.remember(scan.clone(), None);
        self.publish_scan(scan, PutCondition::Absent);
    }

    /// The Adler-32 of a recording is known.
    pub(super) fn sum(&mut self, recording: &str, adler32: u32, actions: &mut Vec<MemberAction>) {
        let Some(of) = self.published.sum(recording, adler32).cloned() else { return };
        if of.published.is_none() {
            let scan = of.scan.clone();
            actions.push(MemberAction::Journal(MemberRecord::Closed { scan, published: None }));
        }
        self.publish_missing(of);
    }

    fn publish_scan(&mut self, scan: ClosedScan, condition: PutCondition) {
        let key =
            FleetKey::ClosedScan(scan.experiment.clone(), scan.scan.clone(), self.config.station.clone());
        let value = Box::new(FleetValue::Scan(scan));
        self.outbox.set(key, Change::Put { value, lease: KeyLease::Permanent, condition });
    }

    /// Writes a closed scan, if the store does not have it, or has it without its Adler-32.
    fn publish_missing(&mut self, of: PublishedScan) {
        match (of.published, of.lacks_sum) {
            (None, _) => self.publish_scan(of.scan, PutCondition::Absent),
            (Some(revision), true) => self.publish_scan(of.scan, PutCondition::Unchanged(revision)),
            (Some(_), false) => {}
        }
    }

    /// Writes all closed scans that the store does not have as they are.
    pub(super) fn publish_scans(&mut self) {
        let is_missing = |of: &&PublishedScan| of.published.is_none() || of.lacks_sum;
        let missing: Vec<PublishedScan> = self.published.scans.values().filter(is_missing).cloned().collect();
        missing.into_iter().for_each(|of| self.publish_missing(of));
    }

    /// The store has a closed scan: as it was written, or another one.
    pub(super) fn scan_published(
        &mut self,
        now: UnixMillis,
        (experiment, scan): (&FleetName, &FleetName),
        outcome: WriteOutcome,
        revision: u64,
        actions: &mut Vec<MemberAction>,
    ) {
        let Some(of) = self.published.scans.get_mut(&(experiment.clone(), scan.clone())) else { return };
        let own = of.scan.clone();
        let stored = match outcome {
            WriteOutcome::Exists { value, .. } => *value,
            // As it is, or deleted by those who keep the store small.
            _ => Ok(FleetValue::Scan(own.clone())),
        };
        let before = ClosedScan { adler32: None, ..own.clone() };
        of.lacks_sum = own.adler32.is_some() && stored == Ok(FleetValue::Scan(before));
        let of = PublishedScan { published: Some(revision), ..of.clone() };
        self.published.remember(own.clone(), Some(revision));
        if of.lacks_sum {
            return self.publish_missing(of);
        }
        if stored != Ok(FleetValue::Scan(own.clone())) {
            let text = format!("the store has another version of scan {scan} of {experiment}; both are kept");
            self.raise_alarm(&FleetName::literal(CONFLICT_ALARM), FleetAlarm { text, since: now });
        }
        actions.push(MemberAction::Journal(MemberRecord::Closed { scan: own, published: Some(revision) }));
    }
}
