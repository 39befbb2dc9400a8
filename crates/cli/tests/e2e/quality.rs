//! The quality of what is recorded: the mistakes of stations are in the report, in the events, and in the alarms of the service, from a
//! few seconds of data; a clean stream is not accused.
//!
//! The streams are made here, sample by sample: noise that a filter has shaped, quantised at the usual thresholds.

use crate::serve::Serving;
use crate::site::{ANY, Job, Site, number, port, wait_for};
use serde_json::Value;
use std::net::UdpSocket;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Frames of a thread in a second, and bytes of a payload.
const FPS: u64 = 200;
const PAYLOAD: usize = 4000;
/// A recording is this long.
const SECONDS: u64 = 6;

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Mistakes {
    /// Bytes of 32-bit words in reverse order.
    swapped: bool,
    /// Thread 1 has the samples of thread 0.
    copied: bool,
    /// Thread 1 has one state only.
    dead: bool,
    /// The high bit is always set.
    stuck: bool,
    /// The header states this width.
    bits: Option<u32>,
    /// Seconds by which all times are off; and those of thread 1.
    seconds: i64,
    seconds_of_1: i64,
    /// Every fourth frame is marked invalid.
    invalid: bool,
}

/// Noise shaped by a filter, as 2-bit samples in offset binary: two seconds of two threads, which are sent over and over.
fn sky() -> &'static [[Vec<u8>; 2]] {
    static SKY: OnceLock<Vec<[Vec<u8>; 2]>> = OnceLock::new();
    SKY.get_or_init(|| {
        let (mut state, mut before) = (77u64, 0i64);
        let mut code = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            // Four numbers of 16 bits are nearly normal: deviation 37 837, of the filtered 40 752.
            let new = [0, 16, 32, 48].iter().map(|n| (mixed >> n & 0xFFFF) as i64).sum::<i64>() - 131_070;
            let x = new + before * 2 / 5;
            before = new;
            u8::from(x > -39_937) + u8::from(x > 0) + u8::from(x > 39_937)
        };
        let mut payload = || {
            let mut payload = vec![0; PAYLOAD];
            for octet in &mut payload {
                *octet = code() | code() << 2 | code() << 4 | code() << 6;
            }
            payload
        };
        (0..2 * FPS).map(|_| [payload(), payload()]).collect()
    })
}

/// A VDIF frame, word by word as the standard has it: epoch 52 begins at 2026-01-01.
fn frame(time: (i64, u64), thread: u32, bits: u32, is_invalid: bool, payload: &[u8]) -> Vec<u8> {
    const EPOCH: (u32, i64) = (52, 1_767_225_600);
    let seconds = u32::try_from(time.0 - EPOCH.1).unwrap();
    let words = [
        u32::from(is_invalid) << 31 | seconds,
        EPOCH.0 << 24 | time.1 as u32,
        1 << 29 | ((payload.len() + 32) / 8) as u32,
        (bits - 1) << 26 | thread << 16 | u32::from(u16::from_be_bytes(*b"Mh")),
        0,
        0,
        0,
        0,
    ];
    let mut frame: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    frame.extend_from_slice(payload);
    frame
}

