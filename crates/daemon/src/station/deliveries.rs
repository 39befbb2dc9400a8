//! Deliveries of schedules: what a schedule asks for becomes rules, and one thread does for them what waits for disks.
//!
//! ```text
//!   [[delivery]], --deliver, JSON ─▶ ScheduledDelivery ─▶ destination, directories, scans known? ─▶ DeliveryRule
//!   FindRecording ─▶ names and sizes on each disk ─▶ DeliveryEvent::Found
//!   NoteDelivery ──▶ queue on a disk ─▶ journal on a disk ─▶ DeliveryEvent::Noted
//! ```
//!
//! What is decided is in [`skyhaul_core::station`].

use super::copying;
use super::delivery_body::{parse_destination, read_priority};
use super::queue::parts;
use super::setup::StationSetup;
use super::shared::Shared;
use skyhaul::core::hint::{Hint, split};
use skyhaul::recording::ScanPattern;
use skyhaul_core::observation::delivery::{MAX_DELIVERIES, ScheduledDelivery};
use skyhaul_core::observation::scan::StationSchedule;
use skyhaul_core::station::{
    DeliveryEvent, DeliveryRecord, DeliveryRule, DeliveryTarget, StationAction, StationEvent,
};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A thread that waits looks this often whether the service has ended.
const WAIT_STEP: Duration = Duration::from_millis(50);

impl StationSetup {
    /// Whether the deliveries of the watched directory name destinations of this configuration, with a directory for each disk.
    ///
    /// # Errors
    /// What is wrong with the first that does not.
    pub fn check_deliveries(&self) -> Result<(), String> {
        for one in &self.schedule.deliveries {
            self.delivery_target(one)?;
            one.scans.iter().try_for_each(|text| ScanPattern::new(text).map(|_| ()))?;
        }
        Ok(())
    }

    /// The destination of a delivery, and its directories.
    fn delivery_target(&self, one: &ScheduledDelivery) -> Result<(String, Vec<String>), String> {
        let (destination, directories) = parse_destination(&one.to)?;
        let known = &self.config.destinations;
        if !known.iter().any(|known| known.name == destination) {
            let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
            let hint = match names.is_empty() {
                true => Hint("add [[station.destination]] to the configuration".to_owned()),
                false => Hint(format!("the destinations are: {}", names.join(", "))),
            };
            return Err(format!("no destination is named `{destination}`{hint}"));
        }
        let disks = self.disks.len();
        if directories.len() < disks {
            let hint = Hint(format!("a directory for each, such as {destination}:/d1 {destination}:/d2"));
            return Err(format!("recordings are on {disks} disks, delivered to fewer directories{hint}"));
        }
        Ok((destination, directories))
    }
}

impl Shared {
    /// The rules of deliveries; `names` has the recording of each scan.
    pub(super) fn rules(
        &self,
        deliveries: &[ScheduledDelivery],
        schedule: &StationSchedule,
        name: impl Fn(&str) -> String,
    ) -> Result<Vec<DeliveryRule>, String> {
        if deliveries.len() > MAX_DELIVERIES {
            return Err(format!("more than {MAX_DELIVERIES} deliveries"));
        }
        let mut rules: Vec<DeliveryRule> = Vec::new();
        for one in deliveries {
            let (destination, directories) = self.setup.delivery_target(one)?;
            let scans = match one.scans.is_empty() {
                true => None,
                false => Some(matching(&one.scans, schedule, &name)?),
            };
            let both = |other: &&DeliveryRule| {
                other.destination == destination
                    && match (&other.scans, &scans) {
                        (Some(a), Some(b)) => !a.is_disjoint(b),
                        _ => true,
                    }
            };
            if rules.iter().any(|other| both(&other)) {
                return Err(format!(
                    "a scan is delivered to {destination} twice{}",
                    Hint("remove one of both")
                ));
            }
            let (after, hours, priority) = (one.after, one.hours, read_priority(one.priority)?);
            let rate_bits = one.rate_bits;
            rules.push(DeliveryRule { destination, directories, scans, after, hours, priority, rate_bits });
        }
        Ok(rules)
    }

    /// Tries the paths of deliveries: what is wrong, in words.
    pub(super) fn try_deliveries(&self, rules: &[DeliveryRule]) -> Vec<String> {
        let known = &self.setup.config.destinations;
        let failing = |rule: &DeliveryRule| {
            let at = known.iter().position(|one| one.name == rule.destination)?;
            let setup = self.setup.destinations.get(at)?;
            let error = copying::try_destination(setup, &rule.directories, rule.rate_bits).err()?;
            let why = split(&error.to_string()).0.to_owned();
            Some(format!("delivery to {} ({}:{}): {why}", rule.destination, setup.host, setup.port))
        };
        rules.iter().filter_map(failing).collect()
    }

    fn find_recording(&self, target: &DeliveryTarget) -> DeliveryEvent {
        let found = self.find(std::slice::from_ref(&target.recording));
        let parts = found.and_then(|mut found| match found.pop() {
            Some(on_disks) if !on_disks.is_empty() => parts(&target.recording, on_disks, &target.directories),
            _ => Ok(Vec::new()),
        });
        let parts = parts.map_err(|error| split(&error.to_string()).0.to_owned());
        DeliveryEvent::Found { target: target.clone(), parts }
    }

    fn note_delivery(&self, schedule: &str, record: &DeliveryRecord) -> DeliveryEvent {
        let kept = self.keep_queue().and_then(|()| self.jobs.append(schedule, record));
        DeliveryEvent::Noted { copy: record.copy, is_kept: kept.is_ok() }
    }
}

/// The recordings of the scans that are meant.
fn matching(
    patterns: &[String],
    schedule: &StationSchedule,
    name: impl Fn(&str) -> String,
) -> Result<BTreeSet<String>, String> {
    let mut meant = BTreeSet::new();
    for text in patterns {
        let pattern = ScanPattern::new(text)?;
        let before = meant.len();
        for scan in &schedule.scans {
            let recording = name(&scan.name);
            if pattern.matches(&scan.name) || pattern.matches(&recording) {
                meant.insert(recording);
            }
        }
        if meant.len() == before {
            return Err(format!(
                "no scan of the schedule is named `{text}`{}",
                Hint("or another rule has it")
            ));
        }
    }
    Ok(meant)
}

/// Starts the thread. It ends with the service.
pub(super) fn start(shared: &Arc<Shared>, jobs: Receiver<StationAction>) -> io::Result<()> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("station-deliver".into()).spawn(move || {
        while !shared.over.load(Ordering::Relaxed) {
            let event = match jobs.recv_timeout(WAIT_STEP) {
                Ok(StationAction::FindRecording(target)) => shared.find_recording(&target),
                Ok(StationAction::NoteDelivery { schedule, record }) => {
                    shared.note_delivery(&schedule, &record)
                }
                // It gets no other actions.
                Ok(_) | Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            shared.report(StationEvent::Delivery(event));
        }
    })?;
    Ok(())
}
