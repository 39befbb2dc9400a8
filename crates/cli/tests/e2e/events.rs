//! Heaps and events beside frames: recognised without being named, from many ports, sent on, and refused by address.
//!
//! Events as the command sends them: to its own receiver, and octet by octet.

use crate::site::{ANY, Job, Site, drops, number, run, send, sum, wait_for, words};
use serde_json::Value;
use skyhaul::core::pattern;
use skyhaul::wire::ejfat::{BalancerV2, BalancerV3, MAGIC, Reassembly, SyncMessage};
use std::net::UdpSocket;
use std::time::Duration;

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

/// `--idle` alone, with nothing that was ever accepted. What strays to the port ends nothing.
#[test]
fn a_stream_of_which_all_is_refused_ends_as_others_do() {
    let mut receiver =
        Job::start(&words(&format!("receive --format ejfat --json --memory 128MiB --idle 1s {ANY}")));
    let to = receiver.address().replace("udp://", "");
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let beyond_its_end = Reassembly { version: 1, offset: 900, length: 100, ..Reassembly::default() };
    let packet = [beyond_its_end.write().as_slice(), &[0; 50]].concat();
    let send = |count| {
        for _ in 0..count {
            sender.send_to(&packet, &to).unwrap();
        }
    };
    send(9);
    std::thread::sleep(Duration::from_secs(2));
    assert!(receiver.is_running(), "9 packets are no stream");
    send(200);
    wait_for("it to end by itself", || (!receiver.is_running()).then_some(()));
    let report = receiver.finish().expect(1).json();
    assert_eq!((report["ended"].as_str(), sum_of(&report["rejects"])), (Some("idle"), 209), "{report}");
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

/// Numbers of an object.
fn sum_of(object: &Value) -> u64 {
    object.as_object().unwrap().values().map(number).sum()
}

fn receiver() -> Job {
    Job::start(&words(&format!(
        "receive --format ejfat --json --verify --memory 256MiB --idle 1s --wait 60s {ANY}"
    )))
}

/// What the receiver has of events; nothing where the kernel dropped packets.
#[track_caller]
fn complete(receiver: Job) -> Option<(u64, u64)> {
    let report = receiver.finish().expect(0).json();
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    let events = &report["objects"]["events"];
    (drops(&report) == 0).then(|| (number(&events["complete"]), number(&events["incomplete"])))
}

#[test]
fn events_arrive_whole_in_packets_of_any_mtu() {
    for mtu in [1500, 9000, 65000] {
        let mut receiver = receiver();
        let to = receiver.address();
        let line = format!("--format ejfat --pattern --event 300KiB --events 40 --rate 400Mbps --mtu {mtu}");
        let report = send(&to, &line);
        assert_eq!(
            (number(&report["events"]), number(&report["payload_bytes"])),
            (40, 40 * 300 * 1024),
            "{report}"
        );
        let packets = (300u64 * 1024).div_ceil(mtu - 28 - 20) * 40;
        assert_eq!((number(&report["packets"]), report["syncs"].is_null()), (packets, true), "{report}");
        if let Some(events) = complete(receiver) {
            assert_eq!(events, (40, 0), "MTU {mtu}");
        }
    }
}

#[test]
fn events_of_mixed_sizes_from_several_sources_have_the_same_ticks() {
    let mut receiver = receiver();
    let to = receiver.address();
    let line = "--format ejfat --pattern --event 1B..200KiB --seed 5 --events 60 --senders 3 --data-id 7 --sockets 2 --rate 600Mbps --tick 1000 --tick-step 3";
    let reports = send(&to, line);
    let reports = reports.as_array().unwrap();
    assert_eq!(reports.len(), 3);
    for report in reports {
        assert_eq!((number(&report["ticks"][0]), number(&report["ticks"][1])), (1000, 1000 + 59 * 3));
        assert_eq!(report["payload_bytes"], reports[0]["payload_bytes"], "sizes follow from the seed");
    }
    if let Some(events) = complete(receiver) {
        assert_eq!(events, (180, 0));
    }
}

#[test]
fn files_are_sent_as_events() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b, out) = (directory.path().join("a"), directory.path().join("b"), directory.path().join("out"));
    let content: Vec<u8> = (0..70_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&a, &content).unwrap();
    std::fs::write(&b, b"second").unwrap();
    for (event, count) in [("", 2), ("--event 10000", 8)] {
        let mut receiver = Job::start(&words(&format!(
            "receive --format ejfat --json --memory 256MiB --idle 1s --wait 60s --output-file {} {ANY}",
            out.display()
        )));
        let to = receiver.address();
        let line =
            format!("--format ejfat --input {} --input {} {event} --rate 100Mbps", a.display(), b.display());
        let report = send(&to, &line);
        assert_eq!(number(&report["events"]), count, "{report}");
        let report = receiver.finish().expect(0).json();
        if drops(&report) == 0 {
            assert_eq!(std::fs::read(&out).unwrap(), [&content[..], b"second"].concat(), "{report}");
        }
        std::fs::remove_file(&out).unwrap();
    }
}

fn socket() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let at = socket.local_addr().unwrap().to_string();
    (socket, at)
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut packet = vec![0; 70_000];
    let bytes = socket.recv(&mut packet).unwrap();
    packet.truncate(bytes);
    packet
}

