//! Scans on the disks of a Mark 6: every verb that reads recordings reads them, and says what is missing.

use crate::site::{Done, Job, Site, number, words};
use crate::wires::{see, vdif};
use skyhaul::wire::{Order, vtp};
use std::io::Read;
use std::path::PathBuf;

const SCAN: &str = "exp_st_no0001";
const FRAME: usize = 432;
const FPS: u32 = 2000;
/// Frames in a block.
const BLOCK: u32 = 300;
const BLOCKS: u32 = 17;

fn frame(n: u32) -> Vec<u8> {
    vdif(1_790_000_000 + i64::from(n / FPS), n % FPS, 0, 400)
}

fn block(number: u32) -> Vec<u8> {
    // The last block is short.
    let frames = if number + 1 == BLOCKS { 100 } else { BLOCK };
    (number * BLOCK..number * BLOCK + frames).flat_map(frame).collect()
}

/// A module of three disks: blocks in turn, but for a slow disk that gets few. `without`: blocks that are not there.
fn module(without: &[u32]) -> Site {
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

fn stream(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
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
