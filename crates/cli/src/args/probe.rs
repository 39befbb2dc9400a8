//! Arguments of `probe`: a path between two hosts, measured from this one.

mod monitor;
mod tcp;

pub(crate) use monitor::{HowArgs, MonitorArgs, Target};
pub(crate) use tcp::{Iperf3Args, TcpArgs};

use super::applies::with;
use super::limits::{DESTINATION, GENERAL, HOST, OutputArgs, PACE, from_to, some, up_to};
use super::limits::{Several, Sizes, Spacings, picoseconds};
use clap::builder::ArgPredicate;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::io::address::Endpoint;
use skyhaul::io::quantity::{Rate, Span};
use skyhaul::peer::PORT;
use skyhaul_measure::probe::tcp::FLOWS;
use skyhaul_measure::probe::udp::{LONGEST, SHORTEST, TRAIN};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// What a measurement is of.
const MEASURED: &str = "What to measure";
/// Further tests, in place of points of size and spacing.
const TESTS: &str = "Other tests";
/// What a server allows.
const ALLOWED: &str = "What is allowed";

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
    /// Be the other end of measurements, for whoever knows the token
    Serve(ServeArgs),
    /// Send to a receiver without a control connection (`probe receive`)
    Send(OneWaySendArgs),
    /// Receive from a sender without a control connection (`probe send`)
    Receive(OneWayReceiveArgs),
    /// Repeat tests for weeks: lines of JSON, and metrics
    Monitor(Box<MonitorArgs>),
    /// Make a set of experiments on this machine, each beside what theory predicts
    Campaign(Box<CampaignArgs>),
}

/// The other end.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// Address to listen on; [::] takes IPv4 too
    #[arg(long, value_name = "IP", default_value = "::")]
    pub(crate) listen: IpAddr,
    /// TCP port; tests open UDP ports as they need them
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub(crate) port: u16,
    /// File with the token that both hosts need; made if there is none
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: PathBuf,
    /// Tests at a time; others wait in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to::<usize>(256, "1 disturbs no other"), help_heading = ALLOWED)]
    pub(crate) tests: usize,
    /// Clients that may wait
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = from_to::<usize>(0, 4096, "such as 32"), help_heading = ALLOWED)]
    pub(crate) queue: usize,
    /// Tests of one address, running and waiting
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = up_to::<usize>(4096, "such as 8"), help_heading = ALLOWED)]
    pub(crate) per_peer: usize,
    /// Highest rate of a test (default: any)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 10Gbps; omit it to allow any"), help_heading = ALLOWED)]
    pub(crate) most: Option<Rate>,
    /// Longest test
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = some::<Span>("such as 10min"), help_heading = ALLOWED)]
    pub(crate) longest: Span,
    /// Serve clients of iperf3, too, without a token: 16 at once, or as many as --tests says if those are more
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    pub(crate) iperf3: Option<u16>,
    /// Reflect test packets of STAMP (RFC 8762) and TWAMP-Light, too, without a token; ports below 1024 need root
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub(crate) stamp: Option<u16>,
    /// Respond to requesters of udpmon, too, without a token: 8 at once, or as many as --tests says if those are more
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "14233")]
    pub(crate) udpmon: Option<u16>,
    /// Print one JSON report on standard output at the end
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

