//! The package's own tests with every CPython that it is for and that is here: the one wheel of `target/wheels`, installed in
//! an environment for each.
//!
//! Takes minutes for each Python, so it is a command (`cargo xtask python --every`), not a part of `make test`.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Minor versions of Python 3 that the wheel is for.
const MINORS: std::ops::RangeInclusive<u32> = 11..=14;
/// What the tests use, of what is pinned in `tests/requirements.txt`.
const USED: [&str; 13] = [
    "dask",
    "distributed",
    "h5py",
    "matplotlib",
    "mypy",
    "numba",
    "numpy",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "scipy",
    "xarray",
    "zarr",
];

/// Test a wheel with each; true if all that are here pass.
pub(crate) fn run(wheel: &Path) -> Result<bool> {
    let pinned = std::fs::read_to_string(workspace::root().join("tests/requirements.txt"))?;
    let used: Vec<&str> = pinned.lines().filter(|line| is_used(line)).collect();
    ensure!(used.len() == USED.len(), "tests/requirements.txt pins {used:?}, the tests use {USED:?}");
    let mut good = true;
    for minor in MINORS {
        println!("\n== Python 3.{minor}");
        let Some(base) = interpreter(minor) else {
            println!(
                "SKIPPED: no Python 3.{minor} (uv python install 3.{minor}, or pyenv install 3.{minor})"
            );
            continue;
        };
        let home = workspace::root().join(format!("target/python/3.{minor}"));
        let python = home.join("bin/python");
        let wheel = wheel.to_string_lossy();
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let ready = ran(&base, &["-m", "venv", &home.to_string_lossy()])?
            && ran(&python, &[&pip[..], &used].concat())?
            && ran(&python, &[&pip[..], &["--no-index", "--no-deps", "--force-reinstall", &wheel]].concat())?;
        let tests =
            ["-m", "pytest", "crates/python/tests", "-q", "-rsfE", "--color=no", "-p", "no:cacheprovider"];
        good &= ready && ran(&python, &tests)?;
    }
    Ok(good)
}

fn is_used(line: &str) -> bool {
    line.split_once("==").is_some_and(|(name, _)| USED.contains(&name))
}

/// A Python that runs: on the PATH, from uv, from pyenv (whose commands on the PATH may be there and not work), or as
/// `tests/interop/debian_python.py` has unpacked it.
fn interpreter(minor: u32) -> Option<PathBuf> {
    let name = format!("python3.{minor}");
    let uv =
        Command::new("uv").args(["python", "find", "--no-python-downloads", &format!("3.{minor}")]).output();
    let found = uv.ok().map(|said| PathBuf::from(String::from_utf8_lossy(&said.stdout).trim()));
    let mut known: Vec<PathBuf> = [PathBuf::from(&name)].into_iter().chain(found).collect();
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
    let versions = pyenv.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    known.extend(versions.into_iter().flatten().flatten().map(|one| one.path().join("bin").join(&name)));
    known.push(workspace::root().join(format!("target/python/debian-3.{minor}/{name}")));
    known.into_iter().find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import sys; assert sys.version_info[:2] == (3, {minor})")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

fn ran(program: &Path, words: &[&str]) -> Result<bool> {
    println!("   {} {}", program.display(), words.join(" "));
    let mut command = Command::new(program);
    command.args(words).current_dir(workspace::root()).stdin(Stdio::null());
    Ok(command.status().with_context(|| format!("run {}", program.display()))?.success())
}
