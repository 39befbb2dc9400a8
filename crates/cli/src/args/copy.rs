//! Arguments of `copy`.

use super::limits::OutputArgs;
use super::limits::{DESTINATION, GENERAL, HOST, PACE, SOURCE, TESTING};
use super::limits::{some, up_to};
use super::record::DiskEngine;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::io::quantity::{Rate, Size};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Connections of one copy: each is two threads.
const FLOWS: u64 = 256;
/// Requests in flight at a disk, each with a range in memory.
const DEPTH: u64 = 256;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_value_name = "serve"
)]
pub(crate) struct CopyArgs {
    #[command(subcommand)]
    pub(crate) what: Option<CopyWhat>,
    #[command(flatten)]
    pub(crate) copy: CopyFilesArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CopyWhat {
    /// Serve directories to clients that hold the token: they can copy into and out of them
    Serve(CopyServeArgs),
}

#[derive(Args, Debug)]
pub(crate) struct CopyFilesArgs {
    /// What to copy, then where: `SRC... HOST:DIR...` or `HOST:SRC... DIR...`. The first source goes into the first
    /// directory, the second into the second, and so on in turn
    #[arg(required = true, num_args = 2.., value_name = "SRC... DIR", value_hint = ValueHint::AnyPath, help_heading = SOURCE)]
    pub(crate) paths: Vec<OsString>,
    /// File with the token of the server
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath, help_heading = SOURCE)]
    pub(crate) token_file: Option<PathBuf>,
    /// Port of the server
    #[arg(long, value_name = "PORT", default_value_t = skyhaul_transfer::copy::PORT, help_heading = DESTINATION)]
    pub(crate) port: u16,
    /// What to do with a file that exists and differs. One of the same size and time is the same, unless the source changed
    /// after it was copied: then both are read
    #[arg(long, value_enum, default_value_t = CopyExistsArg::Fail, help_heading = DESTINATION)]
    pub(crate) exists: CopyExistsArg,
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = up_to::<usize>(FLOWS, "4 to 16 are usual"), help_heading = PACE)]
    pub(crate) flows: usize,
    /// Socket buffers of each connection (default: the system's)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 64MiB"), help_heading = PACE)]
    pub(crate) window: Option<Size>,
    /// Congestion control, such as bbr (default: the system's)
    #[arg(long, value_name = "NAME", help_heading = PACE)]
    pub(crate) cc: Option<String>,
    /// Highest rate of all connections together
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 8Gbps"), help_heading = PACE)]
    pub(crate) limit: Option<Rate>,
    /// Measure disks and path for some seconds first, predict, and compare at the end
    #[arg(long, help_heading = PACE)]
    pub(crate) plan: bool,
    /// Predict as with --plan, and copy nothing
    #[arg(long, help_heading = PACE)]
    pub(crate) dry_run: bool,
    /// Read the files at both ends, compare their digests, and copy nothing. Exit status 1 if one is missing or differs
    #[arg(long, conflicts_with_all = ["plan", "dry_run", "exists"], help_heading = DESTINATION)]
    pub(crate) verify: bool,
    /// Size of a range: what is checked, journalled and sent again as one
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = some::<Size>("such as 4MiB"), help_heading = HOST)]
    pub(crate) range: Size,
    /// Requests in flight at the disk
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = up_to::<usize>(DEPTH, "8 keep most disks busy"), help_heading = HOST)]
    pub(crate) depth: usize,
    /// Through the page cache at both ends
    #[arg(long, help_heading = HOST)]
    pub(crate) buffered: bool,
    /// System calls for disks
    #[arg(long, value_enum, default_value_t = DiskEngine::Auto, help_heading = HOST)]
    pub(crate) disk_engine: DiskEngine,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CopyServeArgs {
    /// Directory to serve; may be repeated. A client names paths below it, absolute or from the first
    #[arg(long, required = true, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = DESTINATION)]
    pub(crate) root: Vec<PathBuf>,
    /// File with the token; made if there is none
    #[arg(long, required = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = SOURCE)]
    pub(crate) token_file: PathBuf,
    /// Address to listen on (default: port 14301 of all addresses, IPv6 and IPv4)
    #[arg(long, value_name = "IP:PORT", help_heading = SOURCE)]
    pub(crate) listen: Option<SocketAddr>,
    /// Read-only: refuse uploads
    #[arg(long, help_heading = DESTINATION)]
    pub(crate) read_only: bool,
    /// System calls for disks
    #[arg(long, value_enum, default_value_t = DiskEngine::Auto, help_heading = HOST)]
    pub(crate) disk_engine: DiskEngine,
    /// Inject faults into the disk written to: `slow=200`, `latency=20ms`, `enospc=1GiB`, `eio=1GiB`, `esync=2`
    #[arg(long, value_name = "SPEC", help_heading = TESTING)]
    pub(crate) disk_faults: Option<String>,
    /// Print one JSON report on standard output at the end
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CopyExistsArg {
    /// Do not copy this file, and fail
    Fail,
    /// Leave it as it is
    Skip,
    /// Replace it, when the new one is whole
    Replace,
}
