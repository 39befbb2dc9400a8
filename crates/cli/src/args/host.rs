//! Arguments of `host`.

use super::applies::with;
use super::limits::GENERAL;
use super::limits::some;
use clap::{Args, ValueHint};
use skyhaul::io::quantity::{Rate, Span};
use skyhaul_measure::host::Role;
use std::path::PathBuf;

const DO: &str = "What to do besides";
const WANTED: &str = "What the host is wanted for";

/// What is done on this host alone.
const NOT_WITH_PEER: [&str; 5] = ["watch", "apply", "undo", "diff", "load"];

#[derive(Args, Debug)]
pub(crate) struct HostArgs {
    /// Interface of the data (default: the fastest)
    #[arg(long, short, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Directory of the data; may be repeated (default: every file system on a disk)
    #[arg(long = "disk", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) disk: Vec<PathBuf>,
    /// Only these checks: a group (A, B, C, D) or a check (C14), separated by commas
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', value_parser = skyhaul_measure::host::selection)]
    pub(crate) only: Vec<String>,
    /// Show what is as wanted, and what means nothing here, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Rate of all flows together (default: that of the link)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 10Gbps, or omit it"), help_heading = WANTED)]
    pub(crate) rate: Option<Rate>,
    /// Round trip to the other end (default: 10ms)
    #[arg(long, value_name = "TIME", help_heading = WANTED)]
    pub(crate) rtt: Option<Span>,
    /// What it does: send, receive, both, record, measure
    #[arg(long, value_name = "ROLE", default_value_t = Role::Both, help_heading = WANTED)]
    pub(crate) role: Role,
    /// Flows at once (default: 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536), help_heading = WANTED)]
    pub(crate) flows: Option<u64>,
    /// MTU that the path carries (default: 9000 from 10 Gb/s on)
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(68..=65535), help_heading = WANTED)]
    pub(crate) mtu: Option<u64>,
    /// Judge the other end too, and compare: a host, with the port of its `skyhaul probe serve` if it is another than usual
    #[arg(long, value_name = "HOST", add = with("token_file"), conflicts_with_all = NOT_WITH_PEER, help_heading = DO)]
    pub(crate) peer: Option<String>,
    /// File with the token of the other end
    #[arg(long, value_name = "FILE", add = with("peer"), conflicts_with_all = NOT_WITH_PEER, value_hint = ValueHint::FilePath, help_heading = DO)]
    pub(crate) token_file: Option<PathBuf>,
    /// Run a command, and tell which counters rose meanwhile: the rest of the line is the command
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true, help_heading = DO)]
    pub(crate) watch: Vec<String>,
    /// Write what was read to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DO)]
    pub(crate) save: Option<PathBuf>,
    /// Judge what was saved in a file instead of this host
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["watch", "apply", "undo", "save", "interface", "disk"], help_heading = DO)]
    pub(crate) load: Option<PathBuf>,
    /// Compare two files that were saved
    #[arg(long, value_names = ["A", "B"], num_args = 2, value_hint = ValueHint::FilePath, conflicts_with_all = ["watch", "apply", "undo", "save", "load"], help_heading = DO)]
    pub(crate) diff: Option<Vec<PathBuf>>,
    /// Write the settings that mend what fails or warns, after noting them for --undo: sysctls, /sys, queueing disciplines, and what the
    /// card takes without a break of the link; rings only with --only B5; queues, MTU and mounts are advised only
    #[arg(long, conflicts_with_all = ["undo", "watch"], help_heading = DO)]
    pub(crate) apply: bool,
    /// Take back what --apply wrote
    #[arg(long, help_heading = DO)]
    pub(crate) undo: bool,
    /// Show what --apply or --undo would write, and write nothing
    #[arg(long, help_heading = DO)]
    pub(crate) dry_run: bool,
    /// Ask nothing before --apply
    #[arg(long, add = with("apply"), conflicts_with_all = ["peer", "token_file", "watch", "load", "diff", "undo"], help_heading = DO)]
    pub(crate) yes: bool,
    /// Where --apply notes what it changes
    #[arg(long, value_name = "FILE", default_value = "/var/lib/skyhaul/host-journal", value_hint = ValueHint::FilePath, help_heading = DO)]
    pub(crate) journal: PathBuf,
    /// Print one JSON report on standard output
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}
