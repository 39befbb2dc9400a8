//! Requests to end, as supervisors, shells and lost terminals make them.

use crate::probe::Server;
use crate::site::{ANY, Job, Site, all_acknowledged, wait_for, words};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LINE: &str = "--pattern --payload 2000 --rate 50Mbps";

/// A recorder with some chunks, whose last ones take a moment to write, and its sender.
fn recording(site: &Site) -> (Job, Job) {
    let fault = format!("--disk-faults {}:latency=300ms", site.disks[0].display());
    let mut recorder = site.record(&format!("{ANY} {fault}"));
    let sender = Job::start(&words(&format!("send --json {LINE} --to {}", recorder.address())));
    let scan = site.disks[0].join("trial");
    wait_for("some chunks", || (std::fs::read_dir(&scan).ok()?.count() > 4).then_some(()));
    (recorder, sender)
}

/// `timeout` signals the process, and then its group; a shell and the kernel both report a terminal that was closed.
#[test]
fn signals_that_come_together_are_one_request_to_end() {
    for signals in [
        &[Signal::TERM, Signal::INT][..],
        &[Signal::HUP],
        &[Signal::HUP, Signal::HUP, Signal::TERM, Signal::INT],
    ] {
        let site = Site::new(1);
        let (recorder, sender) = recording(&site);
        signals.iter().for_each(|&signal| recorder.signal(signal));
        let done = recorder.finish();
        drop(sender);
        // With its report, which one that is killed or ends immediately does not print.
        let report = done.json();
        assert_eq!(report["ended"], "interrupted", "{signals:?}: {}", done.stderr);
        all_acknowledged(&report);
        assert_eq!(site.check(0)["state"], "ended", "{signals:?}");
    }
}

/// The program that is at hand in every script.
#[test]
fn a_scan_under_timeout_ends_whole() {
    if !Path::new("/usr/bin/timeout").exists() {
        return println!("SKIPPED: /usr/bin/timeout (apt install coreutils)");
    }
    let site = Site::new(1);
    let fault = format!("--disk-faults {}:latency=300ms", site.disks[0].display());
    let line = format!("record --scan trial --json --memory 128MiB --chunk 1MiB {ANY} {fault}");
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["--preserve-status", "1", env!("CARGO_BIN_EXE_skyhaul")]).args(words(&line));
    let done = command.args(site.disk_words()).env("SKYHAUL_CONFIG", "/dev/null").output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    let report: serde_json::Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(report["ended"], "interrupted", "{said}");
}

/// What somebody asks for again after a second shall be immediate. A terminal that goes away does not ask for that.
#[test]
fn a_second_request_ends_it_immediately_and_a_hangup_does_not() {
    let site = Site::new(1);
    let fault = format!("--disk-faults {}:latency=100s", site.disks[0].display());
    let mut recorder = site.record(&format!("{ANY} {fault}"));
    let sender =
        Job::start(&words(&format!("send --json {LINE} --to {} --packets 2000", recorder.address())));
    sender.finish().expect(0);
    recorder.drained();
    recorder.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(1100));
    recorder.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    assert!(recorder.is_running(), "{}", recorder.stderr());
    recorder.signal(Signal::TERM);
    let done = recorder.finish().expect(1);
    assert!(done.stdout.is_empty(), "it printed no report");
}

/// `nohup` is for those that are to go on.
#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let site = Site::new(1);
    let line = format!(
        "trap '' HUP; exec {} record --scan trial --json --memory 64MiB --chunk 1MiB {ANY} {}",
        env!("CARGO_BIN_EXE_skyhaul"),
        site.disk_words().join(" ")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("SKYHAUL_CONFIG", "/dev/null");
    let mut recorder = Job::of(command);
    recorder.address();
    recorder.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(recorder.is_running(), "{}", recorder.stderr());
    recorder.signal(Signal::INT);
    assert_eq!(recorder.finish().json()["ended"], "interrupted");
}

/// Services, and programs that wait for others.
#[test]
fn a_hangup_ends_each_of_them_as_a_request() {
    let server = Server::start("");
    server.job.signal(Signal::HUP);
    server.job.finish().expect(0).json();

    let mut watching = Job::start(&words("host --json --watch sleep 100"));
    wait_for("the command", || {
        let tasks = format!("/proc/{0}/task/{0}/children", watching.pid());
        (!std::fs::read_to_string(tasks).ok()?.is_empty()).then_some(())
    });
    assert!(watching.is_running());
    watching.signal(Signal::HUP);
    let report = watching.finish().json();
    assert!(report["watched"]["ended"].as_str().unwrap().contains("signal: 15"), "{report}");
}
