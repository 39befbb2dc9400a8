//! Schedules of observations from text of any format, and their journals: for `record --schedule` and for the station.
//!
//! ```text
//!   VEX, SNAP with procedures, TOML ── read ──▶ StationSchedule ── recording_name ──▶ n26c3_mh_no0001
//!   <disk>/n26c3_mh_schedule.journal ── ScheduleJournal ──▶ what was begun and what ended
//! ```

mod journal;
mod plain;

pub use journal::ScheduleJournal;

use skyhaul::core::hint::Hint;
use skyhaul::core::observation::scan::{ScheduleError, ScheduleFormat, StationSchedule};
use skyhaul::core::observation::snap::{self, SnapProcedures};
use skyhaul::core::observation::vex::VexFile;

/// Maximum number of stations that an error lists.
const MAX_LISTED: usize = 40;

/// A schedule as text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScheduleText<'a> {
    /// The schedule.
    pub text: &'a str,
    /// Procedures of the Field System, for the rates of a SNAP schedule.
    pub procedures: Option<&'a str>,
    /// Its format; `None`: found from its first statement.
    pub format: Option<ScheduleFormat>,
    /// The station whose scans count.
    pub station: Option<&'a str>,
}

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleReadError {
    /// It has no known format.
    #[error("not a schedule of a known format{hint}", hint = Hint("VEX begins with VEX_rev; name another format with --format"))]
    UnknownFormat,
    /// It has scans of several stations, and none was chosen.
    #[error("several stations{0}")]
    SeveralStations(Hint<String>),
    /// It is the schedule of the first station, not of the second.
    #[error("the schedule is that of station {0}, not {1}{hint}", hint = Hint("give another file, or omit --station"))]
    OtherStation(String, String),
    /// It is wrong.
    #[error("{0}")]
    Schedule(ScheduleError),
    /// Its procedures are wrong.
    #[error("procedures: {0}")]
    Procedures(ScheduleError),
}

/// Returns what a station records by a schedule.
///
/// # Errors
/// It cannot be read, or is that of another station.
pub fn read(source: &ScheduleText<'_>) -> Result<StationSchedule, ScheduleReadError> {
    use ScheduleReadError as E;
    let format = source.format.or_else(|| ScheduleFormat::detect(source.text)).ok_or(E::UnknownFormat)?;
    let mut schedule = match format {
        ScheduleFormat::Vex => {
            let file = VexFile::parse(source.text).map_err(E::Schedule)?;
            let stations = file.stations();
            let station = match (source.station, &stations[..]) {
                (Some(station), _) => station,
                (None, [only]) => only,
                (None, _) => {
                    let named = stations.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
                    return Err(E::SeveralStations(Hint(format!("use --station with one of {named}"))));
                }
            };
            return file.schedule(station).map_err(E::Schedule);
        }
        ScheduleFormat::Snap => {
            let procedures =
                source.procedures.map(SnapProcedures::parse).transpose().map_err(E::Procedures)?;
            snap::parse(source.text, &procedures.unwrap_or_default()).map_err(E::Schedule)?
        }
        ScheduleFormat::Toml => plain::parse(source.text).map_err(E::Schedule)?,
    };
    let Some(station) = source.station else { return Ok(schedule) };
    if schedule.station.is_empty() {
        station.clone_into(&mut schedule.station);
    }
    match schedule.station.eq_ignore_ascii_case(station) {
        true => Ok(schedule),
        false => Err(E::OtherStation(schedule.station, station.to_owned())),
    }
}

/// Returns the name of a recording: experiment, station and scan, as correlators expect it.
#[must_use]
pub fn recording_name(schedule: &StationSchedule, scan: &str) -> String {
    let parts = [&schedule.experiment.to_lowercase(), &schedule.station.to_lowercase(), &scan.to_lowercase()];
    let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
    parts.join("_")
}
