//! Arguments of `receive` and `record`, which share most of them.

use super::applies::{ALWAYS, EVENTS, FRAMES, OBJECTS, TCP, UDP, to, with};
use super::heaps::HeapReceiveArgs;
use super::limits::{
    DESTINATION, FormatParser, HOST, INPUT, OutputArgs, RECEIVE_THREADS, TAKEN, TESTING, WHEN, WINDOW,
    WORKER, at_least_one, from_to, some, up_to,
};
use super::stored::DiskArgs;
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::core::assembly::building::{BuildConfig, Sources};
use skyhaul::core::hint::Hint;
use skyhaul::core::placement::Nanos;
use skyhaul::io::address::Endpoint;
use skyhaul::io::fault::Faults;
use skyhaul::io::quantity::{Size, Span};
use skyhaul::quality::PhaseCal;
use skyhaul::receive::Origin;
use skyhaul::recording::MAX_COPIES;
use skyhaul::wire::Format;
use std::net::IpAddr;
use std::ops::RangeInclusive;
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
    /// Stop after this long without an accepted packet, once one has arrived, or 100 that are refused
    #[arg(long, value_name = "TIME", add = ALWAYS, help_heading = WHEN)]
    pub(crate) idle: Option<Span>,
    /// Stop when the last TCP connection has closed
    #[arg(long, add = to(TCP), help_heading = WHEN)]
    pub(crate) end_with_connections: bool,
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
    #[arg(long, add = to(UDP).instead(TCP, "omit --feedback; TCP controls its own rate"), help_heading = HOST)]
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
    /// Stage, or a ring if many small single packets come and this process may open one
    Auto,
    /// Trains of packets in one system call (UDP_GRO)
    Stage,
    /// As stage, without trains
    Plain,
    /// A ring shared with the kernel (needs CAP_NET_RAW)
    Ring,
    /// A program in the kernel places VDIF and LOFAR streams and SPEAD heaps (needs CAP_BPF). If it cannot, the command fails and says why
    Bpf,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = WORKER)]
pub(crate) struct JoinArgs {
    /// Join a load balancer: register with its control plane, report this receiver's backlog, and leave at the end
    #[arg(long, add = to(EVENTS), help_heading = INPUT, display_order = 3)]
    pub(crate) join: bool,
    /// EJFAT_URI of the balancer (default: from the environment, where other users cannot see its token)
    #[arg(long, value_name = "URI", add = with("join"))]
    pub(crate) balancer: Option<String>,
    /// Name in the balancer's status (default: host and process)
    #[arg(long, value_name = "NAME", add = with("join"))]
    pub(crate) name: Option<String>,
    /// Address at which the balancer reaches this receiver (default: that of --listen, or of the route to the balancer)
    #[arg(long, value_name = "IP", add = with("join"))]
    pub(crate) address: Option<IpAddr>,
    /// Initial weight relative to other workers
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER", add = with("join"))]
    pub(crate) weight: f32,
    /// Minimum share, as a fraction of an even share; 0: no minimum
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR", add = with("join"))]
    pub(crate) min_factor: f32,
    /// Maximum share, as a multiple of an even share; 0: no maximum
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR", add = with("join"))]
    pub(crate) max_factor: f32,
    /// Number of consecutive ports from that of --listen, a power of two; each has a socket and a thread
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = from_to::<u16>(1, 256, "1, 2, 4, 8 …: one for each CPU is enough"), add = with("join"))]
    pub(crate) ports: u16,
    /// Ask the balancer to leave its header on packets
    #[arg(long, add = with("join"))]
    pub(crate) keep_label: bool,
    /// Longest time to wait for the last packets when leaving
    #[arg(long, default_value = "10s", value_name = "TIME", add = with("join"))]
    pub(crate) drain: Span,
    /// Trust the control plane's certificate if it is in this PEM file or signed by one in it (default: the system's
    /// authorities)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = with("join"))]
    pub(crate) certificate: Option<PathBuf>,
    /// Accept any certificate of the control plane
    #[arg(long, conflicts_with = "certificate", add = with("join"))]
    pub(crate) any_certificate: bool,
}

