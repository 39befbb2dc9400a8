//! When it starts and ends, what it prints, and what it returns.
//!
//! A reader of the output that has enough, as `head` does.
//!
//! A station's file: what it says counts in every verb, and less than what is typed.

use crate::site::see;
use crate::site::{ANY, Job, LIMIT, Site, all_acknowledged, drops, number, run, send, sum, wait_for, words};
use serde_json::Value;
use std::process::{Command, Stdio};

const LINE: &str = "--pattern --payload 2000 --rate 150Mbps";

/// A sender without end.
fn endless(to: &str) -> Job {
    Job::start(&words(&format!("send --json {LINE} --to {to}")))
}

#[test]
fn it_ends_by_itself() {
    for end in ["--duration 700ms", "--bytes 12MB", "--idle 4s"] {
        let site = Site::new(1);
        let mut recorder = site.record(&format!("{ANY} {end}"));
        let address = recorder.address();
        let sender = (!end.contains("idle")).then(|| endless(&address));
        if sender.is_none() {
            send(&address, &format!("{LINE} --packets 3000"));
        }
        let done = recorder.finish();
        let report = done.json();
        let bytes = sum(&report["streams"], "bytes");
        match end {
            "--bytes 12MB" => assert!((12_000_000..40_000_000).contains(&bytes), "{bytes}"),
            "--idle 4s" => assert_eq!(sum(&report["streams"], "packets") + drops(&report), 3000),
            _ => assert!(report["seconds"].as_f64().unwrap() > 0.6, "{report}"),
        }
        all_acknowledged(&report);
        let check = site.check(0);
        assert!(check["state"] == "ended", "{check}");
        assert_eq!(see(&site.cat(), 2032).good, sum(&report["streams"], "placed"));
    }
}

#[test]
fn nothing_came() {
    let site = Site::new(1);
    let done = site.record(&format!("{ANY} --wait 300ms")).finish().expect(1);
    assert_eq!(done.json()["streams"], serde_json::json!([]));
    let done = run(&format!("receive {ANY} --wait 300ms --json --memory 64MiB --chunk 1MiB")).expect(1);
    assert_eq!(number(&done.json()["strangers"]), 0);
}

/// A UNIX second as another program writes it.
fn written(second: i64, form: &str) -> String {
    let date = std::process::Command::new("date").args(["-u", "-d", &format!("@{second}"), form]).output();
    String::from_utf8(date.unwrap().stdout).unwrap().trim().to_owned()
}

/// Data time is exact to the frame, over sequence numbers and over times, and as a schedule writes it.
#[test]
fn start_and_stop_on_data_time() {
    for (place, form) in [("sequence", "+%Yy%jd%Hh%Mm%Ss"), ("time", "+%Y-%m-%dT%H:%M:%SZ")] {
        let site = Site::new(1);
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        let (start, stop) = (now + 4, now + 6);
        // 3000 frames of data time a second, sent about three times as fast.
        let (from, to) = (written(start, form), written(stop, form));
        let line = format!("{ANY} --place {place} --frame-rate 3000 --start {from} --stop {to}");
        let mut recorder = site.record(&line);
        let line = "send --json --pattern --payload 2000 --rate 150Mbps --frame-rate 3000 --to";
        let sender = Job::start(&words(&format!("{line} {}", recorder.address())));
        let done = recorder.finish();
        drop(sender);
        let report = done.json();
        let stream = &report["streams"][0];
        let seen = see(&site.cat(), 2032);
        assert_eq!(seen.good, number(&stream["placed"]), "{place}");
        assert_eq!(seen.good + seen.invalid, 6000, "{place}: {stream}");
        assert!(seen.invalid <= drops(&report), "{place}");
        assert_eq!(seen.times.first().map(|t| (t.0, t.1)), Some((start, 0)), "{place}");
        assert_eq!(seen.times.last().map(|t| (t.0, t.1)), Some((stop - 1, 2999)), "{place}");
        assert!(number(&stream["rejects"]["before_start"]) > 3000, "{place}: {stream}");
        assert!(number(&stream["rejects"]["after_stop"]) > 0, "{place}: {stream}");
        assert_eq!(number(&stream["lost"]), seen.invalid, "{place}: {stream}");
        all_acknowledged(&report);
    }
}

