//! The fast path of a balancer is gone with the process, whatever ends it.

use std::process::{Command, Stdio};
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
fn network() -> Option<Network> {
    let name = format!("skyk{}", std::process::id());
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

#[test]
fn a_data_plane_that_is_killed_leaves_no_program() {
    let Some(network) = network() else { return };
    let name = &network.0;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("plane");
    let has_program = || ip(&format!("-n {name} link show b0")).unwrap().contains("xdp");
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let mut plane = Command::new("ip")
            .args(["netns", "exec", name, env!("CARGO_BIN_EXE_skyhaul"), "data-plane", "--socket"])
            .arg(&socket)
            .args(["--listen", "10.80.0.1:19522", "--threads", "1", "--fast-path", "xdp"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !has_program() {
            if plane.try_wait().unwrap().is_some() {
                let said = plane.wait_with_output().unwrap().stderr;
                let said = String::from_utf8_lossy(&said).into_owned();
                assert!(said.contains("hint: "), "{said}");
                return eprintln!("SKIPPED: {said}");
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "never attached");
            std::thread::sleep(Duration::from_millis(10));
        }
        // `ip netns exec` becomes the program.
        let id = rustix::process::Pid::from_child(&plane);
        rustix::process::kill_process(id, signal).unwrap();
        plane.wait().unwrap();
        let ended = Instant::now();
        while has_program() {
            // The kernel takes it away behind the process's end.
            assert!(ended.elapsed() < Duration::from_secs(30), "it is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
