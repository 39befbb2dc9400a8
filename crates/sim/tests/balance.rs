//! Balancers, and whole sites, of many worlds: no event is split, every event is whole at the right worker, and each packet that
//! is refused or lost is counted with its reason.

use skyhaul_sim::balance::{EVENTS, Played, play};
use skyhaul_sim::site;

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

/// More with `SKYHAUL_SIM_WORLDS=1000`.
#[test]
fn every_event_is_whole_or_counted() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut sum = site::Played::default();
    for seed in 0..worlds {
        match site::play(seed) {
            Ok(played) => sum.add(&played),
            Err(why) => panic!("{why}\nreplay: cargo run -p skyhaul-sim -- site {seed}"),
        }
    }
    println!("{sum:#?}");
    assert!(sum.restarts.iter().all(|&count| count > worlds / 10), "{sum:?}");
    assert!(sum.whole >= sum.events * 8 / 10, "{sum:?}");
    for why in ["blocked_source", "too_old", "no_data_plane", "worker_killed", "lost"] {
        assert!(sum.packets.get(why).is_some_and(|&count| count > 0), "no packet is {why}: {sum:?}");
    }
}

#[test]
fn a_seed_plays_the_same_site_again() {
    assert_eq!(site::play(7), site::play(7));
}
