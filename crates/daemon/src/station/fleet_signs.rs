//! What a station shows of its member: in its status, and as an alarm.

use super::dashboard::alarms::{AlarmCondition, AlarmLevel};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Name of the alarm that the fleet's store is away.
pub(super) const AWAY_ALARM: &str = "fleet_away";
/// A store that has been away for this long is an alarm.
const AWAY_TIME: Duration = Duration::from_secs(5);

/// What a station knows of its member.
#[derive(Clone, Debug)]
pub(crate) struct FleetSigns {
    /// Fleet, station and recorder.
    pub(crate) names: [String; 3],
    /// Why the store is away or does not take what is written, and since when.
    pub(crate) problem: Option<(Instant, String)>,
    /// Keys that the store does not have yet; unknown before the member has run.
    pub(crate) unwritten: Option<usize>,
    /// Likewise, closed scans that the store does not have yet.
    pub(crate) unpublished_scans: Option<u64>,
    /// The experiment whose schedule is followed for the fleet.
    pub(crate) schedule: Option<String>,
}

impl FleetSigns {
    /// Of a member that has not run yet.
    pub(super) fn new(names: [String; 3]) -> Self {
        Self { names, problem: None, unwritten: None, unpublished_scans: None, schedule: None }
    }

    pub(in crate::station) fn json(&self) -> Value {
        let [fleet, station, recorder] = &self.names;
        json!({
            "name": fleet, "station": station, "recorder": recorder,
            "connected": self.problem.is_none(),
            "problem": self.problem.as_ref().map(|(_, text)| text),
            "unwritten_keys": self.unwritten,
            "unpublished_scans": self.unpublished_scans,
            "schedule": self.schedule,
        })
    }

    /// The alarm that the store is away.
    pub(in crate::station) fn condition(&self) -> Option<AlarmCondition> {
        let (since, text) = self.problem.as_ref()?;
        let text = format!("{text}; recording continues, and the fleet is informed later");
        (since.elapsed() >= AWAY_TIME).then(|| AlarmCondition::new(AlarmLevel::Warning, AWAY_ALARM, "", text))
    }
}
