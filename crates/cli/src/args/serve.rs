//! Arguments of `serve`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct StationServeArgs {
    /// The configuration file, see `--config`.
    #[arg(skip)]
    pub(crate) file: Option<PathBuf>,
    /// Address of the HTTP API, in place of `listen` in the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Check the configuration, and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Send a test message to every receiver of alarms, say what each answered, and exit: with 1 if one did not take it
    #[arg(long, conflicts_with_all = ["check", "listen"])]
    pub(crate) test_alarms: bool,
}
