//! Everything `make test` runs, and one line of sums at the end.
//!
//! ```text
//!   prepare (.venv, tshark, iperf3) ─▶ build all tests ─▶ cargo test ═══════════════════════════════════════════════════════════╗
//!                                                      └─▶ address sanitizer, Miri ─▶ fuzz ─▶ release binary (idle processors) ═╣
//!   ╔═ wasm32, man pages ◀══════════════════════════════════════════════════════════════════════════════════════════════════════╝
//!   ╚═▶ wheel ─▶ Python package's tests ∥ rustdoc ─▶ interop, documents, the site ∥ spead2's tests
//!   skipped: interop tshark: not installed (apt-get install tshark)
//!   412 passed, 0 failed, 1 skipped
//! ```
//!
//! A test that cannot run on this machine prints `SKIPPED: what is missing (how to get it)` and returns; it is then
//! counted as skipped and named, never as passed. A step that breaks counts as one failure. Full output of each
//! step is kept in `target/suite/`.

pub(crate) mod prepare;
mod sanitize;
mod step;
mod tally;

use crate::{docs, generated, pure, python, workspace};
use anyhow::Result;
use std::path::Path;
use step::Step;
use tally::Tally;

/// Run all; true if nothing failed.
pub(crate) fn run() -> Result<bool> {
    let started = std::time::Instant::now();
    let mut tally = Tally::default();
    let python = prepare::python();
    let capture_tool = prepare::tshark();
    prepare::iperf3();

    Step::new("Rust: build all tests", "cargo")
        .args(["test", "--workspace", "--locked", "--no-run"])
        .minutes(40)
        .run(&mut tally)?;
    // Tests mostly wait: the builds that come next take the time that they leave.
    let built = both(
        &mut tally,
        |tally| {
            Step::new("Rust: unit, property, model and documentation tests", "cargo")
                .args(["test", "--workspace", "--locked", "--no-fail-fast", "--", "--show-output"])
                .minutes(40)
                .run(tally)
        },
        builds,
    )?;
    core_for_wasm(&mut tally);
    generated_files(&mut tally);
    match python {
        Ok(python) if built => {
            if let Err(why) = capture_tool {
                tally.note(&why);
            }
            python_package(&python, &mut tally)?;
        }
        Ok(_) => tally.skip("interop and the Python package", "the release binary was not built"),
        Err(why) => {
            rustdoc(&mut tally)?;
            tally.skip("interop and the Python package (all)", &why);
        }
    }

    let summary = tally.summary();
    println!("\n== {} s\n{summary}", started.elapsed().as_secs());
    let kept = workspace::root().join("target/suite");
    std::fs::create_dir_all(&kept)?;
    std::fs::write(kept.join("summary.txt"), format!("{summary}\n"))?;
    Ok(tally.failed == 0)
}

/// Do two things at once; what the second one says follows. The answer of the second one.
fn both(
    tally: &mut Tally,
    first: impl FnOnce(&mut Tally) -> Result<bool>,
    second: impl FnOnce(&mut Tally) -> Result<bool> + Send,
) -> Result<bool> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut behind = Tally::behind();
            let done = second(&mut behind);
            (behind, done)
        });
        let done = first(tally);
        let Ok((behind, other)) = other.join() else { anyhow::bail!("a step of the suite panicked") };
        tally.add_all(behind);
        done.and(other)
    })
}

/// What needs processors more than time; true if there is a release binary.
fn builds(tally: &mut Tally) -> Result<bool> {
    sanitize::run(tally)?;
    Step::new("fuzz: every target for a moment", "cargo")
        .args([
            "run",
            "--release",
            "--locked",
            "--manifest-path",
            "fuzz/Cargo.toml",
            "--target-dir",
            "target/fuzz",
        ])
        .args(["--bin", "smoke", "--", "--executions", "200000"])
        .minutes(30)
        .idly()
        .run(tally)?;
    // The module is built of the same dependencies (its Cargo.toml), so the wheel finds most of it built.
    Step::new("release binary", "cargo")
        .args(["build", "--release", "--locked", "--package", "skyhaul-cli"])
        .minutes(40)
        .idly()
        .run(tally)
}

fn rustdoc(tally: &mut Tally) -> Result<bool> {
    Step::new("rustdoc: the pages of the library, without warnings", "cargo")
        .args(docs::RUSTDOC)
        .env(docs::RUSTDOCFLAGS.0, Path::new(docs::RUSTDOCFLAGS.1))
        .minutes(20)
        .idly()
        .run(tally)
}

/// The wheel as a user gets it, installed, its own tests, and those of what it works with.
fn python_package(python: &Path, tally: &mut Tally) -> Result<()> {
    const NAME: &str = "Python package: build and install the wheel";
    println!("\n== {NAME}");
    let started = std::time::Instant::now();
    let installed = python::install(python, false);
    println!("   {} s", started.elapsed().as_secs());
    let installed = match installed {
        Ok(true) => {
            tally.pass();
            true
        }
        Ok(false) => {
            tally.fail(NAME);
            false
        }
        Err(error) => {
            tally.fail(&format!("{NAME}: {error:#}"));
            false
        }
    };
    let pytest = |name: &str, tests: &str| {
        Step::new(name, python)
            .args(["-m", "pytest", tests, "-q", "-rsfE", "--color=no", "-p", "no:cacheprovider"])
            .minutes(20)
    };
    // Interop looks into the pages of rustdoc.
    let own = pytest("Python package: tests", "crates/python/tests");
    both(tally, |tally| if installed { own.run(tally) } else { Ok(false) }, rustdoc)?;
    let suite = Step::new("spead2's own tests, run with skyhaul.spead2", python)
        .args(["tests/spead2-suite/run.py"])
        .minutes(20);
    let interop =
        pytest("interop: baseband reads what skyhaul wrote; documents do what they say", "tests/interop")
            .env("SKYHAUL_BIN", &workspace::root().join("target/release/skyhaul"));
    both(tally, |tally| interop.run(tally), |tally| if installed { suite.run(tally) } else { Ok(false) })?;
    Ok(())
}

fn generated_files(tally: &mut Tally) {
    const NAME: &str = "man pages and completions are current";
    println!("\n== {NAME}");
    match generated::run(true) {
        Ok(stale) if stale.is_empty() => tally.pass(),
        Ok(stale) => tally.fail(&format!("{NAME}: {}", stale.join(", "))),
        Err(error) => tally.fail(&format!("{NAME}: {error:#}")),
    }
}

fn core_for_wasm(tally: &mut Tally) {
    const NAME: &str = "core builds for wasm32";
    println!("\n== {NAME}");
    match pure::build() {
        Ok(pure::Build::Done) => tally.pass(),
        Ok(pure::Build::NoTarget) => tally.skip(NAME, "rustup target add wasm32-unknown-unknown"),
        Ok(pure::Build::Failed) => tally.fail(NAME),
        Err(error) => tally.fail(&format!("{NAME}: {error:#}")),
    }
}
