//! Recorded frames that are sent again: byte for byte, with the gaps and times that they have.

use crate::site::{ANY, Job, Site, number, run, send, words};
use crate::site::{halves, mark5b, numbered, see, vdif};
use skyhaul::wire::vdif::Header;
use skyhaul::wire::{Order, lofar::Rsp, vtp};
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// Frames of one thread in a second.
const FPS: u32 = 2000;
/// Time of the files' first second.
const SECOND: i64 = 1_790_000_000;
/// Frames of two threads from number `n` on are missing here: over the end of a second.
const GAP: std::ops::Range<u32> = 3900..4200;

/// Everything that comes in on a connection.
fn listen() -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    let all = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    (address, all)
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn write(&self, frames: &[Vec<u8>]) -> PathBuf {
        let path = self.0.path().join("file");
        std::fs::write(&path, frames.concat()).unwrap();
        path
    }
}

/// A frame of thread `thread` with this number from the first second on.
fn frame(thread: u16, n: u32) -> Vec<u8> {
    vdif(SECOND + i64::from(n / FPS), n % FPS, thread, 400)
}

/// Two threads from number 1000 to 5000, without the gap, with the position of each frame.
fn gappy() -> Vec<(u64, Vec<u8>)> {
    let of = |n: u32| [0, 1].map(|thread| (u64::from(n - 1000) * 2 + u64::from(thread), frame(thread, n)));
    (1000..5000).filter(|n| !GAP.contains(n)).flat_map(of).collect()
}

fn payloads(frames: &[(u64, Vec<u8>)]) -> Vec<Vec<u8>> {
    frames.iter().map(|(_, frame)| frame.clone()).collect()
}

/// Send the file, and give the report and what came.
fn sent(path: &std::path::Path, line: &str) -> (serde_json::Value, Vec<u8>) {
    let (address, all) = listen();
    let report = send(&address, &format!("--input {} {line}", path.display()));
    (report, all.join().unwrap())
}

#[test]
fn a_file_with_a_gap_is_sent_byte_for_byte_and_its_numbers_show_the_gap() {
    let (files, frames) = (Files::new(), gappy());
    let path = files.write(&payloads(&frames));
    let (report, came) = sent(&path, "--rate max");
    assert!(came == std::fs::read(&path).unwrap(), "not what is in the file");
    let times = &report["times"];
    assert_eq!((times["restamped"].as_bool(), number(&times["missing"])), (Some(false), 600), "{report}");
    assert_eq!((number(&times["gaps"]), number(&times["longest_gap"])), (1, 600), "{report}");
    assert_eq!(number(&times["frames_per_second"]), u64::from(FPS), "{report}");
    // With a sequence number before each frame: its place in the stream.
    let (_, came) = sent(&path, "--rate max --sequence little --first 50");
    let expected: Vec<Vec<u8>> =
        frames.iter().map(|(position, frame)| numbered(50 + position, Order::Little, frame)).collect();
    assert!(came == expected.concat());
}

#[test]
fn a_receiver_reports_exactly_the_gap_and_has_the_senders_times() {
    let (files, frames) = (Files::new(), gappy());
    let path = files.write(&payloads(&frames));
    for place in ["", "--place time --frame-rate 2000"] {
        let site = Site::new(1);
        let mut recorder = site.record(&format!("{ANY} {place}"));
        send(&recorder.address(), &format!("--input {} --rate 60Mbps", path.display()));
        recorder.drained();
        let report = recorder.stop().json();
        let stream = &report["streams"][0];
        assert_eq!(number(&stream["placed"]), frames.len() as u64, "{place} {report}");
        let seen = see(&site.cat(), 432);
        let times: Vec<(i64, u32, u16)> = frames
            .iter()
            .map(|(_, frame)| Header::read(frame).unwrap().vdif)
            .map(|vdif| (vdif.unix_seconds(), vdif.frame, vdif.thread as u16))
            .collect();
        assert!(seen.times == times, "{place}: the times are not the sender's");
        assert_eq!(seen.invalid, 600, "{place}: the gap is filled, and nothing else");
    }
}