/// Ctrl-C is an end in order: all is written, acknowledged and reported, and the status is 0.
#[test]
fn ctrl_c() {
    let site = Site::new(2);
    let mut recorder = site.record(ANY);
    let sender = endless(&recorder.address());
    let scan = site.disks[0].join("trial");
    wait_for("some chunks", || (std::fs::read_dir(&scan).ok()?.count() > 4).then_some(()));
    recorder.signal(rustix::process::Signal::INT);
    let done = recorder.finish();
    drop(sender);
    let report = done.json();
    assert_eq!(done.code, Some(i32::from(drops(&report) > 0)), "{}", done.stderr);
    all_acknowledged(&report);
    assert_eq!(site.check(0)["state"], "ended");
    assert_eq!(see(&site.cat(), 2032).good, sum(&report["streams"], "placed"));
}

fn has(value: &Value, path: &str) {
    assert!(value.pointer(path).is_some(), "no {path} in {value}");
}

#[test]
fn reports_have_what_they_promise() {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    let sent = send(&recorder.address(), &format!("{LINE} --packets 2000"));
    let report = recorder.stop().json();
    for path in [
        "/version",
        "/seconds",
        "/bits_per_second",
        "/sources/0/listen",
        "/sources/0/tier",
        "/sources/0/because",
        "/sources/0/socket_drops",
        "/sources/0/buffer_granted",
        "/sources/0/interface_drops",
        "/streams/0/sender",
        "/streams/0/format",
        "/streams/0/placed",
        "/streams/0/lost",
        "/streams/0/rejects",
        "/streams/0/loss_map",
        "/streams/0/reorder_extent/max",
        "/streams/0/loss_runs/buckets",
        "/streams/0/first_time/1",
        "/streams/0/arrival_gaps_ns/p99",
        "/cpu/path_seconds_per_gb",
        "/timeline",
        "/strangers",
        "/stranger_rejects",
        "/recording/scan",
        "/recording/datastreams/0/acknowledged",
        "/recording/disks/0/path",
        "/recording/disks/0/latency/p99_us",
        "/recording/disks/0/state",
        "/recording/events",
        "/notes",
    ] {
        has(&report, path);
    }
    for path in ["/packets", "/bytes", "/mode", "/lost_ranges", "/cpu_seconds_per_gb", "/slipped_seconds"] {
        has(&sent, path);
    }
    let check = site.check(0);
    for path in ["/verdict", "/state", "/datastreams/0/proven", "/findings", "/indexes/0/1/records"] {
        has(&check, path);
    }
    let list = site.run("ls --json").expect(0).json();
    for path in ["/0/scan", "/0/bytes", "/0/state", "/0/chunks"] {
        has(&list, path);
    }
    let one = report["recording"]["disks"][0]["path"].as_str().unwrap().to_owned();
    let chunk = format!("{one}/trial/trial.00000000");
    let inspected = run(&format!("inspect {chunk} -n 2 --json")).expect(0).json();
    assert_eq!(inspected.as_array().unwrap().len(), 2);
    assert_eq!(inspected[0]["format"], "vdif");
    let text = run(&format!("inspect {chunk}")).expect(0);
    assert!(String::from_utf8_lossy(&text.stdout).contains("seconds"), "{}", text.stderr);
}

/// `cat | head` is no error, and `receive -o -` gives the frames to whoever reads, as long as they read.
#[test]
fn pipes() {
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send(&recorder.address(), &format!("{LINE} --packets 4000"));
    recorder.stop();
    let mut cat = Command::new(env!("CARGO_BIN_EXE_skyhaul"))
        .args(["cat", "trial"])
        .args(site.disk_words())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut head = [0; 100];
    cat.stdout.take().unwrap().read_exact(&mut head).unwrap();
    assert!(cat.wait().unwrap().success());

    let mut receiver = Job::start(&words(&format!("receive {ANY} -o - --memory 64MiB --chunk 1MiB")));
    send(&receiver.address(), &format!("{LINE} --packets 4000"));
    let done = receiver.stop();
    let seen = see(&done.stdout, 2032);
    assert!(
        seen.good > 0 && done.stderr.contains("4 000 frames placed") == (seen.good == 4000),
        "{}",
        done.stderr
    );
}

