//! Desired scans: each is begun once, or its ack says why not.
//!
//! ```text
//!   seen ─▶ Accepted ─ due: the station is asked ─▶ Started ─ it ends ─▶ Ended
//!              │ stop desired        │ refused, or busy until the deadline   │ restart
//!              ▼                     ▼                                       ▼
//!          Cancelled           Refused, Late                                Cut
//! ```
//!
//! The journal has each state before anything follows from it. The store is needed to see a desired scan, not to record it.

use super::events::{DesiredRecord, KeyLease, MemberAction, MemberRecord, MemberRequestId, StationAnswer};
use super::held::{BUSY_RETRY_MILLIS, Held, MAX_DESIRED_SCANS, recording_name};
use super::key::FleetName;
use super::member::FleetMember;
use super::outbox::Change;
use super::value::{AckState, ClosedScan, DesiredAction, DesiredScan, FleetAlarm, FleetValue, ScanAck};
use crate::station::{MAX_NAME_BYTES, UnixMillis, is_scan_name};
use std::collections::{BTreeMap, BTreeSet};

/// The alarm of desired scans that find no room.
const FULL_ALARM: &str = "fleet-desired-full";

impl FleetMember {
    /// The first event of a run: what the journal says of recordings is compared with those that run.
    pub(super) fn began(
        &mut self,
        active: Vec<String>,
        closed: Vec<ClosedScan>,
        actions: &mut Vec<MemberAction>,
    ) {
        self.active = active.into_iter().collect();
        let ended: BTreeMap<String, String> =
            closed.iter().map(|scan| (scan.recording.clone(), scan.outcome.clone())).collect();
        closed.into_iter().for_each(|scan| self.close(scan, actions));
        let scans: Vec<FleetName> = self.desires.scans.keys().cloned().collect();
        for scan in scans {
            let Some(held) = self.desires.scans.get(&scan) else { continue };
            let recording = held.record.ack.recording.clone();
            let is_asked = held.was_asked;
            if held.record.ack.state != AckState::Started && !is_asked {
                continue;
            }
            if self.active.contains(&recording) {
                self.answer(&scan, AckState::Started, None, actions);
            } else if ended.contains_key(&recording) || self.published.has_recording(&recording) || !is_asked
            {
                let reason = "the recorder was restarted while it was recorded".to_owned();
                self.answer(&scan, AckState::Cut, Some(reason), actions);
            } else {
                // Whether the station began it is not known: it is asked again, and knows the names of its recordings.
                self.wait_again(&scan, None);
            }
        }
    }

    /// A desired scan was written, or is in the listing.
    pub(super) fn desired_written(
        &mut self,
        now: UnixMillis,
        scan: FleetName,
        revision: u64,
        value: Result<FleetValue, String>,
        actions: &mut Vec<MemberAction>,
    ) {
        let before = self.desires.scans.get(&scan);
        if before.is_some_and(|held| held.record.ack.desired_revision == revision) {
            return;
        }
        if before.is_none() && self.desires.len() >= MAX_DESIRED_SCANS {
            self.desires.refused += 1;
            let text =
                format!("more than {MAX_DESIRED_SCANS} desired scans: {scan} and others are not recorded");
            return self.raise_alarm(&FleetName::literal(FULL_ALARM), FleetAlarm { text, since: now });
        }
        let desired = match value {
            Ok(FleetValue::Desired(desired)) => desired,
            Ok(_) => return self.refuse_unread(now, scan, revision, "not a desired scan", actions),
            Err(reason) => return self.refuse_unread(now, scan, revision, &reason, actions),
        };
        let recording = recording_name(&desired.experiment, &self.config.station, &scan);
        let action = desired.action;
        let begun =
            before.is_some_and(|held| held.record.ack.state == AckState::Started || held.record.is_asked);
        let is_running = self.active.contains(&recording) || begun;
        let waited = before.is_some_and(Held::waits);
        let record = DesiredRecord {
            ack: ScanAck { desired_revision: revision, state: AckState::Accepted, reason: None, recording },
            is_asked: false,
            seen_at: now,
            desired,
            scan: scan.clone(),
        };
        match action {
            DesiredAction::Start if is_running => self.already_running(record, actions),
            DesiredAction::Start => self.accept(now, record, actions),
            DesiredAction::Stop if is_running => self.ask_to_stop(record, actions),
            DesiredAction::Stop => {
                let (state, reason) = match waited {
                    true => (AckState::Cancelled, "stopped before it began"),
                    false => (AckState::Refused, "no recording of this scan runs"),
                };
                self.desires.remember(record);
                self.answer(&scan, state, Some(reason.to_owned()), actions);
            }
        }
    }

