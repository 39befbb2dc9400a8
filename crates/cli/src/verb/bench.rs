//! `skyhaul bench`.
use crate::Outcome;
use crate::args::BenchArgs;
use anyhow::Result;

pub(crate) fn run(_args: &BenchArgs) -> Result<Outcome> {
    Ok(Outcome::Done)
}
