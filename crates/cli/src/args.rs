//! What can be typed. One definition feeds the parser, `--help`, the man pages and the completions.

mod bench;
mod config;
mod format;
mod limits;
mod misplaced;
mod spead;

pub(crate) use bench::{BenchArgs, BenchWhat};
pub(crate) use config::{ConfigArgs, Places};
pub(crate) use spead::{
    Bounds, Experiment, PacketArg, RateArg, SpeadBenchArgs, SpeadReceiveArgs, SpeadSendArgs, StopArg,
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use format::FormatParser;
use limits::{DISKS, RECEIVE_THREADS, SENDERS, WINDOW, at_least_one, from_to, some, up_to};
use skyhaul::io::address::Endpoint;
use skyhaul::io::fault::Faults;
use skyhaul::io::quantity::{Rate, Size, Span};
use skyhaul::receive::Origin;
use skyhaul::wire::Format;
use std::path::PathBuf;

/// Receive, record, send and measure telescope and detector data.
///
/// Sizes are written like 64MiB, rates like 8Gbps, times like 10s or 250ms, addresses like
/// udp://[ip]:port?iface=eth0 or tcp://ip:port.
#[derive(Debug, Parser)]
#[command(name = "skyhaul", version, propagate_version = true, max_term_width = 110, after_help = EXIT)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What was typed, read and found to make sense together, with defaults from a file.
pub(crate) enum Parsed {
    /// What to do.
    Run(Box<Cli>),
    /// What `--show-config` prints.
    Show(String),
}

/// Read what was typed, and the file at one of `places` that has defaults for it.
pub(crate) fn parse<T: Into<std::ffi::OsString>>(
    words: impl IntoIterator<Item = T>,
    places: &Places,
) -> anyhow::Result<Parsed> {
    let command = definition();
    let words = words.into_iter().map(Into::into).collect();
    let merged = config::merge(&command, words, places)?;
    if let Some(text) = merged.shown {
        return Ok(Parsed::Show(text));
    }
    let matches = command.try_get_matches_from(merged.words)?;
    let cli = Cli::from_arg_matches(&matches)?;
    misplaced::check(&cli, &matches, &merged.from_file)?;
    Ok(Parsed::Run(Box::new(cli)))
}

/// The definition, so that `-1` is told to be no value, and not to be no option.
fn definition() -> clap::Command {
    let command = Cli::command();
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let numbers = |arg: clap::Arg| {
        let takes_value = arg.get_action().takes_values();
        if takes_value { arg.allow_negative_numbers(true) } else { arg }
    };
    let mut command = verbs
        .iter()
        .fold(command, |command, verb| command.mut_subcommand(verb, |verb| verb.mut_args(numbers)));
    command.build();
    command
}

const EXIT: &str = "Exit status: 0 done; 1 it did not hold, a measurement was interrupted, or data were lost where \
                    none may be; 2 wrong use, or something could not be opened.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Watch the main job on this machine, with nothing to set up
    Demo(DemoArgs),
    /// Send a file, a recording, a pattern or noise as packets
    Send(SendArgs),
    /// Receive streams to nowhere, a file or standard output
    Receive(ReceiveArgs),
    /// Record streams onto disks, and send them on
    Record(RecordArgs),
    /// List recordings
    Ls(LsArgs),
    /// Prove that a recording is what was acknowledged
    Check(CheckArgs),
    /// Write a recording to standard output
    Cat(CatArgs),
    /// Show packets of a file, a capture or a live port, field by field
    Inspect(InspectArgs),
    /// Measure this machine's receive, send and record paths beside bare loops
    Bench(BenchArgs),
    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// How streams are recognised.
#[derive(Args, Clone, Debug)]
pub(crate) struct StreamArgs {
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = format::TAKEN.as_str())]
    pub(crate) format: Format,
    /// Frames per second of each thread, where the headers do not tell
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, 1 << 24, "leave it out where the headers tell it"))]
    pub(crate) frame_rate: Option<u32>,
    /// VDIF threads that belong to a stream, like 0-7 or 0,2,4 (default: those that come)
    #[arg(long, value_name = "LIST", value_parser = thread_list)]
    pub(crate) threads: Option<ThreadList>,
    /// Make a stream of each VDIF thread of a sender, instead of one of all
    #[arg(long)]
    pub(crate) split_threads: bool,
    /// Keep the frames of a set of threads that was under way when a stream began or ended, instead of beginning and ending
    /// with whole sets, as readers of VDIF need it
    #[arg(long)]
    pub(crate) keep_partial_sets: bool,
    /// What tells a packet's place: its sequence number, or the time in its frame
    #[arg(long, value_enum, default_value_t = Place::Auto)]
    pub(crate) place: Place,
    /// What is kept of each packet
    #[arg(long, value_enum, default_value_t = KeepArg::Frame)]
    pub(crate) keep: KeepArg,
    /// Drop this many leading bytes of each packet (instead of --keep)
    #[arg(long, value_name = "BYTES", conflicts_with = "keep", value_parser = from_to::<u32>(0, 65_507, "a packet is no longer"))]
    pub(crate) strip: Option<u32>,
}

