//! Whole recordings on real directories, with disks that go wrong.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skyhaul_io::disk::{Engine, uring_works};
use skyhaul_io::memory::{Pool, PoolOptions};

use super::*;

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

/// Byte `at` of chunk `number` of a stream.
fn byte(stream: u32, number: u32, at: usize) -> u8 {
    let word = (at as u64 / 8 + 1)
        .wrapping_mul(u64::from(number * 3 + stream + 1))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.to_le_bytes()[at % 8]
}

fn expected(stream: u32, number: u32, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(stream, number, at)).collect()
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
fn a_disk_that_breaks_or_fills_costs_nothing() {
    for engine in engines() {
        for (fault, state) in
            [("eio=1MB", DiskState::Failed), ("enospc=1MB", DiskState::Full), ("eio=0", DiskState::Failed)]
        {
            let world = world(3);
            let faults = vec![(1, fault.parse().unwrap())];
            let writer = Writer::create(&WriterOptions { engine, faults, ..world.options() }).unwrap();
            let stream = writer.add_datastream(&info(""));
            // How soon the disk's turn comes depends on how fast it is.
            let (mut count, mut last) = (0, 5000);
            while count < last {
                writer.submit(world.chunk(stream, count)).unwrap();
                count += 1;
                if last == 5000 && writer.status()[1].state != DiskState::Active {
                    last = count + 20;
                }
            }
            let report = writer.finish(LONG);
            assert!(report.is_whole(), "{fault}: {report:?}");
            assert_eq!(report.disks[1].state, state);
            assert!(report.disks[1].error.is_some());
            assert!(report.events.iter().any(|event| event.disk.as_ref() == Some(&world.disks[1])));
            world.assert_holds(0, 0..count);
            let check = world.check();
            assert_eq!(check.verdict, Verdict::Whole, "{fault}: {:?}", check.findings);
            assert!(
                world.open().events.iter().any(|event| event.kind.starts_with("disk_")),
                "in the index, too"
            );
        }
    }
}

#[test]
fn a_copy_is_expected_only_on_the_disk_that_was_given_up() {
    let mut world = world(3);
    let faults = vec![(1, "eio=1MB".parse().unwrap())];
    let writer = Writer::create(&WriterOptions { faults, ..world.options() }).unwrap();
    let stream = writer.add_datastream(&info(""));
    let (mut count, end) = (0, Instant::now() + LONG);
    while writer.status()[1].state == DiskState::Active && Instant::now() < end {
        writer.submit(world.chunk(stream, count)).unwrap();
        count += 1;
    }
    for number in count..count + 10 {
        writer.submit(world.chunk(stream, number)).unwrap();
    }
    let report = writer.finish(LONG);
    assert!(report.is_whole() && report.disks[1].state == DiskState::Failed, "{report:?}");
    assert_eq!((world.check().verdict, world.check().exit_code()), (Verdict::Whole, 0));

    // Mounted elsewhere, and given in another order: each is what its own index says.
    let moved = world.directory.path().join("elsewhere");
    std::fs::rename(&world.disks[1], &moved).unwrap();
    world.disks = vec![world.disks[2].clone(), moved, world.disks[0].clone()];
    let entry = |disk: usize| {
        let chunks = &world.open().datastreams[0].chunks;
        chunks.values().find(|chunk| chunk.disk == disk).unwrap().path.clone()
    };
    for (from, to, expected) in [
        (0, 1, (Verdict::Holes, 0, "written before its disk failed or hung")),
        (2, 1, (Verdict::Holes, 0, "written before its disk failed or hung")),
        (0, 2, (Verdict::Unproven, 1, "concatenated by name it would be read twice")),
        (2, 0, (Verdict::Unproven, 1, "concatenated by name it would be read twice")),
        (1, 0, (Verdict::Unproven, 1, "concatenated by name it would be read twice")),
    ] {
        let original = entry(from);
        let copy = world.disks[to].join(original.strip_prefix(&world.disks[from]).unwrap());
        std::fs::copy(&original, &copy).unwrap();
        let check = world.check();
        let found = check.findings.iter().find(|found| found.path.as_ref() == Some(&copy)).unwrap();
        let (verdict, code, text) = expected;
        assert_eq!((found.verdict, check.exit_code()), (verdict, code), "{from} to {to}: {found:?}");
        assert!(found.text.contains(text), "{from} to {to}: {found:?}");
        // A device that failed may have lost what was written last.
        let mut torn = std::fs::read(&copy).unwrap();
        let last = torn.len() - 1;
        torn[last] ^= 1;
        std::fs::write(&copy, &torn).unwrap();
        let check = world.check();
        let found = check.findings.iter().find(|found| found.path.as_ref() == Some(&copy)).unwrap();
        assert_eq!((found.verdict, check.exit_code()), (verdict, code), "{from} to {to}, torn: {found:?}");
        // Unless the chunk itself is not proven either.
        let whole = std::fs::read(&original).unwrap();
        std::fs::write(&original, &torn).unwrap();
        assert_eq!(world.check().exit_code(), 1, "{from} to {to}, both torn");
        std::fs::write(&original, whole).unwrap();
        std::fs::remove_file(copy).unwrap();
    }

    // Without its index nothing says of a disk that is mounted elsewhere which it was.
    let original = entry(0);
    let given_up = world.disks[1].clone();
    let copy = given_up.join(original.strip_prefix(&world.disks[0]).unwrap());
    std::fs::copy(&original, copy).unwrap();
    std::fs::remove_file(Label::new("exp_st_no0001").unwrap().index(&given_up)).unwrap();
    assert_eq!(world.check().exit_code(), 1);
    let back = world.directory.path().join("d1");
    std::fs::rename(given_up, &back).unwrap();
    let report = Recording::open([&world.disks[0], &back, &world.disks[2]], "exp_st_no0001").unwrap();
    let check = report.check(&CheckOptions::default()).unwrap();
    let found = check.findings.iter().find(|found| found.text.starts_with("a copy of chunk")).unwrap();
    assert_eq!(found.verdict, Verdict::Holes, "its path says it: {found:?}");
}

