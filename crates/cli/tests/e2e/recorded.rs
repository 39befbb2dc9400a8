//! Heaps onto disks and back through the command: with loss, under kill -9, followed, damaged.
//!
//! Events onto disks and back through the command: with loss, from a capture, under kill -9, followed, sent on, looked at.

use crate::disks::tmpfs;
use crate::signals::kill;
use crate::site::{ANY, Done, Job, Site, all_acknowledged, counter, drops, number, run, send, sum, words};
use crate::spead::{capture_of, record as captured};
use serde_json::Value;
use skyhaul::core::pattern;
use skyhaul::recording::Record;
use skyhaul::wire::ejfat::Reassembly;
use std::path::{Path, PathBuf};

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

fn receiver() -> Job {
    Job::start(&words(&format!(
        "receive --format ejfat --verify --memory 256MiB --json --idle 3s --heap-timeout 2s {ANY}"
    )))
}

/// Send the recording to a receiver that verifies each event; its report, and what the sender said.
fn events_sent_again(site: &Site, line: &str) -> (Value, Done) {
    let mut receiver = receiver();
    let line = format!("send --json --scan trial --rate 300Mbps {line} --to {}", receiver.address());
    let sent = site.run(&line);
    (receiver.finish().json(), sent)
}

fn events(report: &Value, kind: &str) -> u64 {
    counter(&report["objects"]["events"][kind])
}

/// The recording holds what its recorder reported, and gives it again.
#[track_caller]
fn holds(site: &Site, report: &Value) {
    let check = site.check(0);
    let stored = &check["datastreams"][0]["heaps"];
    let (complete, incomplete) = (events(report, "complete"), events(report, "incomplete"));
    assert_eq!(number(&stored["count"]), complete + incomplete, "{check}\n{report}");
    assert_eq!(number(&stored["incomplete"]), incomplete, "{check}\n{report}");
    assert_eq!(number(&stored["missing_bytes"]), events(report, "missing_bytes"), "{check}\n{report}");
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
    let (again, sent) = events_sent_again(site, "--packet 8972");
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert_eq!(number(&again["pattern_errors"]), 0, "{again}");
    if drops(&again) == 0 {
        for kind in ["complete", "incomplete", "missing_bytes"] {
            assert_eq!(events(&again, kind), events(report, kind), "{kind}\n{again}");
        }
    }
}

#[test]
fn what_came_of_events_is_recorded_and_sent_again() {
    for (format, line) in [
        ("ejfat", "--event 100KiB --events 200 --mtu 9000"),
        (
            "auto",
            "--event 1B..60KiB --events 400 --senders 2 --tick 5 --faults loss=0.01,reorder=16,duplicate=0.01,seed=3",
        ),
        // Larger than a chunk.
        ("ejfat", "--event 3MiB --events 8 --mtu 9000 --faults loss=0.002,seed=5"),
    ] {
        let site = Site::new(2);
        let mut recorder = site.record(&format!("--format {format} --heap-window 1000 {ANY}"));
        send(&recorder.address(), &format!("--format ejfat --pattern --rate 200Mbps {line}"));
        recorder.drained();
        // What is under construction ends by its time.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let report = recorder.stop().json();
        all_acknowledged(&report);
        assert!(events(&report, "complete") > 0, "{report}");
        assert!(!line.contains("loss") || events(&report, "incomplete") > 0, "{report}");
        holds(&site, &report);
        let said = site.run("check trial --verify").told();
        assert!(said.contains(" events, ") && !said.contains("heap"), "{said}");
        let listed = site.run("ls").expect(0);
        assert!(String::from_utf8_lossy(&listed.stdout).contains("trial"), "{}", listed.stderr);
    }
}

#[test]
fn what_a_killed_recorder_of_events_acknowledged_is_read_byte_for_byte() {
    for round in 1..=4u64 {
        let start = |site: &Site| site.record(&format!("--format ejfat --flush 200ms {ANY}"));
        let line = "--format ejfat --pattern --event 1KiB..90KiB --rate 300Mbps";
        let (acknowledged, again) = killed(round, start, line, events_sent_again);
        if drops(&again) == 0 {
            assert!(events(&again, "complete") + events(&again, "incomplete") >= acknowledged, "{again}");
        }
    }
}

