//! Arguments of `receive`, most of which are also those of `record`.

use super::applies::{ALWAYS, FRAMES, OBJECTS, TCP, UDP, to};
use super::build::BuildArgs;
use super::heading::{DESTINATION, HOST, INPUT, TESTING, WHEN};
use super::heaps::HeapReceiveArgs;
use super::join::JoinArgs;
use super::limits::{RECEIVE_THREADS, at_least_one, some, up_to};
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
    #[command(flatten)]
    pub(crate) common: ReceiveCommon,
    /// Write the data to this file, `-` for standard output (default: discard them). An existing file is replaced when the
    /// first data arrive
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, add = ALWAYS, help_heading = DESTINATION, display_order = 0)]
    pub(crate) output_file: Option<PathBuf>,
    /// Write incomplete heaps and events too, with zeros in their gaps
    #[arg(long, add = to(OBJECTS).with("output_file"))]
    pub(crate) incomplete: bool,
    /// Write a line for each heap or event to this file: its number, source, bytes received and bytes missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = to(OBJECTS))]
    pub(crate) list: Option<PathBuf>,
    /// Spend this time on each heap or event, as a program that processes them would
    #[arg(long, value_name = "TIME", add = to(OBJECTS))]
    pub(crate) work: Option<Span>,
    /// Check every payload against what `send --pattern` sends
    #[arg(long, add = ALWAYS, help_heading = TESTING, display_order = 0)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    #[command(flatten)]
    pub(crate) worker: JoinArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How packets are received.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReceiveCommon {
    /// Address to listen on, like udp://10.0.2.5:46227; may be repeated
    #[arg(long, value_name = "ADDRESS", required_unless_present = "pcap", add = ALWAYS, help_heading = INPUT, display_order = 0)]
    pub(crate) listen: Vec<Endpoint>,
    /// Read packets from this capture file instead (pcap, pcapng)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "listen", add = ALWAYS, help_heading = INPUT, display_order = 1)]
    pub(crate) pcap: Option<PathBuf>,
    /// Accept only this sender, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010 or :5000; may be repeated
    #[arg(long, value_name = "SENDER", value_delimiter = ',', add = ALWAYS, help_heading = INPUT)]
    pub(crate) from: Vec<Origin>,
    /// Maximum number of senders followed at a time
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = at_least_one::<usize>("use the number of senders"), add = ALWAYS, help_heading = INPUT)]
    pub(crate) max_streams: usize,
    /// Forward everything to this address as it arrives; may be repeated
    #[arg(long, value_name = "ADDRESS", add = ALWAYS, help_heading = DESTINATION)]
    pub(crate) forward: Vec<Endpoint>,
    /// Stop this long after the first packet
    #[arg(long, value_name = "TIME", add = ALWAYS, help_heading = WHEN)]
    pub(crate) duration: Option<Span>,
    /// Stop after this long without a packet, once the first has arrived
    #[arg(long, value_name = "TIME", add = ALWAYS, help_heading = WHEN)]
    pub(crate) idle: Option<Span>,
    /// Give up if no packet arrives within this time of the start
    #[arg(long, value_name = "TIME", add = ALWAYS, help_heading = WHEN)]
    pub(crate) wait: Option<Span>,
    /// Stop after about this many bytes
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("omit it for no limit"), add = ALWAYS, help_heading = WHEN)]
    pub(crate) bytes: Option<Size>,
    /// Start at this wall-clock time (UTC), like 2026-11-21T03:00:00Z; earlier packets are counted and dropped
    #[arg(long, value_name = "TIME", value_parser = data_time, add = ALWAYS, help_heading = WHEN)]
    pub(crate) start_at: Option<i64>,
    /// Stop at this wall-clock time (UTC)
    #[arg(long, value_name = "TIME", value_parser = data_time, add = ALWAYS, help_heading = WHEN)]
    pub(crate) stop_at: Option<i64>,
    /// Memory for packets (default: a quarter of the machine's, at most 4 GiB)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 256MiB, or omit it"), add = ALWAYS, help_heading = HOST)]
    pub(crate) memory: Option<Size>,
    /// Size of a chunk file and of a memory block (default: 1/256 of the memory, from 1 MiB to 256 MiB)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 16MiB, or omit it"), add = to(FRAMES).in_verb("receive").instead(OBJECTS, "use --memory, which limits all heaps and events together"), help_heading = HOST)]
    pub(crate) chunk: Option<Size>,
    /// Longest time that data of a slow stream stay in memory
    #[arg(long, default_value = "5s", value_name = "TIME", add = to(FRAMES).in_verb("receive").instead(OBJECTS, "use --heap-timeout"), help_heading = HOST)]
    pub(crate) flush: Span,
    /// UDP socket buffer to request
    #[arg(long, default_value = "256MiB", value_name = "SIZE", add = to(UDP), help_heading = HOST)]
    pub(crate) socket_buffer: Size,
    /// Sockets and threads for each UDP address; senders are spread over them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = up_to::<usize>(RECEIVE_THREADS, "one for each CPU is enough"), add = to(UDP), help_heading = HOST)]
    pub(crate) receive_threads: usize,
    /// CPUs for the receiving threads, like 2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',', add = ALWAYS, help_heading = HOST)]
    pub(crate) cpus: Vec<usize>,
    /// Real-time priority of the receiving threads, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), add = ALWAYS, help_heading = HOST)]
    pub(crate) realtime: Option<u8>,
    /// How to receive UDP
    #[arg(long, value_enum, default_value_t = TierArg::Auto, add = to(UDP), help_heading = HOST)]
    pub(crate) tier: TierArg,
    /// Report to senders what arrives, for their `--rate auto`
    #[arg(long, add = to(UDP).instead(TCP, "omit it; TCP controls its own rate"), help_heading = HOST)]
    pub(crate) feedback: bool,
    /// Inject faults into what arrives, like loss=0.01,reorder=64,duplicate=0.01,seed=7
    #[arg(long, value_name = "SPEC", add = ALWAYS, help_heading = TESTING)]
    pub(crate) faults: Option<Faults>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    #[command(flatten)]
    pub(crate) of_heaps: HeapReceiveArgs,
}

pub(super) fn data_time(text: &str) -> Result<i64, String> {
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