#[test]
fn wrong_use_is_told_with_a_hint() {
    let site = Site::new(1);
    let disk = site.disks[0].display();
    let link = site.disks[0].with_file_name("link");
    std::os::unix::fs::symlink(&site.disks[0], &link).unwrap();
    let link = link.display();
    for (line, hint) in [
        (format!("record --scan s --disk {disk} --listen udp:/nowhere"), "udp://"),
        (format!("record --scan s --disk {disk} --listen udp://localhost:99999"), "udp://"),
        (format!("record --scan s/t --disk {disk} {ANY}"), "s/t"),
        (format!("record --scan s --disk {disk}/nothere {ANY} --memory 64MiB"), "nothere"),
        (format!("record --disk {disk} {ANY}"), "--scan"),
        (format!("record --scan s {ANY}"), "--disk"),
        (format!("record --scan s --disk {disk} {ANY} --verify"), "--verify"),
        (format!("receive {ANY} --memory lots"), "lots"),
        (format!("receive {ANY} --faults loss=2"), "probability"),
        ("send --to udp://127.0.0.1:9 --pattern --rate fast".to_owned(), "fast"),
        (format!("check --disk {disk} nothing"), "nothing"),
        (format!("cat --disk {disk} nothing"), "nothing"),
        ("inspect /nonexistent/file".to_owned(), "hint: check the name"),
        ("inspect /".to_owned(), "hint: this is a directory"),
        ("inspect /dev/null".to_owned(), "hint: write its contents to a file"),
        ("inspect tcp://127.0.0.1:0".to_owned(), "hint: listen on udp://"),
        ("inspect udp://127.0.0.1:0 --wait 1ms".to_owned(), "hint: check that the sender is running"),
        (format!("inspect {} --skip 99999999", env!("CARGO_BIN_EXE_skyhaul")), "hint: use a smaller --skip"),
        (format!("receive {ANY} -o /no/such/file"), "mkdir -p /no/such"),
        (format!("receive {ANY} --receive-threads 1000"), "from 1 to 256"),
        (format!("receive {ANY} --start 100 --stop 50"), "hint: both are data times"),
        (format!("receive {ANY} --stop-at 1"), "date -u"),
        (format!("receive {ANY} --stop-at 1970y001d00h00m01s"), "date -u"),
        (format!("receive {ANY} --start 2026y366d00h"), "day 366 is out of range: 2026 has 365 days"),
        (format!("receive {ANY} --memory 1MiB --chunk 2MiB"), "hint: increase --memory"),
        ("receive --pcap /".to_owned(), "hint: this is a directory"),
        (format!("record --scan s --disk {disk} --disk {disk}/. {ANY}"), "hint: name each disk once"),
        (format!("record --scan s --disk {disk} --disk {link} {ANY}"), "is the same directory as"),
        (format!("record --scan s --disk /proc {ANY}"), "not a disk: proc"),
        (format!("record --scan s --disk {disk}/nothere {ANY}"), "hint: check that the disk is mounted"),
        (format!("record --scan s/t --disk {disk} {ANY}"), "s/t"),
        (format!("record --scan s --disk {disk} {ANY} --disk-faults {disk}:x=1"), "hint: use any of slow="),
        (format!("check --disk {disk}/nothere s"), "hint: check the name"),
        (format!("cat --disk {disk}/nothere s"), "hint: check the name"),
        (format!("ls --disk {disk}/nothere"), "hint: check the name"),
        ("send --to udp://127.0.0.1:9 --input /nonexistent".to_owned(), "hint: check the name"),
        ("send --to udp://127.0.0.1:9 --input /".to_owned(), "hint: this is a directory"),
        (
            "send --rate max --to udp://127.0.0.1:0 --pattern".to_owned(),
            "hint: use the port that the receiver listens on",
        ),
        ("send --to tcp://127.0.0.1:0 --pattern".to_owned(), "hint: port 0 cannot be connected to"),
        (
            "send --rate max --to udp://255.255.255.255:9 --pattern".to_owned(),
            "hint: this is a broadcast address",
        ),
        ("send --rate max --to udp://[ff02::1]:9 --pattern".to_owned(), "?iface="),
        (
            "send --rate max --to udp://127.0.0.1:9 --pattern --format mark5b".to_owned(),
            "hint: send a file of that format",
        ),
        (
            "send --rate max --to udp://127.0.0.1:9 --pattern --payload 7".to_owned(),
            "hint: for example --payload 8000",
        ),
        ("send --to udp://127.0.0.1:9 --pattern --stream 1".to_owned(), "cannot be used with"),
        ("send --to udp://127.0.0.1:9".to_owned(), "sending a pattern without a limit"),
        (
            "send --to tcp://127.0.0.1:1 --to udp://127.0.0.1:9 --noise".to_owned(),
            "hint: add --rate 4Gbps, or --rate max",
        ),
        ("bench --netns no-a,no-b --sizes 1472 --rounds 1".to_owned(), "ip netns list"),
        ("generate man /proc/x/y".to_owned(), "hint: create the directory first"),
        (format!("demo --directory {}/x", env!("CARGO_BIN_EXE_skyhaul")), "hint: a file is where"),
        ("send --to tcp://127.0.0.1:1 --pattern --packets 1".to_owned(), "127.0.0.1:1"),
        ("frobnicate".to_owned(), "--help"),
    ] {
        let done = run(&line);
        assert_eq!(done.code, Some(2), "{line}: {}", done.stderr);
        assert!(done.stderr.contains(hint), "{line}: no `{hint}` in {}", done.stderr);
        assert!(done.stdout.is_empty(), "{line}");
    }
}

