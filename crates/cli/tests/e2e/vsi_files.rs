//! Scans as files of their own station by `disk2file`, what `file_check?` says of files, and what becomes of files and chunks on disks that
//! are full, hang, or belong to a station that is killed.

use crate::device::{Device, Mode, Mounted};
use crate::site::{Job, Site, free_port, vdif, wait_for};
use crate::vsi::{FieldSystem, flexbuff, serve_with, site_status};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LABEL: &str = "n26c3_mh_no0001";
const MIB: usize = 1 << 20;

/// A directory beside the disks of a site, and the key that permits it.
fn files(site: &Site) -> (PathBuf, String) {
    let directory = site.disks[0].parent().unwrap().join("files");
    fs::create_dir_all(&directory).unwrap();
    let key = format!("files = ['{}']\n", directory.display());
    (directory, key)
}

/// What is in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

impl FieldSystem {
    #[track_caller]
    fn select(&mut self, range: &str) {
        let line = format!("scan_set={LABEL}{range}");
        wait_for("the list of scans", || (self.ask(&line)[0] == "0").then_some(()));
    }

    /// The answer to the first `disk2file?` after its end.
    #[track_caller]
    fn end_of_file(&mut self) -> Vec<String> {
        wait_for("the end of the file", || {
            Some(self.ask("disk2file?")).filter(|said| said.get(1).map(String::as_str) != Some("active"))
        })
    }

    /// Writes a file to its end.
    #[track_caller]
    fn writes(&mut self, request: &str) {
        assert_eq!(self.ask(&format!("disk2file={request}")), ["1"], "{request}");
        let ended = self.end_of_file();
        assert_eq!(ended[..2], ["0", "inactive"], "{ended:?}");
    }

    #[track_caller]
    fn waits_for_error(&mut self, holds: &str) {
        let error = wait_for("the error", || Some(self.ask("error?")).filter(|said| said[1] == "1003"));
        assert!(error[2].contains(holds), "{error:?}");
    }
}

#[track_caller]
fn ends(job: Job) {
    job.signal(Signal::TERM);
    job.finish().expect(0);
}

