//! A schedule from a file of any format.

use crate::args::ScheduleFileArgs;
use anyhow::{Result, anyhow};
use skyhaul::core::observation::scan::{MAX_TEXT, ScheduleFormat, StationSchedule};
use skyhaul::io::file::read_small;
use skyhaul_daemon::schedule::{ScheduleReadError, ScheduleText, read as read_text};
use std::path::{Path, PathBuf};

/// What a station records by a schedule.
pub(crate) fn read(args: &ScheduleFileArgs) -> Result<StationSchedule> {
    let (text, procedures) = texts(args)?;
    let source = ScheduleText {
        text: &text,
        procedures: procedures.as_ref().map(|(_, text)| text.as_str()),
        format: args.format.map(ScheduleFormat::from),
        station: args.station.as_deref(),
    };
    read_text(&source).map_err(|error| match (error, procedures) {
        (ScheduleReadError::Procedures(error), Some((path, _))) => anyhow!("{}: {error}", path.display()),
        (error, _) => anyhow!("{}: {error}", args.file.display()),
    })
}

/// The text of a schedule, and its procedures with their path: those given, or the file beside it.
pub(super) fn texts(args: &ScheduleFileArgs) -> Result<(String, Option<(PathBuf, String)>)> {
    let text = text_of(&args.file)?;
    let beside = || Some(args.file.with_extension("prc")).filter(|path| path.is_file());
    let detected = args.format.map(ScheduleFormat::from).or_else(|| ScheduleFormat::detect(&text));
    let path = args.procedures.clone().or_else(beside).filter(|_| detected == Some(ScheduleFormat::Snap));
    let procedures = path.map(|path| text_of(&path).map(|text| (path, text))).transpose()?;
    Ok((text, procedures))
}

/// Text in which invalid characters, such as names in Latin-1, are replaced.
fn text_of(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&read_small(path, MAX_TEXT)?).into_owned())
}
