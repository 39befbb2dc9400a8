//! Disks that fill, break, crawl or vanish in mid-scan: the scan continues, and the report names them. For disks that fill up:
//! the forecast, the alarm before the first loss, and counts that are true at each moment.
//!
//! Output that cannot be written: text for people is never a reason to fail, data and reports always are.

use crate::balance::{Place, plane_of};
use crate::device::{Device, Mode, Mounted};
use crate::serve::SECOND;
use crate::site::{ANY, Done, Job, Site, drops, number, run, see, send, sum, vdif, wait_for, words};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
    let (site, done, sent) = with_fault("enospc=2MiB");
    let report = whole(&site, &done, &sent);
    assert_eq!(disk(&report, 1)["state"], "full", "{}", disk(&report, 1));
    told(&report, "disk_full", &site, 1);
}

#[test]
fn a_disk_that_gives_errors() {
    let (site, done, sent) = with_fault("eio=2MiB");
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

/// Start recording, do something to disk `at` once it holds chunks, and send until the others have several more.
fn in_mid_scan(site: &Site, at: usize, act: impl FnOnce(&Path)) -> (Done, Value) {
    in_mid_scan_with(site, "", at, act)
}

/// The same with more options of `record`.
pub(crate) fn in_mid_scan_with(
    site: &Site,
    options: &str,
    at: usize,
    act: impl FnOnce(&Path),
) -> (Done, Value) {
    let mut recorder = site.record(&format!("{ANY} {options}"));
    let address = recorder.address();
    let mut sender = Job::start(&words(&format!("send --json --to {address} {LINE} --packets 48000")));
    let chunks = |disk: &PathBuf| std::fs::read_dir(disk.join("trial")).map_or(0, Iterator::count);
    wait_for("chunks on the disk", || {
        let chunks = chunks(&site.disks[at]);
        // A disk whose thread gets no processor is left out for a while: then fewer have to do.
        (chunks > 4 || chunks > 1 && !sender.is_running()).then_some(())
    });
    let others =
        || site.disks.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, disk)| chunks(disk)).sum();
    let before: usize = others();
    act(&site.disks[at]);
    // It is its turn, too, while these are filled.
    wait_for("more chunks", || (others() > before + 24 || !sender.is_running()).then_some(()));
    if sender.is_running() {
        sender.signal(Signal::INT);
    }
    let sent = sender.finish().json();
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
    let hanging: Vec<_> = devices.iter().map(Device::hang).collect();
    std::thread::sleep(silence);
    drop(hanging);
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

const SLOW_LINE: &str = "--pattern --payload 5000 --rate 200Mbps";

/// The place of the first event of a kind.
#[track_caller]
fn first(recording: &Value, kind: &str) -> usize {
    let events = recording["events"].as_array().unwrap();
    events.iter().position(|event| event["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {events:?}"))
}

/// The numbers of a ledger, which must add up.
#[track_caller]
fn balanced(ledger: &Value) -> (u64, u64, u64) {
    let n = |field: &str| number(&ledger[field]);
    let fates = n("recorded") + n("pending") + n("discarded") + n("damaged") + n("unverified");
    assert_eq!(n("received"), fates, "{ledger}");
    assert_eq!(n("never_received"), n("in_chunks") + n("between_chunks"), "{ledger}");
    let by: u64 = ledger["discarded_by"].as_object().unwrap().values().map(number).sum();
    assert_eq!(n("discarded"), by, "{ledger}");
    (n("received"), n("recorded"), n("discarded"))
}

/// The report of a recorder on full disks, with which `check`, `ls` and `cat` agree.
#[track_caller]
fn agreed(site: &Site, report: &Value) -> (u64, u64, u64) {
    assert!(report["unbalanced"].is_null(), "{report}");
    let recording = &report["recording"];
    let sums = balanced(&recording["ledger"]);
    assert_eq!(sums.0, sum(&report["streams"], "placed"), "{recording}");
    assert_eq!(
        number(&recording["ledger"]["never_received"]),
        sum(&report["streams"], "lost"),
        "{recording}"
    );
    let check = site.check(1);
    assert_eq!(check["ledger"], recording["ledger"], "{check}");
    let ls: Value = site.run("ls --json").expect(1).json();
    assert_eq!(ls[0]["ledger"], recording["ledger"], "{ls}");
    let cat = site.run("cat trial").expect(1);
    assert_eq!(see(&cat.stdout, 5032).good, sums.1, "{}", cat.stderr);
    sums
}

