//! Signals: requests to end, as supervisors, shells and lost terminals make them; a killed recorder, which loses at most what
//! no disk had acknowledged; a program that is stopped for a while (a paused guest, a suspended laptop) and continues.

use crate::probe::Server;
use crate::site::{ANY, Job, Site, all_acknowledged, drops, number, run, see, send, sum, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use skyhaul::recording::Record;
use std::collections::BTreeSet;
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

const PAYLOAD: usize = 2000;

/// Numbers of the chunks that the indexes acknowledge, whatever else they hold.
fn acknowledged(site: &Site, scan: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for disk in &site.disks {
        let bytes = std::fs::read(disk.join(scan).join(format!("{scan}.index"))).unwrap_or_default();
        for line in bytes.split(|&b| b == b'\n') {
            if let Some(Record::Chunk(chunk)) = Record::parse(line) {
                found.insert(chunk.number);
            }
        }
    }
    found
}

/// Numbers of the chunk files that are there.
fn files(site: &Site, scan: &str) -> BTreeSet<u32> {
    let of_disk = |disk: &Path| -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(disk.join(scan)) else { return Vec::new() };
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_prefix(&format!("{scan}."))?.parse().ok())
            .collect()
    };
    site.disks.iter().flat_map(|disk| of_disk(disk)).collect()
}

fn numbers(value: &Value) -> BTreeSet<u32> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// Kill the recorder of scan `trial`, to which `line` sends, as soon as at least `chunks` chunks are acknowledged and
/// `more` was done; what is there is nobody's any more then.
#[track_caller]
pub(crate) fn kill<T>(
    site: &Site,
    mut recorder: Job,
    line: &str,
    chunks: usize,
    more: impl FnOnce() -> T,
) -> T {
    let sender = Job::start(&words(&format!("send --json {line} --to {}", recorder.address())));
    wait_for("acknowledged chunks", || (acknowledged(site, "trial").len() >= chunks).then_some(()));
    let done = more();
    recorder.signal(rustix::process::Signal::KILL);
    assert_eq!(recorder.finish().code, None, "killed");
    site.released();
    sender.signal(rustix::process::Signal::INT);
    sender.finish();
    done
}

/// One recorder, killed `more` µs after at least `chunks` chunks were acknowledged.
fn round(seed: u64, chunks: usize, more: u64) {
    let site = Site::new(2);
    let recorder = site.record(&format!("{ANY} --disk-engine auto"));
    let line = format!("--pattern --payload {PAYLOAD} --rate 300Mbps");
    let before = kill(&site, recorder, &line, chunks, || {
        // Within the next chunks: each takes 28 ms. A yield to other tests may last any time.
        std::thread::sleep(Duration::from_micros(more));
        acknowledged(&site, "trial")
    });
    let after = acknowledged(&site, "trial");
    assert!(after.is_superset(&before), "seed {seed}: {before:?} {after:?}");
    examine(&site, &after, seed);
}

/// What is left proves itself, and names what it cannot prove.
fn examine(site: &Site, acknowledged: &BTreeSet<u32>, seed: u64) {
    let there = files(site, "trial");
    assert!(there.is_superset(acknowledged), "seed {seed}: acknowledged, and not there");
    let done = site.run("check trial --verify --json");
    let check = done.json();
    let stream = &check["datastreams"][0];
    let unproven = numbers(&stream["unacknowledged"]);
    assert_eq!(check["state"], "interrupted", "seed {seed}: {check}");
    assert_eq!(unproven, there.difference(acknowledged).copied().collect(), "seed {seed}: {check}");
    assert_eq!(sum(&check["datastreams"], "proven"), acknowledged.len() as u64, "seed {seed}: {check}");
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "seed {seed}: {check}");
    assert_eq!(numbers(&stream["damaged"]).len(), 0, "seed {seed}: {check}");
    let gaps = stream["gaps"].as_array().unwrap().iter().any(|gap| gap[0] != gap[1]);
    // Nobody can tell what the recorder would have done next.
    assert_eq!(done.code, Some(1), "seed {seed}: {check}");
    assert!(check["findings"].to_string().contains("did not end normally"), "seed {seed}: {check}");

    // Reading gives the acknowledged chunks, every byte of the pattern.
    let read = site.run("cat trial").expect(1);
    assert!(!see(&read.stdout, PAYLOAD + 32).times.is_empty(), "seed {seed}");
    assert!(read.stderr.contains("did not end normally"), "seed {seed}: {}", read.stderr);

    let repaired = site.run("check trial --verify --repair --json");
    let said = format!("{} chunk files added to the index", unproven.len());
    assert!(repaired.stderr.contains(&said), "seed {seed}: {}", repaired.stderr);
    let check = repaired.json();
    assert_eq!(numbers(&check["datastreams"][0]["unacknowledged"]).len(), 0, "seed {seed}: {check}");
    assert_eq!(sum(&check["datastreams"], "proven"), there.len() as u64, "seed {seed}: {check}");
    assert_eq!(repaired.code, Some(i32::from(gaps)), "seed {seed}: {check}");
    assert_eq!(site.run("cat trial").code, Some(i32::from(gaps)), "seed {seed}");
}

