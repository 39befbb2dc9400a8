//! Both ends in one process, on the loopback.

mod compared;
mod encrypted;
mod guards;
mod histories;
mod hostile;
mod hostile_server;
mod path;
mod pulled;
mod synced;

use super::options::Budget;
use super::*;
use skyhaul::peer::{Limits, Server, ServerOptions, Token};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn token() -> Token {
    Token::new("a-token-of-16-or-more").unwrap()
}

/// A server of `root`, and a place for sources.
struct Site {
    directory: tempfile::TempDir,
    server: Server,
    budget: Arc<Budget>,
}

impl Site {
    fn new() -> Self {
        Self::with("")
    }

    fn with(faults: &str) -> Self {
        Self::on(faults.parse().unwrap())
    }

    fn on(faults: skyhaul_io::disk::Faults) -> Self {
        Self::serving(faults, false)
    }

    fn read_only() -> Self {
        Self::serving(Default::default(), true)
    }

    fn serving(faults: skyhaul_io::disk::Faults, read_only: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("root")).unwrap();
        let service = CopyService::new(&[directory.path().join("root")], read_only).unwrap();
        let service = service.with(Default::default(), faults);
        let budget = service.budget.clone();
        let limits = Limits { duration: Duration::from_secs(3600), ..Limits::default() };
        let options = ServerOptions { limits, ..ServerOptions::default() };
        let server =
            Server::start("127.0.0.1:0".parse().unwrap(), token(), options, vec![Box::new(service)]).unwrap();
        Self { directory, server, budget }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn options(&self, sources: &[&str], into: &[&str], pull: bool) -> CopyOptions {
        let here = |path: &&str| self.at(path);
        let there = |path: &&str| PathBuf::from(path);
        let (sources, into) = match pull {
            false => (sources.iter().map(here).collect(), into.iter().map(there).collect()),
            true => (sources.iter().map(there).collect(), into.iter().map(here).collect()),
        };
        CopyOptions {
            server: vec![self.server.local()],
            sources,
            into,
            pull,
            exists: Exists::Fail,
            tuning: Tuning { flows: 2, range: 256 << 10, ..Tuning::default() },
            plan: false,
            dry_run: false,
            verify: false,
            stop: Default::default(),
        }
    }

    fn push(&self) -> CopyReport {
        copy(&self.options(&["src"], &["in"], false), &token(), &mut |_| {}).unwrap()
    }
}

