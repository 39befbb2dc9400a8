//! Chunks that are verified part by part: what is damaged, and nothing else, is missing.

use super::super::*;
use crate::recording::{
    ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, Lack, Record, Recording, Session,
};
use skyhaul_core::wire::vdif::Vdif;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

const SECOND: i64 = 1_767_225_600;
const PAYLOAD: usize = 968;
const FRAME: usize = 32 + PAYLOAD;
const FRAMES: usize = 200;
const FPS: u32 = 400;
/// No whole number of frames.
const PART: usize = 7100;

fn frames(seed: u64) -> Vec<u8> {
    let shape = Vdif::shape(PAYLOAD, 1, 2, false, false).unwrap();
    let mut state = seed;
    let mut octet = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let mut bytes = Vec::new();
    for n in 0..FRAMES as u32 {
        bytes.extend(shape.at(SECOND, n).unwrap().write());
        bytes.resize(bytes.len().next_multiple_of(FRAME).max(FRAME) - PAYLOAD, 0);
        bytes.extend((0..PAYLOAD).map(|_| octet()));
    }
    assert_eq!(bytes.len(), FRAMES * FRAME);
    bytes
}

/// A scan with one chunk, on one disk.
struct Scan {
    directory: tempfile::TempDir,
    bytes: Vec<u8>,
    rows: Vec<f32>,
}