#[test]
fn all_disks_fill_up_during_a_scan() {
    let site = Site::new(2);
    let Some(_mounted) = tmpfs(&site) else { return };
    // Some 40 MB on each disk: 100 MB come.
    let mut recorder = site.record(&format!("{ANY} --reserve 150MiB"));
    let sent = send(&recorder.address(), &format!("{SLOW_LINE} --packets 20000"));
    recorder.drained();
    // At once, and not only at the end.
    let said = wait_for("the warning", || {
        let said = recorder.stderr();
        said.contains("warning: chunk_lost: ").then_some(said)
    });
    let at = |what: &str| said.find(what).unwrap_or_else(|| panic!("{what}: {said}"));
    assert!(at("warning: space_low: ") < at("warning: disks_full: "), "{said}");
    assert!(at("warning: disks_full: ") < at("warning: chunk_lost: "), "{said}");
    let report = recorder.stop().expect(1).json();
    let recording = &report["recording"];
    assert!(first(recording, "space_low") < first(recording, "disks_full"), "{recording}");
    assert!(first(recording, "disk_full") < first(recording, "disks_full"), "{recording}");
    assert!(first(recording, "disks_full") < first(recording, "chunk_lost"), "{recording}");
    for disk in recording["disks"].as_array().unwrap() {
        assert_eq!(disk["state"], "full", "{disk}");
    }
    let (received, recorded, discarded) = agreed(&site, &report);
    assert_eq!(received + drops(&report), number(&sent["packets"]));
    assert!(recorded > 8_000 && discarded > 1_000, "{recording}");
    let stream = &recording["datastreams"][0];
    assert_eq!(number(&stream["lost_bytes"]), discarded * 5032, "{stream}");
    assert_eq!(number(&recording["ledger"]["discarded_by"]["disks_full"]), discarded, "{recording}");
    // One event, however many chunks.
    let lost = recording["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "chunk_lost");
    let texts: Vec<&str> = lost.map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].starts_with(&format!("{} chunks from ", number(&stream["lost"]))), "{texts:?}");
    assert!(
        texts[0].contains(&format!("discarded, {discarded} frames in {} bytes", discarded * 5032)),
        "{texts:?}"
    );
    // The forecast was that of the rate.
    let space = &recording["space"];
    let rate = space["bytes_per_second"].as_f64().unwrap();
    assert!(rate > 1e6 && space["seconds_left"].as_f64().is_some_and(|left| left < 2.0), "{space}");
    let check = site.run("check trial").expect(1);
    let discarded = skyhaul_count(discarded);
    assert!(
        check
            .told()
            .contains(&format!("DAMAGED; {discarded} frames were received and discarded (disks full)")),
        "{}",
        check.stderr
    );
}

/// A number as the tool prints it.
fn skyhaul_count(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap()).collect();
    groups.join(" ")
}

/// The report without `--json` has the same numbers.
#[test]
fn the_text_says_what_was_discarded() {
    let site = Site::new(1);
    let Some(_mounted) = tmpfs(&site) else { return };
    let mut recorder =
        site.start(&format!("record --scan trial --memory 128MiB --chunk 1MiB {ANY} --reserve 180MiB"));
    send(&recorder.address(), &format!("{SLOW_LINE} --packets 6000"));
    let done = recorder.stop().expect(1);
    let said = done.said();
    let line = said.lines().find(|line| line.contains("acknowledged,")).unwrap();
    assert!(line.contains("; DISCARDED ") && line.ends_with("): disks full"), "{line}");
    assert!(said.contains(" FULL"), "{said}");
}

fn fill(disk: &Path) {
    let mut file = std::fs::File::create(disk.join("other")).unwrap();
    while file.write_all(&[1; 1 << 16]).is_ok() {}
}

/// Nothing is begun that cannot be recorded.
#[test]
fn disks_that_are_full_at_the_start_are_refused() {
    let site = Site::new(2);
    let Some(_mounted) = tmpfs(&site) else { return };
    let line = format!("record --scan trial --memory 64MiB --chunk 1MiB {ANY}");
    site.disks.iter().for_each(|disk| fill(disk));
    let done = site.run(&line).expect(2);
    for part in
        ["No space left on any disk: ", " has 0.0 MB free", "67.1 MB of each must remain free", "hint: "]
    {
        assert!(done.said().contains(part), "{part}: {}", done.said());
    }
    assert!(site.disks.iter().all(|disk| !disk.join("trial").exists()));
}

