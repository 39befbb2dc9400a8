//! Arguments of `rdma`.

use super::limits::{
    DESTINATION, HOST, OutputArgs, PACE, SOURCE, TESTING, WHEN, at_least_one, from_to, some,
};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::fault::Faults;
use skyhaul::io::quantity::{Rate, Size, Span};
use skyhaul::rdma::{MAX_OUTSTANDING, PlacementTier, RdmaAddress, RegionSpec};
use std::ops::Range;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct RdmaArgs {
    #[command(subcommand)]
    pub(crate) what: RdmaWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RdmaWhat {
    /// Expose memory of this host, which others write and read
    Serve(RdmaServeArgs),
    /// Write to memory of another host
    Write(RdmaWriteArgs),
    /// Send messages to another host, which has buffers for them
    Send(RdmaSendArgs),
    /// Read from memory of another host
    Read(RdmaReadArgs),
}

#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = HOST)]
pub(crate) struct RdmaPathArgs {
    /// Longest datagram in bytes of UDP payload (default: what the path carries, at most 8972), or longest frame over TCP (default: a segment of the path)
    #[arg(long, value_name = "BYTES", value_parser = from_to::<u16>(128, 65_507, "1472, or 8972 for jumbo frames"))]
    pub(crate) packet: Option<u16>,
    /// Whether each datagram, or frame over TCP, carries a CRC-32C of all its bytes, and damaged ones are refused: both ends do as soon as one asks for it (default: over TCP)
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on", hide_possible_values = true)]
    pub(crate) crc: Option<SwitchArg>,
}

impl RdmaPathArgs {
    pub(crate) fn crc(&self) -> Option<bool> {
        self.crc.map(|switch| matches!(switch, SwitchArg::On))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SwitchArg {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PlacementTierArg {
    /// The kernel if it can, else this process, and the report says why
    Auto,
    /// This process, from trains of datagrams
    Stage,
    /// A program in the kernel. If it cannot be loaded, the command fails and says what is missing
    Bpf,
}

impl From<PlacementTierArg> for PlacementTier {
    fn from(tier: PlacementTierArg) -> PlacementTier {
        match tier {
            PlacementTierArg::Auto => PlacementTier::Auto,
            PlacementTierArg::Stage => PlacementTier::Stage,
            PlacementTierArg::Bpf => PlacementTier::Bpf,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct RdmaServeArgs {
    /// Address to listen on, like rdma+udp://10.0.0.1:7000 or rdma+tcp://10.0.0.1:7000; port 0 is any
    #[arg(long, value_name = "ADDRESS", help_heading = SOURCE)]
    pub(crate) listen: RdmaAddress,
    /// Memory to expose, NAME:SIZE:RIGHTS, like vis:64MiB:read,write (rights: read, write, invalidate); may be repeated
    #[arg(long, value_name = "REGION", required = true, help_heading = SOURCE)]
    pub(crate) region: Vec<RegionSpec>,
    /// Take the messages of `rdma send`: an empty directory, for a file each, or a file for all complete ones, one after the other
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = DESTINATION)]
    pub(crate) messages: Option<PathBuf>,
    /// Longest message that is taken with --messages or --verify, at most 16 MiB: shorter ones leave room for more at a time
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = some::<Size>("such as 64KiB"), help_heading = DESTINATION)]
    pub(crate) longest: Size,
    /// Stop after this long
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("such as 10s"), help_heading = WHEN)]
    pub(crate) duration: Option<Span>,
    /// Accept this many connections, and stop when they have ended
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>("1 ends with the first connection"), help_heading = WHEN)]
    pub(crate) connections: Option<u64>,
    /// Who places what peers write: this process (stage) or the kernel (bpf; UDP, needs CAP_BPF)
    #[arg(long, value_enum, default_value_t = PlacementTierArg::Stage, help_heading = HOST)]
    pub(crate) tier: PlacementTierArg,
    /// Compare memory with the patterns of `rdma write --pattern` and `rdma send --pattern`, and exit 1 if a byte differs
    #[arg(long, help_heading = TESTING)]
    pub(crate) verify: bool,
    /// Inject faults into arriving datagrams (UDP), like loss=0.01,seed=7
    #[arg(long, value_name = "FAULTS", help_heading = TESTING)]
    pub(crate) faults: Option<Faults>,
    #[command(flatten)]
    pub(crate) path: RdmaPathArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RdmaWriteArgs {
    #[command(flatten)]
    pub(crate) what: RdmaMessageArgs,
    /// Send the number of each message as its immediate data; the peer then knows how long a message is even if its last datagram is lost
    #[arg(long, help_heading = SOURCE)]
    pub(crate) imm: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RdmaSendArgs {
    #[command(flatten)]
    pub(crate) what: RdmaMessageArgs,
    /// Mark each message as solicited: it asks for the peer's program to be woken
    #[arg(long, help_heading = SOURCE)]
    pub(crate) solicited: bool,
    /// End the region with the last message (Send with Invalidate): the server takes no more Writes, Reads and connections for it
    #[arg(long, help_heading = SOURCE)]
    pub(crate) invalidate: bool,
}

/// Messages that leave, and how.
#[derive(Args, Debug)]
pub(crate) struct RdmaMessageArgs {
    /// The region, like rdma+udp://10.0.0.1:7000/vis or rdma+tcp://10.0.0.1:7000/vis; a connection is for one, also if it only sends
    #[arg(value_name = "REGION", help_heading = DESTINATION)]
    pub(crate) to: RdmaAddress,
    /// Messages that verify themselves; Writes go through the region again and again
    #[arg(long, conflicts_with = "input", required_unless_present = "input", help_heading = SOURCE)]
    pub(crate) pattern: bool,
    /// The bytes of this file, once; Writes go from the region's start on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = SOURCE)]
    pub(crate) input: Option<PathBuf>,
    /// Bytes of a message
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = some::<Size>("such as 64KiB"), help_heading = SOURCE)]
    pub(crate) message: Size,
    /// Rate of datagram payload, like 1Gbps, or `max`; a pattern without --messages needs one
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = PACE)]
    pub(crate) rate: Option<Rate>,
    /// Stop after this many messages
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>("1 is one message"), help_heading = PACE)]
    pub(crate) messages: Option<u64>,
    /// Stop after this long
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("such as 10s"), help_heading = PACE)]
    pub(crate) duration: Option<Span>,
    /// Time for the peer to answer: to accept the connection, and to confirm its end
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some::<Span>("such as 5s"), help_heading = PACE)]
    pub(crate) deadline: Span,
    /// Inject faults into the segments that are sent (UDP), like loss=0.01,seed=7
    #[arg(long, value_name = "FAULTS", help_heading = TESTING)]
    pub(crate) faults: Option<Faults>,
    #[command(flatten)]
    pub(crate) path: RdmaPathArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RdmaReadArgs {
    /// The region, like rdma+udp://10.0.0.1:7000/vis or rdma+tcp://10.0.0.1:7000/vis
    #[arg(value_name = "REGION", help_heading = SOURCE)]
    pub(crate) from: RdmaAddress,
    /// Range of the region, FIRST..BEHIND, like 0..1MiB (default: all of it)
    #[arg(long, value_name = "RANGE", value_parser = range, help_heading = SOURCE)]
    pub(crate) range: Option<Range<u64>>,
    /// Bytes of a Read, at most 16 MiB
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = some::<Size>("such as 1MiB"), help_heading = PACE)]
    pub(crate) message: Size,
    /// Reads at a time, at most 256, of at most 256 MiB together
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = from_to::<usize>(1, MAX_OUTSTANDING as u64, "8, or more for short messages"), help_heading = PACE)]
    pub(crate) outstanding: usize,
    /// Time for each Read, and to connect (at most 5 s); what is missing is asked for again until then (UDP)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = some::<Span>("such as 2s"), help_heading = PACE)]
    pub(crate) deadline: Span,
    /// File to write to, or - for standard output; zeros stand for what did not arrive (default: nothing is kept)
    #[arg(long = "output", short = 'o', id = "output_file", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) to: Option<PathBuf>,
    /// Inject faults into arriving datagrams (UDP), like loss=0.01,seed=7
    #[arg(long, value_name = "FAULTS", help_heading = TESTING)]
    pub(crate) faults: Option<Faults>,
    #[command(flatten)]
    pub(crate) path: RdmaPathArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A rate; 0 is as fast as possible.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "max" => Ok(Rate::default()),
        _ => match text.parse::<Rate>() {
            Ok(rate) if rate == Rate::default() => {
                Err(format!("must be greater than zero{}", Hint("such as 1Gbps, or max")))
            }
            Ok(rate) => Ok(rate),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let hint = Hint("write it as FIRST..BEHIND, like 0..1MiB or 4096..8192");
    let (first, behind) = text.split_once("..").ok_or_else(|| format!("not a range{hint}"))?;
    let [first, behind] = [first, behind].map(|size| size.parse::<Size>().map(|size| size.bytes()));
    let range = first.map_err(|error| error.to_string())?..behind.map_err(|error| error.to_string())?;
    if range.is_empty() { Err(format!("an empty range{hint}")) } else { Ok(range) }
}
