//! The Python package: one wheel with the module, its Python sources, the `skyhaul` command, its man pages and completions,
//! installed in `.venv`.
//!
//! ```text
//!   cargo build skyhaul-cli ──▶ target/python/skyhaul.data/scripts/skyhaul ─┐
//!   docs/reference/{man,completions} ──▶ target/python/skyhaul.data/data ───┤
//!   crates/python/{src,python} ──────────────── maturin build ──────────────┴▶ target/wheels/*.whl ─▶ .venv
//! ```
//!
//! Both are linked for manylinux_2_28 where Zig is there ([`manylinux`]). `--aarch64` builds the wheel for the other architecture, in
//! `target/wheels-aarch64`; it is not installed.
//!
//! The command gets into the wheel as a file, so that the Python crate need not depend on the command's crate. `--debug`
//! builds both in the profile of the tests, for them and for work on the Python side. Nothing in the wheel tells where it was built.

use crate::manylinux::{self, Tools};
use crate::suite::prepare;
use crate::{pythons, workspace};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CRATE: &str = "crates/python";
const DATA: &str = "target/python/skyhaul.data";
const WHEELS: &str = "target/wheels";
/// Takes the directory of the build out of the wheel's bill of materials.
const SBOM: &str = "xtask/src/sbom.py";
const MAN: &str = "docs/reference/man";
/// What is checked in, and where it is installed: below `bin`'s parent, where shells look.
const COMPLETIONS: [(&str, &str); 3] = [
    ("docs/reference/completions/skyhaul.bash", "share/bash-completion/completions/skyhaul"),
    ("docs/reference/completions/_skyhaul", "share/zsh/site-functions/_skyhaul"),
    ("docs/reference/completions/skyhaul.fish", "share/fish/vendor_completions.d/skyhaul.fish"),
];

/// Build the command and the wheel, and install the wheel if it shall be; true if all went well.
pub(crate) fn run(debug: bool, install_it: bool) -> Result<bool> {
    let python = match prepare::python() {
        Ok(python) => python,
        Err(why) => {
            println!("SKIPPED: the Python package: {why}");
            return Ok(false);
        }
    };
    let mut build = workspace::cargo();
    build.args(command(&python, debug)?);
    if !shown(&mut build)? {
        return Ok(false);
    }
    if !install_it {
        return wheel(&python, debug);
    }
    Ok(install(&python, debug)? && tried(&python)?)
}

/// A short run of the package as it is installed: tests of the suite use another build of it.
fn tried(python: &Path) -> Result<bool> {
    let scratch = workspace::root().join("target/python/tried");
    std::fs::create_dir_all(&scratch).with_context(|| format!("make {}", scratch.display()))?;
    let mut smoke = Command::new(python);
    smoke.args(["-W", "error", "crates/python/tests/smoke.py"]).arg(scratch);
    shown(&mut smoke)
}

/// The words for cargo that build the command of the wheel.
pub(crate) fn command(python: &Path, debug: bool) -> Result<Vec<String>> {
    let tools = manylinux::tools(python, std::env::consts::ARCH)?;
    let mut words: Vec<String> = vec![if tools.is_some() { "rustc" } else { "build" }.to_owned()];
    words.extend(["--locked", "--package", "skyhaul-cli", "--bin", "skyhaul"].map(str::to_owned));
    if !debug {
        words.push("--release".to_owned());
    }
    if let Some(tools) = tools {
        words.push("--".to_owned());
        words.extend(tools.linking());
        // Asked to leave out debugging information, Zig leaves out the names of functions too, by which instructions are counted.
        words.extend(["-C", "strip=none"].map(str::to_owned));
    }
    Ok(words)
}

