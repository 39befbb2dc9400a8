//! Output that cannot be written: text for people is never a reason to fail, data and reports always are.

use crate::balance::Place;
use crate::balance::plane::plane_of;
use crate::site::{ANY, Job, Site, run, send, wait_for, words};
use rustix::process::{Pid, Signal};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A file system that is full.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// A pipe that nobody reads.
fn closed() -> OwnedFd {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn skyhaul(words: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skyhaul"));
    command.args(words).env("SKYHAUL_CONFIG", "/dev/null").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A recording of 500 frames.
fn recorded() -> Site {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send(&recorder.address(), "--pattern --payload 2000 --rate 50Mbps --packets 500");
    recorder.stop().expect(0);
    site
}

#[test]
fn a_closed_standard_error_changes_no_exit_status() {
    let site = recorded();
    let on_disks = |line: &str| {
        let mut all = words(line);
        all.splice(1..1, site.disk_words());
        all
    };
    let chunk = site.disks[0].join("trial/trial.00000000").display().to_string();
    for (line, code) in [
        (on_disks("check trial --verify"), 0),
        (on_disks("check nothing"), 2),
        (on_disks("cat trial"), 0),
        (words(&format!("send --to udp://127.0.0.1:9 --rate 1Gbps --input {chunk}")), 0),
        (words(&format!("receive {ANY} --wait 100ms --memory 64MiB --chunk 1MiB")), 1),
        (on_disks(&format!("record --scan other {ANY} --wait 100ms --memory 64MiB --chunk 1MiB")), 1),
        (words("send --to nowhere"), 2),
        (words("disk /no/such/directory"), 2),
    ] {
        for (name, stderr) in [("full", Stdio::from(full())), ("closed", Stdio::from(closed()))] {
            let status = skyhaul(&line).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(code), "{name}: {line:?}");
        }
    }
}

#[test]
fn a_report_or_data_that_cannot_be_written_are_never_success() {
    let site = recorded();
    let on_disks = |line: &str| {
        let mut all = words(line);
        all.splice(1..1, site.disk_words());
        all
    };
    let chunk = site.disks[0].join("trial/trial.00000000").display().to_string();
    for line in [
        on_disks("ls"),
        on_disks("ls --json"),
        on_disks("check trial --json"),
        on_disks("cat trial"),
        words(&format!("inspect {chunk}")),
        words(&format!("inspect {chunk} --json")),
        words(&format!("send --json --to udp://127.0.0.1:9 --rate 1Gbps --input {chunk}")),
        words("receive --show-config"),
        words("host --json"),
    ] {
        let done = skyhaul(&line).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{line:?}: {said}");
        assert!(said.contains("write to standard output: No space left"), "{line:?}: {said}");
    }
}

/// Nobody reads the report: the exit status still says that nothing came.
#[test]
fn a_report_without_a_reader_leaves_the_exit_status() {
    let line = words(&format!("receive {ANY} --wait 100ms --json --memory 64MiB --chunk 1MiB"));
    let status = skyhaul(&line).stdout(Stdio::from(closed())).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

/// A peer that goes away is not a reader that has had enough.
#[test]
fn a_receiver_that_breaks_off_is_no_success() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp://{}", listener.local_addr().unwrap());
    let sender =
        Job::start(&words(&format!("send --pattern --payload 2000 --rate 1Gbps --packets 200000 --to {to}")));
    let (stream, _) = listener.accept().unwrap();
    drop((stream, listener));
    let done = sender.finish();
    assert_ne!(done.code, Some(0), "{}", done.stderr);
}

/// Services say what they do; nobody has to hear it.
#[test]
fn a_service_goes_on_without_its_terminal() {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port, iperf3, directory) = (free(), free(), tempfile::tempdir().unwrap());
    let token = directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let token = format!("--token-file {}", token.display());
    let line = format!("probe serve --listen 127.0.0.1 --port {port} --iperf3 {iperf3} {token}");
    for stderr in [Stdio::from(closed()), Stdio::from(full())] {
        let mut server = skyhaul(&words(&line)).stderr(stderr).spawn().unwrap();
        let reached = || std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop);
        wait_for("the server", || {
            assert!(server.try_wait().unwrap().is_none(), "it ended");
            reached()
        });
        for _ in 0..2 {
            run(&format!("probe 127.0.0.1 --iperf3 {iperf3} --time 1s --json")).expect(0);
            let points = "--sizes 64 --spacing 200us --packets 20 --settle 5s";
            run(&format!("probe 127.0.0.1:{port} {token} --json {points}")).expect(0);
        }
        rustix::process::kill_process(Pid::from_child(&server), Signal::HUP).unwrap();
        assert_eq!(wait_for("its end", || server.try_wait().unwrap()).code(), Some(0));
    }
}

/// The note of each second ended the thread of the control plane, and nothing else.
#[test]
fn a_balancer_answers_without_its_terminal() {
    let place = Place::new();
    let [token, state] = ["token", "state.db"].map(|name| place.path(name).display().to_string());
    let api = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = format!(
        "balance --api {api} --data-port 0 --sync-port 0 --threads 1 --token-file {token} --state {state} --reserve run \
         --uri-file {}",
        place.path("uri").display()
    );
    let mut balancer = skyhaul(&words(&line)).stderr(Stdio::from(full())).spawn().unwrap();
    let metrics = || {
        let mut stream = TcpStream::connect(api).ok()?;
        stream
            .write_all(
                format!("GET /metrics HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\r\n").as_bytes(),
            )
            .ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        Some(said)
    };
    wait_for("the control plane", metrics);
    // Without its first data plane it does not start at all.
    wait_for("the reservation", || place.path("uri").exists().then_some(()));
    rustix::process::kill_process(plane_of(balancer.id()), Signal::KILL).unwrap();
    let restarts = "skyhaul_balance_plane_restarts_total{lb=\"1\"} 1\n";
    wait_for("the restart", || metrics()?.contains(restarts).then_some(()));
    // It is noted within a second, and the control plane answers after that.
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert!(metrics().is_some(), "the control plane has ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    rustix::process::kill_process(Pid::from_child(&balancer), Signal::TERM).unwrap();
    assert_eq!(wait_for("its end", || balancer.try_wait().unwrap()).code(), Some(0));
}
