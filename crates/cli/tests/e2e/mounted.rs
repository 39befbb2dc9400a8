//! `skyhaul mount`: each scan one file with the bytes of `cat`, at any offset, for several readers, while it is recorded;
//! damage is an error or fill; a mount always ends.
//!
//! Needs `/dev/fuse`, and root or `fusermount3`.

use crate::device::Device;
use crate::foreign;
use crate::site::{ANY, Done, Job, Site, send, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const LINE: &str = "--pattern --payload 5000 --threads 2 --rate 300Mbps";
/// Input/output error.
const EIO: Option<i32> = Some(5);

/// The disks of a site, mounted; unmounted when it is dropped, however it ended.
pub(crate) struct ScanPoint {
    at: PathBuf,
    job: Option<Job>,
}

/// Whether this user may mount; if not, it says so.
pub(crate) fn can_mount() -> bool {
    let site = Site::new(1);
    ScanPoint::new(&site, "").is_some()
}

impl ScanPoint {
    /// `None`, and why in the output, where nothing can be mounted.
    pub(crate) fn new(site: &Site, options: &str) -> Option<Self> {
        let root = rustix::process::geteuid().is_root();
        if !Path::new("/dev/fuse").exists() {
            println!("SKIPPED: there is no /dev/fuse (modprobe fuse)");
            return None;
        }
        if !root && Command::new("fusermount3").arg("-V").output().is_err() {
            println!("SKIPPED: mounting without root needs fusermount3 (apt-get install fuse3)");
            return None;
        }
        let at = site.disks[0].with_file_name("scans");
        let _ = std::fs::create_dir(&at);
        let mut line = words("mount");
        line.extend(site.disk_words());
        line.push(at.display().to_string());
        line.extend(words(&format!("--json {options}")));
        let mut job = Job::start(&line);
        wait_for("the mount", || (job.stderr().contains("mounted ") || !job.is_running()).then_some(()));
        if !job.stderr().contains("mounted ") {
            let done = job.finish();
            // A container may have the device, and not the right.
            let is_right =
                ["not permitted", "permission denied", "fusermount3"].iter().any(|w| done.stderr.contains(w));
            assert!(is_right, "{}", done.stderr);
            println!("SKIPPED: this user may not mount: {}", done.stderr.trim());
            return None;
        }
        assert!(job.is_running(), "{}", job.stderr());
        Some(Self { at, job: Some(job) })
    }

    pub(crate) fn file(&self, name: &str) -> File {
        File::open(self.at.join(name)).unwrap()
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at.join(name)).unwrap()
    }

    pub(crate) fn said(&self) -> String {
        self.job.as_ref().unwrap().stderr()
    }

    /// End it as Ctrl-C does.
    fn stop(mut self) -> Done {
        let job = self.job.take().unwrap();
        job.signal(Signal::INT);
        job.finish()
    }
}

impl Drop for ScanPoint {
    fn drop(&mut self) {
        self.job = None;
        let _ = Command::new("umount").arg("-q").arg("-l").arg(&self.at).status();
    }
}

/// A recording on two disks.
fn recorded(packets: u32) -> Site {
    let site = Site::new(2);
    record_on(&site, packets);
    site
}

fn record_on(site: &Site, packets: u32) {
    let mut recorder = site.record(&format!("{ANY} --memory 64MiB --chunk 6MiB"));
    send(&recorder.address(), &format!("{LINE} --packets {packets}"));
    recorder.drained();
    recorder.stop();
}

/// Each part of a file that can be read, and `None` where it is an error; page by page.
fn pages(file: &File, bytes: usize) -> Vec<Option<Vec<u8>>> {
    let page = |at: usize| {
        let mut page = vec![0; 4096.min(bytes - at)];
        match file.read_exact_at(&mut page, at as u64) {
            Ok(()) => Some(page),
            Err(error) => {
                assert_eq!(error.raw_os_error(), EIO, "at byte {at}");
                None
            }
        }
    };
    (0..bytes).step_by(4096).map(page).collect()
}

