//! Arguments of `demo`.

use super::limits::OutputArgs;
use super::limits::{DISKS, some, up_to};
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::io::fault::Faults;
use skyhaul::io::quantity::{Rate, Span};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// What to show
    #[arg(value_enum, default_value = "recorder")]
    pub(crate) what: DemoWhat,
    /// Rate of the stream (default: 4Gbps, or as much of it as this host can handle; for events 1Gbps)
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 1Gbps, or omit it"))]
    pub(crate) rate: Option<Rate>,
    /// Length of the stream
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = some::<Span>("such as 10s"))]
    pub(crate) duration: Span,
    /// Disks to stripe over
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = up_to::<usize>(DISKS, "4 show how a stream is striped"))]
    pub(crate) disks: usize,
    /// Faults of the network
    #[arg(long, default_value = "loss=0.01,reorder=64,duplicate=0.01,seed=7", value_name = "SPEC")]
    pub(crate) faults: Faults,
    /// Directory for the recording and the report (default: ./demo, or ./demo-ejfat)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Keep the recording
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoWhat {
    /// A stream with loss: receive, record on several disks, forward and verify it
    Recorder,
    /// Events through a load balancer to four workers, one of them killed and one slow; every event is accounted for
    #[value(name = "ejfat")]
    Balanced,
}
