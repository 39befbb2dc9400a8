//! Arguments of `probe`: a path between two hosts, measured from this one.

mod monitor;
mod sweep;
mod tcp;

pub(crate) use monitor::{HowArgs, MonitorArgs, Target};
pub(crate) use sweep::ValueList;
pub(crate) use tcp::{Iperf3Args, TcpArgs};

use super::applies::with;
use super::limits::{DESTINATION, GENERAL, HOST, OutputArgs, PACE, from_to, some, up_to};
use clap::builder::ArgPredicate;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::io::address::Endpoint;
use skyhaul::io::quantity::{Rate, Span};
use skyhaul::peer::PORT;
use skyhaul_measure::probe::tcp::{MAX_FLOWS, ReaderHabit};
use skyhaul_measure::probe::udp::{MAX_DATAGRAM, MAX_TRAIN, MIN_DATAGRAM};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use sweep::{Sizes, Spacings, picoseconds};

/// What a measurement is of.
const MEASURED: &str = "What to measure";
/// Further tests, in place of points of size and spacing.
const TESTS: &str = "Other tests";
/// What a server allows.
const ALLOWED: &str = "Limits";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ProbeArgs {
    #[command(subcommand)]
    pub(crate) what: Option<ProbeWhat>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProbeWhat {
    /// Serve measurements to clients that hold the token
    Serve(ServeArgs),
    /// Send to a receiver without a control connection (`probe receive`)
    Send(OneWaySendArgs),
    /// Receive from a sender without a control connection (`probe send`)
    Receive(OneWayReceiveArgs),
    /// Run tests on a schedule, with results as JSON lines and Prometheus metrics
    Monitor(Box<MonitorArgs>),
    /// Run a set of experiments on this machine and compare each with theory
    Campaign(Box<CampaignArgs>),
}

/// The other end.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// Address to listen on; [::] includes IPv4
    #[arg(long, value_name = "IP", default_value = "::")]
    pub(crate) listen: IpAddr,
    /// TCP port; tests open UDP ports as needed
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub(crate) port: u16,
    /// File with the token that both hosts need; created if it does not exist. The server's key is kept beside it, in FILE.key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: PathBuf,
    /// Maximum concurrent tests; others wait in a queue
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to::<usize>(256, "1 disturbs no other"), help_heading = ALLOWED)]
    pub(crate) tests: usize,
    /// Maximum clients in the queue
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = from_to::<usize>(0, 4096, "such as 32"), help_heading = ALLOWED)]
    pub(crate) queue: usize,
    /// Maximum tests per client address, running and waiting
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = up_to::<usize>(4096, "such as 8"), help_heading = ALLOWED)]
    pub(crate) per_peer: usize,
    /// Maximum rate of a test (default: no limit)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 10Gbps; omit it to allow any"), help_heading = ALLOWED)]
    pub(crate) most: Option<Rate>,
    /// Maximum length of a test
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = some::<Span>("such as 10min"), help_heading = ALLOWED)]
    pub(crate) longest: Span,
    /// Also serve iperf3 clients, without a token: up to 16 concurrently, or --tests if that is more
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    pub(crate) iperf3: Option<u16>,
    /// Also reflect STAMP (RFC 8762) and TWAMP-Light packets, without a token; ports below 1024 need root
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub(crate) stamp: Option<u16>,
    /// Also respond to udpmon, without a token: up to 8 clients concurrently, or --tests if that is more
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "14233")]
    pub(crate) udpmon: Option<u16>,
    /// Read TCP as a slow application does, to try a diagnosis: pause for TIME in each PERIOD (50ms@200ms), or read at most at RATE (20Mbps)
    #[arg(long, value_name = "TIME@PERIOD|RATE")]
    pub(crate) slow_reader: Option<ReaderHabit>,
    /// Print one JSON report on standard output at the end
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

