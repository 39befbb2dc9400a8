//! Heaps whose counters come again, captures that are not what they seem: what the command makes of them, and says.

use crate::site::{Done, Job, number, run, send, words};
use std::path::Path;
use std::time::Duration;

fn receive(line: &str) -> Job {
    Job::start(&words(&format!("receive --format spead --memory 64MiB --wait 60s {line}")))
}

/// A hundred laps of a counter of 8 bits, within the time for which heaps are remembered.
#[test]
fn counters_of_eight_bits_come_round_and_every_heap_arrives() {
    for line in ["--heaps 25500", "--heaps 2000 --heap-step 16 --first-heap 3"] {
        let mut receiver = receive("--verify --json --remember 60s --listen tcp://127.0.0.1:0");
        let line = format!("--format spead --pattern --flavour 8 --heap-size 100 {line}");
        let sent = send(&receiver.address(), &line);
        let report = receiver.finish().expect(0).json();
        assert_eq!(number(&report["objects"]["heaps"]["complete"]), number(&sent["heaps"]), "{report}");
        assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    }
}

#[test]
fn counters_that_a_flavour_does_not_have_are_wrong_use() {
    let done = run(
        "send --format spead --heaps 1 --to udp://127.0.0.1:9 --flavour 8 --first-heap 255 --heap-size 8",
    )
    .expect(2);
    assert!(done.stderr.contains("--first-heap"), "{}", done.stderr);
}

/// Two runs of a sender that says neither that it begins nor that it ends.
fn two_runs(remember: &str) -> Done {
    let mut receiver = receive(&format!("--idle 2s --remember {remember} --listen udp://127.0.0.1:0"));
    let line = "--format spead --bare --heap-size 2000 --heaps 10";
    send(&receiver.address(), line);
    std::thread::sleep(Duration::from_millis(150));
    send(&receiver.address(), line);
    receiver.finish()
}

#[test]
fn a_sender_that_begins_anew_unsaid_is_no_clean_success() {
    let done = two_runs("60s").expect(1);
    assert!(done.told().contains("10 heaps refused: their counters were received again"), "{}", done.told());
    assert!(done.told().contains("  10 heaps complete"), "{}", done.told());
    let done = two_runs("0").expect(0);
    assert!(done.told().contains("  20 heaps complete"), "{}", done.told());
}

/// A packet that is a whole heap.
fn packet(counter: u64) -> Vec<u8> {
    let mut packet = b"\x53\x04\x02\x06\0\0\0\x05".to_vec();
    for (id, value) in [(1u64, counter), (2, 8), (3, 0), (4, 8)] {
        packet.extend((1 << 63 | id << 48 | value).to_be_bytes());
    }
    packet.extend((0x1000u64 << 48).to_be_bytes());
    packet.extend(counter.to_be_bytes());
    packet
}

/// A record of raw IPv4: a datagram of these bytes.
pub(crate) fn record(payload: &[u8]) -> Vec<u8> {
    let length = (28 + payload.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(length.to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend([7, 7, 8, 8]);
    ip.extend((length - 20).to_be_bytes());
    ip.extend([0, 0]);
    ip.extend(payload);
    let length = u32::from(length).to_le_bytes();
    [&[0; 8], &length[..], &length, &ip].concat()
}

/// Two packets, a train of three that was not cut, and whatever more.
fn capture(directory: &Path, more: &[u8]) -> String {
    let train = (3..6).flat_map(packet).collect::<Vec<u8>>();
    capture_of(directory, &[&record(&packet(1)), &record(&packet(2)), &record(&train), more])
}

pub(crate) fn capture_of(directory: &Path, records: &[&[u8]]) -> String {
    let path = directory.join("capture.pcap");
    let head = [0xA1B2_C3D4u32, 0x0004_0002, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    std::fs::write(&path, [head, records.concat()].concat()).unwrap();
    path.display().to_string()
}

#[test]
fn a_capture_of_packets_that_were_cut_short_is_no_success() {
    let directory = tempfile::tempdir().unwrap();
    // As `tcpdump -s 60` leaves a packet.
    let mut cut = record(&packet(1));
    cut[8..12].copy_from_slice(&60u32.to_le_bytes());
    cut.truncate(16 + 60);
    let path = capture_of(directory.path(), &[&cut, &cut]);
    let done = receive(&format!("--pcap {path}")).finish().expect(1);
    assert!(done.told().contains("2 truncated") && done.told().contains("tcpdump -s 0"), "{}", done.told());
}

#[test]
fn trains_in_captures_are_cut_and_what_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = capture(directory.path(), &record(&[&packet(6)[..], b"trailing"].concat()));
    // A packet that states another size than its heap is refused, and that is no success.
    let done = receive(&format!("--json --pcap {path}")).finish().expect(1);
    let report = done.json();
    assert_eq!(number(&report["objects"]["heaps"]["complete"]), 5, "{report}");
    assert_eq!(
        (number(&report["sources"][0]["cut_trains"]), number(&report["rejects"]["wrong_size"])),
        (1, 1)
    );
    let shown = run(&format!("inspect --json --format spead --count 100 {path}")).expect(1);
    assert!(shown.stderr.contains("1 record with several packets"), "{}", shown.stderr);
    let problems: Vec<_> =
        shown.json().as_array().unwrap().iter().map(|packet| packet["problem"].is_null()).collect();
    assert_eq!(problems, [true, true, true, true, true, false]);
}

#[test]
fn a_capture_that_ends_within_a_record_is_no_clean_success() {
    let directory = tempfile::tempdir().unwrap();
    let whole = record(&packet(6));
    let path = capture(directory.path(), &whole[..whole.len() - 1]);
    let done = receive(&format!("--json --pcap {path}")).finish().expect(1);
    let report = done.json();
    assert_eq!(
        (number(&report["objects"]["heaps"]["complete"]), number(&report["sources"][0]["cut_short"])),
        (5, 1)
    );
    assert!(report["errors"][0].as_str().unwrap().contains("the file ends within a record"), "{report}");
    // The same for other formats, and for who looks at packets.
    let done = run(&format!("receive --format vdif --pcap {path}")).expect(1);
    assert!(done.told().contains("the file ends within a record"), "{}", done.told());
    run(&format!("inspect --count 100 {path}")).expect(1);
}
