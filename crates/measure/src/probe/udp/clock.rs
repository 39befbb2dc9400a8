//! Times of this host: a clock for waiting, and nanoseconds of UNIX time for what the other end compares.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// UNIX time at one moment of the steady clock: later ones follow from it, so that a step of the wall clock during a run
/// is seen by comparing with the kernel's stamps, and does not disturb what is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    at: Instant,
    unix: u64,
}

/// UNIX time now, in nanoseconds.
pub(in crate::probe) fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Wall {
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), unix: unix_now() }
    }

    /// The moment at which it was taken.
    pub(super) fn origin(&self) -> Instant {
        self.at
    }

    /// UNIX nanoseconds so long after it.
    pub(super) fn unix(&self, after: Duration) -> u64 {
        self.unix.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
    }
}