/// As in data of a station: the seconds in the headers of many frames in a row are wrong, all by the same bit.
#[test]
fn frames_in_a_row_with_the_same_wrong_second_are_no_gap() {
    let files = Files::new();
    let mut frames: Vec<Vec<u8>> = (1000..5000).flat_map(|n| [0, 1].map(|thread| frame(thread, n))).collect();
    // At the beginning, over the end of a second, and at the end.
    let odd = [0..30, 1800..2300, 7960..8000];
    let sum: u64 = odd.iter().map(|run| run.len() as u64).sum();
    for (run, bit) in odd.into_iter().zip([0u8, 2, 1]) {
        frames[run].iter_mut().for_each(|frame| frame[bit as usize] ^= 0x20);
    }
    let path = files.write(&frames);
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    // Paced by their own times: two seconds, not the minute of a gap.
    let report = send(&recorder.address(), &format!("--input {} --sequence little", path.display()));
    recorder.drained();
    let recorded = recorder.stop().json();
    let times = &report["times"];
    let found = [&times["gaps"], &times["missing"], &times["returns"], &times["untimed"]].map(number);
    assert_eq!(found, [0, 0, 0, sum], "{report}");
    assert!(times["waited_seconds"].as_f64().unwrap() < 1.0, "{report}");
    let stream = &recorded["streams"][0];
    assert_eq!((number(&stream["lost"]), number(&stream["placed"])), (0, 8000), "{recorded}");
    assert!(site.cat() == frames.concat());
    // And of the recording.
    let (address, all) = listen();
    let again = site.run(&format!("send --json --scan trial --rate max --sequence little --to {address}"));
    let (again, came) = (again.expect(0).json(), all.join().unwrap());
    assert_eq!((number(&again["times"]["gaps"]), number(&again["times"]["missing"])), (0, 0), "{again}");
    let numbers: Vec<u64> = came.chunks(440).map(|unit| vtp::psn(unit, Order::Little).unwrap()).collect();
    assert!(numbers == (0..8000).collect::<Vec<_>>());
}

#[test]
fn where_the_length_of_a_second_is_not_known_only_frames_are_written() {
    let files = Files::new();
    // Two seconds a minute apart: no frame tells how many come in one, and the second of them begins within a chunk.
    let frames: Vec<Vec<u8>> =
        [0, 60].iter().flat_map(|&at| (0..FPS).map(move |n| frame(0, at * FPS + n))).collect();
    let path = files.write(&frames);
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send(&recorder.address(), &format!("--input {} --rate 60Mbps --sequence little", path.display()));
    recorder.drained();
    let report = recorder.stop().json();
    let lost = u64::from(59 * FPS);
    assert_eq!(
        (number(&report["ledger"]["received"]), number(&report["ledger"]["never_received"])),
        (4000, lost)
    );
    // Whatever is in the recording is a frame: those that were sent, and fill marked invalid.
    let seen = see(&site.cat(), 432);
    assert_eq!(seen.times.len(), 4000, "{report}");
    assert_eq!(seen.invalid, number(&report["frames_filled"]), "{report}");
    assert_eq!(number(&report["frames_left_out"]) + seen.invalid, lost, "{report}");
    let check = site.check(0);
    assert_eq!(check["ledger"], report["ledger"], "{check}");
}

