//! SPEAD heaps through the command: every transport, what is lost on the way, many senders, and the memo's experiments.
//!
//! Heaps whose counters come again, captures that are not what they seem: what the command makes of them, and says.

use crate::site::{Done, Job, number, run, send, wait_for, words};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// A receiver on a port of the system's choice.
#[track_caller]
fn receive(line: &str) -> Job {
    Job::start(&words(&format!("receive --format spead --memory 256MiB --wait 60s --json {line}")))
}

/// Heaps of one kind in a receiver's report.
fn heaps(report: &Value, kind: &str) -> u64 {
    number(&report["objects"]["heaps"][kind])
}

/// Arrivals that the kernel dropped.
fn drops(report: &Value) -> u64 {
    report["sources"].as_array().unwrap().iter().map(|s| number(&s["socket_drops"])).sum()
}

/// Send pattern heaps to `listen` and have each proven.
#[track_caller]
fn carried(listen: &str, line: &str) -> Value {
    let mut receiver = receive(&format!("--verify --listen {listen}"));
    let sent = send(&receiver.address(), &format!("--format spead --pattern {line}"));
    let report = receiver.finish().expect(0).json();
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    if drops(&report) == 0 {
        assert_eq!(heaps(&report, "complete"), number(&sent["heaps"]), "{report}\n{sent}");
        assert_eq!(heaps(&report, "incomplete"), 0, "{report}");
    }
    report
}

#[test]
fn over_udp_in_every_shape() {
    for line in [
        "--heap-size 100KiB --heaps 50",
        "--heap-size 0 --heaps 20 --items 2",
        "--heap-size 200 --heaps 20 --flavour 8",
        "--heap-size 100001 --heaps 50 --packet 8972 --flavour 40",
        "--heap-size 4KiB --heaps 2000 --items 3 --repeat-pointers",
        "--heap-size 1KiB --heaps 3000 --full-packets --flavour 56",
        "--heap-size 1MiB --heaps 20 --packet mtu --first-heap 1000 --heap-step 16",
    ] {
        carried("udp://127.0.0.1:0", &format!("--rate 400Mbps {line}"));
    }
}

#[test]
fn over_tcp_as_packets_and_as_whole_heaps() {
    for line in [
        "--heap-size 1MiB --heaps 40",
        "--heap-size 4MiB --heaps 20 --packet heap",
        "--heap-size 1000 --heaps 5000 --packet heap --items 2",
    ] {
        let report = carried("tcp://127.0.0.1:0", line);
        assert_eq!(drops(&report), 0);
    }
}

#[test]
fn over_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        println!("SKIPPED: no IPv6 on loopback here (sysctl net.ipv6.conf.lo.disable_ipv6=0)");
        return;
    }
    carried("udp://[::1]:0", "--heap-size 64KiB --heaps 100 --rate 400Mbps");
}

/// Each sender counts its own heaps from 1: told apart by address, every one arrives.
#[test]
fn many_senders_into_one_stream() {
    let mut receiver =
        receive("--verify --by-sender --stop-items 4 --listen tcp://127.0.0.1:0 --heap-window 64");
    let done = run(&format!(
        "send --json --format spead --pattern --to {} --senders 4 --heap-size 50000 --heaps 100",
        receiver.address()
    ));
    assert_eq!(done.expect(0).json().as_array().unwrap().len(), 4);
    let report = receiver.finish().expect(0).json();
    assert_eq!((heaps(&report, "complete"), number(&report["pattern_errors"])), (400, 0), "{report}");
}

/// One stream whose heaps go to two receivers in turn.
#[test]
fn substreams_take_turns() {
    let mut receivers = [(); 2].map(|()| receive("--verify --listen udp://127.0.0.1:0"));
    let to: Vec<String> = receivers.iter_mut().map(Job::address).collect();
    run(&format!(
        "send --json --format spead --pattern --substreams --to {} --to {} --heap-size 30000 --heaps 100 --rate 400Mbps",
        to[0], to[1]
    ))
    .expect(0);
    for receiver in receivers {
        let report = receiver.finish().expect(0).json();
        assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
        assert!(heaps(&report, "complete") == 50 || drops(&report) > 0, "{report}");
    }
}

