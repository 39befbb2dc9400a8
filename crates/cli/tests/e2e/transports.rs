//! Every way in and on: TCP, IPv6, multicast, formats without sequence numbers, what is kept.
//!
//! Many streams at once: recorded, sent on and read back while they come.

use crate::site::{
    ANY, Job, Site, all_acknowledged, drops, halves, mark5b, number, numbered, refused, run, see, send, sum,
    vdif, wait_for, words,
};
use serde_json::Value;
use skyhaul::wire::Order;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};

/// One stream: all that was sent is in place, but for what the kernel dropped.
#[track_caller]
fn one_whole_stream(report: &Value, sent: u64) {
    let streams = report["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 1, "{report}");
    assert_eq!(refused(&streams[0]), 0, "{}", streams[0]);
    assert_eq!(number(&streams[0]["placed"]) + drops(report), sent, "{report}");
    assert!(number(&streams[0]["lost"]) <= drops(report), "{report}");
    all_acknowledged(report);
}

/// Record `line` while `sent` is sent to it with `skyhaul send`, and prove it.
#[track_caller]
fn carried(listen: &str, line: &str) -> (Site, Value) {
    let site = Site::new(1);
    let mut recorder = site.record(listen);
    let sent = send(&recorder.address(), &format!("--pattern --payload 2000 --rate 200Mbps {line}"));
    recorder.drained();
    let report = recorder.stop().json();
    one_whole_stream(&report, number(&sent["packets"]));
    (site, report)
}

#[track_caller]
fn proven(site: &Site, report: &Value) {
    assert_eq!(see(&site.cat(), 2032).good, sum(&report["streams"], "placed"));
    assert_eq!(sum(&site.check(0)["datastreams"], "illegal_frames"), 0);
}

#[test]
fn over_tcp() {
    let (site, report) = carried("--listen tcp://127.0.0.1:0", "--packets 6000");
    proven(&site, &report);
    assert_eq!(drops(&report), 0);
}

#[test]
fn frames_end_with_their_connections_too() {
    for format in ["auto", "vdif"] {
        let line =
            format!("receive --json --format {format} --end-with-connections --listen tcp://127.0.0.1:0");
        let mut receiver = Job::start(&words(&line));
        let sent = send(&receiver.address(), "--pattern --payload 2000 --rate 200Mbps --packets 600");
        // Nothing else ends it: it has no --idle.
        let report = receiver.finish().expect(0).json();
        assert_eq!(number(&report["streams"][0]["placed"]), number(&sent["packets"]), "{report}");
        assert_eq!(number(&sent["packets"]), 600);
    }
}

#[test]
fn over_udp_and_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: no IPv6 on loopback here");
        return;
    }
    let (site, report) = carried("--listen udp://[::1]:0", "--packets 4000");
    proven(&site, &report);
    assert!(report["streams"][0]["sender"].as_str().unwrap().starts_with("[::1]:"), "{report}");
}

#[test]
fn over_multicast() {
    let site = Site::new(1);
    let mut recorder = site.record("--listen udp://239.255.77.7:0?iface=lo");
    let mut address = None;
    wait_for("the receiver, or its refusal", || {
        if !recorder.is_running() {
            return Some(());
        }
        address = recorder.stderr().contains("recording ").then(|| recorder.address());
        address.as_ref().map(|_| ())
    });
    let Some(address) = address else {
        eprintln!("SKIPPED: no multicast on loopback here: {}", recorder.stderr());
        return;
    };
    let sent = send(&address, "--pattern --payload 2000 --rate 200Mbps --packets 4000");
    recorder.drained();
    let report = recorder.stop().json();
    one_whole_stream(&report, number(&sent["packets"]));
    proven(&site, &report);
}

#[test]
fn big_endian_sequence_numbers() {
    let (site, report) = carried(ANY, "--packets 4000 --sequence big --first 77");
    assert!(report["streams"][0]["format"].as_str().unwrap().contains("big-endian"), "{report}");
    proven(&site, &report);
}

