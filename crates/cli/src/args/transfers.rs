//! Arguments of `transfers`: the queue of a station's copies to other hosts.

use super::limits::some;
use super::schedule::priority;
use super::status::AtStationArgs;
use clap::{Args, Subcommand};
use skyhaul::core::observation::delivery::DayWindow;
use skyhaul::io::quantity::Rate;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TransfersArgs {
    #[command(subcommand)]
    pub(crate) what: Option<TransfersWhat>,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TransfersWhat {
    /// Copy scans to another host; returns when the path was tried and the queue is kept
    Add(TransfersAddArgs),
    /// End a copy; returns when it has ended
    Cancel(TransfersOneArgs),
    /// Try a copy again that failed, was cancelled, or waits for its next attempt
    Retry(TransfersRetryArgs),
    /// Forget a copy that has ended; what is at its destination stays there
    Rm(TransfersOneArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TransfersAddArgs {
    /// Scans, then directories at a destination of the station's configuration, one for each disk that a scan is on. `*` and `?` in
    /// a scan stand for any characters
    #[arg(required = true, num_args = 1.., value_name = "SCAN... NAME:DIR")]
    pub(crate) words: Vec<String>,
    /// Begin at this time: of the day, UTC (22:00), or like 2026-11-27T22:00:00Z (default: now)
    #[arg(long = "at", value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// Maximum rate of each copy; recordings and the configuration may slow it further
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 400Mbps, or omit it"))]
    pub(crate) rate: Option<Rate>,
    /// Also copy all recordings of this schedule; scans may then be omitted
    #[arg(long, value_name = "NAME")]
    pub(crate) schedule: Option<String>,
    /// Copy at this time of the day only, UTC, like 22:00-06:00 (default: always)
    #[arg(long, value_name = "HH:MM-HH:MM")]
    pub(crate) hours: Option<DayWindow>,
    /// Copies of a higher priority begin first, -9 to 9
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true, value_parser = priority())]
    pub(crate) priority: i8,
    /// Encrypt the contents of files, also if the destination is configured without
    #[arg(long)]
    pub(crate) encrypt: bool,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}

#[derive(Args, Debug)]
pub(crate) struct TransfersRetryArgs {
    /// Number of the copy
    pub(crate) number: u64,
    /// Copy to another destination, as a new copy in its place; a directory for each disk that the scan is on
    #[arg(value_name = "NAME:DIR")]
    pub(crate) to: Vec<String>,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}

#[derive(Args, Debug)]
pub(crate) struct TransfersOneArgs {
    /// Number of the copy
    pub(crate) number: u64,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}
