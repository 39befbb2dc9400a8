//! Events as the command sends them: to its own receiver, and octet by octet.

use crate::site::{ANY, Job, drops, number, run, send, wait_for, words};
use serde_json::Value;
use skyhaul::wire::ejfat::{BalancerV2, BalancerV3, Reassembly, SyncMessage};
use std::net::UdpSocket;
use std::time::Duration;

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
