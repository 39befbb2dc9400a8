//! Arguments of `receive`, most of which are also those of `record`.

use super::build::BuildArgs;
use super::heading::{DESTINATION, HOST, INPUT, TESTING, WHEN};
use super::heaps::HeapReceiveArgs;
use super::join::JoinArgs;
use super::limits::{RECEIVE_THREADS, WINDOW, at_least_one, some, up_to};
use super::output::OutputArgs;
use super::stream::StreamArgs;
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::io::address::Endpoint;
use skyhaul::io::fault::Faults;
use skyhaul::io::quantity::{Size, Span};
use skyhaul::receive::Origin;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    /// First, because the general options come last.
    #[command(flatten)]
    pub(crate) worker: JoinArgs,
    #[command(flatten)]
    pub(crate) common: ReceiveCommon,
    /// Write the frames to this file, `-` for standard output (default: discard them). An existing file is replaced when the
    /// first data arrive
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION, display_order = 0)]
    pub(crate) output_file: Option<PathBuf>,
    /// Write a line for each heap or event to this file: its number, its source, and the bytes that came and are missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) list: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    /// Take this long over each heap or event, as a program that works on them would
    #[arg(long, value_name = "TIME", help_heading = TESTING)]
    pub(crate) work: Option<Span>,
    /// Check every payload against what `send --pattern` sends
    #[arg(long, help_heading = TESTING, display_order = 0)]
    pub(crate) verify: bool,
}

/// How packets are taken in.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReceiveCommon {
    /// Address to listen on, like udp://10.0.2.5:46227; may be repeated
    #[arg(long, value_name = "ADDRESS", required_unless_present = "pcap", help_heading = INPUT, display_order = 0)]
    pub(crate) listen: Vec<Endpoint>,
    /// Read packets from this capture file instead (pcap, pcapng)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "listen", help_heading = INPUT, display_order = 1)]
    pub(crate) pcap: Option<PathBuf>,
    /// Accept only this sender, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010 or :5000; may be repeated
    #[arg(long, value_name = "SENDER", value_delimiter = ',', help_heading = INPUT)]
    pub(crate) from: Vec<Origin>,
    /// Accept only streams of this VDIF station, two letters or a number as `inspect` shows it; may be repeated
    #[arg(long, value_name = "STATION", value_delimiter = ',', help_heading = INPUT)]
    pub(crate) station: Vec<String>,
    /// Maximum number of senders followed at a time
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = at_least_one::<usize>("use the number of senders"), help_heading = INPUT)]
    pub(crate) max_streams: usize,
    /// Forward everything to this address as it arrives; may be repeated
    #[arg(long, value_name = "ADDRESS", help_heading = DESTINATION)]
    pub(crate) forward: Vec<Endpoint>,
    /// Stop this long after the first packet
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    pub(crate) duration: Option<Span>,
    /// Stop after this long without a packet, once the first has arrived
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    pub(crate) idle: Option<Span>,
    /// Give up if no packet arrives within this time of the start
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    pub(crate) wait: Option<Span>,
    /// Stop after about this many bytes
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("omit it for no limit"), help_heading = WHEN)]
    pub(crate) bytes: Option<Size>,
    /// Begin at this data time (UTC), and keep no earlier frames: 2026-11-21T03:00:00Z, 2026y325d03h00m00s as in VEX, or a Unix
    /// time in seconds; fractions of a second are rounded up
    #[arg(long, value_name = "TIME", value_parser = data_time, help_heading = WHEN)]
    pub(crate) start: Option<i64>,
    /// Stop at this data time (UTC), and keep no frames from it on
    #[arg(long, value_name = "TIME", value_parser = data_time, help_heading = WHEN)]
    pub(crate) stop: Option<i64>,
    /// Start at this wall-clock time (UTC, written as for --start); earlier packets are counted and dropped
    #[arg(long, value_name = "TIME", value_parser = data_time, help_heading = WHEN)]
    pub(crate) start_at: Option<i64>,
    /// Stop at this wall-clock time (UTC)
    #[arg(long, value_name = "TIME", value_parser = data_time, help_heading = WHEN)]
    pub(crate) stop_at: Option<i64>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    /// Memory for packets (default: a quarter of the machine's, at most 4 GiB)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 256MiB, or omit it"), help_heading = HOST)]
    pub(crate) memory: Option<Size>,
    /// Size of a chunk file and of a memory block (default: 1/256 of the memory, from 1 MiB to 256 MiB)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 16MiB, or omit it"), help_heading = HOST)]
    pub(crate) chunk: Option<Size>,
    /// Blocks kept open for each stream; more blocks absorb more reordering
    #[arg(long, default_value_t = 2, value_name = "BLOCKS", value_parser = up_to::<usize>(WINDOW, "2 suits most networks; a larger --chunk also absorbs more reordering"), help_heading = HOST)]
    pub(crate) window: usize,
    /// Longest time that a slow stream's data stay in memory
    #[arg(long, default_value = "5s", value_name = "TIME", help_heading = HOST)]
    pub(crate) flush: Span,
    /// UDP socket buffer to request
    #[arg(long, default_value = "256MiB", value_name = "SIZE", help_heading = HOST)]
    pub(crate) socket_buffer: Size,
    /// Sockets and threads for each UDP address; senders are spread over them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = up_to::<usize>(RECEIVE_THREADS, "one for each processor is enough"), help_heading = HOST)]
    pub(crate) receive_threads: usize,
    /// Processors for the receiving threads, like 2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = HOST)]
    pub(crate) cpus: Vec<usize>,
    /// Real-time priority of the receiving threads, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), help_heading = HOST)]
    pub(crate) realtime: Option<u8>,
    /// How to receive UDP
    #[arg(long, value_enum, default_value_t = TierArg::Auto, help_heading = HOST)]
    pub(crate) tier: TierArg,
    /// Report to senders what arrives, for their `--rate auto`
    #[arg(long, help_heading = HOST)]
    pub(crate) feedback: bool,
    /// Inject faults into what arrives, like loss=0.01,reorder=64,duplicate=0.01,seed=7
    #[arg(long, value_name = "SPEC", help_heading = TESTING)]
    pub(crate) faults: Option<Faults>,
    #[command(flatten)]
    pub(crate) of_heaps: HeapReceiveArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn data_time(text: &str) -> Result<i64, String> {
    skyhaul::time::parse(text).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierArg {
    /// The fastest that this host and the traffic allow
    Auto,
    /// Trains of packets in one system call (UDP_GRO)
    Stage,
    /// As stage, without trains
    Plain,
    /// A ring shared with the kernel (needs CAP_NET_RAW)
    Ring,
}
