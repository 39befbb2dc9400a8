//! Copies of each chunk on several disks: written, counted, and read when one of them is not there.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Disks, and memory for all chunks of a test: no copy has to give way to data.
pub(super) fn roomy(disks: usize) -> World {
    let options = PoolOptions { total_bytes: 128 << 17, block_bytes: 1 << 17, shared: true };
    World { pool: Pool::new(&options).unwrap(), ..world(disks) }
}

impl World {
    pub(super) fn copied(&self, copies: u32) -> WriterOptions {
        WriterOptions { copies, ..self.options() }
    }

    /// The disks that have each chunk, with its record.
    pub(super) fn recorded(&self) -> BTreeMap<u32, BTreeSet<usize>> {
        let mut all: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (at, disk) in self.disks.iter().enumerate() {
            let Ok(mut reader) = IndexReader::open(&disk.join("exp_st_no0001/exp_st_no0001.index")) else {
                continue;
            };
            let take = |record| {
                // A record whose sync failed may be there, without the file.
                let path = |number| disk.join(format!("exp_st_no0001/exp_st_no0001.{number:08}"));
                if let Record::Chunk(chunk) = record
                    && path(chunk.number).exists()
                {
                    assert!(all.entry(chunk.number).or_default().insert(at), "twice on disk {at}: {chunk:?}");
                }
            };
            reader.read(take).unwrap();
        }
        all
    }

    /// The stream is exactly chunks `numbers`; how many of them were read from another copy than the first.
    pub(super) fn holds(&self, numbers: Range<u32>) -> u64 {
        let (mut bytes, open) = (Vec::new(), self.open());
        let mut reader = open.reader(0, &ReadOptions::default()).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        let wanted: Vec<u8> = numbers.clone().flat_map(|n| expected(0, n, CHUNK)).collect();
        assert!(bytes == wanted, "bytes differ: {} and {}", bytes.len(), wanted.len());
        let account = reader.account();
        assert!(account.gaps_from(0).is_empty());
        // Readers that begin anywhere, too.
        let mut ranges = open.range_reader(0, 1).unwrap();
        let mut again = Vec::new();
        while let Some(piece) = ranges.next_piece().unwrap() {
            again.extend_from_slice(&piece);
        }
        assert!(again == wanted, "ranges differ");
        let pieces = Pieces::<()>::of_recording(&open, 0);
        for (piece, number) in pieces.all().iter().zip(numbers) {
            let mut bytes = vec![0; CHUNK];
            let opened = pieces.open(piece, true).unwrap_or_else(|| panic!("{:?}", pieces.gaps()));
            assert_eq!(opened.read(0, &mut bytes).unwrap(), CHUNK);
            assert!(bytes == expected(0, number, CHUNK), "chunk {number} differs");
        }
        account.from_other_copies()
    }
}

pub(super) fn of(report: &RecordingReport) -> CopyCounts {
    assert_eq!(report.imbalance(), Vec::<String>::new());
    report.datastreams[0].redundancy.clone().unwrap()
}

pub(super) fn checked(check: &CheckReport) -> CopyCounts {
    assert_eq!(check.unbalanced, Vec::<String>::new());
    check.datastreams[0].redundancy.clone().unwrap()
}

