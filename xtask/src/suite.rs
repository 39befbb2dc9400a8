//! Everything `make test` runs, and one line of sums at the end.
//!
//! ```text
//!   build all tests (meanwhile prepare: .venv, tshark, iperf3) ─┬─▶ unit tests ──────────┬─┬─▶ whole programs ─────────────────────────┐
//!                                                               └─▶ tests of each crate ─┘ ├─▶ labs of the probe ──────────────────────┤
//!                                                                                          └─▶ documentation tests ─▶ fuzz ─▶ rustdoc ─┘
//!     (meanwhile what else must be built: the way of a packet, the tests of the address sanitizer)
//!     ─▶ wheel ─┬─▶ interop, documents, the site
//!               └─▶ Python package ─▶ address sanitizer, Miri ─▶ wasm32 ─▶ man pages ─▶ the first demo's command ─▶ instructions
//!   skipped: interop tshark: not installed (apt-get install tshark)
//!   412 passed, 0 failed, 1 skipped
//! ```
//!
//! A test that cannot run on this machine prints `SKIPPED: what is missing (how to get it)` and returns; it is then
//! counted as skipped and named, never as passed. There is one build: the command and the wheel that interop and the Python tests use
//! are made of what the Rust tests were built of, with its assertions. Only the instructions of a packet are counted in the release
//! profile, of the library alone; the release command and its wheel are built and tried by `make demo` and `make python`. A live test
//! that fails, or that never ends, is run again alone and, if it passes then, named as unsteady ([`again`]). A step that breaks counts as one failure. Full
//! output of each step is kept in `target/suite/`.

mod again;
mod alone;
mod beside;
mod pages;
pub(crate) mod prepare;
mod sanitize;
mod space;
mod step;
mod tally;

use crate::instructions::Build;
use crate::{fuzz, generated, instructions, pure, python, workspace};
use anyhow::{Result, bail};
use beside::Beside;
use std::collections::BTreeSet;
use std::path::Path;
use step::{Load, Step};
use tally::Tally;

/// Run all; true if nothing failed.
pub(crate) fn run() -> Result<bool> {
    let (started, load) = (std::time::Instant::now(), Load::now());
    let _alone = alone::wait("run")?;
    space::check()?;
    let mut tally = Tally::default();
    // Fetching takes a minute, and needs no processor.
    let fetching = std::thread::spawn(|| {
        let (python, capture_tool) = (prepare::python(), prepare::tshark());
        prepare::tools();
        (python, capture_tool)
    });
    // What is counted, and what the sanitizer sees, is built wherever a processor would wait: for the longest crate, for a test.
    let builds = std::iter::once(Build::Whole.cargo()).chain(sanitize::build());
    let beside = Beside::start(builds.collect());
    build_tests(&mut tally)?;
    let Ok((python, capture_tool)) = fetching.join() else { bail!("preparing has panicked") };

    rust(&mut tally)?;
    beside.finish();
    let python = match python {
        Ok(python) => {
            if let Err(why) = capture_tool {
                tally.note(&why);
            }
            wheel(&python, &mut tally)?.then_some(python)
        }
        Err(why) => {
            tally.skip("interop and the Python package (all)", &why);
            None
        }
    };
    // Interop waits more than it computes: all that is left runs beside it.
    let mut beside = tally.beside();
    let (interop, package) = std::thread::scope(|scope| {
        let rest = scope.spawn(|| {
            let ran = python.as_ref().map(|python| python_package(python, &mut beside)).transpose()?;
            remaining(&mut beside)?;
            anyhow::Ok(ran)
        });
        let interop = python.as_ref().map(|python| interop(python, &mut tally)).transpose()?;
        let Ok(package) = rest.join() else { bail!("the steps beside interop have panicked") };
        anyhow::Ok((interop, package?))
    })?;
    tally.merge(beside);
    interop.into_iter().chain(package.into_iter().flatten()).try_for_each(|ran| ran.again(&mut tally))?;

    let summary = tally.summary();
    println!("\n== {} s{}\n{summary}", started.elapsed().as_secs(), load.since());
    let kept = workspace::root().join("target/suite");
    std::fs::create_dir_all(&kept)?;
    std::fs::write(kept.join("summary.txt"), format!("{summary}\n"))?;
    Ok(tally.failed == 0)
}

/// What needs no Python.
fn remaining(tally: &mut Tally) -> Result<()> {
    sanitize::run(tally)?;
    core_for_wasm(tally);
    generated_files(tally);
    Step::new("the command of a first demo, without services and PNG", "cargo").args(FIRST).run(tally)?;
    packet_path(tally);
    Ok(())
}

/// What `make demo` builds in a fresh clone, as far as its errors go. Of what the tests were built of, this is a minute less than to check all
/// that it depends on.
const FIRST: [&str; 5] = ["build", "--locked", "--package", "skyhaul-cli", "--no-default-features"];

fn words(given: &[String]) -> Vec<&str> {
    given.iter().map(String::as_str).collect()
}