/// The index takes 256 KiB of a disk: with room for a chunk alone, nothing would be recorded.
#[test]
fn room_for_one_chunk_is_used_or_refused_before_it_begins() {
    for kib in [600, 1024, 1200, 1276, 1280, 1300, 1500, 2400] {
        let site = Site::new(1);
        let size = format!("size={kib}k");
        let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", &size], &site.disks[0])
        else {
            eprintln!("SKIPPED: no file system can be mounted here (not root)");
            return;
        };
        if kib < 1280 {
            let line = format!("record --scan trial --memory 128MiB --chunk 1MiB {ANY} --reserve 0");
            let said = site.run(&line).expect(2).said();
            assert!(
                said.contains("and a chunk and the index need 1.3 MB") && said.contains("hint: "),
                "{said}"
            );
            assert!(!site.disks[0].join("trial").exists(), "{kib}");
            continue;
        }
        let mut recorder = site.record(&format!("{ANY} --reserve 0"));
        let sent = send(&recorder.address(), &format!("{SLOW_LINE} --packets 1500"));
        recorder.drained();
        let report = recorder.stop().expect(1).json();
        let (received, recorded, discarded) = agreed(&site, &report);
        assert_eq!(received + drops(&report), number(&sent["packets"]), "{kib}: {report}");
        // Chunks of 1 MiB have 208 frames.
        assert!(recorded >= 208 * u64::from(kib > 2304) + 208 && discarded > 0, "{kib}: {recorded} {report}");
        assert_eq!(
            number(&report["recording"]["ledger"]["discarded_by"]["disks_full"]),
            discarded,
            "{report}"
        );
        first(&report["recording"], "chunk_lost");
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_called_full() {
    let site = Site::new(2);
    let Some(_mounted) = tmpfs(&site) else { return };
    // Room for the index, and for no chunk.
    std::fs::write(site.disks[1].join("other"), vec![1; 128 << 20]).unwrap();
    let mut recorder = site.record(ANY);
    let sent = send(&recorder.address(), &format!("{SLOW_LINE} --packets 2000"));
    let report = recorder.stop().json();
    let recording = &report["recording"];
    assert_eq!(
        (recording["disks"][0]["state"].as_str(), recording["disks"][1]["state"].as_str()),
        (Some("active"), Some("full"))
    );
    assert_eq!(
        number(&recording["ledger"]["recorded"]) + drops(&report),
        number(&sent["packets"]),
        "{recording}"
    );
    first(recording, "disk_full");
}

/// An operator who deletes something in mid-scan is not told that the disk is full for the rest of it.
#[test]
fn a_disk_is_used_again_when_space_is_freed() {
    let site = Site::new(1);
    let Some(_mounted) = tmpfs(&site) else { return };
    std::fs::write(site.disks[0].join("other"), vec![1; 60 << 20]).unwrap();
    let mut recorder = site.record(&format!("{ANY} --reserve 110MiB"));
    let to = recorder.address();
    send(&to, &format!("{SLOW_LINE} --packets 8000"));
    wait_for("a full disk", || recorder.stderr().contains("warning: chunk_lost: ").then_some(()));
    std::fs::remove_file(site.disks[0].join("other")).unwrap();
    wait_for("a disk that is used again", || {
        recorder.stderr().contains("warning: disk_resumed: ").then_some(())
    });
    let sent = send(&to, &format!("{SLOW_LINE} --packets 4000 --first 1000000"));
    let report = recorder.stop().expect(1).json();
    let recording = &report["recording"];
    assert_eq!(recording["disks"][0]["state"], "active", "{recording}");
    let sums = balanced(&recording["ledger"]);
    assert!(sums.1 > number(&sent["packets"]) && sums.2 > 1000, "{recording}");
    assert!(first(recording, "disks_full") < first(recording, "disks_resumed"), "{recording}");
}

/// A file system that is full.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// A pipe that nobody reads.
fn closed() -> OwnedFd {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn skyhaul(words: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skyhaul"));
    command.args(words).env("SKYHAUL_CONFIG", "/dev/null").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A recording of 500 frames.
fn recorded() -> Site {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send(&recorder.address(), "--pattern --payload 2000 --rate 50Mbps --packets 500");
    recorder.stop().expect(0);
    site
}

#[test]
fn a_closed_standard_error_changes_no_exit_status() {
    let site = recorded();
    let chunk = site.disks[0].join("trial/trial.00000000").display().to_string();
    for (line, code) in [
        (site.words("check trial --verify"), 0),
        (site.words("check nothing"), 2),
        (site.words("cat trial"), 0),
        (words(&format!("send --to udp://127.0.0.1:9 --rate 1Gbps --input {chunk}")), 0),
        (words(&format!("receive {ANY} --wait 100ms --memory 64MiB --chunk 1MiB")), 1),
        (site.words(&format!("record --scan other {ANY} --wait 100ms --memory 64MiB --chunk 1MiB")), 1),
        (words("send --to nowhere"), 2),
        (words("disk /no/such/directory"), 2),
    ] {
        for (name, stderr) in [("full", Stdio::from(full())), ("closed", Stdio::from(closed()))] {
            let status = skyhaul(&line).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(code), "{name}: {line:?}");
        }
    }
}

/// Command lines with a result on standard output: data, reports, and help.
fn with_results(site: &Site) -> Vec<Vec<String>> {
    let chunk = site.disks[0].join("trial/trial.00000000").display().to_string();
    let scan = ["ls", "ls --json", "check trial --verify", "check trial --json", "cat trial"];
    let others = [
        &format!("inspect {chunk}"),
        &format!("inspect {chunk} --json"),
        &format!("send --json --to udp://127.0.0.1:9 --rate 1Gbps --input {chunk}"),
        "receive --show-config",
        "host --json",
        "cat --help",
        "--help",
        "--version",
    ];
    scan.iter().map(|line| site.words(line)).chain(others.iter().map(|line| words(line))).collect()
}

#[test]
fn a_report_or_data_that_cannot_be_written_are_never_success() {
    let site = recorded();
    for line in with_results(&site) {
        for (how, why) in [
            (">/dev/full", "write to standard output: No space left"),
            (">&-", "error: standard output is closed: results would be lost\nhint: redirect it"),
            ("1</dev/null", "error: standard output is not open for writing: results would be lost\nhint: "),
        ] {
            let done = Job::redirected(&line, how, &[]).finish();
            assert_eq!(done.code, Some(2), "{how} {line:?}: {}", done.stderr);
            assert!(done.stderr.contains(why), "{how} {line:?}: {}", done.stderr);
        }
    }
}

/// It is refused before anything is done: no scan begins whose report would be lost.
#[test]
fn a_closed_standard_output_is_refused_first_and_one_for_reading_and_writing_is_taken() {
    let site = Site::new(1);
    let line = site.words(&format!("record --scan trial {ANY} --wait 100ms --memory 64MiB --chunk 1MiB"));
    let done = Job::redirected(&line, ">&-", &[]).finish().expect(2);
    assert!(done.stderr.contains("standard output is closed"), "{}", done.stderr);
    assert!(!site.disks[0].join("trial").exists());
    // What a supervisor gives its services, and a terminal.
    for how in [">/dev/null", "1<>/dev/null", ">/dev/null 0<&- 2>&-"] {
        Job::redirected(&site.words("ls"), how, &[]).finish().expect(0);
    }
    // With standard error closed, too, the exit status is what is left.
    Job::redirected(&site.words("ls"), ">&- 2>&-", &[]).finish().expect(2);
}

/// Nobody reads the report: the exit status still says that nothing came.
#[test]
fn a_report_without_a_reader_leaves_the_exit_status() {
    let line = words(&format!("receive {ANY} --wait 100ms --json --memory 64MiB --chunk 1MiB"));
    let status = skyhaul(&line).stdout(Stdio::from(closed())).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

/// A peer that goes away is not a reader that has had enough.
#[test]
fn a_receiver_that_breaks_off_is_no_success() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp://{}", listener.local_addr().unwrap());
    let sender =
        Job::start(&words(&format!("send --pattern --payload 2000 --rate 1Gbps --packets 200000 --to {to}")));
    let (stream, _) = listener.accept().unwrap();
    drop((stream, listener));
    let done = sender.finish();
    assert_ne!(done.code, Some(0), "{}", done.stderr);
}

/// Services say what they do; nobody has to hear it.
#[test]
fn a_service_goes_on_without_its_terminal() {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port, iperf3, directory) = (free(), free(), tempfile::tempdir().unwrap());
    let token = directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let token = format!("--token-file {}", token.display());
    let line = format!("probe serve --listen 127.0.0.1 --port {port} --iperf3 {iperf3} {token}");
    for stderr in [Stdio::from(closed()), Stdio::from(full())] {
        let mut server = skyhaul(&words(&line)).stderr(stderr).spawn().unwrap();
        let reached = || std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop);
        wait_for("the server", || {
            assert!(server.try_wait().unwrap().is_none(), "it ended");
            reached()
        });
        for _ in 0..2 {
            run(&format!("probe 127.0.0.1 --iperf3 {iperf3} --time 1s --json")).expect(0);
            let points = "--sizes 64 --spacing 200us --packets 20 --settle 5s";
            run(&format!("probe 127.0.0.1:{port} {token} --json {points}")).expect(0);
        }
        rustix::process::kill_process(Pid::from_child(&server), Signal::HUP).unwrap();
        assert_eq!(wait_for("its end", || server.try_wait().unwrap()).code(), Some(0));
    }
}

/// The note of each second ended the thread of the control plane, and nothing else.
#[test]
fn a_balancer_answers_without_its_terminal() {
    let place = Place::new();
    let [token, state] = ["token", "state.db"].map(|name| place.path(name).display().to_string());
    let api = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = format!(
        "balance --api {api} --data-port 0 --sync-port 0 --threads 1 --token-file {token} --state {state} --reserve run \
         --uri-file {}",
        place.path("uri").display()
    );
    let mut balancer = skyhaul(&words(&line)).stderr(Stdio::from(full())).spawn().unwrap();
    let metrics = || {
        let mut stream = TcpStream::connect(api).ok()?;
        stream
            .write_all(
                format!("GET /metrics HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\r\n").as_bytes(),
            )
            .ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        Some(said)
    };
    wait_for("the control plane", metrics);
    // Without its first data plane it does not start at all.
    wait_for("the reservation", || place.path("uri").exists().then_some(()));
    rustix::process::kill_process(plane_of(balancer.id()), Signal::KILL).unwrap();
    let restarts = "skyhaul_balance_plane_restarts_total{lb=\"1\"} 1\n";
    wait_for("the restart", || metrics()?.contains(restarts).then_some(()));
    // It is noted within a second, and the control plane answers after that.
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert!(metrics().is_some(), "the control plane has ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    rustix::process::kill_process(Pid::from_child(&balancer), Signal::TERM).unwrap();
    assert_eq!(wait_for("its end", || balancer.try_wait().unwrap()).code(), Some(0));
}

/// It ends in bounded time and names the file; when the disk answers, the next repair finishes it.
#[test]
fn a_repair_on_a_device_that_hangs_is_given_up() {
    let site = Site::new(1);
    let device = match Device::new(&site.disks[0]) {
        Ok(device) => device,
        // Needs root, FUSE and a loop device.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let directory = site.disks[0].join("trial");
    std::fs::create_dir(&directory).unwrap();
    for number in 0..4_u32 {
        let frames: Vec<u8> = (0..4000).flat_map(|n| vdif(SECOND + i64::from(number), n, 0, 1000)).collect();
        std::fs::write(directory.join(format!("trial.{number:08}")), frames).unwrap();
    }
    // What was written is not on the disk yet: the repair has to wait for that.
    device.limit(2 << 20);
    let before = device.moved().1;
    let repair = site.start("check trial --repair");
    wait_for("the sync to begin", || (device.moved().1 > before + (1 << 20)).then_some(()));
    let hanging = device.hang();
    let said = wait_for("it to be given up", || {
        let said = repair.stderr();
        said.contains("the disk does not respond").then_some(said)
    });
    assert!(said.contains("trial/trial.0000000") && said.contains("hint: repair it again"), "{said}");
    device.limit(0);
    drop(hanging);
    repair.finish().expect(2);
    let said = site.run("check trial --repair").expect(0).said();
    assert!(said.contains("closed the recording"), "{said}");
    assert_eq!(site.check(0)["state"], "ended");
}
