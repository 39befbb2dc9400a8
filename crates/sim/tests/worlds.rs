//! Many worlds, and the ones that a user was promised.

use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::Order;
use skyhaul_core::wire::fila10g::Phase;
use skyhaul_sim::network::Network;
use skyhaul_sim::sender::{Family, Sender};
use skyhaul_sim::world::{Tally, World};

/// More with `SKYHAUL_SIM_WORLDS=100000`.
#[test]
fn every_world_holds() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1500);
    let mut sum = Tally::default();
    for seed in 1..=worlds {
        match World::random(seed).run(&mut |_| ()) {
            Ok(tally) => sum.add(&tally),
            Err(why) => panic!("world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- {seed}"),
        }
    }
    assert!(sum.exact >= worlds / 20, "only {} loss maps were compared", sum.exact);
    // The worlds reach everything that can happen to a placed frame. Only parts of any length overlap, or pass the end of
    // their object: those of heaps, whose worlds see to it.
    for why in [Reject::Late, Reject::Duplicate, Reject::Stray, Reject::NoBuffer] {
        assert!(sum.rejects.get(why) > 0, "no world refuses a packet as {why:?}");
    }
    for cause in ["complete", "window", "linger", "idle", "flush", "restart", "stray", "finish"] {
        assert!(cause == "finish" || sum.causes.contains_key(cause), "no world retires a part for {cause}");
    }
}

#[test]
fn a_seed_plays_the_same_world_again() {
    for seed in [3, 1884, 20_313, 57_334] {
        let play = || {
            let mut lines = Vec::new();
            let tally = World::random(seed).run(&mut |line| lines.push(line())).unwrap();
            (lines, tally.accepted, tally.rejects)
        };
        assert_eq!(play(), play());
    }
}

fn world(seed: u64, family: Family, network: Network) -> World {
    let sender = Sender::new(family, 1000, 123_456);
    let config = OrderedConfig {
        ahead: sender.ahead(),
        open_ended: sender.short_objects(),
        ..OrderedConfig::new(sender.layout.geometry())
    };
    World { seed, sender, network, packets: 20_000, gap: Nanos(2_000), config, blocks: 64, tick: Nanos(0) }
}

fn families() -> Vec<Family> {
    vec![
        Family::VdifSequence(Order::Little),
        Family::VdifSequence(Order::Big),
        Family::VdifTime { threads: vec![5, 2, 9], fps: 977, rated: true },
        Family::Fila10g(Phase::Odd),
    ]
}

/// The network: 1 % loss, reordering over 64, 1 % duplicates, bursts of 500, on limits as they are by default.
#[test]
fn the_loss_map_equals_the_injected_loss() {
    for (seed, family) in families().into_iter().enumerate() {
        let network = Network {
            loss: 0.01,
            burst: 0.0002,
            burst_longest: 250,
            depth: 64,
            duplicate: 0.01,
            ..Network::default()
        };
        let name = family.name();
        let tally = world(seed as u64, family, network).run(&mut |_| ()).unwrap();
        assert_eq!(tally.exact, 1, "{name}: {tally:?}");
        let refused = tally.rejects.total() - tally.rejects.get(Reject::Duplicate);
        assert_eq!(refused, 0, "{name}: {tally:?}");
        assert!(tally.rejects.get(Reject::Duplicate) > 50, "{name}: {tally:?}");
    }
}

/// Absurd numbers, lengths, times and garbage, nearly one for each honest packet.
#[test]
fn hostile_packets_cost_the_stream_nothing() {
    for (seed, family) in families().into_iter().enumerate() {
        let honest = Network { depth: 64, ..Network::default() };
        let name = family.name();
        let alone = world(seed as u64, family.clone(), honest.clone()).run(&mut |_| ()).unwrap();
        let attacked =
            world(seed as u64, family, Network { hostile: 0.9, ..honest }).run(&mut |_| ()).unwrap();
        assert_eq!(alone.accepted, 20_000, "{name}");
        assert!(attacked.packets > 37_000 && attacked.rejects.total() > 5_000, "{name}: {attacked:?}");
        assert!(attacked.accepted - attacked.strays >= 20_000, "{name}: {attacked:?}");
        assert_eq!(attacked.epochs, 0, "{name}");
    }
}
