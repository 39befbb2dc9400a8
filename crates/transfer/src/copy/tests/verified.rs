//! `--verify`: what both ends have on the disk now is compared, and nothing is written.

use super::{Site, bytes, copy, token, tree};
use crate::copy::{CopyOptions, CopyReport};
use std::os::unix::fs::FileExt;
use std::path::Path;

fn verify(site: &Site, pull: bool) -> CopyReport {
    let options = match pull {
        false => site.options(&["src"], &["in"], false),
        true => site.options(&["in/src"], &["there"], true),
    };
    copy(&CopyOptions { verify: true, ..options }, &token(), &mut |_| {}).unwrap()
}

/// Change a byte, and nothing that a listing shows.
fn damage(path: &Path) {
    let file = std::fs::File::options().write(true).read(true).open(path).unwrap();
    let kept = file.metadata().unwrap().modified().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 100_000).unwrap();
    file.write_all_at(&[byte[0] ^ 0x80], 100_000).unwrap();
    file.set_modified(kept).unwrap();
}

#[test]
fn what_differs_is_named_and_nothing_is_written() {
    for pull in [false, true] {
        let site = Site::new();
        tree(&site.at("src"));
        assert!(site.push().is_whole());
        let there = match pull {
            false => site.at("root/in/src"),
            true => {
                std::fs::create_dir(site.at("there")).unwrap();
                let options = site.options(&["in/src"], &["there"], true);
                assert!(copy(&options, &token(), &mut |_| {}).unwrap().is_whole());
                site.at("there/src")
            }
        };
        let same = verify(&site, pull);
        assert!(same.is_whole() && same.verified && same.compared.len() == 11, "{same:?}");
        assert!(same.moved_bytes == 0 && same.compared.iter().all(|file| file.crc32c.is_some()), "{same:?}");
        damage(&there.join("a/f8"));
        std::fs::remove_file(there.join("a/f1")).unwrap();
        std::fs::write(there.join("a/f2"), "longer or shorter").unwrap();
        std::fs::remove_file(there.join("dangling")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", there.join("dangling")).unwrap();
        let names = || std::fs::read_dir(there.join("a")).unwrap().count();
        let before = names();
        let report = verify(&site, pull);
        let mut failed: Vec<_> =
            report.failed.iter().map(|one| (one.path.clone(), one.error.clone())).collect();
        failed.sort();
        let said = ["src/a/f1", "src/a/f2", "src/a/f8", "src/dangling"];
        assert!(failed.iter().zip(said).all(|((path, _), end)| path.ends_with(end)), "{failed:?}");
        let why = ["missing", "bytes at the source", "CRC-32C", "leads elsewhere"];
        assert!(
            failed.len() == 4 && failed.iter().zip(why).all(|((_, error), why)| error.contains(why)),
            "{failed:?}"
        );
        assert_eq!((report.is_whole(), report.compared.len(), names()), (false, 8, before));
    }
}

#[test]
fn a_source_that_was_damaged_since_is_found_too() {
    let site = Site::new();
    std::fs::write(site.at("src"), bytes(1, 500_000)).unwrap();
    assert!(site.push().is_whole() && verify(&site, false).is_whole());
    damage(&site.at("src"));
    assert!(verify(&site, false).failed[0].error.contains("CRC-32C"));
}

#[test]
fn a_server_that_is_read_only_compares_and_takes_nothing() {
    let site = Site::read_only();
    std::fs::create_dir(site.at("root/in")).unwrap();
    for path in ["src", "root/in/src"] {
        std::fs::write(site.at(path), bytes(1, 500_000)).unwrap();
    }
    assert!(verify(&site, false).is_whole());
    let pushed = copy(&site.options(&["src"], &["in"], false), &token(), &mut |_| {});
    assert!(pushed.unwrap_err().to_string().contains("read-only"));
    damage(&site.at("root/in/src"));
    assert!(!verify(&site, false).is_whole());
    assert_eq!(std::fs::read_dir(site.at("root/in")).unwrap().count(), 1);
}