fn chunk(site: &Site, number: u32) -> PathBuf {
    let name = format!("trial/trial.{number:08}");
    site.disks.iter().map(|disk| disk.join(&name)).find(|path| path.exists()).unwrap()
}

fn report(done: Done, code: i32) -> Value {
    done.expect(code).json()
}

#[test]
fn any_range_has_the_bytes_of_cat_for_several_readers() {
    let site = recorded(5000);
    let whole = site.cat();
    let Some(scans) = ScanPoint::new(&site, "--memory 32MiB") else { return };
    assert_eq!(scans.bytes("trial"), whole);
    let names: Vec<_> =
        std::fs::read_dir(&scans.at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["trial"]);
    let about = std::fs::metadata(scans.at.join("trial")).unwrap();
    assert_eq!((about.len(), about.mode() & 0o777), (whole.len() as u64, 0o444));
    assert!(File::create(scans.at.join("trial")).is_err() && File::create(scans.at.join("new")).is_err());
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            let (file, whole) = (scans.file("trial"), &whole);
            scope.spawn(move || {
                let mut random = reader * 7919 + 1;
                for _ in 0..60 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let at = (random >> 20) as usize % whole.len();
                    let bytes = ((random >> 50) as usize * 64 + 1).min(whole.len() - at);
                    let mut read = vec![0; bytes];
                    file.read_exact_at(&mut read, at as u64).unwrap();
                    assert!(read == whole[at..at + bytes], "{bytes} bytes at {at}");
                }
            });
        }
    });
    let space = rustix::fs::statvfs(&scans.at).unwrap();
    let disk = rustix::fs::statvfs(&site.disks[0]).unwrap();
    let bytes = |of: rustix::fs::StatVfs| of.f_blocks * of.f_frsize;
    assert_eq!(bytes(space) / 8192, bytes(disk) / 8192, "both disks are one file system, counted once");
    let inode = about.ino();
    let done = report(scans.stop(), 0);
    assert_eq!((&done["errors"], &done["files"]), (&0.into(), &1.into()), "{done}");
    let Some(scans) = ScanPoint::new(&site, "tri*") else { return };
    let again = std::fs::metadata(scans.at.join("trial")).unwrap();
    assert_eq!((again.ino(), again.mtime_nsec()), (inode, about.mtime_nsec()), "the same file as before");
    let Some(none) = ScanPoint::new(&Site::new(1), "other*") else { return };
    assert_eq!(std::fs::read_dir(&none.at).unwrap().count(), 0);
}

#[test]
fn a_thread_is_a_file_of_its_own() {
    const FRAME: usize = 5032;
    let site = recorded(3000);
    let whole = site.cat();
    let Some(scans) = ScanPoint::new(&site, "--view threads") else { return };
    assert_eq!(scans.bytes("trial"), whole);
    for thread in 0..2u16 {
        // Bits 16 to 25 of the fourth word.
        let is_of = |frame: &&[u8]| u16::from_le_bytes([frame[14], frame[15]]) & 0x3FF == thread;
        let own: Vec<u8> = whole.chunks_exact(FRAME).filter(is_of).flatten().copied().collect();
        let name = format!("trial.thread{thread}");
        assert!(own.len() > FRAME * 1000 && scans.bytes(&name) == own);
        let mut part = vec![0; 100_000];
        scans.file(&name).read_exact_at(&mut part, 777_777).unwrap();
        assert_eq!(part, own[777_777..877_777]);
    }
}

#[test]
fn a_scan_without_an_index_is_read_as_cat_reads_it() {
    let site = recorded(3000);
    let whole = site.cat();
    for disk in &site.disks {
        std::fs::remove_file(disk.join("trial/trial.index")).unwrap();
    }
    let Some(scans) = ScanPoint::new(&site, "") else { return };
    assert_eq!(scans.bytes("trial"), whole);
}

