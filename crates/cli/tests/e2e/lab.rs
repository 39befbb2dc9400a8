//! The lab: commands at its ends, and nothing left behind, whoever is killed.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_skyhaul");
/// Longer than anything here takes, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

fn lab(words: &[&str]) -> Output {
    Command::new(BINARY).args(["lab", "run"]).args(words).output().unwrap()
}

/// Whether namespaces may be made here; if not, it says so.
pub(crate) fn permitted() -> bool {
    let output = lab(&["", "-q", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = said.contains("not permitted") || said.contains("No space left");
    if refused {
        println!("SKIPPED: no namespaces here (run as root, or permit user namespaces): {said}");
    } else {
        assert!(output.status.success(), "{said}");
    }
    !refused
}

#[test]
fn commands_run_at_both_ends_and_names_are_known() {
    if !permitted() {
        return;
    }
    let script = "getent hosts near; getent hosts far; getent hosts router; ls /sys/class/net; cat ready";
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(BINARY)
        .current_dir(directory.path())
        .args(["lab", "run", "delay=1ms", "--wait", "100ms", "--far", "echo there > ready; sleep 1000", "--"])
        .args(["sh", "-c", script])
        .output()
        .unwrap();
    let (said, report) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{report}");
    for part in ["near", "far", "10.77.0.254", "path0", "there"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(report.contains("path seed=1;delay=1ms") && report.contains("fwd  0 packets"), "{report}");
}

#[test]
fn a_status_passes_and_json_is_for_programs() {
    if !permitted() {
        return;
    }
    let output = lab(&["loss=0.5,seed=3", "--json", "--", "sh", "-c", "echo said; exit 3"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["path"]), (Some(1), &"seed=3;loss=0.5".into()), "{report}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("said") && said.contains("exit status: 3"), "{said}");
}

#[test]
fn what_cannot_be_is_refused_with_a_hint() {
    for (words, wrong) in [
        (&["rate=1"][..], "rate: '1' is not a rate"),
        (&["delay=1ms", "--queue", "red=1"], "unknown queue 'red=1'"),
        (&["near: red=1"], "is not a kernel setting of an end"),
        (&["far: rmem=64KiB"], "the kernel has one default for the whole machine"),
        (&["far: backlog=10"], "the kernel has one length for the whole machine"),
        (&["delay=1ms", "--mtu", "100"], "from 1280 to 65521"),
    ] {
        let output = lab(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(wrong) && said.contains("hint: "), "{said}");
    }
    if permitted() {
        let output = lab(&["", "--", "/no/such/program"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && said.contains("start /no/such/program in the near end"),
            "{said}"
        );
        let output = lab(&["", "--far", "exit 4", "--", "true"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("ended before it listened"), "{said}");
    }
}

/// A datagram for nobody, so that something passes.
const DATAGRAM: &str = "echo hello > /dev/udp/10.77.0.2/9";

#[test]
fn a_path_that_cannot_keep_up_fails_and_says_so() {
    if !permitted() {
        return;
    }
    if !Path::new("/bin/bash").exists() {
        println!("SKIPPED: no bash (apt-get install bash)");
        return;
    }
    let output = lab(&["", "--memory", "1", "--", "bash", "-c", DATAGRAM]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1)
            && said.contains("FAILED: 1 frames exceeded the memory; raise --memory"),
        "{said}"
    );
    let output = lab(&["", "--", "bash", "-c", DATAGRAM]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Processes of which the command line contains `mark`, with the network they are in.
fn marked(mark: &str) -> Vec<(u32, PathBuf)> {
    let all =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let wanted = |process: u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
        let contains = String::from_utf8_lossy(&line).contains(mark);
        let network = fs::read_link(format!("/proc/{process}/ns/net")).ok()?;
        contains.then_some((process, network))
    };
    all.filter_map(wanted).collect()
}

fn in_network(network: &PathBuf) -> usize {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path().join("ns/net")));
    all.filter(|link| fs::read_link(link).is_ok_and(|is| is == *network)).count()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A lab with grandchildren that would stay for long, and the mark that they have.
fn started(tag: &str) -> (Child, String) {
    let mark = format!("98765{tag}{}", std::process::id());
    let script = format!("sleep {mark}1 & (sleep {mark}2; true) & sleep {mark}3");
    let child = Command::new(BINARY)
        .args(["lab", "run", "delay=1ms", "--wait", "10ms", "--far", &script, "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("six sleep", || marked(&mark).iter().filter(|(process, _)| is_sleep(*process)).count() >= 6);
    (child, mark)
}

fn is_sleep(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "sleep")
}

fn kill(process: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// The lab itself: the only child of the process that was started.
fn inner(outer: u32) -> u32 {
    let text = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    text.trim().parse().unwrap()
}

#[test]
fn whoever_is_killed_nothing_is_left() {
    if !permitted() {
        return;
    }
    for (tag, whom) in [("1", "outer"), ("2", "inner"), ("3", "near")] {
        let (mut child, mark) = started(tag);
        let networks: Vec<PathBuf> = marked(&format!("{mark}3"))
            .into_iter()
            .filter(|(process, _)| is_sleep(*process))
            .map(|(_, network)| network)
            .collect();
        assert_eq!(networks.len(), 2, "{whom}: one in each end");
        assert_ne!(networks[0], networks[1]);
        match whom {
            "outer" => kill(child.id(), "-KILL"),
            "inner" => kill(inner(child.id()), "-KILL"),
            _ => kill(child.id(), "-TERM"),
        }
        let status = child.wait().unwrap();
        assert!(status.signal() == Some(9) || status.code().is_some_and(|code| code > 0), "{whom}: {status}");
        until(&format!("{whom}: processes are left"), || marked(&mark).is_empty());
        until(&format!("{whom}: somebody is left in a network"), || {
            networks.iter().all(|network| in_network(network) == 0)
        });
    }
}

#[test]
fn an_ordinary_user_has_a_lab() {
    if !permitted() {
        return;
    }
    const NOBODY: u32 = 65_534;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = directory.path().join("skyhaul");
    fs::copy(BINARY, &binary).unwrap();
    let mut command = Command::new(&binary);
    command.args(["lab", "run", "delay=1ms", "--", "cat", "/sys/class/net/path0/mtu"]).current_dir("/");
    // Whoever is not root is ordinary already.
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("make a user namespace") {
        println!("SKIPPED: no user namespaces here (sysctl user.max_user_namespaces=1000): {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "1500");
}
