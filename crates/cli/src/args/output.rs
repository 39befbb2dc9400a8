//! Arguments about output, of most verbs.

use super::applies::ALWAYS;
use super::heading::GENERAL;
use clap::Args;

#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = GENERAL)]
pub(crate) struct OutputArgs {
    /// Print one JSON report on standard output at the end
    #[arg(long, add = ALWAYS)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short, add = ALWAYS)]
    pub(crate) quiet: bool,
}
