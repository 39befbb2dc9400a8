//! Tables, medians and sums without a network.

use super::super::Spread;
use super::options::OVERHEAD;
use super::report::{Ran, RdmaBenchRun, WriteLatency, softirq_in};
use super::*;
use skyhaul::stop::StopFlag;
use skyhaul_io::host::thread::Usage;
use std::time::Duration;

pub(super) fn options() -> RdmaBenchOptions {
    RdmaBenchOptions {
        messages: vec![8192, 65_536],
        losses: vec![0.01],
        only: Vec::new(),
        candidates: Vec::new(),
        datagram_bytes: DATAGRAM_BYTES,
        train: 1,
        memory: REGION_BYTES,
        lanes: LANES,
        networks: None,
        veth: false,
        time: Duration::from_secs(2),
        rounds: 3,
        rate: 0,
        address: [127, 0, 0, 1].into(),
        cpus: (0, 0),
        stop: StopFlag::default(),
    }
}

fn run(sent: u64, placed: u64, lost: u64, refused: u64) -> RdmaBenchRun {
    RdmaBenchRun {
        sent,
        placed,
        lost,
        refused,
        sent_bytes: sent * 1000,
        placed_bytes: placed * 1000,
        ..RdmaBenchRun::default()
    }
}

#[test]
fn every_combination_is_a_row_and_what_cannot_be_measured_is_an_error() {
    let rows = options().rows().unwrap();
    assert_eq!(rows.len(), 2 * 8 + 7 + 4 + 2 + 4);
    assert!(rows.iter().all(|row| row.skipped.is_none()));
    let mut measured = rows.clone();
    let groups: Vec<usize> =
        measured.chunk_by_mut(RdmaBenchRow::takes_turns_with).map(|own| own.len()).collect();
    assert_eq!(groups, [8, 8, 7, 4, 2, 4]);
    assert_eq!(options().estimate().unwrap(), (Duration::from_secs(2) + OVERHEAD) * (33 * 3));
    for (change, said) in [
        (RdmaBenchOptions { only: vec!["moon".into()], ..options() }, "choose from messages receivers"),
        (RdmaBenchOptions { candidates: vec!["ucp".into()], ..options() }, "choose from bare bpf drop"),
        (
            RdmaBenchOptions { only: vec!["loss".into()], candidates: vec!["tcp".into()], ..options() },
            "none of",
        ),
        (RdmaBenchOptions { datagram_bytes: 100, ..options() }, "a datagram of 100 bytes"),
        (RdmaBenchOptions { train: 47, ..options() }, "trains of 47 datagrams"),
        (RdmaBenchOptions { train: 8, ..options() }, "a train of 8 datagrams of 8972 bytes"),
        (RdmaBenchOptions { memory: 3 << 20, ..options() }, "a region of 3145728 bytes"),
        (RdmaBenchOptions { lanes: 51, ..options() }, "51 lanes"),
        (RdmaBenchOptions { losses: vec![1.0], ..options() }, "a loss of 1: "),
        (RdmaBenchOptions { losses: vec![f64::NAN], ..options() }, "a loss of NaN: "),
        (RdmaBenchOptions { messages: vec![8], ..options() }, "a message of 8 bytes: "),
        (RdmaBenchOptions { address: [224, 0, 0, 1].into(), ..options() }, "unicast"),
    ] {
        let error = change.rows().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let one = RdmaBenchOptions { only: vec!["latency".into()], ..options() };
    assert!(one.rows().unwrap().iter().all(|row| row.experiment == "latency" && row.message_bytes == 64));
    let chosen = RdmaBenchOptions { candidates: vec!["place".into(), "tcp".into()], ..options() };
    let names: Vec<String> = chosen.rows().unwrap().into_iter().map(|row| row.candidate).collect();
    assert_eq!(names, ["tcp", "tcp", "place", "place"]);
    let lanes = RdmaBenchOptions { only: vec!["lanes".into()], ..options() };
    assert_eq!(lanes.rows().unwrap().len(), 2);
}

#[test]
fn a_ledger_that_does_not_agree_is_an_error() {
    let cpu =
        |millis| Usage { user: Duration::from_millis(millis), voluntary_switches: 4, ..Usage::default() };
    let own = run(10, 8, 1, 1).settle(0.5, &cpu(2), &cpu(4)).unwrap();
    assert_eq!((own.bits_per_second, own.send_switches), (128_000.0, 4));
    assert!((own.send_cpu - 250.0).abs() < 1e-9 && (own.receive_cpu - 500.0).abs() < 1e-9, "{own:?}");
    for (wrong, said) in [
        (run(10, 8, 1, 0), "10 datagrams sent, but 8 placed + 1 lost + 0 refused = 9"),
        (run(10, 10, 1, 0), "= 11"),
        (RdmaBenchRun { sent_bytes: 7, ..run(10, 10, 0, 0) }, "10000 bytes placed of 7"),
        (run(10, 0, 10, 0), "nothing arrived"),
    ] {
        let error = wrong.settle(0.5, &cpu(2), &cpu(4)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn lossy_and_failed_runs_are_said_and_not_in_the_medians() {
    let mut row = RdmaBenchRow::default();
    for (rate, is_lossy) in [(1e9, false), (9e9, true), (3e9, false)] {
        let softirq_seconds = Some(0.001);
        let run = RdmaBenchRun { bits_per_second: rate, is_lossy, softirq_seconds, ..run(10, 10, 0, 0) };
        row.take(Ok(Ran { run, how: "so".into() }), 1);
    }
    row.take(Err(io::Error::other("the counts do not agree")), 4);
    row.summarise(4);
    assert_eq!((row.bits_per_second.median, row.bits_per_second.max), (2e9, 3e9));
    assert_eq!((row.lossy_runs, row.runs.len(), row.failed.len(), row.incomplete), (1, 3, 1, true));
    assert_eq!((row.kept.median, row.joules, row.latency), (1.0, None, None));
    assert!((row.softirq.unwrap().median - 100.0).abs() < 1e-9, "0.001 s for 10 kB");
    let mut row = RdmaBenchRow::default();
    row.take(Err(io::Error::new(io::ErrorKind::PermissionDenied, "needs CAP_BPF")), 1);
    row.summarise(4);
    assert_eq!((row.skipped.as_deref(), row.incomplete, row.failed.len()), (Some("needs CAP_BPF"), false, 0));
}

/// A row with these runs: round, whether it is lossy, rate, CPU of sender and receiver, median latency.
fn measured(candidate: &str, runs: &[(usize, bool, f64, f64, f64, f64)]) -> RdmaBenchRow {
    let mut row = RdmaBenchRow { candidate: candidate.into(), ..RdmaBenchRow::default() };
    for &(round, is_lossy, bits_per_second, send_cpu, receive_cpu, p50) in runs {
        let latency = Some(WriteLatency { p50, ..WriteLatency::default() });
        let figures =
            RdmaBenchRun { is_lossy, bits_per_second, send_cpu, receive_cpu, latency, ..run(10, 10, 0, 0) };
        row.take(Ok(Ran { run: figures, how: String::new() }), round);
    }
    row
}

#[test]
fn ratios_are_of_runs_of_one_round_and_not_of_medians() {
    let mut group = [
        measured(
            "scatter",
            &[
                (1, false, 10.0, 1.0, 1.0, 8.0),
                (2, false, 40.0, 2.0, 2.0, 4.0),
                (3, true, 1.0, 1.0, 1.0, 1.0),
            ],
        ),
        measured(
            "write-bpf",
            &[
                (1, false, 20.0, 1.0, 0.0, 4.0),
                (2, false, 20.0, 1.0, 0.0, 4.0),
                (3, false, 9.0, 9.0, 0.0, 9.0),
            ],
        ),
        measured("drop", &[(2, false, 1.0, 0.5, 0.0, 1.0)]),
        measured("place", &[]),
    ];
    report::compare(&mut group, &["scatter", "place"]);
    let [ratio] = &group[1].ratios[..] else { panic!("{:?}", group[1].ratios) };
    // Rounds 1 and 2: of the third, the other lost something. Medians would give 20 / 25.
    let spread = |median, min, max| Spread { median, min, max };
    assert_eq!((ratio.to.as_str(), ratio.rounds), ("scatter", 2));
    assert_eq!(ratio.rate, spread(1.25, 0.5, 2.0));
    assert_eq!(ratio.cpu, spread(0.375, 0.25, 0.5));
    assert_eq!(ratio.receive_cpu, Some(spread(0.0, 0.0, 0.0)));
    assert_eq!(ratio.latency, Some(spread(0.75, 0.5, 1.0)));
    assert_eq!(
        (ratio.lanes, group[0].ratios.len()),
        (None, 0),
        "none beside itself, none beside one without runs"
    );
    // Beyond the filter that drops: in round 2.
    assert_eq!(group[0].beyond_drop, Some(spread(3.5, 3.5, 3.5)));
    assert_eq!((group[1].beyond_drop, group[2].beyond_drop), (Some(spread(0.5, 0.5, 0.5)), None));
    // One that used no CPU time is nothing to divide by.
    let mut group = [
        measured("udp", &[(1, false, 1.0, 1.0, 0.0, 1.0)]),
        measured("tcp", &[(1, false, 1.0, 1.0, 1.0, 1.0)]),
    ];
    report::compare(&mut group, &["udp"]);
    assert_eq!((group[1].ratios[0].cpu.median, group[1].ratios[0].receive_cpu), (2.0, None));
}

#[test]
fn sleeps_are_counted_by_datagram_and_by_message() {
    let mut row = RdmaBenchRow::default();
    let own = RdmaBenchRun { receive_switches: 40, messages: 5, ..run(10, 10, 0, 0) };
    row.take(Ok(Ran { run: own, how: String::new() }), 1);
    row.summarise(1);
    assert_eq!(row.switches_per_million.unwrap().median, 4e6);
    assert_eq!(row.switches_per_message.unwrap().median, 8.0);
}

#[test]
fn percentiles_are_of_the_samples() {
    let own = WriteLatency::of((1..=1000).rev().map(|n| n * 1000).collect());
    assert_eq!((own.samples, own.p50, own.p99, own.p999), (1000, 500.0, 990.0, 999.0));
    assert_eq!(WriteLatency::of(vec![2500]).p999, 2.5);
    assert_eq!(WriteLatency::of(Vec::new()), WriteLatency::default());
}

#[test]
fn softirq_is_the_seventh_number() {
    let stat = "cpu  1 2 3 4 5 6 700 8 9 10\ncpu0 1 2 3\n";
    assert_eq!(softirq_in(stat, 100.0), Some(7.0));
    assert_eq!((softirq_in("cpu 1 2\n", 100.0), softirq_in("intr 1 2 3 4 5 6 7\n", 100.0)), (None, None));
}
