//! Disks that fill, break, crawl or vanish in mid-scan: the scan goes on, and the report names them.

use crate::device::{Device, Mode, Mounted};
use crate::site::see;
use crate::site::{ANY, Done, Job, Site, drops, number, send, sum, wait_for, words};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LINE: &str = "--pattern --payload 5000 --rate 300Mbps";

/// The recorder ended well, and all that came is on the disks that are left.
#[track_caller]
fn whole(site: &Site, done: &Done, sent: &Value) -> Value {
    let report = done.json();
    assert_eq!(done.code, Some(i32::from(drops(&report) > 0)), "{}\n{}", done.stderr, report["recording"]);
    let recording = &report["recording"];
    let stream = &recording["datastreams"][0];
    let placed = sum(&report["streams"], "placed");
    assert_eq!(placed + drops(&report), number(&sent["packets"]), "{}", report["streams"]);
    assert_eq!((number(&stream["lost"]), &stream["submitted"]), (0, &stream["acknowledged"]), "{recording}");
    let check = site.check(0);
    assert!(["whole", "holes"].contains(&check["verdict"].as_str().unwrap()), "{check}");
    let seen = see(&site.cat(), 5032);
    assert_eq!(seen.good, placed);
    assert!(seen.times.is_sorted_by(|a, b| a < b), "the frames are in order over all disks");
    report
}

/// The disk of this number in the report.
fn disk(report: &Value, at: usize) -> &Value {
    &report["recording"]["disks"][at]
}

/// Whether an event of this kind names the disk.
#[track_caller]
fn told(report: &Value, kind: &str, site: &Site, at: usize) {
    let events = report["recording"]["events"].as_array().unwrap();
    let path = site.disks[at].display().to_string();
    assert!(
        events.iter().any(|e| e["kind"] == kind && e["disk"] == path.as_str()),
        "{kind} {path}: {events:?}"
    );
}

fn with_fault(spec: &str) -> (Site, Done, Value) {
    let site = Site::new(3);
    let fault = format!("{}:{spec}", site.disks[1].display());
    let mut recorder = site.record(&format!("{ANY} --disk-faults {fault}"));
    let sent = send(&recorder.address(), &format!("{LINE} --packets 14000"));
    recorder.drained();
    let done = recorder.stop();
    (site, done, sent)
}

/// What was told to be left free is: where that leaves no disk, nothing is begun.
#[test]
fn room_that_is_to_be_left_free() {
    let site = Site::new(2);
    let line = format!("record --scan trial --memory 64MiB --chunk 1MiB {ANY} --reserve 9000000TiB");
    let done = site.run(&line).expect(2);
    assert!(
        done.stderr.contains("No space left on any disk: ") && done.stderr.contains("hint: "),
        "{}",
        done.stderr
    );
    assert!(site.disks.iter().all(|disk| !disk.join("trial").exists()), "{}", done.stderr);
}

/// An attempt that fails takes no name from the next one.
#[test]
fn an_attempt_that_fails_leaves_nothing_behind() {
    let site = Site::new(2);
    let read_only = site.disks[1].join("file");
    std::fs::write(&read_only, "").unwrap();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for line in [
        "--pcap /nonexistent".to_owned(),
        "--pcap /dev/null".to_owned(),
        format!("--listen udp://{}", taken.local_addr().unwrap()),
        format!("{ANY} --disk {}", site.disks[0].display()),
        format!("{ANY} --disk {}", read_only.display()),
        format!("{ANY} --forward tcp://127.0.0.1:0"),
        format!("{ANY} --disk-faults {}:x=1", site.disks[0].display()),
    ] {
        let done = site.run(&format!("record --scan trial --memory 64MiB --chunk 1MiB {line}"));
        assert_eq!(done.code, Some(2), "{line}: {}", done.stderr);
        assert!(!site.disks[0].join("trial").exists(), "{line}: {}", done.stderr);
    }
}

#[test]
fn a_disk_that_is_full() {
    let (site, done, sent) = with_fault("enospc=8MiB");
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 1)["state"], "full", "{}", disk(&report, 1));
    told(&report, "disk_full", &site, 1);
}

#[test]
fn a_disk_that_gives_errors() {
    let (site, done, sent) = with_fault("eio=8MiB");
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 1)["state"], "failed", "{}", disk(&report, 1));
    assert!(!disk(&report, 1)["error"].is_null());
    told(&report, "disk_failed", &site, 1);
}

#[test]
fn a_disk_two_hundred_times_slower() {
    let (site, done, sent) = with_fault("slow=200");
    let report = whole(&site, &done, &sent);
    let bytes = |at| number(&disk(&report, at)["bytes"]);
    assert!(
        bytes(1) < bytes(0) + bytes(2),
        "the slow disk gets less: {} {} {}",
        bytes(0),
        bytes(1),
        bytes(2)
    );
}

