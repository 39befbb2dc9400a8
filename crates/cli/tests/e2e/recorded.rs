//! Heaps onto disks and back through the command: with loss, under kill -9, followed, damaged.

use crate::kill::kill;
use crate::site::{ANY, Done, Job, Site, all_acknowledged, drops, number, run, send, sum, words};
use serde_json::Value;
use skyhaul::recording::Record;
use std::path::PathBuf;

/// Record heaps as scan `trial`, with a report.
fn record(site: &Site, line: &str) -> Job {
    site.record(&format!("--format spead --stop-items never {ANY} {line}"))
}

/// Send the recording of heaps to a receiver that proves each; its end, and what the sender said.
fn sent_again(site: &Site, line: &str) -> (Value, Done) {
    let mut receiver = Job::start(&words(&format!(
        "receive --format spead --verify --memory 256MiB --json --stop-items never --idle 3s --heap-timeout 2s {ANY}"
    )));
    let line = format!("send --json --scan trial --rate 300Mbps {line} --to {}", receiver.address());
    let sent = site.run(&line);
    (receiver.finish().json(), sent)
}

fn heaps(report: &Value, kind: &str) -> u64 {
    number(&report["objects"]["heaps"][kind])
}

/// Chunk records of the scan that check, by its indexes.
pub(crate) fn records(site: &Site) -> Vec<skyhaul::recording::ChunkRecord> {
    let mut found = Vec::new();
    for disk in &site.disks {
        let bytes = std::fs::read(disk.join("trial/trial.index")).unwrap_or_default();
        found.extend(bytes.split(|&b| b == b'\n').filter_map(|line| match Record::parse(line)? {
            Record::Chunk(chunk) => Some(chunk),
            _ => None,
        }));
    }
    found.sort_by_key(|chunk| chunk.number);
    found
}

#[test]
fn what_came_of_heaps_is_recorded_and_sent_again() {
    for (heap, faults) in [
        ("--heap-size 100KiB --heaps 400", ""),
        ("--heap-size 100KiB --heaps 400", "--faults loss=0.01,reorder=64,duplicate=0.01,seed=3"),
        ("--heap-size 4KiB --heaps 4000 --items 3", "--faults loss=0.01,reorder=64,duplicate=0.01,seed=4"),
        // Larger than a chunk.
        ("--heap-size 3MiB --heaps 10 --packet 8972", "--faults loss=0.001,seed=5"),
    ] {
        let site = Site::new(2);
        let mut recorder = record(&site, faults);
        send(&recorder.address(), &format!("--format spead --pattern --rate 200Mbps {heap}"));
        recorder.drained();
        // What is under construction ends by its time.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let done = recorder.stop();
        let report = done.json();
        let is_whole = faults.is_empty() && drops(&report) == 0;
        assert_eq!(done.code, Some(i32::from(!is_whole)), "{report}");
        all_acknowledged(&report);

        let check = site.check(0);
        let stored = &check["datastreams"][0]["heaps"];
        // The descriptors' heap is recorded as well, and that of the stop item.
        let own = number(&stored["count"]) - heaps(&report, "complete") - heaps(&report, "incomplete");
        assert!(own <= 2, "{check}\n{report}");
        assert_eq!(number(&stored["incomplete"]), heaps(&report, "incomplete"), "{check}\n{report}");
        assert_eq!(number(&stored["missing_bytes"]), heaps(&report, "missing_bytes"), "{check}\n{report}");
        assert!(is_whole || number(&stored["missing_bytes"]) > 0, "{check}");

        let (again, sent) = sent_again(&site, "--packet 8972");
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert_eq!(number(&again["pattern_errors"]), 0, "{again}");
        if drops(&again) == 0 {
            for kind in ["complete", "incomplete", "missing_bytes"] {
                assert_eq!(heaps(&again, kind), heaps(&report, kind), "{kind} {heap} {faults}\n{again}");
            }
        }
    }
}

