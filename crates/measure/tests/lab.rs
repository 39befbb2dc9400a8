//! The lab on sockets: what arrives is what its log says, packet for packet.
//!
//! ```text
//!   near: numbered datagrams ─▶ router: path, log ─▶ far: numbers, as they come
//! ```
//!
//! No time is asserted: this machine may be busy. What was due when is in the log, and exact.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use skyhaul::io::fault::path::Path;
use skyhaul::io::namespace::Network;
use skyhaul::io::netlink::route::Routes;
use skyhaul_measure::lab::{FAR, Lab, LabOptions, LabReport, LabText, NEAR};
use socket2::Socket;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// None, with a visible reason, where that is not allowed.
fn lab() -> Option<Lab> {
    lab_with(&LabOptions::default())
}

fn lab_with(options: &LabOptions) -> Option<Lab> {
    match Lab::new(options) {
        Ok(lab) => Some(lab),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: {error} (run as root)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A line of the log.
#[derive(Clone, Debug)]
struct Line {
    number: u64,
    copy: u64,
    fate: String,
    at: u64,
    due: u64,
    octets: u64,
    damaged: bool,
    /// The number in the packet.
    head: u64,
    late: bool,
}

/// What the log says of datagrams to a port, in the order in which they left or were lost.
fn read(log: &PathBuf, port: u64) -> Vec<Line> {
    let text = std::fs::read_to_string(log).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let number = |line: &Value, key: &str| line[key].as_u64().unwrap();
    all.filter(|line| line["dir"] == "fwd" && line["to"] == port)
        .map(|line| Line {
            number: number(&line, "n"),
            copy: number(&line, "copy"),
            fate: line["fate"].as_str().unwrap().to_owned(),
            at: number(&line, "at"),
            due: number(&line, "due"),
            octets: number(&line, "octets"),
            damaged: line["damage"] != "",
            head: u64::from_str_radix(&line["head"].as_str().unwrap()[..16], 16).unwrap(),
            late: line["late"].as_bool().unwrap(),
        })
        .collect()
}

const PORT: u16 = 5001;

/// What became of datagrams.
struct Sent {
    /// Numbers that arrived, in order.
    arrived: Vec<u64>,
    log: Vec<Line>,
    report: LabReport,
    /// Those that the receiver's socket had no room for.
    dropped: u64,
}

/// Send `count` numbered datagrams over a path.
fn send(lab: &Lab, path: &str, count: u64, payload: usize) -> Sent {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("fates");
    let path: Path = path.parse().unwrap();
    let running = lab.forward(&path, Some(&log)).unwrap();
    let receiver = lab.far().inside(|| UdpSocket::bind((FAR, PORT)).unwrap()).unwrap();
    let receiver = Socket::from(receiver);
    // As much as is permitted: the test waits while others have the processor.
    receiver.set_recv_buffer_size(64 << 20).unwrap();
    let receiver = UdpSocket::from(receiver);
    let before = full(lab);
    receiver.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let sender = lab.near().inside(|| UdpSocket::bind((NEAR, 0)).unwrap()).unwrap();
    let receive = std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), [0; 9000]);
        while let Ok(length) = receiver.recv(&mut buffer) {
            assert_eq!(length, payload);
            all.push(u64::from_be_bytes(*buffer.first_chunk().unwrap()));
        }
        all
    });
    let mut packet = vec![0x5A; payload];
    for number in 0..count {
        packet[..8].copy_from_slice(&number.to_be_bytes());
        sender.send_to(&packet, (FAR, PORT)).unwrap();
        if number % 16 == 15 {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
    let arrived = receive.join().unwrap();
    let report = running.finish().unwrap();
    let dropped = full(lab) - before;
    if dropped > 0 {
        println!("the socket dropped {dropped} datagrams: this machine is busy");
    }
    Sent { arrived, log: read(&log, PORT.into()), report, dropped }
}

/// Datagrams for which sockets of the far end had no room.
fn full(lab: &Lab) -> u64 {
    let text = lab.far().inside(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
    let mut udp = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (udp.next().unwrap(), udp.next().unwrap());
    let at = names.split(' ').position(|name| name == "RcvbufErrors").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// What the log says must have arrived: not what was lost, and not what was damaged, which the kernel refuses.
fn expected(log: &[Line]) -> Vec<u64> {
    log.iter().filter(|line| line.fate == "sent" && !line.damaged).map(|line| line.head).collect()
}

#[test]
fn what_arrives_is_what_the_log_says_for_fifty_seeds() {
    let Some(lab) = lab() else { return };
    for seed in 0..50u64 {
        // Every seed has its own mixture.
        let path = format!(
            "delay={}us,loss={},burst={}@0.002,reorder={}@0.05,duplicate={},gemodel=0.005/0.2,corrupt=0.005,seed={seed}",
            seed * 37 % 2000,
            (seed % 5) as f64 * 0.005,
            1 + seed % 20,
            1 + seed % 40,
            (seed % 3) as f64 * 0.01,
        );
        let Sent { arrived, log, report, dropped } = send(&lab, &path, 1500, 200);
        // On a machine that is busy, it may say that it was late; it must not have lost anything itself.
        let own: Vec<&String> = report.failures.iter().filter(|text| !text.contains("tolerance")).collect();
        assert!(own.is_empty(), "seed {seed}: {own:?}");
        let expected = expected(&log);
        assert_eq!(arrived.len() as u64 + dropped, expected.len() as u64, "seed {seed}");
        let mut rest = expected.iter();
        assert!(arrived.iter().all(|number| rest.any(|is| is == number)), "seed {seed}: another order");
        let count = |wanted: &dyn Fn(&Line) -> bool| log.iter().filter(|line| wanted(line)).count() as u64;
        assert_eq!(count(&|line| line.copy == 0), 1500, "seed {seed}: each has a fate");
        assert_eq!(count(&|line| line.copy > 0), report.forward.duplicated);
        assert_eq!(count(&|line| line.fate != "sent"), report.forward.lost.values().sum::<u64>());
        assert_eq!(count(&|line| line.late && line.copy == 0 && line.fate == "sent"), report.forward.late);
    }
}

#[test]
fn the_same_seed_and_the_same_packets_have_the_same_fates() {
    let Some(lab) = lab() else { return };
    let run = |seed: u64| -> Vec<(u64, u64, String, bool)> {
        let path =
            format!("loss=0.02,gemodel=0.01/0.1,duplicate=0.02,corrupt=0.01,ber=1e-6,jitter=1ms,seed={seed}");
        let mut fates: Vec<_> = send(&lab, &path, 2000, 500)
            .log
            .into_iter()
            .map(|line| (line.number, line.copy, line.fate, line.damaged))
            .collect();
        fates.sort();
        fates
    };
    let first = run(7);
    assert!(first.iter().any(|fate| fate.2 == "gemodel") && first.iter().any(|fate| fate.2 == "bit-error"));
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

#[test]
fn a_rate_spaces_what_a_policer_passed() {
    let Some(lab) = lab() else { return };
    let Sent { mut log, report, .. } = send(&lab, "rate=100Mbps,delay=2ms,police=80Mbps/20kB", 3000, 1000);
    let octets = 1000 + 42;
    assert!(log.iter().all(|line| line.octets == octets));
    let sent: Vec<&Line> = log.iter().filter(|line| line.fate == "sent").collect();
    let time = octets * 8 * 10;
    assert!(sent.windows(2).all(|two| two[1].due >= two[0].due + time - 1), "no two within {time} ns");
    assert!(sent.iter().all(|line| line.due >= line.at + 2_000_000 + time));
    // The bucket, again, by the times in the log, in the order in which they came.
    log.sort_by_key(|line| line.number);
    let (mut tokens, mut last) = (20_000.0f64, 0);
    for line in &log {
        tokens = (tokens + (line.at - last.min(line.at)) as f64 * 80e6 / 8e9).min(20_000.0);
        last = line.at;
        let passes = tokens >= octets as f64;
        if (tokens - octets as f64).abs() > 1.0 {
            assert_eq!(line.fate != "policed", passes, "{line:?} with {tokens} octets");
        }
        tokens -= if line.fate == "policed" { 0.0 } else { octets as f64 };
    }
    println!(
        "left {} ns late (median), {} ns (99 %)",
        report.forward.lateness.median_ns, report.forward.lateness.p99_ns
    );
}

/// Send octets over TCP to the far end, which checks them.
fn transfer(near: &Network, far: &Network, octets: usize) {
    let byte = |at: usize| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0];
    let listener = far.inside(|| TcpListener::bind((FAR, PORT)).unwrap()).unwrap();
    let take = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            let came = stream.read(&mut buffer).unwrap();
            assert!(buffer[..came].iter().enumerate().all(|(n, is)| *is == byte(at + n)), "at {at}");
            at += came;
            if came == 0 {
                return at;
            }
        }
    });
    let mut stream = near.inside(|| TcpStream::connect((FAR, PORT)).unwrap()).unwrap();
    let all: Vec<u8> = (0..octets).map(byte).collect();
    stream.write_all(&all).unwrap();
    drop(stream);
    assert_eq!(take.join().unwrap(), octets);
}

