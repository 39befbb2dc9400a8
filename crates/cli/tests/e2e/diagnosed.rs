//! What a probe names on paths of the lab: causes that are really made there, from what the ends see, and nothing on a clean path. More
//! causes and severities: `tests/interop/bench_diagnosis.py`.
//!
//! `make test` runs these in a step of their own, beside the others (`xtask/src/suite.rs`): each waits for a path, and for the lab.

use crate::lab::permitted;
use serde_json::Value;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_skyhaul");
/// The far command.
const SERVE: &str = "skyhaul probe serve --token-file t";

/// One lab at a time: each needs a processor for its router, and others that send and receive.
static ALONE: Mutex<()> = Mutex::new(());

/// A lab with a probe from its near end; options of the lab, of the probe, and the command of the far end.
struct Lab<'a> {
    path: &'a str,
    lab: &'a [&'a str],
    far: &'a str,
    probe: &'a str,
}

impl Lab<'_> {
    /// The report of the probe, what was said, and the directory in which it ran.
    fn run(&self) -> (Value, String, TempDir) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(BINARY)
            .env("SKYHAUL_CONFIG", "/dev/null")
            .current_dir(directory.path())
            .args(["lab", "run", self.path, "--far", self.far])
            .args(self.lab)
            .args(["--", "skyhaul", "probe", "far", "--token-file", "t", "--diagnose", "--json"])
            .args(self.probe.split_whitespace())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Whether this machine kept the lab's times changes what was measured, not what is printed.
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        (report, said, directory)
    }
}

/// Runs after which a machine that is never in time is let go.
const RUNS: usize = 6;

/// A diagnosis, as `run` makes it, names just these causes. It is right in 95 of 100 runs, so one may be wrong, and then two must be
/// right. A run that went wrong while the lab was late has measured this machine, and does not count.
fn names(path: &str, expected: &[&str], mut run: impl FnMut() -> (Value, bool)) {
    let (mut right, mut wrong) = (0, Vec::new());
    for _ in 0..RUNS {
        let (diagnosis, late) = run();
        let causes = diagnosis["causes"].as_array().unwrap();
        // Where nothing is to be named, nothing may be left unexplained.
        let explained = !expected.is_empty() || diagnosis["unexplained"].as_u64().unwrap_or(0) == 0;
        if explained && causes.iter().map(|cause| &cause["cause"]).eq(expected) {
            right += 1;
            if wrong.is_empty() || right == 2 {
                return;
            }
        } else if !late {
            wrong.push(diagnosis);
            assert!(wrong.len() < 2, "{path}: not {expected:?}: {wrong:?}");
        }
    }
    // A router that is late loses and delays packets itself: then the path is not the one whose cause is to be named.
    println!("SKIPPED: {path}: the lab was late in most of {RUNS} runs (a machine that is idle)");
}

/// Whether the lab did not keep its times.
fn late(said: &str) -> bool {
    said.contains("FAILED: ")
}

/// What is said of a path for datagrams, at a load that a slow machine keeps.
fn of_udp(path: &str, lab: &[&str], far: &str) -> (Value, bool) {
    let (report, said, _) = Lab { path, lab, far, probe: "--udp --rates 80Mbps" }.run();
    (report["diagnosis"].clone(), late(&said))
}

