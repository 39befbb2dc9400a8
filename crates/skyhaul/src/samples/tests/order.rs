//! Threads, sets and times that are not where the first frames say: nothing is lost without being counted.

use super::super::*;
use super::SECOND;
use crate::recording::{ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, Record, Recording, Session};
use skyhaul_core::wire::vdif::Vdif;
use std::path::{Path, PathBuf};

const PAYLOAD: usize = 64;
const FPS: u32 = 50;
const RATE: u64 = FPS as u64 * 4 * PAYLOAD as u64;

/// A frame that is not of this number nor thread is not equal to it.
fn frame(number: u32, thread: u16) -> Vec<u8> {
    let shape = Vdif::shape(PAYLOAD, 1, 2, false, false).unwrap();
    let at = shape.at(SECOND + i64::from(number / FPS), number % FPS).unwrap();
    let mut bytes = Vdif { thread: u32::from(thread), ..at }.write().to_vec();
    bytes.resize(32, 0);
    bytes.resize(32 + PAYLOAD, number as u8 ^ (thread as u8) << 7);
    bytes
}

fn options() -> Options {
    Options { sample_rate: Some(RATE), workers: 2, ..Options::default() }
}

fn file(directory: &Path, name: &str, frames: impl Iterator<Item = (u32, u16)>) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, frames.flat_map(|(number, thread)| frame(number, thread)).collect::<Vec<_>>())
        .unwrap();
    path
}

/// Frames that are not valid, and recorded ones that are not shown.
fn missing(samples: &Samples) -> (usize, u64) {
    let mut rows = vec![0f32; samples.rows() as usize * samples.row()];
    let read = samples.read(0, &mut rows).unwrap();
    let missing = read.valid.iter().filter(|&&valid| !valid).count();
    (missing, samples.not_shown(&(0..samples.rows()), read.placed))
}

#[test]
fn a_thread_that_begins_late_has_a_column() {
    let directory = tempfile::tempdir().unwrap();
    let late = (0..2000).flat_map(|n| [(n, 0), (n, 5)]).filter(|&(n, thread)| thread == 0 || n >= 1200);
    let samples = Samples::of_files([file(directory.path(), "late.vdif", late)], &options()).unwrap();
    assert_eq!(samples.threads(), [0, 5]);
    assert_eq!(missing(&samples), (1200, 0));
    let chosen = Options { threads: Some(vec![0]), ..options() };
    let path = directory.path().join("late.vdif");
    assert_eq!(missing(&Samples::of_files([path], &chosen).unwrap()), (0, 0), "the other is not wanted");
}

#[test]
fn what_one_axis_of_time_cannot_show_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let twice = (0..300).chain(100..300).map(|n| (n, 0));
    let samples = Samples::of_files([file(directory.path(), "twice.vdif", twice)], &options()).unwrap();
    let (missing, not_shown) = missing(&samples);
    assert_eq!(missing, 0);
    assert_eq!(not_shown, 200);
}

/// Pieces that are not in order of time are found all the same.
#[test]
fn files_in_any_order_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let part =
        |from: u32| file(directory.path(), &format!("{from}.vdif"), (from..from + 100).map(|n| (n, 0)));
    let samples = Samples::of_files([part(200), part(0), part(100)], &options()).unwrap();
    assert_eq!(samples.start(), (SECOND, 0));
    assert_eq!((samples.rows(), missing(&samples)), (300 * 4 * PAYLOAD as u64, (0, 0)));
}

/// Chunks of frames that a sequence number placed: the first one ends within a set.
fn scan(disk: &Path, all: &[(u32, u16)], first: usize, each: usize) {
    std::fs::create_dir(disk.join("x")).unwrap();
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
        metadata: serde_json::Value::Null,
    };
    let format = serde_json::json!(
        {"format": "vdif", "header_at": 0, "threads": [0, 1, 2, 3], "edv": 0, "near": SECOND}
    );
    let info = DatastreamInfo {
        unit_bytes: 32 + PAYLOAD as u32,
        units: each as u32,
        frames_per_second: Some(FPS),
        lanes: 4,
        format,
        ..DatastreamInfo::default()
    };
    let stream = Datastream { datastream: 0, name: "x".into(), info };
    let mut records = vec![Record::Session(session), Record::Datastream(stream)];
    let (head, rest) = all.split_at(first);
    for (number, units) in std::iter::once(head).chain(rest.chunks(each)).enumerate() {
        let bytes: Vec<u8> = units.iter().flat_map(|&(n, thread)| frame(n, thread)).collect();
        std::fs::write(disk.join(format!("x/x.{number:08}")), &bytes).unwrap();
        let time = |at: usize| Some((SECOND + i64::from(units[at].0 / FPS), units[at].0 % FPS));
        let meta = ChunkMeta {
            units: units.len() as u32,
            first_time: time(0),
            last_time: time(units.len() - 1),
            ..ChunkMeta::default()
        };
        records.push(Record::Chunk(ChunkRecord {
            number: number as u32,
            bytes: bytes.len() as u64,
            crc32c: crc32c::crc32c(&bytes),
            meta,
            ..ChunkRecord::default()
        }));
    }
    let text: String = records.iter().map(Record::to_line).collect();
    std::fs::write(disk.join("x/x.index"), text).unwrap();
}

#[test]
fn sets_divided_among_chunks_are_read_whole() {
    let all: Vec<(u32, u16)> = (0..120).flat_map(|n| (0..4).map(move |thread| (n, thread))).collect();
    for first in 1..8 {
        let disk = tempfile::tempdir().unwrap();
        scan(disk.path(), &all, first, 4);
        let recording = Recording::open([disk.path()], "x").unwrap();
        let samples = Samples::of_recording(&recording, 0, &options()).unwrap();
        assert_eq!(samples.threads(), [0, 1, 2, 3], "the first chunk has {first} frames");
        assert_eq!(missing(&samples), (0, 0), "the first chunk has {first} frames");
        // Blocks that begin with a set that is divided.
        for n in 0..120 {
            let read = samples.validity(n..n + 1);
            assert!(read.is_whole(), "frame {n} of chunks that begin with {first}: {read:?}");
        }
    }
}
