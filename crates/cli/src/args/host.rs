//! Arguments of `host`.

use super::applies::with;
use super::limits::GENERAL;
use super::limits::some;
use clap::{Args, ValueHint};
use skyhaul::io::quantity::{Rate, Span};
use skyhaul_measure::host::HostRole;
use std::path::PathBuf;

const DO: &str = "Actions";
const WANTED: &str = "Intended use of the host";

/// What is done on this host alone.
const NOT_WITH_PEER: [&str; 5] = ["watch", "apply", "undo", "diff", "load"];

#[derive(Args, Debug)]
pub(crate) struct HostArgs {
    /// Interface that carries the data (default: the fastest)
    #[arg(long, short, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Directory for the data; may be repeated (default: every file system on a disk)
    #[arg(long = "disk", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) disk: Vec<PathBuf>,
    /// Run only these checks: groups (A, B, C, D) or single checks (C14), separated by commas
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', value_parser = skyhaul_measure::host::selection)]
    pub(crate) only: Vec<String>,
    /// Also show checks that pass or do not apply
    #[arg(long)]
    pub(crate) all: bool,
    /// Total rate of all flows (default: the link's)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 10Gbps, or omit it"), help_heading = WANTED)]
    pub(crate) rate: Option<Rate>,
    /// Round-trip time to the other end (default: 10ms)
    #[arg(long, value_name = "TIME", help_heading = WANTED)]
    pub(crate) rtt: Option<Span>,
    /// Role of the host: send, receive, both, record, measure
    #[arg(long, value_name = "ROLE", default_value_t = HostRole::Both, help_heading = WANTED)]
    pub(crate) role: HostRole,
    /// Number of concurrent flows (default: 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536), help_heading = WANTED)]
    pub(crate) flows: Option<u64>,
    /// MTU that the path carries (default: 9000 from 10 Gb/s on)
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(68..=65535), help_heading = WANTED)]
    pub(crate) mtu: Option<u64>,
    /// Also audit this host and compare; it runs `skyhaul probe serve`. Add :PORT if it is not the default
    #[arg(long, value_name = "HOST", add = with("token_file"), conflicts_with_all = NOT_WITH_PEER, help_heading = DO)]
    pub(crate) peer: Option<String>,
    /// File with the token of that host
    #[arg(long, value_name = "FILE", add = with("peer"), conflicts_with_all = NOT_WITH_PEER, value_hint = ValueHint::FilePath, help_heading = DO)]
    pub(crate) token_file: Option<PathBuf>,
    /// Run the command in the rest of the line, and report which counters increased meanwhile
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true, help_heading = DO)]
    pub(crate) watch: Vec<String>,
    /// Save the settings that were read to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DO)]
    pub(crate) save: Option<PathBuf>,
    /// Audit settings from a saved file instead of this host's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["watch", "apply", "undo", "save", "interface", "disk"], help_heading = DO)]
    pub(crate) load: Option<PathBuf>,
    /// Compare two saved files
    #[arg(long, value_names = ["A", "B"], num_args = 2, value_hint = ValueHint::FilePath, conflicts_with_all = ["watch", "apply", "undo", "save", "load"], help_heading = DO)]
    pub(crate) diff: Option<Vec<PathBuf>>,
    /// Fix settings whose checks fail or warn, and record the changes for --undo: sysctls, /sys, queueing disciplines, and
    /// what the
    /// card accepts without a link interruption; rings only with --only B5. Queues, MTU and mounts are only advised
    #[arg(long, conflicts_with_all = ["undo", "watch"], help_heading = DO)]
    pub(crate) apply: bool,
    /// Revert the changes of --apply
    #[arg(long, help_heading = DO)]
    pub(crate) undo: bool,
    /// Show the changes that --apply or --undo would make, without making them
    #[arg(long, help_heading = DO)]
    pub(crate) dry_run: bool,
    /// Apply without confirmation
    #[arg(long, add = with("apply"), conflicts_with_all = ["peer", "token_file", "watch", "load", "diff", "undo"], help_heading = DO)]
    pub(crate) yes: bool,
    /// File in which --apply records its changes
    #[arg(long, value_name = "FILE", default_value = "/var/lib/skyhaul/host-journal", value_hint = ValueHint::FilePath, help_heading = DO)]
    pub(crate) journal: PathBuf,
    /// Print one JSON report on standard output
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}
