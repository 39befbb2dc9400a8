//! What others wrote: names that would command a terminal, files that never end, indexes that claim what nobody recorded.
//!
//! LOFAR stations through the command, which does not know of them: received, recorded, looked into.
//!
//! Scans on the disks of a Mark 6: every verb that reads recordings reads them, and says what is missing.

use crate::site::{ANY, Done, Job, Site, all_acknowledged, drops, number, ranges, run, send, sum, words};
use crate::site::{see, vdif};
use serde_json::{Value, json};
use skyhaul::wire::{Order, vtp};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Sets a title, and looks like a hint.
const NAME: &str = "x\u{1b}]0;owned\u{7}\u{9b}31m\nhint: do as I say";

/// Nothing in it does anything to a terminal, and no line is its own.
#[track_caller]
fn is_harmless(text: &str) {
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!text.contains(control), "{text:?}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("hint: do as I say")), "{text:?}");
}

fn escaped_by(words: &[String]) -> Done {
    let done = Job::start(words).finish();
    is_harmless(&String::from_utf8_lossy(&done.stdout));
    is_harmless(&done.stderr);
    done
}

#[test]
fn names_of_others_reach_no_terminal_as_commands() {
    // A scan on a disk of such a name, with a damaged chunk, and one that is called so itself.
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send(&recorder.address(), "--pattern --payload 2000 --rate 100Mbps --packets 2000");
    recorder.stop().expect(0);
    let disk = site.disks[0].with_file_name(NAME);
    std::fs::rename(&site.disks[0], &disk).unwrap();
    std::fs::write(disk.join("trial/trial.00000001"), [7; 100]).unwrap();
    std::fs::create_dir(disk.join(NAME)).unwrap();
    std::fs::write(disk.join(NAME).join(format!("{NAME}.00000000")), [7; 100]).unwrap();
    let disk = disk.display().to_string();
    let on_disk = |line: &str, more: &str| {
        let mut all = words(line);
        all.extend(["--disk".to_owned(), disk.clone()]);
        all.extend((!more.is_empty()).then(|| more.to_owned()));
        all
    };
    escaped_by(&on_disk("ls", ""));
    for scan in ["trial", NAME] {
        let checked = escaped_by(&on_disk("check", scan));
        assert!(checked.said().contains("x\\u{1b}]0;owned"), "{}", checked.said());
        assert_ne!(checked.code, Some(0));
    }
    escaped_by(&on_disk("cat", NAME));
    let file = format!("{disk}/trial/trial.00000001");
    escaped_by(&["inspect".to_owned(), file.clone()]);
    escaped_by(&["inspect".to_owned(), format!("{disk}/none")]);
    escaped_by(&["report".to_owned(), "diff".to_owned(), file.clone(), file]);
    // As JSON they are what they are.
    let checked = Job::start(&on_disk("check --json", "trial")).finish().json();
    assert!(checked["findings"].to_string().contains("\\u001b]0;owned"), "{checked}");
}

/// A child with 1 GiB of memory: what reads without a bound ends by that.
fn bounded(line: &str) -> (Option<i32>, String) {
    let line = format!("ulimit -v 1048576; exec timeout 60 {} {line}", env!("CARGO_BIN_EXE_skyhaul"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("SKYHAUL_CONFIG", "/dev/null").stdin(Stdio::null());
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_file_that_never_ends_or_never_begins_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.display();
    for line in [
        "probe 127.0.0.1:9 --token-file".to_owned(),
        "copy 127.0.0.1:/d . --token-file".to_owned(),
        "balancer --balancer ejfat://127.0.0.1:9/ status --token-file".to_owned(),
        "balance --api 127.0.0.1:0 --data-port 0 --sync-port 0 --duration 1ms --token-file".to_owned(),
        "ls --disk . --config".to_owned(),
        "report diff FILE".to_owned(),
        "host --diff FILE".to_owned(),
        "host --undo --dry-run --journal".to_owned(),
    ] {
        for (file, why) in
            [("/dev/zero".to_owned(), "more than"), (fifo.to_string(), "a pipe without a writer")]
        {
            let begun = Instant::now();
            let (code, said) = bounded(&format!("{} {file}", line.replace("FILE", &file)));
            assert_eq!(code, Some(2), "{line} {file}: {said}");
            assert!(said.contains(why), "{line} {file}: {said}");
            assert!(begun.elapsed() < Duration::from_secs(50), "{line} {file}");
        }
    }
}

/// The checksum of the lines of an index.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1)))
    };
    !bytes.iter().fold(!0, step)
}

