//! Notes of refusals, however many there are: at most so many in a time, and a count of the others.
//!
//! ```text
//!   refusal ─▶ NoteLimit ─┬─ one of the first of these seconds ─▶ noted, with how many were left out before it
//!                         └─ else ─▶ counted
//! ```

use skyhaul::auth::redacted;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Refusals that are noted for the operator on standard error in a time, and that time.
const NOTED_REFUSALS: u64 = 10;
const NOTED_INTERVAL: Duration = Duration::from_secs(10);

/// At most so many notes in a time. Each time begins with the first note after the one before.
#[derive(Debug)]
pub(crate) struct NoteLimit {
    most: u64,
    interval: Duration,
    state: Mutex<LimitState>,
}

#[derive(Debug, Default)]
struct LimitState {
    begun: Option<Instant>,
    count: u64,
    left_out: u64,
}

impl NoteLimit {
    pub(crate) fn new(most: u64, interval: Duration) -> Self {
        Self { most, interval, state: Mutex::default() }
    }

    /// Whether one more may be noted now; then how many were left out since the last one that was.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.begun.is_none_or(|begun| now.saturating_duration_since(begun) >= self.interval) {
            (state.begun, state.count) = (Some(now), 0);
        }
        state.count += 1;
        if state.count > self.most {
            state.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut state.left_out))
    }

    /// How many were left out since the last one that was noted. They are not counted again.
    pub(crate) fn take_left_out(&self) -> u64 {
        std::mem::take(&mut lock(&self.state).left_out)
    }
}

/// Notes for the operator on standard error.
#[derive(Debug)]
pub(crate) struct Notes(NoteLimit);

impl Default for Notes {
    fn default() -> Self {
        Self(NoteLimit::new(NOTED_REFUSALS, NOTED_INTERVAL))
    }
}

impl Notes {
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        let Some(left_out) = self.0.admit() else { return };
        if left_out > 0 {
            say!("{left_out} more requests were refused");
        }
        say!("{}", redacted(&text(), &[]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limit_is_counted_and_given_with_the_next() {
        let limit = NoteLimit::new(2, Duration::from_secs(10));
        let begun = Instant::now();
        let at = |seconds| limit.admit_at(begun + Duration::from_secs(seconds));
        assert_eq!([at(0), at(1), at(2), at(9)], [Some(0), Some(0), None, None]);
        assert_eq!([at(10), at(11), at(12)], [Some(2), Some(0), None]);
        // Ten seconds later than the first of this time, not than the last.
        assert_eq!([at(20), at(21)], [Some(1), Some(0)]);
        assert_eq!([at(22), at(29)], [None, None]);
        assert_eq!([limit.take_left_out(), limit.take_left_out()], [2, 0]);
        assert_eq!(at(30), Some(0));
    }
}
