//! A recorder that is killed loses at most what no disk had acknowledged, and says what that was.

use crate::site::see;
use crate::site::{ANY, Job, Site, sum, wait_for, words};
use serde_json::Value;
use skyhaul::recording::Record;
use std::collections::BTreeSet;
use std::path::Path;

const PAYLOAD: usize = 2000;

/// Numbers of the chunks that the indexes acknowledge, whatever else they hold.
fn acknowledged(site: &Site, scan: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for disk in &site.disks {
        let bytes = std::fs::read(disk.join(scan).join(format!("{scan}.index"))).unwrap_or_default();
        for line in bytes.split(|&b| b == b'\n') {
            if let Some(Record::Chunk(chunk)) = Record::parse(line) {
                found.insert(chunk.number);
            }
        }
    }
    found
}

/// Numbers of the chunk files that are there.
fn files(site: &Site, scan: &str) -> BTreeSet<u32> {
    let of_disk = |disk: &Path| -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(disk.join(scan)) else { return Vec::new() };
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_prefix(&format!("{scan}."))?.parse().ok())
            .collect()
    };
    site.disks.iter().flat_map(|disk| of_disk(disk)).collect()
}

fn numbers(value: &Value) -> BTreeSet<u32> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// Kill the recorder of scan `trial`, to which `line` sends, as soon as at least `chunks` chunks are acknowledged and
/// `more` was done; what is there is nobody's any more then.
#[track_caller]
pub(crate) fn kill<T>(
    site: &Site,
    mut recorder: Job,
    line: &str,
    chunks: usize,
    more: impl FnOnce() -> T,
) -> T {
    let sender = Job::start(&words(&format!("send --json {line} --to {}", recorder.address())));
    wait_for("acknowledged chunks", || (acknowledged(site, "trial").len() >= chunks).then_some(()));
    let done = more();
    recorder.signal(rustix::process::Signal::KILL);
    assert_eq!(recorder.finish().code, None, "killed");
    site.released();
    sender.signal(rustix::process::Signal::INT);
    sender.finish();
    done
}

/// One recorder, killed once at least `chunks` chunks are acknowledged and some more work was done.
fn round(seed: u64, chunks: usize, more: u64) {
    let site = Site::new(2);
    let recorder = site.record(&format!("{ANY} --disk-engine auto"));
    let line = format!("--pattern --payload {PAYLOAD} --rate 300Mbps");
    let before = kill(&site, recorder, &line, chunks, || {
        // Somewhere within the next chunks.
        (0..more).for_each(|_| std::thread::yield_now());
        acknowledged(&site, "trial")
    });
    let after = acknowledged(&site, "trial");
    assert!(after.is_superset(&before), "seed {seed}: {before:?} {after:?}");
    examine(&site, &after, seed);
}

/// What is left proves itself, and names what it cannot prove.
fn examine(site: &Site, acknowledged: &BTreeSet<u32>, seed: u64) {
    let there = files(site, "trial");
    assert!(there.is_superset(acknowledged), "seed {seed}: acknowledged, and not there");
    let done = site.run("check trial --verify --json");
    let check = done.json();
    let stream = &check["datastreams"][0];
    let unproven = numbers(&stream["unacknowledged"]);
    assert_eq!(check["state"], "interrupted", "seed {seed}: {check}");
    assert_eq!(unproven, there.difference(acknowledged).copied().collect(), "seed {seed}: {check}");
    assert_eq!(sum(&check["datastreams"], "proven"), acknowledged.len() as u64, "seed {seed}: {check}");
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "seed {seed}: {check}");
    assert_eq!(numbers(&stream["damaged"]).len(), 0, "seed {seed}: {check}");
    let gaps = stream["gaps"].as_array().unwrap().iter().any(|gap| gap[0] != gap[1]);
    // Nobody can tell what the recorder would have done next.
    assert_eq!(done.code, Some(1), "seed {seed}: {check}");
    assert!(check["findings"].to_string().contains("did not end normally"), "seed {seed}: {check}");

    // Reading gives the acknowledged chunks, every byte of the pattern.
    let read = site.run("cat trial").expect(1);
    assert!(!see(&read.stdout, PAYLOAD + 32).times.is_empty(), "seed {seed}");
    assert!(read.stderr.contains("did not end normally"), "seed {seed}: {}", read.stderr);

    let repaired = site.run("check trial --verify --repair --json");
    let said = format!("{} chunk files added to the index", unproven.len());
    assert!(repaired.stderr.contains(&said), "seed {seed}: {}", repaired.stderr);
    let check = repaired.json();
    assert_eq!(numbers(&check["datastreams"][0]["unacknowledged"]).len(), 0, "seed {seed}: {check}");
    assert_eq!(sum(&check["datastreams"], "proven"), there.len() as u64, "seed {seed}: {check}");
    assert_eq!(repaired.code, Some(i32::from(gaps)), "seed {seed}: {check}");
    assert_eq!(site.run("cat trial").code, Some(i32::from(gaps)), "seed {seed}");
}

#[test]
fn ten_kills_at_random_moments() {
    let seed: u64 = std::env::var("SKYHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
    });
    eprintln!("SKYHAUL_SEED={seed}");
    let mut state = seed | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in 0..10 {
        let (chunks, more) = (1 + random(30) as usize, random(20_000));
        round(seed, chunks, more);
    }
}

/// A second recording under the same name gets one of its own.
#[test]
fn a_name_that_is_taken_gets_a_letter() {
    let site = Site::new(1);
    for _ in 0..2 {
        let mut recorder = site.record(ANY);
        let address = recorder.address();
        crate::site::send(&address, "--pattern --payload 2000 --packets 1000 --rate 200Mbps");
        recorder.stop().expect(0);
    }
    let list = site.run("ls --json").expect(0).json();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|s| s["scan"].as_str().unwrap()).collect();
    assert_eq!(names, ["trial", "triala"]);
    let refused = site.run(&format!("record --scan trial --exists error --memory 64MiB --chunk 1MiB {ANY}"));
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("trial") && refused.stderr.contains("error"), "{}", refused.stderr);
}