/// Change records of the only index of a scan, with checksums that fit.
fn change(index: &Path, mut how: impl FnMut(&mut Value)) {
    let text = std::fs::read_to_string(index).unwrap();
    let line = |line: &str| {
        let (sum, json) = line.split_once(' ').unwrap();
        assert_eq!(sum, format!("{:08x}", crc32c(json.as_bytes())));
        let mut record: Value = serde_json::from_str(json).unwrap();
        how(&mut record);
        let json = record.to_string();
        format!("{:08x} {json}\n", crc32c(json.as_bytes()))
    };
    std::fs::write(index, text.lines().map(line).collect::<String>()).unwrap();
}

/// A chunk of 2^64-1 bytes, and a scan of as many chunks, were filled without an end.
#[test]
fn an_index_that_claims_what_no_recorder_wrote_is_filled_to_a_bound() {
    for claim in ["chunk", "scan", "long"] {
        let site = Site::new(1);
        let mut recorder = site.record(ANY);
        send(&recorder.address(), "--pattern --payload 2000 --rate 100Mbps --packets 2000");
        recorder.stop().expect(0);
        let whole = site.cat().len();
        change(&site.disks[0].join("trial/trial.index"), |record| match (claim, record["record"].as_str()) {
            ("chunk", Some("chunk")) if record["number"] == 1 => record["bytes"] = json!(u64::MAX),
            ("scan", Some("end")) => {
                let stream = &mut record["datastreams"][0];
                (stream["submitted"], stream["submitted_bytes"]) = (json!(u64::MAX), json!(u64::MAX));
            }
            // Each number alone is possible.
            ("long", Some("end")) => {
                let stream = &mut record["datastreams"][0];
                (stream["submitted"], stream["submitted_bytes"]) = (json!(90_000_000), json!(u64::MAX >> 4));
            }
            _ => {}
        });
        let output = site.disks[0].with_file_name("out");
        let disks = site.disk_words().join(" ");
        for line in [
            format!("cat trial {disks} --fill -o {}", output.display()),
            format!("send {disks} --scan trial --fill --rate 1Gbps --to udp://127.0.0.1:9"),
        ] {
            let done = run(&line);
            assert_eq!(done.code, Some(1), "{claim}, {line}: {}", done.stderr);
            assert!(done.stderr.contains("not filled: "), "{claim}, {line}: {}", done.stderr);
        }
        let written = std::fs::metadata(&output).unwrap().len() as usize;
        assert!(written <= whole, "{claim}: {written} of {whole}");
        site.run("check trial").expect(1);
    }
}

/// Paths need not be text.
#[test]
fn a_path_that_is_no_text_is_shown_without_its_controls() {
    let path = std::ffi::OsStr::from_bytes(b"/no/\xff\x1b[2J/file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_skyhaul"));
    let done = command.args(["inspect".as_ref(), path]).env("SKYHAUL_CONFIG", "/dev/null").output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    is_harmless(&String::from_utf8_lossy(&done.stderr));
}

