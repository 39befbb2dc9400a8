//! What the headers of a stream say against its packets' order: jumps, stopped clocks, threads that come and go, told live, in
//! the report, in the index and by `check`; and fill, which is written or not, and counted once.
//!
//! Samples of data whose headers are wrong: what is repaired is counted and said, and a wrong rate is not used.

use crate::site::{
    ANY, Done, Job, Site, all_acknowledged, drops, halves, mark5b, number, numbered, port, refused, run, see,
    sum, vdif,
};
use serde_json::Value;
use skyhaul::wire::Order;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FPS: u64 = 200;
const PAYLOAD: usize = 1000;
const START: i64 = 1_795_402_800;

/// Second and frame of tick `n`.
fn right(tick: u64) -> (i64, u32) {
    (START + (tick / FPS) as i64, (tick % FPS) as u32)
}

/// Send packets to a recorder, not faster than its socket takes them, and end it; its report.
#[track_caller]
fn recorded(site: &Site, options: &str, packets: impl Iterator<Item = Vec<u8>>) -> (Value, Done) {
    let mut recorder = site.record(&format!("{ANY} {options}"));
    feed(&mut recorder, packets);
    let done = recorder.stop();
    let report = done.json();
    assert_eq!(drops(&report), 0, "{report}");
    all_acknowledged(&report);
    (report, done)
}

