//! Counting what test runners print: Rust's own harness and pytest.
//!
//! ```text
//!   test result: ok. 12 passed; 0 failed; 1 ignored; …          Rust
//!   ---- net::multicast stdout ----                             a test that found something missing …
//!   SKIPPED: needs IPv6 on loopback (sysctl …)                  … and said so: not passed, but skipped
//!   SKIPPED [1] tests/interop/test_wire.py:20: no tshark        pytest -rs
//!   XFAIL tests/test_recv.py::test_x - why                      pytest -rx: known not to pass, and listed with why
//!   3 passed, 1 skipped in 2.10s                                pytest
//! ```

use std::collections::BTreeSet;

/// What Rust's harness prints behind the name of a test that takes a minute.
const SLOW: &str = " has been running for over ";

/// Tests of a harness that has not given its sums.
#[derive(Default)]
struct Open {
    begun: usize,
    ended: usize,
    passed: usize,
    failed: usize,
    /// Those that the harness has called slow.
    running: BTreeSet<String>,
}

/// A test, or a step, that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// The test binary as the harness named it; empty for what is no Rust test.
    pub(super) binary: String,
    /// The test's name in its harness, or the step's.
    pub(super) test: String,
    /// What the harness said of it in a line, if it did.
    pub(super) why: String,
}

impl Failed {
    /// Its full name.
    pub(super) fn what(&self) -> String {
        format!("{} {}", self.binary, self.test).trim().to_owned()
    }

    fn line(&self) -> String {
        if self.why.is_empty() { self.what() } else { format!("{} - {}", self.what(), self.why) }
    }
}

/// Sums over all steps so far.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    skipped: usize,
    pub(super) failures: Vec<Failed>,
    skips: Vec<String>,
    unsteady: Vec<String>,
    notes: Vec<String>,
    /// What is being run now, as the harness named it.
    binary: String,
    test: String,
    /// Tests of the binary being run that the harness will count as passed, but which skipped themselves.
    skipped_themselves: usize,
    /// What the harness has not added up so far.
    open: Open,
    /// The test whose output is being read is one of them.
    test_skipped: bool,
    /// What is being read was printed by tests of Rust's harness: only a `SKIPPED: ` counts.
    said: bool,
    /// What there is to show, held back while other steps are shown.
    held: Option<String>,
}

impl Tally {
    /// One for steps that run beside others: what they say is held back until [`merge`](Self::merge).
    pub(super) fn beside(&self) -> Tally {
        Tally { held: Some(String::new()), ..Tally::default() }
    }

    /// Show a text, or hold it back.
    pub(super) fn say(&mut self, text: &str) {
        match &mut self.held {
            Some(held) => {
                held.push_str(text);
                held.push('\n');
            }
            None => println!("{text}"),
        }
    }

    /// Take what was held back.
    pub(super) fn held(&mut self) -> String {
        self.held.take().unwrap_or_default().trim_end().to_owned()
    }

    /// Add the sums of steps that ran beside, and show what they said.
    pub(super) fn merge(&mut self, mut other: Tally) {
        let held = other.held();
        self.say(&held);
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.append(&mut other.failures);
        self.skips.append(&mut other.skips);
        self.unsteady.append(&mut other.unsteady);
        self.notes.append(&mut other.notes);
    }

    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    pub(super) fn fail(&mut self, what: &str) {
        self.failed += 1;
        self.failures.push(Failed { binary: String::new(), test: what.to_owned(), why: String::new() });
    }

    /// It failed, and when it was run again, it passed.
    pub(super) fn passed_after_all(&mut self, failed: &Failed) {
        self.failures.retain(|other| other != failed);
        self.failed -= 1;
        self.passed += 1;
        self.unsteady.push(failed.line());
    }

    pub(super) fn skip(&mut self, what: &str, why: &str) {
        self.skipped += 1;
        self.skips.push(format!("{what}: {why}"));
    }

    /// Something missing that other skips will follow from.
    pub(super) fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Whether tests are known that have begun and not ended.
    pub(super) fn has_running(&self) -> bool {
        !self.open.running.is_empty()
    }

