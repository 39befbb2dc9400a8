//! How results are shown.

use super::heading::GENERAL;
use clap::Args;

/// How results are shown.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = GENERAL)]
pub(crate) struct OutputArgs {
    /// Print one JSON report on standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
