//! Arguments of `balancer`: what may be asked of the control plane of a load balancer.

use super::limits::{CONTROL, some};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::core::balance::Prefix;
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::Span;
use std::path::PathBuf;
use std::str::FromStr;

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
            assert!(why.contains("\nhint: "), "{text}: {why}");
        }
    }
}
