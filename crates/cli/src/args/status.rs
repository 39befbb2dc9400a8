//! Arguments of `status` and `station`: calls to a station that runs.

use super::limits::some;
use super::receive::data_time;
use clap::{Args, Subcommand, ValueHint};
use skyhaul::io::quantity::Size;
use std::path::PathBuf;

/// Which station.
#[derive(Args, Debug)]
pub(crate) struct AtStationArgs {
    /// Address of the station's HTTP API
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8088")]
    pub(crate) station: String,
    /// File with the station's token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Print the reply as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}

#[derive(Args, Debug)]
pub(crate) struct StationArgs {
    #[command(subcommand)]
    pub(crate) what: StationWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StationWhat {
    /// Start a recording; returns when it is ready for the first packet
    Start(StationStartArgs),
    /// Stop a recording; returns when everything is on the disks
    Stop(StationStopArgs),
}

#[derive(Args, Debug)]
pub(crate) struct StationStartArgs {
    /// Name of the scan
    pub(crate) name: String,
    /// Input of the station (default: the first one)
    #[arg(long, value_name = "NAME")]
    pub(crate) input: Option<String>,
    /// Memory of the recording (default: that of the input)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 512MiB, or omit it"))]
    pub(crate) memory: Option<Size>,
    /// Stop at this data time (UTC), like 2026-11-27T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = data_time)]
    pub(crate) stop: Option<i64>,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}

#[derive(Args, Debug)]
pub(crate) struct StationStopArgs {
    /// Name of the scan
    pub(crate) name: String,
    /// Return immediately
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}