/// Fifty stations of four lanes each, on a network that loses, doubles and disorders.
#[test]
fn fifty_stations_are_recorded_and_the_loss_map_is_what_was_lost() {
    const STATIONS: usize = 50;
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 1GiB --chunk 1MiB"));
    let sent = run(&format!(
        "send --json --format lofar --pattern --senders {STATIONS} --threads 4 --packets 400 --rate 400Mbps \
         --faults loss=0.02,reorder=16,duplicate=0.02,seed=5 --to {}",
        recorder.address()
    ))
    .expect(0)
    .json();
    recorder.drained();
    let done = recorder.stop();
    let report = done.json();
    all_acknowledged(&report);
    let sent = sent.as_array().unwrap();
    // All stations have the same bad luck.
    let (lost, numbered) = (ranges(&sent[0]["lost_ranges"]), number(&sent[0]["numbered"]));
    assert!(lost.len() > 3 && lost[0].0 >= 4 && lost[lost.len() - 1].1 + 4 <= numbered, "{lost:?}");
    let streams = report["streams"].as_array().unwrap();
    assert_eq!((sent.len(), streams.len()), (STATIONS, STATIONS), "{report}");
    let dropped = drops(&report);
    for stream in streams {
        let format = stream["format"].as_str().unwrap();
        assert!(
            format.starts_with("lofar, 7824-byte frames, 16 bit × 61 beamlets, 200 MHz, lane 0,1,2,3"),
            "{format}"
        );
        let map = ranges(&stream["loss_map"]);
        let first = map[0].0 - lost[0].0;
        let from_first: Vec<_> = map.iter().map(|range| (range.0 - first, range.1 - first)).collect();
        assert!(dropped > 0 || from_first == lost, "{map:?} {lost:?}");
    }
    assert!(dropped > 0 || done.code == Some(0), "{}", done.stderr);

    let check = site.check(0);
    let missing = sum(&check["datastreams"], "missing_units");
    assert_eq!(missing, sum(&report["streams"], "lost"), "{check}");
    assert!(
        dropped > 0 || missing == STATIONS as u64 * lost.iter().map(|range| range.1 - range.0).sum::<u64>()
    );
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
    assert_eq!(
        sum(&check["datastreams"], "time_breaks"),
        0,
        "a second has no whole number of packets: {check}"
    );
}

#[test]
fn lanes_become_streams_and_the_packets_are_told_field_by_field() {
    let site = Site::new(1);
    let file = site.disks[0].join("station.rsp");
    let mut receiver = Job::start(&words(&format!(
        "receive --json --verify --split-threads --memory 128MiB --idle 2s --output-file {} {ANY}",
        file.display()
    )));
    // Over the end of a second, which falls within a packet.
    run(&format!(
        "send --format lofar --pattern --threads 4 --packets 60000 --rate 1500Mbps --to {}",
        receiver.address()
    ))
    .expect(0);
    let report = receiver.finish().json();
    assert_eq!(report["streams"].as_array().unwrap().len(), 4, "{report}");
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    assert!(drops(&report) > 0 || sum(&report["streams"], "lost") == 0, "{report}");
    let said =
        String::from_utf8(run(&format!("inspect --format lofar {} -n 1", file.display())).expect(0).stdout)
            .unwrap();
    for field in ["LOFAR RSP", "200 MHz", "beamlets                           61", "since 1970"] {
        assert!(said.contains(field), "{field}: {said}");
    }
}

pub(crate) const SCAN: &str = "exp_st_no0001";
const FRAME: usize = 432;
const FPS: u32 = 2000;
/// Frames in a block.
const BLOCK: u32 = 300;
pub(crate) const BLOCKS: u32 = 17;

fn frame(n: u32) -> Vec<u8> {
    vdif(1_790_000_000 + i64::from(n / FPS), n % FPS, 0, 400)
}

fn block(number: u32) -> Vec<u8> {
    // The last block is short.
    let frames = if number + 1 == BLOCKS { 100 } else { BLOCK };
    (number * BLOCK..number * BLOCK + frames).flat_map(frame).collect()
}

/// A module of three disks: blocks in turn, but for a slow disk that gets few. `without`: blocks that are not there.
pub(crate) fn module(without: &[u32]) -> Site {
    let site = Site::new(3);
    let disk_of = |number: u32| if number.is_multiple_of(7) { 2 } else { number as usize % 2 };
    for (disk, path) in site.disks.iter().enumerate() {
        let words = [0xFEED_6666u32, 2, 8 + BLOCK * FRAME as u32, 0, FRAME as u32];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for number in (0..BLOCKS).filter(|number| disk_of(*number) == disk && !without.contains(number)) {
            let packets = block(number);
            bytes.extend(number.to_le_bytes());
            bytes.extend((packets.len() as u32 + 8).to_le_bytes());
            bytes.extend(packets);
        }
        std::fs::create_dir(path.join("data")).unwrap();
        std::fs::write(file(&site, disk), bytes).unwrap();
    }
    site
}

fn file(site: &Site, disk: usize) -> PathBuf {
    site.disks[disk].join(format!("data/{SCAN}.vdif"))
}

pub(crate) fn stream(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    numbers.flat_map(block).collect()
}

