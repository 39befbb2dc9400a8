//! Instructions of a packet on its way, counted by callgrind on fixed inputs, against what they were.
//!
//! A time depends on the machine and on who else is on it; a count of instructions is the same in every run, to a thousandth.
//! `xtask/instructions.txt` has a line for each case of `crates/measure/src/bench/heaps/fixed.rs`: its name, and instructions for
//! each packet, of a build that is not incremental and of one that is. More than [`MOST_PERCENT`] above it is a failure. Fewer are
//! good news: write them down.
//!
//! ```text
//! CARGO_INCREMENTAL=0 cargo xtask instructions            count and compare; as `make test` does
//! CARGO_INCREMENTAL=0 cargo xtask instructions --write    write what was counted
//! cargo xtask instructions                                the same of what `make build` and `make demo` build
//! ```
//!
//! The build that is not incremental is of `xtask/packet-path`: the same inputs and the library in the release profile, without all that a
//! packet does not meet. The incremental one is of the command itself.
//!
//! An incremental build has 256 parts to a crate, and inlines from one into another only what is marked `#[inline]`: without the
//! marks on the way of a packet it took up to a sixth more. What the standard library has without a mark, such as `fold` and
//! `try_fold` of `Map` (under `sum`, `find`, `filter`) and `zip`, is called there, so the innermost loops are written out.
//!
//! The copies of payloads are not counted: how many instructions these take depends on the CPU, and is no measure of their time.
//!
//! Limits: a cache miss, a system call and a division each count as one. Instructions depend on the compiler, which is pinned, on
//! the functions of the C library, and on the instructions of the CPU: cases are counted with AVX2 only, which valgrind knows.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::process::Command;

const KEPT: &str = "xtask/instructions.txt";
/// How much longer a path may get, in percent. The index of heaps is seeded with the time, which moves a count by 0.5 %.
const MOST_PERCENT: f64 = 3.0;
/// The outcome of counting.
pub(crate) enum Outcome {
    /// What was found, and what is longer than it may be.
    Counted(String, Vec<String>),
    /// Why it cannot be counted here.
    Skipped(&'static str),
}

/// Count, and compare with the list; or write the list.
pub(crate) fn run(write: bool, build: Build) -> Result<Outcome> {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(Outcome::Skipped("valgrind is not installed (apt-get install valgrind)"));
    }
    if !has_avx2() {
        return Ok(Outcome::Skipped("this CPU has no AVX2, with which the list was counted"));
    }
    if !build.cargo().status().context("run cargo")?.success() {
        bail!("what is counted was not built");
    }
    let path = workspace::root().join(KEPT);
    let list = std::fs::read_to_string(&path).with_context(|| format!("read {KEPT}"))?;
    let (mut shown, mut longer, mut new) = (String::new(), Vec::new(), String::new());
    for line in list.lines() {
        if line.starts_with('#') {
            let _ = writeln!(new, "{line}");
            continue;
        }
        let (case, mut counts) = kept(line).with_context(|| format!("{KEPT}: {line}"))?;
        let was = counts[build as usize];
        let is = count(case, build)?;
        let percent = (is / was - 1.0) * 100.0;
        let _ = writeln!(shown, "{case:<14} {is:>8.1} instructions a packet ({percent:+.1} %)");
        counts[build as usize] = is;
        let _ = writeln!(new, "{case} {:.1} {:.1}", counts[0], counts[1]);
        longer.extend(finding(case, was, is));
    }
    if write {
        std::fs::write(&path, new).with_context(|| format!("write {KEPT}"))?;
        longer.clear();
    }
    Ok(Outcome::Counted(shown, longer))
}

/// The program of the packet's path. Of the library and of what others have written, the compiler makes code of a function only where it
/// is used: half of the build. `core` and `io` are compiled as always: what is not marked for inlining there is still a call. The setting is
/// not stable, so what is built with it, and what allows it, has a directory of its own.
const ONLY_WHAT_IS_REACHED: [&str; 9] = [
    "--package=skyhaul-packet-path",
    "--target-dir=target/packet-path",
    "-Zprofile-hint-mostly-unused",
    "--config",
    "profile.release.package.\"*\".hint-mostly-unused=true",
    "--config",
    "profile.release.package.skyhaul.hint-mostly-unused=true",
    "--config",
    "profile.release.package.skyhaul-spectra.hint-mostly-unused=true",
];