    /// The step has ended, or was stopped.
    pub(super) fn end_of_step(&mut self) {
        self.close();
        self.binary.clear();
        self.test.clear();
        self.said = false;
    }

    /// A harness that was stopped, or whose process died, has given no sums: its tests are counted one by one, and those without an
    /// end have failed.
    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        let without_end = open.begun.saturating_sub(open.ended + open.running.len());
        let hung =
            open.running.into_iter().map(|test| (test, "it had not ended when it was stopped".to_owned()));
        let lost = (without_end > 0).then(|| (String::new(), format!("{without_end} tests have no result")));
        for (test, why) in hung.chain(lost) {
            self.failures.push(Failed { binary: self.binary.clone(), test, why });
            self.failed += 1;
        }
        self.passed += open.passed;
        self.failed += open.failed;
        self.skipped += open.ended - open.passed - open.failed;
        self.skipped_themselves = 0;
    }

    /// Count what one line of output says; true if a person watching wants to see it.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let head = line.trim_start();
        if let Some(rest) = head.strip_prefix("Running ") {
            self.close();
            // `cargo run` quotes a command line here; what it runs names its own tests.
            self.binary = if rest.starts_with('`') { String::new() } else { binary(rest) };
            return true;
        }
        if let Some(crate_name) = head.strip_prefix("Doc-tests ") {
            self.close();
            self.binary = format!("{crate_name} (documentation)");
            return true;
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.said = false;
            self.rust_result(result);
            return true;
        }
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            name.clone_into(&mut self.test);
            (self.test_skipped, self.said) = (false, true);
            return false;
        }
        if let Some(why) = line.strip_prefix("SKIPPED: ") {
            self.skipped_itself(why);
            return true;
        }
        if self.said {
            return false;
        }
        if let Some((tests, "test" | "tests")) =
            line.strip_prefix("running ").and_then(|rest| rest.split_once(' '))
        {
            self.open.begun = tests.parse().unwrap_or(0);
            return false;
        }
        if let Some(test) = line.strip_prefix("test ") {
            if let Some((name, _)) = test.split_once(SLOW) {
                self.open.running.insert(name.to_owned());
                return true;
            }
            return self.rust_test(test);
        }
        if let Some(skip) = line.strip_prefix("SKIPPED [") {
            // `SKIPPED [2] place: reason`: the sums come from the last line.
            self.skips.push(skip.split_once("] ").map_or(skip, |(_, rest)| rest).to_owned());
            return true;
        }
        if let Some(known) = line.strip_prefix("XFAIL ") {
            // Listed with its reason as not passing: `XFAIL place - reason`, counted by the last line as well.
            self.skips.push(known.to_owned());
            return true;
        }
        if let Some(name) = line.strip_prefix("FAILED ").or(line.strip_prefix("ERROR ")) {
            // `place::name - message`, and a name may hold ` - ` in brackets.
            let (head, tail) = name.split_at(name.find("] - ").map_or(0, |at| at + 1));
            let (rest, why) = tail.split_once(" - ").unwrap_or((tail, ""));
            self.failures.push(Failed {
                binary: String::new(),
                test: format!("{head}{rest}"),
                why: why.to_owned(),
            });
            return true;
        }
        self.pytest_result(line)
    }

    /// A test may miss several things; it is one test that is skipped, with all its reasons.
    fn skipped_itself(&mut self, why: &str) {
        match self.skips.last_mut() {
            Some(last) if self.test_skipped => *last = format!("{last}; {why}"),
            _ => {
                self.test_skipped = true;
                self.skipped_themselves += 1;
                let what = format!("{} {}", self.binary, self.test);
                self.skip(what.trim(), why);
            }
        }
    }

    fn rust_test(&mut self, test: &str) -> bool {
        let Some((name, outcome)) = test.rsplit_once(" ... ") else { return false };
        let outcome = outcome.trim();
        let what = format!("{} {name}", self.binary).trim().to_owned();
        self.open.running.remove(name);
        if ["ok", "FAILED"].contains(&outcome) || outcome.starts_with("ignored") {
            self.open.ended += 1;
        }
        self.open.passed += usize::from(outcome == "ok");
        self.open.failed += usize::from(outcome == "FAILED");
        if outcome == "FAILED" {
            let (binary, test) = (self.binary.clone(), name.to_owned());
            self.failures.push(Failed { binary, test, why: String::new() });
        } else if let Some(why) = outcome.strip_prefix("ignored") {
            let why = why.trim_start_matches(", ");
            self.skips
                .push(format!("{what}: {}", if why.is_empty() { "ignored, no reason given" } else { why }));
        } else {
            return false;
        }
        true
    }

    fn rust_result(&mut self, result: &str) {
        for part in result.split([';', '.']) {
            let mut words = part.split_whitespace();
            if let (Some(Ok(n)), Some(kind)) = (words.next().map(str::parse::<usize>), words.next()) {
                self.add(kind, n);
            }
        }
        self.passed = self.passed.saturating_sub(std::mem::take(&mut self.skipped_themselves));
        self.open = Open::default();
    }

    /// `3 passed, 1 skipped in 2.10s`, with or without a frame of `=`.
    fn pytest_result(&mut self, line: &str) -> bool {
        let Some((sums, time)) = line.trim_matches(['=', ' ']).split_once(" in ") else { return false };
        if !time.starts_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        let parts: Option<Vec<(usize, &str)>> = sums
            .split(", ")
            .map(|part| part.split_once(' ').and_then(|(n, kind)| Some((n.parse().ok()?, kind))))
            .collect();
        let known = |kind: &str| {
            ["passed", "failed", "skipped", "error", "errors", "warning", "warnings", "xfailed", "deselected"]
                .contains(&kind)
        };
        match parts {
            Some(parts) if parts.iter().all(|(_, kind)| known(kind)) => {
                for (n, kind) in parts {
                    self.add(kind, n);
                }
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, kind: &str, n: usize) {
        match kind {
            "passed" => self.passed += n,
            "failed" | "error" | "errors" => self.failed += n,
            "ignored" | "skipped" | "xfailed" => self.skipped += n,
            _ => {}
        }
    }

    /// Every failure and skip by name, then the line of sums.
    pub(super) fn summary(&self) -> String {
        let mut lines: Vec<String> = self.notes.iter().map(|note| format!("missing: {note}")).collect();
        lines.extend(self.skips.iter().map(|skip| format!("skipped: {skip}")));
        lines.extend(self.unsteady.iter().map(|test| format!("unsteady, passed when run again: {test}")));
        lines.extend(self.failures.iter().map(|failed| format!("failed: {}", failed.line())));
        lines.push(format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped));
        lines.join("\n")
    }
}

