//! Arguments of `balancer`: what may be asked of the control plane of a load balancer.

use super::limits::{CONTROL, some};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::core::balance::Prefix;
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
    /// EJFAT_URI of the control plane, or of a reservation (default: that of the environment, where other users do not see
    /// its token)
    #[arg(long, global = true, value_name = "URI", conflicts_with = "balancer_file")]
    pub(crate) balancer: Option<String>,
    /// File with that URI, as `reserve --uri-file` writes it
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) balancer_file: Option<PathBuf>,
    /// File with the token, instead of the one in the URI: the operator's, of `balance --token-file`
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Accept the control plane's certificate if this file (PEM) has it or signed it (default: authorities of the system)
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) certificate: Option<PathBuf>,
    /// Accept any certificate of the control plane
    #[arg(long, global = true, conflicts_with = "certificate")]
    pub(crate) any_certificate: bool,
    /// How long to wait for an answer
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
    /// Show a reservation: its workers with their shares, its senders, what it counted
    Status,
    /// Show all reservations that the token may see
    Overview,
    /// Let a reservation end at another time
    Extend(UntilArgs),
    /// End a reservation
    Free,
    /// Forget senders, workers, or where ticks are
    Reset(ResetArgs),
    /// Change who may send
    Senders(SendersArgs),
    /// Remove a worker
    Workers(WorkersArgs),
    /// Make, list and revoke tokens
    Tokens(TokensArgs),
    /// Let another load balancer send a part of its events to this one
    Chain(ChainArgs),
    /// End that
    Unchain {
        /// Number of the chain, as `chains` shows it
        chain: String,
    },
    /// Show which load balancers send to this one, and which to those
    Chains,
    /// Show the version of the control plane
    Version,
}

#[derive(Args, Debug)]
pub(crate) struct ReserveArgs {
    /// What the reservation is called
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) until: UntilArgs,
    /// Host or network that may send, like 10.1.0.7 or, to skyhaul, 10.1.0.0/16; may be repeated
    #[arg(long, value_name = "NETWORK")]
    pub(crate) sender: Vec<Prefix>,
    /// How workers' shares follow from their reports
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
    /// They follow what workers report
    Dynamic,
    /// They follow workers' first weights
    Static,
    /// Workers have the slots that they demand, and no others
    Explicit,
}

/// When a reservation ends.
#[derive(Args, Debug)]
pub(crate) struct UntilArgs {
    /// From now until it ends, like 2h (default of `reserve`: what the control plane gives; skyhaul and udplbd a year)
    #[arg(long = "for", value_name = "TIME", value_parser = some::<Span>("such as 2h"), conflicts_with = "forever")]
    pub(crate) lasts: Option<Span>,
    /// It does not end (udplbd refuses that)
    #[arg(long)]
    pub(crate) forever: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct ResetArgs {
    /// Nobody may send any more
    #[arg(long)]
    pub(crate) senders: bool,
    /// All workers have to register again
    #[arg(long)]
    pub(crate) workers: bool,
    /// Ticks and calendars, as for senders that begin to count anew
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
    /// These may send, too
    Add(NetworksArgs),
    /// These may send no more
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
    /// A worker gets the rest of what is its, and nothing new
    Remove {
        /// Number of its session, as `status` shows it
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
    /// Make a token, and print the EJFAT_URI with it
    Create(CreateArgs),
    /// List the tokens that came from this one, or from the one with this number
    List(TokenArgs),
    /// Show what this token allows, or the one with this number
    Show(TokenArgs),
    /// Revoke a token and all that came from it
    Revoke {
        /// Its number, as `list` shows it
        id: u32,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    /// Number of a token, as `list` shows it
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
            .ok_or_else(|| format!("`{level}` is no level\nhint: {}", LEVELS.join(", ")))?;
        let resource = resource.map(|resource| {
            let (kind, id) = resource.split_once('/').unwrap_or((resource, ""));
            let found = number(RESOURCES, kind).filter(|kind| match kind {
                0 => id.is_empty(),
                _ => id.parse::<u64>().is_ok_and(|id| id > 0),
            });
            let wrong =
                || format!("`{resource}` is no resource\nhint: all, lb/1, reservation/1 or session/1");
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