#[test]
fn each_chunk_is_on_as_many_disks_as_were_asked_for_and_any_disk_may_go() {
    for engine in engines() {
        for sync in [SyncPolicy::Chunk, SyncPolicy::Interval(Duration::from_millis(50)), SyncPolicy::None] {
            let world = roomy(3);
            let report = record(&world, &WriterOptions { engine, sync, ..world.copied(2) }, 40);
            assert!(report.is_whole(), "{report:?}");
            let counts = of(&report);
            assert_eq!((counts.chunks_with_all_copies, counts.copies), (40, 80), "{counts:?}");
            assert_eq!(counts.copy_bytes, 80 * CHUNK as u64);
            // Each chunk of the stream is one of the report, however many copies it has.
            assert_eq!(
                (report.datastreams[0].acknowledged, report.acknowledged_bytes()),
                (40, (40 * CHUNK) as u64)
            );
            let on_disks: u64 = report.disks.iter().map(|disk| disk.acknowledged_bytes).sum();
            assert_eq!(on_disks, counts.copy_bytes);
            assert_eq!(world.pool.free(), world.pool.blocks());
            let recorded = world.recorded();
            assert!(recorded.len() == 40 && recorded.values().all(|disks| disks.len() == 2), "{recorded:?}");
            assert_eq!(world.holds(0..40), 0);
            let check = world.check();
            assert_eq!((check.verdict, check.exit_code()), (Verdict::Whole, 0), "{:?}", check.findings);
            assert!(check.findings.is_empty(), "{:?}", check.findings);
            assert_eq!(checked(&check), counts);
            let list = &ls(&world.disks)[0];
            assert_eq!((list.copies, list.chunks, list.bytes), (2, 40, (40 * CHUNK) as u64));
            assert!(list.disk_bytes == 2 * list.bytes && list.looks_whole(), "{list:?}");

            for disk in 0..3 {
                let (path, away) = (&world.disks[disk], world.directory.path().join("away"));
                std::fs::rename(path, &away).unwrap();
                std::fs::create_dir(path).unwrap();
                let was_on: Vec<u32> =
                    recorded.iter().filter(|(_, on)| on.contains(&disk)).map(|(&n, _)| n).collect();
                world.holds(0..40);
                let check = world.check();
                assert_eq!(
                    (check.verdict, check.exit_code()),
                    (Verdict::FewerCopies, 1),
                    "{:?}",
                    check.findings
                );
                let counts = checked(&check);
                assert_eq!(
                    (counts.chunks_with_fewer_copies, counts.fewer_numbers),
                    (was_on.len() as u64, was_on.clone())
                );
                assert_eq!(check.datastreams[0].proven, 40);
                let list = &ls(&world.disks)[0];
                assert!(!list.looks_whole() && list.missing == 0, "{list:?}");
                // Not given at all: what is not here is known from the others.
                let others = world.disks.iter().filter(|other| *other != path);
                let open = Recording::open(others, "exp_st_no0001").unwrap();
                let check = open.check(&CheckOptions::default()).unwrap();
                assert_eq!(check.verdict, Verdict::FewerCopies, "{:?}", check.findings);
                assert_eq!(checked(&check).fewer_numbers, was_on);
                std::fs::remove_dir(path).unwrap();
                std::fs::rename(&away, path).unwrap();
            }
            // Without two of them, data are missing, and that is said.
            let open = Recording::open([&world.disks[1]], "exp_st_no0001").unwrap();
            let check = open.check(&CheckOptions::default()).unwrap();
            assert_eq!(check.verdict, Verdict::Unproven, "{:?}", check.findings);
        }
    }
}

#[test]
fn one_copy_is_written_and_said_as_ever() {
    let world = roomy(2);
    let report = record(&world, &world.options(), 10);
    assert!(report.is_whole() && report.datastreams[0].redundancy.is_none());
    assert!(world.recorded().values().all(|disks| disks.len() == 1));
    let index = std::fs::read_to_string(world.disks[0].join("exp_st_no0001/exp_st_no0001.index")).unwrap();
    assert!(!index.contains("copies") && !index.contains("redundancy"), "{index}");
    assert!(world.check().datastreams[0].redundancy.is_none());
}

