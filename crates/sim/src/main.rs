//! Plays worlds: `skyhaul-sim [SEED | spead SEED] [--worlds N] [--from SEED]`, `skyhaul-sim rate [--seed SEED] [--worlds N]`.
#![forbid(unsafe_code)]

use skyhaul_sim::model::Held;
use skyhaul_sim::rate;
use skyhaul_sim::spead::{SpeadTally, SpeadWorld, small};
use skyhaul_sim::world::{Log, Tally, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let (mut replay, mut spead, mut worlds, mut from) = (None, false, 1000u64, 1u64);
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
            ("spead", _) => spead = true,
            (_, Ok(seed)) => replay = Some(seed),
            _ => return usage(),
        }
    }
    let outcome = match replay {
        Some(seed) if spead => show(|log| SpeadWorld::random(seed).run(log)),
        Some(seed) => show(|log| World::random(seed).run(log)),
        None => play(from, worlds),
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

/// One world, a line for each event.
fn show<T: std::fmt::Debug>(world: impl FnOnce(Log<'_>) -> Held<T>) -> Held {
    let tally = world(&mut |line| println!("{}", line()))?;
    println!("{tally:#?}");
    Ok(())
}

/// Worlds of both kinds from a seed on, and the small ones.
fn play(from: u64, worlds: u64) -> Held {
    let seeds = from..from.saturating_add(worlds);
    let began = Instant::now();
    let mut sum = Tally::default();
    for seed in seeds.clone() {
        sum.add(&guard(seed, || World::random(seed).run(&mut |_| ()))?);
    }
    print(&sum, began.elapsed().as_secs_f64());

    let began = Instant::now();
    let mut sum = SpeadTally::default();
    for seed in seeds {
        let replay = format!("spead {seed}");
        sum.add(&guard(replay, || SpeadWorld::random(seed).run(&mut |_| ()))?);
    }
    print_spead("SPEAD worlds", &sum, began.elapsed().as_secs_f64());

    let began = Instant::now();
    let mut sum = SpeadTally::default();
    // The more worlds, the more pairs of faults; all of them from 200000 worlds on.
    for (name, world) in small::worlds((200_000 / worlds.max(1)) as usize) {
        let why = |why| format!("small world ({name}): {why}");
        sum.add(&caught(|| world.run(&mut |_| ())).map_err(why)?);
    }
    print_spead("small SPEAD worlds", &sum, began.elapsed().as_secs_f64());
    Ok(())
}

fn guard<T>(replay: impl std::fmt::Display, world: impl FnOnce() -> Held<T>) -> Held<T> {
    caught(world)
        .map_err(|why| format!("world {replay}: {why}\nreplay: cargo run -p skyhaul-sim -- {replay}"))
}

/// A panic is something that did not hold.
fn caught<T>(world: impl FnOnce() -> Held<T>) -> Held<T> {
    catch_unwind(AssertUnwindSafe(world)).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: skyhaul-sim [SEED | spead SEED] [--worlds N] [--from SEED]\n       skyhaul-sim rate [--seed SEED] [--worlds N]"
    );
    ExitCode::from(2)
}

fn row(name: &str, count: u64) {
    println!("{name:<28} {count:>14}");
}

fn print(sum: &Tally, seconds: f64) {
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
    println!("{seconds:.1} s, {:.0} packets/s\n", sum.packets as f64 / seconds);
}

fn print_spead(name: &str, sum: &SpeadTally, seconds: f64) {
    row(name, sum.worlds);
    row("  with exact losses", sum.exact);
    row("  ended by their senders", sum.stopped);
    row("packets", sum.packets);
    row("  in place, or in pieces", sum.accepted);
    sum.rejects.iter().for_each(|(why, count)| row(&format!("  {}", why.name()), count));
    row("heaps retired", sum.causes.values().sum());
    sum.causes.iter().for_each(|(cause, &count)| row(&format!("  {cause}"), count));
    row("starts", sum.starts);
    println!("{seconds:.1} s, {:.0} packets/s\n", sum.packets as f64 / seconds);
}
