//! The tests of what has instructions of its own on AArch64, run by an emulator.
//!
//! It needs the target (`rustup target add aarch64-unknown-linux-gnu`), a linker for it and an emulator (Debian:
//! `gcc-aarch64-linux-gnu`, `libc6-dev-arm64-cross`, `qemu-user-static`).

use crate::workspace;
use anyhow::{Context, Result};
use std::process::Command;

const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64-static -L /usr/aarch64-linux-gnu";

/// Run them; true if all pass.
pub(crate) fn run() -> Result<bool> {
    let status = Command::new("cargo")
        .args(["test", "--target", "aarch64-unknown-linux-gnu", "--locked"])
        .args(["-p", "skyhaul-core", "-p", "skyhaul-io", "--lib", "--", "samples", "copy"])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR)
        .current_dir(workspace::root())
        .status()
        .context("cargo cannot be run")?;
    Ok(status.success())
}
