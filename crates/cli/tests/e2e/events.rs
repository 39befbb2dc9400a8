//! Heaps and events beside frames: recognised without being named, from many ports, sent on, and refused by address.

use crate::site::{ANY, Job, Site, drops, number, run, send, sum, wait_for, words};
use serde_json::Value;
use skyhaul::core::pattern;
use skyhaul::wire::ejfat::{BalancerV2, MAGIC, Reassembly};
use std::net::UdpSocket;

/// Bytes of an event, and of a segment but for the last.
pub(crate) const EVENT: u32 = 20_500;
const SEGMENT: u32 = 1000;

/// The segments of one event, with a balancer's header or without.
fn segments(data_id: u16, tick: u64, balanced: bool) -> Vec<Vec<u8>> {
    (0..EVENT)
        .step_by(SEGMENT as usize)
        .map(|offset| {
            let balancer =
                BalancerV2 { magic: MAGIC, version: 2, protocol: 1, tick, ..BalancerV2::default() };
            let mut packet = if balanced { balancer.write().to_vec() } else { Vec::new() };
            let head =
                Reassembly { version: 1, data_id, offset, length: EVENT, tick, ..Reassembly::default() };
            packet.extend(head.write());
            let start = packet.len();
            packet.resize(start + SEGMENT.min(EVENT - offset) as usize, 0);
            pattern::fill(tick, u64::from(offset), &mut packet[start..]);
            packet
        })
        .collect()
}

