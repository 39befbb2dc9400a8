//! Why a request of a client is refused, with the numbers.

use super::queued::QueueRefusal;
use super::schedule::{MAX_SCHEDULES, ScheduleConflict};
use crate::hint::Hint;
use crate::units::{display_bytes, display_rate};
use std::fmt::{self, Display, Formatter};

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StationRefusal {
    /// Not a name for a scan.
    BadName {
        /// What was given.
        name: String,
    },
    /// A scan of this name exists, or is being recorded.
    NameTaken {
        /// The name.
        name: String,
    },
    /// No input has this name.
    NoInput {
        /// What was given.
        input: String,
        /// The names of all inputs.
        inputs: Vec<String>,
    },
    /// Another recording uses the input.
    InputBusy {
        /// The input.
        input: String,
        /// What it records.
        recording: String,
    },
    /// Not enough memory, bytes.
    NoMemory {
        /// Requested.
        wanted: u64,
        /// Held by other recordings.
        reserved: u64,
        /// Of the station.
        total: u64,
    },
    /// The disks are too slow, bits per second.
    NoRate {
        /// Of the input.
        wanted: u64,
        /// Held by other recordings.
        reserved: u64,
        /// Of the disks that can be written to.
        total: u64,
    },
    /// Not enough free space until the time at which it would stop, bytes.
    NoSpace {
        /// Requested.
        wanted: u64,
        /// Not yet written of other recordings.
        reserved: u64,
        /// Free on the disks that can be written to.
        free: u64,
    },
    /// No disk can be written to.
    NoDisk {
        /// How many there are.
        disks: usize,
    },
    /// It would stop before it begins.
    StopIsPast,
    /// No recording of this run has this name.
    NoRecording {
        /// What was given.
        name: String,
        /// What is being recorded.
        active: Vec<String>,
    },
    /// Too many requests wait for its end already.
    TooManyWaiting {
        /// The recording.
        name: String,
    },
    /// The recorder could not begin.
    Failed {
        /// The recording.
        name: String,
        /// Why.
        reason: String,
    },
    /// A schedule of this name is loaded.
    ScheduleLoaded {
        /// Its name.
        name: String,
    },
    /// No schedule of this name is loaded.
    NoSchedule {
        /// What was given.
        name: String,
        /// The names of all that are loaded.
        loaded: Vec<String>,
    },
    /// As many schedules are loaded as can be.
    TooManySchedules,
    /// Scans of a schedule cannot be recorded as scheduled.
    ScheduleConflicts {
        /// The schedule.
        name: String,
        /// Why.
        conflicts: Vec<ScheduleConflict>,
    },
    /// No scan has this name.
    NoScan {
        /// What was given.
        name: String,
    },
    /// As many transfers run as there may be.
    TooManyTransfers {
        /// How many.
        most: usize,
    },
    /// No transfer that runs has this number.
    NoTransfer {
        /// What was given.
        transfer: u64,
    },
    /// A transfer cannot be told what to send in this state.
    NotConnected {
        /// The name of the state.
        state: &'static str,
    },
    /// The range is outside of the scan.
    BadRange {
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
        /// Size of the scan as one file, bytes.
        size_bytes: u64,
    },
    /// The queue of copies.
    Queue(QueueRefusal),
    /// The service ends.
    ShuttingDown,
}

