//! Faults of networks and senders, and what the reports say of them, frame for frame: loss and damage on purpose; senders that
//! restart, fall silent for long, or have odd clocks; sessions in which no packet was accepted, which fail whatever the reason.

use crate::site::{
    ANY, Done, Job, Site, all_acknowledged, counter, drops, halves, mark5b, number, numbered, port, ranges,
    refused, run, see, send, sum, vdif, words,
};
use serde_json::Value;
use skyhaul::wire::{FILL, Order, fila10g};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::Duration;

const FIRST: u64 = 1_000_003;
const PAYLOAD: usize = 2000;

/// Lost on purpose, in the stream's own numbers, without what lies before its first and behind its last frame.
fn injected(sent: &Value) -> Vec<(u64, u64)> {
    let numbered = number(&sent["numbered"]);
    let all = ranges(&sent["lost_ranges"]);
    all.into_iter().filter(|r| r.0 > 0 && r.1 < numbered).map(|r| (r.0 + FIRST, r.1 + FIRST)).collect()
}

/// How many of `inner` are in none of `outer` (both ascending).
fn outside(inner: &[(u64, u64)], outer: &[(u64, u64)]) -> u64 {
    let count = |n: u64| u64::from(!outer.iter().any(|r| (r.0..r.1).contains(&n)));
    inner.iter().flat_map(|r| r.0..r.1).map(count).sum()
}

fn one_seed(seed: u64) {
    let site = Site::new(2);
    let mut recorder = site.record(ANY);
    let faults = format!("loss=0.01,reorder=64,duplicate=0.01,burst=500@0.0005,seed={seed}");
    let line = format!(
        "--pattern --payload {PAYLOAD} --packets 20000 --rate 300Mbps --first {FIRST} --faults {faults}"
    );
    let sent = send(&recorder.address(), &line);
    recorder.drained();
    let done = recorder.stop();
    let report = done.json();
    let dropped = drops(&report);
    let stream = &report["streams"][0];
    assert_eq!(report["streams"].as_array().unwrap().len(), 1, "seed {seed}: {report}");
    assert_eq!(done.code, Some(i32::from(dropped > 0)), "seed {seed}: {}", done.stderr);
    all_acknowledged(&report);

    // Everything that arrived is in place, or is the second of two.
    let (placed, lost) = (number(&stream["placed"]), number(&stream["lost"]));
    assert_eq!(number(&stream["packets"]) + dropped, number(&sent["packets"]), "seed {seed}");
    assert_eq!(placed + refused(stream), number(&stream["packets"]), "seed {seed}: {stream}");
    let doubled = counter(&stream["rejects"]["duplicate"]) + counter(&stream["rejects"]["late"]);
    assert_eq!(doubled, refused(stream), "seed {seed}: only doubles are refused: {}", stream["rejects"]);
    assert!(doubled <= number(&sent["duplicated"]), "seed {seed}");
    assert!(doubled + dropped >= number(&sent["duplicated"]), "seed {seed}: {stream}");

    // The loss map is what was injected, and what the kernel dropped.
    let (map, want) = (ranges(&stream["loss_map"]), injected(&sent));
    assert!(!want.is_empty() && number(&stream["loss_map_left_out"]) == 0, "seed {seed}");
    assert_eq!(map.iter().map(|r| r.1 - r.0).sum::<u64>(), lost, "seed {seed}");
    if dropped == 0 {
        assert_eq!(map, want, "seed {seed}");
        assert_eq!(doubled, number(&sent["duplicated"]), "seed {seed}");
    } else {
        eprintln!("seed {seed}: the kernel dropped {dropped} packets");
        assert_eq!(outside(&want, &map), 0, "seed {seed}: injected, and not in the map");
        assert!(outside(&map, &want) <= dropped, "seed {seed}: in the map, and not injected");
    }
    assert!(
        number(&stream["reordered"]) > 0 && number(&stream["reorder_extent"]["max"]) <= 64 + 500,
        "{stream}"
    );
    proven(&site, placed, lost, seed);
}

