//! Garbage and absurdities from strangers cost an honest stream nothing, and memory stays what it was.
//!
//! Single packets that announce much.

use crate::site::{
    ANY, Job, Site, all_acknowledged, drops, number, port, refused, run, send, sum, wait_for, words,
};
use crate::site::{numbered, see, vdif};
use serde_json::Value;
use skyhaul::wire::Order;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HONEST: &str = "send --json --pattern --payload 2000 --packets 12000 --rate 100Mbps --to";

/// Cheap random numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// A socket of a stranger.
fn stranger(to: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port(to))).unwrap();
    socket
}

/// Resident memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One packet that nobody should send.
fn absurd(random: &mut Random, at: u64, second: i64) -> Vec<u8> {
    let good = |number: u64, frame: u32| numbered(number, Order::Little, &vdif(second, frame, 0, 2000));
    match at % 12 {
        0 => random.bytes(2040),
        1 => Vec::new(),
        2 => good(at, 3)[..random.next() as usize % 2040].to_vec(),
        3 => good(u64::MAX, 7),
        4 => good(random.next(), 0xFF_FFFF),
        5 => {
            // A length that is not the datagram's, up to 128 MiB.
            let mut packet = good(at, 9);
            packet[8 + 8..8 + 11].copy_from_slice(&random.bytes(3));
            packet
        }
        6 => {
            // Any epoch, any second, any thread.
            let mut packet = good(at, 9);
            packet[8..8 + 8].copy_from_slice(&random.bytes(8));
            packet[8 + 12..8 + 16].copy_from_slice(&random.bytes(4));
            packet
        }
        7 => vec![0xFF; 2040],
        8 => vec![0; 2040],
        9 => random.bytes(9000),
        10 => random.bytes(1),
        _ => {
            let length = random.next() as usize % 200;
            random.bytes(length)
        }
    }
}

/// Send honestly while `attack` goes on; the report, the packets of the attack, and KiB gained in the meantime.
fn under_attack(site: &Site, attack: impl Fn(&str, &dyn Fn() -> bool) -> u64 + Send) -> (Value, Value, u64) {
    let mut recorder = site.record(&format!("{ANY} --memory 96MiB"));
    let address = recorder.address();
    let before = resident(recorder.pid());
    let mut honest = Job::start(&words(&format!("{HONEST} {address}")));
    let going = std::sync::atomic::AtomicBool::new(true);
    let (attacked, most) = std::thread::scope(|scope| {
        let running = || going.load(std::sync::atomic::Ordering::Relaxed);
        let target = address.as_str();
        let attacker = scope.spawn(move || attack(target, &running));
        let mut most = 0;
        while honest.is_running() || !attacker.is_finished() {
            most = most.max(resident(recorder.pid()));
            if !honest.is_running() {
                going.store(false, std::sync::atomic::Ordering::Relaxed);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        (attacker.join().unwrap(), most)
    });
    let sent = honest.finish().expect(0).json();
    recorder.drained();
    let done = recorder.stop();
    let report = done.json();
    let honest_packets = number(&sent["packets"]);
    let came: u64 = sum(&report["sources"], "packets");
    assert_eq!(came + drops(&report), honest_packets + attacked, "every packet is counted: {report}");
    let streams: u64 = sum(&report["streams"], "packets");
    assert_eq!(streams + number(&report["strangers"]), came, "each is of a stream or of a stranger");
    for stream in report["streams"].as_array().unwrap() {
        assert_eq!(number(&stream["placed"]) + refused(stream), number(&stream["packets"]), "{stream}");
    }
    let reasons: u64 = report["stranger_rejects"].as_object().unwrap().values().map(number).sum();
    assert_eq!(reasons, number(&report["strangers"]), "each refusal has its reason");
    (report, sent, most.saturating_sub(before))
}

/// The honest stream is whole, up to what the kernel dropped.
#[track_caller]
fn honest_is_whole(site: &Site, report: &Value, sent: &Value) {
    let mut streams = report["streams"].as_array().unwrap().clone();
    streams.sort_by_key(|stream| std::cmp::Reverse(number(&stream["placed"])));
    let honest = &streams[0];
    assert_eq!(refused(honest), 0, "{honest}");
    assert!(number(&honest["placed"]) + drops(report) >= number(&sent["packets"]), "{honest}");
    assert!(number(&honest["lost"]) <= drops(report), "{honest}");
    all_acknowledged(report);
    let read = site.run(&format!("cat trial --stream {}", honest["id"])).expect(0);
    assert_eq!(see(&read.stdout, 2032).good, number(&honest["placed"]));
}

fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(300));
}