#[test]
fn a_policer_is_named_with_its_rate_and_a_page_shows_why() {
    if !permitted() {
        return;
    }
    let path = "rate=400Mbps,delay=15ms,police=40Mbps/128KiB,seed=7";
    let mut last = None;
    names(path, &["policer"], || {
        let (report, said, directory) =
            Lab { path, lab: &[], far: SERVE, probe: "--udp --rates 80Mbps --report page" }.run();
        let outcome = (report["diagnosis"].clone(), late(&said));
        last = Some((report, directory));
        outcome
    });
    let (report, directory) = last.unwrap();
    let found = &report["diagnosis"];
    if found["causes"][0]["cause"] != "policer" {
        return; // skipped, and said
    }
    let rate = found["limit"]["bits_per_second"].as_f64().unwrap();
    assert!((rate / 40e6 - 1.0).abs() < 0.02, "{rate}");
    assert!(
        found["causes"][0]["next"][0]
            .as_str()
            .unwrap()
            .starts_with("skyhaul probe far --token-file t --udp --rates")
    );
    let page = std::fs::read_to_string(directory.path().join("page/index.html")).unwrap();
    for part in
        ["a policer drops what exceeds a rate", "Loss by offered rate", "Where packets went", "</html>"]
    {
        assert!(page.contains(part), "{part}");
    }
    for file in ["loss.svg", "packets.svg"] {
        assert!(std::fs::read_to_string(directory.path().join("page").join(file)).unwrap().contains("<svg"));
    }
    let written = std::fs::read(directory.path().join("page/report.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap()["diagnosis"], report["diagnosis"]);
}

#[test]
fn nothing_is_named_on_a_clean_path() {
    if !permitted() {
        return;
    }
    let path = "rate=400Mbps,delay=15ms,seed=7";
    names(path, &[], || of_udp(path, &[], SERVE));
}

/// The flow is over when the path goes down for longer than any answer is waited for.
#[test]
fn a_path_that_is_down_when_a_test_ends_does_not_cost_its_results() {
    if !permitted() {
        return;
    }
    let path = "rate=50Mbps,delay=5ms,seed=7; at=2s: loss=1; at=17s: loss=0";
    let (report, said, _) = Lab { path, lab: &[], far: SERVE, probe: "--tcp --cc cubic --time 3s" }.run();
    let point = &report["points"][0];
    for end in ["here", "there"] {
        assert!(point[end]["flows"][0]["bytes"].as_u64().unwrap_or(0) > 0, "{end}: {said}");
    }
    assert!(point.get("missing").is_none(), "{}", point["missing"]);
}

/// A server that is stopped for most of the time, from a second on.
fn paused() -> String {
    format!("{SERVE} & P=$!; sleep 1; while sleep 0.05; do kill -STOP $P; sleep 0.5; kill -CONT $P; done")
}

#[test]
fn causes_of_loss_order_and_delay_are_named() {
    if !permitted() {
        return;
    }
    let tbf: &[&str] = &["--queue", "tbf=30Mbps/64KiB/250KiB"];
    for (path, lab, causes) in [
        ("rate=400Mbps,delay=15ms,loss=0.01,seed=7", &[][..], &["bit-errors"][..]),
        ("rate=40Mbps,buffer=300KiB,delay=15ms,seed=7", &[], &["full-queue"]),
        ("rate=400Mbps,delay=15ms,reorder=5@0.02,duplicate=0.01,seed=7", &[], &["duplication", "spraying"]),
        ("rate=400Mbps,delay=15ms,seed=7; fwd: mtu-blackhole=1300", &[], &["mtu"]),
        ("rate=400Mbps,delay=15ms,seed=7; mtu-blackhole=1300", &[], &["mtu"]),
        ("rate=400Mbps,delay=15ms,seed=7,burst=80@0.0003", &[], &["burst-loss"]),
        ("rate=400Mbps,delay=15ms,seed=7", tbf, &["sender"]),
    ] {
        names(path, causes, || of_udp(path, lab, SERVE));
    }
}

/// What is said of a flow of TCP.
fn of_tcp(path: &str, far: &str) -> (Value, bool) {
    let probe = "--tcp --cc cubic --time 4s --report page";
    let (report, said, directory) = Lab { path, lab: &[], far, probe }.run();
    let page = std::fs::read_to_string(directory.path().join("page/index.html")).unwrap();
    for part in ["What bounds it", "Throughput by window", "Over time", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    (report["diagnosis"][0][0].clone(), late(&said))
}

#[test]
fn what_bounds_a_connection_is_named_and_a_page_shows_it() {
    if !permitted() {
        return;
    }
    let path = "rate=100Mbps,delay=20ms,seed=7";
    let small = format!("sysctl -qw net.ipv4.tcp_rmem='4096 65536 65536'; {SERVE}");
    let tuned = "sysctl -qw net.ipv4.tcp_rmem='4096 131072 1048576'";
    let stops = format!("{tuned}; {}", paused());
    let sleeps = format!("{tuned}; {SERVE} --slow-reader 160ms@200ms");
    let slow = format!("{tuned}; {SERVE} --slow-reader 8Mbps");
    let lossy = "rate=100Mbps,delay=20ms,loss=0.01,seed=7";
    for (path, far, cause) in [
        (path, small.as_str(), "receiver-window"),
        (path, stops.as_str(), "pausing-reader"),
        (path, sleeps.as_str(), "pausing-reader"),
        (path, slow.as_str(), "slow-application"),
        (lossy, SERVE, "loss"),
        // Each of the three paths has this rate: together no more than a slow machine sends.
        ("rate=100Mbps,delay=10ms,paths=3/spray/1ms,seed=7", SERVE, "spraying"),
        ("rate=400Mbps,delay=10ms,seed=7; mtu-blackhole=1300", SERVE, "mtu"),
        ("rate=400Mbps,delay=10ms,seed=7; rev: mtu-blackhole=1300", SERVE, "mtu"),
    ] {
        names(path, &[cause], || of_tcp(path, far));
    }
    names(path, &[], || of_tcp(path, SERVE));
}
