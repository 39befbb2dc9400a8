//! Arguments of a verb that this build lacks.

use clap::Args;
use std::ffi::OsString;

/// Whatever a whole build would read: the verb says what to build, not what is wrong with its options.
#[derive(Args, Debug)]
#[command(
    before_help = "This build of skyhaul has only what a first demo needs. To use this verb, build everything with `make build`."
)]
pub(crate) struct UnbuiltArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0.., hide = true)]
    words: Vec<OsString>,
}
