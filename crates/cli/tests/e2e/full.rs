//! Disks that fill up: the forecast, the alarm before the first loss, and counts that are true at each moment.

use crate::disks::tmpfs;
use crate::site::{ANY, Site, drops, number, send, sum, wait_for};
use crate::wires::see;
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;

const LINE: &str = "--pattern --payload 5000 --rate 200Mbps";

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

/// The report of a recorder on full disks, of which `check`, `ls` and `cat` know the same.
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
    let sent = send(&recorder.address(), &format!("{LINE} --packets 20000"));
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
    send(&recorder.address(), &format!("{LINE} --packets 6000"));
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

#[test]
fn a_disk_that_is_full_at_the_start_is_called_full() {
    let site = Site::new(2);
    let Some(_mounted) = tmpfs(&site) else { return };
    // Room for the index, and for no chunk.
    std::fs::write(site.disks[1].join("other"), vec![1; 128 << 20]).unwrap();
    let mut recorder = site.record(ANY);
    let sent = send(&recorder.address(), &format!("{LINE} --packets 2000"));
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
    send(&to, &format!("{LINE} --packets 8000"));
    wait_for("a full disk", || recorder.stderr().contains("warning: chunk_lost: ").then_some(()));
    std::fs::remove_file(site.disks[0].join("other")).unwrap();
    wait_for("a disk that is used again", || {
        recorder.stderr().contains("warning: disk_resumed: ").then_some(())
    });
    let sent = send(&to, &format!("{LINE} --packets 4000 --first 1000000"));
    let report = recorder.stop().expect(1).json();
    let recording = &report["recording"];
    assert_eq!(recording["disks"][0]["state"], "active", "{recording}");
    let sums = balanced(&recording["ledger"]);
    assert!(sums.1 > number(&sent["packets"]) && sums.2 > 1000, "{recording}");
    assert!(first(recording, "disks_full") < first(recording, "disks_resumed"), "{recording}");
}