/// `unittests src/lib.rs (target/debug/deps/skyhaul_io-1f0c)` is of `skyhaul_io`.
fn binary(running: &str) -> String {
    let file = running.rsplit(['/', '(']).next().unwrap_or(running).trim_end_matches(')');
    file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tally {
        let mut tally = Tally::default();
        for line in text.lines() {
            tally.read(line);
        }
        tally
    }

    #[test]
    fn the_rust_harness_is_counted() {
        let tally = read(
            "     Running unittests src/lib.rs (target/debug/deps/a-1)\n\
             test a::b ... ok\ntest a::c ... ignored, takes an hour (run with --ignored)\n\
             ---- a::b stdout ----\nSKIPPED: no IPv6 here (sysctl x)\n\
             test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.21s\n\
             Doc-tests skyhaul_core\ntest src/lib.rs - x (line 3) ... FAILED\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        assert_eq!((tally.passed, tally.failed, tally.skipped), (12, 1, 2));
    }

    #[test]
    fn a_test_that_skipped_itself_is_not_passed() {
        let tally = read(
            "     Running tests/udp.rs (target/debug/deps/udp-1f0c)\nrunning 2 tests\n\
             test a ... ok\ntest b ... ok\n\nsuccesses:\n\n---- b stdout ----\nSKIPPED: no IPv6 (sysctl x)\nSKIPPED: no ring\n\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        assert_eq!(
            tally.summary(),
            "skipped: udp b: no IPv6 (sysctl x); no ring\n1 passed, 0 failed, 1 skipped"
        );
    }

    #[test]
    fn a_harness_that_was_stopped_is_counted_by_its_tests() {
        let mut tally = read(
            "     Running tests/e2e/main.rs (target/debug/deps/e2e-1f0c)\n\nrunning 5 tests\n\
             test a ... ok\ntest b ... FAILED\ntest slow has been running for over 60 seconds\n\
             test hangs has been running for over 60 seconds\ntest slow ... ok\ntest c ... ignored, an hour",
        );
        assert!(tally.has_running());
        tally.end_of_step();
        assert_eq!(
            tally.summary(),
            "skipped: e2e c: an hour\nfailed: e2e b\nfailed: e2e hangs - it had not ended when it was stopped\n\
             2 passed, 2 failed, 1 skipped"
        );
        // Both pass when they run alone.
        for failed in tally.failures.clone() {
            tally.passed_after_all(&failed);
        }
        assert_eq!((tally.passed, tally.failed), (4, 0));
    }

    #[test]
    fn a_harness_that_died_has_failed_though_another_one_is_fine() {
        let tally = read(
            "     Running tests/udp.rs (target/debug/deps/udp-1f0c)\n\nrunning 3 tests\ntest a ... ok\n\
             error: test failed, to rerun pass `--test udp`\n\
             \x20    Running tests/tcp.rs (target/debug/deps/tcp-1f0c)\n\nrunning 1 test\ntest d ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        assert_eq!(tally.summary(), "failed: udp - 2 tests have no result\n2 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn what_a_test_prints_is_no_result() {
        let tally = read(
            "     Running unittests src/main.rs (target/debug/deps/xtask-1f0c)\ntest a ... ok\nsuccesses:\n\n---- a stdout ----\n\
             FAILED t.py::a - why\n2 failed in 0.1s\n\nsuccesses:\n    a\n\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n1 passed in 0.1s",
        );
        assert_eq!(tally.summary(), "2 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn pytest_is_counted() {
        let tally = read(
            "SKIPPED [1] tests/interop/test_wire.py:20: no tshark\nFAILED tests/interop/test_a.py::x - assert\n\
             ====== 1 failed, 3 passed, 1 skipped, 2 warnings in 2.10s ======\nsamples lie in place in 3 frames",
        );
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 1, 1));
        assert_eq!(tally.skips, ["tests/interop/test_wire.py:20: no tshark"]);
        let why = "assert".to_owned();
        let failed = Failed { binary: String::new(), test: "tests/interop/test_a.py::x".to_owned(), why };
        assert_eq!(tally.failures, [failed]);
    }

    #[test]
    fn a_test_that_passed_when_it_was_run_again_is_passed_and_named() {
        let mut tally = read(
            "     Running tests/tcp.rs (target/debug/deps/tcp-1f0c)\ntest a ... FAILED\ntest b ... FAILED\n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        let first = tally.failures[0].clone();
        tally.passed_after_all(&first);
        assert_eq!(
            tally.summary(),
            "unsteady, passed when run again: tcp a\nfailed: tcp b\n2 passed, 1 failed, 0 skipped"
        );
    }

    #[test]
    fn steps_beside_others_are_counted_once_and_shown_at_their_end() {
        let tally = read("3 passed, 1 skipped in 2.10s");
        let mut beside = tally.beside();
        for line in
            ["FAILED a.py::x - why", "SKIPPED [1] a.py:20: no tshark", "1 failed, 2 passed, 1 skipped in 1s"]
        {
            assert!(beside.read(line));
            beside.say(line);
        }
        let mut all = tally.beside();
        all.merge(tally);
        all.merge(beside);
        assert_eq!((all.passed, all.failed, all.skipped), (5, 1, 2));
        assert_eq!(all.failures.len(), 1);
        assert!(all.held().ends_with("no tshark\n1 failed, 2 passed, 1 skipped in 1s"));
    }

    #[test]
    fn known_exceptions_are_named_and_not_passed() {
        let tally = read("XFAIL tests/test_recv.py::test_x - on purpose\n3 passed, 1 xfailed in 0.1s");
        assert_eq!(
            tally.summary(),
            "skipped: tests/test_recv.py::test_x - on purpose\n3 passed, 0 failed, 1 skipped"
        );
    }
}
