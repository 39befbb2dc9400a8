//! Many streams at once: recorded, sent on and read back while they come.

use crate::site::see;
use crate::site::{ANY, Job, Site, all_acknowledged, drops, number, refused, send, sum, words};
use serde_json::Value;

/// Everything that came is in place on the disks.
#[track_caller]
fn nothing_lost(report: &Value, sent: &Value, streams: usize) {
    assert_eq!(report["streams"].as_array().unwrap().len(), streams);
    let dropped = drops(report);
    for stream in report["streams"].as_array().unwrap() {
        assert_eq!(refused(stream), 0, "{stream}");
        assert_eq!(stream["placed"], stream["packets"], "{stream}");
    }
    let (placed, all) = (sum(&report["streams"], "placed"), sum(sent, "packets"));
    assert_eq!(placed + dropped, all, "every packet is in place or dropped by the kernel");
    assert!(sum(&report["streams"], "lost") <= dropped, "{report}");
    all_acknowledged(report);
}

/// Check finds all frames and no other.
#[track_caller]
fn proven(site: &Site, report: &Value) {
    let check = site.check(0);
    let streams = &check["datastreams"];
    let good = sum(streams, "frames_seen") - sum(streams, "filled_frames");
    assert_eq!(good, sum(&report["streams"], "placed"), "{check}");
    assert_eq!(sum(streams, "illegal_frames"), 0, "{check}");
}

#[test]
fn sixteen_streams_to_four_disks_while_they_are_sent_on_and_one_is_read() {
    let site = Site::new(4);
    let mut second =
        Job::start(&words(&format!("receive {ANY} --verify --json --memory 128MiB --chunk 1MiB")));
    let onward = second.address();
    let mut recorder = site.record(&format!("{ANY} --forward {onward} --memory 192MiB"));
    let address = recorder.address();
    // Begun before anything was recorded: it waits for stream 7 to begin.
    let follower = site.start("cat trial --follow --stream 7");
    let sent = send(&address, "--pattern --payload 5000 --senders 16 --packets 1600 --rate 320Mbps");
    recorder.drained();
    let report = recorder.stop().expect(0).json();
    nothing_lost(&report, &sent, 16);
    proven(&site, &report);
    let disks = report["recording"]["disks"].as_array().unwrap();
    assert!(disks.iter().all(|disk| number(&disk["chunks"]) > 0), "every disk got its share: {disks:?}");

    let read = follower.finish().expect(0);
    assert!(read.stderr.contains("chunks read from the recorder's memory"), "{}", read.stderr);
    let seen = see(&read.stdout, 5032);
    assert_eq!(seen.good, number(&report["streams"][7]["placed"]));
    assert_eq!(read.stdout, site.run("cat trial --stream 7").expect(0).stdout);

    let forward = &report["forward"][0];
    let there = second.stop().json();
    let withheld = number(&forward["dropped_queue"]) + number(&forward["dropped_refused"]);
    assert_eq!(number(&forward["frames"]) + withheld, sum(&report["streams"], "placed"), "{forward}");
    assert_eq!(there["streams"].as_array().unwrap().len(), 16, "each stream has a sender of its own");
    let arrived = sum(&there["streams"], "placed");
    assert_eq!(arrived + drops(&there), number(&forward["frames"]), "{forward}");
    assert_eq!(number(&there["pattern_errors"]), 0);
}

#[test]
fn a_hundred_and_twenty_eight_slow_streams() {
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 512MiB --chunk 1MiB --flush 1s"));
    let sent = send(
        &recorder.address(),
        "--pattern --payload 2000 --senders 128 --packets 200 --rate 100Mbps --frame-rate 1000",
    );
    recorder.drained();
    let report = recorder.stop().expect(0).json();
    nothing_lost(&report, &sent, 128);
    proven(&site, &report);
    let names: std::collections::BTreeSet<&str> = report["recording"]["datastreams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stream| stream["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 128);
    assert!(names.contains("trial") && names.contains("trial_ds127"), "{names:?}");
}