fn feed(receiver: &mut Job, packets: impl Iterator<Item = Vec<u8>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port(&receiver.address()))).unwrap();
    for (n, packet) in packets.enumerate() {
        socket.send(&packet).unwrap();
        if n % 20 == 19 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Kinds of the events in a report, without those about the host's clock, which these times are not of.
fn kinds(report: &Value) -> Vec<String> {
    let events = report["recording"]["events"].as_array().unwrap();
    let kinds = events.iter().map(|event| event["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind != "clock_offset" && kind != "same_device").collect()
}

/// Packets of a stream, of whatever family.
type Packets = Box<dyn Iterator<Item = Vec<u8>>>;

/// Two threads that take turns, behind sequence numbers.
fn two(ticks: u64, time: impl Fn(u64) -> (i64, u32)) -> impl Iterator<Item = Vec<u8>> {
    (0..2 * ticks).map(move |n| {
        let (second, frame) = time(n / 2);
        numbered(n, Order::Little, &vdif(second, frame, (n % 2) as u16, PAYLOAD))
    })
}

#[test]
fn a_jump_behind_numbers_is_told_and_is_not_complete() {
    for jump in [1, -1] {
        let site = Site::new(2);
        let jumped = |tick| {
            let (second, frame) = right(tick);
            (second + if tick >= 777 { jump } else { 0 }, frame)
        };
        let (report, done) = recorded(&site, "", two(1500, jumped));
        assert_eq!(done.code, Some(1), "all that came is recorded, and is irregular: {}", done.stderr);
        let stream = &report["streams"][0];
        assert_eq!((number(&stream["placed"]), number(&stream["lost"])), (3000, 0), "{stream}");
        assert_eq!(number(&stream["irregular"]["time_jumps"]), 1, "{stream}");
        assert_eq!(kinds(&report), ["time_jump"], "{report}");
        let check = site.check(1);
        assert_eq!(check["verdict"], "irregular", "{check}");
        assert_eq!(check["datastreams"][0]["irregular"]["time_jumps"], 1, "{check}");
        let text = site.run("check trial").expect(1).told();
        assert!(text.contains("IRREGULAR STREAM: 1 time jump") && !text.contains("COMPLETE"), "{text}");
        assert!(
            text.contains("time_jump: ") && text.contains("1.000000 s"),
            "the event is in the index: {text}"
        );
    }
}

/// Without numbers as with them: what a sender repeats, and a clock that stands still, are not complete.
#[test]
fn times_that_return_or_stand_still_are_irregular_with_and_without_numbers() {
    let back = |tick| right(if tick < 777 { tick } else { tick - FPS });
    let twice = |tick| right(tick % 750);
    let still = |tick| right(std::cmp::min(tick, 900));
    type Time<'a> = &'a dyn Fn(u64) -> (i64, u32);
    let cases: [(Time<'_>, &str); 3] =
        [(&back, "time_jump"), (&twice, "time_jump"), (&still, "time_stopped")];
    for (time, kind) in cases {
        for is_numbered in [true, false] {
            let site = Site::new(1);
            let packets = two(1500, time).map(|packet| packet[if is_numbered { 0 } else { 8 }..].to_vec());
            let (report, done) = recorded(&site, "", packets);
            assert_eq!(done.code, Some(1), "{kind} {is_numbered}: {}", done.stderr);
            assert_eq!(kinds(&report).iter().filter(|of| *of == kind).count(), 1, "{is_numbered} {report}");
            let check = site.check(1);
            assert_eq!(check["verdict"], "irregular", "{kind} {is_numbered}: {check}");
            let counts = ["time_jumps", "time_stops", "odd_frames", "rate_changes"];
            for count in counts {
                let found = [&report["streams"][0], &check["datastreams"][0]]
                    .map(|of| number(&of["irregular"][count]));
                assert_eq!(found[0], found[1], "{kind} {is_numbered} {count}: {report} {check}");
            }
        }
    }
}

/// A clock that repeats three frames to the end, and a thread that vanishes before the frame rate is known: the frames that are on
/// the disks do not show it, and `check` judges it as the recorder did.
#[test]
fn what_only_the_recorder_saw_is_irregular_for_check_too() {
    let looped = |tick| right(if tick < 777 { tick } else { 777 + tick % 3 });
    let bare = |packet: Vec<u8>| packet[8..].to_vec();
    let loops: Vec<Vec<u8>> = two(1500, looped).map(bare).collect();
    let vanished = two(600, right).map(bare).enumerate();
    let vanished: Vec<Vec<u8>> =
        vanished.filter(|(n, _)| n % 2 == 0 || *n < 500).map(|(_, packet)| packet).collect();
    for (packets, count, kind) in
        [(loops, "time_jumps", "times_repeated"), (vanished, "threads_lost", "thread_lost")]
    {
        let site = Site::new(1);
        let (report, done) = recorded(&site, "", packets.into_iter());
        assert_eq!(done.code, Some(1), "{kind}: {}", done.stderr);
        assert_eq!(kinds(&report).iter().filter(|of| *of == kind).count(), 1, "{report}");
        assert_eq!(number(&report["streams"][0]["irregular"][count]), 1, "{report}");
        let check = site.check(1);
        assert_eq!(check["verdict"], "irregular", "{kind}: {check}");
        assert_eq!(number(&check["datastreams"][0]["irregular"][count]), 1, "{check}");
        assert!(check["findings"].to_string().contains("seen while it was recorded"), "{check}");
    }
}

/// Nothing states the frame rate, and there are no numbers: the rate that was learned falls, or rises. The events say so and,
/// without events, the frames do.
#[test]
fn a_learned_frame_rate_that_changes_is_irregular_for_record_and_check() {
    for (first, then) in [(200u32, 100u32), (100, 200)] {
        let site = Site::new(1);
        let of = |second: i64| if second < 6 { first } else { then };
        let frames =
            move |second| (0..of(second)).flat_map(move |frame| [(second, frame, 0), (second, frame, 1)]);
        let packets = (0..26).flat_map(frames);
        let packets = packets.map(|(second, frame, thread)| vdif(START + second, frame, thread, PAYLOAD));
        let (report, done) = recorded(&site, "", packets);
        assert_eq!(done.code, Some(1), "{first} {then}: {}", done.stderr);
        assert_eq!(kinds(&report), ["frame_rate"], "{first} {then}: {report}");
        let stream = &report["streams"][0];
        assert_eq!(number(&stream["irregular"]["rate_changes"]), 1, "{report}");
        assert_eq!(number(&stream["frames_per_second"]), u64::from(then), "{report}");
        let check = site.check(1);
        assert_eq!(check["verdict"], "irregular", "{first} {then}: {check}");
        assert_eq!(number(&check["datastreams"][0]["irregular"]["rate_changes"]), 1, "{check}");
        let text = format!("seconds have {then} frames, not {first} as assumed");
        let said = site.run("check trial").expect(1).told();
        assert!(said.contains("IRREGULAR STREAM: 1 wrong frame rate") && said.contains(&text), "{said}");
        // Its frames as one plain file.
        let directory = site.disks[0].join("plain");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("plain.00000000"), site.run("cat trial").stdout).unwrap();
        let done = site.run("check plain --json");
        let check = done.json();
        assert_eq!(
            (done.code, number(&check["datastreams"][0]["irregular"]["rate_changes"])),
            (Some(1), 1),
            "{check}"
        );
        assert!(check["findings"].to_string().contains(&text), "{check}");
    }
}

/// A thread that was asked for and never came, behind numbers; and a rate that was given, and that the frame numbers disprove: no frame
/// on the disks shows it, and `check` judges it as the recorder did.
#[test]
fn what_was_asked_for_and_did_not_come_is_irregular_for_check_too() {
    let bare = |packet: Vec<u8>| packet[8..].to_vec();
    let longer =
        |(n, packet): (usize, Vec<u8>)| if n < 1200 { packet } else { [packet, vec![0; 8]].concat() };
    let all = [
        ("", two(900, right).enumerate().map(longer).collect(), "refusals", "stream_refused"),
        ("--threads 0-2", two(900, right).collect::<Vec<_>>(), "threads_lost", "thread_lost"),
        ("--frame-rate 150", two(1500, right).map(bare).collect(), "rate_changes", "frame_rate"),
    ];
    for (options, packets, count, kind) in all {
        let site = Site::new(1);
        let (report, done) = recorded(&site, options, packets.into_iter());
        assert_eq!(done.code, Some(1), "{kind}: {}", done.stderr);
        assert!(kinds(&report).iter().any(|of| of == kind), "{report}");
        let check = site.check(1);
        assert_eq!(check["verdict"], "irregular", "{kind}: {check}");
        let counted = |of: &Value| number(&of["irregular"][count]);
        assert_eq!(counted(&check["datastreams"][0]), counted(&report["streams"][0]), "{check}");
    }
}

/// Frames that were left out at the end of a chunk, as their times were not known yet, are missing in it, and not between it and the
/// next one.
#[test]
fn frames_left_out_at_the_end_of_a_chunk_are_no_break_of_time() {
    let site = Site::new(1);
    let lost = 1700..2300;
    let fast = |tick: u64| (START + (tick / 2000) as i64, (tick % 2000) as u32);
    let numbers = two(5000, fast).enumerate().filter(|(n, _)| !lost.contains(n)).map(|(_, packet)| packet);
    let (report, _) = recorded(&site, "", numbers);
    assert_eq!(number(&report["streams"][0]["lost"]), 600, "{report}");
    let check = site.check(0);
    assert_eq!(number(&check["datastreams"][0]["ledger"]["in_chunks"]), 600, "{check}");
    assert_eq!(number(&check["datastreams"][0]["time_breaks"]), 0, "{check}");
}

#[test]
fn the_hosts_clock_is_compared_live() {
    let site = Site::new(1);
    let (report, _) = recorded(&site, "", two(300, right));
    let offset = report["streams"][0]["irregular"]["clock_offset_seconds"].as_f64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((offset + now - START as f64).abs() < 3600.0, "{offset}");
    let events = report["recording"]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "clock_offset"), "{report}");
    assert_eq!(site.check(0)["verdict"], "whole", "a wrong clock of this host is no fault of the data");
}

#[test]
fn frozen_seconds_and_a_vanished_thread_are_told() {
    let site = Site::new(1);
    let frozen = |tick| {
        let (second, frame) = right(tick);
        (second.min(START + 2), frame)
    };
    let (report, _) = recorded(&site, "", two(1500, frozen));
    let jumps = number(&report["streams"][0]["irregular"]["time_jumps"]);
    assert_eq!((jumps, number(&report["streams"][0]["lost"])), (5, 0), "{report}");
    assert_eq!(number(&site.check(1)["datastreams"][0]["irregular"]["time_jumps"]), 5);

    let site = Site::new(1);
    let mut place = 0;
    let mut packets = Vec::new();
    for tick in 0..1500 {
        for thread in 0..2 {
            if thread == 1 && (300..900).contains(&tick) {
                continue;
            }
            let (second, frame) = right(tick);
            packets.push(numbered(place, Order::Little, &vdif(second, frame, thread, PAYLOAD)));
            place += 1;
        }
    }
    let (report, _) = recorded(&site, "", packets.into_iter());
    assert_eq!(kinds(&report), ["thread_lost", "thread_returned"], "{report}");
    assert_eq!(number(&report["streams"][0]["lost"]), 0, "{report}");
    let check = site.check(1);
    let irregular = &check["datastreams"][0]["irregular"];
    assert_eq!(
        (&irregular["threads_lost"], &irregular["threads_returned"]),
        (&1.into(), &1.into()),
        "{check}"
    );
}

#[test]
fn mark5b_and_half_frames_are_compared_too() {
    let time = |tick: u64| (100 + (tick / FPS) as u32 + u32::from(tick >= 500), (tick % FPS) as u32);
    let frame = move |tick| {
        let (second, number) = time(tick);
        mark5b(60, second, number, FPS as u32)
    };
    let whole = (0..900).map(move |n| numbered(n, Order::Big, &frame(n)));
    let half = (0..900).flat_map(move |n| halves(2 * n as u32, &frame(n)));
    let kinds_of: [(&str, Packets); 2] = [("mark5b", Box::new(whole)), ("fila10g", Box::new(half))];
    for (family, packets) in kinds_of {
        let site = Site::new(1);
        let (report, _) = recorded(&site, &format!("--format {family}"), packets);
        assert_eq!(number(&report["streams"][0]["irregular"]["time_jumps"]), 1, "{family}: {report}");
        assert_eq!(kinds(&report), ["time_jump"], "{family}: {report}");
        if family == "mark5b" {
            assert_eq!(number(&site.check(1)["datastreams"][0]["irregular"]["time_jumps"]), 1);
        }
    }
}

/// Thread 1 begins 0.6 s after thread 0.
fn late(ticks: u64) -> Vec<(u64, u16)> {
    let all = (0..ticks).flat_map(|tick| [(tick, 0), (tick, 1)]);
    all.filter(|&(tick, thread)| thread == 0 || tick >= FPS * 6 / 10).collect()
}

#[test]
fn a_late_thread_joins_and_nothing_it_sent_is_missing() {
    let site = Site::new(1);
    let frames = late(1200);
    let packets = frames.iter().map(|&(tick, thread)| {
        let (second, frame) = right(tick);
        vdif(second, frame, thread, PAYLOAD)
    });
    let (report, done) = recorded(&site, "", packets);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let stream = &report["streams"][0];
    assert_eq!((refused(stream), number(&stream["lost"])), (0, 0), "{stream}");
    assert_eq!(number(&stream["placed"]), frames.len() as u64, "{stream}");
    assert_eq!(kinds(&report), ["thread_joined"], "{report}");
    let check = site.check(0);
    assert_eq!(check["datastreams"][0]["irregular"]["threads_joined"], 1, "{check}");
    let text = site.run("check trial").expect(0).told();
    assert!(text.contains("COMPLETE ON DISK; 1 thread joined late"), "{text}");
    let seen = see(&site.cat(), PAYLOAD + 32);
    let times: Vec<_> = frames.iter().map(|&(tick, thread)| (right(tick).0, right(tick).1, thread)).collect();
    assert_eq!(seen.times, times);
}

/// Some frames alone, and a long gap of `gap` frames, are not sent.
fn lossy(count: u64, gap: u64) -> impl Iterator<Item = Vec<u8>> {
    let sent = (0..count).filter(move |n| n % 97 != 50 && !(3000..3000 + gap).contains(n));
    sent.map(|n| {
        let (second, frame) = right(n / 2);
        numbered(n, Order::Little, &vdif(second, frame, (n % 2) as u16, PAYLOAD))
    })
}

#[test]
fn fill_is_written_or_not_and_each_lost_frame_is_counted_once() {
    for fill in [true, false] {
        let site = Site::new(2);
        let (count, gap) = (16_000, 10_000);
        let (report, _) = recorded(&site, if fill { "" } else { "--no-fill" }, lossy(count, gap));
        let lost = number(&report["streams"][0]["lost"]);
        let (filled, left_out) = (number(&report["frames_filled"]), number(&report["frames_left_out"]));
        assert_eq!(filled + left_out, lost, "{report}");
        assert!(lost > gap && (filled > 0) == fill, "{filled} {left_out}");
        let sent = lossy(count, gap).count() as u64;
        let bytes = site.run("cat trial").expect(0).stdout;
        let seen = see(&bytes, PAYLOAD + 32);
        assert_eq!((seen.good, seen.invalid), (sent, filled), "what is not filled is not written");
        assert!(seen.times.is_sorted_by(|a, b| a < b));
        let check = site.check(0);
        assert_eq!(sum(&check["datastreams"], "filled_frames"), filled, "{check}");
        assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
        // A reader makes the rest, with the time and thread of each.
        let done = site.run("cat trial --fill").expect(0);
        let whole = see(&done.stdout, PAYLOAD + 32);
        assert_eq!((whole.good, whole.invalid), (sent, count - sent));
        for (n, frame) in done.stdout.chunks(PAYLOAD + 32).enumerate() {
            let header = skyhaul::wire::vdif::Header::read(frame).unwrap().vdif;
            let (second, number) = right(n as u64 / 2);
            let of = (header.unix_seconds(), header.frame, header.thread as usize, header.station);
            assert_eq!(of, (second, number, n % 2, 0), "frame {n}");
        }
        assert!(
            done.stderr.contains("frames filled with frames marked invalid, 0 left out"),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn a_missing_chunk_of_a_scan_without_an_index_is_filled() {
    let site = Site::new(1);
    recorded(&site, "", two(6000, right));
    let directory = site.disks[0].join("trial");
    std::fs::remove_file(directory.join("trial.index")).unwrap();
    std::fs::remove_file(directory.join("trial.00000003")).unwrap();
    let done = site.run("cat trial --fill");
    let frames = see(&done.stdout, PAYLOAD + 32);
    assert_eq!(frames.good + frames.invalid, 12_000, "{}", done.stderr);
    assert!(frames.invalid > 500, "{}", frames.invalid);
    for (n, frame) in done.stdout.chunks(PAYLOAD + 32).enumerate() {
        let header = skyhaul::wire::vdif::Header::read(frame).unwrap().vdif;
        assert_eq!((header.unix_seconds(), header.frame), right(n as u64 / 2), "frame {n}");
    }
}

/// Before a second has ended, its number of frames is not known: what is missing at its end gets no numbers that may not exist.
#[test]
fn a_missing_chunk_is_filled_only_with_frames_whose_times_are_known() {
    let site = Site::new(1);
    let at = |tick: u64| (START + (tick / 2000) as i64, (tick % 2000) as u32);
    recorded(&site, "", two(3000, at));
    let directory = site.disks[0].join("trial");
    std::fs::remove_file(directory.join("trial.index")).unwrap();
    // One within the first second, the one with its end, and a later one.
    let chunk = |number: u64| directory.join(format!("trial.{number:08}"));
    let frames_of = |number| std::fs::metadata(chunk(number)).unwrap().len() / (PAYLOAD as u64 + 32);
    let ends = 4000 / frames_of(0);
    for (number, is_filled) in [(1, true), (ends, false), (ends + 1, true)] {
        assert!((2..5).contains(&ends), "{ends}");
        let (frames, kept) = (frames_of(number), directory.with_extension("kept"));
        std::fs::rename(chunk(number), &kept).unwrap();
        let done = site.run("cat trial --fill");
        std::fs::rename(&kept, chunk(number)).unwrap();
        let seen = see(&done.stdout, PAYLOAD + 32);
        let (good, invalid) = (6000 - frames, if is_filled { frames } else { 0 });
        assert_eq!((seen.good, seen.invalid), (good, invalid), "chunk {number}: {}", done.stderr);
        let first = number * frames;
        for (n, frame) in done.stdout.chunks(PAYLOAD + 32).enumerate() {
            let header = skyhaul::wire::vdif::Header::read(frame).unwrap().vdif;
            let n = n as u64 + if !is_filled && n as u64 >= first { frames } else { 0 };
            assert_eq!((header.unix_seconds(), header.frame), at(n / 2), "chunk {number}, frame {n}");
        }
    }
}

/// Several missing chunks at the start: nothing is before them, and each is as far before the first one that is there as it was.
#[test]
fn the_first_chunks_are_filled_with_times_of_their_own() {
    let site = Site::new(1);
    let at = |tick: u64| (START + (tick / 2000) as i64, (tick % 2000) as u32);
    recorded(&site, "", two(3000, at));
    let directory = site.disks[0].join("trial");
    for number in 0..3 {
        std::fs::remove_file(directory.join(format!("trial.{number:08}"))).unwrap();
    }
    let done = site.run("cat trial --fill").expect(1);
    let seen = see(&done.stdout, PAYLOAD + 32);
    assert!(seen.invalid > 2000 && seen.good + seen.invalid == 6000, "{}: {}", seen.invalid, done.stderr);
    for (n, frame) in done.stdout.chunks(PAYLOAD + 32).enumerate() {
        let header = skyhaul::wire::vdif::Header::read(frame).unwrap().vdif;
        assert_eq!((header.unix_seconds(), header.frame), at(n as u64 / 2), "frame {n}");
    }
}

#[test]
fn a_thread_that_was_asked_for_and_never_came_has_legal_fill() {
    let site = Site::new(1);
    let packets = (0..800).map(|tick| {
        let (second, frame) = right(tick);
        vdif(second, frame, 0, PAYLOAD)
    });
    let (report, _) = recorded(&site, "--threads 0,1", packets);
    assert!(kinds(&report).contains(&"thread_lost".to_owned()), "{report}");
    let bytes = site.cat();
    let seen = see(&bytes, PAYLOAD + 32);
    assert!(seen.invalid >= 799, "{seen:?}");
    for (n, frame) in bytes.chunks(PAYLOAD + 32).enumerate() {
        let header = skyhaul::wire::vdif::Header::read(frame).unwrap().vdif;
        assert_eq!((header.unix_seconds(), header.frame), right(n as u64 / 2), "frame {n}");
        assert_eq!((header.thread as usize, header.invalid as usize), (n % 2, n % 2), "frame {n}");
    }
}

/// Seconds by which the clock of thread 1 is wrong, as in data of a station.
const WRONG: i64 = 14_352_384;

fn write(directory: &Path, frames: impl Iterator<Item = Vec<u8>>) -> PathBuf {
    let path = directory.join("data.vdif");
    std::fs::write(&path, frames.collect::<Vec<_>>().concat()).unwrap();
    path
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Frames of 1600 samples, 100 in a second; the clock of thread 1 is wrong.
fn frames() -> impl Iterator<Item = Vec<u8>> {
    (0..350u32).flat_map(|n| {
        let second = 1_790_000_000 + i64::from(n / 100);
        [vdif(second, n % 100, 0, 400), vdif(second - WRONG, n % 100, 1, 400)]
    })
}

#[test]
fn frames_of_a_thread_with_a_wrong_clock_are_counted() {
    let directory = directory();
    let path = write(directory.path(), frames());
    let out = directory.path().join("samples.npy");
    let line = format!("export {} --sample-rate 160kHz -o {}", path.display(), out.display());
    let done = run(&format!("{line} --json")).expect(0);
    let report = done.json();
    assert_eq!((number(&report["repaired"]), number(&report["missing"])), (350, 0), "{report}");
    let note = format!("clock of thread 1 is wrong: {WRONG:+} s to place it");
    assert!(report["notes"].to_string().contains(&note), "{report}");
    assert!(done.stderr.contains(&format!("note: {note}")), "{}", done.stderr);
    assert!(done.stderr.contains("note: 350 frames used with a repaired time"), "{}", done.stderr);
    let survey = run(&format!("plot {} --sample-rate 160kHz --all --json", path.display())).expect(0);
    assert_eq!(number(&survey.json()["repaired"]), 350, "{}", survey.stderr);
}

#[test]
fn a_sample_rate_that_a_frame_number_disproves_is_refused() {
    let directory = directory();
    let right = |rate: &str, path: &Path| {
        let out = directory.path().join(format!("{rate}.npy"));
        run(&format!("export {} --sample-rate {rate} -o {} --json", path.display(), out.display()))
    };
    let path = write(directory.path(), frames());
    for rate in ["80kHz", "158400Hz"] {
        let done = right(rate, &path).expect(2);
        assert!(done.stderr.contains("the data have frame number 99 in a second"), "{rate}: {}", done.stderr);
    }
    // The first seconds do not show it: it is met while the samples are read.
    let late = (0..30_000u32).map(|n| {
        let (second, frame) = if n < 29_000 { (n / 50, n % 50) } else { (580 + (n - 29_000) / 100, n % 100) };
        vdif(1_790_000_000 + i64::from(second), frame, 0, 400)
    });
    let path = write(directory.path(), late);
    let done = right("80kHz", &path).expect(2);
    assert!(done.stderr.contains("frames/s are too few"), "{}", done.stderr);
    // One damaged frame number is no proof.
    let one = frames().enumerate().map(|(n, mut frame)| {
        if n == 200 {
            frame[4..7].copy_from_slice(&[0xFF, 0xFF, 0x3F]);
        }
        frame
    });
    let path = write(directory.path(), one);
    let report = right("160kHz", &path).expect(1).json();
    assert_eq!((number(&report["missing"]), number(&report["not_shown"])), (1, 1), "{report}");
}
