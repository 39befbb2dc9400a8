//! The fast path of a balancer is gone with the process, whatever ends it.

use crate::balance::plane_of;
use crate::site::wait_for;
use rustix::process::{Pid, Signal};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Network(String);

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

fn ip(words: &str) -> Option<String> {
    let output = Command::new("ip").args(words.split_whitespace()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// None, with a visible reason, where it is not allowed.
fn network(tag: &str) -> Option<Network> {
    let name = format!("sky{tag}{}", std::process::id());
    let network = Network(name.clone());
    for step in [
        format!("netns add {name}"),
        format!("-n {name} link add b0 type veth peer name b1"),
        format!("-n {name} addr add 10.80.0.1/24 dev b0"),
        format!("-n {name} link set b0 up"),
        format!("-n {name} link set b1 up"),
        format!("-n {name} link set lo up"),
    ] {
        if ip(&step).is_none() {
            eprintln!("SKIPPED: no network namespaces here (ip {step}; run as root)");
            return None;
        }
    }
    Some(network)
}

/// A data plane in the network; `None`, with a visible reason, if it cannot have a program.
fn plane(name: &str, socket: &Path, has_program: &dyn Fn() -> bool) -> Option<Child> {
    let mut plane = Command::new("ip")
        .args(["netns", "exec", name, env!("CARGO_BIN_EXE_skyhaul"), "data-plane", "--socket"])
        .arg(socket)
        .args(["--listen", "10.80.0.1:19522", "--threads", "1", "--fast-path", "xdp"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // It listens when it has its program.
    while !(has_program() && UnixStream::connect(socket).is_ok()) {
        if plane.try_wait().unwrap().is_some() {
            let said = plane.wait_with_output().unwrap().stderr;
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(said.contains("hint: "), "{said}");
            eprintln!("SKIPPED: {said}");
            return None;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "never attached");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(plane)
}

fn end(mut plane: Child, signal: Signal) {
    // `ip netns exec` becomes the program.
    rustix::process::kill_process(Pid::from_child(&plane), signal).unwrap();
    plane.wait().unwrap();
}

#[test]
fn a_data_plane_that_is_killed_leaves_no_program_and_the_next_has_one() {
    let Some(network) = network("k") else { return };
    let name = &network.0;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("plane");
    let has_program = || ip(&format!("-n {name} link show b0")).unwrap().contains("xdp");
    let Some(first) = plane(name, &socket, &has_program) else { return };
    end(first, Signal::KILL);
    for signal in [Signal::KILL, Signal::TERM] {
        // At once: the kernel takes the program away a moment after its process.
        let next = plane(name, &socket, &has_program).expect("a program was allowed before");
        end(next, signal);
    }
    let ended = Instant::now();
    while has_program() {
        assert!(ended.elapsed() < Duration::from_secs(30), "it is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// With all that a balancer is: it starts the next one itself, and that has a program again.
#[test]
fn a_balancer_whose_data_plane_is_killed_has_a_program_again() {
    let Some(network) = network("b") else { return };
    let (name, directory) = (&network.0, tempfile::tempdir().unwrap());
    let file = |name: &str| directory.path().join(name).display().to_string();
    let line = format!(
        "netns exec {name} {} balance --listen 10.80.0.1 --api 127.0.0.1:18008 --threads 1 --fast-path xdp --json --reserve run \
         --token-file {} --uri-file {} --state {}",
        env!("CARGO_BIN_EXE_skyhaul"),
        file("token"),
        file("uri"),
        file("state.db"),
    );
    let mut balance = Command::new("ip")
        .args(line.split_whitespace())
        .env("SKYHAUL_CONFIG", "/dev/null")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(file("said")).unwrap())
        .spawn()
        .unwrap();
    let has_program = || ip(&format!("-n {name} link show b0")).unwrap().contains("xdp");
    let said = || std::fs::read_to_string(file("said")).unwrap();
    let begun = Instant::now();
    while !(has_program() && said().contains("balancing on")) {
        if balance.try_wait().unwrap().is_some() {
            let said = said();
            assert!(said.contains("hint: "), "{said}");
            eprintln!("SKIPPED: {said}");
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "never attached");
        std::thread::sleep(Duration::from_millis(10));
    }
    let first = plane_of(balance.id());
    rustix::process::kill_process(first, Signal::KILL).unwrap();
    wait_for("another", || said().contains("was started again").then_some(()));
    assert_ne!(plane_of(balance.id()), first);
    wait_for("its program", || has_program().then_some(()));
    rustix::process::kill_process(Pid::from_child(&balance), Signal::INT).unwrap();
    let output = balance.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let one = &report["reservations"][0];
    assert_eq!(one["plane_restarts"], 1, "{report}");
    assert!(one["mode"].as_str().unwrap().contains("XDP in the driver of b0"), "{report}");
    wait_for("the program to be gone", || (!has_program()).then_some(()));
}