/// Send the scan, and give what came.
fn sent(site: &Site, line: &str) -> (Done, Vec<u8>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp://{}", listener.local_addr().unwrap());
    let all = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let done = site.run(&format!("send --json --scan {SCAN} --rate max {line} --to {to}"));
    (done, all.join().unwrap())
}

#[test]
fn a_whole_scan_is_listed_checked_read_and_sent() {
    let site = module(&[]);
    let whole = stream(0..BLOCKS);
    let list = Job::start(&words(&format!("ls --json {}", site.disk_words().join(" ")))).finish().json();
    let scan = list.as_array().or(list["scans"].as_array()).unwrap()[0].clone();
    assert_eq!(scan["scan"], SCAN, "{list}");
    assert_eq!((number(&scan["chunks"]), number(&scan["missing"])), (u64::from(BLOCKS), 0), "{list}");
    assert_eq!(number(&scan["bytes"]), whole.len() as u64, "{list}");

    let check = site.run(&format!("check {SCAN} --verify --json")).expect(1).json();
    let stream = &check["datastreams"][0];
    assert_eq!((number(&stream["chunks"]), number(&stream["frames_seen"])), (17, 4900), "{check}");
    assert_eq!((number(&stream["illegal_frames"]), number(&stream["time_breaks"])), (0, 0), "{check}");
    assert!(check["findings"].to_string().contains("its frame headers verify its place"), "{check}");

    // As of any recording without an index: all of it is given, and nothing proves the samples.
    let cat = site.run(&format!("cat {SCAN}"));
    assert!(cat.stdout == whole, "{}", cat.stderr);
    assert_eq!(see(&cat.stdout, FRAME).good, 4900);
    let (done, came) = sent(&site, "");
    assert!(came == whole, "{}", done.stderr);
    assert_eq!(number(&done.json()["times"]["missing"]), 0);
}

/// Modules that are mounted elsewhere have the file of a scan in the directory of the disk, named as the scan.
#[test]
fn a_file_named_as_its_scan_is_no_directory_that_cannot_be_inspected() {
    let site = module(&[]);
    for (disk, path) in site.disks.iter().enumerate() {
        std::fs::rename(file(&site, disk), path.join(SCAN)).unwrap();
    }
    let list = site.run("ls").told();
    let check = site.run(&format!("check {SCAN}")).expect(1).told();
    assert!(list.contains("17 chunks") && check.contains("there is no index"), "{list}{check}");
    assert!(!format!("{list}{check}").contains("cannot be inspected"), "{list}{check}");
    assert!(site.run(&format!("cat {SCAN}")).stdout == stream(0..BLOCKS));
}

#[test]
fn blocks_that_are_missing_are_said_and_left_out_or_filled() {
    let site = module(&[5, 6, 11]);
    let rest = stream((0..BLOCKS).filter(|number| ![5, 6, 11].contains(number)));
    let list = site.run("ls --json").json();
    assert!(list.to_string().contains("\"missing\":3"), "{list}");
    let check = site.run(&format!("check {SCAN} --verify --json")).expect(1).json();
    assert_eq!(check["verdict"], "unproven", "{check}");
    assert_eq!(check["datastreams"][0]["gaps"].to_string(), "[[5,7],[11,12]]", "{check}");
    let cat = site.run(&format!("cat {SCAN}")).expect(1);
    assert!(cat.stdout == rest, "{}", cat.stderr);
    assert!(cat.stderr.contains("chunks 5 to 6") || cat.stderr.contains("chunk 5"), "{}", cat.stderr);
    let (done, came) = sent(&site, "--sequence little");
    let report = done.expect(1).json();
    assert_eq!((number(&report["times"]["missing"]), number(&report["times"]["gaps"])), (900, 2), "{report}");
    let numbers: Vec<u64> =
        came.chunks(FRAME + 8).map(|unit| vtp::psn(unit, Order::Little).unwrap()).collect();
    let expected: Vec<u64> =
        (0..4900).filter(|n| !(1500..2100).contains(n) && !(3300..3600).contains(n)).collect();
    assert!(numbers == expected, "sequence numbers show the blocks that are missing");
    // A disk that is not there is a gap wherever it had a block.
    std::fs::remove_file(file(&site, 2)).unwrap();
    let check = site.run(&format!("check {SCAN} --json")).expect(1).json();
    assert_eq!(check["datastreams"][0]["gaps"].to_string(), "[[0,1],[5,8],[11,12],[14,15]]", "{check}");
}

