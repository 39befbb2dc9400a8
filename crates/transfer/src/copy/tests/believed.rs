//! What is believed of an earlier attempt, and what is not: each case alone.

use super::{Site, bytes, copy, same, token};
use crate::copy::journal::{Identity, Journal};
use crate::copy::message::Origin;
use crate::copy::{CopyReport, Exists};
use skyhaul_io::disk::tree::Tree;
use skyhaul_io::disk::{FailingDisk, Faults};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const RANGE: u64 = 256 << 10;

fn origin(path: &Path) -> (Identity, Vec<u8>) {
    let tree = Tree::open(path.parent().unwrap()).unwrap();
    let status = tree.status(Path::new(path.file_name().unwrap())).unwrap().unwrap();
    let (size, modified, origin) = (status.size, status.modified, Origin::of(&status));
    (Identity { size, range: RANGE, modified, origin }, std::fs::read(path).unwrap())
}

/// A part with `content`, and a journal that says that these ranges of the source are in it.
fn left(site: &Site, content: &[u8], ranges: impl Iterator<Item = u64>) {
    std::fs::create_dir_all(site.at("root/in")).unwrap();
    std::fs::write(site.at("root/in/.src.skyhaul-part"), content).unwrap();
    let (of, source) = origin(&site.at("src"));
    let crc = |range: u64| {
        let end = ((range + 1) * RANGE).min(of.size);
        (range, crc32c::crc32c(&source[(range * RANGE) as usize..end as usize]))
    };
    let done: BTreeMap<u64, u32> = ranges.map(crc).collect();
    let file = std::fs::File::create(site.at("root/in/.src.skyhaul-journal")).unwrap();
    Journal::begin(file, &of, &done, &Faults::default()).unwrap();
}

/// An older attempt left bytes where the source has holes now; it was interrupted, or is of another file.
#[test]
fn holes_of_the_source_are_holes_whatever_an_older_attempt_left() {
    for resumes in [false, true] {
        let site = Site::new();
        let file = std::fs::File::create(site.at("src")).unwrap();
        file.set_len(8 * RANGE).unwrap();
        file.write_all_at(&bytes(1, RANGE as usize), 3 * RANGE).unwrap();
        std::fs::create_dir_all(site.at("root/in")).unwrap();
        let mut older = bytes(2, 8 * RANGE as usize);
        if resumes {
            older[3 * RANGE as usize..4 * RANGE as usize].copy_from_slice(&bytes(1, RANGE as usize));
            left(&site, &older, 3..4);
        } else {
            std::fs::write(site.at("root/in/.src.skyhaul-part"), &older).unwrap();
        }
        let report = site.push();
        assert!(report.is_whole() && (report.resumed_bytes > 0) == resumes, "{report:?}");
        same(&site.at("src"), &site.at("root/in/src"));
        assert!(site.at("root/in/src").metadata().unwrap().blocks() * 512 <= 2 * RANGE);
    }
}

#[test]
fn a_part_that_was_damaged_is_sent_again_where_it_was() {
    let site = Site::new();
    let content = bytes(3, 8 * RANGE as usize);
    std::fs::write(site.at("src"), &content).unwrap();
    let mut damaged = content;
    damaged[5 * RANGE as usize + 17] ^= 1;
    left(&site, &damaged, 0..8);
    let report = site.push();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.resumed_bytes, report.moved_bytes), (7 * RANGE, RANGE));
    same(&site.at("src"), &site.at("root/in/src"));
}

/// The source changed, and its time was set back: nothing of the older attempt counts.
#[test]
fn a_source_that_changed_with_its_time_kept_is_sent_anew() {
    let site = Site::new();
    let content = bytes(4, 8 * RANGE as usize);
    std::fs::write(site.at("src"), &content).unwrap();
    left(&site, &content, 0..4);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let file = std::fs::File::options().write(true).open(site.at("src")).unwrap();
    let kept = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"changed", 1000).unwrap();
    file.set_modified(kept).unwrap();
    let report = site.push();
    assert!(report.is_whole() && report.resumed_bytes == 0, "{report:?}");
    same(&site.at("src"), &site.at("root/in/src"));
    // The same once the whole file is there.
    file.write_all_at(b"again", 2000).unwrap();
    file.set_modified(kept).unwrap();
    let report = site.push();
    assert!(report.failed[0].error.contains("another one exists"), "{report:?}");
    let options = super::CopyOptions { exists: Exists::Replace, ..site.options(&["src"], &["in"], false) };
    let report = copy(&options, &token(), &mut |_| {}).unwrap();
    assert!(report.is_whole() && report.kept_files == 0, "{report:?}");
    same(&site.at("src"), &site.at("root/in/src"));
}

/// A sync fails once, and loses what it was for; the next one succeeds, and nothing of it is believed.
#[test]
fn what_a_failed_sync_was_for_is_sent_again() {
    let mut failures = 0;
    for nth in 0..6 {
        let disk = FailingDisk::new(nth + 1);
        let site = Site::on(Faults { disk: Some(disk.clone()), ..Faults::default() });
        std::fs::write(site.at("src"), bytes(nth, 6 * RANGE as usize)).unwrap();
        disk.fail_sync_after(nth);
        let mut options = site.options(&["src"], &["in"], false);
        // Slow, so that ranges become durable several times.
        (options.tuning.limit, options.tuning.direct) = (Some(10_000_000), false);
        let report = copy(&options, &token(), &mut |_| {});
        if !report.as_ref().is_ok_and(CopyReport::is_whole) {
            failures += 1;
            let said = format!("{report:?}").to_lowercase();
            assert!(said.contains("input/output error"), "{said}");
            assert!(!site.at("root/in/src").exists(), "a file has its name only when it is durable");
        }
        options.tuning.limit = None;
        let again = super::until_whole(|| copy(&options, &token(), &mut |_| {}).unwrap());
        assert!(again.is_whole(), "{again:?}");
        same(&site.at("src"), &site.at("root/in/src"));
    }
    assert!(failures >= 3, "{failures} syncs failed");
}

#[test]
fn few_bytes_in_many_ranges_take_few_bytes_on_the_disk() {
    let site = Site::new();
    let file = std::fs::File::create(site.at("src")).unwrap();
    file.set_len(12 << 20).unwrap();
    for page in 0..5 {
        file.write_all_at(&bytes(page, 4096), page * (5 << 19)).unwrap();
    }
    let report = site.push();
    assert!(report.is_whole(), "{report:?}");
    same(&site.at("src"), &site.at("root/in/src"));
    let stored = site.at("root/in/src").metadata().unwrap().blocks() * 512;
    assert!(stored <= 64 << 10, "20 KiB became {stored} bytes");
}
