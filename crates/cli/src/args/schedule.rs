//! Arguments of `schedule`.

use super::limits::{DESTINATION, GENERAL, SOURCE, some, up_to};
use super::receive::data_time;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::core::observation::delivery::{DayWindow, DeliveryMoment, MAX_PRIORITY, ScheduledDelivery};
use skyhaul::core::observation::scan::ScheduleFormat;
use skyhaul::io::quantity::{Rate, Span};
use skyhaul::recording::MAX_COPIES;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Heading of the options that say where recordings go.
const DELIVERY: &str = "Delivery";

#[derive(Args, Debug)]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    pub(crate) what: ScheduleWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleWhat {
    /// Show what a station will record when, and what prevents it
    Check(ScheduleCheckArgs),
    /// Let a running station follow a schedule
    Load(ScheduleLoadArgs),
    /// Show the schedules of a running station, or each scan of one
    List(ScheduleListArgs),
    /// Remove a schedule from a running station; what is recorded of it continues to its end
    Remove(ScheduleRemoveArgs),
}

/// A station that runs.
#[derive(Args, Debug)]
pub(crate) struct AtServerArgs {
    /// Address of the station's HTTP API
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8088")]
    pub(crate) server: String,
    /// File with the station's token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Print the reply as JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleLoadArgs {
    #[command(flatten)]
    pub(crate) schedule: ScheduleFileArgs,
    /// Input of the station (default: the first one)
    #[arg(long, value_name = "NAME")]
    pub(crate) input: Option<String>,
    /// Take the place of a schedule of the same name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Load it although some scans cannot be recorded as scheduled
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) deliver: DeliverArgs,
    #[command(flatten)]
    pub(crate) at: AtServerArgs,
}

/// Where recordings go, in place of what the schedule says itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeliverArgs {
    /// Copy recordings to this directory of a destination of the station's configuration; one for each disk that a recording may be on
    #[arg(long, value_name = "NAME:DIR", help_heading = DELIVERY)]
    pub(crate) deliver: Vec<String>,
    /// Deliver after each scan, or after the last one
    #[arg(long, value_enum, value_name = "MOMENT", default_value = "scan", requires = "deliver", help_heading = DELIVERY)]
    pub(crate) deliver_after: DeliverMomentArg,
    /// Copy at this time of the day only, UTC, like 22:00-06:00 (default: always)
    #[arg(long, value_name = "HH:MM-HH:MM", requires = "deliver", help_heading = DELIVERY)]
    pub(crate) deliver_hours: Option<DayWindow>,
    /// Copies of a higher priority begin first, -9 to 9
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true, value_parser = priority(), requires = "deliver", help_heading = DELIVERY)]
    pub(crate) deliver_priority: i8,
    /// Maximum rate of each copy
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 400Mbps, or omit it"), requires = "deliver", help_heading = DELIVERY)]
    pub(crate) deliver_rate: Option<Rate>,
}

/// Priorities of copies.
pub(crate) fn priority() -> clap::builder::RangedI64ValueParser<i8> {
    clap::value_parser!(i8).range(i64::from(-MAX_PRIORITY)..=i64::from(MAX_PRIORITY))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeliverMomentArg {
    /// After its scan
    Scan,
    /// After the last scan of the schedule
    Session,
}

impl DeliverArgs {
    /// The delivery that they ask for.
    pub(crate) fn delivery(&self) -> Option<ScheduledDelivery> {
        (!self.deliver.is_empty()).then(|| ScheduledDelivery {
            to: self.deliver.clone(),
            scans: Vec::new(),
            after: match self.deliver_after {
                DeliverMomentArg::Scan => DeliveryMoment::Scan,
                DeliverMomentArg::Session => DeliveryMoment::Session,
            },
            hours: self.deliver_hours,
            priority: self.deliver_priority,
            rate_bits: self.deliver_rate.map(|rate| rate.bits_per_second()),
        })
    }
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleListArgs {
    /// Show each scan of this schedule
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) at: AtServerArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleRemoveArgs {
    /// Name of the schedule
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) at: AtServerArgs,
}

/// A schedule, and whose.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScheduleFileArgs {
    /// Schedule: VEX 1.5 or 2.0, SNAP of the Field System (.snp), or TOML
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Station whose scans count, like Mh; needed if the schedule has several
    #[arg(long, value_name = "STATION", help_heading = SOURCE)]
    pub(crate) station: Option<String>,
    /// Format of the schedule (default: found from its first statement)
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = SOURCE)]
    pub(crate) format: Option<ScheduleFormatArg>,
    /// Procedures of the Field System, which set the rates of a .snp schedule (default: FILE with the ending .prc, if it exists)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = SOURCE)]
    pub(crate) procedures: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleCheckArgs {
    #[command(flatten)]
    pub(crate) schedule: ScheduleFileArgs,
    /// Only scans that end after this time (UTC), like 2026-11-21T03:00:00Z, or now
    #[arg(long, value_name = "TIME", value_parser = time_or_now, help_heading = SOURCE)]
    pub(crate) from: Option<i64>,
    /// Only scans that start before this time (UTC)
    #[arg(long, value_name = "TIME", value_parser = time_or_now, help_heading = SOURCE)]
    pub(crate) until: Option<i64>,
    /// Compare with the free space of this disk: a directory; may be repeated
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = DESTINATION)]
    pub(crate) disk: Vec<PathBuf>,
    /// Copies of each chunk, as of record: the disks have room and rate for that much less
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = up_to::<u32>(MAX_COPIES as u64, "as given to record"), help_heading = DESTINATION)]
    pub(crate) copies: u32,
    /// Highest rate of samples that the station can record
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 8Gbps, or omit it"), help_heading = DESTINATION)]
    pub(crate) rate: Option<Rate>,
    /// Shorter gaps between scans are reported
    #[arg(long, default_value = "2s", value_name = "TIME", help_heading = DESTINATION)]
    pub(crate) min_gap: Span,
    #[command(flatten)]
    pub(crate) deliver: DeliverArgs,
    /// Print one JSON report on standard output
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScheduleFormatArg {
    /// VEX 1.5 or 2.0
    Vex,
    /// SNAP, as drudg writes it
    Snap,
    /// A list of scans
    Toml,
}

impl From<ScheduleFormatArg> for ScheduleFormat {
    fn from(format: ScheduleFormatArg) -> Self {
        match format {
            ScheduleFormatArg::Vex => Self::Vex,
            ScheduleFormatArg::Snap => Self::Snap,
            ScheduleFormatArg::Toml => Self::Toml,
        }
    }
}

fn time_or_now(text: &str) -> Result<i64, String> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
    if text == "now" { Ok(now()) } else { data_time(text) }
}
