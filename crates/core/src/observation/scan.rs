//! The scans of one station, from a schedule of any format.

use crate::observation::delivery::ScheduledDelivery;
use crate::observation::rate::RecordedRate;
use std::fmt;

/// Maximum size of a schedule, in bytes. The largest that are public have 2 MB.
pub const MAX_TEXT: usize = 32 << 20;
/// Maximum number of statements or lines of a schedule.
pub const MAX_STATEMENTS: usize = 500_000;
/// Maximum number of scans of a station.
pub const MAX_SCANS: usize = 100_000;

/// A format of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleFormat {
    /// VEX 1.5 and 2.0.
    Vex,
    /// SNAP, the commands of the NASA Field System.
    Snap,
    /// A list of scans as TOML.
    Toml,
}

impl ScheduleFormat {
    /// Returns the format of `text`, from its first statement; `None`: it has no form of a schedule.
    #[must_use]
    pub fn detect(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next()?;
        // Comments of VEX begin with `*`, those of SNAP with `"`, those of TOML with `#`.
        match first.as_bytes()[0] {
            b'#' => return Some(Self::Toml),
            b'"' => return Some(Self::Snap),
            _ => {}
        }
        let statement = std::iter::once(first).chain(lines).find(|line| !line.starts_with('*'))?;
        let word: String = statement.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        match word.as_str() {
            "VEX_rev" => Some(Self::Vex),
            "scan_name" | "source" | "sched_initi" | "proc_library" | "exper_initi" => {
                // `source = "3C84"` is a line of TOML.
                let is_toml =
                    statement.split_once('=').is_some_and(|(_, value)| value.trim_start().starts_with('"'));
                Some(if is_toml { Self::Toml } else { Self::Snap })
            }
            _ if statement.starts_with('!') => Some(Self::Snap),
            _ if statement.starts_with('[') || statement.contains('=') => Some(Self::Toml),
            _ => None,
        }
    }
}

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// The line, from 1; 0: the schedule as a whole.
    pub line: u32,
    /// What is wrong there.
    pub text: String,
}

impl ScheduleError {
    pub(crate) fn new(line: u32, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// Returns the first 48 characters of a part of a schedule, for an error.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text.trim().chars().take(48).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}

/// What a station records of an observation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StationSchedule {
    /// The experiment.
    pub experiment: String,
    /// The station, as the schedule writes it.
    pub station: String,
    /// The full name of the station, if it is given.
    pub station_name: String,
    /// Format and version, for people.
    pub format: String,
    /// Its scans by start time.
    pub scans: Vec<ScheduledScan>,
    /// What becomes of their recordings.
    pub deliveries: Vec<ScheduledDelivery>,
    /// What is irregular in the schedule as a whole.
    pub remarks: Vec<String>,
}

/// A scan in the schedule of a station. Times are UNIX seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledScan {
    /// Its name.
    pub name: String,
    /// The source observed; empty if it is not given.
    pub source: String,
    /// The mode of observing; empty if it is not given.
    pub mode: String,
    /// When recording starts.
    pub start: i64,
    /// When recording stops.
    pub stop: i64,
    /// When the antenna is on source.
    pub good_from: i64,
    /// Whether it is to be recorded: some scans only point the antenna.
    pub recorded: bool,
    /// The rate, or why it is unknown.
    pub rate: Result<RecordedRate, RateError>,
    /// The line of the schedule on which the scan begins.
    pub line: u32,
}

/// Why the rate of a scan is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateError {
    /// The schedule does not give rates.
    NotGiven,
    /// The schedule refers to something it does not define, or the definition is invalid.
    Invalid(String),
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGiven => f.write_str("the schedule does not give the rate"),
            Self::Invalid(text) => f.write_str(text),
        }
    }
}

impl ScheduledScan {
    /// Returns its duration, in seconds.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        u64::try_from(self.stop.saturating_sub(self.start)).unwrap_or(0)
    }

    /// Returns the bytes it takes on disks, if its rate is known.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        if !self.recorded {
            return Some(0);
        }
        self.rate.as_ref().ok().map(|rate| rate.disk_bytes(self.seconds()))
    }
}