#[test]
fn one_stranger_that_sends_everything() {
    let site = Site::new(1);
    let (report, sent, grown) = under_attack(&site, |to, running| {
        let (socket, mut random, mut count) = (stranger(to), Random(99), 0);
        let mut step = 0;
        while running() {
            count += u64::from(socket.send(&absurd(&mut random, step, 1_790_000_000)).is_ok());
            step += 1;
            pause();
        }
        count
    });
    honest_is_whole(&site, &report, &sent);
    let streams = report["streams"].as_array().unwrap();
    assert!(number(&report["strangers"]) + streams.iter().map(refused).sum::<u64>() > 0, "{report}");
    assert!(grown < 160 << 10, "{grown} KiB more than at the start, 96 MiB of it the pool's");
}

#[test]
fn three_hundred_strangers() {
    let site = Site::new(1);
    let (report, sent, grown) = under_attack(&site, |to, running| {
        let sockets: Vec<UdpSocket> = (0..300).map(|_| stranger(to)).collect();
        let (mut random, mut count, mut step) = (Random(7), 0, 0u64);
        while running() || step < 3000 {
            let socket = &sockets[(random.next() % 300) as usize];
            count += u64::from(socket.send(&absurd(&mut random, step, 1_790_000_000)).is_ok());
            step += 1;
            pause();
        }
        count
    });
    honest_is_whole(&site, &report, &sent);
    assert!(grown < 160 << 10, "{grown} KiB more than at the start, 96 MiB of it the pool's");
}

/// Absurd frames from the honest sender's own port: refused or dismissed one by one, and the stream goes on.
#[test]
fn absurd_numbers_within_a_stream() {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    let address = recorder.address();
    let socket = stranger(&address);
    let (mut random, second) = (Random(5), 1_790_000_000);
    let (mut good, mut all) = (0u64, 0u64);
    for n in 0..6000u64 {
        let frame = vdif(second + n as i64 / 2000, (n % 2000) as u32, 0, 2000);
        socket.send(&numbered(n, Order::Little, &frame)).unwrap();
        (good, all) = (good + 1, all + 1);
        if n % 7 == 3 && n > 100 {
            let far = if n % 2 == 0 { random.next() } else { n + 3000 + random.next() % 100_000 };
            let packet = if n % 3 == 0 { random.bytes(2040) } else { numbered(far, Order::Little, &frame) };
            socket.send(&packet).unwrap();
            all += 1;
        }
        if n % 20 == 0 {
            pause();
        }
    }
    recorder.drained();
    let report = recorder.stop().json();
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["packets"]) + drops(&report), all);
    assert_eq!(number(&stream["placed"]) + refused(stream), number(&stream["packets"]), "{stream}");
    assert!(
        number(&stream["placed"]) + drops(&report) >= good && number(&stream["placed"]) <= good,
        "{stream}"
    );
    assert!(number(&stream["lost"]) <= drops(&report), "{stream}");
    assert_eq!(number(&stream["restarts"]), 0, "{stream}");
    all_acknowledged(&report);
    let check = site.check(0);
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0);
}

