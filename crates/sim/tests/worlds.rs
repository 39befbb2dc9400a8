//! Many worlds, and the ones that a user was promised.

use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::keyed::{Control, Keyed, VisitKeyed};
use skyhaul_core::wire::{FAMILIES, Objects};
use skyhaul_sim::ledger::Tally;
use skyhaul_sim::network::Network;
use skyhaul_sim::ordered::{Frames, Journey, kinds};
use skyhaul_sim::rdma::{ReadPlan, read_all};
use skyhaul_sim::world::World;
use skyhaul_sim::{keyed, play};

/// Worlds of frames, and as many of each family of keyed objects. More with `SKYHAUL_SIM_WORLDS=100000`.
fn worlds() -> u64 {
    std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1500)
}

/// Those of the seeds that are `n` more than a multiple of the round.
fn play_each(n: u64) -> Tally {
    let mut sum = Tally::default();
    for seed in (0..worlds()).map(|round| round * play::round() + n) {
        match play::seed(seed, &mut |_| ()) {
            Ok(tally) => sum.add(&tally),
            Err(why) => panic!("world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- {seed}"),
        }
    }
    sum
}

#[test]
fn every_world_of_frames_holds() {
    let sum = play_each(0);
    assert!(sum.exact >= worlds() / 20, "only {} loss maps were compared", sum.exact);
    assert_eq!(sum.kinds.len(), kinds().count(), "{:?}", sum.kinds);
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
fn every_world_of_keyed_objects_holds() {
    let mut sum = Tally::default();
    for n in 1..play::round() {
        let family = play_each(n);
        let exact = family.exact;
        assert!(exact >= worlds() / 30, "losses were compared in only {exact} worlds of {:?}", family.kinds);
        sum.add(&family);
    }
    // The worlds reach everything that can happen to a part of an object.
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
        assert!(sum.causes.contains_key(cause), "no world hands an object on for {cause}");
    }
    assert!(sum.stopped > 0 && sum.starts > worlds(), "{sum:?}");
}

/// What is generated or has keys is sent in some world, without being named in any.
#[test]
fn every_family_takes_part() {
    for family in FAMILIES {
        let is_sent = family.objects() != Objects::Frames || !family.trials().is_empty();
        assert!(is_sent, "{family} is in no world");
    }
}

#[test]
fn a_seed_plays_the_same_world_again() {
    for seed in [3, 6, 63, 169, 1201, 1884, 20_313, 57_334] {
        let play = || {
            let mut lines = Vec::new();
            let tally = play::seed(seed, &mut |line| lines.push(line())).unwrap();
            (lines, tally)
        };
        assert_eq!(play(), play());
    }
}

/// A world of each kind of frames whose positions are all told.
fn of_frames(network: &Network) -> impl Iterator<Item = World<Frames>> {
    (0u64..).zip(kinds()).filter_map(|(seed, (family, kind))| {
        // Large rates, and large objects: so many that a second has more than one.
        let trial = kind(&mut |below| below - 1);
        let told = trial.seconds.is_none();
        let frames = Frames::new(family, trial, 1000, 123_456).expect("a stream that is learned");
        let journey = Journey { packets: 20_000, gap: Nanos(2_000), ..Journey::default() };
        told.then(|| World::of(seed, frames, network.clone(), journey, 1000))
    })
}

/// The network: 1 % loss, reordering over 64, 1 % duplicates, bursts of 500, on limits as they are by default.
#[test]
fn the_loss_map_equals_the_injected_loss() {
    let network = Network {
        loss: 0.01,
        burst: 0.0002,
        burst_longest: 250,
        depth: 64,
        duplicate: 0.01,
        ..Network::default()
    };
    for world in of_frames(&network) {
        let tally = world.run(&mut |_| ()).unwrap();
        assert_eq!(tally.exact, 1, "{tally:?}");
        let refused = tally.rejects.total() - tally.rejects.get(Reject::Duplicate);
        assert_eq!(refused, 0, "{tally:?}");
        assert!(tally.rejects.get(Reject::Duplicate) > 50, "{tally:?}");
    }
}

