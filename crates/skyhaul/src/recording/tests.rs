//! Whole recordings on real directories, with disks that go wrong.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skyhaul_io::disk::{Engine, uring_works};
use skyhaul_io::memory::{Pool, PoolOptions};

use super::*;

mod copies;
mod copies_lost;
mod disks;
mod reads;

const UNIT: usize = 1000;
const UNITS: usize = 120;
const CHUNK: usize = UNIT * UNITS;
const LONG: Duration = Duration::from_secs(60);

/// Disks in a temporary directory, and a pool.
struct World {
    directory: tempfile::TempDir,
    disks: Vec<PathBuf>,
    pool: Pool,
}

fn world(disks: usize) -> World {
    let directory = tempfile::tempdir().unwrap();
    let disks: Vec<PathBuf> = (0..disks).map(|n| directory.path().join(format!("d{n}"))).collect();
    disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
    let options = PoolOptions { total_bytes: 16 << 17, block_bytes: 1 << 17, shared: true };
    World { directory, disks, pool: Pool::new(&options).unwrap() }
}

fn engines() -> Vec<Engine> {
    if uring_works() { vec![Engine::Uring, Engine::Plain] } else { vec![Engine::Plain] }
}

/// The first bytes of chunk `number` of a stream: words that grow by a step of its own.
fn expected(stream: u32, number: u32, length: usize) -> Vec<u8> {
    let step = u64::from(number * 3 + stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (mut bytes, mut word) = (Vec::with_capacity(length + 8), 0u64);
    while bytes.len() < length {
        word = word.wrapping_add(step);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

impl World {
    fn options(&self) -> WriterOptions {
        WriterOptions {
            pool: Some(self.pool.clone()),
            reserve_bytes: 0,
            ..WriterOptions::new(self.disks.clone(), "exp_st_no0001")
        }
    }

    fn chunk(&self, stream: DatastreamId, number: u32) -> Chunk {
        let end = Instant::now() + LONG;
        let mut block = loop {
            match self.pool.take() {
                Some(block) => break block,
                None => std::thread::sleep(Duration::from_micros(200)),
            }
            assert!(Instant::now() < end, "blocks do not come back");
        };
        block.place(0, &expected(stream.0, number, CHUNK));
        let at = number * UNITS as u32;
        let meta = ChunkMeta {
            object: u64::from(number),
            units: UNITS as u32,
            first_time: Some((i64::from(at / 600), at % 600)),
            last_time: Some((i64::from((at + 119) / 600), (at + 119) % 600)),
            ..ChunkMeta::default()
        };
        Chunk { datastream: stream, number, block, range: 0..CHUNK, meta, finish: None }
    }

    fn open(&self) -> Recording {
        Recording::open(&self.disks, "exp_st_no0001").unwrap()
    }

    fn check(&self) -> CheckReport {
        self.open().check(&CheckOptions::default()).unwrap()
    }

    /// The stream is exactly chunks `numbers`.
    fn assert_holds(&self, datastream: usize, numbers: Range<u32>) {
        let mut bytes = Vec::new();
        self.open().reader(datastream, &ReadOptions::default()).unwrap().read_to_end(&mut bytes).unwrap();
        let wanted: Vec<u8> = numbers.flat_map(|n| expected(datastream as u32, n, CHUNK)).collect();
        assert_eq!(bytes.len(), wanted.len());
        assert!(bytes == wanted, "bytes differ");
    }
}

fn info(suffix: &str) -> DatastreamInfo {
    DatastreamInfo {
        suffix: suffix.into(),
        unit_bytes: UNIT as u32,
        units: UNITS as u32,
        frames_per_second: Some(600),
        ..DatastreamInfo::default()
    }
}

/// Record chunks 0..`count` of one datastream with `options`.
fn record(world: &World, options: &WriterOptions, count: u32) -> RecordingReport {
    let writer = Writer::create(options).unwrap();
    let stream = writer.add_datastream(&info(""));
    for number in 0..count {
        let _ = writer.submit(world.chunk(stream, number));
    }
    writer.finish(LONG)
}

#[test]
fn what_is_given_is_on_the_disks_and_every_disk_explains_itself() {
    for engine in engines() {
        for sync in [SyncPolicy::Chunk, SyncPolicy::Interval(Duration::from_millis(50)), SyncPolicy::None] {
            let world = world(3);
            let writer = Writer::create(&WriterOptions { engine, sync, ..world.options() }).unwrap();
            let streams = [writer.add_datastream(&info("")), writer.add_datastream(&info("_ds1"))];
            for number in 0..40 {
                streams.iter().for_each(|&stream| writer.submit(world.chunk(stream, number)).unwrap());
            }
            let report = writer.finish(LONG);
            assert!(report.is_whole(), "{report:?}");
            assert_eq!(report.acknowledged_bytes(), 80 * CHUNK as u64);
            assert_eq!(world.pool.free(), world.pool.blocks());
            assert!(report.disks.iter().all(|disk| disk.chunks > 0), "{:?}", report.disks);
            (0..2).for_each(|stream| world.assert_holds(stream, 0..40));
            let check = world.check();
            assert_eq!((check.verdict, check.state), (Verdict::Whole, State::Ended), "{:?}", check.findings);
            assert_eq!(check.datastreams.iter().map(|stream| stream.proven).sum::<u64>(), 80);
            // One disk alone knows what it has, and that there are others.
            let alone = Recording::open([&world.disks[1]], "exp_st_no0001").unwrap();
            assert_eq!((alone.datastreams.len(), alone.missing_disks.len()), (2, 2));
            assert_eq!(alone.report.as_ref().map(|r| &r.scan[..]), Some("exp_st_no0001"));
            let check = alone.check(&CheckOptions::default()).unwrap();
            assert_eq!((check.verdict, check.exit_code()), (Verdict::Unproven, 1), "{:?}", check.findings);
            let list = ls(&world.disks);
            assert_eq!((list.len(), list[0].chunks, list[0].unacknowledged), (1, 80, 0));
        }
    }
}

#[test]
fn chunks_may_begin_anywhere_and_their_holes_are_filled() {
    for engine in engines() {
        let world = world(1);
        let writer = Writer::create(&WriterOptions { engine, ..world.options() }).unwrap();
        let stream = writer.add_datastream(&info(""));
        let mut chunk = world.chunk(stream, 0);
        chunk.range = 3 * UNIT..CHUNK;
        chunk.meta.units -= 3;
        chunk.meta.missing = vec![2..4, 100..101];
        chunk.finish = Some(Arc::new(|meta, block, range| {
            for units in &meta.missing {
                let bytes =
                    range.start + units.start as usize * UNIT..range.start + units.end as usize * UNIT;
                block.part_mut(bytes).fill(units.start as u8);
            }
        }));
        writer.submit(chunk).unwrap();
        writer.submit(world.chunk(stream, 1)).unwrap();
        let report = writer.finish(LONG);
        assert_eq!(report.datastreams[0].missing_units, 3);
        let mut wanted = expected(0, 0, CHUNK)[3 * UNIT..].to_vec();
        wanted[2 * UNIT..4 * UNIT].fill(2);
        wanted[100 * UNIT..101 * UNIT].fill(100);
        assert_eq!(
            std::fs::read(world.disks[0].join("exp_st_no0001/exp_st_no0001.00000000")).unwrap(),
            wanted
        );
        let check = world.check();
        assert_eq!(
            (check.verdict, check.datastreams[0].missing_units, check.exit_code()),
            (Verdict::Holes, 3, 0)
        );
    }
}

#[test]
fn bad_chunks_are_refused_and_come_back() {
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    let mut outside = world.chunk(stream, 0);
    outside.range = 0..(1 << 17) + 1;
    let big = Chunk { number: 100_000_000, ..world.chunk(stream, 0) };
    for chunk in [outside, big, world.chunk(DatastreamId(7), 0)] {
        assert_eq!(writer.submit(chunk).unwrap_err().reason, Refusal::Invalid);
    }
    assert_eq!(writer.finish(LONG).datastreams[0].submitted, 0);
}

#[test]
fn what_is_learned_later_of_a_datastream_counts() {
    let world = world(2);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&DatastreamInfo { frames_per_second: None, ..info("_../x") });
    writer.submit(world.chunk(stream, 0)).unwrap();
    writer.update_datastream(stream, &info(""));
    writer.submit(world.chunk(stream, 1)).unwrap();
    assert!(writer.finish(LONG).is_whole());
    let recording = world.open();
    let names: Vec<_> = std::fs::read_dir(&world.disks[0]).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains('.')), "{names:?}");
    let of: Vec<_> = recording.datastreams.iter().filter_map(|s| s.datastream.as_ref()).collect();
    assert_eq!((of.len(), of[0].info.frames_per_second), (1, Some(600)));
    assert_eq!(of[0].name, "exp_st_no0001____x");
}

#[test]
fn a_label_is_used_once() {
    let world = world(2);
    std::fs::create_dir(world.disks[1].join("exp_st_no0001_ds1")).unwrap();
    assert_eq!(record(&world, &world.options(), 1).scan, "exp_st_no0001a");
    assert_eq!(record(&world, &world.options(), 1).scan, "exp_st_no0001b");
    let refuse = WriterOptions { existing: Existing::Refuse, ..world.options() };
    assert!(matches!(Writer::create(&refuse), Err(WriterError::Exists(_))));
    let bad = WriterOptions { scan: "a/b".into(), ..world.options() };
    assert!(matches!(Writer::create(&bad), Err(WriterError::Label(_))));
    let nowhere = WriterOptions::new(["/nonexistent"], "x");
    assert!(matches!(Writer::create(&nowhere), Err(WriterError::Place(_))));
    assert!(Recording::open(&world.disks, "nothing").is_err());
}
