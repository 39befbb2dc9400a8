//! What the tests need besides Rust: a Python with the packages of `tests/requirements.txt`, tshark, and iperf3.
//!
//! They are fetched where that is possible: Python packages into `.venv`, system packages with apt, and that only
//! as root or where sudo asks no password. `SKYHAUL_INSTALL=no` forbids both. What could not be had is answered as
//! a sentence with its remedy, and the suite goes on without it.

use crate::workspace;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const REQUIREMENTS: &str = "tests/requirements.txt";

/// The Python of `.venv` with all requirements installed, or why there is none.
pub(crate) fn python() -> Result<PathBuf, String> {
    println!("== prepare");
    let root = workspace::root();
    let python = root.join(".venv/bin/python");
    let wanted =
        std::fs::read_to_string(root.join(REQUIREMENTS)).map_err(|e| format!("{REQUIREMENTS}: {e}"))?;
    let stamp = root.join(".venv/requirements-installed.txt");
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) {
        println!("   .venv is up to date");
        return Ok(python);
    }
    if !may_install() {
        return Err(format!("no .venv with {REQUIREMENTS}, and SKYHAUL_INSTALL=no"));
    }
    let venv = ["-m", "venv", "--clear", ".venv"];
    if !ran("python3", &venv) {
        let _ = apt("python3-venv");
        if !ran("python3", &venv) {
            return Err("python3 -m venv does not work (apt-get install python3-venv)".to_owned());
        }
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS];
    if !ran(&python.to_string_lossy(), &install) {
        return Err(format!(
            "could not install {REQUIREMENTS} (no network? .venv/bin/pip install -r {REQUIREMENTS})"
        ));
    }
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(python)
}

/// Whether tshark, an independent reader of packets, is there, or why not.
pub(crate) fn tshark() -> Result<(), String> {
    if quiet("tshark", &["--version"]) || (may_install() && apt("tshark") && quiet("tshark", &["--version"]))
    {
        return Ok(());
    }
    Err("tshark is not installed (apt-get install tshark)".to_owned())
}

/// Have iperf3, a peer of `skyhaul probe`, if that is possible. Tests that need it say themselves that it is missing.
pub(crate) fn iperf3() {
    if !quiet("iperf3", &["--version"]) && may_install() {
        let _ = apt("iperf3");
    }
}

fn may_install() -> bool {
    std::env::var_os("SKYHAUL_INSTALL").is_none_or(|answer| answer != "no")
}

/// Install one Debian package if nobody has to be asked.
fn apt(package: &str) -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if !quiet("apt-get", &["--version"]) || !(root || quiet("sudo", &["-n", "true"])) {
        return false;
    }
    let command = format!("{}apt-get", if root { "" } else { "sudo -n " });
    let install = format!(
        "export DEBIAN_FRONTEND=noninteractive; {command} install -qq -y --no-install-recommends {package} \
         || {{ {command} update -qq && {command} install -qq -y --no-install-recommends {package}; }}"
    );
    println!("   installing {package}");
    quiet("timeout", &["300", "sh", "-c", &install])
}

/// Run and show what it says; true if it went well.
fn ran(program: &str, args: &[&str]) -> bool {
    println!("   {program} {}", args.join(" "));
    command(program, args).status().is_ok_and(|status| status.success())
}

fn quiet(program: &str, args: &[&str]) -> bool {
    command(program, args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(workspace::root()).stdin(Stdio::null());
    command
}
