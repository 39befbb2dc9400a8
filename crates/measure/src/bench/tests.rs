//! That every candidate runs, loses nothing in a closed loop, and is compared rightly.

use super::options::BenchResult;
use super::options::search;
use super::*;
use skyhaul::stop::StopFlag;
use skyhaul_core::wire::{FAMILIES, Format, Objects};
use std::time::Duration;

fn options(what: BenchTarget) -> BenchOptions {
    BenchOptions {
        what,
        format: Format::Auto,
        object_bytes: 100_000,
        sizes: vec![1472],
        time: Duration::from_millis(60),
        rounds: 1,
        load: BenchLoad::Closed,
        candidates: Vec::new(),
        gso: true,
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        networks: None,
        cpus: (0, 1),
        memory: 32 << 20,
        directory: None,
        record_bytes: 64 << 20,
        stop: StopFlag::default(),
    }
}

#[test]
fn every_receiver_and_sender_runs_and_loses_nothing_in_a_closed_loop() {
    for (what, gso) in [
        (BenchTarget::Receive, true),
        (BenchTarget::Receive, false),
        (BenchTarget::Send, true),
        (BenchTarget::Send, false),
    ] {
        let report = run(&BenchOptions { gso, ..options(what) }, &mut |_| ()).unwrap();
        for row in &report.rows {
            if let Some(why) = &row.skipped {
                eprintln!("SKIPPED: {what:?} {}: {why}", row.candidate);
                continue;
            }
            assert!(row.sent > 0 && row.bits_per_second.median > 0.0, "{what:?} {row:?}");
            assert_eq!(row.lost, 0, "{what:?} {row:?}");
        }
        assert_eq!(report.rows[0].rate_ratio, Some(Spread { median: 1.0, min: 1.0, max: 1.0 }));
    }
}

#[test]
fn every_balancer_runs_and_loses_nothing_in_a_closed_loop() {
    for gso in [true, false] {
        let report = run(&BenchOptions { gso, ..options(BenchTarget::Balance) }, &mut |_| ()).unwrap();
        assert_eq!(report.rows.len(), 3);
        for row in &report.rows {
            assert!(row.skipped.is_none() && row.sent > 0 && row.receive_cpu.median > 0.0, "{row:?}");
            assert_eq!(row.lost, 0, "{row:?}");
        }
        assert!(report.rows[1].how.starts_with("4 members, labels removed"), "{report:?}");
    }
    let frames = "vdif".parse().unwrap();
    let error =
        run(&BenchOptions { format: frames, ..options(BenchTarget::Balance) }, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("no label"), "{error}");
}

#[test]
fn every_family_that_can_be_generated_is_measured() {
    let (mut measured, mut cannot_be_sent) = (0, 0);
    for family in FAMILIES {
        let format = family.name().parse().unwrap();
        for what in [BenchTarget::Receive, BenchTarget::Send] {
            let candidates = vec!["bare".into(), "skyhaul".into()];
            let Ok(report) = run(&BenchOptions { format, candidates, ..options(what) }, &mut |_| ()) else {
                assert!(family.generator().is_none() && family.objects() == Objects::Frames, "{format}");
                continue;
            };
            let skipped = report.rows.iter().filter(|row| row.skipped.is_some()).count();
            cannot_be_sent += skipped;
            assert!(
                skipped == 0 || what == BenchTarget::Send && family.objects() == Objects::Events,
                "{report:?}"
            );
            let all = report.rows.iter().all(|row| row.skipped.is_some() || row.sent > 0 && row.lost == 0);
            assert!(all && report.rows.len() == 2, "{format} {:?}", report.rows);
            measured += 1;
        }
    }
    assert!(measured >= 8 && cannot_be_sent == 1, "{measured} {cannot_be_sent}");
}

#[test]
fn a_search_finds_the_highest_rate_that_holds_three_times() {
    let mut calls = 0;
    let ran = search(&StopFlag::default(), |rate| {
        calls += 1;
        // Above 20 Gb/s packets are lost; above 19 sometimes.
        let lost = u64::from(rate > 20_000_000_000 || (rate > 19_000_000_000 && calls % 3 == 0));
        let run = BenchRun { bits_per_second: rate as f64, lost, ..BenchRun::default() };
        Ok(BenchResult { run, how: String::new() })
    })
    .unwrap();
    assert!((17e9..=19e9).contains(&ran.run.bits_per_second), "{:?}", ran.run);
    let never = search(&StopFlag::default(), |rate| {
        let run = BenchRun { bits_per_second: rate as f64, lost: 1, ..BenchRun::default() };
        Ok(BenchResult { run, how: String::new() })
    });
    assert_eq!(never.unwrap().run.lost, 1, "a receiver that always loses ends at the least rate");
}

/// Stopped in the second run: the first is told, the second is not; and soon, however long runs are.
#[test]
fn a_stop_keeps_what_was_measured() {
    for load in [BenchLoad::Closed, BenchLoad::Rate(1_000), BenchLoad::Search] {
        for what in [BenchTarget::Receive, BenchTarget::Send] {
            let first = Duration::from_millis(60);
            let stop = StopFlag::default();
            let (later, mut runs) = (stop.clone(), 0);
            let options = BenchOptions { rounds: 50, time: first, load, stop, ..options(what) };
            let begun = std::time::Instant::now();
            let report = run(&options, &mut |_| {
                runs += 1;
                // At a rate or in a search, the first run would take for ever.
                if runs == if load == BenchLoad::Closed { 2 } else { 1 } {
                    let later = later.clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(30));
                        later.stop();
                    });
                }
            });
            let report = report.unwrap();
            assert!(report.interrupted && begun.elapsed() < Duration::from_secs(20), "{load:?} {report:?}");
            let told: usize = report.rows.iter().map(|row| row.runs.len()).sum();
            assert_eq!(told, usize::from(load == BenchLoad::Closed), "{load:?} {report:?}");
        }
    }
    let said =
        run(&BenchOptions { address: [239, 1, 1, 1].into(), ..options(BenchTarget::Send) }, &mut |_| ());
    assert!(said.unwrap_err().to_string().contains("hint: give an --address of this host"));
}

#[test]
fn spreads_and_names() {
    assert_eq!(Spread::of([3.0, 1.0, 2.0, 10.0]), Spread { median: 2.5, min: 1.0, max: 10.0 });
    assert_eq!(Spread::of([]), Spread::default());
    let unknown = BenchOptions { candidates: vec!["nb".into()], ..options(BenchTarget::Send) };
    let said = run(&unknown, &mut |_| ()).unwrap_err().to_string();
    assert_eq!(said, "unknown candidate 'nb'; hint: choose from bare skyhaul sendmmsg sendto");
}