#[test]
fn tcp_passes_in_trains_that_are_divided_and_joined() {
    let Some(lab) = lab() else { return };
    for path in [
        "",
        "rate=300Mbps,buffer=300kB,delay=3ms,hops=2",
        "delay=1ms,loss=0.002,reorder=5@0.01,duplicate=0.01",
    ] {
        let running = lab.forward(&path.parse().unwrap(), None).unwrap();
        transfer(lab.near(), lab.far(), 8_000_000);
        let report = running.finish().unwrap();
        let own: Vec<&String> = report.failures.iter().filter(|text| !text.contains("tolerance")).collect();
        assert!(own.is_empty(), "{path}: {own:?}");
        println!(
            "{path}: {} packets in {} frames, {} frames out",
            report.forward.packets, report.forward.frames, report.forward.sent_frames
        );
        assert!(report.forward.packets > report.forward.frames, "trains came");
    }
}

#[test]
fn two_labs_stand_side_by_side() {
    let Some(one) = lab() else { return };
    let other = lab().unwrap();
    let (clean, lossy) = (send(&one, "", 100, 100), send(&other, "loss=1", 100, 100));
    assert_eq!((clean.arrived.len() as u64 + clean.dropped, lossy.arrived.len()), (100, 0));
}

#[test]
fn the_kernel_of_an_end_does_what_the_text_says() {
    let text: LabText = "delay=1ms; near: pfifo=7,tcp-wmem=8KiB; far: rps=0,tcp-rmem=16KiB".parse().unwrap();
    let Some(lab) = lab_with(&LabOptions { near: text.near, far: text.far, ..LabOptions::default() }) else {
        return;
    };
    // What the kernel says of itself, in each end.
    let sockets = |end: &Network| {
        let of = || Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let sizes = || (of().recv_buffer_size().unwrap(), of().send_buffer_size().unwrap());
        end.inside(sizes).unwrap()
    };
    let (near, far) = (sockets(lab.near()), sockets(lab.far()));
    assert_eq!((near.1, far.0), (8 << 10, 16 << 10));
    assert!(near.0 > 16 << 10 && far.1 > 8 << 10, "only what was asked: {near:?} {far:?}");
    let cat = |end: &Network, name: &str| {
        let said = end.command("cat").arg(format!("/sys/class/net/path0/{name}")).output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    };
    let masks = [lab.near(), lab.far()].map(|end| cat(end, "queues/rx-0/rps_cpus"));
    // Words of 32 processors, the highest first.
    let first = masks.map(|mask| u32::from_str_radix(mask.rsplit(',').next().unwrap(), 16).unwrap());
    assert_eq!(first, [0, 1]);
    let root = lab.near().inside(|| {
        let mut routes = Routes::open().unwrap();
        let path0 = routes.index("path0").unwrap();
        routes.root(path0).unwrap().0
    });
    assert!(root.unwrap().to_string().starts_with("pfifo "));
    let running = lab.forward(&text.path, None).unwrap();
    let report = running.finish().unwrap();
    assert_eq!(report.path, "seed=1;delay=1ms;near:pfifo=7,tcp-wmem=8KiB;far:rps=0,tcp-rmem=16KiB");
}