/// Check and cat agree with the report.
fn proven(site: &Site, placed: u64, lost: u64, seed: u64) {
    let check = site.check(0);
    assert_eq!(check["verdict"], "holes", "seed {seed}: {check}");
    let streams = &check["datastreams"];
    let between = sum(streams, "missing_between");
    assert_eq!(sum(streams, "missing_units") + between, lost, "seed {seed}: {check}");
    assert_eq!(sum(streams, "filled_frames") + between, lost, "seed {seed}: {check}");
    assert_eq!(sum(streams, "illegal_frames"), 0, "seed {seed}: {check}");
    assert_eq!(check["datastreams"][0]["damaged"].as_array().map(Vec::len), Some(0), "seed {seed}: {check}");
    let seen = see(&site.cat(), PAYLOAD + 32);
    assert_eq!((seen.good, seen.invalid + between), (placed, lost), "seed {seed}");
    assert!(seen.times.is_sorted_by(|a, b| a < b), "seed {seed}: in order of time");
}

/// A stream of which nothing is left ends all the same, and keeps its time.
#[test]
fn all_lost_on_purpose() {
    let line = "send --json --pattern --faults loss=1 --rate 100Mbps --duration 300ms --to udp://127.0.0.1:9";
    let report = run(line).expect(0).json();
    assert_eq!(number(&report["packets"]), 0, "{report}");
    // 300 ms of 100 Mb/s in packets of 8 kB are some 470.
    assert!((300..700).contains(&number(&report["lost"])), "{report}");
}

#[test]
fn the_loss_map_is_what_was_lost() {
    for seed in [7, 2026, 41] {
        one_seed(seed);
    }
}

/// Faults at the receiver's door are the same faults: what they withhold is lost, and counted as that.
#[test]
fn a_receiver_can_do_the_same_to_itself() {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} --faults loss=0.02,reorder=32,duplicate=0.02,seed=3"));
    let sent = send(&recorder.address(), "--pattern --payload 2000 --packets 8000 --rate 200Mbps");
    let report = recorder.stop().json();
    let stream = &report["streams"][0];
    let (placed, lost) = (number(&stream["placed"]), number(&stream["lost"]));
    assert!(placed + lost + 64 > number(&sent["packets"]), "{stream}");
    assert!(placed + lost <= number(&sent["packets"]), "{stream}");
    assert!(lost > 80 && counter(&stream["rejects"]["duplicate"]) > 80, "{stream}");
    assert_eq!(see(&site.cat(), PAYLOAD + 32).good, placed);
}

/// Damaged packets never stand as good data: with the pattern every flipped bit shows.
#[test]
fn damage_is_found_and_does_not_spread() {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    let line =
        "--pattern --payload 2000 --packets 8000 --rate 200Mbps --faults corrupt=0.003,truncate=0.003,seed=5";
    let sent = send(&recorder.address(), line);
    let report = recorder.stop().json();
    let stream = &report["streams"][0];
    let (corrupted, truncated) = (number(&sent["corrupted"]), number(&sent["truncated"]));
    assert!(corrupted > 0 && truncated > 0, "{sent}");
    assert_eq!(number(&stream["packets"]) + drops(&report), number(&sent["packets"]), "{stream}");
    assert_eq!(number(&stream["placed"]) + refused(stream), number(&stream["packets"]), "{stream}");
    assert!(refused(stream) <= corrupted + truncated, "{stream}");
    let check = site.run("check trial --verify --json");
    let wrong = sum(&check.json()["datastreams"], "illegal_frames");
    // A bit flipped in a place that is not checked (a sequence number's upper half) may be refused instead.
    assert!(wrong > 0 && wrong <= corrupted, "{wrong} of {corrupted}");
    assert_eq!(check.code, Some(1));
}

