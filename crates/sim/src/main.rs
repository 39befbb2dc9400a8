//! Plays worlds: `skyhaul-sim [SEED] [--worlds N] [--from SEED]`, `skyhaul-sim rate [--seed SEED] [--worlds N]`.
#![forbid(unsafe_code)]

use skyhaul_sim::model::Held;
use skyhaul_sim::rate;
use skyhaul_sim::world::{Tally, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let (mut replay, mut worlds, mut from) = (None, 1000u64, 1u64);
    if std::env::args().nth(1).as_deref() == Some("rate") {
        return rate_worlds(std::env::args().skip(2));
    }
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value =
            |words: &mut dyn Iterator<Item = String>| words.next().and_then(|text| text.parse::<u64>().ok());
        match (word.as_str(), word.parse::<u64>()) {
            ("--worlds", _) => match value(&mut words) {
                Some(count) => worlds = count,
                None => return usage(),
            },
            ("--from", _) => match value(&mut words) {
                Some(seed) => from = seed,
                None => return usage(),
            },
            (_, Ok(seed)) => replay = Some(seed),
            _ => return usage(),
        }
    }
    if let Some(seed) = replay {
        let outcome = World::random(seed).run(&mut |line| println!("{}", line()));
        return report(seed, &outcome.map(|tally| println!("{tally:#?}")));
    }
    let began = Instant::now();
    let mut sum = Tally::default();
    for seed in from..from.saturating_add(worlds) {
        match play(seed) {
            Ok(tally) => sum.add(&tally),
            Err(why) => return report(seed, &Err(why)),
        }
    }
    print(&sum, began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// `rate [--seed N] [--worlds N]`: links shared by controlled senders.
fn rate_worlds(mut words: impl Iterator<Item = String>) -> ExitCode {
    let (mut seed, mut worlds) = (None, 100u64);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|text| text.parse::<u64>().ok());
        match (word.as_str(), value) {
            ("--seed", Some(value)) => seed = Some(value),
            ("--worlds", Some(value)) => worlds = value,
            _ => return usage(),
        }
    }
    if let Some(seed) = seed {
        let world = rate::World::random(seed);
        let rows = world.link.play();
        rate::timeline(&rows).for_each(|line| println!("{line}"));
        println!("{}", rate::figures(&world, &rows));
        return report(seed, &rate::judge(&world, &rows));
    }
    for seed in 1..=worlds {
        let world = rate::World::random(seed);
        let rows = world.link.play();
        println!("{seed:>6} {}", rate::figures(&world, &rows));
        if let Err(why) = rate::judge(&world, &rows) {
            println!("rate world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- rate --seed {seed}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Play a world; a panic is something that did not hold.
fn play(seed: u64) -> Held<Tally> {
    catch_unwind(AssertUnwindSafe(|| World::random(seed).run(&mut |_| ())))
        .unwrap_or_else(|_| Err("it panicked".to_owned()))
}

fn report(seed: u64, outcome: &Held) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- {seed}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: skyhaul-sim [SEED] [--worlds N] [--from SEED]\n       skyhaul-sim rate [--seed SEED] [--worlds N]"
    );
    ExitCode::from(2)
}

fn print(sum: &Tally, seconds: f64) {
    let row = |name: &str, count: u64| println!("{name:<28} {count:>14}");
    row("worlds", sum.worlds);
    row("  with an exact loss map", sum.exact);
    sum.families.iter().for_each(|(family, &count)| row(&format!("  {family}"), count));
    row("packets", sum.packets);
    row("  in place", sum.accepted);
    row("    of these stray", sum.strays);
    sum.rejects.iter().for_each(|(why, count)| row(&format!("  {}", why.name()), count));
    row("parts retired", sum.causes.values().sum());
    sum.causes.iter().for_each(|(cause, &count)| row(&format!("  {cause}"), count));
    row("restarts followed", sum.epochs);
    row("blocks written again", sum.rewritten);
    println!("{seconds:.1} s, {:.0} packets/s", sum.packets as f64 / seconds);
}
