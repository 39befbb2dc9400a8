//! A second try for tests that failed while the machine was busy with others.
//!
//! Most tests beyond the pure core run sockets, disks and processes of their own on a machine that has few processors and
//! neighbours. One such test in thousands fails for that alone. It is run again, once and by itself: if it fails again, it
//! has failed; if not, it is counted as passed and named as `unsteady`, with what it said the first time, because an
//! unsteady test is a defect of the test or of the product and somebody has to find out which.
//!
//! What depends on nothing but its input gets no second try: the tests of the core and of the simulator, and whatever
//! found an input that fails.

use super::step::Step;
use super::tally::{Failed, Tally};
use crate::workspace;
use anyhow::Result;
use std::ffi::OsString;

/// The command that runs one test alone, made from the command of its step; none if it gets no second try.
pub(super) type Alone = fn(&[OsString], &Failed) -> Option<Vec<OsString>>;

/// What lets pytest run several files of tests at once.
pub(super) const SEVERAL: [&str; 2] = ["--numprocesses=3", "--dist=loadfile"];
/// The longest that one test takes, alone.
const MINUTES: u32 = 10;
/// More failures than this are not the machine's.
const MOST: usize = 5;
/// What a property test says when it has found an input that fails.
const FOUND: &str = "minimal failing input";
/// Lines that are shown of what a failed test said.
const SHOWN: usize = 40;

/// A step that ran, and what failed in it.
pub(super) struct Ran {
    step: Step,
    alone: Alone,
    failed: Vec<Failed>,
    log: Vec<String>,
}

/// Run a step; what failed is run again when nothing runs beside it.
pub(super) fn first(step: Step, alone: Alone, tally: &mut Tally) -> Result<Ran> {
    let before = tally.failures.len();
    let (_, log) = step.log(tally)?;
    let failed = tally.failures[before..].to_vec();
    Ok(Ran { step, alone, failed, log })
}

impl Ran {
    /// Run once more each test that failed.
    pub(super) fn again(&self, tally: &mut Tally) -> Result<()> {
        let mut left = self.failed.len();
        for failed in &self.failed {
            let said = said(&self.log, &failed.test);
            if !said.is_empty() {
                let shown = said[..said.len().min(SHOWN)].join("\n");
                tally.say(&format!("-- {} said:\n{shown}", failed.what()));
            }
            let found = said.iter().any(|line| line.contains(FOUND));
            let words = (self.alone)(self.step.words(), failed);
            let Some(words) = words.filter(|_| !found && left <= MOST) else { continue };
            let mut second = Tally::default();
            let alone = self.step.with(&format!("again, alone: {}", failed.what()), words);
            alone.minutes(MINUTES).run(&mut second)?;
            if second.failed == 0 && second.passed == 1 {
                tally.passed_after_all(failed);
                left -= 1;
            }
        }
        Ok(())
    }
}

/// What a test printed: Rust's harness and pytest both put its name in a line before it.
fn said<'a>(log: &'a [String], test: &str) -> &'a [String] {
    let name = test.rsplit("::").next().unwrap_or(test);
    let names = [format!(" {name} ___"), format!(".{name} ___")];
    let begins = format!("---- {test} stdout ----");
    let is_name = |line: &String| line.starts_with(&begins) || names.iter().any(|name| line.contains(name));
    // Rust's harness shows a test that passed as well, and then one that failed.
    let Some(at) = log.iter().rposition(is_name) else {
        return &[];
    };
    let rest = &log[at + 1..];
    let is_next =
        |line: &String| line.starts_with("---- ") || line.starts_with("____") || line == "failures:";
    &rest[..rest.iter().position(is_next).unwrap_or(rest.len())]
}

/// Libraries whose unit tests use real sockets, files and clocks.
const LIBRARIES: [&str; 5] =
    ["skyhaul", "skyhaul_io", "skyhaul_measure", "skyhaul_transfer", "skyhaul_daemon"];

/// One Rust test, unless it is of the core or the simulator. The harness named its binary.
pub(super) fn rust(step: &[OsString], failed: &Failed) -> Option<Vec<OsString>> {
    let crates = workspace::root().join("crates");
    let has = |package: &str| {
        let file = crates.join(package).join("tests").join(&failed.binary);
        file.is_dir() || file.with_extension("rs").is_file()
    };
    let target = if LIBRARIES.contains(&failed.binary.as_str()) {
        ["--lib", "--bins"]
    } else if !failed.binary.is_empty()
        && ["skyhaul", "io", "measure", "transfer", "daemon", "cli"].into_iter().any(has)
    {
        ["--test", &failed.binary]
    } else {
        return None;
    };
    let words = ["cargo", "test", "--workspace", "--locked"].into_iter().chain(target).map(OsString::from);
    // What was not built for the step is not built for this.
    let left_out = step.iter().filter(|word| word.to_string_lossy().starts_with("--exclude=")).cloned();
    let one = ["--", "--show-output", "--exact", &failed.test].map(OsString::from);
    Some(words.chain(left_out).chain(one).collect())
}