/// A processor that is not there is told, and does not stop anybody.
#[test]
fn a_processor_that_is_not_there() {
    let vdif = "send --pattern --packets 1 --cpu 9999 --to udp://127.0.0.1:9";
    let heaps = "send --format spead --heaps 1 --heap-size 8 --cpu 9999 --to udp://127.0.0.1:9";
    for line in [vdif, heaps] {
        let said = run(line).expect(0).told();
        assert!(said.contains("note: not pinned to a CPU: run on CPU 9999"), "{line}: {said}");
    }
}

/// A port that is taken is named, and left to whom it belongs.
#[test]
fn a_port_that_is_taken() {
    let mut first = Job::start(&words(&format!("receive {ANY} --memory 64MiB --chunk 1MiB --json")));
    let address = first.address();
    let done = run(&format!("receive --listen {address} --memory 64MiB --chunk 1MiB"));
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("127.0.0.1") && done.stderr.contains("hint"), "{}", done.stderr);
    first.stop();
}

/// Text and JSON, more than a pipe holds.
#[test]
fn a_reader_that_has_enough_is_no_error() {
    for line in ["host --json", "host", "receive --show-config"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_skyhaul"))
            .args(line.split(' '))
            .env("SKYHAUL_CONFIG", "/dev/null")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && !said.contains("ipe"), "{line}: {}: {said}", ended.status);
    }
}

/// A scan onto the disks, with the memory, and from the address that a file names; then found again with the same file.
#[test]
fn a_station_in_a_file() {
    let site = Site::new(2);
    let file = site.disks[0].with_file_name("station.toml");
    let disks: Vec<String> =
        site.disks.iter().map(|disk| format!("{:?}", disk.display().to_string())).collect();
    let text = format!(
        "disk = [{}]\n[record]\nlisten = 'udp://127.0.0.1:0'\nmemory = '128MiB'\nchunk = '1MiB'\nwait = '1ms'\n",
        disks.join(", ")
    );
    std::fs::write(&file, text).unwrap();
    let file = file.display();
    let line = format!("--config {file} record --scan trial --json --wait {}s", LIMIT.as_secs());
    let mut recorder = crate::site::Job::start(&words(&line));
    send(&recorder.address(), "--pattern --payload 2000 --packets 2000 --rate 100Mbps");
    let report = recorder.stop().expect(0).json();
    assert_eq!(report["recording"]["disks"].as_array().unwrap().len(), 2, "{report}");
    let found = run(&format!("ls --json --config {file}")).expect(0).json();
    assert_eq!(found[0]["scan"], "trial", "{found}");
    let checked = run(&format!("check trial --verify --json --config {file}")).expect(0).json();
    assert_eq!(number(&checked["datastreams"][0]["frames_seen"]), 2000, "{checked}");

    let shown = run(&format!("record --show-config --memory 1GiB --config {file}")).expect(0);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let from =
        |start: &str, place: &str| shown.lines().any(|line| line.starts_with(start) && line.ends_with(place));
    assert!(from("memory = \"1GiB\"", "# command line"), "{shown}");
    assert!(from("chunk = \"1MiB\"", &format!("# {file}:5")), "{shown}");
}

/// A mistake in the file that the environment names ends the command as wrong use, with the line.
#[test]
fn a_mistake_in_the_file_of_the_environment() {
    let site = Site::new(1);
    let file = site.disks[0].join("station.toml");
    std::fs::write(&file, "# ours\nmemroy = '8GiB'\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_skyhaul"));
    command.args(["ls", "--disk", "/tmp"]).env("SKYHAUL_CONFIG", &file).stdin(Stdio::null());
    let done = command.output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{}:2: unknown key `memroy`", file.display())), "{said}");
    assert!(said.contains("hint: the keys are ") && said.contains(" memory, "), "{said}");
}
