//! Arguments of `mount`.

use super::limits::{OutputArgs, some};
use super::stored::DiskArgs;
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::io::quantity::{Size, Span};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    /// Empty directory where the scans appear
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub(crate) point: PathBuf,
    /// Scans to show, with * and ? for any characters (default: all)
    #[arg(value_name = "SCAN")]
    pub(crate) scans: Vec<String>,
    /// What is shown of each scan
    #[arg(long, value_enum, default_value = "whole", value_name = "VIEW")]
    pub(crate) view: MountView,
    /// Read missing and damaged bytes as fill (0x11223344) instead of an input/output error
    #[arg(long)]
    pub(crate) fill: bool,
    /// Read damaged and unverified chunks as they are (they are still reported)
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Let other users read
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// End a read with an input/output error if its disk does not answer for this long
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = some::<Span>("such as 10s"))]
    pub(crate) timeout: Span,
    /// Memory for data that are read ahead
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = some::<Size>("such as 256MiB"))]
    pub(crate) memory: Size,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MountView {
    /// One file
    Whole,
    /// One file, and a further one for each thread: SCAN.thread0
    Threads,
}
