//! Man pages and completions from the definition of the arguments.

use crate::args::{GenerateArgs, GenerateWhat, described};
use crate::outcome::Outcome;
use anyhow::{Context, Result};
use clap_complete::Shell;
use skyhaul::io::file::failed;

pub(crate) fn run(args: &GenerateArgs) -> Result<Outcome> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).map_err(|error| failed("create", directory, &error))?;
    let mut command = described();
    match args.what {
        GenerateWhat::Man => clap_mangen::generate_to(command, directory).context("write man pages")?,
        GenerateWhat::Completions => {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                clap_complete::generate_to(shell, &mut command, "skyhaul", directory)
                    .context("write completions")?;
            }
        }
    }
    Ok(Outcome::Done)
}