/// Placed by time: the frame rate is given, or told by the header.
#[test]
fn frames_without_sequence_numbers() {
    for (listen, line) in [
        (format!("{ANY} --frame-rate 2000"), "--sequence none --packets 6000 --frame-rate 2000"),
        (ANY.to_owned(), "--sequence none --packets 6000 --frame-rate 2000"),
        (format!("{ANY} --place time"), "--packets 6000 --frame-rate 2000 --first 5"),
        (format!("{ANY} --frame-rate 1000"), "--sequence none --packets 6000 --frame-rate 1000 --threads 3"),
    ] {
        let (site, report) = carried(&listen, line);
        proven(&site, &report);
    }
}

/// The same where nothing tells the rate: EDV 0 has no rate in its header.
#[test]
fn frames_by_time_at_an_unknown_rate() {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    let socket = socket_to(&recorder.address());
    let second = 1_790_000_000;
    for n in 0..5000u32 {
        // Some are lost, one of them the first of a second.
        if n % 100 != 50 && n != 2000 {
            socket.send(&vdif(second + i64::from(n / 1000), n % 1000, 0, 2000)).unwrap();
        }
        breathe(n);
    }
    recorder.drained();
    let report = recorder.stop().json();
    let stream = &report["streams"][0];
    assert_eq!(refused(stream), 0, "{stream}");
    assert_eq!(number(&stream["placed"]) + drops(&report), 5000 - 50 - 1, "{stream}");
    let lost = number(&stream["lost"]);
    assert!((50..=51 + drops(&report)).contains(&lost), "{stream}");
    proven(&site, &report);
}

fn socket_to(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", crate::site::port(address))).unwrap();
    socket
}

/// About 200 Mb/s of small packets, so that ordinary socket buffers hold them.
fn breathe(n: u32) {
    if n.is_multiple_of(10) {
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
}

/// Send these datagrams and record them; the report and the bytes of the stream.
fn recorded(line: &str, packets: &[Vec<u8>]) -> (Site, Value) {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} {line}"));
    let socket = socket_to(&recorder.address());
    for (n, packet) in packets.iter().enumerate() {
        socket.send(packet).unwrap();
        breathe(n as u32 * 5);
    }
    recorder.drained();
    let report = recorder.stop().json();
    one_whole_stream(&report, packets.len() as u64);
    (site, report)
}

fn mark5b_frames(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|n| mark5b(987, 80_000 + n / 800, n % 800, 800)).collect()
}

/// What stands in the place of frames that the kernel dropped is fill; all else is what was sent.
#[track_caller]
fn same_frames(site: &Site, frames: &[Vec<u8>], dropped: u64) {
    let read = site.cat();
    if dropped == 0 {
        assert!(read == frames.concat(), "{} bytes of {}", read.len(), frames.concat().len());
    }
}

#[test]
fn mark5b_frames_and_halves() {
    let frames = mark5b_frames(1700);
    let packets: Vec<_> = (0..).zip(&frames).map(|(n, f)| numbered(500 + n, Order::Little, f)).collect();
    let (site, report) = recorded("--format mark5b", &packets);
    same_frames(&site, &frames, drops(&report));
    let (site, report) = recorded("", &packets);
    same_frames(&site, &frames, drops(&report));
    assert!(report["streams"][0]["format"].as_str().unwrap().contains("mark5b"), "{report}");

    let packets: Vec<_> = (0..).zip(&frames).flat_map(|(n, frame)| halves(901 + 2 * n, frame)).collect();
    let (site, report) = recorded("", &packets);
    same_frames(&site, &frames, drops(&report));
    assert!(report["streams"][0]["format"].as_str().unwrap().contains("fila10g"), "{report}");
}

#[test]
fn mark5b_by_time() {
    let frames = mark5b_frames(1700);
    for line in ["--frame-rate 800", ""] {
        let (site, report) = recorded(line, &frames);
        same_frames(&site, &frames, drops(&report));
    }
}

