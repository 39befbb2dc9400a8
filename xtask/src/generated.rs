//! Man pages and shell completions, written by the command's own definition; the code of a protocol; the page of a table.
//!
//! The command knows its verbs and options once; a hidden verb writes them out. This only runs it and, with
//! `--check`, compares what it wrote with what is checked in under `docs/reference/`.

use crate::suite::prepare;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is generated, and where it is kept.
const KEPT: [(&str, &str); 2] =
    [("man", "docs/reference/man"), ("completions", "docs/reference/completions")];

/// Which command writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// That of the sources: it is built if need be.
    Sources,
    /// That of the tests, which is there.
    Built,
}

impl From {
    fn command(self) -> Command {
        if self == From::Built {
            return Command::new(workspace::root().join("target/debug/skyhaul"));
        }
        let mut command = workspace::cargo();
        command.args(["run", "--quiet", "--locked", "--release", "--package", "skyhaul-cli", "--"]);
        command
    }
}

/// Write the generated files, or with `check` say which are not current.
pub(crate) fn run(check: bool, from: From) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (what, kept) in KEPT {
        let fresh = workspace::root().join("target/generated").join(what);
        if fresh.exists() {
            std::fs::remove_dir_all(&fresh).with_context(|| format!("clear {}", fresh.display()))?;
        }
        std::fs::create_dir_all(&fresh).with_context(|| format!("make {}", fresh.display()))?;
        let status =
            from.command().args(["generate", what]).arg(&fresh).status().context("run skyhaul generate")?;
        ensure!(status.success(), "skyhaul generate {what} failed");
        let (new, old) = (contents(&fresh)?, contents(&workspace::root().join(kept))?);
        if check {
            found.extend(differences(kept, &new, &old));
        } else {
            write(&workspace::root().join(kept), &new, &old)?;
        }
    }
    Ok(found)
}

/// Write the control plane's protocol as data and as code. The tests that hold them current write them when they are asked to, so that
/// only tests need the compilers: of the definition, in `.venv`, and of the code.
pub(crate) fn proto() -> Result<bool> {
    let python = match prepare::python() {
        Ok(python) => python,
        Err(why) => bail!("the compiler of the protocol: {why}"),
    };
    let status = Command::new(python)
        .args(["-m", "pytest", "-q", "tests/interop/test_ejfat_site.py", "-k", "definition_as_data"])
        .env("SKYHAUL_WRITE_PROTO", "1")
        .current_dir(workspace::root())
        .status()
        .context("run pytest")?;
    ensure!(status.success(), "the definition cannot be compiled");
    let status = workspace::cargo()
        .args(["test", "--quiet", "--locked", "--package", "skyhaul-daemon", "--test", "proto"])
        .env("SKYHAUL_WRITE_PROTO", "1")
        .status()
        .context("run cargo test")?;
    Ok(status.success())
}

/// Write the page of the checks of a host. The test that holds it current writes it when it is asked to.
pub(crate) fn host() -> Result<bool> {
    let status = workspace::cargo()
        .args(["test", "--quiet", "--locked", "--package", "skyhaul-measure", "--test", "host", "page"])
        .env("SKYHAUL_WRITE_REFERENCE", "1")
        .status()
        .context("run cargo test")?;
    Ok(status.success())
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn contents(directory: &Path) -> Result<Files> {
    let mut files = Files::new();
    if directory.is_dir() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            files.insert(name, std::fs::read(&path).with_context(|| format!("read {}", path.display()))?);
        }
    }
    Ok(files)
}

fn differences(kept: &str, new: &Files, old: &Files) -> Vec<String> {
    let hint = "run: cargo xtask man";
    let stale = new.iter().filter(|(name, text)| old.get(*name) != Some(*text)).map(|(name, _)| name);
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    stale.chain(gone).map(|name| format!("{kept}/{}: not current ({hint})", name.display())).collect()
}

fn write(directory: &Path, new: &Files, old: &Files) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        std::fs::remove_file(directory.join(name))?;
    }
    for (name, text) in new {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_extra_files_are_named() {
        let files = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(n, t)| (PathBuf::from(n), t.as_bytes().to_vec())).collect()
        };
        let new: Files = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let old: Files = files(&[("a", "1"), ("b", "0"), ("d", "4")]);
        let found = differences("man", &new, &old);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].starts_with("man/b:")
                && found[1].starts_with("man/c:")
                && found[2].starts_with("man/d:")
        );
    }
}
