//! How a verb ends: its outcome, and the signals that end it early.
//!
//! Ctrl-C, SIGTERM and SIGHUP: the first requests a clean end; Ctrl-C or SIGTERM a second or more later ends the program
//! immediately. See [`skyhaul::io::signals`].

use skyhaul::io::signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success.
    Done,
    /// A check failed, or data were lost where none may be.
    Failed,
}

/// Marks a report of an incomplete measurement.
pub(crate) const INTERRUPTED: &str = "INTERRUPTED: measured until then";

/// Set by the first signal.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listen for signals from here on.
    pub(crate) fn listen() -> io::Result<Self> {
        signals::listen().map(Self)
    }

    /// One that was requested, for tests.
    #[cfg(test)]
    pub(crate) fn raised() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// The flag itself, for code that polls it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Whether an end was requested.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