/// A sender by itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct OneWaySendArgs {
    /// Destination, IP:PORT
    #[arg(value_name = "IP:PORT")]
    pub(crate) to: SocketAddr,
    /// Datagram size in bytes (default: 1472, or less where it would be fragmented, as with IPv6)
    #[arg(long, value_name = "BYTES", value_parser = from_to::<u32>(MIN_DATAGRAM as u64, MAX_DATAGRAM as u64, "such as 1472"))]
    pub(crate) size: Option<u32>,
    /// Time between the starts of two packets, with picosecond resolution; 0us is as fast as possible
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = picoseconds)]
    pub(crate) spacing: u64,
    /// How long to send
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some::<Span>("such as 5s"))]
    pub(crate) time: Span,
    /// How packets are sent
    #[arg(long, value_enum, default_value = "single")]
    pub(crate) mode: SendingArg,
    /// Packets of a train (--mode trains)
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = up_to::<u32>(MAX_TRAIN as u64, "such as 16"))]
    pub(crate) train: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A receiver by itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct OneWayReceiveArgs {
    /// Address to listen on, udp://IP:PORT, or a multicast group
    #[arg(value_name = "ADDRESS")]
    pub(crate) at: Endpoint,
    /// Stop after this long without a packet, once the first has arrived
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = some::<Span>("such as 2s"))]
    pub(crate) idle: Span,
    /// Longest time to wait and receive (default: until Ctrl-C)
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("such as 1min"))]
    pub(crate) time: Option<Span>,
    /// Let the kernel coalesce packets that arrive together: less CPU time, but no timestamp per packet
    #[arg(long)]
    pub(crate) join: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A path to measure.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathArgs {
    /// Host that runs `skyhaul probe serve`: its name or address, with `:PORT` if not the default
    #[arg(value_name = "HOST", required = true)]
    pub(crate) host: Option<String>,
    /// File with the token of the server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present_any = ["iperf3", "stamp", "udpmon"], help_heading = MEASURED)]
    pub(crate) token_file: Option<PathBuf>,
    /// Measure with UDP (the default)
    #[arg(long, help_heading = MEASURED)]
    pub(crate) udp: bool,
    /// Datagram sizes in bytes: one, several like 64,1472, or FROM..TO in 10 steps (FROM..TO:N in N); default 1472, or less
    /// where it would be fragmented; 64 with STAMP
    #[arg(long, value_name = "BYTES", default_value = "usual", default_value_if("stamp", ArgPredicate::IsPresent, "64"), help_heading = MEASURED)]
    pub(crate) sizes: Sizes,
    /// Times between the starts of two packets: one, several like 1us,2us, or FROM..TO in 40 steps (FROM..TO:N in N);
    /// down to picoseconds, 0us is as fast as possible; with STAMP, default 10ms
    #[arg(long, value_name = "TIME", default_value = "10us", default_value_if("stamp", ArgPredicate::IsPresent, "10ms"), help_heading = MEASURED)]
    pub(crate) spacing: Spacings,
    /// Rates of payload instead of spacings: one or several
    #[arg(long, value_name = "RATE", value_delimiter = ',', conflicts_with = "spacing", value_parser = some::<Rate>("such as 1Gbps"), help_heading = MEASURED)]
    pub(crate) rates: Vec<Rate>,
    /// Find the largest datagram that passes without fragmentation
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) mtu: bool,
    /// Measure round-trip times for each size, with datagrams that the server echoes
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) latency: bool,
    /// Send bursts of 1, 2, 4, 8 … back-to-back packets, and report which lose packets
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) bursts: bool,
    /// Search for the highest rate without loss
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) search: bool,
    /// Overload the path and find its limit: rate and bucket of a policer, or rate and depth of a queue
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) limit: bool,
    /// Measure what loss, reordering and delay depend on, and report the cause, the evidence and the next command to run; the
    /// first of --sizes and --spacing (or --rates) is the highest load to try
    #[arg(long, conflicts_with_all = ["test", "both", "iperf3", "stamp", "udpmon", "trace", "packets", "mode", "train", "join"], help_heading = TESTS)]
    pub(crate) diagnose: bool,
    /// Write a page (index.html) with plots, the plots as SVG, and report.json into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["test", "iperf3", "stamp", "udpmon"], help_heading = TESTS)]
    pub(crate) report: Option<PathBuf>,
    /// Write the times of up to 65536 packets of each point, evenly chosen, into this file: lines of
    /// point,flow,number,sent_ns,under_way_ns
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TESTS)]
    pub(crate) trace: Option<PathBuf>,
    /// Send data from the server to this host
    #[arg(long, help_heading = MEASURED)]
    pub(crate) reverse: bool,
    /// Send data in both directions concurrently
    #[arg(long, conflicts_with = "reverse", help_heading = MEASURED)]
    pub(crate) both: bool,
    /// Number of concurrent flows, each with its own ports and threads; with TCP also a list, like 1,2,4
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',', value_parser = up_to::<u16>(MAX_FLOWS as u64, "one for every one or two CPUs is enough"), help_heading = MEASURED)]
    pub(crate) flows: Vec<u16>,
    /// Length of each point (default: 5s for one, 50ms for each of several; with TCP 10s and 5s, against iperf3 10s); of a
    /// diagnosis with
    /// UDP, of the first one (default: 1s)
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("such as 5s"), help_heading = PACE)]
    pub(crate) time: Option<Span>,
    /// Packets of each point and flow (default: as many as fit in its time)
    #[arg(long, value_name = "N", value_parser = up_to::<u64>(1 << 40, "omit it to send for a time"), help_heading = PACE)]
    pub(crate) packets: Option<u64>,
    /// How packets are sent
    #[arg(long, value_enum, default_value = "single", help_heading = PACE)]
    pub(crate) mode: SendingArg,
    /// Packets of a train (--mode trains)
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = up_to::<u32>(MAX_TRAIN as u64, "such as 16"), help_heading = PACE)]
    pub(crate) train: u32,
    /// Let the kernel coalesce packets that arrive together: less CPU time, but no timestamp per packet (default with trains)
    #[arg(long, help_heading = HOST)]
    pub(crate) join: bool,
    /// End a point after this long without an arrival, in addition to a round-trip time
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = some::<Span>("such as 20ms"), help_heading = HOST)]
    pub(crate) settle: Span,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    #[command(flatten)]
    pub(crate) iperf3: Iperf3Args,
    #[command(flatten)]
    pub(crate) others: OthersArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendingArg {
    /// One by one; the sending thread waits on the clock for each
    Single,
    /// In trains that the kernel segments (UDP_SEGMENT); the sending thread waits for each train
    Trains,
    /// One by one, spaced by the kernel where the interface has the fq discipline
    Kernel,
}

