//! Tables, medians and sums without a network.

use super::options::OVERHEAD;
use super::report::{Ran, RdmaBenchRun, WriteLatency, softirq_in};
use super::*;
use skyhaul::stop::StopFlag;
use skyhaul_io::host::thread::Usage;
use std::time::Duration;

fn options() -> RdmaBenchOptions {
    RdmaBenchOptions {
        messages: vec![8192, 65_536],
        losses: vec![0.01],
        only: Vec::new(),
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
    assert_eq!(rows.len(), 2 * 7 + 2 + 3);
    assert!(rows.iter().all(|row| row.skipped.is_none()));
    let mut measured = rows.clone();
    let groups: Vec<usize> =
        measured.chunk_by_mut(RdmaBenchRow::takes_turns_with).map(|own| own.len()).collect();
    assert_eq!(groups, [7, 7, 2, 3]);
    assert_eq!(options().estimate().unwrap(), (Duration::from_secs(2) + OVERHEAD) * (19 * 3));
    for (change, said) in [
        (RdmaBenchOptions { only: vec!["moon".into()], ..options() }, "choose from messages loss latency"),
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
        row.take(Ok(Ran { run, how: "so".into() }));
    }
    row.take(Err(io::Error::other("the counts do not agree")));
    row.summarise(4);
    assert_eq!((row.bits_per_second.median, row.bits_per_second.max), (2e9, 3e9));
    assert_eq!((row.lossy_runs, row.runs.len(), row.failed.len(), row.incomplete), (1, 3, 1, true));
    assert_eq!((row.kept.median, row.joules, row.latency), (1.0, None, None));
    assert!((row.softirq.unwrap().median - 100.0).abs() < 1e-9, "0.001 s for 10 kB");
    let mut row = RdmaBenchRow::default();
    row.take(Err(io::Error::new(io::ErrorKind::PermissionDenied, "needs CAP_BPF")));
    row.summarise(4);
    assert_eq!((row.skipped.as_deref(), row.incomplete, row.failed.len()), (Some("needs CAP_BPF"), false, 0));
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
