//! What no type proves: that the `unsafe` lines of `crates/io` are right. Their tests are run where a wrong step is seen.
//!
//! | step | sees | where |
//! |---|---|---|
//! | address sanitizer | a byte touched outside of what is ours or after its end; memory that is never freed | Linux, x86-64 and AArch64 |
//! | Miri | every rule of the language: aliasing, two threads at one byte in no order; slowly | where `rustup +nightly component add miri rust-src` was done |
//!
//! What threads can do to the lists of memory is played through by `loom`, among the unit tests. The thread sanitizer is
//! none of the steps: with a standard library that is not built for it, it takes every lock and thread for a race.
//!
//! The sanitizer comes with the pinned toolchain; the flags that ask for it are unlocked for this build only, which lies
//! in a directory of its own.

use super::step::Step;
use super::tally::Tally;
use crate::workspace;
use anyhow::Result;
use std::path::Path;
use std::process::{Command, Stdio};

/// Built fast, not to be fast: half of the CPU time of the step.
const QUICK: [&str; 6] = [
    "--config",
    "profile.dev.package.\"*\".opt-level=0",
    "--config",
    "profile.dev.package.skyhaul-core.opt-level=0",
    "--config",
    "profile.dev.package.skyhaul-io.opt-level=0",
];

/// Run what this machine's toolchains have.
pub(super) fn run(tally: &mut Tally) -> Result<()> {
    address(tally)?;
    miri(tally)
}

fn address(tally: &mut Tally) -> Result<()> {
    const NAME: &str = "address sanitizer: memory and disks";
    let Some(target) = target_with("asan") else {
        tally.skip(NAME, "this toolchain has no such library (Linux on x86-64 or AArch64 has)");
        return Ok(());
    };
    let mut step = Step::new(NAME, "cargo").args(words(&target));
    for (name, value) in ADDRESS {
        step = step.env(name, Path::new(value));
    }
    step.args(["--", "--show-output", "memory::", "disk::", "copy::", "file::"]).minutes(10).run(tally)?;
    Ok(())
}

/// With these the address sanitizer is built in.
const ADDRESS: [(&str, &str); 2] =
    [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address --cfg sanitized")];

/// What cargo is to test for this target.
fn words(target: &str) -> Vec<&str> {
    let tests = ["test", "--locked", "--package", "skyhaul-io", "--lib"];
    [&tests[..], &QUICK, &["--target", target, "--target-dir", "target/asan"]].concat()
}

/// The build of the tests of the address sanitizer, if this machine's toolchain has it.
pub(super) fn build() -> Option<Command> {
    let target = target_with("asan")?;
    let mut cargo = workspace::cargo();
    cargo.args(words(&target)).arg("--no-run").envs(ADDRESS);
    Some(cargo)
}

/// The target of this machine, if the toolchain has this sanitizer for it.
fn target_with(sanitizer: &str) -> Option<String> {
    let mut rustc = Command::new("rustc");
    let said = rustc.args(["--print", "target-libdir"]).current_dir(workspace::root()).output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let directory = Path::new(said.trim());
    let end = format!("_rt.{sanitizer}.a");
    let is_there = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with(&end);
    std::fs::read_dir(directory).ok()?.flatten().any(is_there).then_some(())?;
    Some(directory.parent()?.file_name()?.to_str()?.to_owned())
}

fn miri(tally: &mut Tally) -> Result<()> {
    const NAME: &str = "Miri: memory";
    let mut there = Command::new("cargo");
    there.args(["+nightly", "miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !there.status().is_ok_and(|status| status.success()) {
        tally.skip(NAME, "not installed (rustup toolchain install nightly --component miri,rust-src)");
        return Ok(());
    }
    Step::new(NAME, "cargo")
        .args(["+nightly", "miri", "test", "--locked", "--package", "skyhaul-io", "--lib"])
        .args(["--target-dir", "target/miri", "--", "--show-output", "memory::tests::"])
        // Those of the heaps in which few blocks are enough.
        .args(["heap::tests::heaps_outlive", "heap::tests::handles_and", "heap::tests::any_thread"])
        .args(["heap::tests::spans_that_are_idle"])
        .env("MIRIFLAGS", Path::new("-Zmiri-disable-isolation"))
        // Tests that are to panic would each interpret a backtrace.
        .env("RUST_BACKTRACE", Path::new("0"))
        .minutes(10)
        .run(tally)?;
    Ok(())
}
