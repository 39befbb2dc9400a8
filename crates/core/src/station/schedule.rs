//! Schedules of a station: what is loaded, what can be in the way, and what became of each scan.

use super::delivery::{DeliveryRecord, DeliveryRule, DeliveryStatus, ScanDelivery};
use crate::observation::sequencer::JournalRecord;
use std::collections::BTreeMap;

/// Maximum number of schedules that are loaded at a time.
pub const MAX_SCHEDULES: usize = 64;

/// A schedule to be followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleRequest {
    /// Its name, which no other schedule has.
    pub name: String,
    /// Name of the input that it is recorded from; the first one if empty.
    pub input: String,
    /// Its scans by start time. Those without duration are left out.
    pub scans: Vec<PlannedScan>,
    /// What its journal holds: attempts of earlier runs.
    pub journal: Vec<JournalRecord>,
    /// Where its recordings go.
    pub deliveries: Vec<DeliveryRule>,
    /// What its journal holds of them: copies that are, or were, in the queue.
    pub delivered: Vec<DeliveryRecord>,
    /// Whether it takes the place of a schedule of its name.
    pub replace: bool,
    /// Whether it is loaded although some scans cannot be recorded as scheduled.
    pub accept_conflicts: bool,
}

/// A scan of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedScan {
    /// Name of its recording.
    pub name: String,
    /// Data time, UNIX seconds.
    pub start: i64,
    /// Data time, UNIX seconds.
    pub stop: i64,
    /// The rate on the disks, bits per second, if known.
    pub rate_bits: Option<u64>,
}

/// Where a scheduled scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlannedState {
    /// It is recorded when it is due, or as soon as it can be.
    Waiting,
    /// It is being recorded.
    Recording,
    /// It was recorded until its end.
    Recorded,
    /// A client ended it before its end.
    Stopped,
    /// It was begun, but a restart or a failure cut it, and its time is over.
    Cut,
    /// It was never begun, and its time is over.
    Missed,
}

impl PlannedState {
    /// Whether nothing more is recorded, as far as the clock is right.
    pub(super) fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Recording)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Recording => "recording",
            Self::Recorded => "recorded",
            Self::Stopped => "stopped",
            Self::Cut => "cut",
            Self::Missed => "missed",
        }
    }
}

/// A scan of a schedule, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStatus {
    /// Its schedule.
    pub schedule: String,
    /// The scan.
    pub scan: PlannedScan,
    /// Where it is.
    pub state: PlannedState,
    /// How often it was started, in all runs.
    pub attempts: u32,
    /// The last recording of it in this run.
    pub recording: Option<String>,
    /// How that ended, or why none could begin.
    pub reason: Option<String>,
    /// Its deliveries, in the order of the schedule's.
    pub deliveries: Vec<ScanDelivery>,
}

/// A schedule that is followed, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleStatus {
    /// Its name.
    pub name: String,
    /// Its input.
    pub input: String,
    /// Number of scans.
    pub scans: usize,
    /// Of these, in each state that any is in.
    pub states: BTreeMap<PlannedState, usize>,
    /// The next scan that waits: its name, and its start.
    pub next: Option<(String, i64)>,
    /// Its deliveries.
    pub deliveries: Vec<DeliveryStatus>,
}

/// A record for the journal of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// The schedule.
    pub schedule: String,
    /// The record.
    pub record: JournalRecord,
}

/// A schedule that is followed.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    pub(super) input: usize,
    /// By the number of the sequencer.
    pub(super) scans: BTreeMap<usize, PlannedStatus>,
    pub(super) deliveries: Vec<DeliveryRule>,
    pub(super) status: ScheduleStatus,
}

/// Why a scan cannot be recorded as scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleConflict {
    /// Its name cannot name a recording.
    BadName {
        /// The scan.
        scan: String,
    },
    /// Another scan has its name.
    NameRepeated {
        /// The scan.
        scan: String,
        /// The schedule of the other.
        schedule: String,
    },
    /// It begins before another scan on its input has ended.
    Overlap {
        /// The scan.
        scan: String,
        /// The other scan.
        with: String,
        /// By how many seconds.
        seconds: i64,
    },
    /// The disks are too slow for it beside what is scheduled at the same time, bits per second.
    Rate {
        /// The scan.
        scan: String,
        /// All together.
        wanted: u64,
        /// What the disks can take.
        total: u64,
    },
    /// There is not enough memory for it beside what is scheduled at the same time, bytes.
    Memory {
        /// The scan.
        scan: String,
        /// All together.
        wanted: u64,
        /// Of the station.
        total: u64,
    },
    /// The disks are full before it ends, by what is scheduled now, bytes. It is loaded nevertheless: scans may be removed before.
    Space {
        /// The scan.
        scan: String,
        /// All that is scheduled until its end.
        wanted: u64,
        /// Free now.
        free: u64,
    },
}

impl ScheduleConflict {
    /// Whether a schedule cannot be loaded with it in any case.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(self, Self::BadName { .. } | Self::NameRepeated { .. })
    }

    /// Whether it is only told.
    pub(super) fn is_note(&self) -> bool {
        matches!(self, Self::Space { .. })
    }
}