#[test]
fn a_slow_disk_gets_less_and_a_hanging_one_is_left() {
    for engine in engines() {
        let world = world(3);
        let faults = vec![(0, "latency=200ms".parse().unwrap())];
        let report = record(&world, &WriterOptions { engine, faults, ..world.options() }, 200);
        assert!(report.is_whole());
        assert!(report.disks[0].chunks < 40, "{:?}", report.disks);
        world.assert_holds(0, 0..200);
    }
    if uring_works() {
        let world = world(2);
        let faults = vec![(0, "latency=100s".parse().unwrap())];
        let stall = Duration::from_millis(300);
        let begun = Instant::now();
        let report = record(&world, &WriterOptions { faults, stall, ..world.options() }, 40);
        assert!(report.is_whole(), "{report:?}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(report.disks[0].state, DiskState::Stalled);
        world.assert_holds(0, 0..40);
    }
}

#[test]
fn a_directory_removed_in_mid_scan_loses_only_what_was_in_it() {
    for engine in engines() {
        let world = world(2);
        let writer = Writer::create(&WriterOptions { engine, ..world.options() }).unwrap();
        let stream = writer.add_datastream(&info(""));
        for number in 0..60 {
            if number == 20 {
                // Everything so far is acknowledged: what is removed with it is the remover's loss.
                while writer.report().datastreams[0].acknowledged < 20 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::fs::remove_dir_all(world.disks[0].join("exp_st_no0001")).unwrap();
            }
            writer.submit(world.chunk(stream, number)).unwrap();
        }
        let report = writer.finish(LONG);
        let stream = &report.datastreams[0];
        assert_eq!((stream.acknowledged, stream.submitted, report.is_whole()), (60, 60, false), "{stream:?}");
        assert!(stream.gone_numbers.iter().all(|&number| number < 20), "{stream:?}");
        assert_eq!(report.disks[0].state, DiskState::Failed);
        let recording = world.open();
        assert!((20..60).all(|number| recording.datastreams[0].chunks[&number].is_acknowledged()));
        let told = recording.findings.iter().find(|finding| finding.text.contains("has no index")).unwrap();
        assert_eq!(told.path.as_ref(), Some(&world.disks[0]));
    }
}

/// A bug on a disk's thread (here: in what fills holes) costs the chunk that it was working on, is named, and no more.
#[test]
fn a_disk_whose_thread_panics_is_named_and_the_others_go_on() {
    let world = world(2);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    for number in 0..40 {
        let mut chunk = world.chunk(stream, number);
        if number == 10 {
            chunk.meta.missing.push(0..1);
            chunk.finish = Some(Arc::new(|_, _, _| panic!("this filler is broken")));
        }
        // A chunk of a disk's queue may be given back by its end, and comes to another one.
        writer.submit(chunk).unwrap();
    }
    let report = writer.finish(LONG);
    assert!(!report.is_whole());
    let account = &report.datastreams[0];
    assert_eq!((account.acknowledged, &account.lost_numbers[..]), (39, &[10][..]), "{account:?}");
    let failed: Vec<_> = report.disks.iter().filter(|disk| disk.state == DiskState::Failed).collect();
    assert_eq!(failed.len(), 1);
    let error = failed[0].error.as_deref().unwrap();
    assert_eq!(error, "a bug: its thread panicked: this filler is broken");
    assert!(report.events.iter().any(|e| e.kind == "disk_failed" && e.text == error), "{:?}", report.events);
    assert_eq!(world.pool.free(), world.pool.blocks(), "all memory came back");
    assert_eq!(world.check().datastreams[0].proven, 39);
}

#[test]
fn without_any_disk_chunks_are_lost_loudly_and_nothing_blocks() {
    for engine in engines() {
        let world = world(2);
        let faults = vec![(0, "eio=300kB".parse().unwrap()), (1, "enospc=300kB".parse().unwrap())];
        let writer = Writer::create(&WriterOptions { engine, faults, ..world.options() }).unwrap();
        let stream = writer.add_datastream(&info(""));
        let mut refused = 0;
        for number in 0..50 {
            if let Err(error) = writer.submit(world.chunk(stream, number)) {
                assert_eq!((error.reason, error.chunk.number), (Refusal::NoDisk, number));
                refused += 1;
            }
        }
        let report = writer.finish(LONG);
        let stream = &report.datastreams[0];
        assert_eq!(stream.acknowledged + stream.lost, 50, "{stream:?}");
        assert!(stream.lost >= refused && refused > 30 && stream.acknowledged >= 2);
        let check = world.check();
        assert_eq!((check.verdict, check.exit_code()), (Verdict::Damaged, 1));
        assert_eq!(check.datastreams[0].proven, stream.acknowledged);
        assert_eq!(world.pool.free(), world.pool.blocks());
    }
}

#[test]
fn what_is_not_durable_at_the_deadline_is_named() {
    for engine in engines() {
        let world = world(1);
        let faults = vec![(0, "latency=700ms".parse().unwrap())];
        let writer = Writer::create(&WriterOptions { engine, faults, ..world.options() }).unwrap();
        let stream = writer.add_datastream(&info(""));
        for number in 0..14 {
            writer.submit(world.chunk(stream, number)).unwrap();
        }
        let begun = Instant::now();
        let report = writer.finish(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(8));
        let stream = &report.datastreams[0];
        assert_eq!(stream.acknowledged + stream.unacknowledged.len() as u64, 14);
        assert!(!report.is_whole());
        let check = world.check();
        assert_eq!((check.verdict, check.datastreams[0].proven), (Verdict::Damaged, stream.acknowledged));
        assert!(world.open().datastreams[0].partial.is_empty(), "no half file stays behind");
    }
}

#[test]
fn many_slow_streams_share_the_disks() {
    let world = world(4);
    let writer = Writer::create(&world.options()).unwrap();
    let streams: Vec<DatastreamId> = (0..128)
        .map(|n| writer.add_datastream(&info(&if n == 0 { String::new() } else { format!("_ds{n}") })))
        .collect();
    for number in 0..3 {
        for &stream in &streams {
            writer.submit(world.chunk(stream, number)).unwrap();
        }
    }
    let report = writer.finish(LONG);
    assert!(report.is_whole());
    let check = world.check();
    assert_eq!((check.verdict, check.datastreams.len()), (Verdict::Whole, 128));
    assert!(check.datastreams.iter().all(|stream| stream.proven == 3));
    assert_eq!(ls(&world.disks).len(), 1);
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

#[test]
fn check_finds_what_changed() {
    let world = world(2);
    assert!(record(&world, &world.options(), 30).is_whole());
    let path = |number| world.open().datastreams[0].chunks[&number].path.clone();
    let (flipped, cut, gone) = (path(3), path(7), path(11));
    let mut bytes = std::fs::read(&flipped).unwrap();
    bytes[CHUNK / 2] ^= 4;
    std::fs::write(&flipped, bytes).unwrap();
    std::fs::File::options().write(true).open(cut).unwrap().set_len(1234).unwrap();
    std::fs::remove_file(gone).unwrap();
    let check = world.check();
    assert_eq!((check.verdict, check.exit_code()), (Verdict::Damaged, 1));
    assert_eq!((&check.datastreams[0].damaged[..], check.datastreams[0].proven), (&[3, 7, 11][..], 27));
    let mut reader = world.open().reader(0, &ReadOptions::default()).unwrap();
    let mut sink = Vec::new();
    let error = reader.read_to_end(&mut sink).unwrap_err();
    assert!(error.to_string().contains("chunk 3 (") && error.to_string().contains("CRC-32C"), "{error}");
    // Nothing of a chunk goes out before it is proven.
    assert!(sink == (0..3).flat_map(|n| expected(0, n, CHUNK)).collect::<Vec<u8>>());
}

#[test]
fn what_somebody_removed_while_it_was_recorded_is_missed_at_the_end() {
    for engine in engines() {
        let world = world(2);
        let writer = Writer::create(&WriterOptions { engine, ..world.options() }).unwrap();
        let stream = writer.add_datastream(&info(""));
        (0..20).for_each(|number| writer.submit(world.chunk(stream, number)).unwrap());
        let end = Instant::now() + LONG;
        while writer.report().datastreams[0].acknowledged < 20 {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
        // One disk loses the whole scan, index and all.
        let removed = world.disks[1].join("exp_st_no0001");
        let there = std::fs::read_dir(&removed).unwrap().flatten();
        let gone = there.filter(|e| !e.file_name().to_string_lossy().ends_with("index")).count() as u64;
        std::fs::remove_dir_all(&removed).unwrap();
        let report = writer.finish(LONG);
        let stream = &report.datastreams[0];
        assert_eq!((stream.acknowledged, stream.lost, stream.gone), (20, 0, gone), "{report:?}");
        assert!(gone > 0 && !report.is_whole());
        let told = report.events.iter().find(|event| event.kind == "chunks_gone").unwrap();
        assert_eq!(told.disk.as_ref(), Some(&world.disks[1]));
        let named = format!(
            "{gone} acknowledged chunks of exp_st_no0001 are no longer on {}: ",
            world.disks[1].display()
        );
        assert!(told.text.starts_with(&named), "{}", told.text);
        assert_eq!(stream.gone_numbers.len() as u64, gone);
        // The index that is left says so, too.
        let check = world.check();
        assert_eq!(check.exit_code(), 1, "{:?}", check.findings);
    }
}

#[test]
fn time_that_does_not_go_on_is_found() {
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    for number in [0, 1, 4] {
        // Chunk 2 of the file sequence holds object 4: two objects between them never came.
        let chunk = world.chunk(stream, number);
        writer.submit(Chunk { number: number.min(2), ..chunk }).unwrap();
    }
    assert!(writer.finish(LONG).is_whole());
    let check = world.check();
    let stream = &check.datastreams[0];
    assert_eq!((check.verdict, stream.time_breaks, stream.missing_between), (Verdict::Holes, 1, 240));
}

#[test]
fn plain_flexbuff_scans_are_read_and_adopted() {
    let world = world(2);
    for number in 0..6 {
        let disk = world.disks[number as usize % 2].join("exp_st_no0001");
        std::fs::create_dir_all(&disk).unwrap();
        std::fs::write(disk.join(format!("exp_st_no0001.{number:08}")), expected(0, number, CHUNK)).unwrap();
    }
    let recording = world.open();
    assert_eq!((recording.state, recording.datastreams[0].chunks.len()), (State::Unindexed, 6));
    // Nobody knows what these bytes are: nothing proves them, and they are given only as they lie.
    let mut bytes = Vec::new();
    let as_it_lies = ReadOptions { verify: false, missing: Missing::Skip, ..ReadOptions::default() };
    let mut reader = recording.reader(0, &as_it_lies).unwrap();
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes == (0..6).flat_map(|n| expected(0, n, CHUNK)).collect::<Vec<u8>>());
    assert_eq!(reader.gaps().len(), 7, "each chunk, and the open end: {:?}", reader.gaps());
    assert_eq!(world.check().verdict, Verdict::Unproven);
    assert_eq!(ls(&world.disks)[0].unacknowledged, 6);
    assert_eq!(repair(&recording).unwrap(), Repaired { adopted: 6, refused: Vec::new(), closed: true });
    let check = world.check();
    assert_eq!((check.verdict, check.datastreams[0].proven), (Verdict::Whole, 6), "{:?}", check.findings);
    world.assert_holds(0, 0..6);
    assert_eq!(repair(&world.open()).unwrap(), Repaired::default());
}

#[test]
fn frames_are_looked_into() {
    struct Odd;
    impl FrameReader for Odd {
        fn see(&mut self, frame: &[u8]) -> FrameSeen {
            assert_eq!(frame.len(), UNIT);
            FrameSeen {
                illegal: (frame[0] == 0xee).then_some("no sync"),
                filled: frame[0] == 0xff,
                time: None,
            }
        }
    }
    let world = world(1);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    let mut chunk = world.chunk(stream, 0);
    (0..UNITS).for_each(|unit| chunk.block.place(unit * UNIT, &[if unit < 3 { 0xee } else { 0xff }]));
    writer.submit(chunk).unwrap();
    assert!(writer.finish(LONG).is_whole());
    let frames = |_: &Datastream| Some(Box::new(Odd) as Box<dyn FrameReader>);
    let options = CheckOptions { frames: Some(&frames), progress: None };
    let check = world.open().check(&options).unwrap();
    let stream = &check.datastreams[0];
    assert_eq!((stream.frames_seen, stream.illegal_frames, stream.filled_frames), (120, 3, 117));
    assert_eq!(check.verdict, Verdict::Damaged);
}

#[test]
fn followers_get_everything_in_order_and_from_memory_where_it_still_is() {
    let world = world(2);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    writer.submit(world.chunk(stream, 0)).unwrap();
    while writer.report().datastreams[0].acknowledged < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let recording = world.open();
    assert_eq!(recording.state, State::Live);
    let reading = std::thread::spawn(move || {
        let options = ReadOptions { follow: true, ..ReadOptions::default() };
        let mut reader = recording.reader(0, &options).unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        (bytes, reader.chunks_from_memory())
    });
    for number in 1..50 {
        writer.submit(world.chunk(stream, number)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(writer.finish(LONG).is_whole());
    let (bytes, from_memory) = reading.join().unwrap();
    let wanted: Vec<u8> = (0..50).flat_map(|n| expected(0, n, CHUNK)).collect();
    assert!(bytes == wanted);
    assert!(from_memory > 0, "none of 50 chunks came from memory");
}

fn mount(directory: &Path, size: &str) -> bool {
    let mut command = std::process::Command::new("mount");
    command.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(directory).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A real disk that somebody else fills up in mid-scan. Needs the right to mount, and says nothing without.
#[test]
fn a_real_full_disk_costs_nothing() {
    let world = world(2);
    if !mount(&world.disks[0], "size=4m") {
        return;
    }
    let mounted = mount(&world.disks[1], "size=64m");
    let result = std::panic::catch_unwind(|| {
        assert!(mounted);
        for engine in engines() {
            let scan = format!("full_{engine:?}");
            let writer = Writer::create(&WriterOptions { engine, scan, ..world.options() }).unwrap();
            let stream = writer.add_datastream(&info(""));
            writer.submit(world.chunk(stream, 0)).unwrap();
            // The kernel gives what there is and then says ENOSPC.
            let other = world.disks[0].join("other");
            assert!(std::fs::write(&other, vec![1; 5 << 20]).is_err());
            // Either a write finds out or the look at free space, whichever comes first.
            let mut count = 1;
            while count < 30 || (writer.status()[0].state == DiskState::Active && count < 400) {
                writer.submit(world.chunk(stream, count)).unwrap();
                count += 1;
            }
            let report = writer.finish(LONG);
            std::fs::remove_file(other).unwrap();
            assert!(report.is_whole(), "{report:?}");
            assert_eq!(report.disks[0].state, DiskState::Full, "{report:?}");
            let recording = Recording::open(&world.disks, &report.scan).unwrap();
            let check = recording.check(&CheckOptions::default()).unwrap();
            assert_eq!(check.verdict, Verdict::Whole, "{:?}", check.findings);
            for disk in &world.disks {
                std::fs::remove_dir_all(disk.join(&report.scan)).unwrap();
            }
        }
    });
    for disk in &world.disks {
        let _ = std::process::Command::new("umount").arg(disk).stderr(std::process::Stdio::null()).status();
    }
    drop(world.directory);
    result.unwrap();
}

const CHILD: &str = "SKYHAUL_TEST_RECORD_TO";

/// The victim of the next test: records until it is killed, and says what is acknowledged.
#[test]
fn child_that_records() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let disks: Vec<PathBuf> = (0..2).map(|n| Path::new(&directory).join(format!("d{n}"))).collect();
    let options = PoolOptions { total_bytes: 16 << 17, block_bytes: 1 << 17, shared: false };
    let world = World {
        directory: tempfile::tempdir_in(&directory).unwrap(),
        disks,
        pool: Pool::new(&options).unwrap(),
    };
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    for number in 0..20_000 {
        writer.submit(world.chunk(stream, number)).unwrap();
        let acknowledged = writer.report().datastreams[0].acknowledged;
        std::fs::write(Path::new(&directory).join("told"), acknowledged.to_string()).unwrap();
    }
}

#[test]
fn a_killed_recorder_loses_nothing_that_it_acknowledged() {
    let mut most = 0;
    for round in 0..10 {
        let world = world(2);
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "recording::tests::child_that_records", "--nocapture"])
            .env(CHILD, world.directory.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(60 + round * 37));
        // The system's own kill -9.
        child.kill().unwrap();
        child.wait().unwrap();
        let told = std::fs::read_to_string(world.directory.path().join("told")).unwrap_or_default();
        let told: usize = told.parse().unwrap_or_default();
        let Ok(mut recording) = Recording::open(&world.disks, "exp_st_no0001") else { continue };
        // The kernel ends a dead process's ring, and with it the lock, in its own time.
        let end = Instant::now() + LONG;
        while recording.state == State::Live && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            recording = world.open();
        }
        assert_eq!(recording.state, State::Interrupted);
        let Some(stream) = recording.datastreams.first() else { continue };
        let acknowledged = stream.chunks.values().filter(|chunk| chunk.is_acknowledged());
        let mut count = 0;
        for chunk in acknowledged {
            assert!(std::fs::read(&chunk.path).unwrap() == expected(0, chunk.number, CHUNK), "{chunk:?}");
            count += 1;
        }
        assert!(count >= told, "{told} chunks were acknowledged, {count} are there");
        let check = recording.check(&CheckOptions::default()).unwrap();
        assert!(check.datastreams[0].damaged.is_empty(), "{:?}", check.findings);
        assert_eq!(check.datastreams[0].proven as usize, count);
        // Whatever has a chunk's name was completely written.
        for chunk in stream.chunks.values() {
            assert_eq!(chunk.bytes, Some(CHUNK as u64));
        }
        repair(&recording).unwrap();
        assert!(world.check().datastreams[0].unacknowledged.is_empty());
        most = most.max(count);
    }
    assert!(most > 0, "no round got as far as a chunk");
}
