//! `record --copies 2`: each chunk is on two disks, one of which may be gone, broken or wrong.

use crate::disks::{in_mid_scan_with, tmpfs};
use crate::site::{ANY, Done, Site, drops, number, send, sum};
use serde_json::Value;
use std::path::PathBuf;

const LINE: &str = "--pattern --payload 5000 --rate 200Mbps --packets 6000";

/// A scan with two copies, the report of its recorder, and its bytes.
fn recorded(site: &Site, line: &str, code: i32) -> (Value, Vec<u8>) {
    let mut recorder = site.record(&format!("{ANY} --copies 2 {line}"));
    let sent = send(&recorder.address(), LINE);
    recorder.drained();
    let done: Done = recorder.stop();
    let report = done.json();
    if drops(&report) == 0 {
        assert_eq!(done.code, Some(code), "{}\n{}", done.stderr, report["recording"]);
    }
    assert_eq!(sum(&report["streams"], "placed") + drops(&report), number(&sent["packets"]));
    let stream = &report["recording"]["datastreams"][0];
    assert_eq!((number(&stream["lost"]), &stream["submitted"]), (0, &stream["acknowledged"]), "{stream}");
    (report, site.cat())
}

fn redundancy(of: &Value) -> (u64, u64, u64) {
    let all = &of["datastreams"][0]["redundancy"];
    let n = |field: &str| number(&all[field]);
    (n("chunks_with_all_copies"), n("chunks_with_fewer_copies"), n("copies"))
}

fn chunk_files(site: &Site, number: u32) -> Vec<PathBuf> {
    let path = |disk: &PathBuf| disk.join(format!("trial/trial.{number:08}"));
    site.disks.iter().map(path).filter(|path| path.exists()).collect()
}

/// Each disk in turn is taken away: every byte is read from the others, and `check` says which chunks have one copy left.
#[test]
fn any_one_disk_may_be_gone() {
    let site = Site::new(3);
    let (report, stream) = recorded(&site, "", 0);
    let chunks = number(&report["recording"]["datastreams"][0]["acknowledged"]);
    assert!(chunks > 20, "{chunks}");
    assert_eq!(redundancy(&report["recording"]), (chunks, 0, 2 * chunks));
    let check = site.check(0);
    assert_eq!(
        (redundancy(&check), number(&check["bytes"])),
        ((chunks, 0, 2 * chunks), 2 * stream.len() as u64)
    );
    let list = site.run("ls --json").expect(0).json();
    let scan = &list[0];
    assert_eq!(
        (number(&scan["bytes"]), number(&scan["disk_bytes"])),
        (stream.len() as u64, 2 * stream.len() as u64)
    );
    assert!((0..chunks as u32).all(|number| chunk_files(&site, number).len() == 2));
    for disk in &site.disks {
        let scan = disk.join("trial");
        let on_it = std::fs::read_dir(&scan).unwrap().count() as u64 - 1;
        let away = disk.join("away");
        std::fs::rename(&scan, &away).unwrap();
        assert!(site.cat() == stream, "without {}", disk.display());
        let check = site.check(1);
        assert_eq!(check["verdict"], "fewer_copies", "{check}");
        assert_eq!(redundancy(&check), (chunks - on_it, on_it, 2 * chunks - on_it), "{check}");
        let text = site.run("check trial").expect(1).told();
        assert!(text.contains("COMPLETE ON DISK, WITH FEWER COPIES of "), "{text}");
        site.run("ls").expect(1);
        std::fs::rename(&away, &scan).unwrap();
        // The whole directory.
        let gone = disk.with_extension("gone");
        std::fs::rename(disk, &gone).unwrap();
        assert!(site.cat() == stream, "without {}", disk.display());
        assert_eq!(site.check(1)["verdict"], "fewer_copies");
        assert!(site.run("check trial --repair").expect(1).told().contains("WITH FEWER COPIES"));
        std::fs::rename(&gone, disk).unwrap();
    }
    // With two of them gone, what both had is missing.
    std::fs::rename(site.disks[0].join("trial"), site.disks[0].join("away")).unwrap();
    std::fs::rename(site.disks[1].join("trial"), site.disks[1].join("away")).unwrap();
    let cat = site.run("cat trial").expect(1);
    assert!(
        cat.stdout.len() < stream.len() && cat.stderr.contains(" no file and no index record"),
        "{}",
        cat.stderr
    );
}

