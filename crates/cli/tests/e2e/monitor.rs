//! `probe monitor` with a real server on loopback: killed, cut off, without room, without a peer.

use super::probe::Server;
use super::site::{Job, number, run, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

const QUICK: &str = "--every 200ms --time 20ms --rate 1Mbps";

fn line(server: &Server, directory: &Path, more: &str) -> Vec<String> {
    let (at, token) = (&server.at, server.token.display());
    words(&format!(
        "probe monitor udp:{at} tcp:{at} --token-file {token} --json --lines {} {more}",
        directory.join("m.jsonl").display()
    ))
}

/// All lines of a file, of which each must be whole.
fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Wait for more lines than `before` that `which` likes.
fn until(monitor: &mut Job, path: &Path, count: usize, which: impl Fn(&Value) -> bool) {
    wait_for("lines", || {
        assert!(monitor.is_running(), "{}", monitor.stderr());
        // The last one may be on its way.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        (lines.filter(|line| serde_json::from_str(line).is_ok_and(|line| which(&line))).count() >= count)
            .then_some(())
    });
}

fn done(line: &Value) -> bool {
    line["outcome"] == "done"
}

#[test]
fn a_monitor_that_is_killed_goes_on_behind_its_last_whole_line() {
    let server = Server::start("");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.jsonl");
    let mut monitor = Job::start(&line(&server, directory.path(), QUICK));
    until(&mut monitor, &path, 4, done);
    monitor.signal(Signal::KILL);
    let _ = monitor.finish();
    let before = read(&path).len();
    // As if the kill had come in the middle of a line.
    std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"version\":2,\"at\":")
        .unwrap();
    let mut monitor = Job::start(&line(&server, directory.path(), QUICK));
    until(&mut monitor, &path, before + 4, done);
    monitor.signal(Signal::INT);
    let ended = monitor.finish().expect(0);
    assert!(ended.stderr.contains("removed 18 bytes of an incomplete line"), "{}", ended.stderr);
    let (report, lines) = (ended.json(), read(&path));
    assert_eq!(number(&report["lines"]["written"]) as usize, lines.len() - before, "none is lost");
    for test in report["tests"].as_array().unwrap() {
        let ran: u64 = test["runs"].as_object().unwrap().values().map(number).sum();
        let last = lines.iter().rfind(|line| line["test"] == test["test"]).unwrap();
        // Those that an end without a run has passed over are counted, too.
        assert!(ran + number(&test["missed"]) > number(&last["slot"]), "{test}");
    }
    let tcp = lines.iter().rfind(|line| line["kind"] == "tcp" && done(line)).unwrap();
    let moment = &tcp["tcp"][0]["moments"][0];
    assert!(moment["congestion_window"].is_u64() && moment["retransmits"].is_u64(), "{tcp}");
}

#[test]
fn a_server_that_is_away_is_a_line_and_back_another() {
    let first = Server::start("");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.jsonl");
    let mut monitor = Job::start(&line(&first, directory.path(), QUICK));
    until(&mut monitor, &path, 2, done);
    let (at, token) = (first.at.clone(), std::fs::read_to_string(&first.token).unwrap());
    let key = std::fs::read_to_string(first.token.with_extension("key")).unwrap();
    first.stop();
    until(&mut monitor, &path, 2, |line| line["outcome"] == "away");
    let before = read(&path).iter().filter(|line| done(line)).count();
    let again = Server::start_at(at.rsplit(':').next().unwrap(), Some((&token, &key)), "");
    until(&mut monitor, &path, before + 2, done);
    monitor.signal(Signal::INT);
    let report = monitor.finish().expect(0).json();
    assert!(number(&report["tests"][0]["runs"]["away"]) + number(&report["tests"][1]["runs"]["away"]) >= 2);
    again.stop();
}

