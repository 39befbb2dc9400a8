//! Arguments of `probe` for peers of other makers: STAMP and udpmon.

use clap::Args;

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
