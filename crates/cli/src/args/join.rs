//! Arguments of a worker: a receiver that joins a load balancer.

use super::heading::{INPUT, WORKER};
use super::limits::from_to;
use clap::{Args, ValueHint};
use skyhaul::io::quantity::Span;
use std::net::IpAddr;
use std::path::PathBuf;

/// A worker of a balancer.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = WORKER)]
pub(crate) struct JoinArgs {
    /// Join a load balancer: register with its control plane, report how far behind this receiver is, and leave when it ends
    #[arg(long, help_heading = INPUT, display_order = 3)]
    pub(crate) join: bool,
    /// The balancer's EJFAT_URI (default: that of the environment, where other users do not see its token)
    #[arg(long, value_name = "URI", requires = "join")]
    pub(crate) balancer: Option<String>,
    /// Name in the balancer's status (default: host and process)
    #[arg(long, value_name = "NAME", requires = "join")]
    pub(crate) name: Option<String>,
    /// Address at which the balancer reaches this receiver (default: that of --listen, or of the route to the balancer)
    #[arg(long, value_name = "IP", requires = "join")]
    pub(crate) address: Option<IpAddr>,
    /// First share relative to other workers'
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER", requires = "join")]
    pub(crate) weight: f32,
    /// At least this part of an even share; 0: no bound
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR", requires = "join")]
    pub(crate) min_factor: f32,
    /// At most this many even shares; 0: no bound
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR", requires = "join")]
    pub(crate) max_factor: f32,
    /// Number of ports from that of --listen on, a power of two: a socket and a thread each
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = from_to::<u16>(1, 256, "1, 2, 4, 8 …: one for each processor is enough"), requires = "join")]
    pub(crate) ports: u16,
    /// Let packets come with the balancer's label
    #[arg(long, requires = "join")]
    pub(crate) keep_label: bool,
    /// Longest time to wait for the last packets when it leaves
    #[arg(long, default_value = "10s", value_name = "TIME", requires = "join")]
    pub(crate) drain: Span,
    /// Accept the control plane's certificate if this file (PEM) has it or signed it (default: authorities of the system)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "join")]
    pub(crate) certificate: Option<PathBuf>,
    /// Accept any certificate of the control plane
    #[arg(long, requires = "join", conflicts_with = "certificate")]
    pub(crate) any_certificate: bool,
}