/// Build the wheel for AArch64 without installing it; true if all went well.
pub(crate) fn aarch64() -> Result<bool> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let python = match prepare::python() {
        Ok(python) => python,
        Err(why) => bail!("the Python package: {why}"),
    };
    let Some(tools) = manylinux::tools(&python, "aarch64")? else {
        bail!("no Zig in .venv (pip install ziglang)");
    };
    let for_target = |command: &mut Command| {
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", &tools.cc);
        command.env("CC_aarch64_unknown_linux_gnu", &tools.cc).env("AR_aarch64_unknown_linux_gnu", &tools.ar);
    };
    let mut build = workspace::cargo();
    build.args(["rustc", "--locked", "--release", "--target", TARGET, "--package", "skyhaul-cli"]);
    build.args(["--bin", "skyhaul", "--", "-C", "strip=symbols"]);
    for_target(&mut build);
    if !shown(&mut build).context("rustup target add aarch64-unknown-linux-gnu")? {
        return Ok(false);
    }
    stage(&workspace::root().join("target").join(TARGET).join("release/skyhaul"))?;
    let out = workspace::root().join(format!("{WHEELS}-aarch64"));
    let mut maturin = Command::new(python.with_file_name("maturin"));
    maturin.args(["build", "--quiet", "--locked", "--release", "--target", TARGET, "--out"]).arg(&out);
    maturin.args(["--compatibility", manylinux::TAG]).current_dir(workspace::root().join(CRATE));
    for_target(&mut maturin);
    Ok(shown(&mut maturin)? && anonymous(&python, &found_in(&out)?)?)
}

/// Take the directory of the build out of wheels.
fn anonymous(python: &Path, wheels: &[PathBuf]) -> Result<bool> {
    let root = workspace::root();
    for wheel in wheels {
        let mut anonymous = Command::new(python);
        anonymous.arg(root.join(SBOM)).arg(wheel).arg(&root);
        if !shown(&mut anonymous)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Test the wheel that was built with every Python there is; true if all went well.
pub(crate) fn every() -> Result<bool> {
    let found = wheels()?;
    let [wheel] = &found[..] else {
        bail!("{} wheels in {WHEELS}, not one (make python)", found.len());
    };
    pythons::run(wheel)
}

/// Build the wheel around a command that is already built, and install it; true if all went well.
pub(crate) fn install(python: &Path, debug: bool) -> Result<bool> {
    if !wheel(python, debug)? {
        return Ok(false);
    }
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]);
    pip.arg("--force-reinstall").args(wheels()?);
    shown(&mut pip)
}

fn wheel(python: &Path, debug: bool) -> Result<bool> {
    let root = workspace::root();
    let profile = if debug { "debug" } else { "release" };
    stage(&root.join("target").join(profile).join("skyhaul"))?;
    for old in wheels()? {
        std::fs::remove_file(&old).with_context(|| format!("remove {}", old.display()))?;
    }
    let mut maturin = Command::new(python.with_file_name("maturin"));
    maturin.args(["build", "--quiet", "--locked", "--out"]).arg(root.join(WHEELS));
    maturin.arg("--interpreter").arg(python).current_dir(root.join(CRATE));
    if !debug {
        maturin.arg("--release");
    }
    match manylinux::tools(python, std::env::consts::ARCH)? {
        Some(tools) => link_with(&mut maturin, &tools),
        None => {
            println!("   no Zig in .venv (pip install ziglang): the wheel needs the glibc of this machine");
        }
    }
    Ok(shown(&mut maturin)? && anonymous(python, &wheels()?)?)
}

fn link_with(maturin: &mut Command, tools: &Tools) {
    maturin.args(["--compatibility", manylinux::TAG, "--"]).args(tools.linking());
}

/// The command as it is in the wheel.
pub(crate) fn staged() -> PathBuf {
    workspace::root().join(DATA).join("scripts/skyhaul")
}

/// Put what is installed beside the package where maturin takes it from: the command without its debugging symbols if
/// `strip` is there, and its man pages and completions.
fn stage(binary: &Path) -> Result<()> {
    let (root, data) = (workspace::root(), workspace::root().join(DATA));
    if data.exists() {
        std::fs::remove_dir_all(&data).with_context(|| format!("clear {}", data.display()))?;
    }
    let command = staged();
    copy(binary, &command).context("build it: cargo build --package skyhaul-cli")?;
    let _ = Command::new("strip").arg(&command).stderr(Stdio::null()).status();
    for (kept, installed) in shared()? {
        copy(&root.join(kept), &data.join("data").join(installed))?;
    }
    Ok(())
}

