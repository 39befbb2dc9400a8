//! Arguments of `token`.

use super::limits::some;
use clap::{Args, Subcommand, ValueHint};
use skyhaul::io::quantity::Span;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    /// The configuration file, see `--config`.
    #[arg(skip)]
    pub(crate) file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) what: TokenWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenWhat {
    /// Sign a token with the station's key, and print it
    Create(TokenCreateArgs),
    /// Show what a token says, and whether the station would accept it now
    Show(TokenShowArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TokenCreateArgs {
    /// What the token allows, such as storage.read:/exp; may be repeated
    ///
    /// storage.read reads and lists, storage.create makes new files and directories, storage.modify also replaces and
    /// removes them: at the path and below.
    #[arg(long, value_name = "SCOPE", required = true)]
    pub(crate) scope: Vec<String>,
    /// How long the token holds, at most 30d; it cannot be revoked
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = some::<Span>("such as 1h"))]
    pub(crate) lifetime: Span,
    /// For whom it is: limits of copies count all tokens with the same subject together
    #[arg(long, value_name = "NAME", default_value = "skyhaul")]
    pub(crate) subject: String,
}

#[derive(Args, Debug)]
pub(crate) struct TokenShowArgs {
    /// File with the token; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