/// VDIF thread numbers.
#[derive(Clone, Debug)]
pub(crate) struct ThreadList(pub(crate) Vec<u16>);

fn thread_list(text: &str) -> Result<ThreadList, String> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |s: &str| s.trim().parse::<u16>().ok().filter(|&n| n < 1024);
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => out.extend(from..=to),
            _ => {
                return Err(format!(
                    "`{part}` is no thread or range of threads\nhint: such as 0-7 or 0,2,4; threads are numbered 0 to 1023"
                ));
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    Ok(ThreadList(out))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// Sequence number where packets carry one, else time
    Auto,
    /// Sequence number
    Sequence,
    /// Time in the frame header
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepArg {
    /// The frame with its header, without the network's sequence number
    Frame,
    /// The whole packet
    Packet,
}

/// How packets are taken in.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReceiveCommon {
    /// Where to listen; may be given several times
    #[arg(long, value_name = "ADDRESS", required_unless_present = "pcap")]
    pub(crate) listen: Vec<Endpoint>,
    /// Read packets from a capture file instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "listen")]
    pub(crate) pcap: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    /// How UDP is received
    #[arg(long, value_enum, default_value_t = TierArg::Auto)]
    pub(crate) tier: TierArg,
    /// Sockets and threads for each UDP address; senders are spread over them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = up_to::<usize>(RECEIVE_THREADS, "one for each processor is enough"))]
    pub(crate) receive_threads: usize,
    /// Processors for the receiving threads, like 2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) cpus: Vec<usize>,
    /// Real-time priority of the receiving threads, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) realtime: Option<u8>,
    /// Socket buffer to ask for
    #[arg(long, default_value = "256MiB", value_name = "SIZE")]
    pub(crate) socket_buffer: Size,
    /// Memory for packets (default: a quarter of the machine's, at most 4 GiB)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 256MiB, or leave it out"))]
    pub(crate) memory: Option<Size>,
    /// Size of a chunk file and of the blocks in memory (default: 1/256 of the memory, 1 MiB to 256 MiB)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 16MiB, or leave it out"))]
    pub(crate) chunk: Option<Size>,
    /// Blocks under construction for each stream: how much reordering is put right
    #[arg(long, default_value_t = 2, value_name = "BLOCKS", value_parser = up_to::<usize>(WINDOW, "2 suits most networks; a larger --chunk also puts more reordering right"))]
    pub(crate) window: usize,
    /// Most senders followed at a time
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = at_least_one::<usize>("as many as there are senders"))]
    pub(crate) max_streams: usize,
    /// Let in only this sender, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010 or :5000; may be given several times
    #[arg(long, value_name = "SENDER", value_delimiter = ',')]
    pub(crate) from: Vec<Origin>,
    /// Take only streams of this station (VDIF): two letters or a number, as `inspect` shows it; may be given several times
    #[arg(long, value_name = "STATION", value_delimiter = ',')]
    pub(crate) station: Vec<String>,
    /// How old a slow stream's data may grow in memory
    #[arg(long, default_value = "5s", value_name = "TIME")]
    pub(crate) flush: Span,
    /// Send everything on to this address as it arrives; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) forward: Vec<Endpoint>,
    /// Damage what arrives on purpose, like loss=0.01,reorder=64,duplicate=0.01,seed=7
    #[arg(long, value_name = "SPEC")]
    pub(crate) faults: Option<Faults>,
    /// Let only frames from this data time on through, in UTC: like 2026-11-21T03:00:00Z, like 2026y325d03h00m00s as in
    /// VEX, or a UNIX second. A fraction of a second is rounded up
    #[arg(long, value_name = "TIME", value_parser = data_time)]
    pub(crate) start: Option<i64>,
    /// Let no frames from this data time on through, and stop
    #[arg(long, value_name = "TIME", value_parser = data_time)]
    pub(crate) stop: Option<i64>,
    /// Stop this long after the first packet
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Span>,
    /// Stop when nothing came for this long, once something came
    #[arg(long, value_name = "TIME")]
    pub(crate) idle: Option<Span>,
    /// Give up when nothing came for this long from the start
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Span>,
    /// Begin receiving at this wall time, written as for --start; what comes earlier is counted and let go
    #[arg(long, value_name = "TIME", value_parser = data_time)]
    pub(crate) start_at: Option<i64>,
    /// Stop at this wall time (UTC)
    #[arg(long, value_name = "TIME", value_parser = data_time)]
    pub(crate) stop_at: Option<i64>,
    /// Stop after about this many bytes
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("leave it out for no limit"))]
    pub(crate) bytes: Option<Size>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) spead: SpeadReceiveArgs,
}

