//! `[station.mount]`: scans as files while the station runs, and after it was killed.
//!
//! Needs `/dev/fuse`, and root or `fusermount3`.

use crate::mounted::can_mount;
use crate::serve::{Serving, frames};
use crate::site::{Site, number, run, wait_for};
use rustix::process::Signal;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount point that is free again when this is dropped.
struct Point(PathBuf);

impl Drop for Point {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-q").arg("-l").arg(&self.0).status();
    }
}

fn record(serving: &Serving, scan: &str) -> Vec<u8> {
    serving.call(&format!("station start {scan} --input a")).expect(0);
    let path = frames(&serving.site, scan, 1, 2000);
    let sent = std::fs::read(&path).unwrap();
    let to = serving.ports[0];
    run(&format!("send --input {} --rate 24Mbps --to udp://127.0.0.1:{to}", path.display())).expect(0);
    wait_for("all to arrive", || {
        (number(&serving.recording(scan)["received_bytes"]) >= sent.len() as u64).then_some(())
    });
    serving.call(&format!("station stop {scan}")).expect(0);
    sent
}

fn read(at: &Path, scan: &str, bytes: usize) -> Vec<u8> {
    wait_for("the file", || {
        let read = std::fs::read(at.join(scan)).ok()?;
        (read.len() >= bytes).then_some(read)
    })
}

/// The station, as soon as it says that scans are mounted.
#[track_caller]
fn mounted(serving: &mut Serving) -> String {
    wait_for("the mount", || {
        let said = serving.job.stderr();
        assert!(serving.job.is_running() && !said.contains("not mounted"), "{said}");
        said.contains("scans on ").then_some(said)
    })
}

#[test]
fn scans_are_files_while_the_station_runs_and_after_it_was_killed() {
    if !can_mount() {
        return;
    }
    let site = Site::new(2);
    let point = Point(site.disks[0].with_file_name("scans"));
    std::fs::create_dir(&point.0).unwrap();
    let section = format!("[station.mount]\npoint = '{}'\ntimeout = '1s'", point.0.display());
    let mut serving = Serving::start(site, &section);
    mounted(&mut serving);
    let sent = record(&serving, "s_a");
    assert!(read(&point.0, "s_a", sent.len()) == sent);
    // A client that keeps a file open, and a kill: the next start removes what is left, and mounts again.
    let held = File::open(point.0.join("s_a")).unwrap();
    serving.kill();
    assert_eq!(std::fs::read_dir(&point.0).unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    serving.restart();
    let said = mounted(&mut serving);
    assert!(said.contains("note: removed a mount from "), "{said}");
    assert!(read(&point.0, "s_a", sent.len()) == sent);
    drop(held);
    // It records while a client holds a file, and neither that nor the end of the service waits for it.
    let held = File::open(point.0.join("s_a")).unwrap();
    let sent = record(&serving, "s_b");
    assert!(read(&point.0, "s_b", sent.len()) == sent);
    serving.job.signal(Signal::TERM);
    let done = serving.job.finish().expect(0);
    assert!(done.stderr.contains("unmounted while in use (1 file open)"), "{}", done.stderr);
    assert_eq!(std::fs::read_dir(&point.0).unwrap().count(), 0);
    drop(held);
}

/// The alarms that hold, by name.
fn alarms(serving: &Serving) -> Vec<String> {
    let (_, figures) = serving.http(&format!("GET /api/v1/figures HTTP/1.1\r\nHost: {}", serving.api), "");
    let alarms = figures["alarms"].as_array().into_iter().flatten();
    alarms.map(|alarm| alarm["kind"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the mount is in a state, everywhere where that is said.
#[track_caller]
fn mount_is(serving: &Serving, state: &str) -> serde_json::Value {
    let is_mounted = state == "mounted";
    let mount =
        wait_for(state, || Some(serving.status()["mount"].clone()).filter(|mount| mount["state"] == state));
    wait_for("the metric and the alarm", || {
        let text = serving.metrics();
        let line = text.lines().find(|line| line.starts_with("skyhaul_station_mounted{"))?;
        let has_alarm = alarms(serving).contains(&"not_mounted".to_owned());
        (line.ends_with(if is_mounted { " 1" } else { " 0" }) && has_alarm != is_mounted).then_some(())
    });
    mount
}

#[test]
fn a_station_records_where_nothing_can_be_mounted_and_mounts_as_soon_as_it_can() {
    let site = Site::new(1);
    let at = site.disks[0].with_file_name("full");
    std::fs::create_dir(&at).unwrap();
    std::fs::write(at.join("file"), "x").unwrap();
    let point = Point(at);
    let serving = Serving::start(site, &format!("[station.mount]\npoint = '{}'", point.0.display()));
    wait_for("the reason", || serving.job.stderr().contains("the directory is not empty").then_some(()));
    let mount = mount_is(&serving, "failed");
    assert!(mount["reason"].as_str().unwrap().contains("not empty") && mount["since"].is_string(), "{mount}");
    let said = run(&format!("status --station http://{}", serving.api)).expect(0).told();
    assert!(said.contains("NOT MOUNTED since ") && said.contains("not empty"), "{said}");
    let sent = record(&serving, "s_a");
    assert!(serving.site.run("cat s_a").expect(0).stdout == sent);
    if can_mount() {
        std::fs::remove_file(point.0.join("file")).unwrap();
        let mount = mount_is(&serving, "mounted");
        assert!(read(&point.0, "s_a", sent.len()) == sent);
        // Another program unmounts it.
        assert!(Command::new("umount").arg(&point.0).status().unwrap().success());
        wait_for("that to be said", || {
            let status = serving.status();
            let text = serving.metrics();
            let failures =
                text.lines().find(|line| line.starts_with("skyhaul_station_mount_failures_total{"))?;
            (status["mount"]["state"] == "mounted" && number_behind(failures) > number(&mount["failures"]))
                .then_some(())
        });
        assert!(read(&point.0, "s_a", sent.len()) == sent);
        let said = serving.job.stderr();
        assert!(said.contains("unmounted by another program; they are mounted again"), "{said}");
        assert_eq!(said.matches("not mounted, which is tried again").count(), 1, "{said}");
    }
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
}

fn number_behind(line: &str) -> u64 {
    line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64
}
