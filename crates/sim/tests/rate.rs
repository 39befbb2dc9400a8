//! Links shared by controlled senders: many worlds, and the promises by name.

use skyhaul_core::placement::Nanos;
use skyhaul_sim::link::{Link, Load};
use skyhaul_sim::rate::{self, KINDS, World, s};

/// More with `SKYHAUL_SIM_WORLDS=10000`.
#[test]
fn every_link_is_used_and_nothing_is_lost() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(280);
    for seed in 1..=worlds {
        let world = World::random(seed);
        let rows = world.link.play();
        if let Err(why) = rate::judge(&world, &rows) {
            let line = rate::figures(&world, &rows);
            panic!(
                "rate world {seed}: {why}\n{line}\nreplay: cargo run -p skyhaul-sim -- rate --seed {seed}"
            );
        }
    }
}

#[test]
fn a_seed_plays_the_same_link_again() {
    for seed in [2, 10, 26] {
        let play = || World::random(seed).link.play();
        assert_eq!(play(), play());
    }
}

/// A link of 1 Gb/s with a queue of 5 ms and one sender, as in no world by chance.
fn plain() -> World {
    let seed = KINDS.len() as u64;
    let mut world = World::random(seed);
    world.link = Link { capacity: vec![(Nanos(0), 1e9)], queue: Nanos(5_000_000), end: s(60), ..world.link };
    world.link.peers[0].packet = 1472;
    world.link.peers[0].delay = Nanos(200_000);
    world.link.peers[0].control.interval = Nanos(10_000_000);
    world
}

#[test]
fn the_rate_is_found_within_a_second() {
    let mut world = plain();
    world.link.peers[0].control.start = 10_000_000;
    let rows = world.link.play();
    let used = rate::used(&world, &rows, s(1), s(4));
    assert!(used > 0.8, "{used}");
}

#[test]
fn no_capacity_no_harm() {
    let mut world = plain();
    world.link.capacity = vec![(Nanos(0), 1e9), (s(20), 0.0), (s(30), 1e9)];
    let rows = world.link.play();
    let dead = rows.iter().find(|row| row.time >= s(29)).unwrap().peers[0].rate;
    assert!(dead <= 1_000_000.0, "{dead}");
    let back = rate::regained(&world, &rows, s(30), 0.8e9);
    assert!(back < 12.0, "{back}");
}

/// A sender whose program has less than the link could carry: the rate does not run away from what is sent.
#[test]
fn a_rate_that_is_not_used_is_not_raised() {
    let mut world = plain();
    world.link.peers[0].supply = 2e8;
    let rows = world.link.play();
    let last = rows.last().unwrap().peers[0].rate;
    assert!((2e8..=4e8).contains(&last), "{last}");
}

/// Other traffic comes: what is left is used, and little more is asked for.
#[test]
fn other_traffic_gets_its_place() {
    let mut world = plain();
    world.link.load = Some(Load { rate: 6e8, from: s(20), period: Nanos(0) });
    let rows = world.link.play();
    let (used, lost) = (rate::used(&world, &rows, s(25), s(60)), rate::loss(&rows, s(25), s(60)));
    assert!(used > 0.9 && lost < 1e-4, "used {used}, lost {lost}");
}
