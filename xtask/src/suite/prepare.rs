//! What the tests need besides Rust: a Python with the packages of `tests/requirements.txt`, tshark, and iperf3.
//!
//! They are fetched where that is possible: Python packages into `.venv`, system packages with apt, and that only
//! as root or where sudo asks no password. `SKYHAUL_INSTALL=no` forbids both. What could not be had is answered as
//! a sentence with its remedy, and the suite goes on without it.

use super::alone;
use crate::workspace;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const REQUIREMENTS: &str = "tests/requirements.txt";
/// Where Python keeps what it has compiled: a test starts hundreds of programs that import the same, and uv installs nothing compiled. Not
/// beside the sources, as in the tree it would be in the way.
const BYTECODE: &str = "target/suite/bytecode";

/// Let the Pythons that this starts keep what they compile, also where the host forbids it, as images of containers do for all: without,
/// to import matplotlib takes three times as much of a processor.
pub(crate) fn keep_bytecode(command: &mut Command) {
    command.env_remove("PYTHONDONTWRITEBYTECODE");
    command.env("PYTHONPYCACHEPREFIX", workspace::root().join(BYTECODE));
}

/// The Python of `.venv` with all requirements installed, or why there is none.
pub(crate) fn python() -> Result<PathBuf, String> {
    println!("== prepare");
    let _alone = alone::wait("prepare").map_err(|error| format!("{error:#}"))?;
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
    if !quiet("python3", &["--version"]) && !apt("python3") {
        return Err("python3 is not installed (apt-get install python3 python3-venv)".to_owned());
    }
    cleared(&root.join(".venv"))?;
    let venv = ["-m", "venv", ".venv"];
    if let Err(why) = said("python3", &venv) {
        if !apt("python3-venv") {
            return Err(format!("python3 -m venv: {why} (apt-get install python3-venv)"));
        }
        said("python3", &venv).map_err(|why| format!("python3 -m venv: {why}"))?;
    }
    install(&python, &wanted)?;
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(python)
}

/// Install the requirements: by uv, itself one of them, which takes a fifth of the processor time of pip; by pip where uv fails, as it
/// does not read pip's settings.
fn install(python: &Path, wanted: &str) -> Result<(), String> {
    let python = python.to_string_lossy();
    let by_pip = |what: &[&str]| {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let why = |why| format!("pip: {why} (no network? .venv/bin/pip install -r {REQUIREMENTS})");
        said(&python, &[&pip, what].concat()).map_err(why)
    };
    if let Some(uv) = wanted.lines().find(|line| line.starts_with("uv==")) {
        by_pip(&["--no-deps", uv])?;
        let by_uv = ["-m", "uv", "pip", "install", "--quiet", "--python", &python, "-r", REQUIREMENTS];
        match said(&python, &by_uv) {
            Ok(()) => return Ok(()),
            Err(why) => println!("   uv: {why}"),
        }
    }
    by_pip(&["-r", REQUIREMENTS])
}

/// Whether tshark, an independent reader of packets, is there, or why not.
pub(crate) fn tshark() -> Result<(), String> {
    if quiet("tshark", &["--version"]) || (may_install() && apt("tshark") && quiet("tshark", &["--version"]))
    {
        return Ok(());
    }
    Err("tshark is not installed (apt-get install tshark)".to_owned())
}

/// Have valgrind, etcd, and the peers of `skyhaul probe` and of files over HTTP, if that is possible. What needs them says itself that they
/// are missing.
pub(crate) fn tools() {
    const TOOLS: [(&str, &str); 6] = [
        ("iperf3", "iperf3"),
        ("valgrind", "valgrind"),
        ("davix-get", "davix"),
        ("litmus", "litmus"),
        ("rclone", "rclone"),
        ("etcd", "etcd-server etcd-client"),
    ];
    for (program, package) in TOOLS {
        if !quiet(program, &["--version"]) && may_install() {
            let _ = apt(package);
        }
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

/// Remove an environment of another time, whatever is in its place.
fn cleared(venv: &Path) -> Result<(), String> {
    let removed = match std::fs::symlink_metadata(venv) {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(venv),
        Ok(_) => std::fs::remove_file(venv),
        Err(_) => return Ok(()),
    };
    // Of another user, in use, on a file system that is read-only.
    removed.map_err(|why| {
        format!("{} cannot be cleared: {why} (rm -rf .venv, perhaps with sudo)", venv.display())
    })
}

/// Run; the last line that it said if it did not go well.
fn said(program: &str, args: &[&str]) -> Result<(), String> {
    println!("   {program} {}", args.join(" "));
    let output = command(program, args).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_stands_in_the_place_of_an_environment_is_removed_or_told_in_a_line() {
        let directory = std::env::temp_dir().join(format!("skyhaul-prepare-{}", std::process::id()));
        let venv = directory.join(".venv");
        std::fs::create_dir_all(venv.join("lib")).unwrap();
        cleared(&venv).unwrap();
        cleared(&venv).unwrap();
        std::fs::write(&venv, "").unwrap();
        cleared(&venv).unwrap();
        std::os::unix::fs::symlink("nowhere", &venv).unwrap();
        cleared(&venv).unwrap();
        assert!(!venv.is_symlink());
        std::fs::remove_dir_all(&directory).unwrap();
        // What nobody may remove, not even root.
        let why = cleared(Path::new("/proc/self")).unwrap_err();
        assert!(why.contains("cannot be cleared") && why.contains("rm -rf") && !why.contains('\n'), "{why}");
    }

    #[test]
    fn what_python_compiles_is_kept_whatever_the_host_says() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ${PYTHONDONTWRITEBYTECODE-kept} in $PYTHONPYCACHEPREFIX"]);
        shell.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPYCACHEPREFIX", "/elsewhere");
        keep_bytecode(&mut shell);
        let said = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        assert_eq!(said.trim(), format!("kept in {}", workspace::root().join(BYTECODE).display()));
    }

    #[test]
    fn a_program_that_fails_is_told_by_its_last_line() {
        assert_eq!(said("sh", &["-c", "echo one; echo two >&2; exit 3"]), Err("two".to_owned()));
        assert!(said("sh", &["-c", "exit 3"]).unwrap_err().contains("exit status: 3"));
        assert!(said("/no/such/program", &[]).unwrap_err().contains("/no/such/program"));
        assert_eq!(said("true", &[]), Ok(()));
    }
}
