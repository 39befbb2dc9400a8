//! The driver without tools: `smoke [TARGET] [--executions N] [--seed S]`; `smoke TARGET --input HEX` replays, and
//! `smoke TARGET --write-seeds DIR` gives the seeds to another driver.
//!
//! Prints what Rust's test harness prints, so that the test runner counts it.
#![forbid(unsafe_code)]

use skyhaul_fuzz::{Target, mutate, targets};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

struct Options {
    target: Option<String>,
    executions: u64,
    seed: u64,
    input: Option<String>,
    write_seeds: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: smoke [TARGET] [--executions N] [--seed S] [--input HEX] [--write-seeds DIR]");
        let names: Vec<&str> = targets().iter().map(|target| target.name).collect();
        eprintln!("targets: {}", names.join(" "));
        return ExitCode::from(2);
    };
    let chosen: Vec<Target> = targets()
        .into_iter()
        .filter(|t| options.target.as_deref().is_none_or(|name| name == t.name))
        .collect();
    if let Some(input) = &options.input {
        for target in chosen {
            target.run(&from_hex(input));
        }
        return ExitCode::SUCCESS;
    }
    if let Some(directory) = &options.write_seeds {
        return match write_seeds(&chosen, directory) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}: {error}", directory.display());
                ExitCode::FAILURE
            }
        };
    }
    let failed = attack_all(&chosen, &options);
    let passed = chosen.len() - failed;
    skyhaul_fuzz::clean_up();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out");
    ExitCode::from(u8::from(failed > 0))
}

fn write_seeds(targets: &[Target], directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for target in targets {
        for (n, seed) in target.seeds().iter().enumerate() {
            std::fs::write(directory.join(format!("{}-{n}", target.name)), seed)?;
        }
    }
    Ok(())
}

/// Attack each target, one on each processor at a time, and tell what came of it; how many broke.
fn attack_all(targets: &[Target], options: &Options) -> usize {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        while let Some(&target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !told(target, options) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(worker);
        }
    });
    failed.into_inner()
}

/// Attack a target and print what came of it, at once, as others print theirs; whether it held.
fn told(target: Target, options: &Options) -> bool {
    let began = Instant::now();
    let executions = (options.executions / target.weight).max(1);
    match attack(target, executions, options.seed) {
        Ok(()) => {
            let rate = executions as f64 / began.elapsed().as_secs_f64();
            println!("test fuzz::{} ... ok ({executions} executions, {rate:.0}/s)", target.name);
            true
        }
        Err(input) => {
            let replay = format!("replay: smoke {} --input {}", target.name, to_hex(&input));
            println!("test fuzz::{} ... FAILED\n{replay}", target.name);
            false
        }
    }
}

/// Run a target on mutations of its seeds, and on the seeds themselves; the input that broke it, if one did.
fn attack(target: Target, executions: u64, seed: u64) -> Result<(), Vec<u8>> {
    let seeds = target.seeds();
    let broken = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| target.run(input))).is_err();
    if let Some(seed) = seeds.iter().find(|seed| broken(seed)) {
        return Err(seed.clone());
    }
    let mut random = mutate::Random(seed);
    let mut input = Vec::new();
    for _ in 0..executions {
        mutate::mutate(&mut input, &seeds, &mut random);
        if broken(&input) {
            return Err(input);
        }
    }
    Ok(())
}

fn options() -> Option<Options> {
    let mut options = Options { target: None, executions: 100_000, seed: 1, input: None, write_seeds: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--executions" => options.executions = words.next()?.parse().ok()?,
            "--seed" => options.seed = words.next()?.parse().ok()?,
            "--input" => options.input = Some(words.next()?),
            "--write-seeds" => options.write_seeds = Some(words.next()?.into()),
            name => {
                skyhaul_fuzz::target(name)?;
                options.target = Some(name.to_owned());
            }
        }
    }
    Some(options)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
