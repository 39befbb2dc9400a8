//! Sites of many worlds: every event is whole at the right worker, or each of its packets is counted with its reason.

use skyhaul_sim::site::{Played, play};

/// More with `SKYHAUL_SIM_WORLDS=1000`.
#[test]
fn every_event_is_whole_or_counted() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut sum = Played::default();
    for seed in 0..worlds {
        match play(seed) {
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
fn a_seed_plays_the_same_world_again() {
    assert_eq!(play(7), play(7));
}
