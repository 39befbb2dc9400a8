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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn files(directory: &Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            found.insert(name, std::fs::read_to_string(entry.path()).unwrap());
        }
        found
    }

    /// `cargo xtask man --check`, without a build of its own.
    #[test]
    fn man_pages_and_completions_are_current() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for (what, name) in [(GenerateWhat::Man, "man"), (GenerateWhat::Completions, "completions")] {
            let fresh = tempfile::tempdir().unwrap();
            run(&GenerateArgs { what, directory: fresh.path().to_owned() }).unwrap();
            let (new, old) = (files(fresh.path()), files(&kept.join(name)));
            let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&new), names(&old), "run: cargo xtask man");
            for (file, text) in &new {
                assert!(old[file] == *text, "{name}/{file} is not current: run: cargo xtask man");
            }
        }
    }
}
