//! The verbs, what `-h` shows of each, and the arguments of `demo` and `generate`.

use super::applies::describe;
#[cfg(feature = "full")]
use super::balance::{BalanceArgs, BalancerArgs, DataPlaneArgs};
#[cfg(feature = "full")]
use super::bench::{BenchArgs, PacketPathArgs};
use super::config::{ConfigArgs, find_verb};
#[cfg(feature = "full")]
use super::copy::CopyArgs;
#[cfg(feature = "full")]
use super::disk::DiskMeasureArgs;
#[cfg(feature = "full")]
use super::fleet::FleetArgs;
#[cfg(feature = "full")]
use super::host::HostArgs;
#[cfg(feature = "full")]
use super::lab::LabArgs;
use super::limits::{DISKS, GENERAL, OutputArgs, some, up_to};
#[cfg(feature = "full")]
use super::mount::MountArgs;
#[cfg(feature = "full")]
use super::probe::ProbeArgs;
use super::rdma::RdmaArgs;
use super::receive::{ReceiveArgs, RecordArgs};
use super::report::ReportArgs;
#[cfg(feature = "full")]
use super::scans::ScansArgs;
#[cfg(feature = "full")]
use super::schedule::ScheduleArgs;
use super::send::SendArgs;
#[cfg(feature = "full")]
use super::serve::StationServeArgs;
#[cfg(feature = "full")]
use super::status::{StationArgs, StatusArgs};
use super::stored::{CatArgs, CheckArgs, ExportArgs, InspectArgs, LsArgs, PlotArgs};
#[cfg(feature = "full")]
use super::token::TokenArgs;
#[cfg(feature = "full")]
use super::top::TopArgs;
#[cfg(feature = "full")]
use super::transfers::TransfersArgs;
#[cfg(not(feature = "full"))]
use super::unbuilt::{
    UnbuiltArgs as BalanceArgs, UnbuiltArgs as BalancerArgs, UnbuiltArgs as BenchArgs,
    UnbuiltArgs as CopyArgs, UnbuiltArgs as DataPlaneArgs, UnbuiltArgs as DiskMeasureArgs,
    UnbuiltArgs as FleetArgs, UnbuiltArgs as HostArgs, UnbuiltArgs as LabArgs, UnbuiltArgs as MountArgs,
    UnbuiltArgs as PacketPathArgs, UnbuiltArgs as ProbeArgs, UnbuiltArgs as ScansArgs,
    UnbuiltArgs as ScheduleArgs, UnbuiltArgs as StationArgs, UnbuiltArgs as StationServeArgs,
    UnbuiltArgs as StatusArgs, UnbuiltArgs as TokenArgs, UnbuiltArgs as TopArgs,
    UnbuiltArgs as TransfersArgs,
};
use clap::{Arg, Args, Command, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use skyhaul::io::fault::Faults;
use skyhaul::io::quantity::{Rate, Span};
use std::ffi::OsString;
use std::path::PathBuf;

const EXIT: &str = "Exit status: 0 success; 1 a check failed, data were lost where none may be, or a measurement was \
                    interrupted; 2 wrong usage, something could not be opened, or results could not be written to \
                    standard output.";

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

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the whole chain on this machine, without setup
    Demo(DemoArgs),
    /// Send a file, a recording, a pattern, noise or a sky as packets
    Send(SendArgs),
    /// Receive streams and write them to a file or standard output, or discard them
    Receive(ReceiveArgs),
    /// Check the schedule of an observation: what is recorded when, space, rate, conflicts
    Schedule(ScheduleArgs),
    /// Record streams onto disks, and forward them
    Record(RecordArgs),
    /// Run a station as a service: recordings of several inputs, an HTTP API
    Serve(StationServeArgs),
    /// Show what a station records, and its disks
    Status(StatusArgs),
    /// Watch a station in the terminal: rates, losses, disks, alarms, events
    Top(TopArgs),
    /// Start and stop recordings of a station
    Station(StationArgs),
    /// List the scans on a station's disks: state, disks, times, losses, copies to other hosts
    Scans(ScansArgs),
    /// Sign tokens for the files that a station serves, and show what a token allows
    Token(TokenArgs),
    /// Copy scans of a station to other hosts: queue, list, cancel, retry
    Transfers(TransfersArgs),
    /// Show and direct a fleet of stations: schedules, scans, alarms
    Fleet(FleetArgs),
    /// List recordings
    Ls(LsArgs),
    /// Check that a recording holds everything that was acknowledged
    Check(CheckArgs),
    /// Write a recording to standard output
    Cat(CatArgs),
    /// Mount recordings: each scan one file
    Mount(MountArgs),
    /// Plot samples: spectrum, autocorrelation, levels, losses
    Plot(PlotArgs),
    /// Write samples as NumPy, raw numbers, HDF5 or Zarr
    Export(ExportArgs),
    /// Show packets of a file, a capture or a live port, field by field
    Inspect(InspectArgs),
    /// Balance packets from many senders over many workers; each event goes to one worker
    Balance(BalanceArgs),
    /// Reserve, manage and release a load balancer of skyhaul or ESnet
    Balancer(BalancerArgs),
    /// Expose memory of this host over RDMA on UDP or TCP, and write to or read from that of another
    Rdma(RdmaArgs),
    /// Copy files, directories and recordings to or from another host
    Copy(CopyArgs),
    /// Audit this host's settings for high-rate data, and fix them
    Host(HostArgs),
    /// Emulate a path between two hosts on this machine: rate, delay, loss, reordering, policers
    Lab(LabArgs),
    /// Measure this machine's receive, send and record paths against bare loops
    Bench(BenchArgs),
    /// Measure the rate, loss, reordering, jitter and delay of a path, and find where packets are lost
    Probe(Box<ProbeArgs>),
    /// Measure how fast disks write and read, and whether they or the network limit a transfer
    Disk(DiskMeasureArgs),
    /// Forward packets for a balancer whose control plane runs in another process
    #[command(hide = true)]
    DataPlane(DataPlaneArgs),
    /// Pass fixed packets through the receive path, for a profiler to count instructions
    #[command(hide = true)]
    PacketPath(PacketPathArgs),
    /// Compare reports
    Report(ReportArgs),
    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// What `-h` shows of the verbs that have many options: those that people need first. Other verbs show all of theirs.
const FIRST: [(&str, &[&str]); 7] = [
    (
        "receive",
        &[
            "listen",
            "pcap",
            "format",
            "join",
            "from",
            "output_file",
            "forward",
            "list",
            "duration",
            "idle",
            "wait",
            "bytes",
            "heaps",
            "memory",
            "verify",
            "json",
            "quiet",
        ],
    ),
    (
        "record",
        &[
            "listen", "pcap", "format", "from", "disk", "scan", "exists", "forward", "duration", "idle",
            "wait", "start_at", "stop_at", "heaps", "memory", "json", "quiet",
        ],
    ),
    (
        "send",
        &[
            "input", "scan", "disk", "pattern", "noise", "sky", "format", "loop", "to", "senders", "rate",
            "packets", "heaps", "events", "duration", "faults", "json", "quiet",
        ],
    ),
    (
        "balance",
        &[
            "listen",
            "reserve",
            "sender",
            "api",
            "token_file",
            "state",
            "uri_file",
            "report",
            "duration",
            "json",
        ],
    ),
    (
        "probe",
        &["host", "token_file", "sizes", "spacing", "reverse", "both", "flows", "time", "limit", "json"],
    ),
    (
        "bench",
        &[
            "what",
            "format",
            "candidates",
            "sizes",
            "time",
            "rounds",
            "directory",
            "address",
            "only",
            "report",
            "json",
        ],
    ),
    (
        "disk",
        &["disks", "write", "read", "sizes", "blocks", "depths", "streams", "buffered", "against", "json"],
    ),
];

/// The definition with what follows from the statements of the options.
pub(crate) fn described() -> Command {
    each_verb(Cli::command(), describe)
}

/// The definition as it is parsed and shown: `-1` is refused as a value rather than as an unknown option, and `-h` is
/// short.
pub(super) fn definition() -> Command {
    completed(described())
}

/// The same for the verb among these words; of the others only what the list of verbs shows. To define all options of all verbs
/// takes longer than all else that a short command does.
pub(super) fn definition_for(words: &[OsString]) -> Command {
    let mut command = Cli::command();
    let used = find_verb(&command, words).map(|(_, verb)| verb.get_name().to_owned());
    let Some(used) = used else { return definition() };
    for other in command.get_subcommands_mut().filter(|verb| verb.get_name() != used) {
        let about = other.get_about().cloned().unwrap_or_default();
        *other = Command::new(other.get_name().to_owned()).about(about).hide(other.is_hide_set());
    }
    completed(each_verb(command, describe))
}

fn completed(command: Command) -> Command {
    let mut command = each_verb(command, refined);
    command.build();
    // These two exist only now.
    let under_general = |arg: Arg| match arg.get_id().as_str() {
        "help" => arg.help_heading(GENERAL),
        "version" => arg.help_heading(GENERAL).hide_short_help(true),
        _ => arg,
    };
    each_verb(command, |verb| match verb.get_name() {
        "help" => verb,
        _ => verb.mut_args(under_general),
    })
}

fn each_verb(mut command: Command, change: impl Fn(Command) -> Command) -> Command {
    for verb in command.get_subcommands_mut() {
        *verb = change(std::mem::take(verb));
    }
    command
}

fn refined(verb: Command) -> Command {
    let name = verb.get_name().to_owned();
    let first = FIRST.iter().find(|(of, _)| *of == name).map(|(_, first)| *first);
    let verb = verb.mut_args(|arg| {
        let takes_value = arg.get_action().takes_values();
        let arg = if takes_value { arg.allow_negative_numbers(true) } else { arg };
        let rare = first.is_some_and(|first| !first.contains(&arg.get_id().as_str()));
        if rare { arg.hide_short_help(true) } else { arg }
    });
    verb.after_help(format!("`skyhaul {name} --help` shows all options.")).after_long_help(EXIT)
}

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// What to write
    #[arg(value_enum)]
    pub(crate) what: GenerateWhat,
    /// Directory to write to
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

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// What to show
    #[arg(value_enum, default_value = "recorder")]
    pub(crate) what: DemoWhat,
    /// Rate of the stream (default: 4Gbps, or as much of it as this host can handle; for events 1Gbps)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 1Gbps, or omit it"))]
    pub(crate) rate: Option<Rate>,
    /// Length of the stream
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = some::<Span>("such as 10s"))]
    pub(crate) duration: Span,
    /// Disks to stripe over
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = up_to::<usize>(DISKS, "4 show how a stream is striped"))]
    pub(crate) disks: usize,
    /// Faults of the network
    #[arg(long, default_value = "loss=0.01,reorder=64,duplicate=0.01,seed=7", value_name = "SPEC")]
    pub(crate) faults: Faults,
    /// Directory for the recording and the report (default: ./demo, or ./demo-ejfat)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Keep the recording
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoWhat {
    /// A stream with loss: receive, record on several disks, forward and verify it
    Recorder,
    /// Events through a load balancer to four workers, one of them killed and one slow; every event is accounted for
    #[value(name = "ejfat")]
    Balanced,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(verb: &str, help: &str) -> String {
        definition().try_get_matches_from(["skyhaul", verb, help]).unwrap_err().to_string()
    }

    #[test]
    fn short_help_shows_what_people_need_first_and_long_help_everything() {
        for (verb, first) in FIRST {
            let command = definition();
            let all: Vec<&Arg> = command.find_subcommand(verb).unwrap().get_arguments().collect();
            let (short, long) = (shown(verb, "-h"), shown(verb, "--help"));
            assert!(first.len() <= 18, "{verb}");
            assert!(first.iter().all(|id| all.iter().any(|arg| arg.get_id() == *id)), "{verb}");
            assert!(
                short.trim_end().ends_with(&format!("`skyhaul {verb} --help` shows all options.")),
                "{short}"
            );
            for arg in all.iter().filter(|arg| arg.get_long().is_some()) {
                let (id, name) = (arg.get_id().as_str(), format!("--{} ", arg.get_long().unwrap()));
                let has = |text: &str| text.replace('\n', " ").contains(&name);
                assert!(has(&long), "{verb} {name}");
                assert_eq!(has(&short), first.contains(&id) || id == "help", "{verb} {name}: {short}");
            }
        }
    }

    #[test]
    fn every_option_of_a_verb_with_many_stands_under_a_heading_and_the_general_ones_come_last() {
        for (verb, _) in FIRST {
            let long = shown(verb, "--help");
            assert!(!long.contains("\nOptions:\n"), "{long}");
            let mut headings = long.lines().filter(|line| !line.starts_with(' ') && line.ends_with(':'));
            assert_eq!(headings.next_back(), Some("General:"), "{verb}");
        }
    }
}