fn data_time(text: &str) -> Result<i64, String> {
    skyhaul::time::parse(text).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierArg {
    /// The best that this host and the traffic allow
    Auto,
    /// Trains of packets in one system call (UDP_GRO)
    Stage,
    /// The same without trains
    Plain,
    /// A ring shared with the kernel (needs CAP_NET_RAW)
    Ring,
}

/// How results are shown.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// Print one JSON report on standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    /// Write the frames to this file, `-` for standard output (default: nowhere)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output_file: Option<PathBuf>,
    /// Check that every payload is what `send --pattern` sent
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) common: ReceiveCommon,
}

#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    /// Name of the recording, like exp_st_no0001
    #[arg(long, value_name = "NAME")]
    pub(crate) scan: String,
    /// Room that is left free on each disk
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    pub(crate) reserve: Size,
    /// When data count as safe on a disk
    #[arg(long, value_enum, default_value_t = SyncArg::Interval)]
    pub(crate) sync: SyncArg,
    /// How disks are written
    #[arg(long, value_enum, default_value_t = DiskEngine::Auto)]
    pub(crate) disk_engine: DiskEngine,
    /// What to do when the scan exists already
    #[arg(long, value_enum, default_value_t = ExistsArg::Suffix)]
    pub(crate) exists: ExistsArg,
    /// Leave holes as they are instead of filling them with frames marked invalid
    #[arg(long)]
    pub(crate) no_fill: bool,
    /// Make a disk misbehave on purpose: `PATH:slow=200`, `PATH:enospc=1GiB`, `PATH:eio=1GiB`, `PATH:eagain=3`
    #[arg(long, value_name = "PATH:SPEC", hide_short_help = true)]
    pub(crate) disk_faults: Vec<String>,
    #[command(flatten)]
    pub(crate) common: ReceiveCommon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyncArg {
    /// Every chunk by itself
    Chunk,
    /// Together, several times a second
    Interval,
    /// Whenever the system likes
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiskEngine {
    /// io_uring where it is allowed, else plain calls
    Auto,
    /// io_uring
    Uring,
    /// Plain pwrite calls
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExistsArg {
    /// Append a letter to the new one's name, a to z, then A to Z
    Suffix,
    /// Refuse
    Error,
}

/// Where recordings lie.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskArgs {
    /// A disk: a directory, usually a mount point; may be given several times
    #[arg(long = "disk", value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
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
    /// Also check that every payload is what `send --pattern` sent
    #[arg(long)]
    pub(crate) verify: bool,
    /// Take chunk files that no index knows into the index, as they are
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
    /// Which stream of it, by number, where there are several
    #[arg(long, value_name = "N")]
    pub(crate) stream: Option<u32>,
    /// Go on while it is being recorded
    #[arg(long)]
    pub(crate) follow: bool,
    /// Write invalid frames where chunks are missing or damaged, so that length and time stay right
    #[arg(long)]
    pub(crate) fill: bool,
    /// Write damaged and unproven chunks as they lie (they are named all the same)
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Write here instead of to standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// Where to; may be given several times, each then gets all of it from senders of its own
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub(crate) to: Vec<Endpoint>,
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = format::SENT.as_str())]
    pub(crate) format: Format,
    /// Send the frames of this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "what")]
    pub(crate) input: Option<PathBuf>,
    /// Send this recording (with --disk)
    #[arg(long, value_name = "NAME", group = "what", requires = "disk")]
    pub(crate) scan: Option<String>,
    /// A disk of the recording
    #[arg(long = "disk", value_name = "DIR", value_hint = ValueHint::DirPath, requires = "scan")]
    pub(crate) disk: Vec<PathBuf>,
    /// Which stream of the recording, where there are several
    #[arg(long, value_name = "N", requires = "scan")]
    pub(crate) stream: Option<u32>,
    /// Go on while the recording is being made
    #[arg(long, requires = "scan")]
    pub(crate) follow: bool,
    /// Send invalid frames where chunks of the recording are missing or damaged, instead of nothing
    #[arg(long, requires = "scan")]
    pub(crate) fill: bool,
    /// Send payloads that verify themselves
    #[arg(long, group = "what")]
    pub(crate) pattern: bool,
    /// Send 2-bit Gaussian noise with a tone
    #[arg(long, group = "what")]
    pub(crate) noise: bool,
    /// Send the input this many times, with the time running on
    #[arg(long, value_name = "N", default_value_t = 1, requires = "input", value_parser = at_least_one::<u64>("once is the least"))]
    pub(crate) r#loop: u64,
    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    pub(crate) packets: Option<u64>,
    /// Stop after this long
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Span>,
    /// Rate of datagram payload of all senders together, or one for each destination, like 1Gbps,2Gbps; `max`: as fast
    /// as this host can, which is the default where what is sent ends or goes by TCP. A pattern or noise over UDP without
    /// --packets or --heaps needs a rate. SPEAD over UDP: `auto` follows what the receiver says (`receive --feedback`), `search` finds
    /// the highest rate without loss once, and keeps it; both within the bounds of each sender, like
    /// auto:50Mbps-8Gbps, and from the rate behind @, like auto:50Mbps-8Gbps@1Gbps
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    pub(crate) rate: Vec<RateArg>,
    /// Lose, reorder, double or damage packets on purpose, like loss=0.01,reorder=64,duplicate=0.01,seed=7
    #[arg(long, value_name = "SPEC")]
    pub(crate) faults: Option<Faults>,
    /// Payload bytes of a synthesised frame
    #[arg(long, default_value_t = 8000, value_name = "BYTES")]
    pub(crate) payload: usize,
    /// Threads of a synthesised stream
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) threads: u16,
    /// Frames per second of each thread (default: from the headers, else from the rate)
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, 1 << 24, "leave it out where the headers or the rate tell it"))]
    pub(crate) frame_rate: Option<u32>,
    /// Sequence number in front of each frame
    #[arg(long, value_enum, default_value_t = NumberArg::Auto)]
    pub(crate) sequence: NumberArg,
    /// First sequence number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) first: u64,
    /// How packets are handed to the kernel
    #[arg(long, value_enum, default_value_t = SendMode::Auto)]
    pub(crate) mode: SendMode,
    /// Senders at once to each destination, each from a port of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to::<usize>(SENDERS, "a sender for each processor or two is enough"))]
    pub(crate) senders: usize,
    /// Processors for the sending threads, like 2,3; they take turns
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) cpu: Vec<usize>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) spead: SpeadSendArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NumberArg {
    /// Little-endian for UDP, none for TCP
    Auto,
    /// Little-endian, as FILA10G, DBBC3 and jive5ab have it
    Little,
    /// Big-endian
    Big,
    /// None
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendMode {
    /// The best that works here
    Auto,
    /// Trains of packets in one system call (UDP_SEGMENT)
    Gso,
    /// Several packets in one system call
    Mmsg,
    /// One packet in one system call
    Plain,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Rate of the stream (default: 4Gbps, or as much of it as this host takes)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 1Gbps, or leave it out"))]
    pub(crate) rate: Option<Rate>,
    /// How long
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = some::<Span>("such as 10s"))]
    pub(crate) duration: Span,
    /// Disks to stripe over
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = up_to::<usize>(DISKS, "4 show how a stream is striped"))]
    pub(crate) disks: usize,
    /// What the network does to the stream
    #[arg(long, default_value = "loss=0.01,reorder=64,duplicate=0.01,seed=7", value_name = "SPEC")]
    pub(crate) faults: Faults,
    /// Where to put the recording and the report (default: a folder `demo` here)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Keep the recording
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// A file of frames, a capture (pcap, pcapng), or an address to listen on
    #[arg(value_name = "FILE|ADDRESS")]
    pub(crate) what: String,
    /// Format of the packets
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) format: Format,
    /// How many packets
    #[arg(long, short = 'n', default_value_t = 1, value_name = "N", value_parser = at_least_one::<usize>("one packet is the least"))]
    pub(crate) count: usize,
    /// Skip this many packets first
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) skip: usize,
    /// Give up when nothing comes for this long
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(crate) wait: Span,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// What to write
    #[arg(value_enum)]
    pub(crate) what: GenerateWhat,
    /// Where to
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GenerateWhat {
    /// Man pages
    Man,
    /// Completions for bash, zsh, fish
    Completions,
}