/// Absurd numbers, lengths, times and garbage, nearly one for each honest packet.
#[test]
fn hostile_packets_cost_the_stream_nothing() {
    let honest = Network { depth: 64, quiet: 80, ..Network::default() };
    let hostile = Network { hostile: 0.9, ..honest.clone() };
    for (alone, attacked) in of_frames(&honest).zip(of_frames(&hostile)) {
        let (alone, attacked) = (alone.run(&mut |_| ()).unwrap(), attacked.run(&mut |_| ()).unwrap());
        assert_eq!(alone.accepted, 20_000, "{alone:?}");
        assert!(attacked.packets > 37_000 && attacked.rejects.total() > 5_000, "{attacked:?}");
        assert!(attacked.accepted - attacked.strays >= 20_000, "{attacked:?}");
        assert_eq!(attacked.epochs, 0, "{attacked:?}");
    }
}

/// Loss, repetition, delay, stall and end at every packet of every small stream, on all limits; and pairs of them.
#[test]
fn every_fault_at_every_packet_holds() {
    let sum = play::small(400).unwrap_or_else(|why| panic!("{why}"));
    let (exact, worlds) = (sum.exact, sum.worlds);
    assert!(exact >= worlds / 8, "losses were compared in only {exact} of {worlds} worlds");
}

/// With room for all objects and each packet in time, a loss costs exactly the packet that it hits.
#[test]
fn a_lost_packet_is_missing_and_nothing_else_is() {
    struct Each;
    impl VisitKeyed for Each {
        type Out = ();
        fn visit<W: Keyed>(self) {
            let roomy =
                keyed::limits().into_iter().find(|c| c.window == 16 && c.timeout.is_some() && !c.in_order);
            for kind in 0..keyed::shapes().len() {
                let stream = keyed::side::<W>(kind, roomy.unwrap()).stream;
                let is_data = |control: Option<Control>| control != Some(Control::Stop);
                let objects = stream.plans.iter().filter(|plan| is_data(plan.control)).count() as u64;
                for at in 0..stream.order.len() {
                    let fault = Some(keyed::Fault::Lose(at));
                    let world = keyed::world::<W>(kind, roomy.unwrap(), fault, None);
                    let tally = world.run(&mut |_| ()).unwrap();
                    let plan = &stream.plans[stream.order[at].1.plan];
                    let gone = plan.cuts.len() == 1 && is_data(plan.control);
                    assert_eq!(tally.causes.values().sum::<u64>(), objects - u64::from(gone), "packet {at}");
                    assert_eq!(tally.exact, 1, "packet {at}");
                }
            }
        }
    }
    let played: Vec<()> = FAMILIES.iter().filter_map(|family| family.visit_keyed(Each)).collect();
    assert_eq!(played.len() as u64, play::round() - 1);
}

/// More with `SKYHAUL_SIM_WORLDS=100000`.
#[test]
fn endpoints_of_rdma_report_what_came_and_nothing_else() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
    let (mut sum, mut failed) = (skyhaul_sim::rdma::Played::default(), Vec::new());
    for seed in 0..worlds {
        match skyhaul_sim::rdma::play(seed) {
            Ok(played) => sum.add(&played),
            Err(why) => failed.push(format!("{why}\nreplay: cargo run -p skyhaul-sim -- rdma {seed}")),
        }
    }
    assert!(
        failed.is_empty(),
        "{} worlds failed; the first:\n{}",
        failed.len(),
        failed[..failed.len().min(8)].join("\n")
    );
    println!("{sum:#?}");
    assert!(sum.messages.iter().chain(&sum.reads).all(|&count| count > worlds / 10), "{sum:?}");
    for by in ["here", "peer", "rejected", "silence"] {
        assert!(sum.closed.get(by).is_some_and(|&count| count > 0), "no connection ended by {by}");
    }
    // The worlds reach whatever a datagram of strangers, or a late one, can meet.
    for why in [
        "truncated",
        "bad_checksum",
        "bad_version",
        "unknown_connection",
        "wrong_address",
        "unproven",
        "bad_stag",
        "out_of_bounds",
        "offset_wrap",
        "no_access",
        "late",
        "duplicate",
        "too_many_reads",
    ] {
        assert!(sum.refused.get(why).is_some_and(|&count| count > 0), "no world refuses a datagram as {why}");
    }
}

