//! One fuzz target, guided by coverage where a C++ compiler can build libFuzzer, else by the driver without tools.
//!
//! The instrumentation is that of `cargo fuzz`, less the address sanitizer (there is no unsafe code to watch here), so
//! that the pinned toolchain suffices.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// The driver without tools.
pub(crate) const DRIVER: &str = "smoke";
const INSTRUMENTATION: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// Attack `target` for `seconds`; true if it held. Without a target, list them.
pub(crate) fn run(target: Option<&str>, seconds: u32) -> Result<bool> {
    let Some(target) = target else {
        // The driver lists them when it is asked for one that is not there.
        let _ = smoke(&["?"])?;
        return Ok(true);
    };
    let corpus = format!("fuzz/corpus/{target}");
    if !smoke(&[target, "--write-seeds", &corpus])? {
        bail!("{target}: no such target");
    }
    if !has_cpp() {
        println!("no C++ compiler (apt-get install g++): mutations without guidance instead");
        return smoke(&[target, "--executions", "10000000"]);
    }
    std::fs::create_dir_all(workspace::root().join("fuzz/artifacts"))?;
    let status = workspace::cargo()
        .args([
            "run",
            "--profile=fuzz",
            "--locked",
            "--package=skyhaul-fuzz",
            "--target-dir=target/fuzz-guided",
        ])
        // With a target named, build scripts and macros stay without instrumentation.
        .args(["--features", "guided", "--bin", "guided", "--target", &workspace::host()?, "--", &corpus])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix=fuzz/artifacts/{target}-"))
        .args(["-max_len=4096", "-print_final_stats=1"])
        .env("RUSTFLAGS", INSTRUMENTATION)
        .env("SKYHAUL_FUZZ", target)
        .status()
        .context("run the guided fuzzer")?;
    Ok(status.success())
}

fn smoke(words: &[&str]) -> Result<bool> {
    let status = workspace::cargo()
        .args(["run", "--quiet", "--locked", "--package=skyhaul-fuzz", "--bin", DRIVER, "--"])
        .args(words)
        .status()
        .context("run the fuzzer")?;
    Ok(status.success())
}

fn has_cpp() -> bool {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
