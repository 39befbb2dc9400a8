//! The schedule of the fleet: the station follows the current one, or an alarm says why not.

use super::events::{MemberAction, MemberRecord, StationAnswer};
use super::key::FleetName;
use super::member::FleetMember;
use super::value::{CurrentSchedule, FleetAlarm, FleetValue};
use crate::station::UnixMillis;

/// How long a schedule that could not be read is left alone, milliseconds.
const SCHEDULE_RETRY_MILLIS: i64 = 10_000;
/// The alarm of a schedule that the station does not follow.
const SCHEDULE_ALARM: &str = "fleet-schedule";

impl FleetMember {
    pub(super) fn listed_schedule(
        &mut self,
        now: UnixMillis,
        current: Option<Result<FleetValue, String>>,
        went_back: bool,
        actions: &mut Vec<MemberAction>,
    ) {
        match current {
            Some(value) => self.current_written(now, value),
            None if !went_back => self.current_deleted(actions),
            None => {}
        }
        self.schedule.not_before = now;
    }

    pub(super) fn current_written(&mut self, now: UnixMillis, value: Result<FleetValue, String>) {
        match value {
            Ok(FleetValue::Current(current)) => self.schedule.wanted = Some(current),
            Ok(_) => self.raise_schedule_alarm(now, "current schedule: not a current schedule".into()),
            Err(reason) => self.raise_schedule_alarm(now, format!("current schedule: {reason}")),
        }
    }

    pub(super) fn current_deleted(&mut self, actions: &mut Vec<MemberAction>) {
        self.schedule.wanted = None;
        self.schedule.refused = None;
        if let Some(loaded) = self.schedule.loaded.take() {
            actions.push(MemberAction::Journal(MemberRecord::Schedule(None)));
            actions.push(MemberAction::RemoveSchedule { experiment: loaded.experiment });
        }
        self.clear_alarm(&alarm_name());
    }

    pub(super) fn follow_schedule(&mut self, now: UnixMillis, actions: &mut Vec<MemberAction>) {
        if !self.is_connected || now < self.schedule.not_before || !self.schedule.is_due() {
            return;
        }
        let Some(schedule) = self.schedule.wanted.clone() else { return };
        let request = self.request_id();
        self.schedule.asked = Some((request, schedule.clone()));
        actions.push(MemberAction::LoadSchedule { request, schedule });
    }

    pub(super) fn schedule_answered(
        &mut self,
        now: UnixMillis,
        schedule: &CurrentSchedule,
        answer: StationAnswer,
        actions: &mut Vec<MemberAction>,
    ) {
        let reason = match answer {
            StationAnswer::Done => {
                actions.push(MemberAction::Journal(MemberRecord::Schedule(Some(schedule.clone()))));
                let before = self.schedule.loaded.replace(schedule.clone());
                if let Some(before) = before.filter(|before| before.experiment != schedule.experiment) {
                    actions.push(MemberAction::RemoveSchedule { experiment: before.experiment });
                }
                self.schedule.refused = None;
                self.live_due = now;
                return self.clear_alarm(&alarm_name());
            }
            StationAnswer::NotRead { reason } | StationAnswer::Busy { reason } => {
                self.schedule.not_before = UnixMillis(now.0 + SCHEDULE_RETRY_MILLIS);
                reason
            }
            StationAnswer::Refused { reason } => {
                self.schedule.refused = Some(schedule.clone());
                reason
            }
            StationAnswer::NameTaken => {
                self.schedule.refused = Some(schedule.clone());
                "a schedule of this name is loaded".to_owned()
            }
        };
        self.raise_schedule_alarm(now, format!("schedule {} is not followed: {reason}", schedule.experiment));
    }

    fn raise_schedule_alarm(&mut self, now: UnixMillis, text: String) {
        self.raise_alarm(&alarm_name(), FleetAlarm { text, since: now });
    }
}

fn alarm_name() -> FleetName {
    FleetName::literal(SCHEDULE_ALARM)
}