    fn refuse_unread(
        &mut self,
        now: UnixMillis,
        scan: FleetName,
        revision: u64,
        reason: &str,
        actions: &mut Vec<MemberAction>,
    ) {
        // A value that nobody can read does not disturb the recording that an earlier one began.
        if let Some(held) = self.desires.scans.get_mut(&scan)
            && !held.record.ack.state.is_final()
        {
            held.record.ack.desired_revision = revision;
            let state = held.record.ack.state;
            let reason = format!("the new value cannot be read, the earlier one stands: {reason}");
            return self.answer(&scan, state, Some(reason), actions);
        }
        let nothing = DesiredScan {
            action: DesiredAction::Stop,
            experiment: scan.clone(),
            start: None,
            stop: None,
            source: String::new(),
            mode: String::new(),
            deadline: None,
        };
        let ack = ScanAck {
            desired_revision: revision,
            state: AckState::Refused,
            reason: None,
            recording: String::new(),
        };
        let scan_name = scan.clone();
        self.desires.remember(DesiredRecord { scan, desired: nothing, seen_at: now, ack, is_asked: false });
        self.answer(
            &scan_name,
            AckState::Refused,
            Some(format!("the value cannot be read: {reason}")),
            actions,
        );
    }

    /// It is being recorded already: it is not begun again, and its times stay.
    fn already_running(&mut self, mut record: DesiredRecord, actions: &mut Vec<MemberAction>) {
        let scan = record.scan.clone();
        let before = self.desires.scans.get(&scan);
        record.is_asked = before.is_some_and(|held| held.record.is_asked);
        let has_changed = before.is_none_or(|held| held.record.desired != record.desired);
        let reason = has_changed.then(|| "it is being recorded already; its times are unchanged".to_owned());
        let state = if record.is_asked { AckState::Accepted } else { AckState::Started };
        // Before it is remembered: what is accepted and not asked for would be begun when it is due.
        record.ack.state = state;
        self.desires.remember(record);
        if let Some(held) = self.desires.scans.get_mut(&scan) {
            held.was_asked = false;
        }
        self.answer_as(&scan, state, reason, actions);
    }

    fn accept(&mut self, now: UnixMillis, record: DesiredRecord, actions: &mut Vec<MemberAction>) {
        let scan = record.scan.clone();
        let desired = &record.desired;
        let is_empty = matches!((desired.start, desired.stop), (Some(start), Some(stop)) if stop <= start);
        let refused = if is_empty {
            Some("its stop is not after its start".to_owned())
        } else if !is_scan_name(&record.ack.recording) {
            Some(format!("the name of its recording is longer than {MAX_NAME_BYTES} bytes"))
        } else if self.published.has_recording(&record.ack.recording) {
            Some(format!("a recording named {} exists", record.ack.recording))
        } else {
            None
        };
        self.desires.remember(record);
        let Some(held) = self.desires.scans.get(&scan) else { return };
        let deadline = held.deadline();
        match refused {
            Some(reason) => self.answer(&scan, AckState::Refused, Some(reason), actions),
            None if deadline < now => {
                let late = format!("it came {} s after its deadline", (now.0 - deadline.0).div_euclid(1000));
                self.answer(&scan, AckState::Late, Some(late), actions);
            }
            None => self.answer(&scan, AckState::Accepted, None, actions),
        }
    }

    fn ask_to_stop(&mut self, mut record: DesiredRecord, actions: &mut Vec<MemberAction>) {
        let scan = record.scan.clone();
        let before = self.desires.scans.get(&scan);
        record.is_asked = before.is_some_and(|held| held.record.is_asked);
        let recording = record.ack.recording.clone();
        record.ack.state = AckState::Started;
        self.desires.remember(record);
        self.answer_as(&scan, AckState::Started, Some("it is being stopped".to_owned()), actions);
        self.send_stop(&scan, recording, actions);
    }

    fn send_stop(&mut self, scan: &FleetName, recording: String, actions: &mut Vec<MemberAction>) {
        let request = self.request_id();
        self.desires.requests.insert(request, (scan.clone(), DesiredAction::Stop));
        actions.push(MemberAction::Stop { request, recording });
    }

