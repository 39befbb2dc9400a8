//! Disks whose syncs fail.

use super::verify::repair::repair_on;
use super::*;
use skyhaul_io::disk::{FailingDisk, Faults};

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
            let first = repair_on(&world.open(), &faults);
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
            repair_on(&world.open(), &faults).unwrap();
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
