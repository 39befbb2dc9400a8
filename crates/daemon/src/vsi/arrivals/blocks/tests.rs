//! Scans that arrive in blocks, and those that break.

use super::super::tests::{World, send};
use skyhaul::recording::mark6::{blocks, files};
use skyhaul_core::vsi::{VsiAccepted, VsiBlocks, VsiExisting, VsiPackets};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const FRAME_BYTES: usize = 8032;
/// Three frames and their block's header, and some bytes that no frame fits into.
const BLOCK_BYTES: u64 = 3 * FRAME_BYTES as u64 + 100;

fn frames(count: usize) -> Vec<u8> {
    let frame = |number: usize| {
        let mut frame = vec![number as u8; FRAME_BYTES];
        frame[8..12].copy_from_slice(&((1u32 << 29) | (FRAME_BYTES as u32 / 8)).to_le_bytes());
        frame
    };
    (0..count).flat_map(frame).collect()
}

fn options(label: &str, disks: Vec<String>) -> VsiAccepted {
    let bytes = FRAME_BYTES as u32;
    let packets = VsiPackets { bytes, format: 0, mark: (2, 0xFF_FFFF, bytes / 8) };
    VsiAccepted::Blocks(VsiBlocks { label: label.into(), packets, block_bytes: BLOCK_BYTES, disks })
}

fn disks(world: &World) -> Vec<PathBuf> {
    ["d0", "d1"].map(|disk| world.path(disk)).to_vec()
}

/// The packets of a scan, as a reader of a Mark 6 finds them; nothing must be missing.
fn read(world: &World, label: &str) -> Vec<u8> {
    let found = blocks(&files(&disks(world), label)).unwrap();
    assert!(found.gaps.is_empty(), "{:?}", found.gaps);
    let bytes = |block: &skyhaul::recording::mark6::Block| {
        let file = fs::read(&block.path).unwrap();
        let from = block.offset as usize;
        file[from..from + block.bytes as usize].to_vec()
    };
    found.blocks.iter().flat_map(bytes).collect()
}

/// All files in the directories of Mark 6 scans.
fn names(world: &World) -> Vec<String> {
    let entries = disks(world).into_iter().filter_map(|disk| fs::read_dir(disk.join("data")).ok()).flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_scan_is_spread_over_the_disks_and_read_as_it_came() {
    let mut world = World::new();
    let (id, port, present) = world.open(options("a_b_c", Vec::new())).unwrap();
    assert_eq!(present, 0);
    let whole = frames(10);
    assert_eq!(send(port, &whole).unwrap(), b"");
    assert_eq!(names(&world), ["a_b_c.part"; 2], "it has no name before it is closed");
    assert!(files(&disks(&world), "a_b_c.part").is_empty(), "no reader takes what is unfinished for a scan");
    assert_eq!(world.close(id), Ok(whole.len() as u64));
    assert_eq!(names(&world), ["a_b_c"; 2]);
    assert!(read(&world, "a_b_c") == whole);
    // 3, 3, 3 and 1 frame in turns, the file headers, and the last block shorter.
    let sizes = ["d0", "d1"].map(|disk| fs::metadata(world.path(disk).join("data/a_b_c")).unwrap().len());
    assert_eq!(sizes, [6, 4].map(|frames| 20 + 2 * 8 + frames * FRAME_BYTES as u64));
    // One of this label is not begun, and one of another on one disk is there alone.
    assert_eq!(world.open(options("a_b_c", Vec::new())).unwrap_err(), "taken");
    assert_eq!(world.open(options("live", Vec::new())).unwrap_err(), "taken");
    let d1 = world.path("d1").to_str().unwrap().to_owned();
    let (id, port, _) = world.open(options("a_b_d", vec![d1])).unwrap();
    assert_eq!(world.open(options("a_b_d", Vec::new())).unwrap_err(), "taken");
    assert_eq!(send(port, &whole).unwrap(), b"");
    assert_eq!(world.close(id), Ok(whole.len() as u64));
    assert!(read(&world, "a_b_d") == whole);
    assert_eq!(names(&world), ["a_b_c", "a_b_c", "a_b_d"]);
}

#[test]
fn what_broke_leaves_nothing_and_says_why() {
    let mut world = World::new();
    let whole = frames(10);
    // The stream ends within a frame; its frames are not of the mode; the connection is reset.
    for (bytes, why) in
        [(&whole[..whole.len() - 8], "within a frame"), (&[7; 9000][..], "no frame of 8032 bytes")]
    {
        let (id, port, _) = world.open(options("a_b_c", Vec::new())).unwrap();
        let _ = send(port, bytes);
        let failure = world.close(id).unwrap_err();
        assert!(failure.contains(why), "{failure}");
        assert_eq!(names(&world), [""; 0]);
    }
    // A recording of the name that was made meanwhile stays alone.
    let (id, port, _) = world.open(options("a_b_c", Vec::new())).unwrap();
    assert_eq!(send(port, &whole).unwrap(), b"");
    fs::create_dir(world.path("d1/a_b_c")).unwrap();
    assert!(world.close(id).unwrap_err().contains("by now"));
    assert_eq!(names(&world), [""; 0]);
    // What a crash left is not part of the next one.
    fs::write(world.path("d0/data/a_b_e.part"), vec![1; 1_000_000]).unwrap();
    let (id, port, _) = world.open(options("a_b_e", Vec::new())).unwrap();
    assert_eq!(send(port, &whole[..FRAME_BYTES]).unwrap(), b"");
    assert_eq!(world.close(id), Ok(FRAME_BYTES as u64));
    assert!(read(&world, "a_b_e") == whole[..FRAME_BYTES]);
    // Nothing came.
    let (id, port, _) = world.open(options("a_b_f", Vec::new())).unwrap();
    assert_eq!(send(port, b"").unwrap(), b"");
    assert_eq!((world.close(id), names(&world)), (Ok(0), vec!["a_b_e".to_owned()]));
    // Frames and blocks of sizes that no block can have.
    let VsiAccepted::Blocks(blocks) = options("a_b_g", Vec::new()) else { unreachable!() };
    let small = VsiAccepted::Blocks(VsiBlocks { block_bytes: 8039, ..blocks });
    assert!(world.open(small).unwrap_err().contains("blocks of 8039 bytes"));
    assert_eq!(world.file("files/a", VsiExisting::Keep).unwrap().2, 0, "others are not disturbed");
}

#[test]
fn disks_without_room_take_no_block() {
    let mut world = World::from("127.0.0.0/8", u64::MAX / 2);
    let (id, port, _) = world.open(options("a_b_c", Vec::new())).unwrap();
    let _ = send(port, &frames(1));
    assert!(world.close(id).unwrap_err().contains("no disk has room for it"));
    assert_eq!(names(&world), [""; 0]);
}

#[test]
fn what_is_closed_while_frames_come_ends_after_a_whole_one() {
    let mut world = World::new();
    let (id, port, _) = world.open(options("a_b_c", Vec::new())).unwrap();
    let whole = frames(5);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&whole[..3 * FRAME_BYTES + 100]).unwrap();
    let begun = Instant::now();
    while world.written(id) < 3 * FRAME_BYTES as u64 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    world.close(id).unwrap();
    assert!(read(&world, "a_b_c") == whole[..3 * FRAME_BYTES]);
}