#[test]
fn what_is_kept_of_a_packet() {
    let packets: Vec<_> =
        (0..2000u64).map(|n| numbered(n, Order::Little, &vdif(1_790_000_000, n as u32, 0, 2000))).collect();
    for (line, skip) in [("--keep packet", 0), ("--keep frame", 8), ("--strip 40", 40)] {
        let (site, report) = recorded(line, &packets);
        if drops(&report) == 0 {
            let want: Vec<u8> = packets.iter().flat_map(|packet| packet[skip..].to_vec()).collect();
            assert!(site.cat() == want, "{line}");
        }
        assert_eq!(number(&report["streams"][0]["frame_bytes"]), 2040 - skip as u64);
        site.check(0);
    }
}

#[test]
fn only_some_threads() {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} --place time --frame-rate 1000 --threads 0,2-3"));
    let sent = send(
        &recorder.address(),
        "--pattern --payload 2000 --threads 5 --frame-rate 1000 --packets 6000 --rate 200Mbps",
    );
    recorder.drained();
    let report = recorder.stop().json();
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["packets"]) + drops(&report), number(&sent["packets"]));
    let unknown = stream["rejects"]["unknown_thread"].as_u64().unwrap_or(0);
    assert_eq!(refused(stream), unknown, "{stream}");
    assert!(unknown.abs_diff(2400) <= drops(&report), "{stream}");
    let seen = see(&site.cat(), 2032);
    assert_eq!(seen.good, number(&stream["placed"]));
    assert!(seen.times.iter().all(|&(_, _, thread)| [0, 2, 3].contains(&thread)));
}

#[test]
fn several_addresses_and_several_threads_each() {
    let site = Site::new(2);
    let listen = format!("{ANY} {ANY} --listen tcp://127.0.0.1:0 --receive-threads 2");
    let mut recorder = site.record(&listen);
    let addresses: Vec<String> = recorder.listening();
    let unique: std::collections::BTreeSet<&String> = addresses.iter().collect();
    assert_eq!((addresses.len(), unique.len()), (5, 3), "{addresses:?}");
    let senders: Vec<Job> = unique
        .iter()
        .map(|to| {
            let line = "send --json --pattern --payload 2000 --packets 2000 --rate 80Mbps --senders 4 --to";
            Job::start(&words(&format!("{line} {to}")))
        })
        .collect();
    let sent: u64 = senders.into_iter().map(|job| sum(&job.finish().expect(0).json(), "packets")).sum();
    recorder.drained();
    let report = recorder.stop().json();
    assert_eq!(report["streams"].as_array().unwrap().len(), 12);
    assert_eq!(sum(&report["streams"], "placed") + drops(&report), sent);
    let ids: std::collections::BTreeSet<u64> =
        report["streams"].as_array().unwrap().iter().map(|s| number(&s["id"])).collect();
    assert_eq!(ids, (0..12).collect(), "each stream has a number of its own");
    all_acknowledged(&report);
    site.check(0);
}

/// What is sent on over TCP arrives whole, each stream on a connection of its own.
#[test]
fn sent_on_over_tcp() {
    let there = Site::new(1);
    let mut second = there.record("--listen tcp://127.0.0.1:0");
    let onward = second.address();
    let site = Site::new(1);
    let mut first = site.record(&format!("{ANY} --forward {onward}"));
    let sent = send(&first.address(), "--pattern --payload 2000 --packets 3000 --rate 150Mbps --senders 3");
    first.drained();
    let report = first.stop().json();
    let forward = &report["forward"][0];
    let kept = sum(&report["streams"], "placed");
    let withheld = number(&forward["dropped_queue"]) + number(&forward["dropped_refused"]);
    assert_eq!(kept + drops(&report), sum(&sent, "packets"));
    assert_eq!(number(&forward["frames"]) + withheld, kept, "{forward}");
    let arrived = second.stop().json();
    assert_eq!(arrived["streams"].as_array().unwrap().len(), 3, "{arrived}");
    assert_eq!(sum(&arrived["streams"], "placed"), number(&forward["frames"]), "{forward} {arrived}");
    assert_eq!(sum(&there.check(0)["datastreams"], "illegal_frames"), 0);
}

