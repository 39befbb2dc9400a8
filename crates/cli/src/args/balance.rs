//! Arguments of `balance`.

use super::applies::with;
use super::limits::OutputArgs;
use super::limits::{BALANCED, CONTROL, DESTINATION, HOST, WHEN};
use super::limits::{some, up_to};
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::balance::FastPath;
use skyhaul::core::balance::Prefix;
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Size, Span};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Args, Debug)]
pub(crate) struct BalanceArgs {
    /// Address on which packets and synchronisation messages arrive, as senders write it; may be repeated
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", help_heading = BALANCED)]
    pub(crate) listen: Vec<IpAddr>,
    /// Address of one load balancer alone, with the first ports, like 10.0.0.2 or 10.0.0.2,fd00::2; repeat it for the next ones
    /// (default: all share --listen and differ by port, and none has port 19522, which clients use that ignore the URI's)
    #[arg(long, value_name = "IP", help_heading = BALANCED)]
    pub(crate) instance_address: Vec<Addresses>,
    /// Port for packets of the first load balancer; the others have the next ones
    #[arg(long, value_name = "PORT", default_value_t = skyhaul::wire::DATA_PORT, help_heading = BALANCED)]
    pub(crate) data_port: u16,
    /// Port for synchronisation messages of the first load balancer; the others have the next ones
    #[arg(long, value_name = "PORT", default_value_t = skyhaul::wire::SYNC_PORT, help_heading = BALANCED)]
    pub(crate) sync_port: u16,
    /// Load balancers, each with one reservation at a time (default: 8, or one for each --instance-address)
    #[arg(long, value_name = "N", value_parser = up_to::<u16>(64, "8 is what ESnet's data plane has"), help_heading = BALANCED)]
    pub(crate) instances: Option<u16>,
    /// Reserve a load balancer of this name at the start, if it is not reserved yet, and write its EJFAT_URI
    #[arg(long, value_name = "NAME", help_heading = BALANCED)]
    pub(crate) reserve: Option<String>,
    /// Host or network that may send to it, like 10.1.0.0/16 (default: this host, if it listens nowhere else)
    #[arg(long, value_name = "NETWORK", add = with("reserve"), help_heading = BALANCED)]
    pub(crate) sender: Vec<Prefix>,
    /// Address of the control plane: gRPC, REST and /metrics
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:18008", help_heading = CONTROL)]
    pub(crate) api: SocketAddr,
    /// File with the operator's token; created with a new token if it does not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = CONTROL)]
    pub(crate) token_file: PathBuf,
    /// Keep tokens valid that were made under another operator's token (default: a new token in the file revokes them)
    #[arg(long, add = with("state"), help_heading = CONTROL)]
    pub(crate) keep_tokens: bool,
    /// PEM file of the certificate of the control plane (default: no TLS)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = with("tls_key"), help_heading = CONTROL)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file of its private key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = with("tls_cert"), help_heading = CONTROL)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Trust the certificate of a load balancer that feeds one of these if it is in this PEM file or signed by one in it
    /// (default: the system's authorities)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = CONTROL)]
    pub(crate) upstream_certificate: Option<PathBuf>,
    /// Accept any certificate of such a load balancer
    #[arg(long, conflicts_with = "upstream_certificate", help_heading = CONTROL)]
    pub(crate) any_upstream_certificate: bool,
    /// Database of reservations, workers and tokens, kept across restarts (default: none, they end with the program)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) state: Option<PathBuf>,
    /// File for the EJFAT_URI of --reserve, readable by its owner only (default: standard output)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = with("reserve"), help_heading = DESTINATION)]
    pub(crate) uri_file: Option<PathBuf>,
    /// Print a packet summary on exit, by reservation, reason and worker
    #[arg(long, help_heading = DESTINATION)]
    pub(crate) report: bool,
    /// End after this time (default: Ctrl-C)
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("such as 1h, or omit it"), help_heading = WHEN)]
    pub(crate) duration: Option<Span>,
    /// Forward in this process (default with --state: in a process for each load balancer, which continues if this one is
    /// killed)
    #[arg(long, help_heading = HOST)]
    pub(crate) in_process: bool,
    /// Forwarding threads for each address of each load balancer (default: one for each CPU)
    #[arg(long, value_name = "N", value_parser = up_to::<usize>(256, "more than one for each CPU forward no faster"), help_heading = HOST)]
    pub(crate) threads: Option<usize>,
    /// CPUs for these threads, one each
    #[arg(long, value_name = "CPU", value_delimiter = ',', help_heading = HOST)]
    pub(crate) cpus: Vec<usize>,
    /// Forward in the kernel (XDP) where possible, before the sockets and the host's packet filter
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Fast::Off, help_heading = HOST)]
    pub(crate) fast_path: Fast,
    /// Receive buffer of each thread
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = some::<Size>("64MiB is 50 ms at 10 Gb/s"), help_heading = HOST)]
    pub(crate) socket_buffer: Size,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Addresses of one load balancer.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(pub(crate) Vec<IpAddr>);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all: Option<Vec<IpAddr>> = text.split(',').map(|ip| ip.parse().ok()).collect();
        all.map(Self)
            .ok_or_else(|| format!("expected IP addresses{}", Hint("like 10.0.0.2, or 10.0.0.2,fd00::2")))
    }
}

impl BalanceArgs {
    /// How many load balancers there are.
    pub(crate) fn instances(&self) -> u16 {
        let own = u16::try_from(self.instance_address.len()).unwrap_or(u16::MAX);
        self.instances.unwrap_or(if own == 0 { 8 } else { own })
    }

    /// How many of them have --listen.
    pub(crate) fn sharing(&self) -> u16 {
        self.instances().saturating_sub(u16::try_from(self.instance_address.len()).unwrap_or(u16::MAX))
    }

    /// Every address on which one of them listens.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let own = self.instance_address.iter().flat_map(|own| own.0.iter().copied());
        own.chain(self.listen.iter().copied().filter(|_| self.sharing() > 0)).collect()
    }
}

/// Whether a program in the kernel forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fast {
    /// If the driver of the interface supports it
    Auto,
    /// In the driver, or in the generic hook, which is slower; fail if neither works
    Xdp,
    /// Forward through sockets only (no XDP)
    Off,
}

impl From<Fast> for FastPath {
    fn from(fast: Fast) -> FastPath {
        match fast {
            Fast::Auto => FastPath::Auto,
            Fast::Xdp => FastPath::Xdp,
            Fast::Off => FastPath::Off,
        }
    }
}

/// Forward packets for a balancer whose control plane runs in another process.
#[derive(Args, Debug)]
pub(crate) struct DataPlaneArgs {
    /// Unix socket for the control plane
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Address on which packets arrive
    #[arg(long, value_name = "IP:PORT", required = true)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Threads for each address; 0: one for each CPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
    /// CPUs for these threads, one each
    #[arg(long, value_name = "CPU")]
    pub(crate) cpus: Vec<usize>,
    /// Receive buffer of each thread
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) socket_buffer: Size,
    /// Whether a program in the kernel (XDP) sends on what it can
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Fast::Off)]
    pub(crate) fast_path: Fast,
}
