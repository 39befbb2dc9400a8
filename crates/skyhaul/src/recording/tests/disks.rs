//! Disks that fail (also at a sync), fill, hang or vanish, many streams on few disks, and a recorder that is killed.

use super::verify::repair::repair_on;
use super::*;
use skyhaul_io::disk::{FailingDisk, Faults};

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
    let faults = vec![(1, "eio=4MB".parse().unwrap())];
    let writer = Writer::create(&WriterOptions { faults, ..world.options() }).unwrap();
    let stream = writer.add_datastream(&info(""));
    let (mut count, end) = (0, Instant::now() + LONG);
    while writer.status()[1].state == DiskState::Active && Instant::now() < end {
        writer.submit(world.chunk(stream, count)).unwrap();
        count += 1;
    }
    // On a busy machine one of the others may seem slow, and get nothing for a while.
    let written = |disk: usize| writer.status()[disk].acknowledged_bytes > 0;
    while !(written(0) && written(2)) && Instant::now() < end {
        writer.submit(world.chunk(stream, count)).unwrap();
        count += 1;
    }
    let report = writer.finish(LONG);
    assert!(report.is_whole() && report.disks[1].state == DiskState::Failed, "{report:?}");
    assert_eq!((world.check().verdict, world.check().exit_code()), (Verdict::Whole, 0));

    // Mounted elsewhere, and given in another order: each is what its own index says.
    let moved = world.directory.path().join("elsewhere");
    std::fs::rename(&world.disks[1], &moved).unwrap();
    world.disks = vec![world.disks[2].clone(), moved, world.disks[0].clone()];
    let place = |path: &Path, from: usize, to: usize| {
        world.disks[to].join(path.strip_prefix(&world.disks[from]).unwrap())
    };
    // Not one that another disk was given as well while its own seemed to hang.
    let entry = |from: usize, to: usize| {
        let open = world.open();
        let mut of_disk = open.datastreams[0].chunks.values().filter(|chunk| chunk.disk == from);
        of_disk.find(|chunk| !place(&chunk.path, from, to).exists()).unwrap().path.clone()
    };
    for (from, to, expected) in [
        (0, 1, (Verdict::Holes, 0, "written before its disk failed or hung")),
        (2, 1, (Verdict::Holes, 0, "written before its disk failed or hung")),
        (0, 2, (Verdict::Unproven, 1, "concatenation by name would read it twice")),
        (2, 0, (Verdict::Unproven, 1, "concatenation by name would read it twice")),
        (1, 0, (Verdict::Unproven, 1, "concatenation by name would read it twice")),
    ] {
        let original = entry(from, to);
        let copy = place(&original, from, to);
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
    let original = entry(0, 1);
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

/// Submits chunks from `from` on until `is_enough`; returns the number of the next one.
fn submit_until(
    world: &World,
    writer: &Writer,
    (stream, from): (DatastreamId, u32),
    is_enough: impl Fn(&[DiskStatus]) -> bool,
) -> u32 {
    let (mut count, end) = (from, Instant::now() + LONG);
    while !is_enough(&writer.status()) {
        writer.submit(world.chunk(stream, count)).unwrap();
        count += 1;
        assert!(Instant::now() < end, "{:?}", writer.status());
    }
    count
}

/// Whether the disks' events of this kind name a disk.
fn is_told(report: &RecordingReport, kind: &str, disk: &Path) -> bool {
    report.events.iter().any(|event| event.kind == kind && event.disk.as_deref() == Some(disk))
}

#[test]
fn a_disk_that_hangs_when_a_scan_begins_joins_when_it_responds() {
    let world = world(3);
    let faults = vec![(1, "open=5s".parse().unwrap())];
    let writer = Writer::create(&WriterOptions { faults, ..world.options() }).unwrap();
    let stream = writer.add_datastream(&info(""));
    assert_eq!(writer.status()[1].state, DiskState::Stalled, "the scan has begun on the others");
    let written = |disks: &[DiskStatus]| disks[0].acknowledged_bytes > 0 && disks[2].acknowledged_bytes > 0;
    let count = submit_until(&world, &writer, (stream, 0), written);
    assert_eq!((writer.status()[1].chunks, writer.lost_bytes()), (0, 0));
    let end = Instant::now() + LONG;
    while writer.status()[1].state != DiskState::Active {
        assert!(Instant::now() < end, "{:?}", writer.status());
        std::thread::sleep(Duration::from_millis(20));
    }
    let count = submit_until(&world, &writer, (stream, count), |disks| disks[1].acknowledged_bytes > 0);
    let report = writer.finish(LONG);
    assert!(report.is_whole(), "{report:?}");
    assert!(is_told(&report, "disk_stalled", &world.disks[1]), "{:?}", report.events);
    assert!(is_told(&report, "disk_resumed", &world.disks[1]), "{:?}", report.events);
    assert!(!is_told(&report, "disk_full", &world.disks[1]), "{:?}", report.events);
    world.assert_holds(0, 0..count);
    let check = world.check();
    assert_eq!((check.verdict, check.findings.len()), (Verdict::Whole, 0), "{:?}", check.findings);
}

#[test]
fn a_disk_that_responds_after_the_end_of_a_scan_keeps_nothing_of_it() {
    let world = world(2);
    let faults = vec![(1, "open=4s".parse().unwrap())];
    let report = record(&world, &WriterOptions { faults, ..world.options() }, 20);
    assert!(report.is_whole(), "{report:?}");
    let failed = &report.disks[1];
    assert_eq!((failed.state, failed.chunks), (DiskState::Failed, 0), "{failed:?}");
    assert!(failed.error.as_ref().is_some_and(|error| error.contains("did not respond")), "{failed:?}");
    assert!(is_told(&report, "disk_failed", &world.disks[1]), "{:?}", report.events);
    let (scan, end) = (world.disks[1].join("exp_st_no0001"), Instant::now() + LONG);
    assert!(scan.join("exp_st_no0001.index").exists(), "it hangs while its index is made durable");
    while scan.exists() {
        assert!(Instant::now() < end, "what it had made of the scan is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Nothing is looked for on it.
    world.assert_holds(0, 0..20);
    let check = world.check();
    assert_eq!((check.verdict, check.findings.len()), (Verdict::Whole, 0), "{:?}", check.findings);
    assert!(world.open().missing_disks.is_empty());
}

#[test]
fn without_any_disk_that_responds_the_first_one_that_does_is_waited_for() {
    let world = world(2);
    let slow = || "open=3s".parse::<Faults>().unwrap();
    let faults = vec![(0, slow()), (1, slow())];
    let report = record(&world, &WriterOptions { faults, ..world.options() }, 20);
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(world.check().verdict, Verdict::Whole);
}

#[test]
fn a_disk_that_fails_is_a_reason_not_to_begin_where_all_are_needed() {
    let world = world(2);
    let disks = vec![world.disks[0].clone(), world.directory.path().join("nowhere")];
    let options = WriterOptions { disks, ..world.options() };
    assert!(matches!(Writer::create(&options), Err(WriterError::Place(_))));
    assert!(!world.disks[0].join("exp_st_no0001").exists());
    let report = record(&world, &WriterOptions { needs_all: false, ..options.clone() }, 20);
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(report.disks[1].state, DiskState::Failed);
    assert!(is_told(&report, "disk_failed", &options.disks[1]), "{:?}", report.events);
    assert!(!is_told(&report, "disk_stalled", &options.disks[1]), "{:?}", report.events);
    let check =
        Recording::open(&options.disks, "exp_st_no0001").unwrap().check(&CheckOptions::default()).unwrap();
    assert_eq!(check.datastreams[0].proven, 20, "{:?}", check.findings);
    let none = vec![options.disks[1].clone()];
    let none = WriterOptions { disks: none, needs_all: false, ..world.options() };
    assert!(matches!(Writer::create(&none), Err(WriterError::Place(_))));
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
    assert_eq!(error, "bug: its thread panicked: this filler is broken");
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
        let (mut refused, mut submitted) = (0, 0);
        // Both disks have to fail before the first is refused.
        while refused < 30 && submitted < 10_000 {
            if let Err(error) = writer.submit(world.chunk(stream, submitted)) {
                assert_eq!((error.reason, error.chunk.number), (Refusal::NoDisk, submitted));
                refused += 1;
            }
            submitted += 1;
        }
        let report = writer.finish(LONG);
        let stream = &report.datastreams[0];
        assert_eq!(stream.acknowledged + stream.lost, u64::from(submitted), "{stream:?}");
        assert!(refused == 30 && stream.lost >= refused && stream.acknowledged >= 2, "{stream:?}");
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

fn mount(directory: &Path, size: &str) -> bool {
    let mut command = std::process::Command::new("mount");
    command.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(directory).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A real disk that somebody else fills up in mid-scan. Needs the right to mount.
#[test]
fn a_real_full_disk_costs_nothing() {
    let world = world(2);
    if !mount(&world.disks[0], "size=4m") {
        println!("SKIPPED: no file system can be mounted here (run as root)");
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
            .args(["--exact", "recording::tests::disks::child_that_records", "--nocapture"])
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

/// A sync that fails, once, of a chunk, a directory or the index: what it was for is written elsewhere or not acknowledged, and the
/// next sync is not taken for it.
#[test]
fn what_a_failed_sync_was_for_is_not_acknowledged() {
    for nth in 1..8 {
        for disks in [1, 2] {
            let world = world(disks);
            let faults = vec![(0, format!("esync={nth}").parse().unwrap())];
            let writer = Writer::create(&WriterOptions { faults, ..world.options() }).unwrap();
            let stream = writer.add_datastream(&info(""));
            let mut submitted = 0;
            while submitted < 6 && writer.submit(world.chunk(stream, submitted)).is_ok() {
                submitted += 1;
            }
            let report = writer.finish(Duration::from_secs(2));
            assert!(report.is_whole() || disks == 1, "sync {nth} of {disks} disks: {report:?}");
            // What is acknowledged is on a disk, with its record.
            let acknowledged: u64 = report.datastreams.iter().map(|stream| stream.acknowledged).sum();
            let open = world.open();
            let recorded = open.datastreams.iter().flat_map(|stream| stream.chunks.values());
            let recorded = recorded.filter(|chunk| chunk.record.is_some()).count() as u64;
            assert!(recorded >= acknowledged, "{recorded} of {acknowledged} have a record");
        }
    }
}

/// A repair of files that were never synced, on a disk of which one sync fails: it says so, and gives no record to bytes that are
/// not on the disk, then and when it is tried again, with the power cut between or not.
#[test]
fn a_repair_on_a_failing_disk_acknowledges_nothing_that_is_not_there() {
    let mut failed = 0;
    for nth in 0.. {
        for cut in [false, true] {
            let world = world(2);
            let disk = FailingDisk::new(nth * 2 + 1 + u64::from(cut));
            let faults = Faults { disk: Some(disk.clone()), ..Faults::default() };
            for number in 0..6 {
                let directory = world.disks[number as usize % 2].join("exp_st_no0001");
                std::fs::create_dir_all(&directory).unwrap();
                let file =
                    std::fs::File::create_new(directory.join(format!("exp_st_no0001.{number:08}"))).unwrap();
                // In parts, some of which a failed sync loses.
                let bytes = expected(0, number, CHUNK);
                for (part, bytes) in bytes.chunks(CHUNK / 8).enumerate() {
                    faults.write_all_at(&file, bytes, (part * CHUNK / 8) as u64).unwrap();
                }
            }
            disk.fail_sync_after(nth);
            let first = repair_on(&world.open(), &faults, LONG);
            let is_sound = |check: &CheckReport| {
                let stream = &check.datastreams[0];
                let recorded = world.open().datastreams[0]
                    .chunks
                    .values()
                    .filter(|chunk| chunk.record.is_some())
                    .count();
                assert!(stream.damaged.is_empty(), "sync {nth}, {cut}: {:?}", check.findings);
                assert_eq!(stream.proven as usize, recorded, "sync {nth}, {cut}: {:?}", check.findings);
            };
            is_sound(&world.check());
            let Err(error) = first else {
                assert!(failed > 12, "files, names, indexes and their names are synced: {failed}");
                assert_eq!(world.check().verdict, Verdict::Whole);
                return;
            };
            assert!(error.to_string().contains("exp_st_no0001"), "it names the file: {error}");
            failed += 1;
            if cut {
                disk.cut_power();
                is_sound(&world.check());
            }
            repair_on(&world.open(), &faults, LONG).unwrap();
            let check = world.check();
            is_sound(&check);
            assert!(
                check.datastreams[0].unacknowledged.is_empty(),
                "sync {nth}, {cut}: {:?}",
                check.findings
            );
        }
    }
}

/// A disk that hangs, as far as this process has noticed.
struct Hung<'a>(&'a Path);

impl<'a> Hung<'a> {
    fn new(path: &'a Path) -> Self {
        asked::note_hanging(path, Duration::from_secs(3600));
        Self(path)
    }
}

impl Drop for Hung<'_> {
    fn drop(&mut self) {
        asked::note_answer(self.0);
    }
}

#[test]
fn readers_give_a_disk_that_hangs_up() {
    let world = world(2);
    let writer = Writer::create(&world.options()).unwrap();
    let stream = writer.add_datastream(&info(""));
    (0..40).for_each(|n| writer.submit(world.chunk(stream, n)).unwrap());
    assert!(writer.finish(LONG).is_whole());
    let whole = world.open();
    let on = |disk: usize| whole.datastreams[0].chunks.values().filter(|chunk| chunk.disk == disk).count();
    assert!(on(0) > 0 && on(1) > 0, "both disks have chunks");
    let read = |recording: &Recording| {
        let options = ReadOptions { missing: Missing::Skip, ..ReadOptions::default() };
        let mut reader = recording.reader(0, &options).unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        (bytes.len() / CHUNK, reader.account().gaps_from(0))
    };

    let hung = Hung::new(&world.disks[1]);
    // Opened before it hung: what is there is read, and the rest is named.
    let (chunks, gaps) = read(&whole);
    assert_eq!((chunks, gaps.len()), (on(0), on(1)));
    assert!(gaps.iter().all(|gap| gap.why.contains("does not respond")), "{gaps:?}");
    // Opened since then: not proven, but not damaged either.
    let open = world.open();
    assert_eq!(open.silent_disks().collect::<Vec<_>>(), [&world.disks[1]]);
    let check = open.check(&CheckOptions::default()).unwrap();
    assert_eq!((check.verdict, check.exit_code()), (Verdict::Unproven, 1), "{:?}", check.findings);
    let named = |found: &&Finding| found.path.as_ref() == Some(&world.disks[1]);
    let named: Vec<&str> = check.findings.iter().filter(named).map(|found| &found.text[..]).collect();
    assert_eq!(named, [asked::SILENT]);
    assert_eq!(read(&open).0, on(0));
    let listed = ScanNames::on(&world.disks, Duration::from_secs(1));
    assert_eq!((listed.labels.len(), listed.silent_disks), (1, vec![world.disks[1].clone()]));
    let alone = Recording::open([&world.disks[1]], "exp_st_no0001").unwrap_err();
    assert!(alone.to_string().contains("does not respond"), "{alone}");
    drop(hung);

    assert_eq!(world.check().verdict, Verdict::Whole);
    world.assert_holds(0, 0..40);
}

/// A disk that begins to hang behind the opening of the scan: the repair ends, names the file, and is finished when it responds.
#[test]
fn a_repair_gives_a_disk_that_hangs_up_and_is_finished_later() {
    let world = world(2);
    for number in 0..6 {
        let directory = world.disks[number as usize % 2].join("exp_st_no0001");
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("exp_st_no0001.{number:08}"));
        std::fs::write(path, expected(0, number, CHUNK)).unwrap();
    }
    let open = world.open();
    let hung = Hung::new(&world.disks[1]);
    let error = repair(&open).unwrap_err();
    let file = world.disks[1].join("exp_st_no0001/exp_st_no0001.00000001");
    let expected = format!("sync {}: {}; hint: repair it again", file.display(), asked::SILENT);
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(error.to_string().starts_with(&expected), "{error}");
    drop(hung);
    assert!(!world.disks.iter().any(|disk| disk.join("exp_st_no0001/exp_st_no0001.index").exists()));
    let repaired = repair(&world.open()).unwrap();
    assert_eq!((repaired.adopted, repaired.closed, repaired.refused), (6, true, Vec::new()));
    assert_eq!(world.check().verdict, Verdict::Whole);
}

/// A directory that cannot be read may hold scans: its disk is named, and does not count as one without any.
#[test]
fn a_disk_that_cannot_be_listed_to_its_end_is_named() {
    let world = world(2);
    std::fs::create_dir(world.disks[1].join("s")).unwrap();
    std::fs::write(world.disks[1].join("s/s.00000000"), "data").unwrap();
    std::os::unix::fs::symlink("data", world.disks[1].join("data")).unwrap();
    let listed = ScanNames::on(&world.disks, Duration::from_secs(1));
    assert!(listed.labels.contains(&"s".to_owned()), "what can be read is listed: {:?}", listed.labels);
    let unreadable: Vec<_> = listed.unreadable_disks.iter().map(|(disk, _)| disk.clone()).collect();
    assert_eq!(unreadable, [world.disks[1].clone()]);
    std::fs::remove_file(world.disks[1].join("data")).unwrap();
    std::fs::write(world.disks[1].join("data"), "a file").unwrap();
    assert!(ScanNames::on(&world.disks, Duration::from_secs(1)).unreadable_disks.is_empty());
}
