//! Arguments of `top`.

use super::status::AtStationArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The configuration file, see `--config`.
    #[arg(skip)]
    pub(crate) file: Option<PathBuf>,
    /// Show all stations of a fleet: that of the section [fleet] of `--config`
    #[arg(long, conflicts_with_all = ["station", "token_file"])]
    pub(crate) fleet: bool,
    /// Print the figures once, and exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}