/// Send events of two sources from four ports of one sender, the segments of an event over all of them and out of order;
/// one segment of the last event does not go.
pub(crate) fn send_events(to: &str, events: u64) {
    let to = to.replace("udp://", "");
    let ports: Vec<UdpSocket> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for event in 0..events {
        // Ticks in steps, as clocks make them.
        let tick = 1_000_000 + event * 977;
        let both: Vec<_> = (0..2u16).flat_map(|source| segments(7 + source, tick, source == 1)).collect();
        let count = both.len();
        for n in 0..count {
            let at = (n * 17 + event as usize) % count;
            if event + 1 < events || at > 0 {
                ports[n % 4].send_to(&both[at], &to).unwrap();
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

#[test]
fn events_arrive_whole_from_many_ports_named_or_not() {
    for format in ["ejfat", "auto"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("events");
        let mut receiver = Job::start(&words(&format!(
            "receive --format {format} --json --verify --memory 128MiB --idle 1s --wait 60s --output-file {} {ANY}",
            file.display()
        )));
        send_events(&receiver.address(), 100);
        let report = receiver.finish().json();
        assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
        let events = &report["objects"]["events"];
        if drops(&report) == 0 {
            assert_eq!((number(&events["complete"]), number(&events["incomplete"])), (199, 1), "{report}");
            assert_eq!(number(&events["missing_bytes"]), u64::from(SEGMENT), "{report}");
            // Sources count their ticks, not the ports that they send from.
            assert_eq!((number(&events["missing"]), number(&events["unknown_senders"])), (0, 0), "{report}");
            assert_eq!(std::fs::metadata(&file).unwrap().len(), 199 * u64::from(EVENT));
        }
        assert_eq!(report["streams"].as_array().unwrap().len(), 0, "{report}");
    }
}

#[test]
fn heaps_and_frames_are_recognised_side_by_side() {
    let mut receiver = Job::start(&words(&format!(
        "receive --json --verify --memory 256MiB --idle 2s --wait 60s --stop-items never {ANY}"
    )));
    let to = receiver.address();
    std::thread::scope(|all| {
        all.spawn(|| send(&to, "--pattern --payload 5000 --packets 3000 --rate 100Mbps"));
        all.spawn(|| send(&to, "--format spead --pattern --heap-size 100KiB --heaps 150 --rate 100Mbps"));
        all.spawn(|| send_events(&to, 100));
    });
    let report = receiver.finish().json();
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    let complete = |what: &str| number(&report["objects"][what]["complete"]);
    if drops(&report) == 0 {
        assert_eq!((complete("heaps"), complete("events")), (150, 199), "{report}");
        assert_eq!(sum(&report["streams"], "placed"), 3000, "{report}");
    }
}

#[test]
fn a_recorder_that_was_told_nothing_records_heaps_beside_frames() {
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 512MiB --chunk 1MiB --stop-items never"));
    let to = recorder.address();
    let sent: Vec<Value> = std::thread::scope(|all| {
        let frames = all.spawn(|| send(&to, "--pattern --payload 5000 --packets 2000 --rate 100Mbps"));
        let heaps =
            all.spawn(|| send(&to, "--format spead --pattern --heap-size 100KiB --heaps 100 --rate 100Mbps"));
        [frames, heaps].map(|job| job.join().unwrap()).into()
    });
    recorder.drained();
    let report = recorder.stop().json();
    let check = site.check(0);
    let datastreams = check["datastreams"].as_array().unwrap();
    assert_eq!(datastreams.len(), 2, "{check}");
    let heaps = datastreams.iter().find(|stream| stream["heaps"].is_object()).unwrap();
    if drops(&report) == 0 {
        assert_eq!(number(&report["objects"]["heaps"]["complete"]), number(&sent[1]["heaps"]), "{report}");
        // Descriptors and the stop heap are heaps on disk.
        assert!(number(&heaps["heaps"]["count"]) >= number(&sent[1]["heaps"]), "{check}");
        assert_eq!(sum(&report["streams"], "placed"), number(&sent[0]["packets"]), "{report}");
    }
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
}

#[test]
fn heaps_are_sent_on_as_they_come() {
    let mut last = Job::start(&words(&format!(
        "receive --format spead --json --verify --memory 256MiB --wait 60s {ANY}"
    )));
    let mut first = Job::start(&words(&format!(
        "receive --json --verify --memory 256MiB --wait 60s --forward {} {ANY}",
        last.address()
    )));
    send(&first.address(), "--format spead --pattern --heap-size 100KiB --heaps 100 --rate 200Mbps");
    let (first, last) = (first.finish().json(), last.finish().json());
    let complete = |report: &Value| number(&report["objects"]["heaps"]["complete"]);
    assert_eq!((number(&first["pattern_errors"]), number(&last["pattern_errors"])), (0, 0));
    let forward = &first["forward"][0];
    let dropped = number(&forward["dropped_queue"]) + number(&forward["dropped_refused"]);
    if drops(&first) + drops(&last) + dropped == 0 {
        assert_eq!((complete(&first), complete(&last)), (100, 100), "{first}\n{last}");
        assert_eq!(number(&forward["frames"]), number(&first["packets"]), "{first}");
    }
}

#[test]
fn heaps_of_senders_that_are_not_allowed_are_refused() {
    for format in ["spead", "auto"] {
        let mut receiver = Job::start(&words(&format!(
            "receive --format {format} --json --memory 128MiB --from 10.1.2.3 {ANY}"
        )));
        let to = receiver.address();
        run(&format!("send --format spead --pattern --heap-size 10KiB --heaps 5 --rate 100Mbps --to {to}"));
        wait_for("the packets to be refused", || receiver.is_running().then_some(()));
        receiver.drained();
        let report = receiver.stop().json();
        assert!(number(&report["rejects"]["not_allowed"]) > 0, "{report}");
        assert!(
            report["objects"]["heaps"].is_null() || number(&report["objects"]["heaps"]["complete"]) == 0,
            "{report}"
        );
    }
}

#[test]
fn a_tcp_port_is_for_heaps_or_frames_as_its_first_bytes_say() {
    let start = || {
        Job::start(&words(
            "receive --json --verify --memory 128MiB --idle 1s --wait 60s --listen tcp://127.0.0.1:0",
        ))
    };
    for packet in ["heap", "8000"] {
        let mut receiver = start();
        let line = "--format spead --pattern --heap-size 3MiB --heaps 20";
        send(&receiver.address(), &format!("{line} --packet {packet}"));
        let report = receiver.finish().expect(0).json();
        assert_eq!(number(&report["objects"]["heaps"]["complete"]), 20, "{report}");
        assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    }
    let mut receiver = start();
    // Who says nothing decides nothing.
    let silent = std::net::TcpStream::connect(receiver.address().replace("tcp://", "")).unwrap();
    send(&receiver.address(), "--pattern --payload 5000 --packets 500 --rate 100Mbps");
    let report = receiver.finish().expect(0).json();
    drop(silent);
    assert_eq!((sum(&report["streams"], "placed"), number(&report["pattern_errors"])), (500, 0), "{report}");
}