#[test]
fn a_scan_of_a_mark_6_is_one_file() {
    let site = foreign::module(&[]);
    let whole = foreign::stream(0..foreign::BLOCKS);
    let Some(scans) = ScanPoint::new(&site, "") else { return };
    assert_eq!(scans.bytes(foreign::SCAN), whole);
    let mut part = [0; 70_000];
    scans.file(foreign::SCAN).read_exact_at(&mut part, 123_456).unwrap();
    assert_eq!(part, whole[123_456..193_456]);
}

#[test]
fn damage_is_an_error_at_its_bytes_or_fill() {
    let site = recorded(6000);
    let whole = site.cat();
    // A byte of a chunk, and all of another one.
    let first = std::fs::metadata(chunk(&site, 0)).unwrap().len() as usize;
    let (damaged, missing) = (chunk(&site, 1), chunk(&site, 2));
    let lost = std::fs::metadata(&missing).unwrap().len() as usize;
    File::options().write(true).open(&damaged).unwrap().write_all_at(&[0x5A], 5_000_000).unwrap();
    std::fs::remove_file(&missing).unwrap();
    let Some(scans) = ScanPoint::new(&site, "") else { return };
    let file = scans.file("trial");
    assert_eq!(file.metadata().unwrap().len(), whole.len() as u64);
    let read = pages(&file, whole.len());
    let bad = |at: usize| {
        // Parts of a chunk are 4 MiB: the second one of chunk 1, and chunk 2.
        let (from, to) = (first + (4 << 20), 2 * first + lost);
        at + 4096 > from && at < to
    };
    for (page, got) in read.iter().enumerate() {
        let at = page * 4096;
        match got {
            Some(got) => assert!(!bad(at) && got[..] == whole[at..at + got.len()], "page {page}"),
            None => assert!(bad(at), "page {page} is an error"),
        }
    }
    wait_for("both gaps to be reported", || {
        let said = scans.said();
        (said.contains("chunk 1 ") && said.contains("chunk 2 ")).then_some(())
    });
    drop(file);
    assert!(report(scans.stop(), 1)["errors"].as_u64() > Some(0));
    let Some(filled) = ScanPoint::new(&site, "--fill") else { return };
    let read = filled.bytes("trial");
    assert_eq!(read.len(), whole.len());
    let fill = |at: usize| [0x44, 0x33, 0x22, 0x11][at % 4];
    for (at, (got, was)) in read.iter().zip(&whole).enumerate() {
        let bad = (first + (4 << 20)..2 * first + lost).contains(&at);
        assert_eq!(*got, if bad { fill(at) } else { *was }, "byte {at}");
    }
    drop(filled);
    let Some(as_it_is) = ScanPoint::new(&site, "--no-check") else { return };
    let mut part = vec![0; first];
    as_it_is.file("trial").read_exact_at(&mut part, first as u64).unwrap();
    assert_eq!(part, std::fs::read(&damaged).unwrap());
}

#[test]
fn a_scan_grows_while_it_is_recorded() {
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 64MiB --chunk 1MiB"));
    let address = recorder.address();
    let Some(scans) = ScanPoint::new(&site, "") else { return };
    let slowly = "--pattern --payload 5000 --threads 2 --rate 60Mbps --packets 6000";
    let sender = Job::start(&words(&format!("send --json --to {address} {slowly}")));
    let size = || std::fs::metadata(scans.at.join("trial")).map_or(0, |about| about.len());
    wait_for("the scan to appear", || (size() > 0).then_some(()));
    let mut file = scans.file("trial");
    let (mut read, mut ends) = (Vec::new(), 0);
    // The end moves for a file that is open.
    wait_for("its end to move", || {
        ends += usize::from(file.read_to_end(&mut read).unwrap() > 0);
        (ends > 2).then_some(())
    });
    sender.finish().expect(0);
    recorder.drained();
    recorder.stop();
    let whole = site.cat();
    wait_for("the end of it", || {
        file.read_to_end(&mut read).unwrap();
        assert!(whole.starts_with(&read), "{} bytes", read.len());
        (read.len() == whole.len()).then_some(())
    });
    assert_eq!(size(), whole.len() as u64);
    drop(file);
    report(scans.stop(), 0);
}

