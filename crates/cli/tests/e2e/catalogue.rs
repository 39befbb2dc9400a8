//! The catalogue of a station's scans: made from the disks, kept over kills, made anew while it records, and honest about disks that hang.

use crate::copied::{Place, noise};
use crate::device::Device;
use crate::serve::{Serving, frames};
use crate::site::{Job, Site, number, run, wait_for, words};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// Chunks of a scan on a disk, without an index: as a FlexBuff has them.
fn flexbuff(disk: &Path, name: &str, number: u32, bytes: &[u8]) {
    std::fs::create_dir_all(disk.join(name)).unwrap();
    std::fs::write(disk.join(format!("{name}/{name}.{number:08}")), bytes).unwrap();
}

fn list(serving: &Serving) -> Value {
    serving.call("scans").expect(0).json()
}

fn scan(serving: &Serving, name: &str) -> Value {
    let scans = list(serving)["scans"].take();
    let found = scans.as_array().unwrap().iter().find(|one| one["scan"] == name);
    found.cloned().unwrap_or(Value::Null)
}

/// Waits until a scan is in a state.
#[track_caller]
fn until(serving: &Serving, name: &str, state: &str) -> Value {
    wait_for(&format!("{name} to be {state}"), || {
        Some(scan(serving, name)).filter(|one| one["state"] == state)
    })
}

/// Waits until each of these texts is in the file so many times.
fn has(kept: &Path, texts: &[(&str, usize)]) {
    wait_for("the file", || {
        let bytes = std::fs::read(kept).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        texts.iter().all(|(what, count)| text.matches(what).count() >= *count).then_some(())
    });
}

/// Scans whose indexes were read in this run.
fn reads(serving: &Serving) -> u64 {
    let text = serving.metrics();
    let line = text.lines().find(|line| line.starts_with("skyhaul_station_catalogue_reads_total "));
    line.unwrap_or_else(|| panic!("{text}")).rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64
}

/// Records a scan, and returns when the station has ended it.
fn record(serving: &Serving, name: &str) -> Vec<u8> {
    serving.call(&format!("station start {name} --input a")).expect(0);
    let path = frames(&serving.site, "sent", 1, 2000);
    let sent = std::fs::read(&path).unwrap();
    let to = serving.ports[0];
    run(&format!("send --input {} --rate 24Mbps --to udp://127.0.0.1:{to}", path.display())).expect(0);
    wait_for("all to arrive", || {
        (number(&serving.recording(name)["received_bytes"]) >= sent.len() as u64).then_some(())
    });
    assert_eq!(until(serving, name, "open")["reason"], Value::Null);
    serving.call(&format!("station stop {name}")).expect(0);
    sent
}

