//! Arguments of `scans`: what is known of the scans on a station's disks.

use super::status::AtStationArgs;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct ScansArgs {
    /// Names of scans; `*` and `?` stand for any characters (default: all)
    #[arg(value_name = "SCAN")]
    pub(crate) scans: Vec<String>,
    /// Have the station read the indexes of all scans again
    #[arg(long, conflicts_with = "scans")]
    pub(crate) rebuild: bool,
    #[command(flatten)]
    pub(crate) at: AtStationArgs,
}
