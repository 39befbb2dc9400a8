//! LOFAR stations through the command, which does not know of them: received, recorded, looked into.

use crate::site::{ANY, Job, Site, all_acknowledged, drops, number, ranges, run, sum, words};

/// Fifty stations of four lanes each, on a network that loses, doubles and disorders.
#[test]
fn fifty_stations_are_recorded_and_the_loss_map_is_what_was_lost() {
    const STATIONS: usize = 50;
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 1GiB --chunk 1MiB"));
    let sent = run(&format!(
        "send --json --format lofar --pattern --senders {STATIONS} --threads 4 --packets 400 --rate 400Mbps \
         --faults loss=0.02,reorder=16,duplicate=0.02,seed=5 --to {}",
        recorder.address()
    ))
    .expect(0)
    .json();
    recorder.drained();
    let done = recorder.stop();
    let report = done.json();
    all_acknowledged(&report);
    let sent = sent.as_array().unwrap();
    // All stations have the same bad luck.
    let (lost, numbered) = (ranges(&sent[0]["lost_ranges"]), number(&sent[0]["numbered"]));
    assert!(lost.len() > 3 && lost[0].0 >= 4 && lost[lost.len() - 1].1 + 4 <= numbered, "{lost:?}");
    let streams = report["streams"].as_array().unwrap();
    assert_eq!((sent.len(), streams.len()), (STATIONS, STATIONS), "{report}");
    let dropped = drops(&report);
    for stream in streams {
        let format = stream["format"].as_str().unwrap();
        assert!(
            format.starts_with("lofar, 7824-byte frames, 16 bit × 61 beamlets, 200 MHz, lane 0,1,2,3"),
            "{format}"
        );
        let map = ranges(&stream["loss_map"]);
        let first = map[0].0 - lost[0].0;
        let from_first: Vec<_> = map.iter().map(|range| (range.0 - first, range.1 - first)).collect();
        assert!(dropped > 0 || from_first == lost, "{map:?} {lost:?}");
    }
    assert!(dropped > 0 || done.code == Some(0), "{}", done.stderr);

    let check = site.check(0);
    let missing = sum(&check["datastreams"], "missing_units");
    assert_eq!(missing, sum(&report["streams"], "lost"), "{check}");
    assert!(
        dropped > 0 || missing == STATIONS as u64 * lost.iter().map(|range| range.1 - range.0).sum::<u64>()
    );
    assert_eq!(sum(&check["datastreams"], "illegal_frames"), 0, "{check}");
    assert_eq!(
        sum(&check["datastreams"], "time_breaks"),
        0,
        "a second has no whole number of packets: {check}"
    );
}

#[test]
fn lanes_become_streams_and_the_packets_are_told_field_by_field() {
    let site = Site::new(1);
    let file = site.disks[0].join("station.rsp");
    let mut receiver = Job::start(&words(&format!(
        "receive --json --verify --split-threads --memory 128MiB --idle 2s --output-file {} {ANY}",
        file.display()
    )));
    // Over the end of a second, which falls within a packet.
    run(&format!(
        "send --format lofar --pattern --threads 4 --packets 60000 --rate 1500Mbps --to {}",
        receiver.address()
    ))
    .expect(0);
    let report = receiver.finish().json();
    assert_eq!(report["streams"].as_array().unwrap().len(), 4, "{report}");
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    assert!(drops(&report) > 0 || sum(&report["streams"], "lost") == 0, "{report}");
    let said =
        String::from_utf8(run(&format!("inspect --format lofar {} -n 1", file.display())).expect(0).stdout)
            .unwrap();
    for field in ["LOFAR RSP", "200 MHz", "beamlets                           61", "since 1970"] {
        assert!(said.contains(field), "{field}: {said}");
    }
}
