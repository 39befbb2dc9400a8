//! That every candidate runs, loses nothing in a closed loop, and is compared rightly.

use super::*;

fn options(what: What) -> BenchOptions {
    BenchOptions {
        what,
        sizes: vec![1472],
        time: Duration::from_millis(60),
        rounds: 1,
        load: Load::Closed,
        candidates: Vec::new(),
        gso: true,
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        networks: None,
        cpus: (0, 1),
        memory: 32 << 20,
        directory: None,
        record_bytes: 64 << 20,
    }
}

#[test]
fn every_receiver_and_sender_runs_and_loses_nothing_in_a_closed_loop() {
    for (what, gso) in
        [(What::Receive, true), (What::Receive, false), (What::Send, true), (What::Send, false)]
    {
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
fn a_search_finds_the_highest_rate_that_holds_three_times() {
    let mut calls = 0;
    let ran = search(|rate| {
        calls += 1;
        // Above 20 Gb/s packets are lost; above 19 sometimes.
        let lost = u64::from(rate > 20_000_000_000 || (rate > 19_000_000_000 && calls % 3 == 0));
        let run = Run { bits_per_second: rate as f64, lost, ..Run::default() };
        Ok(Ran { run, how: String::new() })
    })
    .unwrap();
    assert!((17e9..=19e9).contains(&ran.run.bits_per_second), "{:?}", ran.run);
    let never = search(|rate| {
        let run = Run { bits_per_second: rate as f64, lost: 1, ..Run::default() };
        Ok(Ran { run, how: String::new() })
    });
    assert_eq!(never.unwrap().run.lost, 1, "a receiver that always loses ends at the least rate");
}

#[test]
fn spreads_and_names() {
    assert_eq!(Spread::of([3.0, 1.0, 2.0, 10.0]), Spread { median: 2.5, min: 1.0, max: 10.0 });
    assert_eq!(Spread::of([]), Spread::default());
    let unknown = BenchOptions { candidates: vec!["nb".into()], ..options(What::Send) };
    let said = run(&unknown, &mut |_| ()).unwrap_err().to_string();
    assert_eq!(said, "no candidate 'nb'; there are bare skyhaul sendmmsg sendto");
}
