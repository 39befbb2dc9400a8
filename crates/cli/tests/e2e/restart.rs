//! Senders that restart, fall silent for long, or have odd clocks.

use crate::site::{ANY, Job, Site, all_acknowledged, drops, number, port, refused, sum};
use crate::site::{halves, mark5b, numbered, see, vdif};
use serde_json::Value;
use skyhaul::wire::{FILL, Order, fila10g};
use std::collections::HashSet;
use std::net::UdpSocket;

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