#[test]
fn ten_kills_at_random_moments() {
    let seed: u64 = std::env::var("SKYHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
    });
    eprintln!("SKYHAUL_SEED={seed}");
    let mut state = seed | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in 0..10 {
        let (chunks, more) = (1 + random(30) as usize, random(20_000));
        round(seed, chunks, more);
    }
}

/// A second recording under the same name gets one of its own.
#[test]
fn a_name_that_is_taken_gets_a_letter() {
    let site = Site::new(1);
    for _ in 0..2 {
        let mut recorder = site.record(ANY);
        let address = recorder.address();
        crate::site::send(&address, "--pattern --payload 2000 --packets 1000 --rate 200Mbps");
        recorder.stop().expect(0);
    }
    let list = site.run("ls --json").expect(0).json();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|s| s["scan"].as_str().unwrap()).collect();
    assert_eq!(names, ["trial", "triala"]);
    let refused = site.run(&format!("record --scan trial --exists error --memory 64MiB --chunk 1MiB {ANY}"));
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("trial") && refused.stderr.contains("error"), "{}", refused.stderr);
}

const PACKETS: u64 = 4000;

/// Stop the receiver in the middle of what is sent with these options, for longer than a disk may hang; the reports of the
/// sender and of the receiver, which ends by itself.
fn stopped(mut receiver: Job, what: &str) -> [Value; 2] {
    let address = receiver.address();
    let mut sender =
        Job::start(&words(&format!("send --json --pattern {what} --rate 20Mbps --to {address}")));
    std::thread::sleep(Duration::from_millis(800));
    assert!(sender.is_running());
    receiver.signal(Signal::STOP);
    wait_for("the sender to end", || (!sender.is_running()).then_some(()));
    std::thread::sleep(Duration::from_secs(6));
    receiver.signal(Signal::CONT);
    [sender.finish().expect(0).json(), receiver.finish().json()]
}

/// The same with frames: the report of the receiver.
fn paused(receiver: Job) -> Value {
    let [sent, report] = stopped(receiver, &format!("--payload 2000 --packets {PACKETS}"));
    assert_eq!(number(&sent["packets"]), PACKETS);
    let granted = number(&report["sources"][0]["buffer_granted"]);
    if granted < 32 << 20 {
        println!(
            "SKIPPED: in part: the socket buffer is {granted} bytes (sysctl -w net.core.rmem_max=67108864)"
        );
    } else {
        assert_eq!(drops(&report), 0, "{report}");
    }
    report
}

fn events<'a>(list: &'a Value, kind: &str) -> Vec<&'a str> {
    let all = list.as_array().unwrap().iter();
    all.filter(|event| event["kind"] == kind).map(|event| event["text"].as_str().unwrap()).collect()
}

#[test]
fn a_recorder_that_was_stopped_records_what_waited() {
    let site = Site::new(2);
    let report = paused(site.record(&format!("{ANY} --idle 2s")));
    let placed: u64 = sum(&report["streams"], "placed");
    assert_eq!(placed + drops(&report), PACKETS, "{report}");
    let said = events(&report["recording"]["events"], "paused");
    assert!(
        said.len() == 1 && said[0].contains("did not run for") && said[0].contains("dropped"),
        "{said:?}"
    );
    assert_eq!(events(&report["recording"]["events"], "disk_stalled"), [""; 0], "no disk was slow");
    if drops(&report) == 0 {
        site.check(0);
    }
}

#[test]
fn a_receiver_that_was_stopped_receives_what_waited() {
    let report =
        paused(Job::start(&words(&format!("receive --json --verify --idle 2s {ANY} --memory 128MiB"))));
    let placed: u64 = sum(&report["streams"], "placed");
    assert_eq!(placed + drops(&report), PACKETS, "{report}");
    assert_eq!(events(&report["events"], "paused").len(), 1);
    assert_eq!(number(&report["pattern_errors"]), 0);
}