impl Scan {
    fn disk(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    fn file(&self, number: u32) -> PathBuf {
        self.disk().join("x").join(format!("x.{number:08}"))
    }

    /// With the checksums of its parts, or of the whole only; `change` may alter the record.
    fn new(change: impl FnOnce(&mut ChunkRecord)) -> Scan {
        let directory = tempfile::tempdir().unwrap();
        let bytes = frames(7);
        let plain = directory.path().join("whole.vdif");
        std::fs::write(&plain, &bytes).unwrap();
        let options =
            Options { sample_rate: Some(u64::from(FPS) * 4 * PAYLOAD as u64), ..Options::default() };
        let samples = Samples::of_files([&plain], &options).unwrap();
        let mut rows = vec![0.0; samples.rows() as usize];
        assert!(samples.read(0, &mut rows).unwrap().is_whole());
        let scan = Scan { directory, bytes, rows };
        let disk = scan.disk();
        std::fs::create_dir(disk.join("x")).unwrap();
        std::fs::write(scan.file(0), &scan.bytes).unwrap();
        let meta = ChunkMeta {
            units: FRAMES as u32,
            first_time: Some((SECOND, 0)),
            last_time: Some((SECOND, FRAMES as u32 - 1)),
            ..ChunkMeta::default()
        };
        let mut chunk = ChunkRecord {
            bytes: scan.bytes.len() as u64,
            crc32c: crc32c::crc32c(&scan.bytes),
            parts: scan.bytes.chunks(PART).map(crc32c::crc32c).collect(),
            part_bytes: NonZeroU64::new(PART as u64),
            meta,
            ..ChunkRecord::default()
        };
        change(&mut chunk);
        scan.index(&disk, chunk);
        scan
    }

    fn index(&self, disk: &Path, chunk: ChunkRecord) {
        let session = Session {
            index: 1,
            session: "c0ffee".into(),
            version: "test".into(),
            scan: "x".into(),
            disks: vec![disk.to_owned()],
            disk: 0,
            started: "2026-01-01T00:00:00Z".into(),
            pid: 1,
            memory: None,
            copies: 1,
            metadata: serde_json::Value::Null,
        };
        let format = serde_json::json!(
            {"format": "vdif", "header_at": 0, "threads": [0], "edv": 0, "near": SECOND}
        );
        let info = DatastreamInfo {
            unit_bytes: FRAME as u32,
            units: FRAMES as u32,
            frames_per_second: Some(FPS),
            lanes: 1,
            format,
            ..DatastreamInfo::default()
        };
        let stream = Datastream { datastream: 0, name: "x".into(), info };
        let records = [Record::Session(session), Record::Datastream(stream), Record::Chunk(chunk)];
        let text: String = records.iter().map(Record::to_line).collect();
        std::fs::write(disk.join("x/x.index"), text).unwrap();
    }

    fn flip(&self, at: usize) {
        let mut bytes = std::fs::read(self.file(0)).unwrap();
        bytes[at] ^= 4;
        std::fs::write(self.file(0), bytes).unwrap();
    }

    fn open(&self) -> Samples {
        let recording = Recording::open([self.disk()], "x").unwrap();
        Samples::of_recording(&recording, 0, &Options { workers: 2, ..Options::default() }).unwrap()
    }

    /// Read frames, and compare them; which are valid. A valid one is as it was recorded.
    fn read(&self, samples: &Samples, frames: std::ops::Range<usize>) -> Vec<bool> {
        let mut rows = vec![0.0; frames.len() * 4 * PAYLOAD];
        let read = samples.read((frames.start * 4 * PAYLOAD) as u64, &mut rows).unwrap();
        assert_eq!(samples.validity(frames.start as u64..frames.end as u64), read);
        for ((n, mine), valid) in frames.clone().zip(rows.chunks_exact(4 * PAYLOAD)).zip(&read.valid) {
            if *valid {
                assert_eq!(*mine, self.rows[n * 4 * PAYLOAD..][..4 * PAYLOAD], "frame {n}");
            } else {
                assert!(mine.iter().all(|sample| sample.is_nan()), "frame {n}");
            }
        }
        read.valid
    }
}

/// Whether a frame has no byte in these parts.
fn is_outside(frame: usize, parts: &[usize]) -> bool {
    let (from, end) = (frame * FRAME, (frame + 1) * FRAME);
    parts.iter().all(|part| end <= part * PART || from >= (part + 1) * PART)
}

fn unstated(samples: &Samples) -> usize {
    samples.gaps().iter().filter(|gap| gap.lack != Lack::OpenEnd).count()
}

#[test]
fn a_damaged_part_damages_only_what_lies_in_it() {
    // The first and last of all, in the middle, neighbours, in a header, and each that a search by halves meets.
    for flipped in [&[0][..], &[5], &[27], &[9, 10, 20], &[12, 13, 14, 15, 16], &[0, 3, 6, 7, 14, 21, 28]] {
        let scan = Scan::new(|_| {});
        let parts = scan.bytes.len().div_ceil(PART);
        for part in flipped.iter().filter(|&&part| part < parts) {
            scan.flip((part * PART).next_multiple_of(FRAME) + 3);
        }
        let expected: Vec<bool> = (0..FRAMES).map(|frame| is_outside(frame, flipped)).collect();
        let samples = scan.open();
        assert_eq!(scan.read(&samples, 0..FRAMES), expected, "{flipped:?}");
        // In any other order.
        let samples = scan.open();
        for frame in (0..FRAMES).map(|n| n * 77 % FRAMES) {
            assert_eq!(scan.read(&samples, frame..frame + 1)[0], expected[frame], "{flipped:?}, {frame}");
        }
        let gaps = samples.gaps();
        let [gap] = &gaps.iter().filter(|gap| gap.lack == Lack::Damaged).collect::<Vec<_>>()[..] else {
            panic!("{gaps:?}");
        };
        let damaged = flipped.iter().map(|part| scan.bytes.len().min((part + 1) * PART) - part * PART);
        assert_eq!((gap.chunks, gap.bytes), ((0, 1), Some(damaged.sum::<usize>() as u64)), "{gap}");
    }
}

#[test]
fn only_the_parts_that_are_read_are_verified() {
    let scan = Scan::new(|_| {});
    let last = scan.bytes.len() - 1;
    scan.flip(last);
    let samples = scan.open();
    assert_eq!(scan.read(&samples, 0..100), [true; 100]);
    assert_eq!(unstated(&samples), 0, "the last part was not read");
    assert!(!scan.read(&samples, FRAMES - 1..FRAMES)[0]);
    let gap = samples.gaps().into_iter().find(|gap| gap.lack == Lack::Damaged).unwrap().to_string();
    let from = last / PART * PART;
    assert!(gap.contains(&format!("bytes {from} to {last}: skipped")), "{gap}");
}

#[test]
fn what_lies_under_another_name_is_read_there() {
    let scan = Scan::new(|_| {});
    std::fs::write(scan.file(7), &scan.bytes).unwrap();
    scan.flip(3 * PART + 50);
    std::fs::File::options().write(true).open(scan.file(0)).unwrap().set_len(9 * PART as u64).unwrap();
    let samples = scan.open();
    assert_eq!(scan.read(&samples, 0..10), [true; 10]);
    assert_eq!(scan.read(&samples, 0..FRAMES), [true; FRAMES]);
    assert_eq!(samples.gaps().iter().filter(|gap| gap.lack == Lack::Damaged).count(), 0);
    // Without a file of its own, too.
    std::fs::remove_file(scan.file(0)).unwrap();
    assert_eq!(scan.read(&scan.open(), 0..FRAMES), [true; FRAMES]);
}

#[test]
fn a_truncated_chunk_has_its_first_parts() {
    let scan = Scan::new(|_| {});
    std::fs::File::options().write(true).open(scan.file(0)).unwrap().set_len(10 * PART as u64 + 1).unwrap();
    let samples = scan.open();
    let valid = scan.read(&samples, 0..FRAMES);
    assert_eq!(valid, (0..FRAMES).map(|frame| (frame + 1) * FRAME <= 10 * PART).collect::<Vec<_>>());
    let gaps = samples.gaps();
    assert!(gaps.iter().any(|gap| gap.to_string().contains("its index record says 200000")), "{gaps:?}");
}

#[test]
fn records_without_usable_parts_verify_the_whole() {
    type Change = fn(&mut ChunkRecord);
    let changes: [Change; 4] = [
        |record| (record.parts, record.part_bytes) = (Vec::new(), None),
        // Parts of 16 MiB are meant, of which this chunk has but one.
        |record| record.part_bytes = None,
        |record| record.parts.truncate(5),
        // What contradicts the checksum of the whole proves nothing.
        |record| record.parts[3] ^= 1,
    ];
    for change in changes {
        let scan = Scan::new(change);
        assert_eq!(scan.read(&scan.open(), 0..FRAMES), [true; FRAMES]);
        scan.flip(scan.bytes.len() - 1);
        let samples = scan.open();
        assert_eq!(scan.read(&samples, 0..1), [false]);
        let gaps = samples.gaps();
        assert!(gaps.iter().any(|gap| gap.to_string().contains("its CRC-32C is")), "{gaps:?}");
    }
}