    /// The scheduler deleted the key: what has not begun is not begun; what is recorded is recorded to its end.
    pub(super) fn desired_deleted(&mut self, scan: &FleetName, actions: &mut Vec<MemberAction>) {
        let Some(held) = self.desires.scans.get_mut(scan) else { return };
        if held.record.is_asked || held.record.ack.state == AckState::Started {
            held.is_orphan = true;
            return;
        }
        self.forget_desired(scan, actions);
    }

    fn forget_desired(&mut self, scan: &FleetName, actions: &mut Vec<MemberAction>) {
        self.desires.forget(scan);
        actions.push(MemberAction::Journal(MemberRecord::Forgotten { scan: scan.clone() }));
        self.outbox.set(self.config.ack(scan), Change::Delete);
    }

    /// The listing has these desired scans: the scheduler deleted all others.
    pub(super) fn forget_all_but(&mut self, listed: &BTreeSet<FleetName>, actions: &mut Vec<MemberAction>) {
        let gone: Vec<FleetName> =
            self.desires.scans.keys().filter(|scan| !listed.contains(*scan)).cloned().collect();
        gone.iter().for_each(|scan| self.desired_deleted(scan, actions));
        if self.desires.len() < MAX_DESIRED_SCANS {
            self.clear_alarm(&FleetName::literal(FULL_ALARM));
        }
    }

    /// Asks the station for what is due.
    pub(super) fn begin_due(&mut self, now: UnixMillis, actions: &mut Vec<MemberAction>) {
        while self.desires.next_deadline().is_some_and(|due| due <= now) {
            let Some((_, scan)) = self.desires.due.pop_first() else { return };
            let Some(held) = self.desires.scans.get_mut(&scan) else { continue };
            let deadline = held.deadline();
            if deadline < now {
                let since = (now.0 - deadline.0).div_euclid(1000);
                let (state, reason) = match held.record.ack.reason.take() {
                    Some(reason) => (AckState::Refused, reason),
                    None => (
                        AckState::Late,
                        format!("it could begin {since} s after its deadline at the earliest"),
                    ),
                };
                self.answer(&scan, state, Some(reason), actions);
                continue;
            }
            held.record.is_asked = true;
            let (record, recording) = (held.record.clone(), held.record.ack.recording.clone());
            let desired = record.desired.clone();
            actions.push(MemberAction::Journal(MemberRecord::Desired(record)));
            let request = self.request_id();
            self.desires.requests.insert(request, (scan, DesiredAction::Start));
            actions.push(MemberAction::Start { request, recording, desired });
        }
    }

    /// The station answers.
    pub(super) fn desired_answered(
        &mut self,
        now: UnixMillis,
        request: MemberRequestId,
        answer: StationAnswer,
        actions: &mut Vec<MemberAction>,
    ) {
        let Some((scan, action)) = self.desires.requests.remove(&request) else { return };
        let Some(held) = self.desires.scans.get(&scan) else { return };
        if action == DesiredAction::Stop {
            let state = held.record.ack.state;
            if let (StationAnswer::Refused { reason } | StationAnswer::Busy { reason }, false) =
                (answer, state.is_final())
            {
                self.answer_as(&scan, state, Some(format!("it could not be stopped: {reason}")), actions);
            }
            return;
        }
        if !held.record.is_asked {
            // Its end was reported before the answer.
            return;
        }
        let (recording, was_asked) = (held.record.ack.recording.clone(), held.was_asked);
        let is_stop = held.record.desired.action == DesiredAction::Stop;
        match answer {
            StationAnswer::Done => self.answer(&scan, AckState::Started, None, actions),
            StationAnswer::NameTaken if was_asked && self.active.contains(&recording) => {
                self.answer(&scan, AckState::Started, None, actions);
            }
            StationAnswer::NameTaken if was_asked => {
                let reason = "the recorder was restarted while it was recorded".to_owned();
                self.answer(&scan, AckState::Cut, Some(reason), actions);
            }
            StationAnswer::NameTaken => {
                let reason = format!("a recording named {recording} exists");
                self.answer(&scan, AckState::Refused, Some(reason), actions);
            }
            StationAnswer::Busy { reason } | StationAnswer::NotRead { reason } if is_stop => {
                self.answer(&scan, AckState::Cancelled, Some(reason), actions);
            }
            StationAnswer::Busy { reason } | StationAnswer::NotRead { reason } => {
                if held.is_orphan {
                    return self.forget_desired(&scan, actions);
                }
                self.wait_again(&scan, Some((UnixMillis(now.0 + BUSY_RETRY_MILLIS), reason)));
                self.answer_as(&scan, AckState::Accepted, self.reason_of(&scan), actions);
            }
            StationAnswer::Refused { reason } => {
                self.answer(&scan, AckState::Refused, Some(reason), actions);
            }
        }
    }

