//! Arguments of `top`.

use super::status::AtStationArgs;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Print the figures once, and exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}
