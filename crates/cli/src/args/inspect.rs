//! Arguments of `inspect`.

use super::limits::{FormatParser, TAKEN};
use super::limits::{OutputArgs, at_least_one};
use clap::Args;
use skyhaul::io::quantity::Span;
use skyhaul::wire::Format;

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// A file of frames, a capture (pcap, pcapng), or an address to listen on
    #[arg(value_name = "FILE|ADDRESS")]
    pub(crate) what: String,
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = TAKEN.as_str())]
    pub(crate) format: Format,
    /// Number of packets to show
    #[arg(long, short = 'n', default_value_t = 1, value_name = "N", value_parser = at_least_one::<usize>("1 shows one packet"))]
    pub(crate) count: usize,
    /// Packets to skip first
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) skip: usize,
    /// Stop after this long without a packet
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(crate) wait: Span,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
