//! `copy`, and what it believes: older parts, changed sources, names, bounds; with the real programs and real signals.

use crate::copied::{Place, noise};
use crate::site::{number, wait_for};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

const RANGE: u64 = 256 << 10;

/// A file with a few bytes, and holes.
fn sparse(path: &Path, size: u64) {
    let _ = std::fs::remove_file(path);
    let file = std::fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(&noise(4096), size / 2 / 4096 * 4096).unwrap();
}

/// What a copy copies, and where: to the server, or from it.
fn ends(place: &Place, pull: bool) -> (std::path::PathBuf, std::path::PathBuf, String) {
    let far = place.at("root");
    match pull {
        false => (place.at("src"), far.join("in/src"), format!("{} 127.0.0.1:in", place.at("src").display())),
        true => {
            (far.join("src"), place.at("here/src"), format!("127.0.0.1:src {}", place.at("here").display()))
        }
    }
}

/// Ctrl-C or a kill leaves a part; then the source has holes where the part has bytes.
#[test]
fn a_part_of_an_older_source_does_not_show_through_the_holes_of_a_newer_one() {
    for (pull, signal) in
        [false, true].into_iter().zip([rustix::process::Signal::INT, rustix::process::Signal::KILL])
    {
        let place = Place::new();
        let (source, there, line) = ends(&place, pull);
        let line = format!("{line} --range 256KiB --exists replace");
        std::fs::write(&source, noise(12 << 20)).unwrap();
        let job = place.start(&format!("{line} --limit 40Mbps"));
        let part = there.with_file_name(".src.skyhaul-part");
        wait_for("some ranges to be written", || {
            part.metadata().is_ok_and(|part| part.blocks() * 512 > 4 * RANGE).then_some(())
        });
        std::thread::sleep(std::time::Duration::from_millis(800));
        job.signal(signal);
        let _ = job.finish();
        sparse(&source, 12 << 20);
        let done = wait_for("the rest to be copied", || {
            let done = place.start(&line).finish();
            (done.code == Some(0)).then_some(done)
        });
        assert!(std::fs::read(&there).unwrap() == std::fs::read(&source).unwrap(), "{}", done.stderr);
        assert!(there.metadata().unwrap().blocks() * 512 < RANGE, "the holes are stored");
        let verified = place.start(&format!("{} --verify", line.replace(" --exists replace", ""))).finish();
        assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    }
}

#[test]
fn a_comparison_names_what_differs() {
    for pull in [false, true] {
        let place = Place::new();
        let (source, there, line) = ends(&place, pull);
        std::fs::write(&source, noise(1 << 20)).unwrap();
        let missing = place.copy(&format!("{line} --verify"), 1);
        assert!(missing["failed"][0]["error"].as_str().unwrap().contains("missing"), "{missing}");
        assert!(!there.parent().unwrap().exists(), "a comparison makes nothing");
        let copied = place.copy(&line, 0);
        let same = place.copy(&format!("{line} --verify"), 0);
        assert_eq!(same["compared"].as_array().unwrap().len(), 1, "{same}");
        assert_eq!(same["compared"][0]["crc32c"], copied["copied"][0]["crc32c"], "{same}");
        assert!(same["compared"][0]["crc32c"].is_u64(), "{same}");
        let file = std::fs::File::options().write(true).open(&there).unwrap();
        let kept = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"rotten", 500_000).unwrap();
        file.set_modified(kept).unwrap();
        let differs = place.copy(&format!("{line} --verify"), 1);
        let failed = &differs["failed"][0];
        assert!(failed["path"].as_str().unwrap().ends_with("src"), "{differs}");
        assert!(failed["error"].as_str().unwrap().contains("CRC-32C"), "{differs}");
    }
}

#[test]
fn long_names_are_copied_and_dropped_permissions_are_told() {
    let place = Place::new();
    std::fs::create_dir(place.at("src")).unwrap();
    for length in [241, 242, 255] {
        std::fs::write(place.at("src").join("n".repeat(length)), noise(length)).unwrap();
    }
    let setuid = place.at("src/setuid");
    std::fs::write(&setuid, "x").unwrap();
    std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let report = place.copy(&format!("{} 127.0.0.1:in --range 64KiB", place.at("src").display()), 0);
    assert_eq!(number(&report["files"]), 4, "{report}");
    let dropped = report["dropped_bits"][0].as_str().unwrap();
    assert!(dropped.ends_with("src/setuid"), "{report}");
    for length in [241, 242, 255] {
        let name = "n".repeat(length);
        assert_eq!(std::fs::read(place.at("root/in/src").join(name)).unwrap(), noise(length));
    }
}

#[test]
fn a_prediction_leaves_no_directory() {
    let place = Place::new();
    std::fs::create_dir(place.at("src")).unwrap();
    for n in 0..20 {
        std::fs::write(place.at(&format!("src/{n}")), noise(1000)).unwrap();
    }
    place.copy(&format!("{} 127.0.0.1:a/b --dry-run", place.at("src").display()), 0);
    assert_eq!(std::fs::read_dir(place.at("root")).unwrap().count(), 0);
    std::fs::write(place.at("root/x"), "x").unwrap();
    let here = place.at("here/deep");
    place.copy(&format!("127.0.0.1:x {} --dry-run", here.display()), 0);
    assert!(!place.at("here").exists());
}

/// The most flows and the largest ranges that a client may ask for, and nothing that is moved.
#[test]
fn the_memory_of_a_server_is_bounded_whatever_a_client_asks_for() {
    let place = Place::new();
    std::fs::write(place.at("root/x"), "x").unwrap();
    let here = place.at("here");
    place.copy(&format!("127.0.0.1:x {} --flows 256 --range 256MiB --depth 256", here.display()), 0);
    let status = std::fs::read_to_string(format!("/proc/{}/status", place.server.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 400 << 10, "{peak} KiB");
}
