//! Arguments of `fleet`: the stations of a fleet, through its etcd.

use super::limits::some;
use super::receive::data_time;
use clap::{Args, Subcommand, ValueHint};
use skyhaul::io::quantity::Span;
use std::path::PathBuf;

/// Heading of the options that say where the fleet's store is.
const STORE: &str = "Store";

#[derive(Args, Debug)]
pub(crate) struct FleetArgs {
    /// The configuration file, see `--config`.
    #[arg(skip)]
    pub(crate) file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) what: FleetWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetWhat {
    /// Show stations, recorders, desired and closed scans, replicas and alarms
    Status(FleetStatusArgs),
    /// Check schedules, and have stations follow them
    Load(FleetLoadArgs),
    /// Desire a scan at stations, and wait for their answers
    Start(FleetStartArgs),
    /// End a desired scan at stations, and wait for their answers
    Stop(FleetStopArgs),
    /// Load the schedule of an experiment, and follow it until each station has closed its scans
    Run(FleetRunArgs),
}

/// The fleet and its store. What is omitted is taken from the section `[fleet]` of `--config`.
#[derive(Args, Debug, Default)]
pub(crate) struct AtFleetArgs {
    /// Name of the fleet
    #[arg(long, value_name = "NAME", help_heading = STORE)]
    pub(crate) fleet: Option<String>,
    /// Client URL of a member of etcd, such as https://etcd1.example:2379; may be repeated
    #[arg(long = "endpoint", value_name = "URL", help_heading = STORE)]
    pub(crate) endpoints: Vec<String>,
    /// File with name:password of a user of etcd
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = STORE)]
    pub(crate) user_file: Option<PathBuf>,
    /// Certificate of the authority that signed those of etcd (default: the authorities of the system)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = STORE)]
    pub(crate) authority: Option<PathBuf>,
    /// Certificate shown to etcd
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = STORE)]
    pub(crate) certificate: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = STORE)]
    pub(crate) key: Option<PathBuf>,
    /// Accept http:// to other hosts: nothing is encrypted, and no password is sent
    #[arg(long, help_heading = STORE)]
    pub(crate) plain: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FleetStatusArgs {
    /// Show each closed scan of this experiment
    #[arg(long, value_name = "NAME")]
    pub(crate) experiment: Option<String>,
    /// Show it in the terminal, again and again, until q or Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) at: AtFleetArgs,
}

/// Schedules, and for whom.
#[derive(Args, Debug)]
pub(crate) struct FleetLoadArgs {
    /// Schedules in VEX 1.5 or 2.0, or TOML: one for each experiment
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Station that is to follow them; may be repeated (default: all with scans to record)
    #[arg(long, value_name = "STATION")]
    pub(crate) station: Vec<String>,
    /// Check only, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Load them although some scans cannot be recorded as scheduled
    #[arg(long)]
    pub(crate) force: bool,
    /// Who loads them, for others to read
    #[arg(long, value_name = "NAME", default_value = "skyhaul")]
    pub(crate) author: String,
    #[command(flatten)]
    pub(crate) at: AtFleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct FleetStartArgs {
    /// Experiment
    pub(crate) experiment: String,
    /// Name of the scan, new in the fleet
    pub(crate) scan: String,
    /// Station, or one of its recorders as STATION/RECORDER; may be repeated (default: all recorders that are online)
    #[arg(long, value_name = "STATION")]
    pub(crate) station: Vec<String>,
    /// Begin at this data time (UTC), like 2026-11-27T12:00:00Z (default: now)
    #[arg(long, value_name = "TIME", value_parser = data_time)]
    pub(crate) begin: Option<i64>,
    /// End at this data time (UTC) (default: when it is stopped)
    #[arg(long, value_name = "TIME", value_parser = data_time)]
    pub(crate) end: Option<i64>,
    /// Radio source, for others to read
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) source: String,
    /// Observing mode, for others to read
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) mode: String,
    /// How long to wait for the answers; a scan that has not begun then is given up
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = some::<Span>("such as 30s"))]
    pub(crate) timeout: Span,
    #[command(flatten)]
    pub(crate) at: AtFleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct FleetStopArgs {
    /// Name of the scan
    pub(crate) scan: String,
    /// Station, or one of its recorders as STATION/RECORDER; may be repeated (default: all that were to record it)
    #[arg(long, value_name = "STATION")]
    pub(crate) station: Vec<String>,
    /// How long to wait for the answers
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = some::<Span>("such as 30s"))]
    pub(crate) timeout: Span,
    #[command(flatten)]
    pub(crate) at: AtFleetArgs,
}

#[derive(Args, Debug)]
pub(crate) struct FleetRunArgs {
    /// Schedule of the experiment: VEX 1.5 or 2.0, or TOML
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Station that is to follow it; may be repeated (default: all with scans to record)
    #[arg(long, value_name = "STATION")]
    pub(crate) station: Vec<String>,
    /// Load it although some scans cannot be recorded as scheduled
    #[arg(long)]
    pub(crate) force: bool,
    /// Who loads it, for others to read
    #[arg(long, value_name = "NAME", default_value = "skyhaul")]
    pub(crate) author: String,
    /// How long after its end a scan may be closed and published; a station that was never online is given up after it, too
    #[arg(long, default_value = "1min", value_name = "TIME", value_parser = some::<Span>("such as 1min"))]
    pub(crate) grace: Span,
    #[command(flatten)]
    pub(crate) at: AtFleetArgs,
}