/// Rust tests of these targets, `threads` of a binary at a time.
fn cargo_test(name: &str, targets: &[String], threads: usize) -> Step {
    let step = Step::new(name, "cargo").args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    // More than twice of what the longest took on the slowest machine: a test that hangs leaves the rest of the suite its time.
    let step = step.args(words(targets)).args(["--", "--show-output"]).minutes(30);
    step.env("RUST_TEST_THREADS", Path::new(&threads.to_string()))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The tests of whole programs, the longest of all.
const PROGRAMS: &str = "--test=e2e";
/// Those of them that need the lab, one at a time: it keeps its times, and each waits for a path. As long together as half of the others.
const LABS: &str = "diagnosed::";

/// All unit tests. `--lib` and `--bins` mean what is marked `test = false`, too: packages that have nothing else are left out, as
/// a minute and a half would go into compiling and linking test programs without a test.
fn units() -> Result<Vec<String>> {
    let without = workspace::without_unit_tests()?.into_iter();
    let left_out = without.map(|package| format!("--exclude={package}"));
    Ok(["--lib", "--bins"].map(str::to_owned).into_iter().chain(left_out).collect())
}

/// All tests of crates in `crates/*/tests` but [`PROGRAMS`].
fn of_crates() -> Result<Vec<String>> {
    let mut targets = BTreeSet::new();
    for package in std::fs::read_dir(workspace::root().join("crates"))? {
        let Ok(tests) = std::fs::read_dir(package?.path().join("tests")) else { continue };
        for test in tests {
            let path = test?.path();
            if path.extension().is_some_and(|is| is == "rs") || path.join("main.rs").is_file() {
                targets.extend(path.file_stem().map(|name| format!("--test={}", name.to_string_lossy())));
            }
        }
    }
    targets.remove(PROGRAMS);
    Ok(targets.into_iter().collect())
}

/// All Rust tests, but for those of documentation.
fn build_tests(tally: &mut Tally) -> Result<()> {
    Step::new("Rust: build all tests", "cargo")
        .args(["test", "--workspace", "--locked", "--no-run", "--tests"])
        .minutes(40)
        .run(tally)?;
    // A test runs the examples; `cargo test --test` does not build them. The fuzz targets are built of the same as the tests only
    // if they are built with the whole workspace: alone, they have fewer features.
    Step::new("Rust: examples and the fuzz targets", "cargo")
        .args(["build", "--locked", "--workspace", "--examples"])
        .args(["--bin", fuzz::DRIVER])
        .run(tally)?;
    Ok(())
}

/// Cargo runs one binary after another, and most wait for their last test: so two sets run side by side. What failed is run again when
/// nothing runs beside it.
fn rust(tally: &mut Tally) -> Result<()> {
    let mut beside = tally.beside();
    let (units, crates) = (unit_tests()?, crates()?);
    let (units, crates) = std::thread::scope(|scope| {
        let crates = scope.spawn(|| again::first(crates, again::rust, &mut beside));
        (again::first(units, again::rust, tally), crates.join())
    });
    let Ok(crates) = crates else { bail!("the tests beside others have panicked") };
    tally.merge(beside);
    units?.again(tally)?;
    crates?.again(tally)?;
    whole_programs(tally)
}

/// Programs leave a quarter of the processors to what only computes. The tests of crates beside them, too, would make those late that keep
/// a time.
fn whole_programs(tally: &mut Tally) -> Result<()> {
    let (mut second, mut third) = (tally.beside(), tally.beside());
    let (programs, labs, pages) = std::thread::scope(|scope| {
        let labs = scope.spawn(|| again::first(labs(), again::rust, &mut second));
        let pages = scope.spawn(|| documentation(&mut third));
        (again::first(programs(), again::rust, tally), labs.join(), pages.join())
    });
    let (Ok(labs), Ok(pages)) = (labs, pages) else { bail!("the tests beside others have panicked") };
    tally.merge(second);
    tally.merge(third);
    pages?;
    programs?.again(tally)?;
    labs?.again(tally)
}

/// What computes most.
fn unit_tests() -> Result<Step> {
    Ok(cargo_test("Rust: unit and property tests", &units()?, 2 * processors()))
}

/// These leave the unit tests most of the processors.
fn crates() -> Result<Step> {
    Ok(cargo_test("Rust: models, real sockets and disks, of each crate", &of_crates()?, processors()))
}

/// These wait longest: for what is sent at a rate, for time limits, for disks that hang.
fn programs() -> Step {
    let target = [PROGRAMS.to_owned()];
    cargo_test("Rust: whole programs", &target, 3 * processors()).args(["--skip", LABS])
}

/// A lab and its ends go first where that is permitted: late, they would measure the tests beside them.
fn labs() -> Step {
    let target = [PROGRAMS.to_owned()];
    let labs = cargo_test("Rust: what a probe names on paths of a lab", &target, 1).args([LABS]);
    labs.under(&["nice", "-n", "-10"])
}

/// What only computes, for what the programs leave.
fn documentation(tally: &mut Tally) -> Result<()> {
    let tests = cargo_test("Rust: documentation tests", &["--doc".to_owned()], 2 * processors());
    tests.under(&step::BEHIND).run(tally)?;
    let driver = workspace::root().join("target/debug").join(fuzz::DRIVER);
    let fuzz = Step::new("fuzz: every target for a moment", driver).args(["--executions", "100000"]);
    fuzz.under(&step::BEHIND).run(tally)?;
    pages::run(tally)
}

/// `pytest` on these tests.
fn pytest(name: &str, python: &Path, tests: &str) -> Step {
    const HOW: [&str; 5] = ["-q", "-rsxfE", "--color=no", "-p", "no:cacheprovider"];
    Step::new(name, python).args(["-m", "pytest", tests]).args(HOW)
}

fn interop(python: &Path, tally: &mut Tally) -> Result<again::Ran> {
    const NAME: &str = "interop: baseband reads what skyhaul wrote; documents do what they say";
    // They wait more than they compute, and what they share is made once for a file.
    let beside: &[&str] = if own_network() { &again::SEVERAL } else { &[] };
    let step = pytest(NAME, python, "tests/interop")
        .args(beside)
        // As it is in the wheel: linked for other machines, without its symbols.
        .env("SKYHAUL_BIN", &python::staged())
        .minutes(20);
    again::first(step, again::pytest, tally)
}

/// Whether each page of the documentation has a network of its own when it is typed, so that two may use the same port.
fn own_network() -> bool {
    let mut alone = std::process::Command::new("unshare");
    alone.args(["-rn", "ip", "link", "set", "lo", "up"]);
    alone.output().is_ok_and(|output| output.status.success())
}

/// The wheel, with the command and linked as a user gets it, but of the tests' build; installed. False if that failed.
///
/// It is built when no Rust test runs: cargo puts this command in the place of the tests' own, and back when it runs tests. And after
/// them: maturin names a Python, for which pyo3 is built anew, and with it the module's unit tests if they came later.
fn wheel(python: &Path, tally: &mut Tally) -> Result<bool> {
    const NAME: &str = "Python package: build and install the wheel";
    let command = python::command(python, true)?;
    if !Step::new("the command, linked for the wheel", "cargo")
        .args(words(&command))
        .minutes(25)
        .run(tally)?
    {
        tally.skip("interop and the Python package", "the command was not linked");
        return Ok(false);
    }
    tally.say(&format!("\n== {NAME}"));
    match python::install(python, true) {
        Ok(true) => {
            tally.pass();
            return Ok(true);
        }
        Ok(false) => tally.fail(NAME),
        Err(error) => tally.fail(&format!("{NAME}: {error:#}")),
    }
    Ok(false)
}

/// The tests of the package, which is installed.
fn python_package(python: &Path, tally: &mut Tally) -> Result<[again::Ran; 2]> {
    let tests = pytest("Python package: tests", python, "crates/python/tests").minutes(15);
    let ran = again::first(tests, again::pytest, tally)?;
    let others = Step::new("spead2's own tests, run with skyhaul.spead2", python)
        .args(["tests/spead2-suite/run.py"])
        .minutes(10);
    let others = again::first(others, again::by_name, tally)?;
    Step::new("katgpucbf's receiving tests, run with skyhaul.spead2", python)
        .args(["tests/katgpucbf-suite/run.py"])
        .minutes(30)
        .run(tally)?;
    Ok([ran, others])
}

/// Made by the command that was built before, as it is.
fn generated_files(tally: &mut Tally) {
    const NAME: &str = "man pages and completions are current";
    tally.say(&format!("\n== {NAME}"));
    match generated::run(true, generated::From::Built) {
        Ok(stale) if stale.is_empty() => tally.pass(),
        Ok(stale) => tally.fail(&format!("{NAME}: {}", stale.join(", "))),
        Err(error) => tally.fail(&format!("{NAME}: {error:#}")),
    }
}

/// No path of a packet got longer.
fn packet_path(tally: &mut Tally) {
    const NAME: &str = "instructions of a packet on its way";
    tally.say(&format!("\n== {NAME}"));
    match instructions::run(false, Build::Whole) {
        Ok(instructions::Outcome::Counted(shown, longer)) => {
            tally.say(shown.trim_end());
            if longer.is_empty() {
                tally.pass();
            } else {
                tally.fail(&format!("{NAME}: {}", longer.join("; ")));
            }
        }
        Ok(instructions::Outcome::Skipped(why)) => tally.skip(NAME, why),
        Err(error) => tally.fail(&format!("{NAME}: {error:#}")),
    }
}

fn core_for_wasm(tally: &mut Tally) {
    const NAME: &str = "core builds for wasm32";
    tally.say(&format!("\n== {NAME}"));
    match pure::build() {
        Ok(pure::Build::Done) => tally.pass(),
        Ok(pure::Build::NoTarget) => tally.skip(NAME, "rustup target add wasm32-unknown-unknown"),
        Ok(pure::Build::Failed) => tally.fail(NAME),
        Err(error) => tally.fail(&format!("{NAME}: {error:#}")),
    }
}
