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
use super::queue::{parse_destination, parts};
use super::shared::Shared;
use serde::{Deserialize, Serialize};
use skyhaul::core::hint::{Hint, split};
use skyhaul::io::lock::lock;
use skyhaul::recording::ScanPattern;
use skyhaul_core::observation::delivery::{
    DayWindow, DeliveryMoment, MAX_DELIVERIES, MAX_PRIORITY, ScheduledDelivery, minute_of_day,
};
use skyhaul_core::observation::scan::StationSchedule;
use skyhaul_core::station::{DeliveryEvent, DeliveryRecord, DeliveryRule, DeliveryTarget, StationEvent};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A thread that waits looks this often whether the service has ended.
const WAIT_STEP: Duration = Duration::from_millis(50);

/// What the thread of deliveries is to do.
#[derive(Debug)]
pub(super) enum DeliveryJob {
    /// Find out where a recording lies.
    Find(DeliveryTarget),
    /// Write down that it is queued.
    Note(String, DeliveryRecord),
}

/// A delivery as clients write it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeliveryBody {
    pub(super) to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) scans: Vec<String>,
    pub(super) after: Option<String>,
    pub(super) from: Option<String>,
    pub(super) until: Option<String>,
    pub(super) priority: i8,
    pub(super) rate_bits: Option<u64>,
}

impl DeliveryBody {
    pub(super) fn read(self) -> Result<ScheduledDelivery, String> {
        let after = self.after.as_deref().unwrap_or(DeliveryMoment::Scan.name());
        let after = DeliveryMoment::of(after)
            .ok_or_else(|| format!("after: expected scan or session{}", Hint("or omit it: scan")))?;
        let hours = read_hours(self.from.as_deref(), self.until.as_deref())?;
        let (to, scans, rate_bits) = (self.to, self.scans, self.rate_bits);
        Ok(ScheduledDelivery { to, scans, after, hours, priority: read_priority(self.priority)?, rate_bits })
    }

    /// What a rule was made of.
    pub(super) fn of(rule: &DeliveryRule) -> Self {
        let to = |directory: &String| format!("{}:{directory}", rule.destination);
        let time = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        Self {
            to: rule.directories.iter().map(to).collect(),
            scans: rule.scans.iter().flatten().cloned().collect(),
            after: Some(rule.after.name().to_owned()),
            from: rule.hours.map(|hours| time(hours.from_minute)),
            until: rule.hours.map(|hours| time(hours.to_minute)),
            priority: rule.priority,
            rate_bits: rule.rate_bits,
        }
    }

    /// The rule of a delivery that was accepted.
    pub(super) fn rule(&self) -> Result<DeliveryRule, String> {
        let order = self.clone().read()?;
        let (destination, directories) = parse_destination(&order.to).map_err(|error| error.to_string())?;
        let scans = (!order.scans.is_empty()).then(|| order.scans.into_iter().collect());
        let ScheduledDelivery { after, hours, priority, rate_bits, .. } = order;
        Ok(DeliveryRule { destination, directories, scans, after, hours, priority, rate_bits })
    }
}

/// Hours of the day from both of their ends.
pub(super) fn read_hours(from: Option<&str>, until: Option<&str>) -> Result<Option<DayWindow>, String> {
    let minute = |text: &str| {
        let hint = || Hint("UTC, such as 22:00");
        minute_of_day(text).ok_or_else(|| format!("expected a time of the day, got `{text}`{}", hint()))
    };
    match (from, until) {
        (None, None) => Ok(None),
        (Some(from), Some(to)) => Ok(Some(DayWindow { from_minute: minute(from)?, to_minute: minute(to)? })),
        _ => Err(format!("from needs until, and until needs from{}", Hint("both are times of the day, UTC"))),
    }
}

pub(super) fn read_priority(priority: i8) -> Result<i8, String> {
    match (-MAX_PRIORITY..=MAX_PRIORITY).contains(&priority) {
        true => Ok(priority),
        false => Err(format!("priority: expected -{MAX_PRIORITY} to {MAX_PRIORITY}")),
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
            let (destination, directories) = parse_destination(&one.to).map_err(|error| error.to_string())?;
            let known = &self.setup.config.destinations;
            if !known.iter().any(|known| known.name == destination) {
                let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
                let hint = match names.is_empty() {
                    true => Hint("add [[station.destination]] to the configuration".to_owned()),
                    false => Hint(format!("the destinations are: {}", names.join(", "))),
                };
                return Err(format!("no destination is named `{destination}`{hint}"));
            }
            let disks = self.setup.disks.len();
            if directories.len() < disks {
                let hint = Hint(format!("a directory for each, such as {destination}:/d1 {destination}:/d2"));
                return Err(format!("recordings are on {disks} disks, delivered to fewer directories{hint}"));
            }
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
pub(super) fn start(shared: &Arc<Shared>, jobs: Receiver<DeliveryJob>) -> io::Result<()> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("station-deliver".into()).spawn(move || {
        while !shared.over.load(Ordering::Relaxed) {
            let event = match jobs.recv_timeout(WAIT_STEP) {
                Ok(DeliveryJob::Find(target)) => shared.find_recording(&target),
                Ok(DeliveryJob::Note(schedule, record)) => shared.note_delivery(&schedule, &record),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            shared.report(StationEvent::Delivery(event));
        }
    })?;
    Ok(())
}

impl Shared {
    /// Hands a job to the thread.
    pub(super) fn have_delivered(&self, job: DeliveryJob) {
        // It takes jobs as long as the service runs.
        let _ = lock(&self.deliveries).send(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_accepted_is_read_again() {
        let body = DeliveryBody {
            to: vec!["correlator:/d1".into(), "correlator:/d2".into()],
            after: Some("session".into()),
            from: Some("22:00".into()),
            until: Some("06:00".into()),
            priority: -2,
            rate_bits: Some(7),
            ..DeliveryBody::default()
        };
        let rule = body.rule().unwrap();
        assert_eq!(
            (rule.destination.as_str(), rule.directories.len(), rule.scans.as_ref()),
            ("correlator", 2, None)
        );
        assert_eq!(DeliveryBody::of(&rule).rule(), Ok(rule));
        for (change, expected) in [
            (DeliveryBody { from: None, ..body.clone() }, "until needs from"),
            (DeliveryBody { from: Some("25:00".into()), ..body.clone() }, "expected a time of the day"),
            (DeliveryBody { after: Some("lunch".into()), ..body.clone() }, "expected scan or session"),
            (DeliveryBody { priority: 10, ..body.clone() }, "expected -9 to 9"),
            (DeliveryBody { to: Vec::new(), ..body }, "expected 1 to"),
        ] {
            let error = change.rule().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