#[test]
fn every_family_goes_as_it_lies() {
    let files = Files::new();
    let kept = |n: &u32| !(40..60).contains(n);
    let mark: Vec<Vec<u8>> =
        (0..600).filter(kept).map(|n| mark5b(300, 20_000 + n / 200, n % 200, 200)).collect();
    let path = files.write(&mark);
    assert!(sent(&path, "--rate max").1 == mark.concat());
    // Halves of a FILA10G, each with its counter.
    let numbers = (0..600u32).filter(kept);
    let fila: Vec<u8> = numbers.zip(&mark).flat_map(|(n, frame)| halves(2 * n, frame).concat()).collect();
    assert!(sent(&path, "--rate max --format fila10g --frame-rate 200").1 == fila);
    // Fill without a header, and a header whose checksum is wrong, stay what they are.
    let mut damaged = mark.clone();
    damaged[100] = skyhaul::wire::FILL.repeat(10_016 / 4);
    damaged[200][9] ^= 0x40;
    let path = files.write(&damaged);
    let (report, came) = sent(&path, "--rate max");
    assert!(came == damaged.concat());
    assert_eq!(
        (number(&report["times"]["untimed"]), number(&report["times"]["missing"])),
        (2, 20),
        "{report}"
    );

    let like = Rsp { version: 3, clock: 1, sample: 1, beamlets: 2, slices: 16, ..Rsp::default() };
    let rsp = |n: u64| [&like.at(349_609_375_000 + 16 * n).unwrap().write()[..], &[n as u8; 128]].concat();
    let lofar: Vec<Vec<u8>> = (0..20_000).filter(|n| !(5000..5100).contains(n)).map(rsp).collect();
    let path = files.write(&lofar);
    let (report, came) = sent(&path, "--rate max");
    assert!(came == lofar.concat());
    assert_eq!(number(&report["times"]["missing"]), 100, "{report}");

    // A file that has sequence numbers of its own.
    let vtp: Vec<Vec<u8>> = gappy().iter().map(|(at, frame)| numbered(7 * at, Order::Big, frame)).collect();
    let path = files.write(&vtp);
    assert!(sent(&path, "--rate max --sequence little").1 == vtp.concat());
    // A stream of two scans a minute apart is one of two scans, also where the second one is the earlier.
    for order in [[0, 60], [60, 0]] {
        let scans: Vec<Vec<u8>> =
            order.iter().flat_map(|&at| (0..3000).map(move |n| frame(0, at * FPS + n))).collect();
        let path = files.write(&scans);
        let (report, came) = sent(&path, "--max-wait 10ms");
        assert!(came == scans.concat(), "{order:?}");
        let jumps = (number(&report["times"]["returns"]), number(&report["times"]["missing"]));
        let lost = u64::from(60 * FPS - 3000);
        assert_eq!(jumps, if order[0] == 0 { (0, lost) } else { (1, 0) }, "{report}");
    }
}

#[test]
fn without_a_rate_the_times_of_the_frames_set_the_pace() {
    let files = Files::new();
    // 0.2 s, a gap of 1 s, 0.2 s; then a break of an hour.
    let numbers = (1900..2300).chain(4300..4700).chain(7_200_000..7_200_400);
    let path = files.write(&numbers.map(|n| frame(0, n)).collect::<Vec<_>>());
    let (report, _) = sent(&path, "--max-wait 1500ms");
    let (times, seconds) = (&report["times"], report["seconds"].as_f64().unwrap());
    let is = |name: &str, expected: f64| {
        let value = times[name].as_f64().unwrap();
        assert!((value - expected).abs() < 1e-6, "{name} is {value}, not {expected}: {report}");
    };
    is("waited_seconds", 2.5);
    is("cut_seconds", f64::from(7_200_000 - 4700) / f64::from(FPS) - 1.5);
    assert!(seconds > 3.05, "{report}");
    assert_eq!(times["own_pace"], true);
    // A rate that is asked for decides alone.
    let (report, _) = sent(&path, "--rate 1Gbps");
    assert_eq!(
        (&report["times"]["own_pace"], report["times"]["waited_seconds"].as_f64()),
        (&false.into(), Some(0.0))
    );
    // What stops a sender also stops its wait.
    let (address, all) = listen();
    let line = format!("send --json --input {} --max-wait 2h --duration 2s --to {address}", path.display());
    let done = run(&line).expect(0).json();
    assert!(number(&done["packets"]) <= 1200, "{done}");
    all.join().unwrap();
}