/// Which events make a tick, and how long it waits for them.
#[derive(Args, Clone, Debug)]
pub(crate) struct BuildArgs {
    /// Build ticks: deliver the events of a tick together, once those of these data ids (such as 1,2,5-8), or of any N sources
    /// (any:N), have arrived
    #[arg(long, value_name = "IDS", value_parser = sources, add = to(EVENTS))]
    build: Option<Sources>,
    /// End a tick this long after its first event, with the events that have arrived
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = some::<Span>("longer than the skew between sources, such as 1s"), add = to(EVENTS).with("build"))]
    build_timeout: Span,
    /// Ticks held at a time; one more ends the oldest
    #[arg(long, default_value_t = 1024, value_name = "TICKS", value_parser = at_least_one::<usize>("1024 suits most sources"), add = to(EVENTS).with("build"))]
    build_window: usize,
    /// Memory for the events of unfinished ticks that --output-file writes; more end the oldest tick
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = some::<Size>("some events of each source"), add = to(EVENTS).with("build"))]
    build_memory: Size,
}

impl BuildArgs {
    /// How ticks are to be built, if they are.
    pub(crate) fn config(&self) -> Option<BuildConfig> {
        let timeout = Nanos(u64::try_from(self.build_timeout.duration().as_nanos()).unwrap_or(u64::MAX));
        let (window, bytes) = (self.build_window, self.build_memory.bytes());
        self.build.clone().map(|sources| BuildConfig { sources, timeout, window, bytes })
    }
}

/// `1,2,5-8`, or `any:3`.
fn sources(text: &str) -> Result<Sources, String> {
    const HINT: &str = "data ids are 0 to 65535, such as 1,2,5-8; any:3 stands for any three sources";
    let wrong = || format!("expected data ids, or any:N{}", Hint(HINT));
    let sources = match text.strip_prefix("any:") {
        Some(count) => Sources::Count(count.parse().map_err(|_| wrong())?),
        None => {
            let ranges = text.split(',').map(range).collect::<Option<Vec<_>>>();
            Sources::Named(ranges.ok_or_else(wrong)?.into_iter().flatten().collect())
        }
    };
    let check = BuildConfig { sources, timeout: Nanos(1), window: 1, bytes: 1 };
    check.check().map_err(|why| format!("{why}{}", Hint(HINT)))?;
    Ok(check.sources)
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().ok()?..=last.trim().parse().ok()?;
    (!range.is_empty()).then_some(range)
}

const LEAVE: &str = "leave it out; `--help` lists the options for heaps and events under their own heading";

#[derive(Args, Clone, Debug)]
pub(crate) struct StreamArgs {
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = TAKEN.as_str(), add = ALWAYS, help_heading = INPUT, display_order = 2)]
    pub(crate) format: Format,
    /// Begin at this data time (UTC), and keep no earlier frames: 2026-11-21T03:00:00Z, 2026y325d03h00m00s as in VEX, or a Unix
    /// time in seconds; fractions of a second are rounded up
    #[arg(long, value_name = "TIME", value_parser = data_time, add = to(FRAMES).instead(OBJECTS, "use --start-heap, or --start-at for a wall-clock time"))]
    pub(crate) start: Option<i64>,
    /// Stop at this data time (UTC), and keep no frames from it on
    #[arg(long, value_name = "TIME", value_parser = data_time, add = to(FRAMES).instead(OBJECTS, "use --stop-items or --heaps, or --stop-at for a wall-clock time"))]
    pub(crate) stop: Option<i64>,
    /// Accept only streams of this VDIF station, two letters or a number as `inspect` shows it; may be repeated
    #[arg(long, value_name = "STATION", value_delimiter = ',', add = to(FRAMES).instead(OBJECTS, "leave it out; --from chooses senders"))]
    pub(crate) station: Vec<String>,
    /// Blocks kept open for each stream; more blocks absorb more reordering
    #[arg(long, default_value_t = 2, value_name = "BLOCKS", value_parser = up_to::<usize>(WINDOW, "2 suits most networks; a larger --chunk also absorbs more reordering"), add = to(FRAMES).instead(OBJECTS, "use --heap-window"))]
    pub(crate) window: usize,
    /// Frames per second of each VDIF thread, if the headers do not give it
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, 1 << 24, "omit it if the headers give the frame rate"), add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) frame_rate: Option<u32>,
    /// VDIF threads of a stream, like 0-7 or 0,2,4 (default: those that arrive)
    #[arg(long, value_name = "LIST", value_parser = thread_list, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) threads: Option<ThreadList>,
    /// Make a separate stream of each VDIF thread of a sender
    #[arg(long, add = to(FRAMES).instead(OBJECTS, "use --by-sender to tell senders apart"))]
    pub(crate) split_threads: bool,
    /// Keep incomplete sets of threads at the start and end of a stream (default: only whole sets, as VDIF readers expect)
    #[arg(long, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) keep_partial_sets: bool,
    /// What gives a packet's position in the stream
    #[arg(long, value_enum, default_value_t = Place::Auto, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) place: Place,
    /// Part of each packet to keep
    #[arg(long, value_enum, default_value_t = KeepArg::Frame, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) keep: KeepArg,
    /// Drop this many leading bytes of each packet (instead of --keep)
    #[arg(long, value_name = "BYTES", conflicts_with = "keep", value_parser = from_to::<u32>(0, 65_507, "65507 bytes are the longest UDP payload"), add = to(FRAMES).instead(OBJECTS, LEAVE))]
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
                    "invalid thread or range of threads `{part}`{}",
                    Hint("write 0-7 or 0,2,4; threads are numbered 0 to 1023")
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
    /// Sequence number if packets carry one, otherwise time
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

