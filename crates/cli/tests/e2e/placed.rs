//! Streams that the kernel places are recorded as those that this process places: the same bytes, index and counts.

use crate::recorded::records;
use crate::site::{ANY, Done, Job, Site, all_acknowledged, drops, number, refused, run, see, send, words};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// Whether the kernel may place here; if not, what is missing is said.
fn may_place() -> bool {
    let done = run(&format!("receive --tier bpf --memory 8MiB --chunk 1MiB --wait 1ms {ANY}"));
    if done.code == Some(2) && done.said().contains("CAP_BPF") {
        // Loading a program needs a privilege; what the command says names it.
        eprintln!("SKIPPED: {}", done.said());
        return false;
    }
    true
}

/// What a report says of its one stream, without what no two runs have in common.
fn counted(report: &Value) -> BTreeMap<String, Value> {
    let streams = report["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 1, "{report}");
    // Times of this host: when packets arrived, and how far the frames' times are from that.
    let differs = ["arrival_gaps_ns", "sender", "listen"];
    let mut stream = streams[0].clone();
    for name in ["clock_offset_seconds", "clock_offset_range"] {
        stream["irregular"].as_object_mut().unwrap().remove(name);
    }
    let all = stream.as_object().unwrap().iter();
    all.filter(|(name, _)| !differs.contains(&name.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect()
}

struct Recorded {
    report: Value,
    bytes: Vec<u8>,
    check: Value,
    chunks: Vec<skyhaul::recording::ChunkRecord>,
}

/// A stream recorded by a tier: this file, sent with `line`. `format` may be followed by more options of the recorder.
fn recorded(tier: &str, format: &str, (file, line): (&Path, &str)) -> Recorded {
    let site = Site::new(2);
    let mut recorder =
        site.record(&format!("--tier {tier} --format {format} --memory 64MiB --chunk 1MiB {ANY}"));
    let family = format.split(' ').next().unwrap();
    send(&recorder.address(), &format!("--format {family} --input {} {line}", file.display()));
    recorder.drained();
    whole(&site, &recorder.stop())
}

fn whole(site: &Site, done: &Done) -> Recorded {
    let report = done.json();
    assert_eq!(drops(&report), 0, "this host was too late: {report}");
    all_acknowledged(&report);
    let mut check = site.run("check trial --json").json();
    check.as_object_mut().unwrap().remove("seconds");
    let mut chunks = records(site);
    chunks.iter_mut().for_each(|chunk| chunk.meta.received_at = None);
    Recorded { report, bytes: site.cat(), check, chunks }
}

fn source(report: &Value) -> &Value {
    &report["sources"][0]
}

/// The kernel placed most of it, and says so.
fn by_kernel(recorded: &Recorded) {
    let source = source(&recorded.report);
    assert_eq!(source["tier"], "bpf", "{source}");
    assert!(source["because"].as_str().unwrap().contains("places 1 of 1 streams"), "{source}");
}

fn same(what: &str, [one, other]: [&Recorded; 2]) {
    assert!(one.bytes == other.bytes, "{what}: other bytes");
    assert_eq!(one.chunks, other.chunks, "{what}");
    assert_eq!(counted(&one.report), counted(&other.report), "{what}");
    assert_eq!(one.check["verdict"], other.check["verdict"], "{what}");
    assert_eq!(one.check["datastreams"], other.check["datastreams"], "{what}");
    for count in ["packets", "bytes"] {
        assert_eq!(source(&one.report)[count], source(&other.report)[count], "{what}: {count}");
    }
    for count in ["frames_filled", "frames_left_out"] {
        assert_eq!(one.report[count], other.report[count], "{what}: {count}");
    }
}

#[test]
fn what_the_kernel_places_is_recorded_as_what_this_process_places() {
    if !may_place() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    // What is generated has the time at which it is sent, so it is recorded once.
    let file = |format: &str, line: &str| {
        let site = Site::new(1);
        let mut recorder = site.record(&format!("--format {format} {ANY}"));
        send(&recorder.address(), &format!("--format {format} --pattern {line}"));
        recorder.drained();
        let path = place.path().join(format!("{format}{}", line.len()));
        std::fs::write(&path, whole(&site, &recorder.stop()).bytes).unwrap();
        path
    };
    let files = [
        file("vdif", "--payload 2000 --packets 40000 --rate 300Mbps"),
        file("lofar", "--packets 12000 --rate 400Mbps"),
        file("vdif", "--payload 2000 --packets 40000 --rate 300Mbps --threads 2 --frame-rate 9000"),
    ];
    let (vdif, lofar) = ("--rate 300Mbps --first 1000003", "--rate 400Mbps");
    let by_time = "vdif --place time --frame-rate 9000";
    for (format, line) in [
        ("vdif", format!("{vdif} --faults loss=0.01,reorder=64,duplicate=0.01,burst=500@0.0005,seed=7")),
        ("vdif", format!("{vdif} --faults corrupt=0.003,truncate=0.003,duplicate=0.01,seed=5")),
        ("vdif", vdif.to_owned()),
        ("lofar", format!("{lofar} --faults loss=0.01,reorder=32,duplicate=0.01,seed=9")),
        (
            by_time,
            "--rate 300Mbps --sequence none --faults loss=0.01,reorder=64,duplicate=0.01,seed=11".to_owned(),
        ),
    ] {
        let file = &files[["vdif", "lofar", by_time].iter().position(|&one| one == format).unwrap()];
        let [stage, bpf] = ["stage", "bpf"].map(|tier| recorded(tier, format, (file, &line)));
        assert_eq!(source(&stage.report)["tier"], "stage");
        by_kernel(&bpf);
        same(&format!("{format} {line}"), [&stage, &bpf]);
    }
}

/// Heaps received by a tier: the report, the payloads in order of their ends, and a list of them.
fn heaps(tier: &str, listen: &str, line: &str) -> (Value, Vec<u8>, String) {
    let place = tempfile::tempdir().unwrap();
    let [payloads, list] = ["payloads", "list"].map(|name| place.path().join(name));
    let mut receiver = Job::start(&words(&format!(
        "receive --tier {tier} --format spead --json --verify --incomplete --memory 256MiB --heap-timeout 60s --output-file {} --list {} \
         --stop-items never --listen {listen}",
        payloads.display(),
        list.display(),
    )));
    send(&receiver.address(), &format!("--format spead --pattern {line}"));
    receiver.drained();
    let report = receiver.stop().json();
    assert_eq!(drops(&report), 0, "this host was too late: {report}");
    (report, std::fs::read(payloads).unwrap(), std::fs::read_to_string(list).unwrap())
}

#[test]
fn heaps_that_the_kernel_places_are_those_that_this_process_places() {
    if !may_place() {
        return;
    }
    for (listen, line) in [
        ("udp://127.0.0.1:0", "--heap-size 64KiB --heaps 2000 --packet 8972 --rate 400Mbps"),
        (
            "udp://[::1]:0",
            "--heap-size 64KiB --heaps 1500 --packet 1472 --rate 200Mbps --full-packets \
             --faults loss=0.005,reorder=64,duplicate=0.01,seed=7",
        ),
        (
            "udp://127.0.0.1:0",
            "--heap-size 1MiB --heaps 100 --packet 8972 --rate 300Mbps --repeat-pointers \
             --faults loss=0.002,corrupt=0.003,truncate=0.003,duplicate=0.01,seed=5",
        ),
    ] {
        let [stage, bpf] = ["stage", "bpf"].map(|tier| heaps(tier, listen, line));
        assert_eq!(source(&bpf.0)["tier"], "bpf", "{}", source(&bpf.0));
        assert!(stage.1 == bpf.1, "{line}: other bytes");
        assert_eq!(stage.2, bpf.2, "{line}");
        for part in ["objects", "rejects", "packets", "pattern_errors"] {
            assert_eq!(stage.0[part], bpf.0[part], "{line}: {part}");
        }
        for count in ["packets", "bytes"] {
            assert_eq!(source(&stage.0)[count], source(&bpf.0)[count], "{line}: {count}");
        }
        assert!(number(&bpf.0["objects"]["heaps"]["complete"]) > 20, "{}", bpf.0);
    }
}

/// Senders of one format to one port: each has a socket and a program of its own, and gets the places of its own stream only.
#[test]
fn the_streams_of_two_senders_are_kept_apart() {
    if !may_place() {
        return;
    }
    let site = Site::new(1);
    let mut recorder = site.record(&format!("--tier bpf --format vdif --memory 64MiB --chunk 1MiB {ANY}"));
    let to = recorder.address();
    let sent: Vec<Value> = ["1000003", "1000104"]
        .map(|first| {
            let line = "send --json --pattern --payload 2000 --packets 20000 --rate 150Mbps --faults loss=0.01,seed=3";
            Job::start(&words(&format!("{line} --first {first} --to {to}")))
        })
        .into_iter()
        .map(|job| job.finish().expect(0).json())
        .collect();
    recorder.drained();
    let report = recorder.stop().json();
    assert_eq!(drops(&report), 0, "this host was too late: {report}");
    let because = source(&report)["because"].as_str().unwrap();
    assert!(because.contains("places 2 of 2 streams"), "{because}");
    let mut placed: Vec<u64> =
        report["streams"].as_array().unwrap().iter().map(|stream| number(&stream["placed"])).collect();
    let mut packets: Vec<u64> = sent.iter().map(|sent| number(&sent["packets"])).collect();
    placed.sort_unstable();
    packets.sort_unstable();
    assert_eq!(placed, packets);
    let check = site.check(0);
    assert_eq!(crate::site::sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
}

#[test]
fn an_interrupt_amid_a_stream_leaves_whole_chunks_of_what_came() {
    if !may_place() {
        return;
    }
    let site = Site::new(2);
    let mut recorder = site.record(&format!("--tier bpf --format vdif --memory 64MiB --chunk 1MiB {ANY}"));
    let to = recorder.address();
    let line = "send --json --pattern --payload 8000 --rate 400Mbps --duration 60s";
    let sender = Job::start(&words(&format!("{line} --to {to}")));
    std::thread::sleep(Duration::from_secs(2));
    recorder.signal(Signal::INT);
    let done = recorder.finish();
    sender.signal(Signal::INT);
    drop(sender.finish());
    let recorded = whole(&site, &done);
    by_kernel(&recorded);
    let stream = &recorded.report["streams"][0];
    let seen = see(&recorded.bytes, 8032);
    assert_eq!((seen.good, seen.invalid), (number(&stream["placed"]), 0), "{stream}");
    assert_eq!(
        (number(&stream["lost"]), number(&stream["packets"])),
        (0, seen.good + refused(stream)),
        "{stream}"
    );
    assert!(seen.good > 1000, "{stream}");
    let check = site.check(0);
    assert_eq!(crate::site::sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
}

#[test]
fn what_the_kernel_cannot_do_with_it_is_wrong_use() {
    let site = Site::new(1);
    for other in ["--faults loss=0.1", "--feedback", "--receive-threads 2", "--forward udp://127.0.0.1:9"] {
        let done =
            site.run(&format!("record --scan trial --tier bpf --memory 8MiB --chunk 1MiB {other} {ANY}"));
        let said = done.said();
        let is_forbidden = said.contains("CAP_BPF");
        assert!(
            done.code == Some(2) && (is_forbidden || said.contains("omit --tier bpf")),
            "{other}: {said}"
        );
    }
}

#[test]
fn without_the_privilege_the_command_fails_and_says_what_is_missing() {
    if std::process::Command::new("setpriv").arg("--version").output().is_err() {
        // Only it can take a capability away from root.
        return eprintln!("SKIPPED: there is no setpriv; apt-get install util-linux");
    }
    let mut command = std::process::Command::new("setpriv");
    // The recorder must lack the capability even when root runs the test.
    if rustix::process::geteuid().is_root() {
        command.args(["--bounding-set", "-bpf,-sys_admin"]);
    }
    let site = Site::new(1);
    let binary = std::env::var_os("SKYHAUL_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_skyhaul").into());
    let words = site.words(&format!("record --scan trial --tier bpf --memory 8MiB --chunk 1MiB {ANY}"));
    command.arg("--").arg(binary).env("SKYHAUL_CONFIG", "/dev/null").args(words);
    let refused = Job::of(command).finish().expect(2);
    for said in ["in the kernel", "hint: run as root, or with CAP_BPF"] {
        assert!(refused.said().contains(said), "{}", refused.said());
    }
}

/// A sender of heaps of 64 KiB in eight packets of SPEAD-64-48.
struct HeapSender {
    socket: UdpSocket,
    next: u64,
}

impl HeapSender {
    fn new(to: &str, first: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(to.trim_start_matches("udp://")).unwrap();
        Self { socket, next: first }
    }

    fn send(&mut self, heaps: u64) {
        let to = self.socket.peer_addr().unwrap();
        self.send_each(heaps, |_| to);
    }

    /// Heaps, each `to` an address by its counter.
    fn send_each(&mut self, heaps: u64, to: impl Fn(u64) -> SocketAddr) {
        const HEAP: u64 = 64 << 10;
        const PACKET: u64 = HEAP / 8;
        for counter in self.next..self.next + heaps {
            for offset in (0..HEAP).step_by(PACKET as usize) {
                let mut packet = vec![0x53, 4, 2, 6, 0, 0, 0, 4];
                for (id, value) in [(1u64, counter), (2, HEAP), (3, offset), (4, PACKET)] {
                    packet.extend((1 << 63 | id << 48 | value).to_be_bytes());
                }
                packet.resize(packet.len() + PACKET as usize, counter as u8);
                self.socket.send_to(&packet, to(counter)).unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.next += heaps;
    }
}

/// Two senders have all the memory that the kernel may have. When they are silent, a third one gets it, and one that speaks again.
#[test]
fn a_silent_sender_of_heaps_gives_its_memory_to_others() {
    if !may_place() {
        return;
    }
    let line = format!("receive --json --format spead --tier bpf --memory 16MiB --stop-items never {ANY}");
    let mut receiver = Job::start(&words(&line));
    let to = receiver.address();
    let [mut first, mut second, mut third] = [1, 10_001, 20_001].map(|counter| HeapSender::new(&to, counter));
    for sender in [&mut first, &mut second] {
        sender.send(300);
    }
    // Ten seconds, once the second one's program is loaded, and two looks.
    std::thread::sleep(Duration::from_secs(15));
    for sender in [&mut first, &mut third] {
        sender.send(300);
    }
    // Its program may take longer to load than it sends.
    std::thread::sleep(Duration::from_secs(2));
    receiver.drained();
    let report = receiver.stop().json();
    let (counters, source) = (&report["counters"], source(&report));
    assert_eq!((number(&counters["retired_complete"]), number(&counters["heaps"])), (1200, 1200), "{report}");
    assert_eq!((number(&source["packets"]), drops(&report)), (9600, 0), "{report}");
    assert_eq!(source["tier"], "bpf", "{source}");
    assert!(source["because"].as_str().unwrap().contains("places 2 of 2 streams"), "{source}");
}

/// The heaps of one sender, in turns to two sockets: each packet is counted by the socket that got it.
#[test]
fn a_sender_to_two_sockets_has_a_program_at_one_of_them() {
    if !may_place() {
        return;
    }
    let line =
        format!("receive --json --format spead --tier bpf --memory 64MiB --stop-items never {ANY} {ANY}");
    let mut receiver = Job::start(&words(&line));
    let to: Vec<SocketAddr> = receiver
        .listening()
        .iter()
        .map(|address| address.trim_start_matches("udp://").parse().unwrap())
        .collect();
    let mut sender = HeapSender { socket: UdpSocket::bind("127.0.0.1:0").unwrap(), next: 1 };
    // Until the program is loaded, and after.
    for _ in 0..6 {
        sender.send_each(100, |counter| to[(counter % 2) as usize]);
        std::thread::sleep(Duration::from_millis(300));
    }
    receiver.drained();
    let report = receiver.stop().json();
    let counters = &report["counters"];
    assert_eq!((number(&counters["retired_complete"]), drops(&report)), (600, 0), "{report}");
    assert_eq!(number(&report["objects"]["heaps"]["missing"]), 0, "{report}");
    let sources = report["sources"].as_array().unwrap();
    assert!(sources.iter().all(|source| number(&source["packets"]) == 2400), "{report}");
    let because: Vec<&str> = sources.iter().map(|source| source["because"].as_str().unwrap()).collect();
    for said in ["places 1 of 1 streams", "the kernel places what it sends to another socket"] {
        assert_eq!(because.iter().filter(|because| because.contains(said)).count(), 1, "{because:?}");
    }
}