impl PathArgs {
    /// The same for a path on which datagrams of `largest` bytes pass without being cut.
    pub(crate) fn fitted(&self, largest: u32) -> Self {
        Self { sizes: self.sizes.fitted(largest), ..self.clone() }
    }

    /// How many points are to be measured.
    pub(crate) fn points(&self) -> usize {
        let spacings = if self.rates.is_empty() { self.spacing.values().len() } else { self.rates.len() };
        self.sizes.values().len() * spacings
    }
}

/// Heading of these options.
const OTHERS: &str = "Third-party peers";

/// Peers that are not skyhaul.
#[derive(Args, Clone, Debug)]
pub(crate) struct OthersArgs {
    /// Measure delay and loss with a reflector of STAMP (RFC 8762) or TWAMP-Light, on port 862 by default; needs no token
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862", conflicts_with_all = ["udpmon", "udp", "tcp", "iperf3", "test", "trace", "reverse", "both", "flows", "mode", "train", "join"], help_heading = OTHERS)]
    pub(crate) stamp: Option<u16>,
    /// Measure with a responder of udpmon, on port 14233 by default; needs no token. With --latency,
    /// requests and responses of each size
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "14233", conflicts_with_all = ["udp", "tcp", "iperf3", "mtu", "bursts", "search", "limit", "trace", "reverse", "both", "flows", "mode", "train", "join"], help_heading = OTHERS)]
    pub(crate) udpmon: Option<u16>,
}

const LONG: &str = "Reproduce the experiments of a talk on data transfer nodes, each with a table, a plot, JSON and a section of \
a page, and compare measurement with theory.

They run on paths emulated on this machine (as by `skyhaul lab`), on loopback, or on its disk. An experiment whose requirements \
are missing is skipped with the reason; if one fails, the others continue. Ctrl-C keeps the results so far. \
docs/guide/campaign.md lists them.";

