//! Syncs of directories that fail, and kills before them: what a later copy reports as there is there after a power cut.

use super::super::{CopyReport, Exists, copy};
use super::{Site, bytes, token};
use skyhaul_io::disk::{FailingDisk, Faults};
use std::path::Path;

/// More syncs, and more operations, than the copy of the tree takes.
const SYNCS: u64 = 16;
const OPERATIONS: u64 = 50;

fn site(seed: u64) -> (Site, FailingDisk) {
    let disk = FailingDisk::new(seed);
    let site = Site::on(Faults { disk: Some(disk.clone()), ..Faults::default() });
    std::fs::create_dir_all(site.at("src/sub/empty")).unwrap();
    std::fs::write(site.at("src/one"), "of one range").unwrap();
    std::fs::write(site.at("src/sub/many"), bytes(2, 600_000)).unwrap();
    std::os::unix::fs::symlink("one", site.at("src/sub/link")).unwrap();
    (site, disk)
}

fn push(site: &Site) -> CopyReport {
    let options = site.options(&["src"], &["in/to"], false);
    let begun = copy(&options, &token(), &mut |_| {});
    // What a session could not begin with is as far from whole as what it could not do.
    let report = begun
        .unwrap_or_else(|error| CopyReport { stopped: Some(error.to_string()), ..CopyReport::default() });
    while site.budget.sessions() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    report
}

#[track_caller]
fn all_there(site: &Site, what: &str) {
    let there = |path: &str| site.at("root/in/to/src").join(path);
    assert!(there("sub/empty").is_dir(), "{what}: a directory is gone");
    assert_eq!(std::fs::read_link(there("sub/link")).ok().as_deref(), Some(Path::new("one")), "{what}");
    for file in ["one", "sub/many"] {
        let (here, there) = (std::fs::read(site.at("src").join(file)).ok(), std::fs::read(there(file)).ok());
        assert!(here == there, "{what}: {file} is gone or differs");
    }
}

#[test]
fn what_a_copy_reports_after_a_failed_sync_is_durable() {
    let mut failed = 0;
    for at in 0..SYNCS {
        let (site, disk) = site(at);
        disk.fail_sync_after(at);
        let first = push(&site);
        failed += usize::from(!first.is_whole());
        disk.restart();
        let report = push(&site);
        assert!(report.is_whole(), "sync {at}: {report:?}");
        disk.cut_power();
        all_there(&site, &format!("after sync {at} failed ({:?} {:?})", first.stopped, first.failed));
    }
    assert!((6..SYNCS as usize).contains(&failed), "{failed} of {SYNCS} syncs are of this copy");
}

#[test]
fn what_a_copy_reports_after_a_kill_is_durable() {
    for operations in (0..OPERATIONS).step_by(2) {
        let (site, disk) = site(operations);
        disk.kill_after(operations);
        push(&site);
        disk.restart();
        let report = push(&site);
        assert!(report.is_whole(), "{operations} operations: {report:?}");
        disk.cut_power();
        all_there(&site, &format!("after a kill at operation {operations}"));
    }
}

/// Of a file that is there already, also where it is kept whatever it is.
#[test]
fn a_file_is_there_only_if_its_directory_can_be_synced() {
    for exists in [Exists::Fail, Exists::Skip] {
        let (site, disk) = site(1);
        assert!(push(&site).is_whole());
        let options =
            super::super::CopyOptions { exists, ..site.options(&["src/one"], &["in/to/src"], false) };
        // The directories above the destination are synced before.
        disk.fail_sync_after(3);
        let report = copy(&options, &token(), &mut |_| {}).unwrap();
        assert_eq!((report.files, report.kept_files, report.failed.len()), (0, 0, 1), "{report:?}");
        assert!(report.failed[0].error.contains("cannot sync"), "{report:?}");
        let report = copy(&options, &token(), &mut |_| {}).unwrap();
        assert_eq!((report.kept_files, report.failed.len()), (1, 0), "{report:?}");
        disk.cut_power();
        all_there(&site, "kept");
    }
}