/// Ports of ever new senders, each of one good packet: before the honest stream, and while it runs.
#[test]
fn more_senders_of_one_packet_than_there_are_places() {
    let site = Site::new(1);
    let (report, sent, grown) = under_attack(&site, |to, running| {
        let (mut count, mut frame) = (0, 0);
        while running() || count < 3000 {
            let packet = numbered(frame, Order::Little, &vdif(1_790_000_000, (frame % 1000) as u32, 0, 2000));
            let (high, low) = ((frame >> 8) as u8, frame as u8);
            let socket = UdpSocket::bind((std::net::Ipv4Addr::new(127, 1, high, low), 0)).unwrap();
            count += u64::from(socket.send_to(&packet, ("127.0.0.1", port(to))).is_ok());
            frame += 1;
            if count % 8 == 0 {
                pause();
            }
        }
        count
    });
    assert_eq!(report["streams"].as_array().unwrap().len(), 1, "none of them is a stream");
    honest_is_whole(&site, &report, &sent);
    assert!(grown < 160 << 10, "{grown} KiB more than at the start, 96 MiB of it the pool's");
}

/// Senders of some packets each, as many as there are places: the honest stream comes last and takes one of them.
#[test]
fn places_go_to_who_sends_most_and_lists_to_who_is_named() {
    const PLACES: usize = 4;
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} --memory 192MiB --max-streams {PLACES}"));
    let address = recorder.address();
    let strangers: Vec<UdpSocket> = (0..PLACES).map(|_| stranger(&address)).collect();
    for n in 0..40 {
        let packet = numbered(n, Order::Little, &vdif(1_790_000_000, n as u32, 0, 2000));
        strangers.iter().for_each(|socket| assert!(socket.send(&packet).is_ok()));
        // None waits in the kernel when the next comes, so that each of them gets its place.
        recorder.drained();
    }
    let sent = crate::site::send(&address, "--pattern --payload 2000 --packets 12000 --rate 100Mbps");
    let report = recorder.stop().json();
    honest_is_whole(&site, &report, &sent);
    assert_eq!(report["streams"].as_array().unwrap().len(), PLACES + 1, "who gave way is listed, too");
    let events = report["recording"]["events"].as_array().unwrap();
    let gave_way: Vec<&Value> = events.iter().filter(|event| event["kind"] == "stream_gave_way").collect();
    let [said] = gave_way[..] else { panic!("one of them, once: {events:?}") };
    assert!(said["text"].as_str().unwrap().contains("--from"), "{said}");

    // Who is not on the list takes nobody's place.
    let mut receiver =
        Job::start(&words(&format!("receive --json {ANY} --memory 96MiB --from 127.0.0.1:1-2,10.0.0.0/8")));
    let address = receiver.address();
    let sent = crate::site::send(&address, "--pattern --payload 2000 --packets 100 --rate 20Mbps");
    let report = receiver.stop().json();
    assert_eq!(number(&report["stranger_rejects"]["not_allowed"]) + drops(&report), number(&sent["packets"]));
    assert_eq!(report["streams"].as_array().unwrap().len(), 0);
}