/// Nothing hangs: neither without a stop heap, nor with losses everywhere; every heap is told as it is.
#[test]
fn losses_are_told_and_a_lost_stop_hangs_nobody() {
    for seed in 1..=3 {
        let faults = format!("loss=0.02,reorder=20,duplicate=0.02,seed={seed}");
        let mut receiver =
            receive(&format!("--verify --idle 1s --faults {faults} --listen udp://127.0.0.1:0"));
        let sent = send(
            &receiver.address(),
            "--format spead --pattern --bare --heap-size 20KiB --heaps 400 --rate 300Mbps",
        );
        let report = receiver.finish().json();
        assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
        let seen = heaps(&report, "complete") + heaps(&report, "incomplete");
        assert!(heaps(&report, "incomplete") > 0 && seen <= number(&sent["heaps"]), "{report}");
        // Every heap is told, also those without their first packet, which alone names items.
        assert!(seen == number(&sent["heaps"]) || drops(&report) > 0, "{report}");
    }
}

#[test]
fn a_file_comes_out_as_it_went_in() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("in"), directory.path().join("out"));
    let bytes: Vec<u8> = (0..1_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&from, &bytes).unwrap();
    let mut receiver = receive(&format!("--listen tcp://127.0.0.1:0 --output-file {}", to.display()));
    send(&receiver.address(), &format!("--format spead --input {} --heap-size 64KiB", from.display()));
    receiver.finish().expect(0);
    assert!(std::fs::read(&to).unwrap() == bytes);
}

/// A rate nobody gave: the receiver's reports steer the sender.
#[test]
fn a_rate_found_by_feedback() {
    let mut receiver = receive("--verify --feedback --listen udp://127.0.0.1:0");
    let sent = send(
        &receiver.address(),
        "--format spead --pattern --heap-size 256KiB --rate auto --duration 3s --packet 8972",
    );
    let report = receiver.finish().json();
    assert!(number(&sent["rate"]["reports"]) > 3, "{sent}");
    assert!(heaps(&report, "complete") > 0 && number(&report["pattern_errors"]) == 0, "{report}");
}

/// Within the bounds that were given, whatever the receiver would take.
#[test]
fn a_rate_that_follows_within_bounds() {
    for (bounds, least, most) in [("-20Mbps", 0, 20_000_000), ("30Mbps-30Mbps", 30_000_000, 30_000_000)] {
        let mut receiver = receive("--feedback --listen udp://127.0.0.1:0");
        let line = format!("--format spead --heap-size 64KiB --rate auto:{bounds} --duration 1s");
        let sent = send(&receiver.address(), &line);
        receiver.finish();
        let rate = number(&sent["rate"]["bits_per_second"]);
        assert!((least..=most).contains(&rate) && number(&sent["rate"]["reports"]) > 3, "{sent}");
        assert!(sent["bits_per_second"].as_f64().unwrap() < 1.2 * most as f64, "{sent}");
    }
}

/// The same, searched once before the first heap, which trials leave no trace in.
#[test]
fn a_rate_searched_before() {
    let mut receiver = receive("--verify --feedback --listen udp://127.0.0.1:0");
    let sent = send(
        &receiver.address(),
        "--format spead --pattern --heap-size 64KiB --heaps 50 --rate search --packet 8972",
    );
    let report = receiver.finish().json();
    assert!(number(&sent["rate"]["bits_per_second"]) > 0, "{sent}");
    assert!(heaps(&report, "complete") <= 50 && number(&report["pattern_errors"]) == 0, "{report}");
    // No trial's heap is taken for one of another trial, or of the data.
    let refused = ["duplicate", "late"].map(|why| report["rejects"][why].as_u64().unwrap_or(0));
    assert_eq!((refused, report["counters"]["repeated_heaps"].as_u64()), ([0, 0], None), "{report}");
}

#[test]
fn a_receiver_that_does_not_answer_is_told() {
    let mut receiver = receive("--listen udp://127.0.0.1:0");
    let line = format!("send --format spead --to {} --rate search", receiver.address());
    assert!(run(&line).expect(2).stderr.contains("hint: run the receiver with --feedback"));
}

/// Neither a heap that would take a day at its rate nor a peer that takes nothing outlasts `--duration` for long, and the
/// receiver is still told the end.
#[test]
fn a_duration_ends_a_heap_that_does_not() {
    let mut receiver = receive("--listen udp://127.0.0.1:0");
    let line = "send --json --format spead --heap-size 16MiB --rate 20kbps --duration 100ms";
    let sent = run(&format!("{line} --to {}", receiver.address())).expect(1).json();
    assert!(sent["error"].as_str().unwrap().contains("cancelled"), "{sent}");
    let report = receiver.finish().expect(1).json();
    assert_eq!((report["ended"].as_str(), heaps(&report, "incomplete")), (Some("stop_item"), 1), "{report}");

    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = deaf.local_addr().unwrap();
    run(&format!("send --json --format spead --duration 100ms --to tcp://{to}")).expect(1).json();
}

