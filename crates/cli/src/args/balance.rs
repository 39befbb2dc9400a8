//! Arguments of `balance`, and of `balancer`: calls to the control plane of a load balancer.

use super::applies::with;
use super::limits::{BALANCED, CONTROL, DESTINATION, HOST, OutputArgs, WHEN, some, up_to};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
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

#[derive(Args, Debug)]
pub(crate) struct BalancerArgs {
    #[command(flatten)]
    pub(crate) at: AtArgs,
    #[command(subcommand)]
    pub(crate) what: BalancerWhat,
}

/// Which control plane, and who asks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = CONTROL)]
pub(crate) struct AtArgs {
    /// EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its
    /// token)
    #[arg(long, global = true, value_name = "URI", conflicts_with = "balancer_file")]
    pub(crate) balancer: Option<String>,
    /// File with that URI, as `reserve --uri-file` writes it
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) balancer_file: Option<PathBuf>,
    /// File with the token, instead of the one in the URI: the operator's, of `balance --token-file`
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust the control plane's certificate if it is in this PEM file or signed by one in it (default: the system's
    /// authorities)
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) certificate: Option<PathBuf>,
    /// Accept any certificate of the control plane
    #[arg(long, global = true, conflicts_with = "certificate")]
    pub(crate) any_certificate: bool,
    /// Timeout of a request
    #[arg(long, global = true, value_name = "TIME", default_value = "5s", value_parser = some::<Span>("such as 5s"))]
    pub(crate) timeout: Span,
    /// Print the answer as one JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BalancerWhat {
    /// Reserve a load balancer, and print its EJFAT_URI
    Reserve(ReserveArgs),
    /// Show a reservation: its workers and their shares, its senders and counters
    Status,
    /// Show all reservations that the token can see
    Overview,
    /// Change when a reservation ends
    Extend(UntilArgs),
    /// End a reservation
    Free,
    /// Reset the senders, the workers or the tick sequence
    Reset(ResetArgs),
    /// Add or remove senders
    Senders(SendersArgs),
    /// Remove a worker
    Workers(WorkersArgs),
    /// Create, list and revoke tokens
    Tokens(TokensArgs),
    /// Accept a part of another load balancer's events
    Chain(ChainArgs),
    /// End a chain
    Unchain {
        /// Number of the chain, as shown by `chains`
        chain: String,
    },
    /// Show the load balancers that feed this one, and those that feed them
    Chains,
    /// Show the version of the control plane
    Version,
}

#[derive(Args, Debug)]
pub(crate) struct ReserveArgs {
    /// Name of the reservation
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) until: UntilArgs,
    /// Host or network that may send, like 10.1.0.7 or, to skyhaul, 10.1.0.0/16; may be repeated
    #[arg(long, value_name = "NETWORK")]
    pub(crate) sender: Vec<Prefix>,
    /// How the workers' shares are computed
    #[arg(long, value_enum, default_value = "dynamic")]
    pub(crate) strategy: StrategyArg,
    /// IPv4 only
    #[arg(long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// IPv6 only
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// File for the EJFAT_URI, readable by its owner only (default: standard output)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) uri_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyArg {
    /// From the workers' reports
    Dynamic,
    /// From the workers' initial weights
    Static,
    /// Workers get exactly the slots that they request
    Explicit,
}