#[test]
fn new_times_are_asked_for_and_keep_gaps_and_threads() {
    let (files, frames) = (Files::new(), gappy());
    let path = files.write(&payloads(&frames));
    let linear = |bytes: &[u8]| -> Vec<(i64, u16)> {
        let headers = bytes.chunks(432).map(|frame| Header::read(frame).unwrap().vdif);
        headers.map(|v| (v.unix_seconds() * i64::from(FPS) + i64::from(v.frame), v.thread as u16)).collect()
    };
    let own = linear(&std::fs::read(&path).unwrap());
    let (report, came) = sent(&path, "--rate max --restamp");
    let (times, moved) = (linear(&came), report["times"]["moved_seconds"].as_i64().unwrap());
    assert_eq!(report["times"]["restamped"], true);
    let by = |frames: i64| own.iter().map(|&(n, thread)| (n + frames, thread)).collect::<Vec<_>>();
    assert!(times == by(moved * i64::from(FPS)), "one whole number of seconds for all");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!((now - times[0].0 / i64::from(FPS)).abs() < 60, "{report}");

    // A damaged first header moves only its own frame.
    let mut damaged = std::fs::read(&path).unwrap();
    damaged[3] ^= 1;
    let first = files.write(&[damaged]);
    let (_, came) = sent(&first, "--rate max --restamp");
    let begins = linear(&came)[1].0 / i64::from(FPS);
    assert!((now - begins).abs() < 60, "{begins}");
    let path = files.write(&payloads(&frames));

    let (report, came) = sent(&path, "--rate max --loop 3");
    let pass: Vec<_> = [by(0), by(4000), by(8000)].concat();
    assert!(linear(&came) == pass, "each pass begins where the one before ended, with the same gap");
    assert_eq!(
        (&report["times"]["restamped"], report["times"]["pass_seconds"].as_f64()),
        (&true.into(), Some(2.0))
    );
    let done =
        run(&format!("send --input {} --rate max --loop 2 --to {}", path.display(), "udp://127.0.0.1:9"));
    assert!(done.told().contains("times: new in each pass after the first, 2 s later"), "{}", done.told());
    assert!(done.told().contains("600 frames are missing in the data, in 1 gap,"), "{}", done.told());
    let done = run(&format!("send --input {} --rate max --to {}", path.display(), "udp://127.0.0.1:9"));
    assert!(done.told().contains("times: as recorded, frames sent byte for byte"), "{}", done.told());
}

#[test]
fn a_frame_rate_that_a_frame_number_disproves_is_refused() {
    let files = Files::new();
    let path = files.write(&(0..4500).map(|n| frame(0, n)).collect::<Vec<_>>());
    for line in ["--frame-rate 1500", "--frame-rate 1999 --loop 2"] {
        let done = run(&format!("send --input {} {line} --to udp://127.0.0.1:9", path.display()));
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains("the file has frame number 1999"), "{}", done.stderr);
    }
}

