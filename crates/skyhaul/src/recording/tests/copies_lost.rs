//! Copies that are lost in every way, and disks that are slow, hang together, or go away.

use super::copies::{checked, of, roomy};
use super::reads::foreign_vdif;
use super::*;
use std::collections::BTreeSet;

/// Whole numbers below a bound.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

impl World {
    fn scan(&self, disk: usize) -> PathBuf {
        self.disks[disk].join("exp_st_no0001")
    }

    fn file(&self, disk: usize, number: u32) -> PathBuf {
        self.scan(disk).join(format!("exp_st_no0001.{number:08}"))
    }

    /// Take lines out of the index of a disk: as if its recorder had not come to write them.
    fn forget(&self, disk: usize, is_forgotten: impl Fn(&Record) -> bool) {
        let path = self.scan(disk).join("exp_st_no0001.index");
        let text = std::fs::read_to_string(&path).unwrap();
        let kept = |line: &&str| Record::parse(line.as_bytes()).is_some_and(|record| !is_forgotten(&record));
        let lines: Vec<String> = text.lines().filter(kept).map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
    }

    /// What can be read of each chunk, with the numbers of gaps; the rest of the stream is left out.
    fn readable(&self) -> (Vec<u8>, BTreeSet<u32>) {
        let options = ReadOptions { missing: Missing::Skip, ..ReadOptions::default() };
        let (mut bytes, open) = (Vec::new(), self.open());
        let mut reader = open.reader(0, &options).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        let gaps = reader.gaps().into_iter().flat_map(|gap| gap.chunks.0..gap.chunks.1).collect();
        (bytes, gaps)
    }
}

