//! Arguments of `record`.

use super::applies::{ALWAYS, FRAMES, OBJECTS, to};
use super::limits::OutputArgs;
use super::limits::{DESTINATION, TESTING};
use super::receive::ReceiveCommon;
use super::stored::DiskArgs;
use clap::{Args, ValueEnum};
use skyhaul::io::quantity::{Size, Span};

#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) common: ReceiveCommon,
    #[command(flatten, next_help_heading = DESTINATION)]
    pub(crate) disks: DiskArgs,
    /// Name of the recording, like exp_st_no0001
    #[arg(long, value_name = "NAME", add = ALWAYS, help_heading = DESTINATION, display_order = 1)]
    pub(crate) scan: String,
    /// What to do if the recording already exists
    #[arg(long, value_enum, default_value_t = ExistsArg::Suffix, add = ALWAYS, help_heading = DESTINATION)]
    pub(crate) exists: ExistsArg,
    /// Free space to leave on each disk
    #[arg(long, default_value = "64MiB", value_name = "SIZE", add = ALWAYS, help_heading = DESTINATION)]
    pub(crate) reserve: Size,
    /// Warn when all disks will be full within this time at the current rate, and again at a tenth of it
    #[arg(long, default_value = "10min", value_name = "TIME", add = ALWAYS, help_heading = DESTINATION)]
    pub(crate) space_alarm: Span,
    /// When data are flushed to the disk, and so acknowledged
    #[arg(long, value_enum, default_value_t = SyncArg::Interval, add = ALWAYS, help_heading = DESTINATION)]
    pub(crate) sync: SyncArg,
    /// How to write to disks
    #[arg(long, value_enum, default_value_t = DiskEngine::Auto, add = ALWAYS, help_heading = DESTINATION)]
    pub(crate) disk_engine: DiskEngine,
    /// Write nothing for lost frames, instead of frames marked invalid
    #[arg(long, add = to(FRAMES).instead(OBJECTS, "leave it out; gaps in heaps and events are never filled"))]
    pub(crate) no_fill: bool,
    /// Inject faults into a disk: `PATH:slow=200`, `PATH:enospc=1GiB`, `PATH:eio=1GiB`, `PATH:eagain=3`
    #[arg(long, value_name = "PATH:SPEC", add = ALWAYS, help_heading = TESTING)]
    pub(crate) disk_faults: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyncArg {
    /// After every chunk
    Chunk,
    /// ValueList times a second, all chunks together
    Interval,
    /// Left to the operating system
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiskEngine {
    /// io_uring if it is permitted, otherwise pwrite
    Auto,
    /// io_uring
    Uring,
    /// pwrite
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExistsArg {
    /// Append a letter to the new one's name, a to z, then A to Z
    Suffix,
    /// Refuse to record
    Error,
}