/// One test of pytest's: in the step's command it stands for the directory of all tests.
pub(super) fn pytest(step: &[OsString], failed: &Failed) -> Option<Vec<OsString>> {
    let one = |word: &OsString| {
        let all = word.to_str().is_some_and(|word| failed.test.starts_with(word));
        if all { OsString::from(&failed.test) } else { word.clone() }
    };
    let beside = |word: &&OsString| SEVERAL.iter().any(|several| *word == several);
    failed.test.contains("::").then(|| step.iter().filter(|word| !beside(word)).map(one).collect())
}

/// One test of a suite that takes its name as a further word.
pub(super) fn by_name(step: &[OsString], failed: &Failed) -> Option<Vec<OsString>> {
    let test = failed.test.contains("::").then(|| OsString::from(&failed.test));
    test.map(|test| step.iter().cloned().chain([test]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(binary: &str, test: &str) -> Failed {
        Failed { binary: binary.to_owned(), test: test.to_owned(), why: String::new() }
    }

    #[test]
    fn a_live_test_is_run_alone_and_a_pure_one_is_not() {
        let words = |binary| rust(&[], &failed(binary, "a::b")).map(|words| words.join(&OsString::from(" ")));
        let of = |target: &str| {
            Some(format!("cargo test --workspace --locked {target} -- --show-output --exact a::b").into())
        };
        assert_eq!(words("e2e"), of("--test e2e"));
        assert_eq!(words("iperf3"), of("--test iperf3"));
        assert_eq!(words("skyhaul_io"), of("--lib --bins"));
        for pure in ["skyhaul_core", "worlds", "events", "skyhaul_io (documentation)", ""] {
            assert_eq!(words(pure), None, "{pure}");
        }
        let step =
            ["python", "-m", "pytest", "tests/interop", SEVERAL[0], SEVERAL[1], "-q"].map(OsString::from);
        let own =
            by_name(&["python", "run.py"].map(OsString::from), &failed("", "tests/test_a.py::B::c[d-1]"));
        assert_eq!(
            own,
            Some(["python", "run.py", "tests/test_a.py::B::c[d-1]"].map(OsString::from).to_vec())
        );
        let alone = pytest(&step, &failed("", "tests/interop/test_a.py::x[1 - 2]")).unwrap_or_default();
        assert_eq!(alone[3..], ["tests/interop/test_a.py::x[1 - 2]", "-q"].map(OsString::from));
    }

    #[test]
    fn a_test_that_fails_once_has_passed_and_one_that_fails_twice_has_not() -> Result<()> {
        const BOTH: &str =
            "echo FAILED t.py::a - why; echo FAILED t.py::b - no; echo 2 failed in 0.1s; exit 1";
        let alone: Alone = |_, failed| {
            let ends = if failed.test == "t.py::a" { "echo 1 passed in 0.1s" } else { "false" };
            Some(["sh", "-c", ends].map(OsString::from).to_vec())
        };
        let mut tally = Tally::default();
        first(Step::new("a test of again", "sh").args(["-c", BOTH]), alone, &mut tally)?.again(&mut tally)?;
        assert_eq!(
            tally.summary(),
            "unsteady, passed when run again: t.py::a - why\nfailed: t.py::b - no\n1 passed, 1 failed, 0 skipped"
        );
        Ok(())
    }

    #[test]
    fn what_a_test_said_is_found() {
        let log = "---- a stdout ----\nno\nfailures:\n---- a::b stdout ----\nyes\n---- c stdout ----\n____ test_x ____\nE it\n____ TestA.test_y[1] ____\nE so";
        let log: Vec<String> = log.lines().map(str::to_owned).collect();
        assert_eq!(said(&log, "a::b"), ["yes"]);
        assert_eq!(said(&log, "tests/t.py::test_x"), ["E it"]);
        assert_eq!(said(&log, "tests/t.py::TestA::test_y[1]"), ["E so"]);
        assert!(said(&log, "d").is_empty());
    }
}
