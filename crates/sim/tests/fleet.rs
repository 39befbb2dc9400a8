//! Worlds of a fleet: short ones here, longer ones with `SKYHAUL_FLEET_STATIONS=100 SKYHAUL_FLEET_SCANS=1000`.

use skyhaul_sim::fleet::{Played, SCANS, STATIONS, play};

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn no_scan_is_lost_or_recorded_twice_and_stale_claims_are_refused() {
    let (stations, scans) =
        (number("SKYHAUL_FLEET_STATIONS", STATIONS), number("SKYHAUL_FLEET_SCANS", SCANS));
    let mut sum = Played::default();
    for seed in 0..number("SKYHAUL_FLEET_WORLDS", 6) as u64 {
        match play(seed, stations, scans) {
            Ok(played) => sum.add(&played),
            Err(why) => panic!("{why}\nreplay: cargo run -p skyhaul-sim -- fleet {seed}"),
        }
    }
    println!("{sum:#?}");
    // The worlds reach everything that can happen.
    for state in ["ended", "refused", "late", "cut", "cancelled"] {
        assert!(sum.answers.contains_key(state), "no desired scan is {state}: {sum:#?}");
    }
    let counts =
        [sum.cuts, sum.kills, sum.compactions, sum.full, sum.lost_answers, sum.stale, sum.lost_races];
    assert!(counts.iter().all(|count| *count > 0), "{sum:#?}");
}
