//! Schedules of a fleet, followed by the station like those of its own people.

use super::super::setup::FleetSetup;
use crate::schedule::{ScheduleText, read, recording_name};
use crate::station::{ScheduleLoad, ScheduleLoadError, StationService};
use skyhaul_core::fleet::{CurrentSchedule, FleetName, StationAnswer};
use skyhaul_core::hint::split;
use skyhaul_core::observation::scan::ScheduleFormat;

/// Has the station follow a schedule in place of one of its name.
pub(super) fn load(
    service: &StationService,
    setup: &FleetSetup,
    schedule: &CurrentSchedule,
    text: String,
) -> StationAnswer {
    let refused = |reason: &str| StationAnswer::Refused { reason: split(reason).0.to_owned() };
    // A SNAP schedule would need its procedures.
    let format = ScheduleFormat::detect(&text).filter(|format| *format != ScheduleFormat::Snap);
    let (format, station) = (format.or(Some(ScheduleFormat::Vex)), Some(setup.station.as_str()));
    let found = match read(&ScheduleText { text: &text, procedures: None, format, station }) {
        Ok(found) => found,
        Err(error) => return refused(&error.to_string()),
    };
    // Its recordings have the name of the experiment in its text; another one could take the place of a schedule of others.
    if recording_name(&found, "") != name_of(setup, &schedule.experiment) {
        return refused(&format!("its text is of experiment {}", found.experiment));
    }
    let load = ScheduleLoad {
        text,
        format,
        station: station.map(str::to_owned),
        input: setup.input.clone(),
        replace: true,
        ..ScheduleLoad::default()
    };
    match service.load_schedule(&load) {
        Ok(_) => StationAnswer::Done,
        Err(ScheduleLoadError::Io(error)) => {
            StationAnswer::Busy { reason: split(&error.to_string()).0.to_owned() }
        }
        Err(error) => refused(&error.to_string()),
    }
}

/// Has the station follow the schedule of an experiment no longer.
pub(super) fn remove(
    service: &StationService,
    setup: &FleetSetup,
    experiment: &FleetName,
) -> Result<(), ScheduleLoadError> {
    let name = name_of(setup, experiment);
    match service.snapshot().schedules.iter().any(|schedule| schedule.name == name) {
        true => service.remove_schedule(&name),
        // Somebody has removed it already.
        false => Ok(()),
    }
}

/// The name of an experiment's schedule at the station.
fn name_of(setup: &FleetSetup, experiment: &FleetName) -> String {
    format!("{experiment}_{}", setup.station).to_lowercase()
}