#[derive(Args, Clone, Debug)]
#[command(long_about = LONG)]
pub(crate) struct CampaignArgs {
    /// Set of experiments
    #[arg(value_enum, value_name = "SET")]
    pub(crate) set: CampaignSet,
    /// Run only these, like policing,window-limit
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Fewer and shorter points
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write index.html, report.json, and JSON and plot of each experiment into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = DESTINATION)]
    pub(crate) report: Option<PathBuf>,
    /// Keep the results that are already in DIR, and run the other experiments
    #[arg(long, add = with("report"), help_heading = DESTINATION)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A set of experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CampaignSet {
    /// The figures of the talk "Data Transfer Nodes and Tuning"
    Talk,
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigPaths, Parsed, Verb, parse};
    use super::*;

    fn probe(line: &str) -> Result<ProbeArgs, String> {
        let words = ["skyhaul", "probe"].into_iter().chain(line.split_whitespace());
        let Parsed::Run(cli) = parse(words, &ConfigPaths::default()).map_err(|error| error.to_string())?
        else {
            panic!("another verb")
        };
        let Verb::Probe(args) = cli.verb else { panic!("another verb") };
        Ok(*args)
    }

    #[test]
    fn a_server_needs_no_host_and_a_path_needs_one() {
        let args = probe("serve --token-file t --tests 8").unwrap();
        assert!(matches!(args.what, Some(ProbeWhat::Serve(ServeArgs { tests: 8, .. }))));
        let args = probe("dtn2 --token-file t --udp --sizes 64..8972 --spacing 0us..40us").unwrap();
        assert!(args.what.is_none());
        assert_eq!(args.path.points(), 400);
        assert_eq!(probe("dtn2 --token-file t --rates 1Gbps,2Gbps").unwrap().path.points(), 2);
        let tcp =
            probe("dtn2 --token-file t --tcp --windows 1MiB..1GiB --flows 1,2,4 --cc cubic,bbr").unwrap();
        assert_eq!((tcp.path.flows, tcp.path.tcp.cc.len()), (vec![1, 2, 4], 2));
        assert_eq!(probe("dtn2 --iperf3").unwrap().path.iperf3.iperf3, Some(5201));
        assert_eq!(probe("dtn2 --iperf3 5301 --udp --rates 1Gbps").unwrap().path.iperf3.iperf3, Some(5301));
        let stamp = probe("dtn2 --stamp").unwrap().path;
        assert_eq!((stamp.others.stamp, stamp.sizes.values()), (Some(862), &[64][..]));
        assert_eq!(stamp.spacing.values(), [10_000_000_000]);
        let stamp = probe("dtn2 --stamp 9862 --sizes 1000 --spacing 1ms").unwrap().path;
        assert_eq!((stamp.sizes.values(), stamp.spacing.values()), (&[1000][..], &[1_000_000_000][..]));
        let udpmon = probe("dtn2 --udpmon --sizes 1472 --spacing 0us..40us").unwrap().path;
        assert_eq!((udpmon.others.udpmon, udpmon.points()), (Some(14_233), 40));
        assert!(probe("dtn2 --udpmon --latency").unwrap().path.latency);
        for wrong in [
            "dtn2 --stamp --udpmon",
            "dtn2 --stamp --reverse",
            "dtn2 --udpmon --train 4",
            "dtn2 --udpmon --tcp",
            "dtn2 --udpmon --mtu",
            "dtn2 --stamp --latency",
            "dtn2 --token-file t --tcp --udp",
            "dtn2 --token-file t --tcp --sizes 64",
            "dtn2 --token-file t --blocks 5",
            "dtn2 --iperf3 --stagger 1s",
            "--token-file t",
            "dtn2",
            "dtn2 --token-file t --both --reverse",
            "dtn2 --token-file t --train 65",
            "dtn2 --token-file t --mtu --search",
            "dtn2 --token-file t --mtu --diagnose",
            "dtn2 --token-file t --both --diagnose",
            "dtn2 --stamp --diagnose",
            "dtn2 --udpmon --report r",
        ] {
            assert!(probe(wrong).is_err(), "{wrong}");
        }
    }
}
