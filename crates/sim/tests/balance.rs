//! Balancers of many worlds: no event is split, and every refusal is counted and explained.

use skyhaul_sim::balance::{EVENTS, Played, play};

/// A million events; more with `SKYHAUL_SIM_WORLDS=1000`.
#[test]
fn no_event_is_split() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut sum = Played::default();
    for seed in 0..worlds {
        match play(seed, EVENTS) {
            Ok(played) => sum.add(&played),
            Err(why) => panic!("{why}\nreplay: cargo run -p skyhaul-sim -- balance {seed}"),
        }
    }
    assert!(sum.events >= worlds * EVENTS * 8 / 10, "{sum:?}");
    assert!(sum.calendars > worlds * 10 && sum.workers.iter().all(|&count| count > 0), "{sum:?}");
    // The worlds reach whatever can happen to a packet, but an empty seat, which must not happen.
    for why in ["blocked_source", "truncated", "bad_magic", "bad_version", "empty", "too_old", "evicted"] {
        assert!(sum.refused.get(why).is_some_and(|&count| count > 0), "no world refuses a packet as {why}");
    }
}

#[test]
fn a_seed_plays_the_same_world_again() {
    assert_eq!(play(7, 1000), play(7, 1000));
}
