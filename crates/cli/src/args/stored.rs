//! Arguments of the verbs that read recordings: `ls`, `check` and `cat`.

use super::applies::ALWAYS;
use super::output::OutputArgs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Where recordings lie.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskArgs {
    /// A disk: a directory, usually a mount point; may be repeated
    #[arg(long = "disk", value_name = "DIR", required = true, value_hint = ValueHint::DirPath, add = ALWAYS, display_order = 0)]
    pub(crate) disk: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    /// Name of the recording
    pub(crate) scan: String,
    /// Also check every payload against what `send --pattern` sends
    #[arg(long)]
    pub(crate) verify: bool,
    /// Add chunk files that are in no index to the index, as they are
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    /// Name of the recording
    pub(crate) scan: String,
    /// Number of the stream, if the recording has several
    #[arg(long, value_name = "N")]
    pub(crate) stream: Option<u32>,
    /// Follow the recording while it is being made
    #[arg(long)]
    pub(crate) follow: bool,
    /// Write invalid frames in place of missing or damaged chunks, to preserve length and time
    #[arg(long)]
    pub(crate) fill: bool,
    /// Write damaged and unverified chunks as they are (they are still reported)
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Write to this file (default: standard output)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output_file: Option<PathBuf>,
}