/// What is refused is nothing that came; what is, has an end.
#[test]
fn garbage_does_not_stop_waiting() {
    let mut receiver =
        Job::start(&words("receive --format spead --json --wait 2s --listen udp://127.0.0.1:0"));
    let to = receiver.address().replace("udp://", "");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..100 {
        // A receiver that has already ended is no matter here.
        let _ = socket.send_to(b"no SPEAD in here", &to);
    }
    let done = receiver.finish().expect(1);
    assert_eq!(done.json()["ended"], "nothing");
}

/// Descriptors are no heaps of --heaps; and heaps that no memory would hold are a loss, with what helps.
#[test]
fn limits_count_data_and_are_told() {
    let mut receiver = receive("--heaps 10 --listen tcp://127.0.0.1:0");
    let line = "send --format spead --pattern --heap-size 1000 --heaps 10";
    run(&format!("{line} --to {}", receiver.address()));
    let report = receiver.finish().expect(0).json();
    assert_eq!((report["ended"].as_str(), heaps(&report, "complete")), (Some("limit"), 10), "{report}");

    let mut receiver =
        Job::start(&words("receive --format spead --largest-heap 1MiB --listen tcp://127.0.0.1:0"));
    let line = "send --format spead --heap-size 2MiB --heaps 2";
    run(&format!("{line} --to {}", receiver.address()));
    let done = receiver.finish().expect(1);
    assert!(done.said().contains("larger than --largest-heap"), "{}", done.said());
}

#[test]
fn ctrl_c_ends_a_search() {
    let mut receiver = receive("--feedback --listen udp://127.0.0.1:0");
    let line = format!("send --format spead --to {} --rate search", receiver.address());
    let sender = Job::start(&words(&line));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    sender.signal(rustix::process::Signal::INT);
    // One that went on with the search would end it, and send.
    assert!(sender.finish().expect(1).stderr.contains("interrupted"));
    receiver.signal(rustix::process::Signal::INT);
    receiver.finish();
}

