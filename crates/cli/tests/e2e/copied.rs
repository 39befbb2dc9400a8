//! `copy` end to end: two programs on the loopback, killed, interrupted, and short of room.
//!
//! `copy`, and what it believes: older parts, changed sources, names, bounds; with the real programs and real signals.

use crate::device::{Device, Mounted};
use crate::site::{Job, Site, number, send, wait_for, words};
use serde_json::Value;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server, and what it serves.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    pub(crate) server: Job,
    pub(crate) port: u16,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(|root| std::fs::create_dir(root).unwrap())
    }

    /// It serves this directory, on another disk.
    pub(crate) fn of(directory: &Path) -> Self {
        Self::with(|root| std::os::unix::fs::symlink(directory, root).unwrap())
    }

    fn with(root: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        root(&directory.path().join("root"));
        let (server, port) = Self::serve(directory.path(), 0);
        Self { directory, server, port }
    }

    fn serve(directory: &Path, port: u16) -> (Job, u16) {
        let (root, token) = (directory.join("root"), directory.join("token"));
        let line = format!(
            "copy serve --root {} --token-file {} --listen 127.0.0.1:{port}",
            root.display(),
            token.display()
        );
        let mut server = Job::start(&words(&line));
        let port = wait_for("the server to listen", || {
            let said = server.stderr();
            if let Some(line) = said.lines().find(|line| line.starts_with("serving ")) {
                return line.rsplit(':').next().unwrap().parse().ok();
            }
            assert!(server.is_running(), "{said}");
            None
        });
        (server, port)
    }

    /// The server is killed, and started again.
    pub(crate) fn restart(&mut self) {
        self.server.signal(rustix::process::Signal::KILL);
        let (server, port) = Self::serve(self.directory.path(), 0);
        (self.server, self.port) = (server, port);
    }

    /// The same, at its port: others find it again.
    pub(crate) fn restart_here(&mut self) {
        self.server.signal(rustix::process::Signal::KILL);
        wait_for("the end of the server", || (!self.server.is_running()).then_some(()));
        self.server = Self::serve(self.directory.path(), self.port).0;
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(crate) fn start(&self, line: &str) -> Job {
        let token = self.at("token");
        let more = format!("--token-file {} --port {} --json", token.display(), self.port);
        Job::start(&words(&format!("copy {line} {more}")))
    }

    pub(crate) fn copy(&self, line: &str, code: i32) -> Value {
        self.start(line).finish().expect(code).json()
    }
}

pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_9ABC_DEFF_u64;
    let mut bytes = vec![0; length];
    // Tests are not optimised: a byte at a time, a file takes a second.
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    bytes
}

/// Ctrl-C is answered while the disk is not. The kernel keeps the process until the disk answers.
#[test]
fn an_interrupt_is_answered_while_a_disk_hangs() {
    let place = Place::new();
    let source = place.at("disk");
    std::fs::create_dir(&source).unwrap();
    let mut device = match Device::new(&source) {
        Ok(device) => device,
        // Needs root, FUSE and a loop device.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    std::fs::write(source.join("large"), noise(24 << 20)).unwrap();
    device.mount_again();
    let hanging = device.hang();
    let job = place.start(&format!("{} 127.0.0.1:in", source.join("large").display()));
    // Bit 1 of the signals that are caught.
    wait_for("it to listen for interrupts", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", job.pid())).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        (u64::from_str_radix(caught.trim(), 16).ok()? & 2 != 0).then_some(())
    });
    job.signal(rustix::process::Signal::INT);
    wait_for("the answer", || job.stderr().contains("stopped; a disk did not respond").then_some(()));
    drop(hanging);
    job.finish().expect(1);
}

