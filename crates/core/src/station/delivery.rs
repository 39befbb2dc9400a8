//! What is delivered of a schedule: the rules, and where each scan is.
//!
//! ```text
//!   scan over ─▶ waiting ─▶ pending ─▶ queued    its recordings are in the queue of copies, each once
//!                              └─────▶ not recorded
//! ```

use super::part::{QueuedId, QueuedPart};
use crate::observation::delivery::{DayWindow, DeliveryMoment};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Time until what could not be queued or written down is tried again.
pub const DELIVERY_RETRY_MILLIS: i64 = 10_000;

/// Where recordings of a schedule go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryRule {
    /// Name of the destination in the configuration.
    pub destination: String,
    /// Directories there, one for each disk that a recording may be on.
    pub directories: Vec<String>,
    /// Names of the scans, as [`PlannedScan`](super::PlannedScan) has them; `None`: all.
    pub scans: Option<BTreeSet<String>>,
    /// After what.
    pub after: DeliveryMoment,
    /// The time of the day at which bytes are copied; `None`: any.
    pub hours: Option<DayWindow>,
    /// Priority of the copies.
    pub priority: i8,
    /// Maximum rate of each copy, bits per second.
    pub rate_bits: Option<u64>,
}

/// Where the delivery of a scan is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryState {
    /// Its scan, or the session, is not over.
    #[default]
    Waiting,
    /// A recording of it is to be queued, and is not yet.
    Pending,
    /// Every recording of it is, or was, in the queue.
    Queued,
    /// There is no recording of it on the disks.
    NotRecorded,
}

impl DeliveryState {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::NotRecorded => "not_recorded",
        }
    }
}

/// The delivery of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanDelivery {
    /// Number of the rule among those of its schedule.
    pub rule: usize,
    /// The destination.
    pub destination: String,
    /// Where it is.
    pub state: DeliveryState,
    /// The copies, by number; the queue may have forgotten them.
    pub copies: Vec<QueuedId>,
    /// Why it is pending, or why nothing was recorded.
    pub reason: Option<String>,
}

/// A delivery of a schedule, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// The rule.
    pub rule: DeliveryRule,
    /// Scans in each state that any is in.
    pub states: BTreeMap<DeliveryState, usize>,
}

/// A recording that is looked for on the disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryTarget {
    /// Its schedule.
    pub schedule: String,
    /// Its name.
    pub recording: String,
    /// The destination.
    pub destination: String,
    /// Directories there.
    pub directories: Vec<String>,
}

/// What a thread reports of deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryEvent {
    /// It has looked for a recording.
    Found {
        /// What it looked for.
        target: DeliveryTarget,
        /// What is to be copied, nothing if no disk has a part of it; or why that is not known.
        parts: Result<Vec<QueuedPart>, String>,
    },
    /// It has tried to write down that a recording is queued.
    Noted {
        /// The copy.
        copy: QueuedId,
        /// Whether queue and journal are on a disk.
        is_kept: bool,
    },
}

/// A line of a schedule's journal: `queued 7 correlator n26c3_mh_no0001`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The number of the copy.
    pub copy: QueuedId,
    /// The destination.
    pub destination: String,
    /// The recording.
    pub recording: String,
}

impl fmt::Display for DeliveryRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queued {} {} {}", self.copy.0, self.destination, self.recording)
    }
}

/// A line that is no record of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADeliveryRecord;

impl fmt::Display for NotADeliveryRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a record of a delivery: expected `queued COPY DESTINATION RECORDING`")
    }
}

impl std::error::Error for NotADeliveryRecord {}

impl FromStr for DeliveryRecord {
    type Err = NotADeliveryRecord;

    fn from_str(text: &str) -> Result<Self, NotADeliveryRecord> {
        let mut words = text.split(' ');
        let mut word = || words.next().filter(|word| !word.is_empty()).ok_or(NotADeliveryRecord);
        // A line that was cut ends with a control character.
        if word()? != "queued" || text.contains(char::is_control) {
            return Err(NotADeliveryRecord);
        }
        let copy = QueuedId(word()?.parse().map_err(|_| NotADeliveryRecord)?);
        let (destination, recording) = (word()?.to_owned(), word()?.to_owned());
        match words.next() {
            None => Ok(Self { copy, destination, recording }),
            Some(_) => Err(NotADeliveryRecord),
        }
    }
}

/// The deliveries of a scan, before it is recorded.
pub(super) fn deliveries_of(rules: &[DeliveryRule], scan: &str) -> Vec<ScanDelivery> {
    let of = |(rule, one): (usize, &DeliveryRule)| {
        let is_meant = one.scans.as_ref().is_none_or(|scans| scans.contains(scan));
        let destination = one.destination.clone();
        is_meant.then(|| ScanDelivery { rule, destination, ..ScanDelivery::default() })
    };
    rules.iter().enumerate().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        let record = DeliveryRecord {
            copy: QueuedId(7),
            destination: "correlator".into(),
            recording: "n26c3_mh_no0001".into(),
        };
        assert_eq!(record.to_string().parse(), Ok(record));
        for bad in
            ["", "queued", "queued x c r", "queued 7 c", "queued 7 c r s", "queued 7  r", "begun 1 2 3 n"]
        {
            assert_eq!(bad.parse::<DeliveryRecord>(), Err(NotADeliveryRecord), "{bad}");
        }
    }
}