/// Start recording, do something to disk `at` once it holds chunks, and send more.
fn in_mid_scan(site: &Site, at: usize, act: impl FnOnce(&Path)) -> (Done, Value) {
    let mut recorder = site.record(ANY);
    let address = recorder.address();
    let mut sender = Job::start(&words(&format!("send --json --to {address} {LINE} --packets 16000")));
    let scan = site.disks[at].join("trial");
    wait_for("chunks on the disk", || {
        let chunks = std::fs::read_dir(&scan).ok()?.count();
        // A disk whose thread gets no processor is left out for a while: then fewer have to do.
        (chunks > 4 || chunks > 1 && !sender.is_running()).then_some(())
    });
    act(&site.disks[at]);
    let sent = sender.finish().expect(0).json();
    recorder.drained();
    (recorder.stop(), sent)
}

/// What was on it is gone with it; what was in flight, and all that follows, is on the others.
#[test]
fn a_disk_that_is_removed() {
    let site = Site::new(3);
    // The recorder may put a file into what is being emptied.
    let remove = |disk: &Path| wait_for("an empty disk", || std::fs::remove_dir_all(disk).ok());
    let (done, sent) = in_mid_scan(&site, 1, remove);
    let report = done.json();
    let stream = &report["recording"]["datastreams"][0];
    assert_eq!(disk(&report, 1)["state"], "failed", "{}", report["recording"]);
    told(&report, "disk_failed", &site, 1);
    assert_eq!(number(&stream["lost"]), 0, "{stream}");
    let placed = sum(&report["streams"], "placed");
    assert_eq!(placed + drops(&report), number(&sent["packets"]));
    // The check says exactly which chunks went with the disk.
    let check = site.run("check trial --verify --json");
    let (value, acknowledged) = (check.json(), number(&stream["acknowledged"]));
    assert_eq!(check.code, Some(1), "{value}");
    let proven = sum(&value["datastreams"], "proven");
    assert!(proven < acknowledged && proven + 1 > acknowledged / 2, "{proven} of {acknowledged}: {value}");
    assert_eq!(value["datastreams"][0]["damaged"].as_array().map(Vec::len), Some(0), "{value}");
    let gone: u64 = crate::site::ranges(&value["datastreams"][0]["gaps"]).iter().map(|r| r.1 - r.0).sum();
    assert!(gone + proven <= acknowledged, "{gone} gone, {proven} proven of {acknowledged}");
    let text = value["findings"].to_string();
    assert!(text.contains("trial"), "{text}");
}

/// Root may write to read-only directories, so for root the directory is mounted on itself, read-only.
#[test]
fn a_disk_that_becomes_read_only() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new(3);
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path.join("trial"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let root = rustix::process::geteuid().is_root();
    let path = site.disks[1].clone();
    let mut mounted = None;
    let (done, sent) = in_mid_scan(&site, 1, |disk| match root {
        true => mounted = Mounted::new(&path, &["--bind"], &path).filter(|m| m.remount("remount,bind,ro")),
        false => mode(disk, 0o555),
    });
    if !root {
        mode(&site.disks[1], 0o755);
    } else if mounted.is_none() {
        eprintln!("SKIPPED: nothing can be mounted here");
        return;
    }
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 1)["state"], "failed", "{}", report["recording"]);
    told(&report, "disk_failed", &site, 1);
}

/// Every disk of the site a file system of its own. The recorder leaves the last 64 MiB of each free.
pub(crate) fn tmpfs(site: &Site) -> Option<Vec<Mounted>> {
    let one = |at: &PathBuf| Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=192m"], at);
    let mounted: Option<Vec<Mounted>> = site.disks.iter().map(one).collect();
    if mounted.is_none() {
        eprintln!("SKIPPED: no file system can be mounted here (not root)");
    }
    mounted
}

/// Somebody else fills the disk while it is recorded to.
#[test]
fn a_disk_that_is_really_full() {
    let site = Site::new(3);
    let Some(_mounted) = tmpfs(&site) else { return };
    let (done, sent) = in_mid_scan(&site, 1, |disk| {
        let mut file = std::fs::File::create(disk.join("other")).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 1 << 16]).is_ok() {}
    });
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 1)["state"], "full", "{}", report["recording"]);
    told(&report, "disk_full", &site, 1);
}

#[test]
fn a_disk_that_is_pulled_out() {
    let site = Site::new(3);
    let Some(mut mounted) = tmpfs(&site) else { return };
    let (done, sent) = in_mid_scan(&site, 1, |_| drop(mounted.remove(1)));
    let report = done.json();
    assert_eq!(disk(&report, 1)["state"], "failed", "{}", report["recording"]);
    told(&report, "disk_failed", &site, 1);
    assert_eq!(number(&report["recording"]["datastreams"][0]["lost"]), 0, "{}", report["recording"]);
    assert_eq!(sum(&report["streams"], "placed") + drops(&report), number(&sent["packets"]));
}

