//! What a network does on purpose is what the reports say, frame for frame.

use crate::site::see;
use crate::site::{
    ANY, Job, Site, all_acknowledged, counter, drops, number, ranges, refused, run, send, sum, words,
};
use serde_json::Value;

const FIRST: u64 = 1_000_003;
const PAYLOAD: usize = 2000;

/// Lost on purpose, in the stream's own numbers, without what lies before its first and behind its last frame.
fn injected(sent: &Value) -> Vec<(u64, u64)> {
    let numbered = number(&sent["numbered"]);
    let all = ranges(&sent["lost_ranges"]);
    all.into_iter().filter(|r| r.0 > 0 && r.1 < numbered).map(|r| (r.0 + FIRST, r.1 + FIRST)).collect()
}

/// How many of `inner` are in none of `outer` (both ascending).
fn outside(inner: &[(u64, u64)], outer: &[(u64, u64)]) -> u64 {
    let count = |n: u64| u64::from(!outer.iter().any(|r| (r.0..r.1).contains(&n)));
    inner.iter().flat_map(|r| r.0..r.1).map(count).sum()
}

fn one_seed(seed: u64) {
    let site = Site::new(2);
    let mut recorder = site.record(ANY);
    let faults = format!("loss=0.01,reorder=64,duplicate=0.01,burst=500@0.0005,seed={seed}");
    let line = format!(
        "--pattern --payload {PAYLOAD} --packets 20000 --rate 300Mbps --first {FIRST} --faults {faults}"
    );
    let sent = send(&recorder.address(), &line);
    recorder.drained();
    let done = recorder.stop();
    let report = done.json();
    let dropped = drops(&report);
    let stream = &report["streams"][0];
    assert_eq!(report["streams"].as_array().unwrap().len(), 1, "seed {seed}: {report}");
    assert_eq!(done.code, Some(i32::from(dropped > 0)), "seed {seed}: {}", done.stderr);
    all_acknowledged(&report);

    // Everything that arrived is in place, or is the second of two.
    let (placed, lost) = (number(&stream["placed"]), number(&stream["lost"]));
    assert_eq!(number(&stream["packets"]) + dropped, number(&sent["packets"]), "seed {seed}");
    assert_eq!(placed + refused(stream), number(&stream["packets"]), "seed {seed}: {stream}");
    let doubled = counter(&stream["rejects"]["duplicate"]) + counter(&stream["rejects"]["late"]);
    assert_eq!(doubled, refused(stream), "seed {seed}: only doubles are refused: {}", stream["rejects"]);
    assert!(doubled <= number(&sent["duplicated"]), "seed {seed}");
    assert!(doubled + dropped >= number(&sent["duplicated"]), "seed {seed}: {stream}");

    // The loss map is what was injected, and what the kernel dropped.
    let (map, want) = (ranges(&stream["loss_map"]), injected(&sent));
    assert!(!want.is_empty() && number(&stream["loss_map_left_out"]) == 0, "seed {seed}");
    assert_eq!(map.iter().map(|r| r.1 - r.0).sum::<u64>(), lost, "seed {seed}");
    if dropped == 0 {
        assert_eq!(map, want, "seed {seed}");
        assert_eq!(doubled, number(&sent["duplicated"]), "seed {seed}");
    } else {
        eprintln!("seed {seed}: the kernel dropped {dropped} packets");
        assert_eq!(outside(&want, &map), 0, "seed {seed}: injected, and not in the map");
        assert!(outside(&map, &want) <= dropped, "seed {seed}: in the map, and not injected");
    }
    assert!(
        number(&stream["reordered"]) > 0 && number(&stream["reorder_extent"]["max"]) <= 64 + 500,
        "{stream}"
    );
    proven(&site, placed, lost, seed);
}

/// Check and cat agree with the report.
fn proven(site: &Site, placed: u64, lost: u64, seed: u64) {
    let check = site.check(0);
    assert_eq!(check["verdict"], "holes", "seed {seed}: {check}");
    let streams = &check["datastreams"];
    let between = sum(streams, "missing_between");
    assert_eq!(sum(streams, "missing_units") + between, lost, "seed {seed}: {check}");
    assert_eq!(sum(streams, "filled_frames") + between, lost, "seed {seed}: {check}");
    assert_eq!(sum(streams, "illegal_frames"), 0, "seed {seed}: {check}");
    assert_eq!(check["datastreams"][0]["damaged"].as_array().map(Vec::len), Some(0), "seed {seed}: {check}");
    let seen = see(&site.cat(), PAYLOAD + 32);
    assert_eq!((seen.good, seen.invalid + between), (placed, lost), "seed {seed}");
    assert!(seen.times.is_sorted_by(|a, b| a < b), "seed {seed}: in order of time");
}