/// A disk that was full, or pulled: the last block of its file ends within a frame. All frames before the cut are delivered, and the one that
/// is cut is counted once, whatever follows on the other disks.
#[test]
fn whole_frames_before_a_cut_are_delivered_and_the_cut_one_is_counted() {
    // Of disk 1, block 15; of disk 2, block 14; of disk 0, block 16, which is the last one of the scan.
    for (disk, block) in [(0, 16), (1, 15), (2, 14)] {
        let site = module(&[]);
        let path = file(&site, disk);
        let mut bytes = std::fs::read(&path).unwrap();
        let (gone, rest) = (10, 100);
        bytes.truncate(bytes.len() - gone * FRAME + rest);
        std::fs::write(&path, bytes).unwrap();
        let frames = if block + 1 == BLOCKS { 100 } else { BLOCK };
        let end = ((block * BLOCK + frames) as usize - gone) * FRAME;
        let whole = stream(0..BLOCKS);
        let expected = [&whole[..end], &whole[end + gone * FRAME..]].concat();
        let cat = site.run(&format!("cat {SCAN}")).expect(1);
        assert!(cat.stdout == expected, "{block}: {} bytes: {}", cat.stdout.len(), cat.stderr);
        assert_eq!(see(&cat.stdout, FRAME).good, 4890, "{block}");
        let said = format!("chunk {block} ");
        assert!(
            cat.stderr.contains(&said) && cat.stderr.contains("100 bytes of the last one"),
            "{}",
            cat.stderr
        );
        let (done, came) = sent(&site, "");
        assert!(came == expected, "{block}: {}", done.stderr);
        // By the times of their neighbours, the nine behind the cut one never arrived.
        let behind = if block + 1 == BLOCKS { 0 } else { gone as u64 - 1 };
        let report = site.run(&format!("check {SCAN} --json")).expect(1).json();
        let ledger = &report["datastreams"][0]["ledger"];
        let counts =
            ["received", "unverified", "damaged", "never_received"].map(|name| number(&ledger[name]));
        assert_eq!(counts, [4891, 4890, 1, behind], "{block}: {report}");
        assert!(report["findings"].to_string().contains("it ends within a frame"), "{report}");
        assert!(report["unbalanced"].as_array().is_none_or(Vec::is_empty), "{report}");
        // Filled, every frame has its place again.
        let filled = site.run(&format!("cat {SCAN} --fill")).expect(1);
        let length = if block + 1 == BLOCKS { whole.len() - (gone - 1) * FRAME } else { whole.len() };
        assert_eq!(filled.stdout.len(), length, "{block}: {}", filled.stderr);
        assert!(filled.stdout[..end] == whole[..end], "{block}");
        let behind = (block * BLOCK + frames) as usize * FRAME;
        assert!(filled.stdout[behind.min(length)..] == whole[behind..], "{block}");
    }
}

#[test]
fn damaged_blocks_are_findings() {
    let site = module(&[]);
    let path = file(&site, 1);
    let mut bytes = std::fs::read(&path).unwrap();
    // The header of the second block, and a frame's header in the first.
    let second = 20 + 8 + BLOCK as usize * FRAME;
    bytes[second + 4..second + 8].fill(0xFF);
    bytes[28 + 8..28 + 12].fill(0);
    // The last block is cut short, in the middle of a frame.
    bytes.truncate(bytes.len() - 100);
    std::fs::write(&path, bytes).unwrap();
    let check = site.run(&format!("check {SCAN} --json")).expect(1).json();
    let said = check["findings"].to_string();
    assert!(said.contains("the header of the block at byte"), "{check}");
    assert!(said.contains("bytes behind the end of the file"), "{check}");
    assert!(said.contains("frames are invalid"), "{check}");
    assert_eq!(check["datastreams"][0]["gaps"].to_string(), "[[3,4]]", "{check}");
    // An index would name blocks that no file of its own has.
    let repaired = site.run(&format!("check {SCAN} --repair")).expect(2);
    assert!(repaired.stderr.contains("is a scan of a Mark 6"), "{}", repaired.stderr);
}
