//! Many SPEAD worlds, all the small ones, and what a user was promised of heaps.

use skyhaul_core::placement::Reject;
use skyhaul_sim::spead::{SpeadTally, SpeadWorld, small};

/// More with `SKYHAUL_SIM_WORLDS=100000`.
#[test]
fn every_world_holds() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1500);
    let mut sum = SpeadTally::default();
    for seed in 1..=worlds {
        match SpeadWorld::random(seed).run(&mut |_| ()) {
            Ok(tally) => sum.add(&tally),
            Err(why) => panic!("world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- spead {seed}"),
        }
    }
    assert!(sum.exact >= worlds / 30, "losses were compared in only {} worlds", sum.exact);
    // The worlds reach everything that can happen to a part of a heap.
    for why in [
        Reject::Late,
        Reject::Duplicate,
        Reject::Overlap,
        Reject::Outside,
        Reject::WrongSize,
        Reject::OutOfOrder,
        Reject::Unsized,
        Reject::NoBuffer,
        Reject::Fragmented,
    ] {
        assert!(sum.rejects.get(why) > 0, "no world refuses a part as {why:?}");
    }
    for cause in ["complete", "window", "timeout", "finish"] {
        assert!(sum.causes.contains_key(cause), "no world hands a heap on for {cause}");
    }
    assert!(sum.stopped > 0 && sum.starts > worlds, "{sum:?}");
}

#[test]
fn a_seed_plays_the_same_world_again() {
    for seed in [6, 63, 169, 1201] {
        let play = || {
            let mut lines = Vec::new();
            let tally = SpeadWorld::random(seed).run(&mut |line| lines.push(line())).unwrap();
            (lines, tally)
        };
        assert_eq!(play(), play());
    }
}

/// Loss, repetition, delay, stall and end at every packet of every small stream, on all limits; and pairs of them.
#[test]
fn every_fault_at_every_packet_holds() {
    let mut sum = SpeadTally::default();
    for (name, world) in small::worlds(400) {
        match world.run(&mut |_| ()) {
            Ok(tally) => sum.add(&tally),
            Err(why) => panic!("{name}: {why}"),
        }
    }
    assert!(
        sum.exact >= sum.worlds / 8,
        "losses were compared in only {} of {} worlds",
        sum.exact,
        sum.worlds
    );
}

/// With room for all heaps and each packet in time, a loss costs exactly the packet that it hits.
#[test]
fn a_lost_packet_is_missing_and_nothing_else_is() {
    let roomy = small::limits().into_iter().find(|c| c.window == 16 && c.timeout.is_some() && !c.in_order);
    for stream in small::streams() {
        let heaps = stream.plans.iter().filter(|plan| plan.control != Some(2)).count() as u64;
        for at in 0..stream.order.len() {
            let fault = Some(small::Fault::Lose(at));
            let tally = small::world(&stream, roomy.unwrap(), fault, None).run(&mut |_| ()).unwrap();
            let plan = &stream.plans[stream.order[at].1.plan];
            let gone = plan.cuts.len() == 1 && plan.control != Some(2);
            assert_eq!(tally.causes.values().sum::<u64>(), heaps - u64::from(gone), "packet {at}");
            assert_eq!(tally.exact, 1, "packet {at}");
        }
    }
}