/// When a reservation ends.
#[derive(Args, Debug)]
pub(crate) struct UntilArgs {
    /// Lifetime from now, like 2h (default of `reserve`: set by the control plane; a year with skyhaul and udplbd)
    #[arg(long = "for", value_name = "TIME", value_parser = some::<Span>("such as 2h"), conflicts_with = "forever")]
    pub(crate) lasts: Option<Span>,
    /// No end (udplbd refuses this)
    #[arg(long)]
    pub(crate) forever: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct ResetArgs {
    /// Remove all senders
    #[arg(long)]
    pub(crate) senders: bool,
    /// Remove all workers; they must register again
    #[arg(long)]
    pub(crate) workers: bool,
    /// Reset ticks and calendars, for senders that restart their counters
    #[arg(long)]
    pub(crate) ticks: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SendersArgs {
    #[command(subcommand)]
    pub(crate) what: SendersWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SendersWhat {
    /// Allow these senders
    Add(NetworksArgs),
    /// Remove these senders
    Remove(NetworksArgs),
}

#[derive(Args, Debug)]
pub(crate) struct NetworksArgs {
    /// Hosts or networks, like 10.1.0.7 or, to skyhaul, 10.1.0.0/16
    #[arg(required = true, value_name = "NETWORK")]
    pub(crate) networks: Vec<Prefix>,
}

#[derive(Args, Debug)]
pub(crate) struct WorkersArgs {
    #[command(subcommand)]
    pub(crate) what: WorkersWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersWhat {
    /// Remove a worker: it still gets the rest of its events, but no new ones
    Remove {
        /// Number of its session, as shown by `status`
        session: u64,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TokensArgs {
    #[command(subcommand)]
    pub(crate) what: TokensWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensWhat {
    /// Create a token, and print the EJFAT_URI with it
    Create(CreateArgs),
    /// List the tokens derived from this one, or from the one with this number
    List(TokenArgs),
    /// Show the permissions of this token, or of the one with this number
    Show(TokenArgs),
    /// Revoke a token and all tokens derived from it
    Revoke {
        /// Its number, as shown by `list`
        id: u32,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    /// Number of a token, as shown by `list`
    pub(crate) id: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// What the token is called
    pub(crate) name: String,
    /// What it allows: read, register, reserve or update, on all, lb/1, reservation/1 or session/1; may be repeated
    /// (without a resource: on the reservation of the URI)
    #[arg(long, value_name = "LEVEL[:RESOURCE]", required = true)]
    pub(crate) allow: Vec<Allowed>,
    /// File for the EJFAT_URI, readable by its owner only (default: standard output)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) uri_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ChainArgs {
    /// EJFAT_URI of the load balancer that is to send, readable in lists of processes: prefer --from-file
    #[arg(long, value_name = "URI", conflicts_with = "from_file", required_unless_present = "from_file")]
    pub(crate) from: Option<String>,
    /// File with that URI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) from_file: Option<PathBuf>,
    /// It sends to this one's IPv6 address
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// First share relative to its other workers'
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER")]
    pub(crate) weight: f32,
    /// At least this part of an even share; 0: no bound
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR")]
    pub(crate) min_factor: f32,
    /// At most this many even shares; 0: no bound
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR")]
    pub(crate) max_factor: f32,
}

/// A level on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// How much, as the protocol numbers it: 0 to look, to 3 to change everything.
    pub(crate) level: i32,
    /// On what; without, on the reservation of who asks.
    pub(crate) resource: Option<Resource>,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Its kind, as the protocol numbers it.
    pub(crate) kind: i32,
    /// Its number; empty for all.
    pub(crate) id: String,
}

/// Levels by their number.
pub(crate) const LEVELS: [&str; 4] = ["read", "register", "reserve", "update"];
/// Kinds of resources by their number.
pub(crate) const RESOURCES: [&str; 4] = ["all", "lb", "reservation", "session"];
/// That of reservations.
pub(crate) const RESERVATION: i32 = 2;

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Allowed, String> {
        let (level, resource) =
            text.split_once(':').map_or((text, None), |(level, resource)| (level, Some(resource)));
        let number = |names: [&str; 4], name: &str| names.iter().position(|one| *one == name);
        let level = number(LEVELS, level)
            .ok_or_else(|| format!("unknown level `{level}`{}", Hint(LEVELS.join(", "))))?;
        let resource = resource.map(|resource| {
            let (kind, id) = resource.split_once('/').unwrap_or((resource, ""));
            let found = number(RESOURCES, kind).filter(|kind| match kind {
                0 => id.is_empty(),
                _ => id.parse::<u64>().is_ok_and(|id| id > 0),
            });
            let wrong =
                || format!("unknown resource `{resource}`{}", Hint("all, lb/1, reservation/1 or session/1"));
            found.map(|kind| Resource { kind: kind as i32, id: id.to_owned() }).ok_or_else(wrong)
        });
        Ok(Allowed { level: level as i32, resource: resource.transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_on_resources() {
        let on = |kind, id: &str| Some(Resource { kind, id: id.to_owned() });
        for (text, level, resource) in [
            ("read", 0, None),
            ("register:reservation/7", 1, on(2, "7")),
            ("reserve:lb/1", 2, on(1, "1")),
            ("update:all", 3, on(0, "")),
            ("read:session/9", 0, on(3, "9")),
        ] {
            assert_eq!(text.parse(), Ok(Allowed { level, resource }), "{text}");
        }
        for text in ["", "write", "read:", "read:lb", "read:lb/0", "read:lb/x", "read:all/1", "read:lb/1/2"] {
            let why = text.parse::<Allowed>().unwrap_err();
            assert!(why.contains("; hint: "), "{text}: {why}");
        }
    }
}