/// Must 12, in small: killed many times at any moment, at either end; no byte is wrong, and only open ranges are sent again.
/// `SKYHAUL_KILLS=100` kills as often as the figure in the documents says.
#[test]
fn killed_again_and_again() {
    let kills = std::env::var("SKYHAUL_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(8u64);
    let mut place = Place::new();
    let size = 24 << 20;
    let bytes = noise(size);
    std::fs::create_dir(place.at("src")).unwrap();
    std::fs::write(place.at("src/large"), &bytes).unwrap();
    std::fs::write(place.at("src/small"), &bytes[..5000]).unwrap();
    let line = format!("{} 127.0.0.1:in --range 256KiB --flows 2", place.at("src").display());
    let journal = place.at("root/in/src/.large.skyhaul-journal");
    let durable = |journal: &Path| {
        let text = std::fs::read_to_string(journal).unwrap_or_default();
        text.lines().filter(|line| line.len() > 8).count().saturating_sub(1)
    };
    let mut most = 0;
    for n in 0..kills {
        // So slow that it does not end before it is killed, and some ranges become durable.
        let mut job = place.start(&format!("{line} --limit 20Mbps"));
        let end = std::time::Instant::now() + Duration::from_millis(150 + n * 97 % 1500);
        while std::time::Instant::now() < end && job.is_running() {
            std::thread::sleep(Duration::from_millis(5));
        }
        match n % 2 {
            0 => job.signal(rustix::process::Signal::KILL),
            _ => place.restart(),
        }
        let _ = job.finish();
        let now = durable(&journal);
        assert!(now >= most || place.at("root/in/src/large").exists(), "{now} ranges of {most} are left");
        most = now;
    }
    // The server may take a moment to notice that a killed client is gone.
    let report = wait_for("the rest to be copied", || {
        let done = place.start(&line).finish();
        (done.code == Some(0)).then(|| done.json())
    });
    assert!(std::fs::read(place.at("root/in/src/large")).unwrap() == bytes);
    assert!(std::fs::read(place.at("root/in/src/small")).unwrap() == bytes[..5000]);
    let (moved, resumed) = (number(&report["moved_bytes"]), number(&report["resumed_bytes"]));
    if number(&report["kept_bytes"]) <= 5000 {
        assert!((size..=size + 5000).contains(&((moved + resumed) as usize)), "{report}");
        assert!(resumed >= most as u64 * (256 << 10), "{most} ranges were durable: {report}");
    }
    let names = std::fs::read_dir(place.at("root/in/src")).unwrap().count();
    assert_eq!(names, 2, "nothing unfinished is left");
}

#[test]
fn interrupted_and_resumed() {
    let place = Place::new();
    let bytes = noise(12 << 20);
    std::fs::write(place.at("src"), &bytes).unwrap();
    let line = format!("{} 127.0.0.1:in --range 256KiB", place.at("src").display());
    let job = place.start(&format!("{line} --limit 20Mbps"));
    let part = place.at("root/in/.src.skyhaul-part");
    wait_for("the copy to begin", || part.exists().then_some(()));
    job.signal(rustix::process::Signal::INT);
    let done = job.finish().expect(1);
    assert!(done.json()["stopped"].as_str().unwrap().contains("interrupted"), "{}", done.stderr);
    let report = wait_for("the rest to be copied", || {
        let done = place.start(&line).finish();
        (done.code == Some(0)).then(|| done.json())
    });
    assert_eq!(number(&report["moved_bytes"]) + number(&report["resumed_bytes"]), 12 << 20, "{report}");
    assert!(std::fs::read(place.at("root/in/src")).unwrap() == bytes);
}

/// A recording on two disks: the copy is checked as the original is.
#[test]
fn a_recording_keeps_its_index() {
    let site = Site::new(2);
    let mut recorder = site.record(crate::site::ANY);
    send(&recorder.address(), "--pattern --payload 5000 --rate 200Mbps --packets 3000");
    recorder.stop();
    let verdict = site.check(0)["verdict"].clone();
    let place = Place::new();
    let from: Vec<String> = site.disks.iter().map(|disk| disk.join("trial").display().to_string()).collect();
    place.copy(&format!("{} 127.0.0.1:d0 127.0.0.1:d1", from.join(" ")), 0);
    let (d0, d1) = (place.at("root/d0"), place.at("root/d1"));
    let line = format!("check trial --verify --json --disk {} --disk {}", d0.display(), d1.display());
    assert_eq!(crate::site::run(&line).expect(0).json()["verdict"], verdict);
}

#[test]
fn a_full_disk() {
    let place = Place::new();
    let small = place.at("root/small");
    std::fs::create_dir(&small).unwrap();
    let Some(mounted) = Mounted::new(Path::new("tmpfs"), &["-t", "tmpfs", "-o", "size=8m"], &small) else {
        println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
        return;
    };
    let bytes = noise(12 << 20);
    std::fs::write(place.at("src"), &bytes).unwrap();
    std::fs::write(place.at("other"), "fits").unwrap();
    let line = format!("{} {} 127.0.0.1:small", place.at("src").display(), place.at("other").display());
    // Both go into the one directory there is.
    let report = place.copy(&line, 1);
    let error = report["failed"][0]["error"].as_str().unwrap();
    assert!(error.contains("needed") && error.contains("hint: "), "{report}");
    assert_eq!(std::fs::read(small.join("other")).unwrap(), b"fits", "the others go on");
    assert!(mounted.remount("remount,size=64m"));
    place.copy(&line, 0);
    assert!(std::fs::read(small.join("src")).unwrap() == bytes);
}

#[test]
fn wrong_use_is_told_with_a_hint() {
    let place = Place::new();
    std::fs::write(place.at("src"), "x").unwrap();
    std::fs::write(place.at("wrong"), "another-token-of-16").unwrap();
    let src = place.at("src").display().to_string();
    let base = format!("--token-file {} --port {}", place.at("token").display(), place.port);
    for (line, said) in [
        (format!("copy {src} 127.0.0.1:/etc {base}"), "outside the served directories"),
        (format!("copy {src} 127.0.0.1:../x {base}"), "outside the served directories"),
        (format!("copy {src}x 127.0.0.1:in {base}"), "src"),
        (format!("copy 127.0.0.1:none here {base}"), "none"),
        (
            format!(
                "copy {src} 127.0.0.1:in --token-file {} --port {}",
                place.at("wrong").display(),
                place.port
            ),
            "a different token",
        ),
        (
            format!("copy {src} 127.0.0.1:in --token-file {} --port 1", place.at("token").display()),
            "connect to",
        ),
    ] {
        let done = crate::site::run(&line);
        assert_ne!(done.code, Some(0), "{line}");
        let all = done.said();
        assert!(all.contains(said) && all.contains("hint: "), "{line}\n{all}");
    }
}

/// Nothing is left of a measurement that is killed.
#[test]
fn a_measurement_of_disks_leaves_nothing() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = directory.path().display().to_string();
    let report = crate::site::run(&format!("disk {disk} --sizes 4MiB,8MiB --json")).expect(0).json();
    assert_eq!(report["points"].as_array().unwrap().len(), 4, "{report}");
    let fio = crate::site::run(&format!("disk {disk} --sizes 4MiB --fio-json")).expect(0).json();
    assert_eq!(fio["jobs"][0]["write"]["io_bytes"], 4 << 20, "{fio}");
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::INT] {
        let slow = format!("disk {disk} --sizes 64MiB --disk-faults {disk}:latency=200ms");
        let job = Job::start(&words(&slow));
        std::thread::sleep(Duration::from_millis(400));
        job.signal(signal);
        let done = job.finish();
        assert_ne!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
    let done = crate::site::run(&format!("disk {disk}/none")).expect(2);
    assert!(done.stderr.contains("hint: "), "{}", done.stderr);
}

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
