//! A program that is stopped for a while (a paused guest, a suspended laptop) takes up where the socket has it.

use crate::site::{ANY, Job, Site, drops, number, run, send, sum, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

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