/// An operator sees the stream before a thousand strangers.
#[test]
fn the_text_of_a_report_stays_short() {
    let mut receiver = Job::start(&words(&format!("receive {ANY} --memory 96MiB")));
    let address = receiver.address();
    let strangers: Vec<UdpSocket> = (0..200).map(|_| stranger(&address)).collect();
    for n in 0..40 {
        let packet = numbered(n, Order::Little, &vdif(1_790_000_000, n as u32, 0, 2000));
        strangers.iter().for_each(|socket| assert!(socket.send(&packet).is_ok()));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    crate::site::send(&address, "--pattern --payload 2000 --packets 3000 --rate 50Mbps");
    let done = receiver.stop();
    let lines = done.stderr.lines().count() + done.told().lines().count();
    assert!(lines < 50, "{lines} lines: {}", done.stderr);
    assert!(done.told().contains("3 000 frames placed"), "{}", done.told());
    assert!(done.told().contains("more streams with "), "{}", done.told());
}

/// A packet of a SPEAD heap (64-48) of `size` bytes, with `payload` at `offset`.
fn packet(heap: u64, size: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x53, 4, 2, 6, 0, 0, 0, 4];
    for (id, value) in [(1, heap), (2, size), (3, offset), (4, payload.len() as u64)] {
        packet.extend(((1 << 63) | (id << 48) | value).to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// The most memory that a process had so far, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One packet took 256 MiB, and some of them all memory, so that honest heaps were refused.
#[test]
fn a_packet_that_announces_a_huge_heap_takes_no_memory_from_others() {
    const HUGE: u64 = 256 << 20;
    let line =
        format!("receive {ANY} --format spead --json --heap-timeout 2s --stop-items never --memory 1GiB");
    let mut receiver = Job::start(&words(&line));
    let address = receiver.address();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before = peak(receiver.pid());
    let forged = 40;
    for n in 0..forged {
        // The last packet of it, so that it is nowhere near the beginning.
        let packet = packet((1 << 40) + n, HUGE, HUGE - 1000, &[n as u8; 1000]);
        socket.send_to(&packet, ("127.0.0.1", port(&address))).unwrap();
    }
    // Their second packets do not come, and most of their memory is given to others.
    std::thread::sleep(std::time::Duration::from_millis(900));
    let sent = send(&address, "--format spead --heap-size 4MiB --heaps 20 --packet 8192 --rate 400Mbps");
    receiver.drained();
    // Those that were not displaced time out, and are delivered.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let after = wait_for("the memory", || Some(peak(receiver.pid())));
    let report = receiver.stop().json();
    assert_eq!(number(&sent["heaps"]), 20);
    let dropped: u64 = report["sources"].as_array().unwrap().iter().map(|s| number(&s["socket_drops"])).sum();
    let complete = number(&report["objects"]["heaps"]["complete"]);
    assert!(complete >= 19 || dropped > 0, "{complete} honest heaps: {report}");
    assert!(after - before < 200 << 10, "{} KiB more", after - before);
}

/// A packet that announces nearly all memory, again and again, costs nobody a heap: until it was found to be too slow, others were refused.
#[test]
fn a_packet_that_announces_nearly_all_memory_costs_no_heap_of_others() {
    let line = format!("receive {ANY} --format spead --json --stop-items never --memory 64MiB");
    let mut receiver = Job::start(&words(&line));
    let address = receiver.address();
    let (begun, over) = (Instant::now(), AtomicBool::new(false));
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = stranger(&address);
            let pause = Duration::from_millis(20);
            let mut heaps = 1 << 40..;
            while !over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(30) {
                let heap = heaps.next().unwrap();
                socket.send(&packet(heap, 60 << 20, 0, &[7; 1000])).unwrap();
                std::thread::sleep(pause);
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        let line = "--format spead --heap-size 256KiB --heaps 100 --packet 8192 --rate 200Mbps";
        let sent = std::panic::catch_unwind(|| send(&address, line));
        over.store(true, Ordering::Relaxed);
        sent
    });
    receiver.drained();
    let report = receiver.stop().json();
    assert_eq!(number(&sent.unwrap()["heaps"]), 100);
    let complete = number(&report["objects"]["heaps"]["complete"]);
    assert!(complete == 100 || drops(&report) > 0, "{complete} honest heaps: {report}");
}

/// Heaps are forwarded before they are judged: each packet of a sender that may send, and none of another; and the sums say so.
#[test]
fn heaps_are_forwarded_as_they_come_but_not_those_of_senders_that_may_not_send() {
    for format in ["spead", "auto"] {
        let target = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = target.local_addr().unwrap();
        let line = format!(
            "receive {ANY} --from 127.0.0.5 --format {format} --json --memory 128MiB --forward udp://{to}"
        );
        let mut receiver = Job::start(&words(&line));
        let there = ("127.0.0.1", port(&receiver.address()));
        let [allowed, other] = ["127.0.0.5:0", "127.0.0.66:0"].map(|from| UdpSocket::bind(from).unwrap());
        for heap in 1..=50 {
            allowed.send_to(&packet(heap, 1000, 0, &[1; 1000]), there).unwrap();
            other.send_to(&packet(1000 + heap, 1000, 0, &[2; 1000]), there).unwrap();
            if heap % 10 == 0 {
                // Late, and no packet at all.
                allowed.send_to(&packet(heap, 1000, 0, &[1; 1000]), there).unwrap();
                allowed.send_to(&[7; 200], there).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        receiver.drained();
        let report = receiver.stop().json();
        assert!(report["unbalanced"].is_null(), "{report}");
        let heaps = &report["objects"]["heaps"];
        assert_eq!(
            (number(&heaps["forwarded"]), number(&heaps["forwarded_then_refused"])),
            (60, 10),
            "{report}"
        );
        let forward = &report["forward"][0];
        assert_eq!(number(&forward["frames"]), 60, "{report}");
        target.set_nonblocking(true).unwrap();
        let (mut came, mut bytes) = (0, [0; 2000]);
        while let Ok(length) = target.recv(&mut bytes) {
            assert!(!bytes[..length].ends_with(&[2; 100]), "{format}: a packet of the other sender");
            came += 1;
        }
        assert_eq!(came, 60, "{format}");
    }
    let refused =
        run("receive --listen tcp://127.0.0.1:0 --format spead --forward udp://127.0.0.1:9").expect(2);
    assert!(refused.stderr.contains("heaps that arrive by TCP cannot be forwarded"), "{}", refused.stderr);
}

/// Heaps of an honest sender, and after each of its packets one of a forger that begins a heap with a new counter, from this address or from
/// the socket of the sender itself. They share a window of four heaps. Returns the number of whole heaps, and the report.
#[track_caller]
fn beside_a_forger_of_counters(forger: Option<&str>) -> (u64, Value) {
    const PACKETS: u64 = 20;
    let line =
        format!("receive {ANY} --format spead --json --heap-window 4 --heap-timeout 60s --stop-items never");
    let mut receiver = Job::start(&words(&line));
    let to = ("127.0.0.1", port(&receiver.address()));
    let honest = UdpSocket::bind("127.0.0.1:0").unwrap();
    let forger = forger.map_or_else(|| honest.try_clone().unwrap(), |from| UdpSocket::bind(from).unwrap());
    for n in 0..50 * PACKETS {
        let of_heap = |heap, offset| {
            let mut packet = packet(heap, PACKETS * 1000, offset, &[7; 1000]);
            // An item, which is all of the heap: one without any is no data.
            packet[7] += 1;
            packet.splice(40..40, (0x1000u64 << 48).to_be_bytes());
            packet
        };
        honest.send_to(&of_heap(1 + n / PACKETS, n % PACKETS * 1000), to).unwrap();
        forger.send_to(&of_heap((1 << 40) + n, 0), to).unwrap();
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    receiver.drained();
    let report = receiver.stop().json();
    assert_eq!(number(&report["sources"][0]["socket_drops"]), 0);
    assert_eq!(number(&report["packets"]), 2 * 50 * PACKETS, "{report}");
    assert!(report["unbalanced"].is_null(), "{report}");
    // Each heap that began is complete or not, and each packet is of one of them, or refused.
    let of_heaps = |kind: &str| number(&report["objects"]["heaps"][kind]);
    let refused: u64 = report["rejects"].as_object().unwrap().values().map(number).sum();
    if refused == 0 {
        assert_eq!(of_heaps("complete") + of_heaps("incomplete"), 50 + 50 * PACKETS, "{report}");
    }
    let bytes = 1000 * (2 * 50 * PACKETS - refused);
    assert_eq!(number(&report["payload_bytes"]), bytes, "{report}");
    (of_heaps("complete"), report)
}

/// A host and a port have at most half of a window that is shared: forged counters from another of them push out no heap.
#[test]
fn forged_counters_from_another_address_or_port_cost_an_honest_sender_no_heap() {
    for from in ["127.0.0.2:0", "127.0.0.1:0"] {
        let (complete, report) = beside_a_forger_of_counters(Some(from));
        assert_eq!(complete, 50, "{from}: {report}");
    }
    let (complete, report) = beside_a_forger_of_counters(None);
    assert!(complete < 10, "from the sender's own socket nothing tells them apart: {report}");
}
