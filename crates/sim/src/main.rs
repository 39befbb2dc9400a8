//! Plays worlds: `skyhaul-sim [rate|balance|site|rdma|reads|disk|fleet] [SEED] [--worlds N] [--from SEED]`.
#![forbid(unsafe_code)]

use skyhaul_sim::ledger::{Held, Tally};
use skyhaul_sim::{balance, disk, fleet, play, rate, rdma, site};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    let rates = words.next_if_eq("rate").is_some();
    let balancers = words.next_if_eq("balance").is_some();
    let sites = words.next_if_eq("site").is_some();
    let endpoints = words.next_if_eq("rdma").is_some();
    let reads = words.next_if_eq("reads").is_some();
    let disks = words.next_if_eq("disk").is_some();
    let fleets = words.next_if_eq("fleet").is_some();
    let (mut seed, mut worlds, mut from) = (None, None, 1u64);
    while let Some(word) = words.next() {
        let value = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        let (to, number) = match word.as_str() {
            "--worlds" => (worlds.get_or_insert(0), value(words.next())),
            "--from" => (&mut from, value(words.next())),
            "--seed" => (seed.get_or_insert(0), value(words.next())),
            _ => (seed.get_or_insert(0), value(Some(word))),
        };
        let Some(number) = number else {
            eprintln!(
                "usage: skyhaul-sim [rate|balance|site|rdma|reads|disk|fleet] [SEED] [--worlds N] [--from SEED]"
            );
            return ExitCode::from(2);
        };
        *to = number;
    }
    let outcome = match (rates, seed) {
        _ if balancers => {
            balancer_worlds(seed.map_or(from..from + worlds.unwrap_or(100), |seed| seed..seed + 1))
        }
        _ if sites => site_worlds(seed.map_or(from..from + worlds.unwrap_or(1000), |seed| seed..seed + 1)),
        _ if endpoints => {
            rdma_worlds(seed.map_or(from..from + worlds.unwrap_or(2000), |seed| seed..seed + 1))
        }
        _ if reads => rdma_reads(seed.map_or(from..from + worlds.unwrap_or(4), |seed| seed..seed + 1)),
        _ if disks => disk_worlds(seed.map_or(from..from + worlds.unwrap_or(1000), |seed| seed..seed + 1)),
        _ if fleets => fleet_worlds(seed.map_or(from..from + worlds.unwrap_or(100), |seed| seed..seed + 1)),
        (true, Some(seed)) => rate_world(seed),
        (true, None) => rate_worlds(worlds.unwrap_or(100)),
        (false, Some(seed)) => {
            play::seed(seed, &mut |line| println!("{}", line())).map(|tally| println!("{tally:#?}"))
        }
        (false, None) => many(from, worlds.unwrap_or(1000)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Sites; the counts of all worlds.
fn site_worlds(seeds: Range<u64>) -> Held {
    let mut sum = site::Played::default();
    for seed in seeds {
        let why = |why| format!("{why}\nreplay: cargo run -p skyhaul-sim -- site {seed}");
        sum.add(&site::play(seed).map_err(why)?);
    }
    println!("{sum:#?}");
    Ok(())
}

/// Endpoints of RDMA; the counts of all worlds.
fn rdma_worlds(seeds: Range<u64>) -> Held {
    let mut sum = rdma::Played::default();
    for seed in seeds {
        let why = |why| format!("{why}\nreplay: cargo run -p skyhaul-sim -- rdma {seed}");
        sum.add(&rdma::play(seed).map_err(why)?);
    }
    println!("{sum:#?}");
    Ok(())
}

/// Reads of 1 MiB under loss: what they cost, by loss, datagram and Reads at a time.
fn rdma_reads(seeds: Range<u64>) -> Held {
    println!(
        "datagram, at a time, loss: segments sent for each placed; requests for each Read; longest; complete"
    );
    for (datagram_bytes, at_a_time) in [(1472, 8), (8972, 8), (1472, 1)] {
        for loss in [0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 0.5] {
            let mut sum = rdma::ReadsPlayed::default();
            for seed in seeds.clone() {
                let read_bytes = 1 << 20;
                let plan = rdma::ReadPlan {
                    seed,
                    loss,
                    read_bytes,
                    datagram_bytes,
                    at_a_time,
                    ..Default::default()
                };
                sum.add(&rdma::read_all(&plan)?);
            }
            let reads = sum.reads[0] + sum.reads[1];
            println!(
                "{datagram_bytes}, {at_a_time}, {:4.1} %: {:.3}; {:6.1}; {:7.2} ms; {} of {reads}",
                loss * 100.0,
                sum.segments[0] as f64 / sum.segments[1] as f64,
                sum.requests as f64 / reads as f64,
                sum.longest.0 as f64 / 1e6,
                sum.reads[0]
            );
        }
    }
    Ok(())
}

/// Recordings and readers of a disk; the counts of all worlds.
fn disk_worlds(seeds: Range<u64>) -> Held {
    let mut sum = disk::Played::default();
    for seed in seeds {
        let why = |why| format!("{why}\nreplay: cargo run -p skyhaul-sim -- disk {seed}");
        sum.add(&disk::play(seed).map_err(why)?);
    }
    println!("{sum:#?}");
    Ok(())
}

/// Fleets of a few stations; the counts of all worlds.
fn fleet_worlds(seeds: Range<u64>) -> Held {
    let mut sum = fleet::Played::default();
    for seed in seeds {
        let why = |why| format!("{why}\nreplay: cargo run -p skyhaul-sim -- fleet {seed}");
        sum.add(&fleet::play(seed, fleet::STATIONS, fleet::SCANS).map_err(why)?);
    }
    println!("{sum:#?}");
    Ok(())
}

/// Balancers; the counts of all worlds.
fn balancer_worlds(seeds: Range<u64>) -> Held {
    let mut sum = balance::Played::default();
    for seed in seeds {
        let why = |why| format!("{why}\nreplay: cargo run -p skyhaul-sim -- balance {seed}");
        sum.add(&balance::play(seed, balance::EVENTS).map_err(why)?);
    }
    println!("{sum:#?}");
    Ok(())
}

/// A link shared by controlled senders, as a timeline.
fn rate_world(seed: u64) -> Held {
    let world = rate::World::random(seed);
    let rows = world.link.play();
    rate::timeline(&rows).for_each(|line| println!("{line}"));
    println!("{}", rate::figures(&world, &rows));
    rate::judge(&world, &rows).map_err(|why| format!("rate world {seed}: {why}"))
}

/// Many such links.
fn rate_worlds(worlds: u64) -> Held {
    let mut measured = Vec::new();
    for seed in 1..=worlds {
        let world = rate::World::random(seed);
        let rows = world.link.play();
        rate::judge(&world, &rows).map_err(|why| {
            let replay = format!("replay: cargo run -p skyhaul-sim -- rate --seed {seed}");
            format!("{}\nrate world {seed}: {why}\n{replay}", rate::figures(&world, &rows))
        })?;
        measured.push((world.kind, rate::measures(&world, &rows)));
    }
    rate::table(&measured).iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Worlds from a seed on, so many of frames and of each family of keyed objects, and the small ones.
fn many(from: u64, worlds: u64) -> Held {
    let began = Instant::now();
    let mut sum = Tally::default();
    for seed in from..from.saturating_add(worlds.saturating_mul(play::round())) {
        let why = |why| format!("world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- {seed}");
        sum.add(&play::seed(seed, &mut |_| ()).map_err(why)?);
    }
    print("worlds", &sum, began);
    let began = Instant::now();
    // The more worlds, the more pairs of faults; all of them from 200000 worlds on.
    let sum = play::small((200_000 / worlds.max(1)) as usize)?;
    print("small worlds", &sum, began);
    Ok(())
}

fn print(name: &str, sum: &Tally, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}:");
    sum.rows().iter().for_each(|(name, count)| println!("{name:<38} {count:>14}"));
    println!("{seconds:.1} s, {:.0} packets/s\n", sum.packets as f64 / seconds);
}