#[test]
fn a_mount_ends_while_a_file_is_open_and_is_replaced_after_a_kill() {
    let site = recorded(2000);
    let Some(scans) = ScanPoint::new(&site, "--timeout 1s") else { return };
    let file = scans.file("trial");
    let at = scans.at.clone();
    let done = scans.stop().expect(0);
    assert!(done.stderr.contains("unmounted while in use (1 file open)"), "{}", done.stderr);
    assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0);
    drop(file);
    let Some(mut scans) = ScanPoint::new(&site, "") else { return };
    let twice =
        Job::start(&[words("mount"), site.disk_words(), vec![at.display().to_string()]].concat()).finish();
    assert!(twice.expect(2).stderr.contains("mounted there already"));
    let job = scans.job.take().unwrap();
    job.signal(Signal::KILL);
    job.finish();
    let gone = std::fs::read_dir(&at).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::NotConnected);
    let Some(again) = ScanPoint::new(&site, "") else { return };
    assert!(again.said().contains("note: removed a mount from "), "{}", again.said());
    assert_eq!(again.bytes("trial"), site.cat());
    // Somebody else unmounts it.
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    let mut again = again;
    let done = again.job.take().unwrap().finish().expect(0);
    assert_eq!(done.json()["errors"], 0);
    std::mem::forget(scans);
}

/// A disk that stops answering costs a reader the time limit, once, and nobody else anything.
#[test]
fn a_disk_that_hangs_is_an_error_within_the_limit() {
    let site = Site::new(2);
    let device = match Device::new(&site.disks[1]) {
        Ok(device) => device,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    record_on(&site, 6000);
    let whole = site.cat();
    let Some(scans) = ScanPoint::new(&site, "--timeout 2s --memory 32MiB") else { return };
    let on_device = |number: u32| chunk(&site, number).starts_with(&site.disks[1]);
    let chunk_bytes = std::fs::metadata(chunk(&site, 0)).unwrap().len();
    let hangs = (0..4).find(|&number| on_device(number)).expect("a chunk on the device");
    let answers = (0..4).find(|&number| !on_device(number)).expect("a chunk on the other disk");
    device.forget();
    let hanging = device.hang();
    let file = scans.file("trial");
    let read = |number: u32| {
        let (at, mut part) = (u64::from(number) * chunk_bytes + 100_000, vec![0; 5000]);
        file.read_exact_at(&mut part, at).map(|()| assert_eq!(part, whole[at as usize..][..5000]))
    };
    assert_eq!(read(hangs).unwrap_err().raw_os_error(), EIO);
    read(answers).unwrap();
    wait_for("the disk to be named", || {
        // Both threads of a disk hang once two of its units are wanted.
        let _ = file.read_exact_at(&mut [0; 10], u64::from(hangs) * chunk_bytes + (5 << 20));
        scans.said().contains("does not answer").then_some(())
    });
    drop(hanging);
    wait_for("the disk to answer again", || read(hangs).ok());
    drop(file);
    assert_eq!(scans.stop().code, Some(1), "reads failed");
}

#[test]
fn what_cannot_be_mounted_says_why() {
    let site = Site::new(1);
    let disk = site.disks[0].display().to_string();
    let inside = site.disks[0].join("inside");
    std::fs::create_dir(&inside).unwrap();
    for (line, why) in [
        (format!("mount --disk {disk} /nonexistent"), "mkdir -p /nonexistent"),
        (format!("mount --disk {disk} {}", inside.display()), "is searched for scans"),
        (format!("mount --disk {disk} {disk}"), "the directory is not empty"),
        (format!("mount --disk {disk} /dev/null"), "not a directory"),
        (format!("mount --disk {disk} {} a/b", inside.display()), "expected the name of a scan"),
        (format!("mount --disk /nonexistent {}", std::env::temp_dir().display()), "hint: "),
    ] {
        let done = Job::start(&words(&line)).finish().expect(2);
        assert!(done.stderr.contains(why) && done.stderr.contains("hint: "), "{line}: {}", done.stderr);
    }
}
