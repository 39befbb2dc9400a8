//! What the station refuses, as an answer of VSI-S.

use skyhaul::core::hint::split;
use skyhaul_core::station::StationRefusal;
use skyhaul_core::vsi::{VsiCode, VsiOutcome};

/// The code and the reason, without the hint.
pub(super) fn refused(refusal: &StationRefusal) -> VsiOutcome {
    let code = match refusal {
        StationRefusal::NameTaken { .. } => return VsiOutcome::LabelTaken,
        StationRefusal::BadName { .. }
        | StationRefusal::NoInput { .. }
        | StationRefusal::NoSchedule { .. }
        | StationRefusal::BadRange { .. } => VsiCode::Parameter,
        StationRefusal::InputBusy { .. }
        | StationRefusal::StopIsPast
        | StationRefusal::ScheduleLoaded { .. }
        | StationRefusal::TooManySchedules
        | StationRefusal::ScheduleConflicts { .. }
        | StationRefusal::NoTransfer { .. }
        | StationRefusal::NotConnected { .. }
        | StationRefusal::NoRecording { .. } => VsiCode::Conflict,
        StationRefusal::TooManyWaiting { .. }
        | StationRefusal::TooManyTransfers { .. }
        | StationRefusal::ShuttingDown => VsiCode::Busy,
        StationRefusal::NoMemory { .. }
        | StationRefusal::NoRate { .. }
        | StationRefusal::NoSpace { .. }
        | StationRefusal::NoDisk { .. }
        | StationRefusal::NoScan { .. }
        | StationRefusal::Queue(_)
        | StationRefusal::Failed { .. } => VsiCode::Failed,
    };
    VsiOutcome::Failed(code, split(&refusal.to_string()).0.to_owned())
}
