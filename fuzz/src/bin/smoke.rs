//! The driver without tools: `smoke [TARGET] [--executions N] [--seed S]`; `smoke TARGET --input HEX` replays, and
//! `smoke TARGET --write-seeds DIR` gives the seeds to another driver.
//!
//! Prints what Rust's test harness prints, so that the test runner counts it.
#![forbid(unsafe_code)]

use skyhaul_fuzz::{Target, mutate, targets};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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
    let (mut passed, mut failed) = (0, 0);
    for target in chosen {
        let began = Instant::now();
        let executions = (options.executions / target.weight).max(1);
        match attack(target, executions, options.seed) {
            Ok(()) => {
                let rate = executions as f64 / began.elapsed().as_secs_f64();
                println!("test fuzz::{} ... ok ({executions} executions, {rate:.0}/s)", target.name);
                passed += 1;
            }
            Err(input) => {
                println!("test fuzz::{} ... FAILED", target.name);
                println!("replay: smoke {} --input {}", target.name, to_hex(&input));
                failed += 1;
            }
        }
    }
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