/// A sender by itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct OneWaySendArgs {
    /// Where to send: IP:PORT
    #[arg(value_name = "IP:PORT")]
    pub(crate) to: SocketAddr,
    /// Bytes of a datagram (default: 1472, or less where that would be cut into fragments, as with IPv6)
    #[arg(long, value_name = "BYTES", value_parser = from_to::<u32>(SHORTEST as u64, LONGEST as u64, "such as 1472"))]
    pub(crate) size: Option<u32>,
    /// From the start of one packet to that of the next, down to picoseconds; 0us is as fast as possible
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = picoseconds)]
    pub(crate) spacing: u64,
    /// How long to send
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some::<Span>("such as 5s"))]
    pub(crate) time: Span,
    /// How packets are sent
    #[arg(long, value_enum, default_value = "single")]
    pub(crate) mode: SendingArg,
    /// Packets of a train (--mode trains)
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = up_to::<u32>(TRAIN as u64, "such as 16"))]
    pub(crate) train: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A receiver by itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct OneWayReceiveArgs {
    /// Where to receive: udp://IP:PORT, or a group
    #[arg(value_name = "ADDRESS")]
    pub(crate) at: Endpoint,
    /// Time without packets, behind the first, after which it ends
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = some::<Span>("such as 2s"))]
    pub(crate) idle: Span,
    /// Longest time to wait and receive (default: until Ctrl-C)
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("such as 1min"))]
    pub(crate) time: Option<Span>,
    /// Let the kernel join packets that arrive together: less CPU time, and no time of each packet
    #[arg(long)]
    pub(crate) join: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A path to measure.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathArgs {
    /// Host that runs `skyhaul probe serve`: its name or address, with `:PORT` if not the usual one
    #[arg(value_name = "HOST", required = true)]
    pub(crate) host: Option<String>,
    /// File with the token of the server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present_any = ["iperf3", "stamp", "udpmon"], help_heading = MEASURED)]
    pub(crate) token_file: Option<PathBuf>,
    /// Measure with UDP (the default)
    #[arg(long, help_heading = MEASURED)]
    pub(crate) udp: bool,
    /// Bytes of datagrams: one, several like 64,1472, or FROM..TO in 10 steps (FROM..TO:N in N); usual is 1472, or less where that
    /// would be cut into fragments; of STAMP, 64 unless chosen
    #[arg(long, value_name = "BYTES", default_value = "usual", default_value_if("stamp", ArgPredicate::IsPresent, "64"), help_heading = MEASURED)]
    pub(crate) sizes: Sizes,
    /// From the start of one packet to that of the next: one, several like 1us,2us, or FROM..TO in 40 steps (FROM..TO:N in N);
    /// down to picoseconds, 0us is as fast as possible; of STAMP, 10ms unless chosen
    #[arg(long, value_name = "TIME", default_value = "10us", default_value_if("stamp", ArgPredicate::IsPresent, "10ms"), help_heading = MEASURED)]
    pub(crate) spacing: Spacings,
    /// Rates of payload instead of spacings: one or several
    #[arg(long, value_name = "RATE", value_delimiter = ',', conflicts_with = "spacing", value_parser = some::<Rate>("such as 1Gbps"), help_heading = MEASURED)]
    pub(crate) rates: Vec<Rate>,
    /// Find the longest datagram that passes without being cut
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) mtu: bool,
    /// Round trips of datagrams that the server sends back, of each size
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) latency: bool,
    /// Bursts of 1, 2, 4, 8 … packets back to back, and which of them lose any
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) bursts: bool,
    /// Search for the highest rate at which nothing is lost
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) search: bool,
    /// Send more than the path carries, and find what limits it: rate and bucket of a policer, rate and depth of a queue
    #[arg(long, group = "test", help_heading = TESTS)]
    pub(crate) limit: bool,
    /// Measure what loss, order and delay depend on, and name the cause with its evidence and the next command to type; of
    /// --sizes and --spacing (or --rates), the first is the highest load to try
    #[arg(long, conflicts_with_all = ["test", "both", "iperf3", "stamp", "udpmon", "trace", "packets", "mode", "train", "join"], help_heading = TESTS)]
    pub(crate) diagnose: bool,
    /// Write a page (index.html) with plots, the plots as SVG, and report.json into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["test", "iperf3", "stamp", "udpmon"], help_heading = TESTS)]
    pub(crate) report: Option<PathBuf>,
    /// Write the times of up to 65536 packets of each point, evenly chosen, into this file: lines of
    /// point,flow,number,sent_ns,under_way_ns
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TESTS)]
    pub(crate) trace: Option<PathBuf>,
    /// Data from the server to here
    #[arg(long, help_heading = MEASURED)]
    pub(crate) reverse: bool,
    /// Data both ways at once
    #[arg(long, conflicts_with = "reverse", help_heading = MEASURED)]
    pub(crate) both: bool,
    /// Flows at once, each with ports and threads of its own; with TCP also several numbers, like 1,2,4
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',', value_parser = up_to::<u16>(FLOWS as u64, "one for every one or two processors is enough"), help_heading = MEASURED)]
    pub(crate) flows: Vec<u16>,
    /// Length of each point (default: 5s for one, 50ms for each of several; with TCP 10s and 5s, against iperf3 10s); of a diagnosis with
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
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = up_to::<u32>(TRAIN as u64, "such as 16"), help_heading = PACE)]
    pub(crate) train: u32,
    /// Let the kernel join packets that arrive together: less CPU time, and no time of each packet (default with trains)
    #[arg(long, help_heading = HOST)]
    pub(crate) join: bool,
    /// Time without arrival after which a point ends, besides a round trip
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
    /// One by one, each at its time, which the sending thread awaits on the clock
    Single,
    /// In trains that the kernel cuts (UDP_SEGMENT), each train at its time
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
const OTHERS: &str = "Other makers' peers";

/// Peers that are not skyhaul.
#[derive(Args, Clone, Debug)]
pub(crate) struct OthersArgs {
    /// Measure delay and loss with a reflector of STAMP (RFC 8762) or TWAMP-Light, on port 862 unless another is named; needs no
    /// token
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862", conflicts_with_all = ["udpmon", "udp", "tcp", "iperf3", "test", "trace", "reverse", "both", "flows", "mode", "train", "join"], help_heading = OTHERS)]
    pub(crate) stamp: Option<u16>,
    /// Measure with a responder of udpmon, on its port 14233 unless another is named; needs no token. With --latency,
    /// requests and responses of each size
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "14233", conflicts_with_all = ["udp", "tcp", "iperf3", "mtu", "bursts", "search", "limit", "trace", "reverse", "both", "flows", "mode", "train", "join"], help_heading = OTHERS)]
    pub(crate) udpmon: Option<u16>,
}

const LONG: &str = "Make the experiments of a talk on data transfer nodes again: each as table, plot, JSON and section of a page, with \
what theory predicts beside what was measured.

They are made on paths emulated on this machine (as by `skyhaul lab`), on loopback, or on its disk. One that needs what is \
not here is skipped, with the reason; one that fails ends no other. Ctrl-C keeps those that are done. \
docs/guide/campaign.md lists them.";

#[derive(Args, Clone, Debug)]
#[command(long_about = LONG)]
pub(crate) struct CampaignArgs {
    /// Which experiments
    #[arg(value_enum, value_name = "SET")]
    pub(crate) set: CampaignSet,
    /// Only these: policing,window-limit
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Fewer and shorter points
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write index.html, report.json, and JSON and plot of each experiment into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = DESTINATION)]
    pub(crate) report: Option<PathBuf>,
    /// Keep the experiments that are already done in DIR, and make the others
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
    use super::super::{Parsed, Places, Verb, parse};
    use super::*;

    fn probe(line: &str) -> Result<ProbeArgs, String> {
        let words = ["skyhaul", "probe"].into_iter().chain(line.split_whitespace());
        let Parsed::Run(cli) = parse(words, &Places::default()).map_err(|error| error.to_string())? else {
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
