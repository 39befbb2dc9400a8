//! Schedules that a station follows: [`Sequencer`](crate::observation::sequencer::Sequencer) says which scan is due, and the station
//! starts it as it starts what a client asks for, with the same admission.
//!
//! ```text
//!   LoadSchedule ──▶ conflicts? ──▶ Sequencer, a lane for each input
//!                                     │ Start        ▲ Refused: reason, tried again
//!                                     ▼              │ Ended
//!                                   admission ──▶ recording ──▶ Journal, ScanChanged
//! ```
//!
//! Limits: [`MAX_SCHEDULES`]; times are whole seconds.

use super::delivery::deliveries_of;
use super::schedule::{
    Followed, MAX_SCHEDULES, PlannedState, PlannedStatus, ScheduleRecord, ScheduleRequest, ScheduleStatus,
};
use super::{
    MAX_NAME_BYTES, RecordingId, RecordingOutcome, RecordingStatus, RequestId, STOP_GRACE_MILLIS,
    StartRequest, Station, StationAction, StationRefusal, UnixMillis, is_scan_name,
};
use crate::observation::sequencer::{JournalRecord, ScanEnd, SequencedScan, SequencerAction, SequencerEvent};
use std::collections::{BTreeMap, VecDeque};

/// A recording ends itself this long after its scan by the host's clock, if its data do not end it, seconds.
const GRACE_SECONDS: i64 = STOP_GRACE_MILLIS / 1000;

impl Station {
    /// Returns the scans of a schedule, by start time.
    #[must_use]
    pub fn schedule(&self, name: &str) -> Option<Vec<PlannedStatus>> {
        let mut scans: Vec<_> = self.schedules.get(name)?.scans.values().cloned().collect();
        scans.sort_by_key(|status| (status.scan.start, status.scan.stop));
        Some(scans)
    }

    /// Returns what is known of all schedules, by name.
    #[must_use]
    pub fn schedules(&self) -> Vec<ScheduleStatus> {
        self.schedules.values().map(|followed| followed.status.clone()).collect()
    }

    pub(super) fn load_schedule(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        request: ScheduleRequest,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        use StationRefusal as R;
        if self.shutting_down {
            return Err(R::ShuttingDown);
        }
        let input = self.input_of(&request.input)?;
        if !is_scan_name(&request.name) {
            return Err(R::BadName { name: request.name.chars().take(MAX_NAME_BYTES).collect() });
        }
        let is_known = self.schedules.contains_key(&request.name);
        if is_known && !request.replace {
            return Err(R::ScheduleLoaded { name: request.name });
        }
        if !is_known && self.schedules.len() >= MAX_SCHEDULES {
            return Err(R::TooManySchedules);
        }
        let mut conflicts = self.conflicts_on(now, &request, input);
        conflicts.retain(|conflict| conflict.is_fatal() || !(request.accept_conflicts || conflict.is_note()));
        if !conflicts.is_empty() {
            return Err(R::ScheduleConflicts { name: request.name, conflicts });
        }
        self.forget(&request.name);
        self.sequencer.remember(&request.journal);
        let name = &request.name;
        let mut scans = BTreeMap::new();
        for mut scan in request.scans.into_iter().filter(|scan| scan.start < scan.stop) {
            let (start, stop) = (scan.start, scan.stop);
            let at = self.sequencer.add(SequencedScan { name: scan.name.clone(), start, stop, lane: input });
            // What is being recorded ends when it was to end.
            scan.stop = self.sequencer.scan(at).map_or(stop, |scan| scan.stop);
            let status_name = scan.name.clone();
            let status = PlannedStatus {
                schedule: name.clone(),
                scan,
                state: PlannedState::Waiting,
                attempts: 0,
                recording: None,
                reason: None,
                deliveries: deliveries_of(&request.deliveries, &status_name),
            };
            scans.insert(at, status);
        }
        self.deliveries.remember(&request.name, &request.delivered);
        let (status, deliveries) = (ScheduleStatus::default(), request.deliveries);
        self.schedules.insert(request.name, Followed { input, scans, deliveries, status });
        self.follow(now, true, actions);
        self.look_at_deliveries();
        actions.push(StationAction::SchedulesChanged);
        actions.push(StationAction::Reply { id, reply: Ok(None) });
        Ok(())
    }