/// Heaps have the same faults: each packet that was lost on purpose is missing, and none else.
#[test]
fn heaps_are_sent_with_faults_too() {
    for seed in 1..=2 {
        let line = "receive --format spead --json --verify --memory 256MiB --wait 60s --idle 2s --listen udp://127.0.0.1:0";
        let mut receiver = Job::start(&words(line));
        let sent = send(
            &receiver.address(),
            &format!(
                "--format spead --pattern --bare --heap-size 64KiB --heaps 300 --rate 300Mbps \
                 --faults loss=0.01,reorder=16,duplicate=0.02,seed={seed}"
            ),
        );
        let report = receiver.finish().json();
        let heaps = &report["objects"]["heaps"];
        assert_eq!(number(&report["pattern_errors"]), 0, "seed {seed}: {report}");
        assert_eq!(
            number(&report["packets"]) + drops(&report),
            number(&sent["packets"]),
            "seed {seed}: {report}"
        );
        assert_eq!(
            number(&sent["numbered"]) - number(&sent["lost"]) + number(&sent["duplicated"]),
            number(&sent["packets"])
        );
        assert!(number(&sent["lost"]) > 20 && number(&sent["duplicated"]) > 40, "seed {seed}: {sent}");
        let ended = number(&heaps["complete"]) + number(&heaps["incomplete"]);
        assert!(ended == 300 || drops(&report) > 0, "seed {seed}: {report}");
        assert!(
            number(&heaps["incomplete"]) > 20 && number(&heaps["missing_bytes"]) > 20_000,
            "seed {seed}: {heaps}"
        );
    }
}

const RATE: u32 = 2000;
const SECOND: i64 = 1_790_000_000;

/// A sender that keeps its port.
struct Station {
    socket: UdpSocket,
    sent: u64,
}

impl Station {
    fn new(recorder: &mut Job) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port(&recorder.address()))).unwrap();
        Self { socket, sent: 0 }
    }

    fn packet(&mut self, packet: &[u8]) {
        self.socket.send(packet).unwrap();
        self.sent += 1;
        if self.sent.is_multiple_of(10) {
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
    }

    /// Frames `from` to `to`, numbered so; their time begins at `second`.
    fn run(&mut self, from: u64, to: u64, second: i64) {
        for n in from..to {
            let frame = vdif(second + (n / u64::from(RATE)) as i64, (n % u64::from(RATE)) as u32, 0, 2000);
            self.packet(&numbered(n, Order::Little, &frame));
        }
    }
}

/// Record what `act` sends; the report's only stream.
fn recorded(line: &str, act: impl FnOnce(&mut Station)) -> (Site, Value, u64) {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} {line}"));
    let mut station = Station::new(&mut recorder);
    act(&mut station);
    recorder.drained();
    let report = recorder.stop().json();
    all_acknowledged(&report);
    assert_eq!(report["streams"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(sum(&report["streams"], "packets") + drops(&report), station.sent);
    (site, report, station.sent)
}

#[test]
fn a_counter_that_restarts() {
    let (site, report, sent) = recorded("", |station| {
        station.run(0, 5000, SECOND);
        station.run(0, 5000, SECOND + 100);
        station.run(0, 3000, SECOND + 200);
    });
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["restarts"]), 2, "{stream}");
    let (placed, late) = (number(&stream["placed"]), refused(stream));
    assert_eq!(placed + late + drops(&report), sent, "{stream}");
    // Believing a restart takes the first packets behind it: some of them, once each.
    assert!(late <= 2 * 16, "{stream}");
    assert!(number(&stream["lost"]) <= 2 * 16 + drops(&report), "{stream}");
    let events = report["recording"]["events"].as_array().unwrap();
    assert_eq!(events.iter().filter(|e| e["kind"] == "restart").count(), 2, "{events:?}");
    let seen = see(&site.cat(), 2032);
    assert_eq!(seen.good, placed);
    let part = |second: i64| seen.times.iter().filter(|t| (second..second + 50).contains(&t.0)).count();
    assert!(part(SECOND) >= 5000 - 16 && part(SECOND + 100) >= 4984 - 16 && part(SECOND + 200) >= 2984 - 16);
    site.check(0);
}