#[test]
fn metrics_are_served_and_written_and_an_unknown_host_is_away() {
    let server = Server::start("");
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.toml");
    std::fs::write(&plan, "[[test]]\nname = \"far away\"\ntcp = \"no-such-host.invalid\"\n").unwrap();
    let prom = directory.path().join("m.prom");
    let more = format!("{QUICK} --http 127.0.0.1:0 --metrics {} --plan {}", prom.display(), plan.display());
    let mut monitor = Job::start(&line(&server, directory.path(), &more));
    until(&mut monitor, &directory.path().join("m.jsonl"), 1, |line| line["outcome"] == "away");
    until(&mut monitor, &directory.path().join("m.jsonl"), 2, done);
    let said = monitor.stderr();
    let at = said.split("metrics at http://").nth(1).unwrap().split("/metrics").next().unwrap();
    let ask = |what: &str| {
        let mut stream = std::net::TcpStream::connect(at).unwrap();
        write!(stream, "GET {what} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let away = "skyhaul_monitor_peer_up{test=\"far away\",server=\"no-such-host.invalid\",kind=\"tcp\"} 0";
    // A line is on the disk before it is counted.
    let answer =
        wait_for("it to be counted", || Some(ask("/metrics")).filter(|answer| answer.contains(away)));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("text/plain; version=0.0.4"), "{answer}");
    assert!(ask("/other").starts_with("HTTP/1.1 404"));
    monitor.signal(Signal::INT);
    let report = monitor.finish().expect(0).json();
    let text = std::fs::read_to_string(&prom).unwrap();
    assert!(
        text.contains(&format!("skyhaul_monitor_lines_written_total {}", report["lines"]["written"])),
        "{text}"
    );
}

#[test]
fn a_disk_that_is_full_is_told_once_and_lines_wait_for_room() {
    let server = Server::start("");
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(directory.path()) else { return };
    let filler = disk.0.join("filler");
    let fill = std::fs::write(&filler, vec![0u8; 1 << 20]);
    assert!(fill.is_err(), "256 KiB take no more");
    let mut monitor = Job::start(&line(&server, &disk.0, QUICK));
    wait_for("it to be told", || {
        assert!(monitor.is_running(), "{}", monitor.stderr());
        monitor.stderr().contains("hint: free some space").then_some(())
    });
    // Some more tests.
    wait_for("tests to go on", || (monitor.stderr().lines().count() > 12).then_some(()));
    std::fs::remove_file(&filler).unwrap();
    until(&mut monitor, &disk.0.join("m.jsonl"), 6, |_| true);
    monitor.signal(Signal::INT);
    let ended = monitor.finish().expect(0);
    assert_eq!(ended.stderr.matches("hint: free some space").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("results can be written again"));
    let report = ended.json();
    let ran: u64 = report["tests"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|test| test["runs"].as_object().unwrap().values())
        .map(number)
        .sum();
    let lines = &report["lines"];
    assert_eq!((number(&lines["written"]), number(&lines["lost"])), (ran, 0), "all waited");
    assert_eq!(read(&disk.0.join("m.jsonl")).len() as u64, ran);
}

#[test]
fn wrong_words_are_refused_with_a_hint() {
    let server = Server::start("");
    let token = server.token.display();
    for (words, said) in [
        ("dtn2", "write udp:HOST or tcp:HOST"),
        ("udp:dtn2 --every 0s", "greater than zero"),
        ("udp:dtn2 --every 1s --jitter 2s", "use a smaller --jitter"),
        ("--plan /nowhere/plan", "check the name"),
        ("udp:dtn2 --lines /nowhere/m.jsonl", "mkdir -p /nowhere"),
    ] {
        let ended = run(&format!("probe monitor --token-file {token} {words}")).expect(2);
        assert!(ended.stderr.contains(said), "{words}: {}", ended.stderr);
    }
}

/// A small disk.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Option<Self> {
        let at = at.join("small");
        std::fs::create_dir(&at).unwrap();
        let mounted =
            rustix::mount::mount("none", &at, "tmpfs", rustix::mount::MountFlags::empty(), c"size=256k");
        match mounted {
            Ok(()) => Some(Self(at)),
            Err(error) => {
                println!("SKIPPED: a disk that is full: mount a tmpfs: {error} (run the tests as root)");
                None
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}