/// A disk breaks or fills amid the scan: nothing is lost, and with a third disk every chunk has its copies.
#[test]
fn a_disk_breaks_or_fills_amid_the_scan() {
    for (fault, disks) in [("eio=6MiB", 3), ("enospc=6MiB", 3), ("eio=6MiB", 2)] {
        let site = Site::new(disks);
        let line = format!("--disk-faults {}:{fault}", site.disks[1].display());
        let (report, stream) = recorded(&site, &line, i32::from(disks == 2));
        let (all, fewer, _) = redundancy(&report["recording"]);
        assert!(
            if disks == 3 { fewer == 0 } else { fewer > 0 && all > 0 },
            "{fault}: {}",
            report["recording"]
        );
        let kinds: Vec<&str> = report["recording"]["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|e| e["kind"].as_str())
            .collect();
        assert_eq!(kinds.contains(&"copies_reduced"), disks == 2, "{kinds:?}");
        let check = site.check(i32::from(disks == 2));
        assert_eq!(redundancy(&check).1, fewer, "{check}");
        // What it wrote before is there, and may go.
        std::fs::remove_dir_all(site.disks[1].join("trial")).unwrap();
        assert!(site.cat() == stream, "{fault}");
    }
}

/// A device that is really full.
#[test]
fn a_file_system_fills_amid_the_scan() {
    let site = Site::new(3);
    let Some(_mounted) = tmpfs(&site) else { return };
    let fill = |disk: &std::path::Path| {
        let mut file = std::fs::File::create(disk.join("other")).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 1 << 16]).is_ok() {}
    };
    let (done, _) = in_mid_scan_with(&site, "--copies 2", 1, fill);
    let report = done.json();
    let recording = &report["recording"];
    assert_eq!(
        (redundancy(recording).1, &recording["disks"][1]["state"]),
        (0, &"full".into()),
        "{recording}"
    );
    let stream = site.cat();
    assert_eq!(stream.len() as u64, number(&recording["datastreams"][0]["acknowledged_bytes"]));
    std::fs::remove_dir_all(site.disks[0].join("trial")).unwrap();
    assert!(site.cat() == stream);
}

/// A damaged copy is named, and the other one read; both damaged are damage.
#[test]
fn a_damaged_copy_is_named_and_the_other_is_read() {
    let site = Site::new(3);
    let (_, stream) = recorded(&site, "", 0);
    let damage = |path: &PathBuf| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let files = chunk_files(&site, 5);
    damage(&files[0]);
    let cat = site.run("cat trial").expect(0);
    assert!(cat.stdout == stream && cat.stderr.contains("chunk 5 was read from this copy"), "{}", cat.stderr);
    let check = site.check(1);
    assert_eq!((&check["verdict"], redundancy(&check).1), (&"fewer_copies".into(), 1), "{check}");
    let text = site.run("check trial").expect(1).told();
    assert!(text.contains("COMPLETE ON DISK, WITH FEWER COPIES of 1 chunk"), "{text}");
    let named =
        check["findings"].as_array().unwrap().iter().any(|f| f["path"] == *files[0].display().to_string());
    assert!(named, "{check}");
    damage(&files[1]);
    let check = site.check(1);
    assert_eq!(
        (&check["verdict"], &check["datastreams"][0]["damaged"]),
        (&"damaged".into(), &serde_json::json!([5]))
    );
    let cat = site.run("cat trial").expect(1);
    assert!(cat.stdout.len() < stream.len() && cat.stderr.contains("trial: chunk 5 "), "{}", cat.stderr);
}

#[test]
fn more_copies_than_disks_are_refused_before_anything_is_made() {
    let site = Site::new(2);
    for (copies, said) in [
        ("3", "3 copies of each chunk need 3 disks, and 2 are given"),
        ("0", "from 1 to 16"),
        ("17", "from 1 to 16"),
    ] {
        let done = site.run(&format!("record --scan trial {ANY} --copies {copies}")).expect(2);
        assert!(done.stderr.contains(said) && done.stderr.contains("hint: "), "{}", done.stderr);
    }
    assert!(site.disks.iter().all(|disk| !disk.join("trial").exists()));
    // One of two disks is full: no second copy has a place.
    let Some(_mounted) = tmpfs(&site) else { return };
    std::fs::write(site.disks[1].join("other"), vec![1; 150 << 20]).unwrap();
    let done =
        site.run(&format!("record --scan trial {ANY} --copies 2 --memory 64MiB --chunk 1MiB")).expect(2);
    assert!(
        done.stderr
            .contains("2 copies of each chunk need 2 disks that respond and have room, and 1 of 2 are"),
        "{}",
        done.stderr
    );
}

/// Space and rate of the disks are those of data with their copies.
#[test]
fn a_schedule_is_checked_with_its_copies() {
    let site = Site::new(3);
    // 192 MiB on each.
    let Some(_mounted) = tmpfs(&site) else { return };
    std::fs::write(site.disks[1].join("other"), vec![1; 120 << 20]).unwrap();
    let path = site.disks[0].join("n26c3.toml");
    // 200 MB of samples.
    let text = "station = 'Mh'\n[mode.x]\nrate = '160Mbps'\n\
                [[scan]]\nname = 'a'\nstart = 2200-01-01T00:00:00Z\nduration = '10s'\nmode = 'x'\n";
    std::fs::write(&path, text).unwrap();
    let check = |copies: u32, rate: &str, code: i32| {
        let line = format!("schedule check {} --json --copies {copies} --rate {rate}", path.display());
        let mut words = crate::site::words(&line);
        words.extend(site.disk_words());
        let report = crate::site::Job::start(&words).finish().expect(code).json();
        (number(&report["free_bytes"]), report["scans"][0]["problems"].to_string())
    };
    let free = |disk: usize| skyhaul::io::disk::free_bytes(&site.disks[disk]).unwrap();
    let all = free(0) + free(1) + free(2);
    assert_eq!(check(1, "200Mbps", 0).0, all);
    // Two copies of each fit on three disks as long as none has to take more than one.
    assert_eq!(check(2, "400Mbps", 0).0, all / 2);
    let (fits, problems) = check(3, "600Mbps", 1);
    assert!(fits == free(1) && problems.contains("no_space"), "{fits}: {problems}");
    let (_, problems) = check(2, "200Mbps", 1);
    assert!(problems.contains("rate_too_high"), "{problems}");
}
