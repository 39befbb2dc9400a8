//! Disks that fill, break, crawl or vanish in mid-scan: the scan goes on, and the report names them.

use crate::site::{ANY, Done, Job, Site, drops, number, send, sum, wait_for, words};
use crate::wires::see;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Start recording, do something to disk 1 once it holds chunks, and send more.
fn in_mid_scan(site: &Site, line: &str, act: impl FnOnce(&Path)) -> (Done, Value) {
    let mut recorder = site.record(&format!("{ANY} {line}"));
    let address = recorder.address();
    let sender = Job::start(&words(&format!("send --json --to {address} {LINE} --packets 16000")));
    let scan = site.disks[1].join("trial");
    wait_for("chunks on the disk", || (std::fs::read_dir(&scan).ok()?.count() > 4).then_some(()));
    act(&site.disks[1]);
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
    let (done, sent) = in_mid_scan(&site, "", remove);
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
    let (done, sent) = in_mid_scan(&site, "", |disk| match root {
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

/// Something mounted, unmounted when it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(what: &Path, options: &[&str], at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(options).arg(what).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }

    /// Every disk of the site a file system of its own. The recorder leaves the last 64 MiB of each free.
    fn tmpfs(site: &Site) -> Option<Vec<Self>> {
        let one = |at: &PathBuf| Self::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=192m"], at);
        let mounted: Option<Vec<Self>> = site.disks.iter().map(one).collect();
        if mounted.is_none() {
            eprintln!("SKIPPED: no file system can be mounted here (not root)");
        }
        mounted
    }

    fn remount(&self, options: &str) -> bool {
        let mount = Command::new("mount").args(["-o", options]).arg(&self.0).status();
        mount.is_ok_and(|status| status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Somebody else fills the disk while it is recorded to.
#[test]
fn a_disk_that_is_really_full() {
    let site = Site::new(3);
    let Some(_mounted) = Mounted::tmpfs(&site) else { return };
    let (done, sent) = in_mid_scan(&site, "", |disk| {
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
    let Some(mut mounted) = Mounted::tmpfs(&site) else { return };
    let (done, sent) = in_mid_scan(&site, "", |_| drop(mounted.remove(1)));
    let report = done.json();
    assert_eq!(disk(&report, 1)["state"], "failed", "{}", report["recording"]);
    told(&report, "disk_failed", &site, 1);
    assert_eq!(number(&report["recording"]["datastreams"][0]["lost"]), 0, "{}", report["recording"]);
    assert_eq!(sum(&report["streams"], "placed") + drops(&report), number(&sent["packets"]));
}
