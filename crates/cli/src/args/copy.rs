//! Arguments of `copy`.

use super::limits::OutputArgs;
use super::limits::{DESTINATION, GENERAL, HOST, PACE, SOURCE, TESTING};
use super::limits::{some, up_to};
use super::via::ViaArgs;
use crate::args::receive::DiskEngine;
use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
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

// Not exclusive: an option that needs one of them would be taken with the other and do nothing.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("between").multiple(true))]
pub(crate) struct CopyFilesArgs {
    /// Sources, then destinations: `SRC... HOST:DIR...` or `HOST:SRC... DIR...`. The first source goes into the first
    /// directory, the second into the second, and so on in turn. Or with a web server: `URL... DIR`, `URL FILE`, `SRC... URL/`, `FILE URL` (https,
    /// http, davs, dav); with a server of etransfer, the same with `etd://HOST[:PORT]/PATH`, in which a source may have wildcards
    #[arg(required_unless_present = "job", num_args = 2.., value_name = "SRC... DIR", value_hint = ValueHint::AnyPath, help_heading = SOURCE)]
    pub(crate) paths: Vec<OsString>,
    /// File with the token of the server. With URLs, a bearer token, if the server requires one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = SOURCE)]
    pub(crate) token_file: Option<PathBuf>,
    /// Send the token of a URL over the network without TLS
    #[arg(long, help_heading = SOURCE)]
    pub(crate) plain_token: bool,
    /// File or directory with more certificate authorities for URLs, besides the system's
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = SOURCE)]
    pub(crate) ca: Option<PathBuf>,
    /// Whose traffic it is, with URLs (scitags.org): 64 times the number of the experiment, plus that of the activity. Servers that mark
    /// their connections are given it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(65..), help_heading = SOURCE)]
    pub(crate) scitag: Option<u16>,
    /// Have one of two servers copy to the other (WLCG HTTP-TPC): `URL URL`. The data do not pass through this host
    #[arg(long, group = "between", help_heading = SOURCE)]
    pub(crate) third_party: bool,
    /// Which server is asked [default: the destination pulls, or if it cannot, the source pushes]
    #[arg(long, value_enum, requires = "third_party", help_heading = SOURCE)]
    pub(crate) mode: Option<CopyModeArg>,
    /// File with the bearer token of the source, if it is not that of --token-file
    #[arg(long, value_name = "FILE", requires = "between", value_hint = ValueHint::FilePath, help_heading = SOURCE)]
    pub(crate) source_token_file: Option<PathBuf>,
    /// Port of the server (default: 14301); a URL has its own
    #[arg(long, value_name = "PORT", help_heading = DESTINATION)]
    pub(crate) port: Option<u16>,
    /// What to do if the destination file exists and differs. Files of equal size and time are taken as equal, unless the
    /// source changed after it was copied: then both are read
    #[arg(long, value_enum, default_value_t = CopyExistsArg::Fail, help_heading = DESTINATION)]
    pub(crate) exists: CopyExistsArg,
    /// Number of connections; of an upload to a URL, files sent at a time; with `etd://`, always 1
    #[arg(long, visible_alias = "streams", value_name = "N", default_value_t = 4, value_parser = up_to::<usize>(FLOWS, "4 to 16 are usual"), help_heading = PACE)]
    pub(crate) flows: usize,
    /// Encrypt the contents of files too (TLS 1.3). Without it, only requests, names and digests are encrypted. With URLs, the scheme decides
    #[arg(long, help_heading = SOURCE)]
    pub(crate) encrypt: bool,
    /// Socket buffers of each connection (default: the system's)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 64MiB"), help_heading = PACE)]
    pub(crate) window: Option<Size>,
    /// Congestion control, such as bbr (default: the system's)
    #[arg(long, value_name = "NAME", help_heading = PACE)]
    pub(crate) cc: Option<String>,
    /// Maximum total rate of all connections
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 8Gbps"), help_heading = PACE)]
    pub(crate) limit: Option<Rate>,
    /// First measure disks and path for a few seconds and predict the rate; compare at the end
    #[arg(long, help_heading = PACE)]
    pub(crate) plan: bool,
    /// Predict as with --plan, without copying. With URLs, count files and bytes; with --via, print the job without submitting it
    #[arg(long, help_heading = PACE)]
    pub(crate) dry_run: bool,
    /// Compare the digests of the files at both ends, without copying. Exit status 1 if one is missing or differs
    #[arg(long, conflicts_with_all = ["plan", "dry_run", "exists"], help_heading = DESTINATION)]
    pub(crate) verify: bool,
    /// Size of a range, the unit of checksum, journal and retransmission [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 4MiB"), help_heading = HOST)]
    pub(crate) range: Option<Size>,
    /// Disk requests in flight [default: 8]
    #[arg(long, value_name = "N", value_parser = up_to::<usize>(DEPTH, "8 keep most disks busy"), help_heading = HOST)]
    pub(crate) depth: Option<usize>,
    /// Through the page cache at both ends
    #[arg(long, help_heading = HOST)]
    pub(crate) buffered: bool,
    /// System calls for disks [default: auto]
    #[arg(long, value_enum, help_heading = HOST)]
    pub(crate) disk_engine: Option<DiskEngine>,
    #[command(flatten)]
    pub(crate) via: ViaArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CopyServeArgs {
    /// Directory to serve; may be repeated. A client names paths below it, absolute or from the first
    #[arg(long, required = true, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = DESTINATION)]
    pub(crate) root: Vec<PathBuf>,
    /// File with the token; created if it does not exist. The server's key is kept beside it, in FILE.key
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
pub(crate) enum CopyModeArg {
    /// The destination fetches
    Pull,
    /// The source sends
    Push,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CopyExistsArg {
    /// Skip this file and fail
    Fail,
    /// Keep it
    Skip,
    /// Replace it once the new one is complete
    Replace,
    /// Append what it lacks, if it is shorter; keep one of equal size (uploads by etransfer)
    Resume,
}
