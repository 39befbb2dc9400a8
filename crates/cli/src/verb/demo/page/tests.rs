use super::*;
use skyhaul::recording::{CheckReport, DiskStatus, RecordingReport, State, Verdict};
use skyhaul::report::{Distribution, ReceiveReport, SourceReport};
use std::time::Duration;

fn empty() -> DemoReport {
    let check = CheckReport {
        scan: String::new(),
        state: State::Ended,
        verdict: Verdict::Whole,
        datastreams: Vec::new(),
        ledger: Default::default(),
        unbalanced: Vec::new(),
        findings: Vec::new(),
        findings_total: 0,
        indexes: Vec::new(),
        missing_disks: Vec::new(),
        events: Vec::new(),
        bytes: 0,
        seconds: 0.0,
    };
    DemoReport {
        version: 1,
        command: "skyhaul demo".into(),
        machine: "a machine".into(),
        faults: "none".into(),
        first_number: 0,
        sent: Default::default(),
        recorded: Default::default(),
        second: ReceiveReport::default(),
        check,
        proofs: Vec::new(),
        disks_over_time: Vec::new(),
    }
}

fn lively() -> DemoReport {
    let mut report = empty();
    report.first_number = 1_000_003;
    let stream = StreamSummary {
        placed: 9_900,
        lost: 100,
        loss_map: vec![(1_000_100, 1_000_200)],
        loss_runs: Distribution { max: 100, buckets: vec![(96, 1)], ..Distribution::default() },
        reorder_extent: Distribution { max: 3, buckets: vec![(1, 40), (3, 9)], ..Distribution::default() },
        ..StreamSummary::default()
    };
    report.recorded.receive.streams = vec![stream];
    report.recorded.receive.timeline = (1..2_000).map(|i| (i as f64 * 0.1, i * 5_000_000, i / 20)).collect();
    report.recorded.receive.bits_per_second = 4e8;
    let mut disk = DiskStatus { path: "/disks/d1".into(), bytes: 1 << 30, ..DiskStatus::default() };
    (1..100).for_each(|i| disk.latency.add(Duration::from_micros(i * i * 50)));
    report.recorded.recording = RecordingReport { disks: vec![disk.clone(), disk], ..Default::default() };
    report.disks_over_time = (1..50).map(|i| (i as f64 * 0.1, vec![i << 20, i << 21])).collect();
    report.proofs.push(Proof { claim: "it works", held: true, evidence: "seen".into() });
    report
}

/// Every element that must be closed is, in the right order.
fn assert_balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.split("<script>").next().unwrap();
    for part in body.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !["!doctype", "meta", "br"].contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, ["html", "body"], "what the script's end closes");
}

#[test]
fn a_page_stands_alone_and_is_well_formed() {
    for report in [empty(), lively()] {
        let page = page(&report);
        for outside in ["http://", "https://", "src=", "href=", "@import", "url(", "fetch(", "//cdn"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_balanced(&page);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        let drawn = page.split("<pre>").next().unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf\""), "a number that is none");
    }
    assert_eq!(page(&lively()).matches("<svg").count(), 6);
}

#[test]
fn hostile_text_stays_text() {
    let evil = "</pre></details><script>alert('1')</script><img onerror=\"x\" & \0\u{7}";
    let mut report = lively();
    report.machine = evil.into();
    report.command = evil.into();
    report.faults = evil.into();
    report.proofs.push(Proof { claim: "it holds", held: false, evidence: evil.into() });
    report.recorded.receive.streams[0].sender = evil.into();
    report.recorded.receive.streams[0].format = evil.into();
    report.recorded.receive.streams[0].rejects.insert(evil.into(), 1);
    report.recorded.recording.disks[0].path = format!("/{}", evil.replace('/', "")).into();
    report.recorded.recording.disks[0].engine = evil.into();
    report.recorded.recording.disks[0].error = Some(evil.into());
    let page = page(&report);
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img") && !page.contains('\0') && !page.contains("onerror=\""));
    assert!(page.contains("1 of 2 checks passed") && page.contains("✘ failed"));
    assert_balanced(&page);
}

#[test]
fn absurd_numbers_are_drawn_without_panic() {
    let mut report = lively();
    let receive = &mut report.recorded.receive;
    receive.bits_per_second = f64::NAN;
    receive.seconds = f64::INFINITY;
    receive.timeline =
        vec![(f64::NAN, 1, 1), (1.0, u64::MAX, u64::MAX), (0.5, 0, 0), (f64::INFINITY, 1, 1), (1e300, 2, 2)];
    receive.sources =
        vec![SourceReport { packets: u64::MAX, socket_drops: u64::MAX, ..SourceReport::default() }];
    let stream = &mut receive.streams[0];
    stream.loss_map = vec![(0, u64::MAX), (7, 3)];
    (stream.placed, stream.lost, stream.packets) = (u64::MAX - 5, 5, u64::MAX);
    stream.loss_runs.buckets = vec![(0, 0), (u64::MAX, u64::MAX)];
    stream.reorder_extent.buckets = vec![(u64::MAX, 1), (1 << 62, 9)];
    report.recorded.recording.disks[0].bytes = u64::MAX;
    report.recorded.recording.disks[1].rate = f64::NAN;
    report.recorded.recording.disks[1].latency.add(Duration::from_secs(1 << 40));
    report.disks_over_time = vec![(f64::NAN, vec![1]), (2.0, vec![]), (1.0, vec![u64::MAX; 99])];
    report.sent.packets = u64::MAX;
    let page = page(&report);
    assert_balanced(&page);
    assert!(page.len() < 2_000_000);
}

#[test]
fn a_difference_without_a_counter_is_called_out() {
    let mut report = empty();
    assert!(places(&report).iter().all(Place::is_explained));
    (report.sent.numbered, report.sent.packets, report.sent.lost) = (10, 8, 1);
    assert!(page(&report).contains("unexplained \u{2212}1"));
}

fn stream(placed: u64, lost: u64, loss_map: Vec<(u64, u64)>) -> StreamSummary {
    StreamSummary { placed, lost, loss_map, ..StreamSummary::default() }
}

#[test]
fn absurd_maps_stay_in_their_bounds() {
    for map in [vec![(0, u64::MAX)], vec![(u64::MAX - 1, u64::MAX)], vec![(9, 3), (5, 5)]] {
        for (placed, lost) in [(0, 0), (1, 1), (u64::MAX, u64::MAX), (0, 7)] {
            let stream = stream(placed, lost, map.clone());
            let page = super::map(&stream, 3);
            assert!(!page.contains("NaN") && page.len() < 400_000);
        }
    }
}

#[test]
fn buckets_have_bounds() {
    let d = Distribution { max: 70, buckets: vec![(1, 5), (16, 4), (64, 2)], ..Distribution::default() };
    let all: Vec<_> = bounds(&d).collect();
    assert_eq!(all, [(1.0, 2.0, 5), (16.0, 18.0, 4), (64.0, 71.0, 2)]);
}
