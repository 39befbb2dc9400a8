//! Plays worlds: `skyhaul-sim [SEED] [--worlds N] [--from SEED]`, `skyhaul-sim rate [--seed SEED] [--worlds N]`.
#![forbid(unsafe_code)]

use skyhaul_sim::ledger::Held;
use skyhaul_sim::tally::Tally;
use skyhaul_sim::{play, rate};
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
    let outcome = match replay {
        Some(seed) => {
            play::seed(seed, &mut |line| println!("{}", line())).map(|tally| println!("{tally:#?}"))
        }
        None => many(from, worlds),
    };
    report(outcome)
}

fn report(outcome: Held) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
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
        let why = |why| format!("rate world {seed}: {why}");
        return report(rate::judge(&world, &rows).map_err(why));
    }
    let mut measured = Vec::new();
    for seed in 1..=worlds {
        let world = rate::World::random(seed);
        let rows = world.link.play();
        if let Err(why) = rate::judge(&world, &rows) {
            println!("{}", rate::figures(&world, &rows));
            println!("rate world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- rate --seed {seed}");
            return ExitCode::FAILURE;
        }
        measured.push((world.kind, rate::measures(&world, &rows)));
    }
    rate::table(&measured).iter().for_each(|line| println!("{line}"));
    ExitCode::SUCCESS
}

/// Worlds from a seed on, so many of frames and of each family of keyed objects, and the small ones.
fn many(from: u64, worlds: u64) -> Held {
    let began = Instant::now();
    let mut sum = Tally::default();
    for seed in from..from.saturating_add(worlds.saturating_mul(play::round())) {
        let why = |why| format!("world {seed}: {why}\nreplay: cargo run -p skyhaul-sim -- {seed}");
        sum.add(&caught(|| play::seed(seed, &mut |_| ())).map_err(why)?);
    }
    print("worlds", &sum, began);
    let began = Instant::now();
    // The more worlds, the more pairs of faults; all of them from 200000 worlds on.
    let sum = caught(|| play::small((200_000 / worlds.max(1)) as usize))?;
    print("small worlds", &sum, began);
    Ok(())
}

/// A panic is something that did not hold.
fn caught<T>(world: impl FnOnce() -> Held<T>) -> Held<T> {
    catch_unwind(AssertUnwindSafe(world)).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: skyhaul-sim [SEED] [--worlds N] [--from SEED]\n       skyhaul-sim rate [--seed SEED] [--worlds N]"
    );
    ExitCode::from(2)
}

fn print(name: &str, sum: &Tally, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}:");
    sum.rows().iter().for_each(|(name, count)| println!("{name:<38} {count:>14}"));
    println!("{seconds:.1} s, {:.0} packets/s\n", sum.packets as f64 / seconds);
}
