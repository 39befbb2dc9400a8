//! Waiting for what another thread or process does.

use std::time::{Duration, Instant};

/// Only a hang lasts this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