#[test]
fn ctrl_c_ends_both_sides_with_their_reports() {
    let mut receiver = receive("--listen udp://127.0.0.1:0");
    let line = format!("send --json --format spead --to {} --rate 50Mbps", receiver.address());
    let sender = Job::start(&words(&line));
    wait_for("some packets", || {
        let table = std::fs::read_to_string("/proc/net/udp").unwrap();
        (table.lines().count() > 2).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    sender.signal(rustix::process::Signal::INT);
    let sent = sender.finish().expect(0).json();
    assert!(number(&sent["heaps"]) > 0, "{sent}");
    // The stop heap ends the receiver.
    let report = receiver.finish().expect(0).json();
    assert!(heaps(&report, "complete") > 0, "{report}");
}

/// Ctrl-C ends a benchmark with what it has measured, marked as such.
#[test]
fn ctrl_c_ends_a_benchmark_with_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().display();
    for line in [
        "bench --json --sizes 1472 --time 50ms --rounds 100000".to_owned(),
        format!(
            "bench --json --format spead --experiments light,pairs --time 50ms --rounds 100000 --report {report}"
        ),
    ] {
        let job = Job::start(&words(&line));
        std::thread::sleep(std::time::Duration::from_secs(2));
        job.signal(rustix::process::Signal::INT);
        let told = job.finish().expect(1).json();
        assert_eq!(told["interrupted"], true, "{told}");
    }
    let page = std::fs::read_to_string(directory.path().join("README.md")).unwrap();
    assert!(page.contains("INTERRUPTED"), "{page}");
}

#[test]
fn the_memo_in_a_moment() {
    let directory = tempfile::tempdir().unwrap();
    let done = run(&format!(
        "bench --format spead --time 50ms --rounds 1 --pairs 2 --rates 100Mbps,200Mbps --heap-size 256KiB --json --report {}",
        directory.path().display()
    ))
    .expect(0);
    let report = done.json();
    assert_eq!(report["light"].as_array().unwrap().len(), 12, "{report}");
    assert!(number(&report["receiver"][0]["figures"]["heaps"]) > 0);
    for name in ["README.md", "figures.json", "pairs.svg", "scaling.svg", "scaling-loss.svg"] {
        assert!(directory.path().join(name).metadata().unwrap().len() > 500, "{name}");
    }
}

#[test]
fn wrong_use_is_told_with_the_next_step() {
    for (line, hint) in [
        ("send --format spead --heaps 1 --to udp://127.0.0.1:9 --packet heap", "tcp"),
        ("send --format spead --to udp://127.0.0.1:9 --flavour 47", "flavour"),
        ("send --format spead --to udp://127.0.0.1:9 --rate 1Gbps,2Gbps", "rate"),
        ("send --format spead --to udp://127.0.0.1:9 --duration 1s", "--rate max"),
        ("send --format spead --to udp://127.0.0.1:9 --rate fast", "or max"),
        ("send --format spead --to tcp://127.0.0.1:9 --rate auto", "udp"),
        ("send --format vdif --pattern --to udp://127.0.0.1:9 --rate search", "spead"),
        ("send --format vdif --pattern --to udp://239.1.1.1:9 --rate auto", "one receiver"),
        ("send --format vdif --pattern --to tcp://127.0.0.1:9 --rate auto", "udp"),
        ("send --format spead --heaps 1 --to udp://127.0.0.1:9 --packet 70000", "65"),
        ("send --format spead --to udp://127.0.0.1:9 --packets 5", "--heaps"),
        ("send --format spead --heaps 1 --to udp://127.0.0.1:9 --items 99999", "--items"),
        (
            "send --format spead --heaps 1 --to udp://127.0.0.1:9 --items 300 --repeat-pointers",
            "at least 2456",
        ),
        ("send --format spead --to udp://239.1.1.1:9 --rate auto", "one receiver"),
        ("send --format spead --to udp://239.1.1.1:9 --rate search", "one receiver"),
        ("send --format spead --to udp://127.0.0.1:9 --rate auto:8Gbps-1Gbps", "auto:50mbps-8gbps"),
        ("receive --format spead --listen udp://239.1.1.1:0 --feedback", "an address of this host"),
        ("receive --format spead --listen tcp://127.0.0.1:0 --feedback", "omit --feedback"),
        ("send --format spead --heaps 1 --to udp://127.0.0.1:9 --substreams --senders 2", "--substreams"),
        ("send --format spead --to udp://127.0.0.1:9 --payload 8", "--heap-size"),
        ("send --to udp://127.0.0.1:9 --heap-size 8", "--format spead"),
        ("receive --format spead --listen udp://127.0.0.1:0 --window 3", "--heap-window"),
        ("bench --format spead --experiments link --report /proc/x", "choose another directory"),
        ("send --format spead --heaps 1 --to udp://127.0.0.1:9 --flavour 24 --heap-size 20MiB", "flavour"),
        ("receive --format spead --listen udp://127.0.0.1:0 --station Ef", "leave it out"),
        (
            "receive --format spead --listen udp://127.0.0.1:0 --by-sender --max-streams 9000000",
            "--max-streams",
        ),
        ("receive --format spead --listen udp://127.0.0.1:0 --feedback --faults loss=0.1", "netem"),
        ("receive --format spead --listen udp://127.0.0.1:0 --output-file /no/such/file", "directory"),
    ] {
        let done = run(line).expect(2);
        assert!(
            done.stderr.contains("hint:") && done.stderr.to_lowercase().contains(hint),
            "{line}: {}",
            done.stderr
        );
    }
}

fn receive_heaps(line: &str) -> Job {
    Job::start(&words(&format!("receive --format spead --memory 64MiB --wait 60s {line}")))
}

/// A hundred laps of a counter of 8 bits, within the time for which heaps are remembered.
#[test]
fn counters_of_eight_bits_come_round_and_every_heap_arrives() {
    for line in ["--heaps 25500", "--heaps 2000 --heap-step 16 --first-heap 3"] {
        let mut receiver = receive_heaps("--verify --json --remember 60s --listen tcp://127.0.0.1:0");
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
    let mut receiver = receive_heaps(&format!("--idle 2s --remember {remember} --listen udp://127.0.0.1:0"));
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
    let done = receive_heaps(&format!("--pcap {path}")).finish().expect(1);
    assert!(done.told().contains("2 truncated") && done.told().contains("tcpdump -s 0"), "{}", done.told());
}

#[test]
fn trains_in_captures_are_cut_and_what_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = capture(directory.path(), &record(&[&packet(6)[..], b"trailing"].concat()));
    // A packet that states another size than its heap is refused, and that is no success.
    let done = receive_heaps(&format!("--json --pcap {path}")).finish().expect(1);
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
    let done = receive_heaps(&format!("--json --pcap {path}")).finish().expect(1);
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