/// Man pages and completions: where they are kept, and where they are installed.
fn shared() -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut files: Vec<_> =
        COMPLETIONS.iter().map(|(kept, installed)| (PathBuf::from(kept), PathBuf::from(installed))).collect();
    for entry in std::fs::read_dir(workspace::root().join(MAN)).context(MAN)? {
        let name = entry?.file_name();
        files.push((Path::new(MAN).join(&name), Path::new("share/man/man1").join(name)));
    }
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(directory) = to.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    }
    std::fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn wheels() -> Result<Vec<PathBuf>> {
    found_in(&workspace::root().join(WHEELS))
}

fn found_in(directory: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "whl") {
            found.push(path);
        }
    }
    Ok(found)
}

fn shown(command: &mut Command) -> Result<bool> {
    let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_string_lossy).collect();
    println!("   {} {}", command.get_program().to_string_lossy(), words.join(" "));
    workspace::forget_cargo(command);
    if command.get_current_dir().is_none() {
        command.current_dir(workspace::root());
    }
    let status = command.stdin(Stdio::null()).status().context("run it")?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Each package of a build with the features that it has there: for this machine, and for what runs during the build.
    fn features(build: &[&str], edges: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut tree = workspace::cargo();
        tree.args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}"]);
        tree.args(["--edges", edges]).args(build);
        let output = tree.current_dir(workspace::root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            if let Some((package, features)) = line.trim_end_matches(" (*)").split_once('|') {
                found.entry(package.to_owned()).or_default().insert(features.to_owned());
            }
        }
        // Its own features are what tells the builds apart.
        found.retain(|package, _| !package.starts_with("skyhaul-cli "));
        found
    }

    /// Packages that `part` would build anew beside `whole`; `tests`: beside its tests as well.
    fn anew(part: &[&str], whole: &[&str], tests: &str) -> Vec<String> {
        // As a build for this machine, and with what it takes to build: macros may have other features than what they make.
        let differing = |edges: &str| {
            let (part, whole) = (features(part, edges), features(whole, &format!("{edges}{tests}")));
            assert!(part.len() > 40 && whole.len() > 40, "{edges}");
            let differs = |(package, own): (String, BTreeSet<String>)| {
                let other = whole.get(&package)?;
                (!own.is_subset(other)).then(|| format!("{package}: {own:?}, and {other:?}"))
            };
            part.into_iter().filter_map(differs).collect::<Vec<_>>()
        };
        ["normal,no-proc-macro", "normal,build"].into_iter().flat_map(differing).collect()
    }

    const COMMAND: [&str; 2] = ["--package", "skyhaul-cli"];
    const MODULE: [&str; 2] = ["--package", "skyhaul-python"];

    /// Else the wheel would build anew what the command was built of: minutes.
    #[test]
    fn the_command_and_the_module_are_built_of_the_same() {
        let differ = anew(&MODULE, &COMMAND, "");
        assert!(differ.is_empty(), "give both the same features: {differ:#?}");
    }

    /// Else `make test` would build anew, for its wheel, what the tests were built of.
    #[test]
    fn the_wheel_of_the_tests_is_built_of_what_they_are_built_of() {
        for part in [COMMAND, MODULE] {
            let differ = anew(&part, &["--workspace"], ",dev");
            assert!(differ.is_empty(), "name these features in crates/daemon/Cargo.toml: {differ:#?}");
        }
    }

    /// Else running the unit tests would build them anew.
    #[test]
    fn unit_tests_are_run_as_they_were_built() {
        let without = workspace::without_unit_tests().unwrap();
        let left_out = without.iter().flat_map(|package| ["--exclude", package.as_str()]);
        let part: Vec<_> = ["--workspace", "--edges", "dev"].into_iter().chain(left_out).collect();
        let differ = anew(&part, &["--workspace"], ",dev");
        assert!(differ.is_empty(), "name these features in the packages that have unit tests: {differ:#?}");
    }

    /// Else `make build` after `make demo`, rustdoc, and a second clippy would build anew what is built: minutes.
    #[test]
    fn the_command_of_a_demo_is_built_of_the_same() {
        let demo = ["--package", "skyhaul-cli", "--no-default-features"];
        for whole in [&COMMAND[..], &["--workspace"]] {
            let differ = anew(&demo, whole, "");
            assert!(differ.is_empty(), "name these features in crates/cli/Cargo.toml: {differ:#?}");
        }
    }
}
