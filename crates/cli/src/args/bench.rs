//! Arguments of `bench`.

use super::applies::{ALWAYS, DISK_PATH, EXPERIMENTS, LIMITED, PATH, PEERS, RDMA, SWEEP, to};
use super::heaps::HeapBenchArgs;
use super::limits::FormatParser;
use super::limits::OutputArgs;
use super::limits::{DESTINATION, PACE};
use super::limits::{PAIRS, at_least_one, from_to, some, up_to};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::namespace::Network;
use skyhaul::io::quantity::{Rate, Size, Span};
use skyhaul::wire::Format;
use skyhaul_measure::bench::FIXED_INPUTS;
use skyhaul_measure::bench::rdma::LANES;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// What a benchmark measures.
const MEASURED: &str = "What to measure";
/// Between which addresses.
const NETWORK: &str = "Network";

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Path to measure (default: receive; with `--format spead` the experiments of SDP memo 046)
    #[arg(value_enum, add = ALWAYS)]
    pub(crate) what: Option<BenchWhat>,
    /// Format (`auto`: VDIF)
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help_heading = MEASURED, add = ALWAYS)]
    pub(crate) format: Format,
    /// Candidates to compare (default: all; ring only with --no-gso). receive: bare, skyhaul, recvmmsg, recv, ring;
    /// send: bare, skyhaul, sendmmsg, sendto; record: fio, skyhaul, forward; balance: bare, skyhaul, single; lab: bare, skyhaul;
    /// rdma: udp, tcp, scatter, bare, ring, place, drop, write-stage, write-bpf and others, as its table names them
    #[arg(long, value_delimiter = ',', value_name = "NAME", add = to(PATH | RDMA))]
    pub(crate) candidates: Vec<String>,
    /// Datagram sizes, rounded down to the next that the format allows (for record, default 8040)
    #[arg(long, value_delimiter = ',', default_value = "1472,8040,65000", value_name = "BYTES", add = to(PATH))]
    pub(crate) sizes: Vec<usize>,
    /// Length of each run
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = some::<Span>("such as 2s"), help_heading = PACE, add = ALWAYS)]
    pub(crate) time: Span,
    /// Number of rounds; the candidates take turns in each
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one::<usize>("5 rounds show how much figures vary"), help_heading = PACE, add = ALWAYS)]
    pub(crate) rounds: usize,
    /// Fixed rate, or max: closed loop, as fast as possible without loss (default: max; for rdma 4Gbps)
    #[arg(long, value_name = "RATE", value_parser = super::rdma::rate, add = to(PATH | RDMA))]
    pub(crate) rate: Option<Rate>,
    /// Search for the highest rate without loss at which the sender never waits
    #[arg(long, conflicts_with = "rate", add = to(PATH))]
    pub(crate) search: bool,
    /// Directory on the disk to measure
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, required_if_eq("what", "record"), help_heading = DESTINATION, add = to(DISK_PATH))]
    pub(crate) directory: Option<PathBuf>,
    /// Size of each recording
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = some::<Size>("8GiB is more than the cache of most disks"), help_heading = DESTINATION, add = to(DISK_PATH))]
    pub(crate) bytes: Size,
    /// Address to receive on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", help_heading = NETWORK, add = ALWAYS)]
    pub(crate) address: IpAddr,
    /// Send from and receive in these network namespaces, which you have connected, like sky-a,sky-b (needs root)
    #[arg(long, value_name = "SENDER,RECEIVER", value_parser = pair::<String>, help_heading = NETWORK, add = to(PATH | EXPERIMENTS | RDMA))]
    pub(crate) netns: Option<(String, String)>,
    /// Hand packets to the kernel one by one instead of in trains
    #[arg(long, add = to(PATH))]
    pub(crate) no_gso: bool,
    /// Processors of the sending and the receiving thread
    #[arg(long, value_name = "SENDER,RECEIVER", default_value = "0,1", value_parser = pair::<usize>, add = to(PATH | LIMITED | PEERS | RDMA))]
    pub(crate) cpus: (usize, usize),
    /// Memory that packets are placed into
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = some::<Size>("64MiB is larger than any cache"), add = to(PATH | RDMA))]
    pub(crate) memory: Size,
    #[command(flatten)]
    pub(crate) heaps: HeapBenchArgs,
    #[command(flatten)]
    pub(crate) events: EventBenchArgs,
    #[command(flatten)]
    pub(crate) peers: PeerBenchArgs,
    #[command(flatten)]
    pub(crate) rdma: RdmaBenchArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What is combined for events.
#[derive(Args, Debug)]
pub(crate) struct EventBenchArgs {
    /// Largest IP packets
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1500,9000", value_parser = from_to::<usize>(100, 65_535, "such as 1500,9000"), add = to(SWEEP))]
    pub(crate) mtus: Vec<usize>,
    /// Bytes of an event
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "64KiB,1MiB", value_parser = some::<Size>("such as 64KiB,1MiB"), add = to(SWEEP))]
    pub(crate) events: Vec<Size>,
    /// Numbers of senders, a thread each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = up_to::<usize>(PAIRS, "one for every one or two CPUs is enough"), add = to(SWEEP))]
    pub(crate) senders: Vec<usize>,
    /// Numbers of workers, a thread each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4", value_parser = up_to::<usize>(PAIRS, "one for every one or two CPUs is enough"), add = to(SWEEP))]
    pub(crate) workers: Vec<usize>,
    /// Numbers of threads of the balancer
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = up_to::<usize>(PAIRS, "one for each CPU is enough"), add = to(SWEEP))]
    pub(crate) balancer_threads: Vec<usize>,
}