#[test]
fn a_scan_becomes_a_file_of_its_station() {
    let site = Site::new(2);
    let (out, keys) = files(&site);
    let whole = flexbuff(&site, LABEL, &[0, 1, 2]).concat();
    let size = whole.len();
    let (job, mut fs, _) = serve_with(&site, &keys);
    let read = |name: &str| fs::read(out.join(name)).unwrap();
    assert_eq!(fs.ask("disk2file=x.vdif")[0], "4", "no scan is selected");
    fs.select("");

    // Under the name of the scan, and what is there already.
    fs.writes("");
    assert!(read("n26c3_mh_no0001.m5a") == whole);
    assert_eq!(fs.ask("disk2file?"), ["0", "inactive", "n26c3_mh_no0001.m5a"]);
    let refused = fs.ask("disk2file=");
    assert!(refused[0] == "4" && refused[1].ends_with("File exists"), "{refused:?}");

    // A range by scan_set, by byte numbers, in place of a file, and appended to it.
    let path = out.join("x.vdif").display().to_string();
    fs.select(":803200:+1606400");
    fs.writes(&path);
    assert!(read("x.vdif") == whole[803_200..2_409_600]);
    fs.writes(&format!("{path}:1000:+5000:w"));
    assert!(read("x.vdif") == whole[1000..6000]);
    fs.writes(&format!("{path}:6000:10000:a:4000000"));
    assert!(read("x.vdif") == whole[1000..10_000]);
    fs.select("");
    fs.writes(&format!("{path}:1000:+8000000:resume"));
    assert!(read("x.vdif") == whole[1000..8_001_000]);
    fs.writes(&format!("{path}:1000:+8000000:resume"));
    fs.writes(&format!("{}/new.vdif:::resume", out.display()));
    assert!(read("new.vdif") == whole);
    assert_eq!(names(&out), ["n26c3_mh_no0001.m5a", "new.vdif", "x.vdif"]);

    // What cannot be written says so, and changes nothing.
    for bad in [
        format!("{}/x", site.disks[0].display()),
        format!("{}/none/x", out.display()),
        format!("{}/../x", out.display()),
        out.display().to_string(),
    ] {
        assert_eq!(fs.ask(&format!("disk2file={bad}"))[0], "4", "{bad}");
    }
    std::os::unix::fs::symlink("/tmp", out.join("link")).unwrap();
    assert_eq!(fs.ask(&format!("disk2file={}/link/x", out.display()))[0], "4");
    assert_eq!(fs.ask(&format!("disk2file={}/link:::w", out.display()))[0], "4");
    assert_eq!(fs.ask(&format!("disk2file={}/y:5:{}", out.display(), size + 1)), ["1"]);
    let ended = fs.end_of_file();
    assert!(ended[0] == "4" && ended[1].contains("outside of the scan"), "{ended:?}");
    fs.waits_for_error("outside of the scan");
    assert!(!out.join("y").exists());
    let done: Vec<_> =
        site_status(&job).iter().map(|of| of["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(done.iter().filter(|outcome| *outcome == "complete").count(), done.len() - 1, "{done:?}");

    // What a file holds: as the scan that it was; one that is short, no data, and none.
    let check = |fs: &mut FieldSystem, of: &str| fs.ask(&format!("file_check?:{of}"));
    let second = 1_790_000_000;
    let long: Vec<u8> =
        (0..1800u32).flat_map(|n| vdif(second + i64::from(n / 250), n % 250, 0, 8000)).collect();
    fs::write(out.join("long.vdif"), &long).unwrap();
    let found = check(&mut fs, &format!(":{}/long.vdif", out.display()));
    // 8000 bytes of 2-bit samples of one channel, 250 times a second.
    assert_eq!(found, ["0", "VDIF", "2", "2026y264d14h13m20.0000s", "7.2s", "8Mbps", "0", "8032"]);
    let holed = [&long[..700 * 8032], &long[710 * 8032..]].concat();
    fs::write(out.join("holed.vdif"), holed).unwrap();
    assert_eq!(check(&mut fs, &format!(":{}/holed.vdif", out.display()))[6], "80320");
    assert_eq!(check(&mut fs, &format!("100M:{}/long.vdif", out.display()))[0], "6");
    fs::write(out.join("noise"), vec![7; 2 * MIB]).unwrap();
    assert_eq!(check(&mut fs, &format!(":{}/noise", out.display())), ["0", "?"]);
    for bad in ["none.vdif", "link", "../station.toml"] {
        assert_eq!(check(&mut fs, &format!(":{}/{bad}", out.display()))[0], "4", "{bad}");
    }
    ends(job);
}

#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    let site = Site::new(1);
    let (out, keys) = files(&site);
    let Some(mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=20m"], &out) else {
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let whole = flexbuff(&site, LABEL, &[0, 1, 2]).concat();
    let (job, mut fs, _) = serve_with(&site, &keys);
    fs.select("");
    let path = out.join("x.vdif").display().to_string();
    let fails = |fs: &mut FieldSystem, request: &str| {
        assert_eq!(fs.ask(&format!("disk2file={request}")), ["1"]);
        let ended = fs.end_of_file();
        assert!(ended[0] == "4" && ended[1].contains("No space left"), "{ended:?}");
        assert_eq!(fs.ask("disk2file?")[..2], ["0", "inactive"]);
        fs.waits_for_error("No space left");
    };
    fails(&mut fs, &path);
    assert_eq!(names(&out), [""; 0]);
    // A file that is to be replaced stays, and one that is appended to has its own bytes.
    fs.writes(&format!("{path}:0:+2000000"));
    fails(&mut fs, &format!("{path}:::w"));
    fails(&mut fs, &format!("{path}:::a"));
    assert_eq!(names(&out), ["x.vdif"]);
    assert!(fs::read(&path).unwrap() == whole[..2_000_000]);
    // What is to be resumed stays, and is resumed when there is room.
    fails(&mut fs, &format!("{}/y.vdif:::resume", out.display()));
    let left = names(&out);
    assert!(left.len() == 2 && left[0].starts_with(".y.vdif.") && left[0].ends_with(".part"), "{left:?}");
    assert!(mounted.remount("remount,size=100m"));
    fs.writes(&format!("{}/y.vdif:::resume", out.display()));
    fs.writes(&format!("{path}:::resume"));
    assert_eq!(names(&out), ["x.vdif", "y.vdif"]);
    assert!(
        [&path, &out.join("y.vdif").display().to_string()]
            .iter()
            .all(|path| fs::read(path).unwrap() == whole)
    );
    ends(job);
}

/// A recording that takes most of the disks' rate slows a file to a few MB/s, so that there is time to end it.
#[track_caller]
fn slows(fs: &mut FieldSystem, label: &str) {
    assert_eq!(fs.ask(&format!("runtime={label}"))[0], "0");
    fs.does("mode = VDIF_1000-160-1-2");
    fs.does(&format!("record=on:{label}"));
    assert_eq!(fs.ask("runtime=0")[0], "0");
}

#[test]
fn a_station_that_is_killed_leaves_nothing_under_the_name_of_a_file() {
    let site = Site::new(1);
    let (out, keys) = files(&site);
    let whole = flexbuff(&site, LABEL, &[0, 1, 2, 3, 4, 5]).concat();
    let path = out.join("x.vdif");
    let parts = || {
        let found = names(&out).into_iter().filter(|name| name.starts_with(".x.vdif.")).collect::<Vec<_>>();
        assert!(found.len() < 2 && !path.exists(), "{found:?}");
        found.first().map(|name| out.join(name))
    };
    for (round, option) in ["n", "resume", "w"].into_iter().enumerate() {
        let (job, mut fs, _) = serve_with(&site, &keys);
        slows(&mut fs, &format!("live{round}"));
        fs.select("");
        assert_eq!(fs.ask(&format!("disk2file={}:::{option}", path.display())), ["1"]);
        wait_for("some of the file", || {
            let bytes = fs::metadata(parts()?).ok()?.len();
            (bytes >= 4_000_000 && (bytes as usize) < whole.len()).then_some(())
        });
        job.signal(Signal::KILL);
        job.finish();
        assert!(parts().is_some(), "only what is hidden is left");
        // It starts in a clean state, and finishes the file.
        let (job, mut fs, _) = serve_with(&site, &keys);
        assert_eq!(fs.ask("disk2file?"), ["0", "inactive"]);
        assert_eq!(fs.ask("status?"), ["0", "0x00000001"]);
        fs.select("");
        fs.writes(&format!("{}:::{option}", path.display()));
        assert!(fs::read(&path).unwrap() == whole);
        assert_eq!(names(&out), ["x.vdif"]);
        fs::remove_file(&path).unwrap();
        // One that is ended in order leaves nothing at all, unless it is to be resumed.
        slows(&mut fs, &format!("again{round}"));
        assert_eq!(fs.ask(&format!("disk2file={}:::{option}", path.display())), ["1"]);
        wait_for("some of the file", || (fs::metadata(parts()?).ok()?.len() >= 4_000_000).then_some(()));
        fs.does("reset=abort");
        assert_eq!(fs.ask("disk2file?")[..2], ["0", "inactive"]);
        assert_eq!(names(&out).len(), usize::from(option == "resume"), "{option}");
        ends(job);
    }
}

/// The settings of a receiver of chunks, on a new port.
fn opens(fs: &mut FieldSystem) -> u16 {
    let port = free_port();
    fs.does("net_protocol=tcp");
    fs.does(&format!("net_port={port}"));
    fs.does("net2vbs=open");
    port
}

/// A connection that announces a chunk.
fn announce(port: u16, number: u32, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("fileName: {LABEL}/{LABEL}.{number:08}\0fileSize: {bytes}\0\0");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn a_disk_that_fills_up_leaves_no_part_of_a_chunk() {
    let site = Site::new(1);
    let options = ["-t", "tmpfs", "-o", "size=64m"];
    let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &options, &site.disks[0]) else {
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let (job, mut fs, _) = serve_with(&site, "");
    let port = opens(&mut fs);
    let mut stream = announce(port, 7, 24 * MIB);
    stream.write_all(&vec![1; 8 * MIB]).unwrap();
    wait_for("some of the chunk", || {
        (fs.ask("net2vbs?")[2].parse::<usize>().unwrap() >= 8 * MIB).then_some(())
    });
    // Somebody else takes the rest of the disk.
    let mut other = File::create(site.disks[0].join("other")).unwrap();
    while other.write_all(&[1; 1 << 16]).is_ok() {}
    // It may be reset before all of it is sent: then the write fails, and otherwise the read.
    let is_sent = stream.write_all(&vec![2; 16 * MIB]).is_ok();
    assert!(!(is_sent && matches!(stream.read(&mut [0]), Ok(0))), "a chunk that is not there was confirmed");
    let closed = fs.ask("net2vbs=close");
    assert!(closed[0] == "4" && closed[1].contains("No space left"), "{closed:?}");
    fs.waits_for_error("No space left");
    assert_eq!(names(&site.disks[0].join(LABEL)), [""; 0]);
    // With room again, it is received.
    drop(other);
    fs::remove_file(site.disks[0].join("other")).unwrap();
    fs.does("net2vbs=open");
    let mut stream = announce(port, 7, 8 * MIB);
    stream.write_all(&vec![1; 8 * MIB]).unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0)), "it is confirmed");
    fs.does("net2vbs=close");
    assert_eq!(names(&site.disks[0].join(LABEL)), [format!("{LABEL}.00000007")]);
    ends(job);
}

