//! Disks whose syncs fail.

use super::*;

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