/// Two peers: one never reads, the other hangs up again and again. Neither costs the recording a frame.
#[test]
fn peers_that_do_not_read_or_hang_up() {
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = |listener: &TcpListener| format!("--forward tcp://{}", listener.local_addr().unwrap());
    let site = Site::new(1);
    let (to_deaf, to_rude) = (at(&deaf), at(&rude));
    std::thread::spawn(move || {
        // Takes a little, and closes.
        while let Ok((mut peer, _)) = rude.accept() {
            let _ = peer.read(&mut [0; 4096]);
        }
    });
    let mut recorder = site.record(&format!("{ANY} {to_deaf} {to_rude}"));
    // More than the pool and the sockets' buffers hold together.
    let sent = send(&recorder.address(), "--pattern --payload 8000 --packets 25000 --rate 400Mbps");
    recorder.drained();
    let report = recorder.stop().json();
    drop(deaf);
    one_whole_stream(&report, number(&sent["packets"]));
    for forward in report["forward"].as_array().unwrap() {
        let withheld = number(&forward["dropped_queue"]) + number(&forward["dropped_refused"]);
        assert!(withheld > 0, "{forward}");
        assert!(number(&forward["frames"]) + withheld <= number(&sent["packets"]), "{forward}");
    }
    let seen = see(&site.cat(), 8032);
    assert_eq!(seen.good, sum(&report["streams"], "placed"));
}

/// A recording can be sent again, and is then the same recording.
#[test]
fn a_recording_is_sent_again() {
    let first = Site::new(1);
    let mut recorder = first.record(ANY);
    send(
        &recorder.address(),
        "--pattern --payload 2000 --rate 200Mbps --packets 3000 --faults loss=0.02,seed=4",
    );
    let report = recorder.stop().json();
    let placed = sum(&report["streams"], "placed");
    assert!(number(&report["streams"][0]["lost"]) > 30, "{report}");
    let again = Site::new(1);
    let mut recorder = again.record(ANY);
    let line = format!("send --json --scan trial --rate 200Mbps --to {}", recorder.address());
    let mut all = words(&line);
    all.extend(first.disk_words());
    Job::start(&all).finish().expect(0);
    recorder.drained();
    let report = recorder.stop().json();
    if drops(&report) == 0 {
        assert!(first.cat() == again.cat());
    }
    assert!(see(&again.cat(), 2032).good + drops(&report) >= placed);
    let wrong = run("send --to udp://127.0.0.1:9 --scan trial");
    assert_eq!(wrong.code, Some(2));
}

/// A rate that nobody gave: the receiver's reports control the sender of frames, too.
#[test]
fn frames_follow_the_receivers_feedback() {
    for (rate, most) in [("auto", f64::MAX), ("auto:10Mbps-20Mbps", 24e6)] {
        let mut receiver =
            Job::start(&words("receive --json --feedback --idle 2s --wait 60s --listen udp://127.0.0.1:0"));
        let sent =
            send(&receiver.address(), &format!("--pattern --payload 8000 --rate {rate} --duration 1500ms"));
        let report = receiver.finish().json();
        assert!(number(&sent["rate"]["reports"]) > 3, "{sent}");
        assert!(sent["bits_per_second"].as_f64().unwrap() < most, "{sent}");
        let stream = &report["streams"][0];
        assert_eq!(number(&stream["placed"]) + number(&stream["lost"]), number(&sent["packets"]), "{report}");
    }
}

/// A peer that accepts a connection and reads nothing does not hold up the end.
#[test]
fn a_peer_that_reads_nothing_does_not_hold_up_frames() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let line = format!("send --json --pattern --rate max --duration 500ms --to tcp://{to}");
    let report = run(&line).expect(1).json();
    assert!(report["error"].as_str().unwrap().contains("cancelled"), "{report}");
}

