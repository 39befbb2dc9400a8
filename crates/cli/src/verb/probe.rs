//! `skyhaul probe`: what a path carries, loses and delays.

mod further;
mod iperf3;
mod oneway;
mod path;
mod serve;
mod table;
mod tcp;

use crate::Outcome;
use crate::args::{ProbeArgs, ProbeWhat};
use anyhow::Result;

pub(crate) fn run(args: &ProbeArgs) -> Result<Outcome> {
    match &args.what {
        Some(ProbeWhat::Serve(serve)) => serve::run(serve),
        Some(ProbeWhat::Send(send)) => oneway::send(send),
        Some(ProbeWhat::Receive(receive)) => oneway::receive(receive),
        None => match (args.path.iperf3.iperf3, args.path.tcp.tcp) {
            (Some(port), _) => iperf3::run(&args.path, port),
            (None, true) => tcp::run(&args.path),
            (None, false) => path::run(&args.path),
        },
    }
}
