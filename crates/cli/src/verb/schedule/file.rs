//! A schedule from a file of any format.

use super::plain;
use crate::args::ScheduleFileArgs;
use anyhow::{Result, anyhow, bail};
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::scan::{MAX_TEXT, ScheduleError, ScheduleFormat, StationSchedule};
use skyhaul::core::observation::snap::{self, SnapProcedures};
use skyhaul::core::observation::vex::VexFile;
use skyhaul::io::file::read_small;
use std::path::Path;

/// What a station records by a schedule.
pub(crate) fn read(args: &ScheduleFileArgs) -> Result<StationSchedule> {
    let path = &args.file;
    let text = text_of(path)?;
    let detected = args.format.map(ScheduleFormat::from).or_else(|| ScheduleFormat::detect(&text));
    let format = detected.ok_or_else(|| {
        let hint = Hint("VEX begins with VEX_rev; name another format with --format");
        anyhow!("{}: not a schedule of a known format{hint}", path.display())
    })?;
    let failing = |error: ScheduleError| anyhow!("{}: {error}", path.display());
    let schedule = match format {
        ScheduleFormat::Vex => {
            let file = VexFile::parse(&text).map_err(failing)?;
            let stations = file.stations();
            let station = match (&args.station, &stations[..]) {
                (Some(station), _) => station,
                (None, [only]) => only,
                (None, _) => {
                    let named = stations.iter().take(40).cloned().collect::<Vec<_>>().join(", ");
                    bail!(
                        "{}: several stations{}",
                        path.display(),
                        Hint(format!("use --station with one of {named}"))
                    )
                }
            };
            return file.schedule(station).map_err(failing);
        }
        ScheduleFormat::Snap => {
            let beside = || Some(path.with_extension("prc")).filter(|path| path.is_file());
            let procedures = match args.procedures.clone().or_else(beside) {
                Some(path) => SnapProcedures::parse(&text_of(&path)?)
                    .map_err(|error| anyhow!("{}: {error}", path.display()))?,
                None => SnapProcedures::default(),
            };
            snap::parse(&text, &procedures).map_err(failing)?
        }
        ScheduleFormat::Toml => plain::parse(&text).map_err(failing)?,
    };
    of_station(schedule, args)
}

/// A schedule of one station, if that is the one asked for.
fn of_station(mut schedule: StationSchedule, args: &ScheduleFileArgs) -> Result<StationSchedule> {
    let Some(station) = &args.station else { return Ok(schedule) };
    if schedule.station.is_empty() {
        schedule.station.clone_from(station);
    }
    if !schedule.station.eq_ignore_ascii_case(station) {
        let (file, of) = (args.file.display(), &schedule.station);
        bail!(
            "{file}: the schedule is that of station {of}, not {station}{}",
            Hint("give another file, or omit --station")
        );
    }
    Ok(schedule)
}

/// Text in which invalid characters, such as names in Latin-1, are replaced.
fn text_of(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&read_small(path, MAX_TEXT)?).into_owned())
}
