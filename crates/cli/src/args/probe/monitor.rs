//! Arguments of `probe monitor`: tests that are repeated.

use super::super::limits::OutputArgs;
use super::super::limits::{DESTINATION, HOST, WHEN};
use super::super::limits::{from_to, some, up_to};
use clap::{Args, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Rate, Size, Span};
use skyhaul_measure::probe::monitor::TestKind;
use skyhaul_measure::probe::udp::{MAX_DATAGRAM, MAX_FLOWS, MIN_DATAGRAM};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// What is tested.
const REPEATED: &str = "What to repeat";

const LONG: &str = "Run tests on a schedule, with a JSON line for each in a rotated file, and metrics for Prometheus.

A test is udp:HOST (loss, jitter, delay) or tcp:HOST (rate, congestion window, round-trip time, retransmissions). Tests run one at a \
time. An unreachable peer is counted and reported, and the others continue; Ctrl-C ends the monitor without losing a line. In a TOML file (--plan), \
the same options may be set for all tests, and in a [[test]] for one: \
docs/guide/monitor.md has an example.";

#[derive(Args, Clone, Debug)]
#[command(long_about = LONG)]
pub(crate) struct MonitorArgs {
    /// Test to repeat: udp:HOST or tcp:HOST, with `:PORT` if not the default
    #[arg(value_name = "TEST", required_unless_present = "plan", help_heading = REPEATED)]
    pub(crate) tests: Vec<Target>,
    /// File of tests (TOML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = REPEATED)]
    pub(crate) plan: Option<PathBuf>,
    /// File with the token of all servers
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = REPEATED)]
    pub(crate) token_file: PathBuf,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    /// End after this time (default: at Ctrl-C)
    #[arg(long = "for", value_name = "TIME", value_parser = some::<Span>("such as 24h"), help_heading = WHEN)]
    pub(crate) length: Option<Span>,
    /// Seed of the random delays within --jitter (default: random)
    #[arg(long, value_name = "N", help_heading = WHEN)]
    pub(crate) seed: Option<u64>,
    /// File for results as JSON lines; rotated files are FILE.1, FILE.2, …
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = "monitor.jsonl", help_heading = DESTINATION)]
    pub(crate) lines: PathBuf,
    /// Size at which this file is rotated
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = some::<Size>("such as 64MiB"), help_heading = DESTINATION)]
    pub(crate) rotate: Size,
    /// Number of rotated files to keep
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = from_to::<usize>(0, 10_000, "such as 10"), help_heading = DESTINATION)]
    pub(crate) keep: usize,
    /// Also remove rotated files older than this (default: no limit)
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("such as 720h"), help_heading = DESTINATION)]
    pub(crate) keep_for: Option<Span>,
    /// File for metrics, replaced after each test, for node_exporter's textfile collector
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) metrics: Option<PathBuf>,
    /// Serve metrics at http://IP:PORT/metrics
    #[arg(long, value_name = "IP:PORT", help_heading = HOST)]
    pub(crate) http: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How a test is made: of all, or of one in a plan.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "How to test")]
pub(crate) struct HowArgs {
    /// Time between the starts of two tests
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = some::<Span>("such as 1min"))]
    pub(crate) every: Span,
    /// Delay each test by a random time up to this, to avoid synchronised tests (default: a tenth of --every)
    #[arg(long, value_name = "TIME")]
    pub(crate) jitter: Option<Span>,
    /// Length of a test
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some::<Span>("such as 5s"))]
    pub(crate) time: Span,
    /// Send data from the server to this host
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Send data in both directions concurrently
    #[arg(long, conflicts_with = "reverse")]
    pub(crate) both: bool,
    /// Flows at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to::<u16>(MAX_FLOWS as u64, "such as 1"))]
    pub(crate) flows: u16,
    /// Bytes of a datagram (udp; default: 1472, or less where that would be cut into fragments, as with IPv6)
    #[arg(long, value_name = "BYTES", value_parser = from_to::<u32>(MIN_DATAGRAM as u64, MAX_DATAGRAM as u64, "such as 1472"))]
    pub(crate) size: Option<u32>,
    /// Rate of each flow's payload (udp)
    #[arg(long, value_name = "RATE", default_value = "10Mbps", value_parser = some::<Rate>("such as 10Mbps"))]
    pub(crate) rate: Rate,
    /// Socket buffers of both ends (tcp; default: the kernel tunes them)
    #[arg(long, value_name = "SIZE", value_parser = some::<Size>("such as 64MiB"))]
    pub(crate) window: Option<Size>,
    /// Congestion control (tcp; default: the system's)
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
}

/// A server, and what is sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: TestKind,
    pub(crate) host: String,
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, host) = match text.split_once(':') {
            Some(("udp", host)) => (TestKind::Udp, host),
            Some(("tcp", host)) => (TestKind::Tcp, host),
            _ => (TestKind::Udp, ""),
        };
        if host.is_empty() {
            return Err(format!("unknown test `{text}`{}", Hint("write udp:HOST or tcp:HOST")));
        }
        Ok(Self { kind, host: host.to_owned() })
    }
}