impl StationRefusal {
    /// Returns a name for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName { .. } => "bad_name",
            Self::NameTaken { .. } => "name_taken",
            Self::NoInput { .. } => "no_input",
            Self::InputBusy { .. } => "input_busy",
            Self::NoMemory { .. } => "no_memory",
            Self::NoRate { .. } => "no_rate",
            Self::NoSpace { .. } => "no_space",
            Self::NoDisk { .. } => "no_disk",
            Self::StopIsPast => "stop_is_past",
            Self::NoRecording { .. } => "no_recording",
            Self::TooManyWaiting { .. } => "too_many_waiting",
            Self::Failed { .. } => "failed",
            Self::ScheduleLoaded { .. } => "schedule_loaded",
            Self::NoSchedule { .. } => "no_schedule",
            Self::TooManySchedules => "too_many_schedules",
            Self::ScheduleConflicts { .. } => "schedule_conflicts",
            Self::NoScan { .. } => "no_scan",
            Self::TooManyTransfers { .. } => "too_many_transfers",
            Self::NoTransfer { .. } => "no_transfer",
            Self::NotConnected { .. } => "not_connected",
            Self::BadRange { .. } => "bad_range",
            Self::Queue(refusal) => refusal.code(),
            Self::ShuttingDown => "shutting_down",
        }
    }
}

impl StationRefusal {
    /// What there is too little of.
    fn lacking(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (bytes, rate) = (display_bytes, |bits: u64| display_rate(bits as f64));
        match self {
            Self::NoMemory { wanted: 0, .. } => {
                write!(f, "a recording needs memory{}", Hint("ask for 64 MiB or more"))
            }
            Self::NoMemory { wanted, reserved, total } => write!(
                f,
                "not enough memory: {} requested, {} of {} reserved{}",
                bytes(*wanted),
                bytes(*reserved),
                bytes(*total),
                Hint("request less, stop a recording, or raise `memory` in the configuration")
            ),
            Self::NoRate { wanted, reserved, total } => write!(
                f,
                "the disks are too slow: {} requested, {} of {} reserved{}",
                rate(*wanted),
                rate(*reserved),
                rate(*total),
                Hint("stop a recording, or add a disk")
            ),
            Self::NoSpace { wanted, reserved, free } => write!(
                f,
                "not enough space: {} requested until the stop, {} of {} free are reserved{}",
                bytes(*wanted),
                bytes(*reserved),
                bytes(*free),
                Hint("remove scans, or stop earlier")
            ),
            _ => Ok(()),
        }
    }

    /// What a transfer cannot do.
    fn of_transfer(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScan { name } => {
                let hint = Hint("`skyhaul ls` lists the scans");
                write!(f, "no scan is named `{}`{hint}", name.escape_debug())
            }
            Self::TooManyTransfers { most } => {
                write!(f, "{most} transfers run already{}", Hint("wait until one has ended"))
            }
            Self::NoTransfer { transfer } => write!(f, "no transfer has the number {transfer}"),
            Self::NotConnected { state } => write!(f, "the transfer is {state}, not connected and idle"),
            Self::BadRange { from, to, size_bytes } => {
                write!(f, "bytes {from} to {to} are not in the scan, which has {size_bytes} bytes")
            }
            _ => Ok(()),
        }
    }
}

/// Maximum number of conflicts that a refusal lists.
const MAX_LISTED: usize = 8;

impl StationRefusal {
    /// What is wrong with a schedule.
    fn of_schedule(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScheduleLoaded { name } => {
                let hint = Hint("remove it first, or replace it with --replace");
                write!(f, "schedule {name} is loaded already{hint}")
            }
            Self::NoSchedule { name, loaded } => {
                write!(f, "no schedule is named `{}`", name.escape_debug())?;
                match loaded.as_slice() {
                    [] => write!(f, "{}", Hint("none is loaded")),
                    names => write!(f, "{}", Hint(format_args!("loaded: {}", names.join(", ")))),
                }
            }
            Self::TooManySchedules => {
                write!(f, "{MAX_SCHEDULES} schedules are loaded{}", Hint("remove those that are over"))
            }
            Self::ScheduleConflicts { name, conflicts } => {
                write!(f, "schedule {name} cannot be recorded as scheduled: ")?;
                for (at, conflict) in conflicts.iter().take(MAX_LISTED).enumerate() {
                    write!(f, "{}{conflict}", if at == 0 { "" } else { ", " })?;
                }
                match conflicts.len().saturating_sub(MAX_LISTED) {
                    0 => {}
                    more => write!(f, ", and {more} more")?,
                }
                write!(f, "{}", Hint("change the schedule, or load it nevertheless with --force"))
            }
            _ => Ok(()),
        }
    }
}