/// A FILA10G that is started again while it is recorded: first halves at the other parity, its counter at zero or continued.
#[test]
fn half_frames_that_restart_in_the_other_phase() {
    const FRAMES: u32 = 400;
    for again in [1, 100_001] {
        let mut after = HashSet::new();
        let (site, report, sent) = recorded("--frame-rate 50", |station| {
            for (counter, from) in [(0, 0), (again, FRAMES)] {
                for n in 0..FRAMES {
                    let at = from + n;
                    for packet in halves(counter + 2 * n, &mark5b(821, 100 + at / 50, at % 50, 50)) {
                        station.packet(&packet);
                        if from > 0 {
                            after.insert(packet[8..].to_vec());
                        }
                    }
                }
            }
        });
        let stream = &report["streams"][0];
        assert_eq!(number(&stream["placed"]) + refused(stream) + drops(&report), sent, "{stream}");
        assert_eq!(number(&stream["restarts"]), 1, "{stream}");
        // It is certain of the restart after 32, and looks at the end of a train.
        let unpaired = number(&stream["rejects"]["unpaired"]);
        assert!((32..32 + 64).contains(&unpaired), "{stream}");
        assert!(number(&stream["lost"]) <= drops(&report), "{stream}");
        let events = report["recording"]["events"].as_array().unwrap();
        let restarts: Vec<&Value> = events.iter().filter(|event| event["kind"] == "restart").collect();
        let text = format!("in the other phase, after {unpaired} unpaired packets");
        assert!(restarts.len() == 1 && restarts[0]["text"].as_str().unwrap().contains(&text), "{events:?}");
        let cat = site.cat();
        let came = cat.chunks(fila10g::HALF).filter(|half| after.contains(*half)).count() as u64;
        let real = cat.chunks(fila10g::HALF).filter(|half| !half.ends_with(&FILL)).count() as u64;
        assert_eq!(real, number(&stream["placed"]), "{stream}");
        assert!(came + drops(&report) + refused(stream) >= 2 * u64::from(FRAMES), "{came}: {stream}");
    }
}

/// A restart a few frames after the beginning: everything then is near what came before.
#[test]
fn a_counter_that_restarts_soon() {
    let (site, report, sent) = recorded("", |station| {
        station.run(0, 700, SECOND);
        station.run(0, 4000, SECOND + 10);
    });
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["placed"]) + refused(stream) + drops(&report), sent, "{stream}");
    let seen = see(&site.cat(), 2032);
    let second_part = seen.times.iter().filter(|t| t.0 >= SECOND + 10).count() as u64;
    assert!(second_part + 700 + 16 + drops(&report) >= 4000, "{second_part}: {stream}");
}

#[test]
fn a_long_outage_is_lost_frames() {
    let (site, report, sent) = recorded("", |station| {
        station.run(0, 3000, SECOND);
        station.run(203_000, 206_000, SECOND);
    });
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["restarts"]), 0, "{stream}");
    assert_eq!(number(&stream["placed"]) + drops(&report), sent, "{stream}");
    assert_eq!(number(&stream["lost"]), 200_000 + drops(&report), "{stream}");
    if drops(&report) == 0 {
        assert_eq!(stream["loss_map"], serde_json::json!([[3000, 203_000]]));
    }
    let check = site.check(0);
    let seen = see(&site.cat(), 2032);
    assert_eq!(seen.good, number(&stream["placed"]));
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
}

/// By time as well: the clock tells how long the outage was.
#[test]
fn an_outage_by_time() {
    let (_site, report, sent) = recorded("--place time --frame-rate 2000", |station| {
        station.run(0, 3000, SECOND);
        station.run(50_000, 53_000, SECOND);
    });
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["placed"]) + drops(&report), sent, "{stream}");
    assert_eq!(number(&stream["lost"]), 47_000 + drops(&report), "{stream}");
}

/// A thread whose clock is off is placed beside the others, and the report says so.
#[test]
fn a_thread_with_a_wrong_clock() {
    let (site, report, sent) = recorded("--place time --frame-rate 1000", |station| {
        for n in 0..3000u32 {
            for thread in 0..3u16 {
                let off = if thread == 1 { 40 } else { 0 };
                let frame = vdif(SECOND + i64::from(n / 1000) + off, n % 1000, thread, 2000);
                station.packet(&numbered(u64::from(n), Order::Little, &frame));
            }
        }
    });
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["placed"]) + drops(&report), sent, "{stream}");
    let quirks = stream["quirks"].to_string();
    assert!(quirks.contains("clock of thread 1 is wrong: -40 s"), "{quirks}");
    assert!(number(&stream["lost"]) <= drops(&report), "{stream}");
    assert_eq!(see(&site.cat(), 2032).good, number(&stream["placed"]));
}