    pub(super) fn remove_schedule(
        &mut self,
        id: RequestId,
        name: &str,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        if !self.forget(name) {
            let name = name.chars().take(MAX_NAME_BYTES).collect();
            return Err(StationRefusal::NoSchedule {
                name,
                loaded: self.schedules.keys().cloned().collect(),
            });
        }
        actions.push(StationAction::SchedulesChanged);
        actions.push(StationAction::Reply { id, reply: Ok(None) });
        Ok(())
    }

    /// Removes a schedule; what is recorded of it continues to its end.
    fn forget(&mut self, name: &str) -> bool {
        let Some(followed) = self.schedules.remove(name) else { return false };
        followed.scans.into_keys().for_each(|scan| self.sequencer.remove(scan));
        true
    }

    /// Starts and stops what is due, once a second or if `now` matters for another reason.
    pub(super) fn follow(&mut self, now: UnixMillis, is_changed: bool, actions: &mut Vec<StationAction>) {
        let seconds = now.0.div_euclid(1000);
        if self.schedules.is_empty() && self.scheduled.is_empty()
            || self.followed_at == Some(seconds) && !is_changed
        {
            return;
        }
        self.followed_at = Some(seconds);
        let due = self.sequencer.handle(SequencerEvent::Time(seconds));
        self.carry_out(now, due, "", actions);
        self.update_schedules(seconds, actions);
    }

    /// Ends what is recorded by schedules, and starts nothing more of them.
    pub(super) fn end_schedules(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        let due = self.sequencer.handle(SequencerEvent::Interrupt);
        self.carry_out(now, due, "", actions);
    }

    /// Carries out what is due. What is to be written is of the schedule `ended`.
    fn carry_out(
        &mut self,
        now: UnixMillis,
        due: Vec<SequencerAction>,
        ended: &str,
        actions: &mut Vec<StationAction>,
    ) {
        let mut due = VecDeque::from(due);
        while let Some(action) = due.pop_front() {
            match action {
                SequencerAction::Write(record) => {
                    let schedule = ended.to_owned();
                    actions.push(StationAction::Journal(ScheduleRecord { schedule, record }));
                }
                SequencerAction::Start { scan, name, start, stop, begun } => {
                    if let Err(event) = self.start_scan(now, (scan, begun), (name, start, stop), actions) {
                        due.extend(self.sequencer.handle(event));
                    }
                }
                SequencerAction::Stop { scan } => {
                    let recording = self.scheduled.iter().find(|(_, at)| **at == scan).map(|(id, _)| *id);
                    if let Some(held) = recording.and_then(|id| self.active.get_mut(&id)) {
                        held.stop(actions);
                    }
                }
                SequencerAction::Finish => {}
            }
        }
    }

    /// Starts the recording of a scan, or tells the sequencer why not.
    fn start_scan(
        &mut self,
        now: UnixMillis,
        (scan, begun): (usize, JournalRecord),
        (name, start, stop): (String, i64, i64),
        actions: &mut Vec<StationAction>,
    ) -> Result<(), SequencerEvent> {
        let Some((schedule, input)) = self.schedules.iter().find_map(|(name, followed)| {
            followed.scans.contains_key(&scan).then(|| (name.clone(), followed.input))
        }) else {
            return Err(SequencerEvent::Refused { scan, name_taken: false });
        };
        let input = self.config.inputs[input].name.clone();
        let request =
            StartRequest { name, input, start: Some(start), stop: Some(stop), ..StartRequest::default() };
        let begun = ScheduleRecord { schedule, record: begun };
        match self.admit(now, &request) {
            Ok((input, reserved)) => {
                let recording = request.name.clone();
                let id = self.open(now, (input, reserved), request, Some(begun), actions);
                self.scheduled.insert(id, scan);
                self.note(scan, |status| (status.recording, status.reason) = (Some(recording), None));
                Ok(())
            }
            Err(refusal) => {
                let name_taken = matches!(refusal, StationRefusal::NameTaken { .. });
                let reason = Some(refusal.to_string());
                self.note(scan, |status| {
                    if status.reason != reason {
                        status.reason = reason;
                        actions.push(StationAction::ScanChanged(status.clone()));
                    }
                });
                Err(SequencerEvent::Refused { scan, name_taken })
            }
        }
    }

