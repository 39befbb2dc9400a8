//! Arguments of a verb that this build lacks.

use clap::Args;
use std::ffi::OsString;

/// Any words. They are not checked, because the verb only says how to build it.
#[derive(Args, Debug)]
#[command(
    before_help = "This build of skyhaul has only what a first demo needs. To use this verb, build everything with `make build`."
)]
pub(crate) struct UnbuiltArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0.., hide = true)]
    words: Vec<OsString>,
}
