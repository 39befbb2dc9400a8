//! `skyhaul packet-path`: what `cargo xtask instructions` counts, in the program that users have.

use crate::args::PacketPathArgs;
use crate::outcome::Outcome;
use anyhow::Result;
use skyhaul_measure::bench::fixed_input;

pub(crate) fn run(args: &PacketPathArgs) -> Result<Outcome> {
    tell_text!("{}", fixed_input(&args.case)?);
    Ok(Outcome::Done)
}
