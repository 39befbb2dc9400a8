//! Lines while a test runs.

use crate::print;
use std::time::Duration;

/// Time from one line to the next.
const EACH: f64 = 1.0;

/// What was shown so far.
#[derive(Debug)]
pub(super) struct Live {
    quiet: bool,
    /// Seconds and bytes of the last line.
    before: (f64, u64),
}

impl Live {
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet, before: (0.0, 0) }
    }

    /// The next test begins.
    pub(super) fn restart(&mut self) {
        self.before = (0.0, 0);
    }

    /// So many bytes moved so far: a line, if it is time for one. Tests that end within two seconds show none.
    pub(super) fn show(&mut self, elapsed: Duration, bytes: u64, what: &str) {
        let now = elapsed.as_secs_f64();
        if self.quiet || now - self.before.0 < EACH {
            return;
        }
        let rate = bytes.saturating_sub(self.before.1) as f64 * 8.0 / (now - self.before.0);
        say!("{now:>6.0} s  {what} {} at {}", print::bytes(bytes), print::rate(rate));
        self.before = (now, bytes);
    }
}