#[test]
fn a_recording_with_a_missing_chunk_is_sent_with_its_gap() {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} --memory 64MiB --chunk 256KiB --frame-rate {FPS}"));
    let files = Files::new();
    let path = files.write(&(0..5000).map(|n| frame(0, n)).collect::<Vec<_>>());
    send(&recorder.address(), &format!("--input {} --rate 60Mbps", path.display()));
    recorder.drained();
    recorder.stop().expect(0);
    let whole = site.cat();
    let chunks: Vec<PathBuf> = (2..4).map(|n| site.disks[0].join(format!("trial/trial.{n:08}"))).collect();
    let lost: u64 = chunks.iter().map(|chunk| std::fs::metadata(chunk).unwrap().len() / 432).sum();
    let before: u64 = (0..2)
        .map(|n| std::fs::metadata(site.disks[0].join(format!("trial/trial.{n:08}"))).unwrap().len() / 432)
        .sum();
    chunks.iter().for_each(|chunk| std::fs::remove_file(chunk).unwrap());

    let (address, all) = listen();
    let sender = site.run(&format!("send --json --scan trial --rate max --sequence little --to {address}"));
    let (done, came) = (sender.expect(1).json(), all.join().unwrap());
    assert_eq!((number(&done["times"]["missing"]), number(&done["times"]["gaps"])), (lost, 1), "{done}");
    let units: Vec<(u64, &[u8])> =
        came.chunks(440).map(|unit| (vtp::psn(unit, Order::Little).unwrap(), &unit[8..])).collect();
    let numbers: Vec<u64> = units.iter().map(|(number, _)| *number).collect();
    let expected: Vec<u64> = (0..5000).filter(|n| !(before..before + lost).contains(n)).collect();
    assert!(numbers == expected, "sequence numbers show the chunks that are missing");
    assert!(units.iter().all(|(number, frame)| *frame == &whole[*number as usize * 432..][..432]));
    // And by itself over UDP, to a receiver that counts.
    let again = Site::new(1);
    let mut recorder = again.record(ANY);
    let to = recorder.address();
    site.run(&format!("send --scan trial --rate 60Mbps --to {to}")).expect(1);
    recorder.drained();
    let report = recorder.stop().json();
    assert_eq!(see(&again.cat(), 432).invalid, lost, "{report}");
}

#[test]
fn recorded_halves_of_a_fila10g_have_their_counter_again() {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} --format fila10g --memory 128MiB --chunk 1MiB"));
    let frames: Vec<Vec<u8>> = (0..800).map(|n| mark5b(300, 20_000 + n / 200, n % 200, 200)).collect();
    let files = Files::new();
    let path = files.write(&frames);
    let line = format!("--input {} --format fila10g --frame-rate 200 --rate 200Mbps", path.display());
    send(&recorder.address(), &line);
    recorder.drained();
    recorder.stop().expect(0);
    assert!(site.cat() == frames.concat());
    let (address, all) = listen();
    let done =
        site.run(&format!("send --json --scan trial --rate max --sequence little --first 6 --to {address}"));
    let (done, came) = (done.expect(0).json(), all.join().unwrap());
    let expected: Vec<u8> =
        (0..800u32).zip(&frames).flat_map(|(n, frame)| halves(6 + 2 * n, frame).concat()).collect();
    assert!(came == expected, "{done}");
}

#[test]
fn a_rate_of_zero_is_refused_by_every_verb() {
    let refused = |line: &str| {
        let done = Job::start(&words(line)).finish();
        assert_eq!(done.code, Some(2), "{line}: {}", done.stderr);
        assert!(done.stderr.contains("must be greater than zero"), "{line}: {}", done.stderr);
    };
    for rate in ["0", "0bps", "0Gbps"] {
        refused(&format!("send --pattern --to udp://127.0.0.1:9 --rate {rate}"));
        refused(&format!("send --input f --to udp://127.0.0.1:9 --to udp://127.0.0.1:8 --rate 1Gbps,{rate}"));
        refused(&format!("send --format spead --pattern --to udp://127.0.0.1:9 --rate {rate}"));
        refused(&format!("send --format ejfat --pattern --to udp://127.0.0.1:9 --rate {rate}"));
        refused(&format!("bench receive --rate {rate}"));
        refused(&format!("bench --rates {rate}"));
        refused(&format!("demo --rate {rate}"));
        refused(&format!("probe 127.0.0.1 --rates {rate}"));
        refused(&format!("copy a b --limit {rate}"));
        refused(&format!("host --rate {rate}"));
        refused(&format!("disk bench /tmp --against {rate}"));
    }
}
