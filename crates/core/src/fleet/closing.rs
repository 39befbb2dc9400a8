//! Closed scans: each goes to the store once, and again if the store has lost it.

use super::events::{KeyLease, MemberAction, MemberRecord, WriteOutcome};
use super::key::{FleetKey, FleetName};
use super::member::FleetMember;
use super::outbox::Change;
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
        self.publish_scan(scan);
    }

    fn publish_scan(&mut self, scan: ClosedScan) {
        let key =
            FleetKey::ClosedScan(scan.experiment.clone(), scan.scan.clone(), self.config.station.clone());
        let value = Box::new(FleetValue::Scan(scan));
        self.outbox.set(key, Change::Put { value, lease: KeyLease::Permanent, only_if_absent: true });
    }

    /// Writes all closed scans that the store does not have.
    pub(super) fn publish_scans(&mut self) {
        let missing = self.published.scans.values().filter(|(_, published)| published.is_none());
        let missing: Vec<ClosedScan> = missing.map(|(scan, _)| scan.clone()).collect();
        missing.into_iter().for_each(|scan| self.publish_scan(scan));
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
        let Some((own, _)) = self.published.scans.get(&(experiment.clone(), scan.clone())) else { return };
        let own = own.clone();
        if let WriteOutcome::Exists { value, .. } = outcome
            && *value != Ok(FleetValue::Scan(own.clone()))
        {
            let text = format!("the store has another version of scan {scan} of {experiment}; both are kept");
            self.raise_alarm(&FleetName::literal(CONFLICT_ALARM), FleetAlarm { text, since: now });
        }
        self.published.remember(own.clone(), Some(revision));
        actions.push(MemberAction::Journal(MemberRecord::Closed { scan: own, published: Some(revision) }));
    }
}