/// Options that a schedule decides for each scan.
const OF_ONE_SCAN: [&str; 11] =
    ["scan", "pcap", "start", "stop", "start_at", "stop_at", "duration", "idle", "wait", "bytes", "heaps"];

#[derive(Args, Clone, Debug)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) common: ReceiveCommon,
    #[command(flatten, next_help_heading = DESTINATION)]
    pub(crate) disks: DiskArgs,
    /// Name of the recording, like exp_st_no0001
    #[arg(long, value_name = "NAME", required_unless_present = "schedule", add = ALWAYS, help_heading = DESTINATION, display_order = 1)]
    pub(crate) scan: Option<String>,
    /// Record the scans of this schedule, each at its time: VEX, SNAP (.snp) or TOML, as `schedule check` shows it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = OF_ONE_SCAN, add = ALWAYS, help_heading = WHEN)]
    pub(crate) schedule: Option<PathBuf>,
    /// Station whose scans of the schedule are recorded, like Mh
    #[arg(long, value_name = "STATION", requires = "schedule", add = ALWAYS, help_heading = WHEN)]
    pub(crate) schedule_station: Option<String>,
    /// Write each chunk to this many different disks: one that fails then loses nothing. The disks need that many times the rate and
    /// space
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = up_to::<u32>(MAX_COPIES as u64, "2 is enough for one disk that fails"), add = ALWAYS, help_heading = DESTINATION)]
    pub(crate) copies: u32,
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
    /// Do not look at the quality of the streams (states of samples, byte order, times, phase-cal tones)
    #[arg(long, add = to(FRAMES).instead(OBJECTS, "leave it out; heaps and events are not looked at"))]
    pub(crate) no_quality: bool,
    /// Phase-cal tones that every channel must have: their spacing, and where in the band the first is, like 1MHz or
    /// 5MHz@10kHz (default: tones that were there must stay)
    #[arg(long, value_name = "SPACING[@OFFSET]", conflicts_with = "no_quality", add = to(FRAMES).instead(OBJECTS, "leave it out; heaps and events are not looked at"))]
    pub(crate) phase_cal: Option<PhaseCal>,
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
    /// Several times a second, all chunks together
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_named_or_counted() {
        assert_eq!(sources("1,2,5-7"), Ok(Sources::Named(vec![1, 2, 5, 6, 7])));
        assert_eq!(sources("any:3"), Ok(Sources::Count(3)));
        for text in ["", "1,1", "1-3,2", "any:0", "any:", "70000", "5-2", "a"] {
            assert!(sources(text).unwrap_err().contains("hint: "), "{text}");
        }
    }
}