#[test]
fn a_balancer_gets_its_header_and_messages_and_no_one_the_token() {
    let ((data, data_at), (sync, sync_at)) = (socket(), socket());
    let uri = format!("ejfat://SECRET@127.0.0.1:1/lb/1?data={data_at}&sync={sync_at}");
    for (options, slot, entropy, version) in
        [("--entropy 513", 0, 513, 2), ("--lb-version 3 --entropy source", 0x1234, 9, 3)]
    {
        let line = "--format ejfat --pattern --event 100 --events 1 --tick 4660 --data-id 9 --warm-up 20ms --sync-period 5ms";
        let done = run(&format!("send --json --to {uri} {line} {options}")).expect(0);
        assert!(!done.stderr.contains("SECRET") && !String::from_utf8_lossy(&done.stdout).contains("SECRET"));
        let report = done.json();
        assert!(number(&report["syncs"]["sent"]) > 0, "{report}");
        let packet = receive(&data);
        let (balancer, rest) = BalancerV3::read(&packet).unwrap();
        assert_eq!(u16::from(BalancerV2::read(&packet).unwrap().0.version), version);
        assert_eq!(
            (balancer.magic, balancer.protocol, balancer.slot_select, balancer.port_select, balancer.tick),
            (0x4C42, 1, slot, entropy, 4660)
        );
        let (segment, payload) = Reassembly::read(rest).unwrap();
        let expected =
            Reassembly { version: 1, data_id: 9, length: 100, tick: 4660, ..Reassembly::default() };
        assert_eq!((segment, payload.len()), (expected, 100));
        let message = SyncMessage::parse(&receive(&sync)).unwrap();
        assert_eq!((message.source, message.tick), (9, 4660));
    }
    let malformed =
        run("send --format ejfat --pattern --events 1 --to ejfat://SECRET@127.0.0.1:1/?data=nowhere");
    let malformed = malformed.expect(2).stderr;
    assert!(
        malformed.contains("`nowhere` is no data address") && !malformed.contains("SECRET"),
        "{malformed}"
    );
    let mistyped =
        run("send --format ejfat --pattern --events 1 --to ejft://SECRET@127.0.0.1:1/").expect(2).stderr;
    assert!(mistyped.contains("ejfat://") && !mistyped.contains("SECRET"), "{mistyped}");
}

#[test]
fn an_interrupt_ends_it_with_a_report() {
    let (data, at) = socket();
    let sender = Job::start(&words(&format!(
        "send --format ejfat --pattern --event 10KiB --rate 10Mbps --json --to udp://{at}"
    )));
    receive(&data);
    sender.signal(rustix::process::Signal::INT);
    let report: Value = sender.finish().expect(0).json();
    assert!(number(&report["events"]) > 0 && report["error"].is_null(), "{report}");
    let first = number(&report["ticks"][0]);
    assert!(first > 1_600_000_000_000_000, "microseconds since 1970: {first}");
}

#[test]
fn events_pause_as_asked() {
    let (data, at) = socket();
    let line = "--format ejfat --pattern --event 100 --events 6 --delay 20ms --delay-every 2 --tick 0";
    let report = send(&format!("udp://{at}"), line);
    assert!(report["seconds"].as_f64().unwrap() >= 0.06, "{report}");
    let ticks: Vec<u64> = (0..6).map(|_| Reassembly::read(&receive(&data)).unwrap().0.tick).collect();
    assert_eq!(ticks, [0, 1, 2, 3, 4, 5]);
    wait_for("nothing more", || {
        data.set_nonblocking(true).unwrap();
        data.recv(&mut [0; 10]).is_err().then_some(())
    });
}

#[test]
fn ticks_are_built_from_the_events_of_several_sources() {
    let directory = tempfile::tempdir().unwrap();
    let [list, output] = ["list", "output"].map(|name| directory.path().join(name));
    for (build, whole, others) in [("5-7", 40, 0), ("5,6", 40, 40), ("any:3", 40, 0), ("5,6,9", 0, 40)] {
        // What an earlier run wrote stays where a later one writes nothing.
        let _ = std::fs::remove_file(&output);
        let mut receiver = Job::start(&words(&format!(
            "receive --format ejfat --json --verify --memory 256MiB --idle 1s --wait 60s --build {build} --build-timeout 300ms \
             --list {} --output-file {} {ANY}",
            list.display(),
            output.display()
        )));
        let line = "--format ejfat --pattern --event 1B..60KiB --seed 3 --events 40 --senders 3 --data-id 5 --rate 100Mbps --tick 9 --tick-step 5";
        let sent = send(&receiver.address(), line);
        let done = receiver.finish();
        let report = done.json();
        if drops(&report) > 0 {
            continue;
        }
        let ticks = &report["building"];
        let count = |name: &str| number(&ticks[name]);
        assert_eq!((count("whole"), count("partial")), (whole, 40 - whole), "{build}: {report}");
        assert_eq!(
            (count("other_sources"), count("late") + count("doubled")),
            (others, 0),
            "{build}: {report}"
        );
        assert_eq!(done.code, Some(i32::from(whole == 0)), "{build}: {}", done.stderr);
        let text = std::fs::read_to_string(&list).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 40, "{build}: {text}");
        let came = if build == "5-7" || build == "any:3" { "5+6+7" } else { "5+6" };
        assert!(lines.iter().all(|line| line[1] == came), "{build}: {text}");
        assert!(lines.iter().all(|line| (line[3] == "0") == (whole > 0)), "{build}: {text}");
        let one = number(&sent[0]["payload_bytes"]);
        let bytes: u64 = lines.iter().map(|line| line[2].parse::<u64>().unwrap()).sum();
        assert_eq!(bytes, one * came.split('+').count() as u64, "{build}");
        let written = std::fs::metadata(&output).unwrap().len();
        assert_eq!(written, if whole > 0 { bytes } else { 0 }, "{build}");
    }
    let done = run(&format!("receive --format spead --build 1,2 {ANY}")).expect(2);
    assert!(done.stderr.contains("--format ejfat"), "{}", done.stderr);
}
