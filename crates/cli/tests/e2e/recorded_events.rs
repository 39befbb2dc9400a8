//! Events onto disks and back through the command: with loss, from a capture, under kill -9, followed, sent on, looked at.

use crate::disks::tmpfs;
use crate::heaps::{capture_of, record as captured};
use crate::recorded::killed;
use crate::site::{ANY, Done, Job, Site, all_acknowledged, counter, drops, number, run, send, sum, words};
use serde_json::Value;
use skyhaul::core::pattern;
use skyhaul::wire::ejfat::Reassembly;
use std::path::Path;

fn receiver() -> Job {
    Job::start(&words(&format!(
        "receive --format ejfat --verify --memory 256MiB --json --idle 3s --heap-timeout 2s {ANY}"
    )))
}

/// Send the recording to a receiver that verifies each event; its report, and what the sender said.
fn sent_again(site: &Site, line: &str) -> (Value, Done) {
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
    let (again, sent) = sent_again(site, "--packet 8972");
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
        let (acknowledged, again) = killed(round, start, line, sent_again);
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