/// A Read of 256 KiB is 183 segments. If the last of them is lost, or all are, nothing else shows it but silence.
#[test]
fn a_read_whose_end_is_lost_asks_again_by_the_times_of_its_path() {
    for (delay, longest) in [(50_000, 5_000_000), (20_000_000, 240_000_000)] {
        for withheld in [182..183, 0..183, 100..183] {
            let lost = withheld.end - withheld.start;
            let plan = ReadPlan { reads: 1, delay: Nanos(delay), withheld, ..ReadPlan::default() };
            let played = read_all(&plan).unwrap();
            assert_eq!(played.reads, [1, 0], "{plan:?}");
            assert!(played.longest <= Nanos(longest), "{played:?} of {plan:?}");
            assert_eq!(played.segments, [183 + lost, 183], "{plan:?}");
            assert!(played.silences >= 1 && played.requests <= 3, "{played:?}");
        }
    }
}

/// Reads of 1 MiB at 30 %: less than one datagram for nothing where ten are placed, and no Read waits for its program's time.
#[test]
fn reads_ask_for_what_is_missing_and_little_else() {
    for (loss, most) in [(0.01, 1.02), (0.1, 1.14), (0.3, 1.55), (0.5, 2.4)] {
        let plan = ReadPlan {
            loss,
            read_bytes: 1 << 20,
            datagram_bytes: 8972,
            reads: 8,
            at_a_time: 8,
            ..ReadPlan::default()
        };
        let played = read_all(&plan).unwrap();
        let share = played.segments[0] as f64 / played.segments[1] as f64;
        assert_eq!((played.reads, played.refused), ([8, 0], 0), "{played:?}");
        assert!(share <= most, "{share} at {loss}: {played:?}");
        assert!(played.longest < Nanos(200_000_000), "{played:?}");
    }
}

/// Eight Reads of 1 MiB take 84 ms at 100 MB/s, longer than the program's time of 25 ms: nothing is asked for that is under way.
#[test]
fn a_slow_path_is_not_asked_for_what_is_under_way() {
    let plan = ReadPlan {
        rate: 100_000_000,
        read_bytes: 1 << 20,
        datagram_bytes: 8972,
        reads: 8,
        deadline: Nanos(200_000_000),
        ..ReadPlan::default()
    };
    let played = read_all(&plan).unwrap();
    assert_eq!((played.reads, played.requests), ([8, 0], 8), "{played:?}");
    assert_eq!(played.segments[0], played.segments[1], "{played:?}");
}

/// A server that pauses is asked less and less, and sends little twice when it is back; one that is gone costs a few requests, and no
/// Read outlasts its deadline.
#[test]
fn a_server_that_pauses_is_not_flooded() {
    let pause = |until: u64| Nanos(2_000_000)..Nanos(until);
    let plan = ReadPlan { read_bytes: 1 << 20, stall: pause(200_000_000), ..ReadPlan::default() };
    let played = read_all(&plan).unwrap();
    assert_eq!(played.reads, [16, 0], "{played:?}");
    // At most 64 KiB, 46 segments, for each silence.
    assert!(played.segments[0] - played.segments[1] <= 46 * played.silences, "{played:?}");
    assert!((4..=12).contains(&played.silences), "{played:?}");
    let plan =
        ReadPlan { reads: 8, read_bytes: 1 << 20, stall: pause(60_000_000_000), ..ReadPlan::default() };
    let played = read_all(&plan).unwrap();
    assert_eq!((played.reads[0] + played.reads[1], played.overdue), (8, Nanos(0)), "{played:?}");
    assert!(played.silences <= 16 && played.requests <= 300, "{played:?}");
}

#[test]
fn a_seed_plays_the_same_rdma_world_again() {
    assert_eq!(skyhaul_sim::rdma::play(7), skyhaul_sim::rdma::play(7));
}

/// More with `SKYHAUL_SIM_WORLDS=100000`.
#[test]
fn recordings_lose_nothing_to_readers_of_their_disk() {
    let worlds = std::env::var("SKYHAUL_SIM_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let (mut sum, mut failed) = (skyhaul_sim::disk::Played::default(), Vec::new());
    for seed in 0..worlds {
        match skyhaul_sim::disk::play(seed) {
            Ok(played) => sum.add(&played),
            Err(why) => failed.push(format!("{why}\nreplay: cargo run -p skyhaul-sim -- disk {seed}")),
        }
    }
    assert!(
        failed.is_empty(),
        "{} worlds failed; the first:\n{}",
        failed.len(),
        failed[..failed.len().min(8)].join("\n")
    );
    println!("{sum:#?}");
    // Some disks are too slow; they lose, and the world says so.
    assert!(sum.overloaded > worlds / 10 && sum.lost_bytes > 0, "{sum:?}");
    assert_eq!(skyhaul_sim::disk::play(7), skyhaul_sim::disk::play(7));
}