/// Kill the recorder that `start` starts once it has acknowledged some chunks, while `line` sends to it: what it acknowledged
/// is proven and sent again as it came. The number of heaps or events acknowledged, and what the receiver of all says.
#[track_caller]
pub(crate) fn killed(
    round: u64,
    start: impl Fn(&Site) -> Job,
    line: &str,
    sent_again: impl Fn(&Site, &str) -> (Value, Done),
) -> (u64, Value) {
    let site = Site::new(2);
    let pause = || std::thread::sleep(std::time::Duration::from_micros(977 * round));
    kill(&site, start(&site), line, 3 * round as usize, pause);
    let acknowledged = records(&site).iter().map(|chunk| chunk.meta.heaps.as_ref().unwrap().count).sum();

    let check = site.run("check trial --verify --json").json();
    assert_eq!(check["state"], "interrupted", "{check}");
    assert_eq!(sum(&check["datastreams"], "proven"), records(&site).len() as u64, "{check}");
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
    assert_eq!(check["datastreams"][0]["damaged"], Value::Array(vec![]), "{check}");

    let (again, sent) = sent_again(&site, "--packet 8972");
    assert_eq!(sent.code, Some(1), "nobody can tell what followed: {}", sent.stderr);
    assert_eq!(number(&again["pattern_errors"]), 0, "{again}");
    (acknowledged, again)
}

#[test]
fn what_a_killed_recorder_of_heaps_acknowledged_is_read_byte_for_byte() {
    for round in 1..=10u64 {
        let line = "--format spead --pattern --heap-size 50KiB --rate 300Mbps";
        let (acknowledged, again) = killed(round, |site| record(site, "--flush 200ms"), line, sent_again);
        if drops(&again) == 0 {
            // The heap of the descriptors is none of data.
            assert!(heaps(&again, "complete") + heaps(&again, "incomplete") + 1 >= acknowledged, "{again}");
        }
    }
}

#[test]
fn a_recording_of_heaps_is_sent_on_while_it_is_made() {
    let site = Site::new(2);
    let mut recorder = record(&site, "--flush 300ms");
    let mut receiver = Job::start(&words(&format!(
        "receive --format spead --verify --memory 256MiB --json --stop-items never --idle 4s {ANY}"
    )));
    let to = receiver.address();
    let sender = Job::start(&words(&format!(
        "send --json --format spead --pattern --heap-size 64KiB --heaps 300 --rate 60Mbps --to {}",
        recorder.address()
    )));
    let followed = site.start(&format!("send --json --scan trial --follow --rate 500Mbps --to {to}"));
    sender.finish().expect(0);
    recorder.drained();
    recorder.stop();
    followed.finish().expect(0);
    let report = receiver.finish().json();
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    assert!(drops(&report) > 0 || heaps(&report, "complete") == 300, "{report}");
}

#[test]
fn a_damaged_chunk_of_heaps_is_named_and_the_others_are_given() {
    let site = Site::new(2);
    let mut recorder = record(&site, "");
    send(
        &recorder.address(),
        "--format spead --pattern --heap-size 100KiB --heaps 200 --rate 200Mbps --bare",
    );
    recorder.stop().expect(0);
    let damaged = records(&site)[4].clone();
    let path: PathBuf = site
        .disks
        .iter()
        .map(|disk| disk.join(format!("trial/trial.{:08}", damaged.number)))
        .find(|path| path.exists())
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    site.check(1);
    let whole: u64 = records(&site).iter().map(|chunk| chunk.bytes).sum();
    for fill in ["", "--fill"] {
        let read = site.run(&format!("cat trial {fill}")).expect(1);
        assert!(read.stderr.contains("chunk 4"), "{}", read.stderr);
        assert_eq!(read.stdout.len() as u64, whole - damaged.bytes, "nothing stands in its place");
    }
    let (again, sent) = sent_again(&site, "");
    assert_eq!(sent.code, Some(1), "{}", sent.stderr);
    assert_eq!(number(&again["pattern_errors"]), 0, "{again}");
    let lost = damaged.meta.heaps.unwrap().count;
    assert!(drops(&again) > 0 || heaps(&again, "complete") == 200 - lost, "{again}");
}

#[test]
fn options_for_frames_are_wrong_use() {
    for (line, told) in [("--window 4", "--heap-window"), ("--no-fill", "gaps in heaps")] {
        let done = run(&format!("record --format spead --scan x --disk /tmp {ANY} {line}")).expect(2);
        assert!(done.stderr.contains("hint: ") && done.stderr.contains(told), "{}", done.stderr);
    }
}
