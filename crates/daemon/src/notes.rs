//! Notes of refusals for the operator on standard error: at most ten in ten seconds, however many there are.

use skyhaul::auth::redacted;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Refusals that are noted in a time, and that time.
const NOTED_REFUSALS: u32 = 10;
const NOTED_INTERVAL: Duration = Duration::from_secs(10);

/// What was noted lately.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<NotesState>);

#[derive(Debug, Default)]
struct NotesState {
    begun: Option<Instant>,
    count: u32,
}

impl Notes {
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        let mut state = lock(&self.0);
        let mut left_out = 0;
        if state.begun.is_none_or(|begun| begun.elapsed() >= NOTED_INTERVAL) {
            left_out = state.count.saturating_sub(NOTED_REFUSALS);
            *state = NotesState { begun: Some(Instant::now()), count: 0 };
        }
        state.count = state.count.saturating_add(1);
        let is_noted = state.count <= NOTED_REFUSALS;
        drop(state);
        if left_out > 0 {
            say!("{left_out} more requests were refused");
        }
        if is_noted {
            say!("{}", redacted(&text(), &[]));
        }
    }
}