    /// A recording of a schedule has ended.
    pub(super) fn scan_ended(
        &mut self,
        now: UnixMillis,
        recording: RecordingId,
        (status, was_stopping): (&RecordingStatus, bool),
        actions: &mut Vec<StationAction>,
    ) {
        let Some(scan) = self.scheduled.remove(&recording) else { return };
        let seconds = now.0.div_euclid(1000);
        let is_early = status.stop.is_some_and(|stop| seconds < stop.saturating_sub(GRACE_SECONDS));
        let end = match &status.outcome {
            Some(RecordingOutcome::Failed(_)) => ScanEnd::Failed,
            Some(RecordingOutcome::Lossy(_)) if is_early && !was_stopping => ScanEnd::Failed,
            _ if is_early && was_stopping && self.shutting_down => ScanEnd::Cut,
            _ if is_early && was_stopping => ScanEnd::Dropped,
            _ => ScanEnd::Complete,
        };
        let reason = status.outcome.as_ref().map(|outcome| match outcome.reason() {
            Some(reason) => format!("{}: {reason}", outcome.name()),
            None => outcome.name().to_owned(),
        });
        self.note(scan, |status| status.reason = reason);
        let due = self.sequencer.handle(SequencerEvent::Time(seconds));
        self.carry_out(now, due, "", actions);
        let due = self.sequencer.handle(SequencerEvent::Ended { scan, end });
        self.carry_out(now, due, status.schedule.as_deref().unwrap_or_default(), actions);
        self.update_schedules(seconds, actions);
    }

    fn note(&mut self, scan: usize, change: impl FnOnce(&mut PlannedStatus)) {
        if let Some(status) = self.schedules.values_mut().find_map(|of| of.scans.get_mut(&scan)) {
            change(status);
        }
    }

    /// Compares what became of each scan with what was known, and tells what changed.
    fn update_schedules(&mut self, now: i64, actions: &mut Vec<StationAction>) {
        for (name, followed) in &mut self.schedules {
            let input = self.config.inputs[followed.input].name.clone();
            let mut sum = ScheduleStatus { name: name.clone(), input, ..ScheduleStatus::default() };
            sum.scans = followed.scans.len();
            sum.deliveries = std::mem::take(&mut followed.status.deliveries);
            for (at, status) in &mut followed.scans {
                let progress = self.sequencer.progress(*at).unwrap_or_default();
                let state = match (progress.is_recorded, progress.end) {
                    (true, _) => PlannedState::Recording,
                    (_, Some(ScanEnd::Dropped)) => PlannedState::Stopped,
                    (_, Some(_)) => PlannedState::Recorded,
                    (_, None) if now < status.scan.stop => PlannedState::Waiting,
                    (_, None) if progress.attempts > 0 => PlannedState::Cut,
                    (_, None) => PlannedState::Missed,
                };
                *sum.states.entry(state).or_default() += 1;
                let next = (&status.scan.name, status.scan.start);
                if state == PlannedState::Waiting
                    && sum.next.as_ref().is_none_or(|(_, start)| next.1 < *start)
                {
                    sum.next = Some((next.0.clone(), next.1));
                }
                if (state, progress.attempts) != (status.state, status.attempts) {
                    (status.state, status.attempts) = (state, progress.attempts);
                    actions.push(StationAction::ScanChanged(status.clone()));
                }
            }
            followed.status = sum;
        }
    }

    /// The number of an input by its name; the first one if that is empty.
    pub(super) fn input_of(&self, name: &str) -> Result<usize, StationRefusal> {
        let inputs = &self.config.inputs;
        match name {
            "" if !inputs.is_empty() => Ok(0),
            name => {
                inputs.iter().position(|input| input.name == name).ok_or_else(|| StationRefusal::NoInput {
                    input: name.to_owned(),
                    inputs: inputs.iter().map(|input| input.name.clone()).collect(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