#[test]
fn chunks_to_a_disk_that_hangs_close_later_and_their_failure_is_an_error() {
    let site = Site::new(1);
    let device = match Device::new(&site.disks[0]) {
        Ok(device) => device,
        // Needs root, FUSE and a loop device.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let (job, mut fs, _) = serve_with(&site, "");
    for is_broken in [false, true] {
        let port = opens(&mut fs);
        let chunk = u32::from(is_broken);
        let mut stream = announce(port, chunk, 4 * MIB + 1000);
        stream.write_all(&vec![1; 4 * MIB]).unwrap();
        wait_for("most of the chunk", || (fs.ask("net2vbs?")[2] == (4 * MIB).to_string()).then_some(()));
        let hanging = device.hang();
        stream.write_all(&[1; 1000]).unwrap();
        // It is not durable, so it is not confirmed; the answer comes before the Field System gives up.
        let asked = Instant::now();
        assert_eq!(fs.ask("net2vbs=close"), ["1"]);
        assert!(asked.elapsed() >= Duration::from_secs(3), "{:?}", asked.elapsed());
        assert_eq!(fs.ask("net2vbs?")[..2], ["0", "closing"]);
        assert_eq!(fs.ask("net2vbs=close"), ["1"]);
        // The port is free meanwhile, for this runtime as for others.
        fs.does("net2vbs=open");
        assert_eq!(fs.ask("net2vbs?")[1], "active");
        if is_broken {
            device.set(Mode::Errors);
            fs.waits_for_error(&format!("{LABEL}.{chunk:08}"));
            device.set(Mode::Good);
            assert!(!matches!(stream.read(&mut [0]), Ok(0)), "a chunk that is not there was confirmed");
        } else {
            drop(hanging);
            assert!(matches!(stream.read(&mut [0]), Ok(0)), "it is confirmed when it is there");
            assert!(site.disks[0].join(format!("{LABEL}/{LABEL}.{chunk:08}")).exists());
            assert_eq!(fs.ask("error?")[1], "");
        }
        fs.ask("net2vbs=close");
    }
    ends(job);
}

#[test]
fn a_disk_that_hangs_under_chunks_that_are_sent_holds_no_dialogue_up() {
    let (here, there) = (Site::new(2), Site::new(1));
    let mut device = match Device::new(&here.disks[1]) {
        Ok(device) => device,
        // Needs root, FUSE and a loop device.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let all = flexbuff(&here, LABEL, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let (job, mut from, _) = serve_with(&here, "");
    let (other, mut to, _) = serve_with(&there, "");
    from.select("");
    device.mount_again();
    let port = opens(&mut to);
    from.does("net_protocol=tcp");
    from.does(&format!("net_port={port}"));
    let hanging = device.hang();
    from.does(&format!("vbs2net=connect:{LABEL}:127.0.0.1"));
    let held = wait_for("what does not hang to be sent", || {
        let sent = from.ask("vbs2net?").get(3).and_then(|sent| sent.parse::<u64>().ok())?;
        std::thread::sleep(Duration::from_millis(500));
        let later = from.ask("vbs2net?").get(3).and_then(|sent| sent.parse::<u64>().ok())?;
        (sent == later).then_some(later)
    });
    assert!(held <= all[0].len() as u64 + (4 << 20), "{held}");
    for line in ["status?", "tstat=", "vbs2net?", "error?", "net2vbs?", "dir_info?"] {
        let asked = Instant::now();
        assert_eq!(from.ask(line)[0], "0", "{line}");
        assert!(asked.elapsed() < Duration::from_secs(3), "{line} took {:?}", asked.elapsed());
    }
    assert_eq!(from.ask("tstat=")[2], "vbs2net", "it is not taken for the end");
    // It can be ended, and begun again when the disk responds.
    from.does("vbs2net=disconnect");
    drop(hanging);
    from.does(&format!("vbs2net=connect:{LABEL}:127.0.0.1"));
    let ended = wait_for("the end of the chunks", || {
        Some(from.ask("tstat=")).filter(|said| said.get(2).map(String::as_str) != Some("vbs2net"))
    });
    assert_eq!(ended, ["0", "0.0", "no_transfer"]);
    to.ask("net2vbs=close");
    for (number, bytes) in all.iter().enumerate() {
        let name = format!("{LABEL}/{LABEL}.{number:08}");
        assert!(fs::read(there.disks[0].join(&name)).unwrap() == *bytes, "{name}");
    }
    ends(job);
    ends(other);
}