impl Display for ScheduleConflict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (bytes, rate) = (display_bytes, |bits: u64| display_rate(bits as f64));
        match self {
            Self::BadName { scan } => {
                write!(f, "`{}` cannot name a scan", scan.chars().take(48).collect::<String>().escape_debug())
            }
            Self::NameRepeated { scan, schedule } => write!(f, "{scan} is also a scan of {schedule}"),
            Self::Overlap { scan, with, seconds } => write!(f, "{scan} overlaps with {with} by {seconds} s"),
            Self::Rate { scan, wanted, total } => {
                write!(
                    f,
                    "{scan} needs {} with all at its time, the disks have {}",
                    rate(*wanted),
                    rate(*total)
                )
            }
            Self::Memory { scan, wanted, total } => write!(
                f,
                "{scan} needs {} of memory with all at its time, the station has {}",
                bytes(*wanted),
                bytes(*total)
            ),
            Self::Space { scan, wanted, free } => {
                write!(
                    f,
                    "{} are scheduled until the end of {scan}, {} are free",
                    bytes(*wanted),
                    bytes(*free)
                )
            }
        }
    }
}

impl Display for StationRefusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName { name } => {
                let hint = Hint("use letters, digits and ._+-, such as n26c3_mh_no0001");
                write!(f, "`{}` cannot name a scan{hint}", name.escape_debug())
            }
            Self::NameTaken { name } => {
                write!(
                    f,
                    "scan {name} exists already{}",
                    Hint("nothing is recorded twice under a name; give another")
                )
            }
            Self::NoInput { input, inputs } => {
                let names = inputs.join(", ");
                write!(
                    f,
                    "no input is named `{}`{}",
                    input.escape_debug(),
                    Hint(format_args!("the inputs are: {names}"))
                )
            }
            Self::InputBusy { input, recording } => {
                let hint = Hint(format_args!("stop {recording} first, or use another input"));
                write!(f, "input {input} is recording {recording}{hint}")
            }
            Self::NoMemory { .. } | Self::NoRate { .. } | Self::NoSpace { .. } => self.lacking(f),
            Self::NoDisk { disks } => {
                write!(f, "none of {disks} disks can be written to{}", Hint("see `skyhaul status`"))
            }
            Self::StopIsPast => {
                write!(f, "the time to stop is in the past{}", Hint("it is UTC; `date -u` shows the time"))
            }
            Self::NoRecording { name, active } => {
                write!(f, "no recording is named `{}`", name.escape_debug())?;
                match active.as_slice() {
                    [] => write!(f, "{}", Hint("nothing is being recorded")),
                    names => write!(f, "{}", Hint(format_args!("being recorded: {}", names.join(", ")))),
                }
            }
            Self::TooManyWaiting { name } => {
                write!(f, "too many requests wait for the end of {name}{}", Hint("ask without waiting"))
            }
            Self::Failed { name, reason } => write!(f, "{name} cannot be recorded: {reason}"),
            Self::ScheduleLoaded { .. }
            | Self::NoSchedule { .. }
            | Self::TooManySchedules
            | Self::ScheduleConflicts { .. } => self.of_schedule(f),
            Self::NoScan { .. }
            | Self::TooManyTransfers { .. }
            | Self::NoTransfer { .. }
            | Self::NotConnected { .. }
            | Self::BadRange { .. } => self.of_transfer(f),
            Self::Queue(refusal) => refusal.fmt(f),
            Self::ShuttingDown => write!(f, "the service is shutting down{}", Hint("start it again")),
        }
    }
}

impl std::error::Error for StationRefusal {}
