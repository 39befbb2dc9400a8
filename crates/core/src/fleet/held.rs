//! What a member remembers of desired scans and of its schedule.

use super::events::{DesiredRecord, MemberRequestId};
use super::key::FleetName;
use super::value::{AckState, CurrentSchedule, DesiredAction, ScanAck};
use crate::station::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of desired scans that a recorder remembers.
pub const MAX_DESIRED_SCANS: usize = 10_000;
/// The station is asked so long before the start of a scan, milliseconds: sockets and files are open when its data arrive.
pub const START_LEAD_MILLIS: i64 = 5_000;
/// A station that is busy is asked again after this time, milliseconds.
pub const BUSY_RETRY_MILLIS: i64 = 2_000;
/// A scan with neither deadline nor stop is given up so long after its start, milliseconds.
pub const DEFAULT_PATIENCE_MILLIS: i64 = 30_000;

/// The desired scans of a recorder.
#[derive(Clone, Debug, Default)]
pub(super) struct Desires {
    pub(super) scans: BTreeMap<FleetName, Held>,
    pub(super) requests: BTreeMap<MemberRequestId, (FleetName, DesiredAction)>,
    /// When those that wait are due, the next first.
    pub(super) due: BTreeSet<(UnixMillis, FleetName)>,
    /// Scans by the names of their recordings.
    pub(super) recordings: BTreeMap<String, FleetName>,
    pub(super) refused: u64,
}

/// A desired scan.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) record: DesiredRecord,
    /// When the station is asked, or asked again.
    pub(super) due: UnixMillis,
    /// The journal of an earlier run says that the station was asked, and not what it answered.
    pub(super) was_asked: bool,
    /// The scheduler deleted its key while it was recorded.
    pub(super) is_orphan: bool,
}

impl Held {
    fn new(record: DesiredRecord) -> Self {
        let start = record.desired.start.map(|start| start.saturating_mul(1000));
        let due = start.map_or(record.seen_at, |start| UnixMillis(start.saturating_sub(START_LEAD_MILLIS)));
        Self { was_asked: record.is_asked, due, is_orphan: false, record }
    }

    /// When a recording that has not begun is given up.
    pub(super) fn deadline(&self) -> UnixMillis {
        let desired = &self.record.desired;
        let begin = desired.start.map_or(self.record.seen_at.0, |start| start.saturating_mul(1000));
        let stop = desired.stop.map(|stop| stop.saturating_mul(1000));
        let default = stop.unwrap_or(begin.saturating_add(DEFAULT_PATIENCE_MILLIS));
        let deadline = desired.deadline.map_or(default, |deadline| deadline.saturating_mul(1000));
        UnixMillis(deadline.min(stop.unwrap_or(i64::MAX)))
    }

    pub(super) fn waits(&self) -> bool {
        self.record.ack.state == AckState::Accepted && !self.record.is_asked
    }
}

impl Desires {
    pub(super) fn len(&self) -> usize {
        self.scans.len()
    }

    pub(super) fn remember(&mut self, record: DesiredRecord) {
        self.forget(&record.scan);
        self.insert(Held::new(record));
    }

    fn insert(&mut self, held: Held) {
        let scan = held.record.scan.clone();
        self.recordings.insert(held.record.ack.recording.clone(), scan.clone());
        if held.waits() {
            self.due.insert((held.due, scan.clone()));
        }
        self.scans.insert(scan, held);
    }

    pub(super) fn forget(&mut self, scan: &FleetName) {
        if let Some(held) = self.scans.remove(scan) {
            self.due.remove(&(held.due, scan.clone()));
            if self.recordings.get(&held.record.ack.recording) == Some(scan) {
                self.recordings.remove(&held.record.ack.recording);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<UnixMillis> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn acks(&self) -> impl Iterator<Item = (&FleetName, &ScanAck)> {
        self.scans.iter().map(|(scan, held)| (scan, &held.record.ack))
    }
}

/// Returns the name of the recording of a scan: `EXPERIMENT_STATION_SCAN` in lower case, as the field names recordings.
#[must_use]
pub fn recording_name(experiment: &FleetName, station: &FleetName, scan: &FleetName) -> String {
    format!("{experiment}_{station}_{scan}").to_ascii_lowercase()
}

/// The schedule that the station follows for the fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct FollowedSchedule {
    pub(super) wanted: Option<CurrentSchedule>,
    pub(super) loaded: Option<CurrentSchedule>,
    pub(super) asked: Option<(MemberRequestId, CurrentSchedule)>,
    /// The station refused it; it is not asked for the same one again.
    pub(super) refused: Option<CurrentSchedule>,
    pub(super) not_before: UnixMillis,
}

impl FollowedSchedule {
    /// Whether the station is to be asked.
    pub(super) fn is_due(&self) -> bool {
        self.asked.is_none()
            && self.wanted.is_some()
            && self.wanted != self.loaded
            && self.wanted != self.refused
    }
}