/// Everything that came is in place on the disks.
#[track_caller]
fn nothing_lost(report: &Value, sent: &Value, streams: usize) {
    assert_eq!(report["streams"].as_array().unwrap().len(), streams);
    let dropped = drops(report);
    for stream in report["streams"].as_array().unwrap() {
        assert_eq!(refused(stream), 0, "{stream}");
        assert_eq!(stream["placed"], stream["packets"], "{stream}");
    }
    let (placed, all) = (sum(&report["streams"], "placed"), sum(sent, "packets"));
    assert_eq!(placed + dropped, all, "every packet is in place or dropped by the kernel");
    assert!(sum(&report["streams"], "lost") <= dropped, "{report}");
    all_acknowledged(report);
}

/// Check finds all frames and no other.
#[track_caller]
fn counted_frames_proven(site: &Site, report: &Value) {
    let check = site.check(0);
    let streams = &check["datastreams"];
    let good = sum(streams, "frames_seen") - sum(streams, "filled_frames");
    assert_eq!(good, sum(&report["streams"], "placed"), "{check}");
    assert_eq!(sum(streams, "illegal_frames"), 0, "{check}");
}

#[test]
fn sixteen_streams_to_four_disks_while_they_are_sent_on_and_one_is_read() {
    let site = Site::new(4);
    let mut second =
        Job::start(&words(&format!("receive {ANY} --verify --json --memory 128MiB --chunk 1MiB")));
    let onward = second.address();
    let mut recorder = site.record(&format!("{ANY} --forward {onward} --memory 192MiB"));
    let address = recorder.address();
    // Begun before anything was recorded: it waits for stream 7 to begin.
    let follower = site.start("cat trial --follow --stream 7");
    let sent = send(&address, "--pattern --payload 5000 --senders 16 --packets 1600 --rate 320Mbps");
    recorder.drained();
    let report = recorder.stop().expect(0).json();
    nothing_lost(&report, &sent, 16);
    counted_frames_proven(&site, &report);
    let disks = report["recording"]["disks"].as_array().unwrap();
    assert!(disks.iter().all(|disk| number(&disk["chunks"]) > 0), "every disk got its share: {disks:?}");

    let read = follower.finish().expect(0);
    assert!(read.stderr.contains("chunks read from the recorder's memory"), "{}", read.stderr);
    let seen = see(&read.stdout, 5032);
    assert_eq!(seen.good, number(&report["streams"][7]["placed"]));
    assert_eq!(read.stdout, site.run("cat trial --stream 7").expect(0).stdout);

    let forward = &report["forward"][0];
    let there = second.stop().json();
    let withheld = number(&forward["dropped_queue"]) + number(&forward["dropped_refused"]);
    assert_eq!(number(&forward["frames"]) + withheld, sum(&report["streams"], "placed"), "{forward}");
    assert_eq!(there["streams"].as_array().unwrap().len(), 16, "each stream has a sender of its own");
    let arrived = sum(&there["streams"], "placed");
    assert_eq!(arrived + drops(&there), number(&forward["frames"]), "{forward}");
    assert_eq!(number(&there["pattern_errors"]), 0);
}

#[test]
fn a_hundred_and_twenty_eight_slow_streams() {
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 512MiB --chunk 1MiB --flush 1s"));
    let sent = send(
        &recorder.address(),
        "--pattern --payload 2000 --senders 128 --packets 200 --rate 100Mbps --frame-rate 1000",
    );
    recorder.drained();
    let report = recorder.stop().expect(0).json();
    nothing_lost(&report, &sent, 128);
    counted_frames_proven(&site, &report);
    let names: std::collections::BTreeSet<&str> = report["recording"]["datastreams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stream| stream["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 128);
    assert!(names.contains("trial") && names.contains("trial_ds127"), "{names:?}");
}
