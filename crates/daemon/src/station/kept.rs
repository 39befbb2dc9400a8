//! Schedules as they are kept on the disks.

use super::delivery_body::DeliveryBody;
use crate::schedule::recording_name;
use serde::{Deserialize, Serialize};
use skyhaul_core::observation::rate::RecordedRate;
use skyhaul_core::observation::scan::{ScheduledScan, StationSchedule};
use skyhaul_core::station::{DeliveryRule, PlannedScan, ScheduleRequest};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A schedule, as it is kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptSchedule {
    pub(super) experiment: String,
    pub(super) station: String,
    pub(super) format: String,
    input: String,
    pub(super) scans: Vec<KeptScan>,
    #[serde(default)]
    deliveries: Vec<DeliveryBody>,
    /// The file of the watched directory that it is from.
    #[serde(skip)]
    pub(super) file: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptScan {
    name: String,
    start: i64,
    stop: i64,
    rate_bits: Option<u64>,
}

/// The file in which they are kept. Of several, that of the highest version counts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptFile {
    pub(super) version: u64,
    pub(super) schedules: BTreeMap<String, KeptSchedule>,
}

/// What the station knows of its schedules beside what it decides by.
#[derive(Debug, Default)]
pub(super) struct Schedules {
    pub(super) version: u64,
    pub(super) all: BTreeMap<String, KeptSchedule>,
    /// What is wrong with files of the watched directory, by path.
    pub(super) problems: BTreeMap<PathBuf, String>,
}

impl KeptSchedule {
    pub(super) fn new(schedule: &StationSchedule, input: &str, rules: &[DeliveryRule]) -> Self {
        let is_to_record = |scan: &&ScheduledScan| scan.recorded && scan.start < scan.stop;
        let scan = |scan: &ScheduledScan| KeptScan {
            name: recording_name(schedule, &scan.name),
            start: scan.start,
            stop: scan.stop,
            rate_bits: scan.rate.as_ref().ok().map(RecordedRate::disk_bits_per_second),
        };
        Self {
            experiment: schedule.experiment.clone(),
            station: schedule.station.clone(),
            format: schedule.format.clone(),
            input: input.to_owned(),
            scans: schedule.scans.iter().filter(is_to_record).map(scan).collect(),
            deliveries: rules.iter().map(DeliveryBody::of).collect(),
            file: None,
        }
    }

    pub(super) fn request(&self, name: &str) -> ScheduleRequest {
        let scan = |scan: &KeptScan| PlannedScan {
            name: scan.name.clone(),
            start: scan.start,
            stop: scan.stop,
            rate_bits: scan.rate_bits,
        };
        ScheduleRequest {
            name: name.to_owned(),
            input: self.input.clone(),
            scans: self.scans.iter().map(scan).collect(),
            // They were rules before.
            deliveries: self.deliveries.iter().filter_map(|body| body.rule().ok()).collect(),
            ..ScheduleRequest::default()
        }
    }
}