/// Disks of which one, or all, get really full: what finds no room is lost, and said to be; what is there is proven.
#[test]
fn events_on_disks_that_are_full() {
    let fill = |disk: &Path| {
        let mut file = std::fs::File::create(disk.join("other")).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 1 << 16]).is_ok() {}
    };
    for full in [1, 2] {
        let site = Site::new(2);
        let Some(_mounted) = tmpfs(&site) else { return };
        let mut recorder = site.record(&format!("--format ejfat {ANY}"));
        let to = recorder.address();
        site.disks[..full].iter().for_each(|disk| fill(disk));
        send(&to, "--format ejfat --pattern --event 100KiB --events 200 --rate 200Mbps");
        recorder.drained();
        let report = recorder.stop().json();
        let recording = &report["recording"];
        let told = recording["events"].as_array().unwrap();
        assert!(told.iter().any(|event| event["kind"] == "disk_full"), "{recording}");
        let stream = &recording["datastreams"][0];
        if full == 1 {
            all_acknowledged(&report);
            holds(&site, &report);
        } else {
            assert!(number(&stream["lost"]) > 0, "{recording}");
            let stored = number(&stream["submitted"]) - number(&stream["lost"]);
            assert_eq!(sum(&recording["disks"], "chunks"), stored, "{recording}");
            // Nothing is begun where nothing can be written.
            let again =
                site.run(&format!("record --scan other --memory 64MiB --chunk 1MiB --format ejfat {ANY}"));
            assert_eq!(again.code, Some(2), "{}", again.stderr);
            assert!(
                again.stderr.contains("No space left") && again.stderr.contains("hint: "),
                "{}",
                again.stderr
            );
        }
    }
}

#[test]
fn events_are_sent_on_as_they_come_and_while_they_are_recorded() {
    let (mut last, mut first, site) = (receiver(), None, Site::new(1));
    let line = format!(
        "receive --format ejfat --json --verify --memory 256MiB --idle 2s --wait 60s --forward {} {ANY}",
        last.address()
    );
    let to = first.insert(Job::start(&words(&line))).address();
    send(&to, "--format ejfat --pattern --event 1B..50KiB --events 200 --rate 100Mbps");
    let (first, last) = (first.unwrap().finish().json(), last.finish().json());
    assert_eq!((number(&first["pattern_errors"]), number(&last["pattern_errors"])), (0, 0));
    let forward = &first["forward"][0];
    let dropped = number(&forward["dropped_queue"]) + number(&forward["dropped_refused"]);
    if drops(&first) + drops(&last) + dropped == 0 {
        assert_eq!((events(&first, "complete"), events(&last, "complete")), (200, 200), "{first}\n{last}");
    }

    let mut recorder = site.record(&format!("--format ejfat --flush 300ms {ANY}"));
    let mut last = receiver();
    let to = last.address();
    let line = format!(
        "send --json --format ejfat --pattern --event 64KiB --events 200 --rate 60Mbps --to {}",
        recorder.address()
    );
    let sender = Job::start(&words(&line));
    let followed = site.start(&format!("send --json --scan trial --follow --rate 500Mbps --to {to}"));
    sender.finish().expect(0);
    let recorded = recorder.stop().json();
    followed.finish().expect(0);
    let report = last.finish().json();
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    if drops(&report) == 0 {
        assert_eq!(events(&report, "complete"), events(&recorded, "complete"), "{report}");
    }
}

/// A segment of an event of 3000 bytes.
fn segment(tick: u64, offset: u32) -> Vec<u8> {
    let like = Reassembly { version: 2, data_id: 4, length: 3000, tick, ..Reassembly::default() };
    let mut packet = Reassembly { offset, ..like }.write().to_vec();
    packet.extend_from_slice(pattern::slice(tick, u64::from(offset), 1000));
    packet
}

#[test]
fn a_capture_of_events_is_recorded_and_what_is_recorded_is_shown_packet_by_packet() {
    let site = Site::new(1);
    let directory = tempfile::tempdir().unwrap();
    // The middle of event 7 is missing.
    let order = [(7, 2000), (8, 0), (7, 0), (8, 2000), (8, 1000)];
    let packets: Vec<Vec<u8>> =
        order.iter().map(|(tick, offset)| captured(&segment(*tick, *offset))).collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let path = capture_of(directory.path(), &packets);
    let done = site.run(&format!(
        "record --scan trial --format ejfat --json --memory 128MiB --chunk 1MiB --pcap {path}"
    ));
    let report = done.json();
    assert_eq!((events(&report, "complete"), events(&report, "incomplete")), (1, 1), "{report}");
    holds(&site, &report);

    let file = directory.path().join("events");
    std::fs::write(&file, site.cat()).unwrap();
    let shown = run(&format!("inspect --json --format ejfat --count 9 {}", file.display())).expect(0).json();
    let field = |packet: &Value, section: &str, name: &str| {
        let fields = packet["fields"].as_array().unwrap().iter();
        let found = fields.filter(|field| field["section"] == section && field["name"] == name);
        found.map(|field| number(&field["value"])).next().unwrap()
    };
    let mut parts: Vec<(u64, u64, u64)> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|packet| {
            let length = field(packet, "load balancer", "slot_select") << 16
                | field(packet, "load balancer", "port_select");
            (field(packet, "reassembly", "tick"), field(packet, "reassembly", "offset"), length)
        })
        .collect();
    parts.sort_unstable();
    assert_eq!(parts, [(7, 0, 1000), (7, 2000, 1000), (8, 0, 3000)], "{shown}");
}
