//! What both kinds of sending do: which sender gets what of the command line.

use crate::args::{RateArg, SendArgs, SendMode as ModeArg};
use anyhow::{Result, bail};
use skyhaul::io::address::Endpoint;
use skyhaul::io::quantity::Rate;
use skyhaul::io::udp::send::SendMode;

/// How to hand packets to the kernel.
pub(crate) fn mode(args: &SendArgs) -> SendMode {
    match args.mode {
        ModeArg::Auto => SendMode::Auto,
        ModeArg::Gso => SendMode::Gso,
        ModeArg::Mmsg => SendMode::Mmsg,
        ModeArg::Plain => SendMode::Plain,
    }
}

/// Destination of sender `number`: the first senders share the first address.
pub(crate) fn destination(args: &SendArgs, number: usize) -> &Endpoint {
    &args.to[number / args.senders % args.to.len()]
}

/// The processor of sender `number`.
pub(crate) fn cpu(args: &SendArgs, number: usize) -> Option<usize> {
    args.cpu.get(number % args.cpu.len().max(1)).copied()
}

/// The rate of sender `number`: its part of all, or of its destination's; `None` is as fast as possible.
pub(crate) fn rate(args: &SendArgs, number: usize) -> Result<Option<RateArg>> {
    let senders = args.senders;
    let (rate, among) = match &args.rate[..] {
        [] => return Ok(None),
        [all] => (*all, senders * args.to.len()),
        each if each.len() == args.to.len() => (each[number / senders % each.len()], senders),
        each => bail!(
            "{} rates for {} destinations\nhint: give one rate for all destinations, or one for each --to",
            each.len(),
            args.to.len()
        ),
    };
    Ok(Some(match rate {
        RateArg::Fixed(rate) => {
            // A tiny share must not become 0, which would mean no limit.
            RateArg::Fixed(Rate::from_bits_per_second((rate.bits_per_second() / among as u64).max(1)))
        }
        other => other,
    }))
}