    fn reason_of(&self, scan: &FleetName) -> Option<String> {
        self.desires.scans.get(scan).and_then(|held| held.record.ack.reason.clone())
    }

    fn wait_again(&mut self, scan: &FleetName, busy: Option<(UnixMillis, String)>) {
        let Some(held) = self.desires.scans.get_mut(scan) else { return };
        held.record.is_asked = false;
        if let Some((due, reason)) = busy {
            held.was_asked = false;
            held.due = due;
            held.record.ack.reason = Some(reason);
        }
        self.desires.due.insert((held.due, scan.clone()));
    }

    pub(super) fn desired_opened(&mut self, recording: &str, actions: &mut Vec<MemberAction>) {
        let Some(scan) = self.desires.recordings.get(recording).cloned() else { return };
        let is_new = |held: &Held| held.record.is_asked && held.record.ack.state == AckState::Accepted;
        if self.desires.scans.get(&scan).is_some_and(is_new) {
            self.answer(&scan, AckState::Started, None, actions);
        }
    }

    pub(super) fn desired_ended(&mut self, recording: &str, outcome: &str, actions: &mut Vec<MemberAction>) {
        let Some(scan) = self.desires.recordings.get(recording).cloned() else { return };
        let Some(held) = self.desires.scans.get(&scan) else { return };
        if held.record.ack.state == AckState::Started || held.record.is_asked {
            let reason = (!matches!(outcome, "complete" | "gaps")).then(|| outcome.to_owned());
            self.answer(&scan, AckState::Ended, reason, actions);
        }
    }

    /// Enters a state for which nothing is asked of the station any more.
    fn answer(
        &mut self,
        scan: &FleetName,
        state: AckState,
        reason: Option<String>,
        actions: &mut Vec<MemberAction>,
    ) {
        if let Some(held) = self.desires.scans.get_mut(scan) {
            (held.record.is_asked, held.was_asked) = (false, false);
            if state != AckState::Accepted {
                self.desires.due.remove(&(held.due, scan.clone()));
            }
        }
        self.answer_as(scan, state, reason, actions);
    }

    /// Writes a state to the journal, and then to the store. A scan whose key was deleted is forgotten with its end.
    fn answer_as(
        &mut self,
        scan: &FleetName,
        state: AckState,
        reason: Option<String>,
        actions: &mut Vec<MemberAction>,
    ) {
        let Some(held) = self.desires.scans.get_mut(scan) else { return };
        (held.record.ack.state, held.record.ack.reason) = (state, reason);
        if held.is_orphan && state.is_final() {
            return self.forget_desired(scan, actions);
        }
        let ack = held.record.ack.clone();
        actions.push(MemberAction::Journal(MemberRecord::Desired(held.record.clone())));
        self.put_key(self.config.ack(scan), FleetValue::Ack(ack), KeyLease::Permanent);
    }

    /// Writes the answers that the store does not have, and deletes those to scans that are not remembered.
    pub(super) fn publish_acks(&mut self, listed: &BTreeMap<FleetName, Option<ScanAck>>) {
        let missing: Vec<(FleetName, ScanAck)> = self
            .desires
            .acks()
            .filter(|(scan, ack)| listed.get(*scan).and_then(Option::as_ref) != Some(*ack))
            .map(|(scan, ack)| (scan.clone(), ack.clone()))
            .collect();
        for (scan, ack) in missing {
            self.put_key(self.config.ack(&scan), FleetValue::Ack(ack), KeyLease::Permanent);
        }
        for (scan, ack) in listed {
            let key = self.config.ack(scan);
            match self.desires.scans.get(scan) {
                None => self.outbox.set(key, Change::Delete),
                Some(held) if ack.as_ref() == Some(&held.record.ack) => self.outbox.drop_key(&key),
                Some(_) => {}
            }
        }
    }
}