/// What is counted: the column of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// The way of a packet alone, each crate built at once.
    Whole = 0,
    /// The command, as for daily use.
    Incremental = 1,
}

impl Build {
    /// By the value of `CARGO_INCREMENTAL`: the profile is incremental.
    pub(crate) fn of(value: Option<&str>) -> Self {
        if value == Some("0") { Build::Whole } else { Build::Incremental }
    }

    /// The words for cargo.
    fn words(self) -> Vec<&'static str> {
        let what: &[&str] = match self {
            Build::Whole => &ONLY_WHAT_IS_REACHED,
            Build::Incremental => &["--package=skyhaul-cli"],
        };
        [&["build", "--release", "--locked"], what].concat()
    }

    /// The build.
    pub(crate) fn cargo(self) -> Command {
        let mut cargo = workspace::cargo();
        cargo.args(self.words());
        if self == Build::Whole {
            cargo.env("CARGO_INCREMENTAL", "0").env("RUSTC_BOOTSTRAP", "1");
        }
        cargo
    }

    /// The program, and its words before a case.
    fn program(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Build::Whole => ("target/packet-path/release/packet-path", &[]),
            Build::Incremental => ("target/release/skyhaul", &["packet-path"]),
        }
    }
}

/// A line of the list: a case, and its count in each build.
fn kept(line: &str) -> Option<(&str, [f64; 2])> {
    let mut words = line.split_whitespace();
    let (case, whole, incremental) = (words.next()?, words.next()?, words.next()?);
    Some((case, [whole.parse().ok()?, incremental.parse().ok()?])).filter(|_| words.next().is_none())
}

/// What is wrong with a count, if anything is.
fn finding(case: &str, was: f64, is: f64) -> Option<String> {
    let is_longer = is > was * (1.0 + MOST_PERCENT / 100.0);
    is_longer.then(|| format!("{case}: {is:.1} instructions a packet, {was:.1} before ({KEPT})"))
}

fn has_avx2() -> bool {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    known.split_whitespace().any(|flag| flag == "avx2")
}

/// Instructions for each packet of a case.
fn count(case: &str, build: Build) -> Result<f64> {
    let (program, words) = build.program();
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--toggle-collect=*::fixed::measured*",
            // Within what is measured, this turns counting off.
            "--toggle-collect=skyhaul_io::copy::x86::place*",
            "--callgrind-out-file=/dev/null",
        ])
        .arg(workspace::root().join(program))
        .args(words)
        .arg(case)
        .output()
        .context("run valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{case}: {}: {}", output.status, said.lines().last().unwrap_or_default());
    }
    counted(&String::from_utf8_lossy(&output.stdout), &said)
        .with_context(|| format!("{case}: no count: are the names of functions in the command? {said}"))
}

/// From the number of packets, and from what callgrind says at its end.
fn counted(packets: &str, said: &str) -> Option<f64> {
    let packets: f64 = packets.trim().parse().ok().filter(|&packets| packets > 0.0)?;
    let total = said.lines().find_map(|line| line.split_once("Collected : "))?.1;
    let total: f64 = total.split_whitespace().next()?.parse().ok()?;
    (total > 0.0).then_some(total / packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_get_three_percent_longer() {
        assert_eq!(finding("a", 1000.0, 1029.0), None);
        assert_eq!(finding("a", 1000.0, 700.0), None);
        assert!(finding("a", 1000.0, 1031.0).is_some());
    }

    #[test]
    fn each_build_has_its_own_count() {
        assert_eq!(kept("a-1 473.5 500"), Some(("a-1", [473.5, 500.0])));
        assert_eq!(kept("a-1 473.5"), None);
        assert_eq!(kept("a-1 473.5 x"), None);
        assert_eq!(
            [Build::of(Some("0")), Build::of(Some("1")), Build::of(None)],
            [Build::Whole, Build::Incremental, Build::Incremental]
        );
    }

    #[test]
    fn what_callgrind_says_is_read() {
        let said = "==1== Events    : Ir\n==1== Collected : 7500\n==1== \n";
        assert_eq!(counted("250\n", said), Some(30.0));
        assert_eq!(counted("", said), None);
        assert_eq!(
            counted("250", "==1== Collected : 0"),
            None,
            "nothing was collected: the name is not found"
        );
        assert_eq!(counted("250", ""), None);
    }
}
