//! One count, one name: what `record`, `check`, `ls` and `cat` say of the same frames, whatever happened to them.

use crate::mounted::ScanPoint;
use crate::site::{
    ANY, Done, Job, Site, drops, number, port, ranges, refused, run, send, sum, wait_for, words,
};
use crate::site::{halves, mark5b, see, vdif};
use serde_json::Value;
use skyhaul::recording::{ChunkRecord, Record};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

/// A ledger adds up.
#[track_caller]
fn balanced(ledger: &Value) {
    let n = |field: &str| number(&ledger[field]);
    let fates = n("recorded") + n("pending") + n("discarded") + n("damaged") + n("unverified");
    assert_eq!(n("received"), fates, "{ledger}");
    assert_eq!(n("never_received"), n("in_chunks") + n("between_chunks"), "{ledger}");
}

/// The receiving and the writing half of a recorder agree.
#[track_caller]
fn agreed(report: &Value) {
    assert!(report["unbalanced"].is_null(), "{report}");
    for stream in report["streams"].as_array().unwrap() {
        assert_eq!(number(&stream["packets"]), number(&stream["placed"]) + refused(stream), "{stream}");
    }
    let ledger = &report["recording"]["ledger"];
    balanced(ledger);
    assert_eq!(number(&ledger["received"]), sum(&report["streams"], "placed"), "{report}");
    assert_eq!(number(&ledger["never_received"]), sum(&report["streams"], "lost"), "{report}");
    assert_eq!(&report["ledger"], ledger, "{report}");
}

fn socket_to(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port(address))).unwrap();
    socket
}

/// Eight threads, with loss in bursts, some of them across chunks: `trial` and its report.
fn of_eight_threads() -> (Site, Value) {
    let site = Site::new(2);
    let mut recorder = site.record(ANY);
    let faults = "loss=0.01,reorder=64,duplicate=0.01,burst=700@0.0005,seed=11";
    let line =
        format!("--pattern --payload 2000 --threads 8 --packets 16000 --rate 200Mbps --faults {faults}");
    send(&recorder.address(), &line);
    recorder.drained();
    let report = recorder.stop().json();
    agreed(&report);
    (site, report)
}

/// The records of a disk's index, without those that `drop` names.
fn without(index: &PathBuf, drop: impl Fn(&Record) -> bool) {
    let text = std::fs::read_to_string(index).unwrap();
    let keep =
        text.lines().filter(|line| !Record::parse(line.as_bytes()).is_some_and(|record| drop(&record)));
    let text: String = keep.map(|line| format!("{line}\n")).collect();
    std::fs::write(index, text).unwrap();
}

#[test]
fn a_chunk_that_was_removed_counts_all_its_frames() {
    let (site, report) = of_eight_threads();
    let books = &report["recording"]["ledger"];
    let check = site.check(0);
    assert_eq!(&check["ledger"], books, "{check}");
    assert_eq!(number(&check["ledger"]["in_chunks"]), sum(&check["datastreams"], "missing_units"), "{check}");

    // A chunk in the middle, with its frames by its record.
    let (index, chunk) = site
        .disks
        .iter()
        .find_map(|disk| {
            let index = disk.join("trial/trial.index");
            let text = std::fs::read_to_string(&index).unwrap();
            text.lines().find_map(|line| match Record::parse(line.as_bytes())? {
                Record::Chunk(chunk) if chunk.number == 5 => Some((index.clone(), chunk)),
                _ => None,
            })
        })
        .unwrap();
    let frames = u64::from(chunk.meta.units) - chunk.meta.missing_units();
    assert!(frames > 400, "{chunk:?}");
    let file = index.with_file_name("trial.00000005");
    std::fs::remove_file(&file).unwrap();
    for also_its_record in [false, true] {
        if also_its_record {
            without(&index, |record| matches!(record, Record::Chunk(chunk) if chunk.number == 5));
        }
        let check = site.check(1);
        balanced(&check["ledger"]);
        let n = |field: &str| (number(&check["ledger"][field]), number(&books[field]));
        assert_eq!(n("damaged"), (frames, 0), "{also_its_record}: {check}");
        assert_eq!(n("recorded").0 + frames, n("recorded").1, "{also_its_record}: {check}");
        assert_eq!(n("received").0, n("received").1, "{also_its_record}: {check}");
        assert_eq!(n("never_received").0, n("never_received").1, "{also_its_record}: {check}");
        let ls = site.run("ls --json").expect(1).json();
        assert_eq!(ls[0]["ledger"], check["ledger"], "{also_its_record}: {ls}");
        let text = site.run("check trial").expect(1).told();
        assert!(text.contains(" frames were recorded and are gone or damaged"), "{also_its_record}: {text}");
    }
}

