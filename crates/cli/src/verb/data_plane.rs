//! `skyhaul data-plane`: what `balance` starts to forward packets, so that they go on if it is killed.

use crate::args::DataPlaneArgs;
use crate::outcome::Interrupt;
use crate::outcome::Outcome;
use anyhow::Result;
use skyhaul::balance::{BalanceOptions, Claim, DataPlane};
use skyhaul::io::host::descriptors;

pub(crate) fn run(args: &DataPlaneArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    descriptors::raise();
    let _claim = Claim::take(&args.socket)?;
    let plane = DataPlane::start(&BalanceOptions {
        data: args.listen.clone(),
        threads: args.threads,
        cpus: args.cpus.clone(),
        receive_buffer: args.socket_buffer,
        fast_path: args.fast_path.into(),
        ..BalanceOptions::default()
    })?;
    plane.serve(&args.socket, &interrupt.flag())?;
    Ok(Outcome::Done)
}
