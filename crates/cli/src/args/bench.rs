//! What can be typed of a benchmark.

use super::format::FormatParser;
use super::limits::{at_least_one, some};
use super::{OutputArgs, SpeadBenchArgs};
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::io::quantity::{Rate, Size, Span};
use skyhaul::wire::Format;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// What to measure
    #[arg(value_enum, default_value_t = BenchWhat::Receive)]
    pub(crate) what: BenchWhat,
    /// `spead`: the experiments of SDP memo 046 with SPEAD heaps; otherwise VDIF frames
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) format: Format,
    /// Datagram sizes; rounded down to what VDIF can have (default for record: 8040)
    #[arg(long, value_delimiter = ',', default_value = "1472,8040,65000", value_name = "BYTES")]
    pub(crate) sizes: Vec<usize>,
    /// Seconds of each run
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = some::<Span>("such as 2s"))]
    pub(crate) time: Span,
    /// Rounds; the candidates take turns in each
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one::<usize>("5 rounds show how much figures vary"))]
    pub(crate) rounds: usize,
    /// Fixed rate (default: closed loop, as fast as nothing is lost)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 1Gbps; leave it out for as fast as nothing is lost"))]
    pub(crate) rate: Option<Rate>,
    /// Search the highest rate at which nothing is lost while the sender never waits
    #[arg(long, conflicts_with = "rate")]
    pub(crate) search: bool,
    /// Candidates. receive: bare, skyhaul, recvmmsg, recv, ring; send: bare, skyhaul, sendmmsg, sendto; record: fio,
    /// skyhaul, forward (default: all, the ring only with --no-gso)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) candidates: Vec<String>,
    /// Senders hand packets over one by one instead of in trains
    #[arg(long)]
    pub(crate) no_gso: bool,
    /// Address to receive on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) address: IpAddr,
    /// Network namespaces to send from and to receive in, joined by you, like sky-a,sky-b (needs root)
    #[arg(long, value_name = "SENDER,RECEIVER", value_parser = pair::<String>)]
    pub(crate) netns: Option<(String, String)>,
    /// Processors of the sending and the receiving thread
    #[arg(long, value_name = "SENDER,RECEIVER", default_value = "0,1", value_parser = pair::<usize>)]
    pub(crate) cpus: (usize, usize),
    /// Memory that packets are placed into
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = some::<Size>("64MiB is more than any cache"))]
    pub(crate) memory: Size,
    /// Directory on the disk to measure (record)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, required_if_eq("what", "record"))]
    pub(crate) directory: Option<PathBuf>,
    /// Size of each recording (record)
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = some::<Size>("8GiB is more than most disks' caches"))]
    pub(crate) bytes: Size,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) spead: SpeadBenchArgs,
}

/// Two values with a comma between.
fn pair<T: std::str::FromStr>(text: &str) -> Result<(T, T), String> {
    let both = text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    both.ok_or_else(|| {
        format!(
            "`{text}` is not two values with a comma between\nhint: first the sender's, then the receiver's"
        )
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchWhat {
    /// Receive and place
    Receive,
    /// Send
    Send,
    /// Write to a disk
    Record,
}