/// Rewrites the record of chunk 1.
fn rewritten(index: &Path, change: impl Fn(&mut ChunkRecord)) {
    let text = std::fs::read_to_string(index).unwrap();
    let lines = text.lines().map(|line| match Record::parse(line.as_bytes()).unwrap() {
        Record::Chunk(mut chunk) if chunk.number == 1 => {
            change(&mut chunk);
            Record::Chunk(chunk).to_line()
        }
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    std::fs::write(index, text).unwrap();
}

/// What readers say of a claim, and the change that makes it.
type Claim<'a> = (&'a str, &'a dyn Fn(&mut ChunkRecord));

/// An index that claims more than was lost, and than there can be: each reader gives what was recorded, names the claim and fails.
#[test]
fn a_false_claim_of_an_index_is_named_by_every_reader_and_followed_by_none() {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send(&recorder.address(), "--pattern --payload 2000 --packets 2000 --rate 100Mbps");
    recorder.drained();
    agreed(&recorder.stop().json());
    let whole = site.cat();
    let index = site.disks[0].join("trial/trial.index");
    let honest = std::fs::read(&index).unwrap();
    let gap = |gap| move |chunk: &mut ChunkRecord| chunk.meta.gap = Some(gap);
    let holes = |chunk: &mut ChunkRecord| {
        let units = chunk.meta.units;
        (chunk.meta.units, chunk.meta.packed) = (u32::MAX, true);
        chunk.meta.missing = std::iter::once(units..u32::MAX).collect();
    };
    let claims: [Claim<'_>; 3] = [
        (
            "18446744073709551615 frames lost before chunk 1, but no recording has so many bytes",
            &gap(u64::MAX),
        ),
        ("1000 frames lost before chunk 1, but ", &gap(1000)),
        (" frames missing in chunk 1, but ", &holes),
    ];
    let mut receiver =
        Job::start(&words(&format!("receive --memory 64MiB --json --wait 60s --idle 3s {ANY}")));
    let to = receiver.address();
    for (number, (claim, change)) in claims.into_iter().enumerate() {
        std::fs::write(&index, &honest).unwrap();
        rewritten(&index, change);
        let named = |done: Done| {
            assert_eq!(done.code, Some(1), "{claim}: {}", done.stderr);
            assert!(done.said().contains(claim), "{claim}: {}", done.said());
            done
        };
        for line in ["cat trial", "cat trial --fill", "cat trial --no-check"] {
            assert!(named(site.run(line)).stdout == whole, "{claim}: {line}");
        }
        named(site.run("ls"));
        named(site.run("check trial"));
        assert_eq!(site.check(1)["ledger"]["never_received"], 0, "{claim}");
        named(site.run(&format!("send --scan trial --rate 100Mbps --fill --to {to}")));
        let out = site.disks[0].with_file_name(format!("{number}.npy"));
        named(site.run(&format!("export trial -o {}", out.display())));
        let Some(scans) = ScanPoint::new(&site, "") else { continue };
        assert!(scans.bytes("trial") == whole, "{claim}: mounted");
        wait_for("the claim to be named", || scans.said().contains(claim).then_some(()));
    }
}

/// Half frames without headers are frames of their stream, too.
#[test]
fn halves_of_fila10g_are_counted() {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("--format fila10g {ANY}"));
    let socket = socket_to(&recorder.address());
    for n in 0..3000u32 {
        let frame = mark5b(60, 100 + n / 1000, n % 1000, 1000);
        for (at, half) in halves(2 * n, &frame).iter().enumerate() {
            if (n, at) != (500, 1) {
                socket.send(half).unwrap();
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(150));
    }
    recorder.drained();
    let report = recorder.stop().json();
    agreed(&report);
    assert!(sum(&report["streams"], "placed") + drops(&report) >= 5999, "{report}");
    let check = site.run("check trial --json").json();
    assert_eq!(check["ledger"], report["recording"]["ledger"], "{check}");
    let in_files = number(&check["ledger"]["recorded"]) + number(&check["ledger"]["in_chunks"]);
    assert_eq!(sum(&check["datastreams"], "frames_seen"), in_files, "{check}");
}

/// Plain FlexBuff files have no index: what is marked invalid in them is counted, and said.
#[test]
fn invalid_frames_of_plain_files_are_counted() {
    let (site, report) = of_eight_threads();
    for disk in &site.disks {
        std::fs::remove_file(disk.join("trial/trial.index")).unwrap();
    }
    let books = &report["recording"]["ledger"];
    let check = site.check(1);
    balanced(&check["ledger"]);
    let invalid = number(&check["ledger"]["in_chunks"]);
    assert_eq!(invalid, number(&books["in_chunks"]), "{check}");
    assert!(invalid > 100);
    assert_eq!(check["ledger"]["unverified"], books["recorded"], "{check}");
    let text = site.run("check trial").expect(1).told();
    assert!(text.contains(" frames are marked invalid"), "{text}");
    // A chunk that is gone was recorded once, as its number says.
    let gone =
        site.disks.iter().map(|disk| disk.join("trial/trial.00000005")).find(|file| file.exists()).unwrap();
    let frames = std::fs::metadata(&gone).unwrap().len() / 2032;
    std::fs::remove_file(gone).unwrap();
    let check = site.check(1);
    balanced(&check["ledger"]);
    let damaged = number(&check["ledger"]["damaged"]);
    assert!(
        damaged.abs_diff(frames) <= 16 + invalid && damaged.is_multiple_of(8),
        "{damaged} of {frames}: {check}"
    );
}

#[test]
fn a_scan_without_a_packet_is_not_complete() {
    let site = Site::new(1);
    let done = site.record(ANY).stop().expect(1);
    agreed(&done.json());
    let check = site.run("check trial --json").expect(1).json();
    assert_eq!(check["verdict"], "unproven", "{check}");
    let text = site.run("check trial").expect(1).told();
    assert!(text.contains("trial: EMPTY: nothing was recorded"), "{text}");
    assert_eq!(site.run("ls").expect(1).code, Some(1));
}

/// Delayed packets that are still on their way when the operator stops are not lost.
#[test]
fn a_stop_amid_reordering_loses_nothing() {
    let site = Site::new(1);
    for (run, stop) in ["", "", "--duration 1500ms"].into_iter().enumerate() {
        let mut recorder = site.record(&format!("--exists suffix {ANY} {stop}"));
        let line = format!(
            "send --to {} --pattern --payload 2000 --rate 50Mbps --duration 60s --faults reorder=64,seed=5",
            recorder.address()
        );
        let sender = Job::start(&words(&line));
        wait_for("data", || {
            let here = std::fs::read_dir(&site.disks[0]).unwrap().filter_map(Result::ok);
            let chunks =
                here.filter_map(|scan| Some(std::fs::read_dir(scan.path()).ok()?.count())).sum::<usize>();
            (chunks > 3 * (run + 1)).then_some(())
        });
        recorder.signal(rustix::process::Signal::INT);
        let report = recorder.finish().json();
        drop(sender);
        agreed(&report);
        let stream = &report["streams"][0];
        assert!(number(&stream["reordered"]) > 50, "{stream}");
        assert!(number(&stream["lost"]) <= drops(&report), "{stop}: {stream}");
    }
}

/// Nor are those that came just before the start, while later ones were ahead of them.
#[test]
fn a_start_amid_reordering_loses_nothing() {
    for threads in [1, 4] {
        let site = Site::new(1);
        let begins =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 4;
        let recorder = site.start(&format!(
            "record --scan trial --json --memory 128MiB --chunk 1MiB {ANY} --start-at {begins}"
        ));
        let to = wait_for("the recorder", || {
            let said = recorder.stderr();
            let line = said.lines().find(|line| line.contains("recording trial from "))?;
            line.split(" from ").nth(1)?.split(' ').next().map(str::to_owned)
        });
        let line = format!(
            "--pattern --payload 2000 --threads {threads} --rate 30Mbps --duration 7s --faults reorder=200,seed=9"
        );
        send(&to, &line);
        recorder.signal(rustix::process::Signal::INT);
        let report = recorder.finish().json();
        agreed(&report);
        let stream = &report["streams"][0];
        assert!(number(&report["stranger_rejects"]["before_start"]) > 100, "{report}");
        assert!(number(&stream["reordered"]) > 50 && number(&stream["placed"]) > 1000, "{stream}");
        assert!(number(&stream["lost"]) <= drops(&report), "{threads}: {stream}");
        assert_eq!(see(&site.run("cat trial").stdout, 2032).good, number(&stream["placed"]));
    }
}

/// An existing file stays until there is something to replace it with.
#[test]
fn a_receiver_empties_no_file_before_a_packet_came() {
    let site = Site::new(1);
    let file = site.disks[0].join("scan.vdif");
    std::fs::write(&file, "the night before").unwrap();
    let line = format!("receive {ANY} --memory 64MiB --wait 300ms --output-file {}", file.display());
    let done = run(&line);
    assert_eq!((done.code, std::fs::read(&file).unwrap().as_slice()), (Some(1), &b"the night before"[..]));
    let mut receiver = Job::start(&words(&format!("{line} --idle 500ms").replace("--wait 300ms", "")));
    let sent = send(&receiver.address(), "--pattern --payload 2000 --packets 100 --rate 50Mbps");
    receiver.finish().expect(0);
    assert_eq!(see(&std::fs::read(&file).unwrap(), 2032).good, number(&sent["packets"]));
    // Longer contents leave no tail.
    std::fs::write(&file, vec![7; 1 << 20]).unwrap();
    let scan = Site::new(1);
    let mut recorder = scan.record(ANY);
    send(&recorder.address(), "--pattern --payload 2000 --packets 100 --rate 50Mbps");
    recorder.drained();
    recorder.stop().expect(0);
    scan.run(&format!("cat trial --output-file {}", file.display())).expect(0);
    assert_eq!(see(&std::fs::read(&file).unwrap(), 2032).good, 100);
}

/// No stage of the demo has a frame more or less than its counters explain, and its checks say so.
#[test]
fn the_demo_accounts_for_every_packet() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = directory.path().display();
    let done = run(&format!("demo --json --duration 2s --rate 100Mbps --directory {at}"));
    let report = done.json();
    let proofs = report["proofs"].as_array().unwrap();
    let all =
        proofs.iter().find(|proof| proof["claim"] == "every packet is accounted for at every stage").unwrap();
    assert_eq!(all["held"], true, "{all}");
    // Incomplete sets at the end, which one receiver cuts off and the other does not, are no loss.
    let second = proofs
        .iter()
        .find(|proof| proof["claim"].as_str().unwrap().starts_with("the second receiver"))
        .unwrap();
    assert!(second["held"] == true || drops(&report["recorded"]) + drops(&report["second"]) > 0, "{second}");
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(!page.contains("unexplained"), "{all}");
    assert!(!ranges(&report["recorded"]["streams"][0]["loss_map"]).is_empty());
}

/// `trial` of 1200 frames in halves, without one half, and its report.
fn of_a_fila10g(line: &str) -> (Site, Value) {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("--format fila10g {line} {ANY}"));
    let socket = socket_to(&recorder.address());
    for n in 0..1200u32 {
        let frame = mark5b(60, 100 + n / 1000, n % 1000, 1000);
        for (at, half) in halves(2 * n, &frame).iter().enumerate() {
            if (n, at) != (500, 1) {
                socket.send(half).unwrap();
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    recorder.drained();
    let report = recorder.stop().json();
    (site, report)
}

/// Half frames of a FILA10G are packets, and two make a frame: every report says which of both it counts.
#[test]
fn reports_of_a_fila10g_count_packets_and_say_so() {
    let (site, report) = of_a_fila10g("");
    agreed(&report);
    let packets = |of: &Value| number(&of["packets_per_frame"]);
    assert_eq!(packets(&report["streams"][0]), 2, "{report}");
    let of_disks = &report["recording"]["datastreams"][0]["ledger"];
    assert_eq!([packets(&report["ledger"]), packets(of_disks)], [2, 2], "{report}");
    let check = site.run("check trial --json").json();
    assert_eq!(packets(&check["datastreams"][0]["ledger"]), 2, "{check}");
    assert_eq!(check["ledger"], report["ledger"], "{check}");
    assert_eq!(site.run("ls --json").json()[0]["ledger"], report["ledger"]);
    let text = site.run("check trial").told();
    assert!(text.contains("; 1 packet was never received"), "{text}");
    assert!(text.contains(" packets (2 per frame), 1 never received") && !text.contains(" frames"), "{text}");
    let (site, _) = of_a_fila10g("--no-fill");
    let cat = site.run("cat trial");
    assert!(
        cat.stderr.contains("0 packets (2 per frame) filled with frames marked invalid, 1 left out"),
        "{}",
        cat.stderr
    );
}

/// Sends single frames of one thread, without numbers: those before `end` that `is_sent` does not leave out.
fn send_timed(to: &str, fps: u32, end: u32, is_sent: impl Fn(u32) -> bool) {
    let socket = socket_to(to);
    for n in (0..end).filter(|&n| is_sent(n)) {
        socket.send(&vdif(1_790_000_000 + i64::from(n / fps), n % fps, 0, 2000)).unwrap();
        if n % 8 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
    }
}

/// Frames lost at the end of a second are a lower bound until the frame rate is known, and then counted, by all reports alike.
#[test]
fn losses_before_the_frame_rate_is_known_are_a_lower_bound_that_is_settled() {
    const FPS: u32 = 400;
    // The last ten of the first second; one in the middle of the next.
    let is_sent = |n: u32| !(390..400).contains(&n) && n != 500;
    for (seconds, missing, is_lower_bound) in [(2, 1, true), (7, 11, false)] {
        let site = Site::new(1);
        let mut recorder = site.record(ANY);
        send_timed(&recorder.address(), FPS, seconds * FPS, is_sent);
        recorder.drained();
        let done = recorder.stop();
        let report = done.json();
        agreed(&report);
        assert_eq!(drops(&report), 0);
        assert_eq!(number(&report["streams"][0]["lost"]), missing, "{report}");
        let flag = |of: &Value, key: &str| of.get(key).is_some_and(|flag| flag == true);
        assert_eq!(flag(&report["streams"][0], "lost_is_lower_bound"), is_lower_bound, "{report}");
        assert_eq!(flag(&report["ledger"], "is_lower_bound"), is_lower_bound, "{report}");
        let check = site.check(0);
        assert_eq!(check["ledger"], report["ledger"], "{check}");
        assert_eq!(site.run("ls --json").json()[0]["ledger"], report["ledger"]);
        let text = site.run("check trial").told();
        assert_eq!(text.contains("at least 1 never received"), is_lower_bound, "{text}");
        // Killed before its account was written: the times around each gap say the same, where the rate is known.
        let index = site.disks[0].join("trial/trial.index");
        without(&index, |record| matches!(record, Record::End { .. }));
        let killed = site.run("check trial --json").json();
        assert_eq!(number(&killed["ledger"]["never_received"]), missing, "{killed}");
        assert_eq!(flag(&killed["ledger"], "is_lower_bound"), is_lower_bound, "{killed}");
    }
}

/// An outage of seconds at the beginning, before the frame rate is known: it is counted when the rate is, and filled.
#[test]
fn an_outage_before_the_frame_rate_is_known_is_counted_and_filled() {
    const FPS: u32 = 400;
    let outage = 2 * FPS..9 * FPS;
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send_timed(&recorder.address(), FPS, 16 * FPS, |n| !outage.contains(&n));
    recorder.drained();
    let report = recorder.stop().json();
    agreed(&report);
    assert_eq!(drops(&report), 0);
    assert_eq!(number(&report["streams"][0]["lost"]), u64::from(7 * FPS), "{report}");
    assert!(report["streams"][0].get("lost_is_lower_bound").is_none(), "{report}");
    assert_eq!(site.check(0)["ledger"], report["ledger"]);
    let cat = site.run("cat trial --fill").expect(0);
    assert!(cat.stderr.contains("0 left out") && !cat.stderr.contains("more may be"), "{}", cat.stderr);
    // Of a stream that ends too early to tell, that is said.
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send_timed(&recorder.address(), FPS, 3 * FPS, |n| !(700..900).contains(&n));
    recorder.drained();
    recorder.stop();
    let cat = site.run("cat trial --fill").expect(0);
    assert!(cat.stderr.contains("more may be missing at the ends of seconds"), "{}", cat.stderr);
}

/// What is forwarded when it is placed, and refused later, is counted: a target gets what the report says.
#[test]
fn forwarded_frames_that_are_refused_later_are_counted() {
    let mut second = Job::start(&words(&format!("receive {ANY} --json --memory 128MiB --chunk 1MiB")));
    let onward = second.address();
    let site = Site::new(1);
    let mut first = site.record(&format!("{ANY} --forward {onward}"));
    let socket = socket_to(&first.address());
    // Four threads: it begins within a set and ends within one; and one frame is of a time far ahead.
    for n in 6..2007u32 {
        let frame =
            |at: u32| vdif(1_790_000_000 + i64::from(at / 4000), at / 4 % 1000, (at % 4) as u16, 2000);
        socket.send(&frame(n)).unwrap();
        if n == 1000 {
            socket.send(&frame(4_000_000)).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    first.drained();
    let report = first.stop().json();
    agreed(&report);
    let stream = &report["streams"][0];
    let refused = ["partial_set", "stray"].map(|why| number(&stream["rejects"][why]));
    assert!(refused[0] > 0 && refused[1] > 0, "{stream}");
    assert_eq!(number(&stream["forwarded_then_refused"]), refused[0] + refused[1], "{stream}");
    let forward = &report["forward"][0];
    let withheld = number(&forward["dropped_queue"]) + number(&forward["dropped_refused"]);
    let expected = number(&stream["placed"]) + number(&stream["forwarded_then_refused"]) - withheld;
    assert_eq!(number(&forward["frames"]), expected, "{report}");
    let there = second.stop().json();
    assert_eq!(number(&there["packets"]) + drops(&there), expected, "{there}");
}
