//! # Repository chores
//!
//! What CI runs, anyone runs: every check of this repository is a subcommand here, and those that need no built
//! binary are tests as well, so that plain `cargo test` holds them.
//!
//! ```text
//! cargo xtask tidy          sizes of files and functions, unsafe fence, paths, sources that pages name, a test that provokes each
//!                           refusal, formats named where any might be meant
//! cargo xtask arrows        which crate may depend on which; wire and assembly never meet; no circle between files
//! cargo xtask pure          the core has no clock, socket, file or thread
//! cargo xtask man           writes docs/reference/man and docs/reference/completions (--check: only compare)
//! cargo xtask proto         writes the control plane's protocol as data and as code: loadbalancer.bin and proto.rs of crates/daemon
//! cargo xtask host          writes the page of the checks of a host, docs/reference/host.md
//! cargo xtask glossary      writes the tables of public names in docs/concepts/glossary.md
//! cargo xtask fuzz [T [S]]  attack target T for S seconds; without T, list the targets
//! cargo xtask instructions  the instructions of a packet on its way, against what they were (--write: write them down)
//! cargo xtask docs          the documentation site, target/site/index.html
//! cargo xtask python        the wheel with the command in it, installed in .venv (--debug: of the tests' build; --no-install: only built)
//! cargo xtask python --aarch64  the wheel for AArch64, in target/wheels-aarch64
//! cargo xtask python --every    the tests of the wheel in target/wheels with each Python 3.11 to 3.14 that is here
//! cargo xtask deb           the Debian package of the release build, in target/deb
//! cargo xtask aarch64       tests of the code with instructions of AArch64, in an emulator
//! cargo xtask suite         everything `make test` runs, ending in one line of sums
//! ```
#![forbid(unsafe_code)]

mod aarch64;
mod arrows;
mod circles;
mod deb;
mod docs;
mod families;
mod fuzz;
mod generated;
mod guards;
mod instructions;
mod manylinux;
mod names;
mod paths;
mod pure;
mod python;
mod pythons;
mod source;
mod suite;
mod tidy;
mod workspace;

use instructions::Build;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | arrows | pure [--wasm] | man [--check] | proto | host | glossary | docs | fuzz [TARGET [SECONDS]] | instructions [--write] | python [--debug | --no-install | --every | --aarch64] | deb [--command PATH] | aarch64 | suite";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| words.iter().skip(1).any(|word| word == name);
    let outcome = match words.first().map(String::as_str) {
        Some("tidy") => tidy::findings().map(report),
        Some("arrows") => arrows::findings().map(report),
        Some("pure") => pure::run(flag("--wasm")).map(report),
        Some("man") => generated::run(flag("--check"), generated::From::Sources).map(report),
        Some("proto") => generated::proto(),
        Some("host") => generated::host(),
        Some("glossary") => tidy::glossary(),
        Some("aarch64") => aarch64::run(),
        Some("instructions") => {
            let build = Build::of(std::env::var("CARGO_INCREMENTAL").ok().as_deref());
            instructions::run(flag("--write"), build).map(counted)
        }
        Some("python") if flag("--every") => python::every(),
        Some("python") if flag("--aarch64") => python::aarch64(),
        Some("python") => python::run(flag("--debug"), !flag("--no-install")),
        Some("deb") => {
            let other = words.iter().skip_while(|word| *word != "--command").nth(1);
            deb::run(other.map(Path::new))
        }
        Some("docs") => docs::run(),
        Some("suite") => suite::run(),
        Some("fuzz") => {
            let seconds = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(60);
            fuzz::run(words.get(1).map(String::as_str), seconds)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Print what was counted; true if nothing got longer.
fn counted(outcome: instructions::Outcome) -> bool {
    match outcome {
        instructions::Outcome::Counted(shown, longer) => {
            print!("{shown}");
            report(longer)
        }
        instructions::Outcome::Skipped(why) => {
            // A tool is missing, the build is incremental, or the CPU has no AVX2: `why` says which.
            println!("SKIPPED: {why}");
            true
        }
    }
}

/// Print the findings of a check; true if there are none.
#[expect(clippy::needless_pass_by_value, reason = "ends the chain that made them")]
fn report(findings: Vec<String>) -> bool {
    for finding in &findings {
        println!("{finding}");
    }
    findings.is_empty()
}
