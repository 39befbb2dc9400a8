//! `skyhaul probe`: what a path carries, loses and delays.

mod further;
mod oneway;
mod path;
mod serve;
mod table;

use crate::Outcome;
use crate::args::{ProbeArgs, ProbeWhat};
use anyhow::Result;

pub(crate) fn run(args: &ProbeArgs) -> Result<Outcome> {
    match &args.what {
        Some(ProbeWhat::Serve(serve)) => serve::run(serve),
        Some(ProbeWhat::Send(send)) => oneway::send(send),
        Some(ProbeWhat::Receive(receive)) => oneway::receive(receive),
        None => path::run(&args.path),
    }
}