/// A site every disk of which is on a device that fails when it is told to.
fn failing(disks: usize) -> Option<(Site, Vec<Device>)> {
    let site = Site::new(disks);
    let devices: Result<Vec<Device>, String> = site.disks.iter().map(|at| Device::new(at)).collect();
    let devices = devices.map_err(|why| println!("SKIPPED: {why}")).ok()?;
    Some((site, devices))
}

/// From one write to the next, everything is an error, and the file system stops trusting its disk.
#[test]
fn a_device_that_breaks() {
    let Some((site, devices)) = failing(3) else { return };
    let (done, sent) = in_mid_scan(&site, 0, |_| devices[0].set(Mode::Errors));
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 0)["state"], "failed", "{}", report["recording"]);
    told(&report, "disk_failed", &site, 0);
}

/// What failed once is not trusted again in this scan, however it answers now.
#[test]
fn a_device_that_breaks_for_a_moment() {
    let Some((site, devices)) = failing(3) else { return };
    let (done, sent) = in_mid_scan(&site, 0, |_| {
        devices[0].set(Mode::Errors);
        std::thread::sleep(Duration::from_millis(300));
        devices[0].set(Mode::Good);
    });
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 0)["state"], "failed", "{}", report["recording"]);
    told(&report, "disk_failed", &site, 0);
}

/// As the kernel does when it finds the file system damaged: read-only at once, with files open for writing.
#[test]
fn a_file_system_that_turns_read_only_under_open_files() {
    let Some((site, devices)) = failing(3) else { return };
    let mut turned = false;
    let (done, sent) = in_mid_scan(&site, 0, |_| {
        turned = devices[0].disk.as_ref().is_some_and(|disk| disk.remount("remount,abort"));
    });
    if !turned {
        println!(
            "SKIPPED: this kernel cannot abort an ext4 file system by mount -o remount,abort (Linux 2.6.30)"
        );
        return;
    }
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 0)["state"], "failed", "{}", report["recording"]);
    told(&report, "disk_failed", &site, 0);
}

/// No byte is left, not even those that the recorder would leave free: somebody else was faster.
#[test]
fn a_file_system_without_a_free_byte() {
    let Some((site, _devices)) = failing(3) else { return };
    let (done, sent) = in_mid_scan(&site, 0, |disk| {
        let mut file = std::fs::File::create(disk.join("other")).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 1 << 16]).is_ok() {}
    });
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 0)["state"], "full", "{}", report["recording"]);
    told(&report, "disk_full", &site, 0);
}

/// Record while `devices` do not answer for `silence`; the sender goes on until they do, and a little longer.
fn while_they_hang(site: &Site, devices: &[Device], silence: Duration) -> (Done, Value) {
    let mut recorder = site.record(ANY);
    let address = recorder.address();
    let seconds = silence.as_secs() + 8;
    let sender =
        format!("send --json --to {address} --pattern --payload 5000 --rate 20Mbps --duration {seconds}s");
    let sender = Job::start(&words(&sender));
    let scan = site.disks[0].join("trial");
    wait_for("chunks on the disk", || (std::fs::read_dir(&scan).ok()?.count() > 2).then_some(()));
    devices.iter().for_each(|device| device.set(Mode::Hangs));
    std::thread::sleep(silence);
    devices.iter().for_each(|device| device.set(Mode::Good));
    let sent = sender.finish().expect(0).json();
    recorder.drained();
    (recorder.stop(), sent)
}

/// Half a minute, as a disk takes that remaps a sector or a controller that resets: the scan goes on on the others.
#[test]
fn a_device_that_hangs_for_half_a_minute() {
    let Some((site, devices)) = failing(3) else { return };
    let (done, sent) = while_they_hang(&site, &devices[..1], Duration::from_secs(30));
    let report = whole(&site, &done, &sent);
    told(&report, "disk_stalled", &site, 0);
    told(&report, "disk_resumed", &site, 0);
    assert_eq!(disk(&report, 0)["state"], "active", "{}", report["recording"]);
}

/// Where there is no other disk, memory holds what comes meanwhile: a disk that may come back is better than none.
#[test]
fn all_devices_hang_at_once() {
    let Some((site, devices)) = failing(2) else { return };
    let (done, sent) = while_they_hang(&site, &devices, Duration::from_secs(12));
    let report = whole(&site, &done, &sent);
    told(&report, "disk_stalled", &site, 0);
    told(&report, "disk_stalled", &site, 1);
}

#[test]
fn the_only_device_hangs() {
    let Some((site, devices)) = failing(1) else { return };
    let (done, sent) = while_they_hang(&site, &devices, Duration::from_secs(12));
    let report = whole(&site, &done, &sent);
    told(&report, "disk_stalled", &site, 0);
}
