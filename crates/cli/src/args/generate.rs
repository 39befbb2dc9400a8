//! Arguments of `generate`, which writes what is derived from the definition of all the others.

use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// What to write
    #[arg(value_enum)]
    pub(crate) what: GenerateWhat,
    /// Directory to write to
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GenerateWhat {
    /// Man pages
    Man,
    /// Completions for bash, zsh, fish
    Completions,
}