#[test]
fn scans_of_every_kind_and_their_copies_are_known_over_kills_and_without_the_file() {
    let (site, place) = (Site::new(2), Place::new());
    let kept = site.disks[0].join("station_catalogue.db");
    flexbuff(&site.disks[0], "flex", 0, &noise(5000));
    flexbuff(&site.disks[1], "flex", 1, &noise(3000));
    let head = [0xfeed_6666_u32, 2, 5000, 0, 8032].iter().flat_map(|word| word.to_le_bytes());
    std::fs::create_dir(site.disks[1].join("data")).unwrap();
    std::fs::write(site.disks[1].join("data/m6.vdif"), head.chain([0; 100]).collect::<Vec<u8>>()).unwrap();
    let destination = format!(
        "[[station.destination]]\nname = 'correlator'\nhost = '127.0.0.1'\nport = {}\ntoken_file = '{}'\n",
        place.port,
        place.at("token").display()
    );
    let mut serving = Serving::start(site, &destination);
    let sent = record(&serving, "s_a");
    let closed = until(&serving, "s_a", "closed");
    let index = &closed["index"];
    assert_eq!((&index["formats"], number(&index["frames"])), (&json!(["vdif"]), 2000), "{closed}");
    assert_eq!((number(&index["bytes"]), number(&index["frames_lost"])), (sent.len() as u64, 0), "{closed}");
    assert_eq!(
        (index["data_begin"].as_str(), index["data_end"].as_str()),
        (Some("2026-09-21T14:13:20Z"), Some("2026-09-21T14:13:21Z")),
        "{closed}"
    );
    let flex = until(&serving, "flex", "unindexed");
    let disks: Vec<(&str, u64)> = flex["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|disk| (disk["path"].as_str().unwrap(), number(&disk["bytes"])))
        .collect();
    let paths: Vec<String> = serving.site.disks.iter().map(|disk| disk.display().to_string()).collect();
    assert_eq!(disks, [(paths[0].as_str(), 5000), (paths[1].as_str(), 3000)]);
    assert_eq!(number(&until(&serving, "m6", "unindexed")["files"]), 1);

    // A copy that both ends were read for is of the files that are there, as long as nothing changes.
    serving.call("transfers add flex correlator:d1 correlator:d2").expect(0);
    let copied = wait_for("the copy in the catalogue", || {
        let copy = scan(&serving, "flex")["copies"][0].clone();
        copy.is_object().then_some(copy)
    });
    assert_eq!(
        (&copied["destination"], &copied["verified"], &copied["of_these_files"]),
        (&json!("correlator"), &json!(true), &json!(true)),
        "{copied}"
    );
    assert_eq!((number(&copied["bytes"]), &copied["directories"]), (8000, &json!(["d1", "d2"])));
    let said = run(&format!("scans --station http://{}", serving.api)).expect(0).told();
    assert!(said.contains("copy 1 to correlator (d1, d2): verified, ") && !said.contains("OTHER"), "{said}");

    // Forgotten by the queue, and killed: it is known from the file, and nothing is read again.
    serving.call("transfers rm 1").expect(0);
    has(
        &kept,
        &[("\"destination\":\"correlator\"", 1), ("\"state\":\"ended\"", 1), ("\"state\":\"unindexed\"", 2)],
    );
    serving.kill_and_restart();
    wait_for("the disks to be looked at", || {
        (list(&serving)["catalogue"]["is_complete"] == true).then_some(())
    });
    assert_eq!(
        (scan(&serving, "flex"), scan(&serving, "s_a")),
        (
            {
                let mut same = flex.clone();
                same["copies"] = json!([copied]);
                same
            },
            closed.clone(),
        )
    );
    assert_eq!(reads(&serving), 0);

    // The file is taken away and damaged while the station records: it is made anew.
    serving.call("station start s_b --input b").expect(0);
    for damage in [None, Some(vec![7_u8; 10_000])] {
        std::fs::remove_file(&kept).unwrap();
        if let Some(bytes) = &damage {
            std::fs::write(&kept, bytes).unwrap();
        }
        wait_for("the file", || {
            let head = std::fs::read(&kept).ok()?;
            head.starts_with(b"SQLite format 3\0").then_some(())
        });
    }
    assert_eq!(serving.recording("s_b")["state"], "recording");
    let rebuilt = serving.call("scans --rebuild").expect(0).json();
    assert!(number(&rebuilt["unread"]) >= 3, "{rebuilt}");
    assert_eq!(until(&serving, "s_a", "closed"), closed);
    assert_eq!(scan(&serving, "flex")["copies"][0], copied, "what the disks do not say is not lost by that");
    wait_for("the other scans", || (reads(&serving) >= 3).then_some(()));

    // Other files under its name: the copy is not of them.
    std::fs::remove_dir_all(serving.site.disks[1].join("flex")).unwrap();
    let other = wait_for("the change", || {
        let scan = scan(&serving, "flex");
        (scan["disks"].as_array()?.len() == 1).then_some(scan)
    });
    assert_eq!(other["copies"][0]["of_these_files"], false, "{other}");
    std::fs::remove_dir_all(serving.site.disks[0].join("flex")).unwrap();
    wait_for("its end", || scan(&serving, "flex").is_null().then_some(()));
    let some = serving.call("scans s_* m?").expect(0).json();
    let names: Vec<&str> =
        some["scans"].as_array().unwrap().iter().map(|one| one["scan"].as_str().unwrap()).collect();
    assert_eq!(names, ["m6", "s_a", "s_b"]);
    let refused = serving.call("scans a/b").expect(2).stderr;
    assert!(refused.contains("expected the name of a scan"), "{refused}");
}

#[test]
fn a_scan_on_a_disk_that_hangs_is_unknown_and_listed_also_after_a_restart() {
    let site = Site::new(2);
    // A disk that hangs is a file system of our own, which needs /dev/fuse and root. The catalogue's file is on the other.
    let mut device = match Device::new(&site.disks[1]) {
        Ok(device) => device,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    flexbuff(&site.disks[0], "here", 0, &noise(5000));
    flexbuff(&site.disks[0], "both", 0, &noise(5000));
    flexbuff(&site.disks[1], "both", 1, &noise(3000));
    flexbuff(&site.disks[1], "there", 0, &noise(3000));
    let kept = site.disks[0].join("station_catalogue.db");
    let mut serving = Serving::start(site, "");
    ["here", "both", "there"].iter().for_each(|name| drop(until(&serving, name, "unindexed")));
    has(&kept, &[("\"state\":\"unindexed\"", 3)]);
    serving.kill();
    device.mount_again();
    let hanging = device.hang();
    serving.restart();
    let silent = serving.site.disks[1].display().to_string();
    // The list is answered at once, whatever hangs.
    let asked = Instant::now();
    list(&serving);
    println!("the list was answered in {:?}", asked.elapsed());
    for name in ["both", "there"] {
        let one = until(&serving, name, "unknown");
        wait_for("the reason", || {
            (scan(&serving, name)["reason"] == json!(format!("{silent}: does not respond"))).then_some(())
        });
        assert_eq!(one["index"]["chunks"], if name == "both" { 2 } else { 1 }, "{one}");
    }
    until(&serving, "here", "unindexed");
    let said =
        Job::start(&words(&format!("scans --station http://{}", serving.api))).finish().expect(0).told();
    assert!(
        said.contains(&format!("{silent} does not respond: scans that are only there may be missing")),
        "{said}"
    );
    // It answers again: nothing has changed, and nothing is read.
    drop(hanging);
    ["here", "both", "there"].iter().for_each(|name| drop(until(&serving, name, "unindexed")));
    assert_eq!(reads(&serving), 0);
    assert_eq!(list(&serving)["catalogue"]["unanswered_disks"], json!([]));
}