#[test]
fn a_copy_that_is_damaged_or_gone_is_named_and_the_other_is_read() {
    let world = roomy(3);
    assert!(record(&world, &world.copied(2), 12).is_whole());
    let recorded = world.recorded();
    let path = |number: u32, copy: usize| {
        let disk = *recorded[&number].iter().nth(copy).unwrap();
        world.disks[disk].join(format!("exp_st_no0001/exp_st_no0001.{number:08}"))
    };
    let damage = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[CHUNK / 2] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    damage(&path(3, 0));
    damage(&path(4, 1));
    std::fs::remove_file(path(5, 0)).unwrap();
    std::fs::File::options().write(true).open(path(6, 0)).unwrap().set_len(100).unwrap();
    // A directory has no bytes to read: as a disk that gives errors.
    std::fs::remove_file(path(7, 0)).unwrap();
    std::fs::create_dir(path(7, 0)).unwrap();
    // Of 5, 6 and 7 the names and lengths say already which copy to read.
    assert_eq!(world.holds(0..12), 1);
    let check = world.check();
    assert_eq!((check.verdict, check.exit_code()), (Verdict::FewerCopies, 1), "{:?}", check.findings);
    let counts = checked(&check);
    assert_eq!(counts.fewer_numbers, [3, 4, 5, 6, 7]);
    assert_eq!((counts.chunks_with_all_copies, counts.copies), (7, 19));
    assert!(check.datastreams[0].damaged.is_empty() && check.datastreams[0].proven == 12);
    for path in [path(3, 0), path(4, 1), path(5, 0), path(6, 0), path(7, 0)] {
        let named = check.findings.iter().find(|found| found.path.as_ref() == Some(&path));
        assert_eq!(named.unwrap_or_else(|| panic!("{path:?}")).verdict, Verdict::FewerCopies);
    }

    damage(&path(3, 1));
    let check = world.check();
    assert_eq!((check.verdict, &check.datastreams[0].damaged[..]), (Verdict::Damaged, &[3][..]));
    assert_eq!(checked(&check).fewer_numbers, [4, 5, 6, 7]);
    let mut reader =
        world.open().reader(0, &ReadOptions { missing: Missing::Skip, ..ReadOptions::default() }).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes.len(), reader.gaps().len()), (11 * CHUNK, 1));
}

/// With a disk less than copies, chunks have fewer, and nothing is lost; with enough of them, they have all.
#[test]
fn a_disk_that_fails_or_fills_in_mid_scan_loses_nothing() {
    for engine in engines() {
        for (fault, disks) in
            [("eio=1MB", 3), ("eio=1MB", 2), ("enospc=1MB", 3), ("enospc=1MB", 2), ("esync=3", 2)]
        {
            let world = roomy(disks);
            let faults = vec![(1, fault.parse().unwrap())];
            let report = record(&world, &WriterOptions { engine, faults, ..world.copied(2) }, 60);
            assert!(report.is_whole() && report.datastreams[0].lost == 0, "{fault}: {report:?}");
            let counts = of(&report);
            assert_eq!(counts.chunks_being_copied, 0);
            let fewer = counts.chunks_with_fewer_copies;
            // A sync fails once: what the disk was given before is written to its end.
            let least = if fault.starts_with("esync") { 0 } else { 10 };
            assert!(if disks == 3 { fewer == 0 } else { fewer > least }, "{fault}, {disks}: {counts:?}");
            let told = report.events.iter().filter(|event| event.kind == "copies_reduced").count();
            assert_eq!(told, usize::from(disks == 2), "{:?}", report.events);
            assert_eq!(world.pool.free(), world.pool.blocks());
            world.holds(0..60);
            let check = world.check();
            let verdict = if disks == 3 { Verdict::Whole } else { Verdict::FewerCopies };
            assert_eq!(check.verdict, verdict, "{fault}, {disks}: {:?}", check.findings);
            assert_eq!(checked(&check).fewer_numbers, counts.fewer_numbers);
        }
    }
}

