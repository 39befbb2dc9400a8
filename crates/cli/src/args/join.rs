//! Arguments of a worker: a receiver that joins a load balancer.

use super::applies::{EVENTS, to, with};
use super::heading::{INPUT, WORKER};
use super::limits::from_to;
use clap::{Args, ValueHint};
use skyhaul::io::quantity::Span;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = WORKER)]
pub(crate) struct JoinArgs {
    /// Join a load balancer: register with its control plane, report this receiver's backlog, and leave at the end
    #[arg(long, add = to(EVENTS), help_heading = INPUT, display_order = 3)]
    pub(crate) join: bool,
    /// EJFAT_URI of the balancer (default: from the environment, where other users cannot see its token)
    #[arg(long, value_name = "URI", add = with("join"))]
    pub(crate) balancer: Option<String>,
    /// Name in the balancer's status (default: host and process)
    #[arg(long, value_name = "NAME", add = with("join"))]
    pub(crate) name: Option<String>,
    /// Address at which the balancer reaches this receiver (default: that of --listen, or of the route to the balancer)
    #[arg(long, value_name = "IP", add = with("join"))]
    pub(crate) address: Option<IpAddr>,
    /// Initial weight relative to other workers
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER", add = with("join"))]
    pub(crate) weight: f32,
    /// Minimum share, as a fraction of an even share; 0: no minimum
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR", add = with("join"))]
    pub(crate) min_factor: f32,
    /// Maximum share, as a multiple of an even share; 0: no maximum
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR", add = with("join"))]
    pub(crate) max_factor: f32,
    /// Number of consecutive ports from that of --listen, a power of two; each has a socket and a thread
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = from_to::<u16>(1, 256, "1, 2, 4, 8 …: one for each CPU is enough"), add = with("join"))]
    pub(crate) ports: u16,
    /// Ask the balancer to leave its header on packets
    #[arg(long, add = with("join"))]
    pub(crate) keep_label: bool,
    /// Longest time to wait for the last packets when leaving
    #[arg(long, default_value = "10s", value_name = "TIME", add = with("join"))]
    pub(crate) drain: Span,
    /// Trust the control plane's certificate if it is in this PEM file or signed by one in it (default: the system's
    /// authorities)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = with("join"))]
    pub(crate) certificate: Option<PathBuf>,
    /// Accept any certificate of the control plane
    #[arg(long, conflicts_with = "certificate", add = with("join"))]
    pub(crate) any_certificate: bool,
}