/// What waits in the socket behind a pause is no silence: `--idle` does not end the stream before it is read.
#[test]
fn a_receiver_of_heaps_that_was_stopped_receives_what_waited() {
    const HEAPS: u64 = 400;
    let receiver = Job::start(&words(&format!(
        "receive --json --format spead --memory 256MiB --verify --idle 2s --stop-items never {ANY}"
    )));
    let [sent, report] = stopped(receiver, &format!("--format spead --heap-size 16KiB --heaps {HEAPS}"));
    assert_eq!(number(&sent["heaps"]), HEAPS);
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    let packets = number(&report["packets"]) + drops(&report);
    assert_eq!(packets, number(&sent["packets"]), "{report}");
    assert!(drops(&report) > 0 || number(&report["objects"]["heaps"]["complete"]) == HEAPS, "{report}");
    assert_eq!(report["ended"], "idle", "{report}");
    let counted = |name: &str| number(&report["counters"][name]);
    assert!(counted("pauses") >= 1 && counted("paused_ms") >= 5500, "{report}");
}

#[test]
fn a_recorder_of_heaps_that_was_stopped_calls_no_disk_slow() {
    let site = Site::new(2);
    let recorder = site.record(&format!("{ANY} --format spead --memory 256MiB --idle 2s --stop-items never"));
    let [sent, report] = stopped(recorder, "--format spead --heap-size 16KiB --heaps 400");
    assert_eq!(events(&report["recording"]["events"], "disk_stalled"), [""; 0], "{report}");
    let complete = number(&report["objects"]["heaps"]["complete"]);
    assert!(drops(&report) > 0 || complete == number(&sent["heaps"]), "{report}");
    let stored = site.run("check trial --verify --json").json();
    assert!(number(&stored["datastreams"][0]["heaps"]["count"]) >= complete, "{stored}");
}

#[test]
fn what_comes_before_the_start_is_counted_and_let_go() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let line = format!("receive --json {ANY} --memory 128MiB --idle 2s --start-at {}", now + 3);
    let receiver = Job::start(&crate::site::words(&line));
    let address = wait_for("the receiver to listen", || {
        let said = receiver.stderr();
        let line = said.lines().find(|line| line.starts_with("listening: "))?.to_owned();
        let (_, rest) = line.split_once(" from ")?;
        Some(rest.split(' ').next()?.to_owned())
    });
    let early = number(&send(&address, "--pattern --payload 2000 --packets 100 --rate 50Mbps")["packets"]);
    wait_for("the start", || {
        let past =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() > now + 3;
        past.then_some(())
    });
    let late = number(&send(&address, "--pattern --payload 2000 --packets 500 --rate 50Mbps")["packets"]);
    let report = receiver.finish().expect(0).json();
    assert_eq!(number(&report["stranger_rejects"]["before_start"]), early, "{report}");
    assert_eq!(sum(&report["streams"], "placed"), late);
}

/// The memory of 4 GiB takes seconds: a receiver that waited for it would not listen.
#[test]
fn it_listens_before_its_memory_is_there_and_mistakes_are_said_before_any_is_taken() {
    let site = Site::new(1);
    let mut recorder = site.start(&format!("record --scan trial --json {ANY} --memory 2GiB"));
    recorder.listening();
    let status = std::fs::read_to_string(format!("/proc/{}/status", recorder.pid())).unwrap();
    let resident = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert!(resident("VmRSS:") < 1 << 20, "{} KiB were there when it listened", resident("VmRSS:"));
    assert!(recorder.stderr().contains("preparing 2.15 GB of memory"), "{}", recorder.stderr());
    let address = recorder.address();
    send(&address, "--pattern --payload 2000 --packets 500 --rate 20Mbps");
    let report = recorder.stop().expect(0).json();
    assert_eq!(sum(&report["streams"], "placed"), 500);
    let disk = site.disks[0].display().to_string();
    for (line, said) in [
        (format!("record --scan a --disk /nonexist/x {ANY}"), "/nonexist/x"),
        (format!("record --scan a.b --disk {disk} {ANY}"), "a.b"),
        (format!("record --scan a --disk {disk} --listen udp://192.0.2.7:1"), "192.0.2.7"),
        (format!("record --scan a --disk {disk} --disk {disk}/. {ANY}"), "twice"),
        (format!("record --scan a --disk {disk} --memory 100TiB {ANY}"), "memory"),
        (format!("receive --format ejfat --station Ef {ANY}"), "--station"),
        (format!("receive --from 10.0.0.0/99 {ANY}"), "10.0.0.0/99"),
    ] {
        let done = run(&line).expect(2);
        assert!(done.stderr.contains(said) && done.stderr.contains("hint:"), "{line}: {}", done.stderr);
    }
    assert!(!site.disks[0].join("a").exists(), "nothing is left of it");
}