/// The second steps twice in a stream placed by sequence number: places follow the numbers, times are kept.
#[test]
fn a_clock_that_jumps() {
    let (site, report, sent) = recorded("", |station| {
        station.run(0, 3000, SECOND);
        station.run(3000, 6000, SECOND + 1000);
        station.run(6000, 9000, SECOND - 1000);
    });
    let stream = &report["streams"][0];
    assert_eq!(number(&stream["placed"]) + drops(&report), sent, "{stream}");
    assert!(number(&stream["lost"]) <= drops(&report), "{stream}");
    assert_eq!(see(&site.cat(), 2032).good, number(&stream["placed"]));
    assert_eq!(stream["irregular"]["time_jumps"], 2, "{stream}");
    let check = site.check(1);
    assert_eq!(check["verdict"], "irregular", "every frame is there, and the times are not: {check}");
    assert_eq!(check["datastreams"][0]["irregular"]["time_jumps"], 2, "{check}");
}

const PACKETS: u64 = 300;

fn frame(n: u64) -> Vec<u8> {
    numbered(n, Order::Little, &vdif(1_790_000_000, n as u32, 0, 1000))
}

fn noise(n: u64) -> Vec<u8> {
    vec![n as u8 | 1; 100]
}

/// Send to a receiver that then ends as by Ctrl-C.
#[track_caller]
fn heard(mut job: Job, packet: fn(u64) -> Vec<u8>) -> Done {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port(&job.address()))).unwrap();
    for n in 0..PACKETS {
        socket.send(&packet(n)).unwrap();
        if n % 10 == 9 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    job.stop()
}

#[test]
fn a_session_without_an_accepted_packet_fails_and_says_so() {
    type Case = (&'static str, &'static str, fn(u64) -> Vec<u8>);
    let cases: [Case; 8] = [
        ("--format auto", "unrecognised", noise),
        ("--format vdif", "unrecognised", noise),
        ("--format mark5b", "unrecognised", frame),
        ("--format fila10g", "unrecognised", frame),
        ("--format lofar", "unrecognised", frame),
        ("--format spead", "", noise),
        ("--from 127.0.0.2", "not_allowed", frame),
        ("--start 1900000000", "before_start", frame),
    ];
    for (line, why, packet) in cases {
        let site = Site::new(1);
        let received =
            heard(Job::start(&words(&format!("receive --json --memory 96MiB {ANY} {line}"))), packet);
        let recorded = heard(site.record(&format!("{ANY} {line}")), packet);
        for (verb, done) in [("receive", received), ("record", recorded)] {
            let done = done.expect(1);
            let report = done.json();
            let came = PACKETS - drops(&report);
            assert_eq!(number(&report["packets"]), came, "{verb} {line}");
            assert!(why.is_empty() || report["rejects"][why] == came, "{verb} {line}: {}", report["rejects"]);
            let text = format!("error: nothing was received: {came} packets came, none was accepted (");
            assert!(
                done.stderr.contains(&text) && done.stderr.contains("hint: "),
                "{verb} {line}: {}",
                done.stderr
            );
        }
        let check = site.run("check trial").expect(1);
        assert!(check.told().contains("EMPTY"), "{line}: {}", check.said());
    }
}

/// Some packets that fit are a session.
#[test]
fn a_session_with_strangers_beside_its_stream_is_one() {
    let packet = |n: u64| if n.is_multiple_of(3) { noise(n) } else { frame(n - n / 3 - 1) };
    let done =
        heard(Job::start(&words(&format!("receive --json --memory 96MiB {ANY} --format vdif"))), packet);
    let report = done.expect(0).json();
    assert!(number(&report["streams"][0]["placed"]) > 0, "{report}");
    assert!(number(&report["rejects"]["truncated"]) > 0, "{report}");
}