/// Sends two threads behind sequence numbers, in time, until `is_over`.
fn feed(to: u16, mistakes: Mistakes, seconds: u64, mut is_over: impl FnMut() -> bool) {
    let mut payloads = sky().to_vec();
    for both in &mut payloads {
        if mistakes.copied {
            both[1] = both[0].clone();
        }
        if mistakes.dead {
            both[1].fill(0b0101_0101);
        }
        if mistakes.stuck {
            both.iter_mut().flatten().for_each(|octet| *octet |= 0b1010_1010);
        }
        if mistakes.swapped {
            both.iter_mut().for_each(|payload| payload.chunks_exact_mut(4).for_each(<[u8]>::reverse));
        }
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", to)).unwrap();
    let (begun, start) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    for n in 0..seconds * FPS {
        let due = Duration::from_nanos(n * 1_000_000_000 / FPS);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let time = start + due;
        let number = u64::from(time.subsec_nanos()) * FPS / 1_000_000_000;
        for (thread, payload) in (0..).zip(&payloads[n as usize % payloads.len()]) {
            let off = mistakes.seconds + if thread == 1 { mistakes.seconds_of_1 } else { 0 };
            let at = (time.as_secs() as i64 + off, number);
            let is_invalid = mistakes.invalid && n % 4 == 3;
            let frame = frame(at, thread, mistakes.bits.unwrap_or(2), is_invalid, payload);
            let packet = [&(2 * n + u64::from(thread)).to_le_bytes()[..], &frame].concat();
            // A receiver that has ended says so.
            if socket.send(&packet).is_err() {
                return;
            }
        }
        if n % 20 == 19 && is_over() {
            return;
        }
    }
}

/// Records a stream; its report.
#[track_caller]
fn recorded(options: &str, mistakes: Mistakes) -> Value {
    let site = Site::new(1);
    let mut recorder: Job = site.record(&format!("{ANY} --frame-rate {FPS} {options}"));
    feed(port(&recorder.address()), mistakes, SECONDS, || false);
    let done = recorder.stop();
    assert_eq!(done.code, Some(0), "what was sent is recorded: {}", done.stderr);
    done.json()
}

/// Names of all findings, each with its thread.
#[track_caller]
fn found(report: &Value) -> Vec<String> {
    let threads = report["quality"]["threads"].as_array().unwrap_or_else(|| panic!("no quality: {report}"));
    let of = |thread: &Value| -> Vec<String> {
        let findings = thread["findings"].as_array().unwrap().iter();
        findings.map(|one| format!("{} {}", one["finding"].as_str().unwrap(), thread["thread"])).collect()
    };
    let mut found: Vec<String> = threads.iter().flat_map(of).collect();
    found.sort();
    found.dedup();
    found
}

/// Texts of events about quality.
fn said(report: &Value) -> Vec<String> {
    let events = report["recording"]["events"].as_array().unwrap().iter();
    let quality = events.filter(|event| event["kind"] == "quality");
    quality.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_clean_stream_is_not_accused_and_its_states_are_shown() {
    let report = recorded("", Mistakes::default());
    assert!(found(&report).is_empty(), "{report}");
    assert!(said(&report).is_empty(), "{report}");
    let threads = report["quality"]["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2, "{report}");
    for thread in threads {
        assert_eq!((&thread["station"], &thread["bits"]), (&"Mh".into(), &2.into()), "{thread}");
        assert!(number(&thread["frames"]) >= 8, "{thread}");
        let channel = &thread["channels"][0];
        let states: Vec<f64> =
            channel["states"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        for (state, usual) in states.iter().zip([0.163, 0.337, 0.337, 0.163]) {
            assert!((state - usual).abs() < 0.02, "{states:?}");
        }
        let correlation = channel["autocorrelation"][1].as_f64().unwrap();
        assert!((0.2..0.4).contains(&correlation), "0.4 / 1.16, less what two bits lose: {correlation}");
        assert!(channel["spectrum"].as_array().unwrap().len() > 64, "{channel}");
        // A host that is busy delays packets; it does not make data early.
        let offset = thread["clock_offset_seconds"].as_f64().unwrap();
        assert!(offset < 0.05, "{offset}");
    }
}

#[test]
fn it_is_not_looked_at_where_it_is_not_wanted() {
    let report = recorded("--no-quality", Mistakes { swapped: true, ..Mistakes::default() });
    assert!(report["quality"].is_null(), "{report}");
    assert!(said(&report).is_empty(), "{report}");
}

#[test]
fn mistakes_in_the_samples_are_named() {
    let report = recorded("", Mistakes { swapped: true, ..Mistakes::default() });
    assert_eq!(found(&report), ["byte_order 0", "byte_order 1"], "{report}");
    let said = said(&report);
    assert!(said.iter().all(|text| text.contains("the bytes of 32-bit words are reversed")), "{said:?}");
    assert_eq!(said.len(), 2, "{said:?}");

    let report = recorded("", Mistakes { copied: true, ..Mistakes::default() });
    assert_eq!(found(&report), ["copied_channel 1"], "{report}");
    let report = recorded("", Mistakes { dead: true, ..Mistakes::default() });
    assert_eq!(found(&report), ["constant_payload 1"], "{report}");
    let report = recorded("", Mistakes { stuck: true, ..Mistakes::default() });
    assert_eq!(found(&report), ["stuck_bit 0", "stuck_bit 1"], "{report}");
}

#[test]
fn mistakes_in_the_headers_are_named() {
    // As an old recorder wrote it: the bits, and not the bits less one.
    let report = recorded("", Mistakes { bits: Some(3), ..Mistakes::default() });
    assert_eq!(found(&report), ["bits_per_sample 0", "bits_per_sample 1"], "{report}");
    let report = recorded("", Mistakes { seconds: 18, ..Mistakes::default() });
    assert_eq!(found(&report), ["data_time 0", "data_time 1"], "{report}");
    let text = report["quality"]["threads"][0]["findings"][0]["text"].as_str().unwrap();
    assert!(text.contains("GPS time instead of UTC"), "{text}");
    let report = recorded("", Mistakes { seconds_of_1: -1, ..Mistakes::default() });
    assert_eq!(found(&report), ["data_time 1", "thread_time 1"], "{report}");
    let report = recorded("", Mistakes { invalid: true, ..Mistakes::default() });
    assert_eq!(found(&report), ["invalid_frames 0", "invalid_frames 1"], "{report}");
}

/// An alarm while it is recorded, in status and metrics too.
#[test]
fn the_service_alarms_and_shows_it() {
    let serving = Serving::start(Site::new(1), "");
    serving.call("station start swapped --input a").expect(0);
    let head = format!("GET /api/v1/figures HTTP/1.1\r\nHost: {}", serving.api);
    let mut figures = Value::Null;
    let mut status = Value::Null;
    feed(serving.ports[0], Mistakes { swapped: true, ..Mistakes::default() }, 60, || {
        figures = serving.http(&head, "").1;
        let alarms = figures["alarms"].as_array().unwrap();
        let is_named =
            alarms.iter().any(|alarm| alarm["kind"] == "byte_order" && alarm["subject"] == "swapped");
        if is_named {
            status = serving.status();
        }
        is_named
    });
    assert_eq!(
        status["quality"]["swapped"]["threads"][1]["findings"][0]["finding"], "byte_order",
        "{figures}"
    );
    let shown = &figures["recordings"][0]["quality"]["threads"][0];
    assert_eq!(shown["channels"][0]["states"].as_array().unwrap().len(), 4, "{shown}");
    serving.call("station stop swapped").expect(0);
    let log = wait_for("the alarm's end", || {
        let figures = serving.http(&head, "").1;
        figures["alarms"].as_array()?.is_empty().then(|| figures["log"].clone())
    });
    let said = log.as_array().unwrap().iter().filter(|entry| entry["kind"] == "alarm").count();
    assert!(said >= 2, "it began and ended: {log}");

    let serving = Serving::start(Site::new(1), "quality = false");
    serving.call("station start swapped --input a").expect(0);
    assert_eq!(serving.status()["quality"], serde_json::json!({}));
}