fn cut(path: &Path, bytes: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn is_end(record: &Record) -> bool {
    matches!(record, Record::End(_))
}

fn is_chunk(number: u32) -> impl Fn(&Record) -> bool {
    move |record| matches!(record, Record::Chunk(chunk) if chunk.number == number)
}

/// Chunks 0 to 11, without those of `bad`.
fn without(bad: &BTreeSet<u32>, chunks: u32) -> Vec<u8> {
    (0..chunks).filter(|n| !bad.contains(n)).flat_map(|n| expected(0, n, CHUNK)).collect()
}

/// Property: whatever of the copies is damaged, cut, deleted or gone with its disk, what one good copy proves is read exactly, nothing
/// else is, and `check` counts both.
#[test]
fn what_one_good_copy_proves_is_read_and_nothing_else() {
    const CHUNKS: u32 = 12;
    let mut next = numbers(0x9e37_79b9);
    for round in 0..40 {
        let disks = 2 + next(3) as usize;
        let copies = 2 + next(disks as u64 - 1) as u32;
        let world = roomy(disks);
        assert!(record(&world, &world.copied(copies), CHUNKS).is_whole());
        let mut good = world.recorded();
        let mut what = format!("round {round}: {copies} of {disks}:");
        for disk in 0..disks {
            let lots = if round % 4 == 0 { 3 } else { 12 };
            for number in 0..CHUNKS {
                if !good[&number].contains(&disk) {
                    continue;
                }
                let path = world.file(disk, number);
                match next(lots) {
                    0 => {
                        let mut bytes = std::fs::read(&path).unwrap();
                        bytes[next(CHUNK as u64) as usize] ^= 1 << next(8);
                        std::fs::write(&path, bytes).unwrap();
                    }
                    1 => cut(&path, next(CHUNK as u64)),
                    2 => std::fs::remove_file(&path).unwrap(),
                    _ => continue,
                }
                what += &format!(" {number}@{disk}");
                good.get_mut(&number).unwrap().remove(&disk);
            }
        }
        if next(2) == 0 {
            let disk = next(disks as u64) as usize;
            let gone = [&world.disks[disk], &world.scan(disk)][next(2) as usize].clone();
            std::fs::remove_dir_all(&gone).unwrap();
            what += &format!(" without {}", gone.display());
            for on in good.values_mut() {
                on.remove(&disk);
            }
        }
        let bad: BTreeSet<u32> = good.iter().filter(|(_, on)| on.is_empty()).map(|(&n, _)| n).collect();
        let few = |on: &BTreeSet<usize>| !on.is_empty() && on.len() < copies as usize;
        let fewer: Vec<u32> = good.iter().filter(|(_, on)| few(on)).map(|(&n, _)| n).collect();

        let (bytes, gaps) = world.readable();
        assert_eq!(gaps, bad, "{what}");
        assert!(bytes == without(&bad, CHUNKS), "{what}: {} bytes", bytes.len());
        let check = world.check();
        let counts = checked(&check);
        assert_eq!(
            (check.datastreams[0].proven, &counts.fewer_numbers),
            ((12 - bad.len()) as u64, &fewer),
            "{what}"
        );
        let found = (check.verdict, check.exit_code());
        match (bad.is_empty(), fewer.is_empty()) {
            (true, true) => assert_eq!(found, (Verdict::Whole, 0), "{what}: {:?}", check.findings),
            (true, false) => assert_eq!(found, (Verdict::FewerCopies, 1), "{what}: {:?}", check.findings),
            (false, _) => assert!(found.0 >= Verdict::Unproven, "{what}: {:?}", check.findings),
        }
        if bad.is_empty() {
            world.holds(0..CHUNKS);
        }
    }
}

/// Its recorder was killed, and one of its disks is gone: what is on the others is read, and can be closed.
#[test]
fn a_killed_recording_without_one_of_its_disks_is_repaired() {
    for at in 0..3 {
        let world = roomy(3);
        assert!(record(&world, &world.copied(2), 12).is_whole());
        (0..3).for_each(|disk| world.forget(disk, is_end));
        let away =
            world.recorded().iter().filter(|(_, on)| on.contains(&at)).map(|(&n, _)| n).collect::<Vec<_>>();
        std::fs::remove_dir_all(&world.disks[at]).unwrap();
        assert_eq!((world.open().state, world.check().verdict), (State::Interrupted, Verdict::Unproven));
        let closed = Repaired { closed: true, ..Repaired::default() };
        assert_eq!(repair(&world.open()).unwrap(), closed, "{:?}", world.open().findings);
        world.holds(0..12);
        let check = world.check();
        assert_eq!(
            (check.verdict, check.state),
            (Verdict::FewerCopies, State::Ended),
            "{:?}",
            check.findings
        );
        assert_eq!(checked(&check).fewer_numbers, away);
        assert!(!world.disks[at].exists());
        // Two of them may have had all of a chunk.
        let other = (at + 1) % 3;
        world.forget((at + 2) % 3, is_end);
        std::fs::remove_dir_all(&world.disks[other]).unwrap();
        assert!(!repair(&world.open()).unwrap().closed);
    }
}

/// After a power cut, the records of some chunks are not there, and a file is shorter than its copy.
#[test]
fn the_longer_of_two_files_without_a_record_is_read_and_repaired() {
    for short in 0..2 {
        let world = roomy(2);
        assert!(record(&world, &world.copied(2), 8).is_whole());
        for disk in 0..2 {
            world.forget(disk, |record| is_end(record) || is_chunk(7)(record) || is_chunk(6)(record));
        }
        // The record of one copy alone.
        world.forget(short, is_chunk(5));
        cut(&world.file(short, 7), (CHUNK / 2) as u64);
        let entry = world.open().datastreams[0].chunks[&7].clone();
        assert_eq!((entry.disk, entry.bytes), (1 - short, Some(CHUNK as u64)));
        // Two of 6, one of 7, and that of 5.
        let repaired = repair(&world.open()).unwrap();
        assert_eq!(
            (repaired.adopted, repaired.closed),
            (4, true),
            "{repaired:?} {:?}",
            world.open().findings
        );
        world.holds(0..8);
        let check = world.check();
        assert_eq!(check.verdict, Verdict::FewerCopies, "{:?}", check.findings);
        assert_eq!(checked(&check).fewer_numbers, [7]);
        assert_eq!(repair(&world.open()).unwrap().adopted, 0);
    }
}

/// A copy that a repair gave a record while the disk with the whole one was away does not count against that.
#[test]
fn the_record_of_the_recorder_stands_against_that_of_a_repair() {
    let world = roomy(2);
    assert!(record(&world, &world.copied(2), 8).is_whole());
    world.forget(0, |record| is_end(record) || is_chunk(7)(record));
    cut(&world.file(0, 7), (CHUNK / 2) as u64);
    let away = world.directory.path().join("away");
    std::fs::rename(&world.disks[1], &away).unwrap();
    assert_eq!(repair(&world.open()).unwrap().adopted, 1);
    std::fs::rename(&away, &world.disks[1]).unwrap();
    world.holds(0..8);
    let check = world.check();
    assert_eq!(check.verdict, Verdict::FewerCopies, "{:?}", check.findings);
    assert_eq!(checked(&check).fewer_numbers, [7]);
}

/// Disks that hang at the same time, and come back: no chunk has lost the copy that waited.
#[test]
fn disks_that_hang_together_write_all_copies_when_they_are_back() {
    if !uring_works() {
        return;
    }
    let world = roomy(2);
    let slow = || "latency=1200ms".parse().unwrap();
    let stall = Duration::from_millis(300);
    let options = WriterOptions { faults: vec![(0, slow()), (1, slow())], stall, ..world.copied(2) };
    let writer = Writer::create(&options).unwrap();
    let stream = writer.add_datastream(&info(""));
    (0..40).for_each(|number| writer.submit(world.chunk(stream, number)).unwrap());
    let end = Instant::now() + LONG;
    let report = loop {
        let report = writer.report();
        let counts = report.datastreams[0].redundancy.clone().unwrap();
        if counts.chunks_with_all_copies + counts.chunks_with_fewer_copies == 40 {
            break report;
        }
        assert!(Instant::now() < end, "{counts:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(
        report.events.iter().filter(|event| event.kind == "disk_stalled").count() >= 2,
        "{:?}",
        report.events
    );
    assert_eq!(of(&report).fewer_numbers, Vec::<u32>::new());
    assert!(writer.finish(LONG).is_whole());
    world.holds(0..40);
}

/// What waits for a disk that is too slow takes no memory that a new stream or a forwarder would need.
#[test]
fn copies_take_half_of_the_memory_at_most() {
    if !uring_works() {
        return;
    }
    let world = roomy(2);
    let (fault, stall) = ("latency=100s".parse().unwrap(), Duration::from_secs(50));
    let options = WriterOptions { faults: vec![(1, fault)], stall, ..world.copied(2) };
    let writer = Writer::create(&options).unwrap();
    let stream = writer.add_datastream(&info(""));
    let mut least = usize::MAX;
    for number in 0..200 {
        let end = Instant::now() + LONG;
        writer.submit(world.chunk(stream, number)).unwrap();
        // The first copy is never behind.
        while writer.report().datastreams[0].acknowledged <= u64::from(number) {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_micros(200));
        }
        least = least.min(world.pool.free());
    }
    let blocks = world.pool.blocks();
    assert!(least + 4 >= blocks / 2, "{least} of {blocks}");
    let report = writer.finish(Duration::from_secs(3));
    assert!(of(&report).chunks_with_fewer_copies >= 100, "{:?}", of(&report));
}

/// A reader that follows the recorder knows copies that were written after it began.
#[test]
fn a_follower_reads_another_copy() {
    let world = roomy(2);
    // Nothing of it can be read from memory.
    let writer = Writer::create(&WriterOptions { pool: None, ..world.copied(2) }).unwrap();
    let stream = writer.add_datastream(&info(""));
    let copied = |chunks: u64| {
        let end = Instant::now() + LONG;
        while writer.report().datastreams[0].redundancy.as_ref().unwrap().chunks_with_all_copies < chunks {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    writer.submit(world.chunk(stream, 0)).unwrap();
    copied(1);
    let open = world.open();
    (1..10).for_each(|number| writer.submit(world.chunk(stream, number)).unwrap());
    copied(10);
    std::fs::remove_file(world.file(0, 3)).unwrap();
    std::fs::remove_file(world.file(1, 4)).unwrap();
    cut(&world.file(0, 5), 1000);
    // As one that gives errors.
    std::fs::remove_file(world.file(0, 6)).unwrap();
    std::fs::create_dir(world.file(0, 6)).unwrap();
    let options = ReadOptions { follow: true, missing: Missing::Skip, ..ReadOptions::default() };
    let mut reader = open.reader(0, &options).unwrap();
    let (mut bytes, end) = (Vec::new(), Instant::now() + LONG);
    while bytes.len() < 10 * CHUNK && reader.gaps().is_empty() && Instant::now() < end {
        if let Next::Piece(piece) = reader.next_within(Duration::from_millis(20)).unwrap() {
            bytes.extend_from_slice(piece.bytes());
        }
    }
    assert!(bytes == without(&BTreeSet::new(), 10), "{:?}", reader.gaps());
    assert_eq!((reader.gaps(), reader.account().from_other_copies()), (Vec::new(), 3));
    assert!(writer.finish(LONG).is_whole());
    assert_eq!(reader.read_to_end(&mut bytes).unwrap(), 0);
}

/// A file may be as long as its copy, or longer, and hold nothing after a power cut: its headers show that.
#[test]
fn of_files_without_a_record_one_with_valid_frames_is_read_and_repaired() {
    let world = world(2);
    let frames = |numbers: Range<u32>| numbers.flat_map(|n| foreign_vdif()(n, 0, false)).collect::<Vec<u8>>();
    for disk in 0..2 {
        std::fs::create_dir_all(world.scan(disk)).unwrap();
        let session = Session {
            index: 1,
            session: "c0ffee".into(),
            version: "test".into(),
            scan: "exp_st_no0001".into(),
            disks: world.disks.clone(),
            disk,
            started: "2026-01-01T00:00:00Z".into(),
            pid: 1,
            memory: None,
            copies: 2,
            metadata: serde_json::Value::Null,
        };
        std::fs::write(world.scan(disk).join("exp_st_no0001.index"), Record::Session(session).to_line())
            .unwrap();
        for number in 0..3 {
            std::fs::write(world.file(disk, number), frames(number * 250..(number + 1) * 250)).unwrap();
        }
    }
    let bytes = std::fs::read(world.file(0, 1)).unwrap().len();
    std::fs::write(world.file(0, 1), vec![0; bytes + 4096]).unwrap();
    let all = || {
        let options = ReadOptions { missing: Missing::Skip, ..ReadOptions::default() };
        let mut bytes = Vec::new();
        world.open().reader(0, &options).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(world.open().datastreams[0].chunks[&1].disk, 0);
    assert!(all() == frames(0..750), "{} bytes", all().len());
    let repaired = repair(&world.open()).unwrap();
    assert_eq!((repaired.adopted, repaired.refused.len(), repaired.closed), (5, 1, true), "{repaired:?}");
    assert!(all() == frames(0..750), "{} bytes", all().len());
    let check = world.check();
    assert_eq!(check.verdict, Verdict::FewerCopies, "{:?}", check.findings);
    assert_eq!(checked(&check).fewer_numbers, [1]);
}