/// A stream of which nothing is left ends all the same, and keeps its time.
#[test]
fn all_lost_on_purpose() {
    let line = "send --json --pattern --faults loss=1 --rate 100Mbps --duration 300ms --to udp://127.0.0.1:9";
    let report = run(line).expect(0).json();
    assert_eq!(number(&report["packets"]), 0, "{report}");
    // 300 ms of 100 Mb/s in packets of 8 kB are some 470.
    assert!((300..700).contains(&number(&report["lost"])), "{report}");
}

#[test]
fn the_loss_map_is_what_was_lost() {
    for seed in [7, 2026, 41] {
        one_seed(seed);
    }
}

/// Faults at the receiver's door are the same faults: what they withhold is lost, and counted as that.
#[test]
fn a_receiver_can_do_the_same_to_itself() {
    let site = Site::new(1);
    let mut recorder = site.record(&format!("{ANY} --faults loss=0.02,reorder=32,duplicate=0.02,seed=3"));
    let sent = send(&recorder.address(), "--pattern --payload 2000 --packets 8000 --rate 200Mbps");
    let report = recorder.stop().json();
    let stream = &report["streams"][0];
    let (placed, lost) = (number(&stream["placed"]), number(&stream["lost"]));
    assert!(placed + lost + 64 > number(&sent["packets"]), "{stream}");
    assert!(placed + lost <= number(&sent["packets"]), "{stream}");
    assert!(lost > 80 && counter(&stream["rejects"]["duplicate"]) > 80, "{stream}");
    assert_eq!(see(&site.cat(), PAYLOAD + 32).good, placed);
}

/// Damaged packets never stand as good data: with the pattern every flipped bit shows.
#[test]
fn damage_is_found_and_does_not_spread() {
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    let line =
        "--pattern --payload 2000 --packets 8000 --rate 200Mbps --faults corrupt=0.003,truncate=0.003,seed=5";
    let sent = send(&recorder.address(), line);
    let report = recorder.stop().json();
    let stream = &report["streams"][0];
    let (corrupted, truncated) = (number(&sent["corrupted"]), number(&sent["truncated"]));
    assert!(corrupted > 0 && truncated > 0, "{sent}");
    assert_eq!(number(&stream["packets"]) + drops(&report), number(&sent["packets"]), "{stream}");
    assert_eq!(number(&stream["placed"]) + refused(stream), number(&stream["packets"]), "{stream}");
    assert!(refused(stream) <= corrupted + truncated, "{stream}");
    let check = site.run("check trial --verify --json");
    let wrong = sum(&check.json()["datastreams"], "illegal_frames");
    // A bit flipped in a place that is not checked (a sequence number's upper half) may be refused instead.
    assert!(wrong > 0 && wrong <= corrupted, "{wrong} of {corrupted}");
    assert_eq!(check.code, Some(1));
}

/// Heaps have the same faults: each packet that was lost on purpose is missing, and none else.
#[test]
fn heaps_are_sent_with_faults_too() {
    for seed in 1..=2 {
        let line = "receive --format spead --json --verify --memory 256MiB --wait 60s --idle 2s --listen udp://127.0.0.1:0";
        let mut receiver = Job::start(&words(line));
        let sent = send(
            &receiver.address(),
            &format!(
                "--format spead --pattern --bare --heap-size 64KiB --heaps 300 --rate 300Mbps \
                 --faults loss=0.01,reorder=16,duplicate=0.02,seed={seed}"
            ),
        );
        let report = receiver.finish().json();
        let heaps = &report["objects"]["heaps"];
        assert_eq!(number(&report["pattern_errors"]), 0, "seed {seed}: {report}");
        assert_eq!(
            number(&report["packets"]) + drops(&report),
            number(&sent["packets"]),
            "seed {seed}: {report}"
        );
        assert_eq!(
            number(&sent["numbered"]) - number(&sent["lost"]) + number(&sent["duplicated"]),
            number(&sent["packets"])
        );
        assert!(number(&sent["lost"]) > 20 && number(&sent["duplicated"]) > 40, "seed {seed}: {sent}");
        let ended = number(&heaps["complete"]) + number(&heaps["incomplete"]);
        assert!(ended == 300 || drops(&report) > 0, "seed {seed}: {report}");
        assert!(
            number(&heaps["incomplete"]) > 20 && number(&heaps["missing_bytes"]) > 20_000,
            "seed {seed}: {heaps}"
        );
    }
}
