//! What prevents scans from being recorded as scheduled: names, overlaps, and rate, memory and space beside all that is scheduled.

use super::Station;
use super::schedule::{PlannedScan, PlannedState, ScheduleConflict, ScheduleRequest};
use super::state::{MAX_SCHEDULED_NAME_BYTES, UnixMillis, is_scan_name};
use std::collections::BTreeMap;

impl Station {
    /// Returns what prevents scans from being recorded as scheduled, beside all that is scheduled already.
    #[must_use]
    pub fn conflicts(&self, now: UnixMillis, request: &ScheduleRequest) -> Vec<ScheduleConflict> {
        match self.input_of(&request.input) {
            Ok(input) => self.conflicts_on(now, request, input),
            Err(_) => Vec::new(),
        }
    }

    pub(super) fn conflicts_on(
        &self,
        now: UnixMillis,
        request: &ScheduleRequest,
        input: usize,
    ) -> Vec<ScheduleConflict> {
        let now = now.0.div_euclid(1000);
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        // All that is not over: input, scan, and whether it is new.
        let mut all: Vec<(usize, &PlannedScan, bool)> = Vec::new();
        for (schedule, followed) in self.schedules.iter().filter(|(name, _)| **name != request.name) {
            for status in followed.scans.values() {
                names.insert(&status.scan.name, schedule);
                if matches!(status.state, PlannedState::Waiting | PlannedState::Recording) {
                    all.push((followed.input, &status.scan, false));
                }
            }
        }
        let mut found = Vec::new();
        for scan in request.scans.iter().filter(|scan| scan.start < scan.stop) {
            if !is_scan_name(&scan.name) || scan.name.len() > MAX_SCHEDULED_NAME_BYTES {
                found.push(ScheduleConflict::BadName { scan: scan.name.clone() });
            }
            if let Some(schedule) = names.insert(&scan.name, &request.name) {
                let (scan, schedule) = (scan.name.clone(), schedule.to_owned());
                found.push(ScheduleConflict::NameRepeated { scan, schedule });
            }
            if now < scan.stop {
                all.push((input, scan, true));
            }
        }
        all.sort_by_key(|(_, scan, _)| (scan.start, scan.stop));
        self.compare(&all, &mut found);
        found
    }

    /// Compares scans, by start time, with each other and with what the station has.
    fn compare(&self, all: &[(usize, &PlannedScan, bool)], found: &mut Vec<ScheduleConflict>) {
        // By input, the scan that ends last of those before, and whether it is new.
        let mut before: BTreeMap<usize, (&PlannedScan, bool)> = BTreeMap::new();
        let (rate_total, free) = (self.usable_rate(), self.free_bytes());
        let mut space = 0u64;
        for &(input, scan, is_new) in all {
            if let Some((other, is_other_new)) = before.get(&input)
                && other.stop > scan.start
                && (is_new || *is_other_new)
            {
                let (name, with, seconds) =
                    (scan.name.clone(), other.name.clone(), other.stop.saturating_sub(scan.start));
                found.push(ScheduleConflict::Overlap { scan: name, with, seconds });
            }
            if before.get(&input).is_none_or(|(other, _)| other.stop <= scan.stop) {
                before.insert(input, (scan, is_new));
            }
            let inputs = &self.config.inputs;
            before.retain(|_, (other, _)| other.stop > scan.start);
            let is_any_new = before.values().any(|(_, is_new)| *is_new);
            let wanted: u64 = before.keys().filter_map(|at| inputs[*at].rate_bits).sum();
            if let Some(total) = rate_total.filter(|total| is_any_new && wanted > *total) {
                found.push(ScheduleConflict::Rate { scan: scan.name.clone(), wanted, total });
            }
            let wanted: u64 = before.keys().map(|at| inputs[*at].memory_bytes).sum();
            let total = self.config.memory_bytes;
            if is_any_new && wanted > total {
                found.push(ScheduleConflict::Memory { scan: scan.name.clone(), wanted, total });
            }
            let rate = scan.rate_bits.or(inputs[input].rate_bits).unwrap_or(0);
            let seconds = scan.stop.saturating_sub(scan.start).unsigned_abs();
            space = space.saturating_add((rate / 8).saturating_mul(seconds));
            if let Some(free) = free.filter(|free| is_new && space > *free) {
                found.push(ScheduleConflict::Space { scan: scan.name.clone(), wanted: space, free });
            }
        }
    }
}
