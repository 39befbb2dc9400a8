//! `skyhaul probe`: what a path carries, loses and delays.

mod campaign;
mod datagrams;
mod diagnose;
mod further;
mod iperf3;
mod live;
mod monitor;
mod oneway;
mod others;
mod page;
mod path;
mod report;
mod serve;
mod table;
mod tcp;

use crate::args::{ProbeArgs, ProbeWhat};
use crate::outcome::Outcome;
use anyhow::Result;

pub(crate) fn run(args: &ProbeArgs) -> Result<Outcome> {
    match &args.what {
        Some(ProbeWhat::Serve(serve)) => serve::run(serve),
        Some(ProbeWhat::Send(send)) => oneway::send(send),
        Some(ProbeWhat::Receive(receive)) => oneway::receive(receive),
        Some(ProbeWhat::Monitor(monitor)) => monitor::run(monitor),
        Some(ProbeWhat::Campaign(campaign)) => campaign::run(campaign),
        None => {
            let path = &args.path;
            match (path.iperf3.iperf3, path.others.stamp, path.others.udpmon) {
                (Some(port), ..) => iperf3::run(path, port),
                (_, Some(port), _) => others::stamp(path, port),
                (.., Some(port)) => others::udpmon(path, port),
                _ if path.tcp.tcp => tcp::run(path),
                _ => path::run(path),
            }
        }
    }
}
