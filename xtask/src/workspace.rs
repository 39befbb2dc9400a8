//! The tree this program checks: its root, its files, and what Cargo says of its packages.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's top directory.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Every file that Git tracks or would track, as paths below the root in sorted order. Without Git (a source
/// archive, or a tree of another owner), every file outside build directories.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let root = root();
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output();
    let mut found = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            .filter(|name| root.join(name).is_file())
            .collect(),
        _ => {
            let mut found = Vec::new();
            walk(&root, Path::new(""), &mut found)?;
            found
        }
    };
    found.sort();
    Ok(found)
}

fn walk(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    const BUILT: [&str; 8] =
        ["target", ".git", ".venv", "__pycache__", "corpus", "artifacts", "coverage", ".pytest_cache"];
    let directory = root.join(below);
    for entry in std::fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && !BUILT.iter().any(|name| entry.file_name() == *name) {
            walk(root, &path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// `cargo metadata` for this host's target, with the graph of what depends on what.
pub(crate) fn metadata() -> Result<Value> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host()?])
        .output()
        .context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).context("read cargo metadata")
}

/// Packages of the workspace of which each library and program is marked `test = false`.
pub(crate) fn without_unit_tests() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let members = metadata["workspace_members"].as_array().context("cargo metadata names no members")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let packages = packages.iter().filter(|package| members.contains(&package["id"]));
    let without = packages.filter(|package| !targets(package).any(|target| target["test"] == true));
    Ok(without.filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

/// The libraries and programs of a package.
fn targets(package: &Value) -> impl Iterator<Item = &Value> {
    let all = package["targets"].as_array().into_iter().flatten();
    all.filter(|target| {
        let kinds = target["kind"].as_array().into_iter().flatten();
        kinds.filter_map(Value::as_str).any(|kind| kind == "bin" || kind.ends_with("lib"))
    })
}

/// Cargo, the same that runs this program, in the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    forget_cargo(&mut command);
    command
}

/// Take out what the cargo that runs this program says of *its* package. Build scripts that look at such variables (ring's)
/// would run again, and all that depends on them would be built again, whenever a build from here follows one from a shell.
pub(crate) fn forget_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let of_package = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if of_package {
            command.env_remove(name);
        }
    }
}

/// The target triple this toolchain builds for by itself.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").current_dir(root()).output().context("run rustc -vV")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .context("rustc -vV names no host")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a package that is left out nobody would miss a test that never ran.
    #[test]
    fn what_is_left_out_has_no_unit_tests() {
        let without = without_unit_tests().unwrap();
        assert!(without.contains(&"skyhaul-sim".to_owned()), "{without:?}");
        let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
        let named = makefile.lines().find_map(|line| line.strip_prefix("UNTESTED := ")).unwrap();
        let named = named.trim_start_matches("$(addprefix --exclude=skyhaul-,").trim_end_matches(')');
        let mut named: Vec<_> = named.split(' ').map(|name| format!("skyhaul-{name}")).collect();
        let mut all = without.clone();
        named.sort();
        all.sort();
        assert_eq!(named, all, "`make check` leaves out the same");
        let metadata = metadata().unwrap();
        for package in metadata["packages"].as_array().unwrap() {
            if !without.iter().any(|name| package["name"] == name.as_str()) {
                continue;
            }
            for target in targets(package) {
                let sources = Path::new(target["src_path"].as_str().unwrap()).parent().unwrap();
                for path in sources_below(sources) {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let tested = text.lines().any(|line| line.trim() == concat!("#[te", "st]"));
                    assert!(!tested, "{}: its package is marked `test = false`", path.display());
                }
            }
        }
    }

    fn sources_below(directory: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        let rust = files.into_iter().filter(|path| path.extension().is_some_and(|is| is == "rs"));
        rust.chain(folders.iter().flat_map(|folder| sources_below(folder))).collect()
    }
}