/// Property: whatever the disks do, no disk gets two copies of a chunk, and what the recorder counts is on the disks.
#[test]
fn the_recorders_counts_are_what_is_on_the_disks() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..24 {
        let disks = 2 + next(4) as usize;
        let copies = 2 + next(disks as u64 - 1) as u32;
        let mut faults = Vec::new();
        // One at least is sound.
        for disk in 1..disks {
            let spec = match next(5) {
                0 => format!("eio={}", next(40) * 60_000),
                1 => format!("enospc={}", next(40) * 60_000),
                2 => format!("latency={}ms", 1 + next(60)),
                3 => format!("esync={}", 1 + next(12)),
                _ => continue,
            };
            faults.push((disk, spec.parse().unwrap()));
        }
        let world = roomy(disks);
        let what = format!("round {round}: {copies} of {disks}, {faults:?}");
        let report = record(&world, &WriterOptions { faults, ..world.copied(copies) }, 30);
        assert!(report.is_whole(), "{what}: {report:?}");
        assert_eq!(world.pool.free(), world.pool.blocks(), "{what}");
        let counts = of(&report);
        let on = world.recorded();
        let fewer: Vec<u32> =
            on.iter().filter(|(_, disks)| disks.len() < copies as usize).map(|(&number, _)| number).collect();
        assert_eq!((on.len(), &counts.fewer_numbers), (30, &fewer), "{what}");
        world.holds(0..30);
        let check = world.check();
        assert_eq!(checked(&check).fewer_numbers, fewer, "{what}: {:?}", check.findings);
        let verdict = if fewer.is_empty() { Verdict::Whole } else { Verdict::FewerCopies };
        assert!(check.verdict == verdict || check.verdict == Verdict::Holes, "{what}: {:?}", check.findings);
    }
}

/// Copies for a disk that is far too slow, or hangs, give way to data: the memory comes back.
#[test]
fn copies_give_way_to_data_when_memory_is_short() {
    for fault in ["latency=450ms", "latency=100s"] {
        if !uring_works() {
            continue;
        }
        let fault = fault.parse().unwrap();
        let world = world(2);
        let stall = Duration::from_millis(500);
        // The sound disk is as fast as it can be.
        let sync = SyncPolicy::None;
        let options = WriterOptions { faults: vec![(1, fault)], stall, sync, ..world.copied(2) };
        let writer = Writer::create(&options).unwrap();
        let stream = writer.add_datastream(&info(""));
        for number in 0..150 {
            writer.submit(world.chunk(stream, number)).unwrap();
            // As fast as the sound disk takes them, and no slower.
            std::thread::sleep(Duration::from_millis(2));
        }
        let report = writer.finish(Duration::from_secs(5));
        assert!(report.is_whole(), "{report:?}");
        let counts = of(&report);
        assert!(counts.chunks_with_fewer_copies > 50, "{counts:?}");
        assert!(report.events.iter().any(|event| event.kind == "copies_reduced"), "{:?}", report.events);
        world.holds(0..150);
    }
}

#[test]
fn copies_need_as_many_disks() {
    let world = world(2);
    for (copies, said) in
        [(3, "3 copies of each chunk need 3 disks, and 2 are given"), (0, "1 to 16"), (17, "1 to 16")]
    {
        let error = Writer::create(&world.copied(copies)).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("; hint: "), "{error}");
    }
    assert!(world.disks.iter().all(|disk| std::fs::read_dir(disk).unwrap().count() == 0));
    let disks = (0..65).map(|n| world.disks[0].join(format!("{n}"))).collect();
    let error = Writer::create(&WriterOptions { disks, ..world.copied(2) }).unwrap_err().to_string();
    assert!(error.starts_with("2 copies of each chunk on 65 disks; hint: name at most 64"), "{error}");
}

/// A copy that is removed while the scan is recorded is not counted as one at the end.
#[test]
fn copies_that_are_gone_at_the_end_are_counted() {
    let world = roomy(2);
    let writer = Writer::create(&world.copied(2)).unwrap();
    let stream = writer.add_datastream(&info(""));
    (0..8).for_each(|number| writer.submit(world.chunk(stream, number)).unwrap());
    let end = Instant::now() + LONG;
    while writer.report().datastreams[0].redundancy.as_ref().unwrap().chunks_with_all_copies < 8 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(2));
    }
    std::fs::remove_file(world.disks[1].join("exp_st_no0001/exp_st_no0001.00000002")).unwrap();
    let report = writer.finish(LONG);
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(of(&report).fewer_numbers, [2]);
    let gone = report.events.iter().find(|event| event.kind == "copies_gone").unwrap();
    assert!(gone.text.starts_with("1 copies of chunks of exp_st_no0001 are no longer on "), "{}", gone.text);
    world.holds(0..8);
}