/// Programs beside which Skyhaul is measured.
#[derive(Args, Debug)]
pub(crate) struct PeerBenchArgs {
    /// Rows of the table, or experiments of rdma (default: all)
    #[arg(long, value_name = "ROW", value_delimiter = ',', value_parser = rows(), help_heading = MEASURED, add = to(PEERS | RDMA))]
    pub(crate) only: Vec<String>,
    /// spead2_recv of spead2 4 (default: from PATH)
    #[arg(long = "spead2-recv", value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath, add = to(PEERS))]
    pub(crate) heap_receiver: Option<PathBuf>,
    /// spead2_send of spead2 4 (default: from PATH)
    #[arg(long = "spead2-send", value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath, add = to(PEERS))]
    pub(crate) heap_sender: Option<PathBuf>,
    /// iperf3 (default: from PATH)
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath, add = to(PEERS))]
    pub(crate) iperf3: Option<PathBuf>,
    /// packetBlasteeFastDirect of JLab's esnet3 (default: from PATH)
    #[arg(long = "packet-blastee", value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath, add = to(PEERS))]
    pub(crate) event_receiver: Option<PathBuf>,
    /// skyhaul, for example of another build (default: this program). The bare loops are always of this program
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath, add = to(PEERS))]
    pub(crate) program: Option<PathBuf>,
}

/// What is combined for RDMA.
#[derive(Args, Debug)]
pub(crate) struct RdmaBenchArgs {
    /// Bytes of a message
    #[arg(long = "messages", value_name = "SIZE", value_delimiter = ',', default_value = "8KiB,64KiB,512KiB,2MiB", value_parser = some::<Size>("such as 8KiB,2MiB"), add = to(RDMA))]
    pub(crate) message_sizes: Vec<Size>,
    /// Longest datagram, bytes of UDP payload
    #[arg(long = "datagram", value_name = "BYTES", default_value_t = 8972, value_parser = from_to::<u16>(128, 65_507, "8972 fits a jumbo frame, 1472 an Ethernet frame"), add = to(RDMA))]
    pub(crate) datagram_bytes: u16,
    /// Datagrams that the sender of `receivers` and `lanes` hands to the kernel in one train (UDP_SEGMENT); 1: each by itself
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_to::<u16>(1, 46, "trains of 7 datagrams of 8972 bytes fit 64 KiB"), add = to(RDMA))]
    pub(crate) train: u16,
    /// LOFAR lanes to try, at most
    #[arg(long, value_name = "N", default_value_t = LANES, value_parser = from_to::<u16>(1, u64::from(LANES), "an antenna field has 4"), add = to(RDMA))]
    pub(crate) lanes: u16,
    /// Measure between two networks of its own, over a pair of interfaces (veth) with an MTU of 9000 (needs root)
    #[arg(long, conflicts_with_all = ["netns", "address"], help_heading = NETWORK, add = to(RDMA))]
    pub(crate) veth: bool,
    /// Shares of datagrams to withhold
    #[arg(long = "losses", value_name = "SHARE", value_delimiter = ',', default_value = "0.001,0.01,0.03,0.1", add = to(RDMA))]
    pub(crate) losses: Vec<f64>,
}

/// What is counted by `cargo xtask instructions`.
#[derive(Args, Debug)]
pub(crate) struct PacketPathArgs {
    /// The packets
    #[arg(value_parser = PossibleValuesParser::new(FIXED_INPUTS))]
    pub(crate) case: String,
}

/// The rows of the table of `bench peers`, and the experiments of `bench rdma`.
fn rows() -> PossibleValuesParser {
    let experiments = skyhaul_measure::bench::rdma::RDMA_EXPERIMENTS.map(clap::builder::PossibleValue::from);
    let rows = skyhaul_measure::bench::peers::row_names().map(clap::builder::PossibleValue::from);
    PossibleValuesParser::new(rows.chain(experiments).collect::<Vec<_>>())
}

impl BenchArgs {
    /// The networks of `--netns`.
    pub(crate) fn networks(&self) -> io::Result<Option<(Network, Network)>> {
        let Some((sender, receiver)) = &self.netns else { return Ok(None) };
        Ok(Some((Network::named(sender)?, Network::named(receiver)?)))
    }
}

/// Two values separated by a comma.
fn pair<T: std::str::FromStr>(text: &str) -> Result<(T, T), String> {
    let both = text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    both.ok_or_else(|| {
        format!(
            "expected two values, got `{text}`{}",
            Hint("write the sender's, a comma, and the receiver's")
        )
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchWhat {
    /// Receive and place
    Receive,
    /// Send
    Send,
    /// Write to a disk
    Record,
    /// Forward to the members of a balancer; its CPU time is that of the receiving thread
    Balance,
    /// Forward frames through a lab, beside a bare loop; its CPU time is that of the receiving thread
    Lab,
    /// Events from senders through a balancer to workers: tables and plots of every combination
    #[value(name = "ejfat")]
    Events,
    /// Skyhaul beside spead2, iperf3, packetBlastee and bare loops, in turns: one table, and a report to compare machines by
    Peers,
    /// RDMA Writes and Reads beside UDP and TCP sockets, in turns: message sizes, losses and latencies
    Rdma,
}

impl BenchWhat {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