/// Copy until all of it is there: a server may take a moment to end its side of the one before.
fn until_whole(mut once: impl FnMut() -> CopyReport) -> CopyReport {
    for _ in 0..100 {
        let report = once();
        if report.is_whole() {
            return report;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it is not resumed");
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let (mut state, mut bytes) = (seed * 2 + 1, vec![0; length]);
    skyhaul_core::pattern::noise(&mut state, &mut bytes);
    bytes
}

/// Files of awkward sizes, a deep directory, links, permissions, a hole, names that are no text.
fn tree(at: &Path) {
    use std::os::unix::ffi::OsStrExt;
    std::fs::create_dir_all(at.join("a/b/c")).unwrap();
    for (n, size) in [0, 1, 4095, 4096, 4097, 262_143, 262_144, 262_145, 3_000_001].into_iter().enumerate() {
        std::fs::write(at.join(format!("a/f{n}")), bytes(n as u64, size)).unwrap();
    }
    std::fs::write(at.join("a/b/c").join(std::ffi::OsStr::from_bytes(b"\xff\xfe")), "odd").unwrap();
    std::os::unix::fs::symlink("../f1", at.join("a/b/link")).unwrap();
    std::os::unix::fs::symlink("/nowhere", at.join("dangling")).unwrap();
    std::fs::set_permissions(at.join("a/f2"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let holes = std::fs::File::create(at.join("holes")).unwrap();
    holes.set_len(5 << 20).unwrap();
    std::os::unix::fs::FileExt::write_at(&holes, b"data", 2 << 20).unwrap();
    std::fs::set_permissions(at.join("a/b"), std::fs::Permissions::from_mode(0o750)).unwrap();
}

/// Both trees are the same, to the last name, and nothing unfinished is left.
#[track_caller]
fn same(a: &Path, b: &Path) {
    let (x, y) = (a.symlink_metadata().unwrap(), b.symlink_metadata().unwrap());
    assert_eq!(x.file_type(), y.file_type(), "{}", b.display());
    if x.is_symlink() {
        assert_eq!(std::fs::read_link(a).unwrap(), std::fs::read_link(b).unwrap());
        return;
    }
    assert_eq!(
        (x.mode(), x.mtime(), x.mtime_nsec()),
        (y.mode(), y.mtime(), y.mtime_nsec()),
        "{}",
        b.display()
    );
    if x.is_file() {
        assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap(), "{} differs", b.display());
        return;
    }
    let names = |path: &Path| {
        let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(a), names(b), "{}", b.display());
    names(a).iter().for_each(|name| same(&a.join(name), &b.join(name)));
}

#[test]
fn a_tree_arrives_as_it_is_both_ways_and_is_not_sent_twice() {
    let site = Site::new();
    tree(&site.at("src"));
    let report = site.push();
    assert!(report.is_whole(), "{report:?}");
    same(&site.at("src"), &site.at("root/in/src"));
    assert_eq!((report.files, report.links, report.directories, report.kept_files), (11, 2, 4, 0));
    let stored = |path: &str| site.at(path).metadata().unwrap().blocks();
    assert!(stored("root/in/src/holes") <= stored("src/holes").max(2048), "the hole is stored");
    assert!(report.copied.iter().all(|file| file.crc32c.is_some()));
    // Again: nothing is sent, nothing changes.
    let again = site.push();
    assert!(again.is_whole() && again.moved_bytes == 0 && again.kept_files == 11, "{again:?}");
    // Back.
    let options = site.options(&["in/src"], &["back"], true);
    let back = copy(&options, &token(), &mut |_| {}).unwrap();
    assert!(back.is_whole() && back.files == 11, "{back:?}");
    same(&site.at("src"), &site.at("back/src"));
}

#[test]
fn a_directory_that_was_removed_between_two_copies_is_made_again() {
    let site = Site::new();
    tree(&site.at("src"));
    for _ in 0..2 {
        let report = site.push();
        assert!(report.is_whole() && report.kept_files == 0, "{report:?}");
        same(&site.at("src"), &site.at("root/in/src"));
        std::fs::remove_dir_all(site.at("root/in")).unwrap();
    }
}

#[test]
fn every_source_goes_into_its_own_directory() {
    let site = Site::new();
    for disk in ["d1", "d2"] {
        std::fs::create_dir_all(site.at(disk).join("exp")).unwrap();
        std::fs::write(site.at(disk).join("exp/exp.index"), disk).unwrap();
    }
    let options = site.options(&["d1/exp", "d2/exp"], &["x", "y"], false);
    assert!(copy(&options, &token(), &mut |_| {}).unwrap().is_whole());
    assert_eq!(std::fs::read(site.at("root/x/exp/exp.index")).unwrap(), b"d1");
    assert_eq!(std::fs::read(site.at("root/y/exp/exp.index")).unwrap(), b"d2");
}

#[test]
fn a_file_that_exists_and_differs_is_left_replaced_or_refused() {
    let site = Site::new();
    std::fs::write(site.at("src"), "new").unwrap();
    let reset = || {
        std::fs::create_dir_all(site.at("root/in")).unwrap();
        std::fs::write(site.at("root/in/src"), "older").unwrap();
    };
    for (exists, left, whole) in
        [(Exists::Fail, "older", false), (Exists::Skip, "older", true), (Exists::Replace, "new", true)]
    {
        reset();
        let options = CopyOptions { exists, ..site.options(&["src"], &["in"], false) };
        let report = copy(&options, &token(), &mut |_| {}).unwrap();
        assert_eq!(report.is_whole(), whole, "{report:?}");
        assert_eq!(std::fs::read_to_string(site.at("root/in/src")).unwrap(), left);
        assert!(report.failed.iter().all(|failed| failed.error.contains("hint: ")));
    }
}

#[test]
fn a_stop_is_resumed_with_the_open_ranges_only() {
    let site = Site::new();
    std::fs::write(site.at("src"), bytes(3, 40 << 20)).unwrap();
    let mut options = site.options(&["src"], &["in"], false);
    options.tuning.limit = Some(200_000_000);
    let stop = options.stop.clone();
    let report = copy(&options, &token(), &mut |progress| {
        if progress.bytes > 8 << 20 {
            stop.stop();
        }
    });
    let report = report.unwrap();
    assert!(report.stopped.is_some() && !report.is_whole(), "{report:?}");
    assert!(!site.at("root/in/src").exists(), "a file has its name only when it is whole");
    // The server ends its side a moment later.
    let part = site.at("root/in/.src.skyhaul-journal");
    let rest = until_whole(|| site.push());
    assert!(rest.resumed_bytes > 0 && rest.moved_bytes + rest.resumed_bytes == 40 << 20, "{rest:?}");
    assert!(!part.exists());
    same(&site.at("src"), &site.at("root/in/src"));
}

#[test]
fn a_full_disk_is_told_and_the_rest_is_copied_when_there_is_room() {
    let site = Site::with("enospc=1MiB");
    std::fs::write(site.at("src"), bytes(4, 4 << 20)).unwrap();
    let report = site.push();
    assert!(report.failed[0].error.contains("no space left"), "{report:?}");
    let more = Site::new();
    std::fs::rename(site.at("root/in"), more.at("root/in")).unwrap();
    std::fs::rename(site.at("src"), more.at("src")).unwrap();
    let report = more.push();
    assert!(report.is_whole() && report.moved_bytes + report.resumed_bytes == 4 << 20, "{report:?}");
    same(&more.at("src"), &more.at("root/in/src"));
}

/// More of them than there are blocks: what came for each is free again.
#[test]
fn files_that_cannot_be_opened_do_not_hold_up_the_others() {
    let site = Site::new();
    std::fs::create_dir(site.at("src")).unwrap();
    for n in 0..100 {
        std::fs::write(site.at(&format!("src/{n:02}")), bytes(n, 100)).unwrap();
        // Something else has the name that it is written under.
        if n < 90 {
            std::fs::create_dir_all(site.at(&format!("root/in/src/.{n:02}.skyhaul-part"))).unwrap();
        }
    }
    let report = site.push();
    assert_eq!((report.files, report.failed.len(), &report.stopped), (10, 90, &None), "{report:?}");
}

#[test]
fn a_file_that_changes_meanwhile_is_not_called_whole() {
    let site = Site::new();
    std::fs::write(site.at("src"), bytes(5, 8 << 20)).unwrap();
    let mut options = site.options(&["src"], &["in"], false);
    options.tuning.limit = Some(100_000_000);
    let (path, mut once) = (site.at("src"), true);
    let report = copy(&options, &token(), &mut |_| {
        if std::mem::take(&mut once) {
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            std::io::Write::write_all(&mut &file, b"more").unwrap();
        }
    });
    let report = report.unwrap();
    assert!(report.failed[0].error.contains("changed during the copy"), "{report:?}");
    assert!(!site.at("root/in/src").exists());
}
