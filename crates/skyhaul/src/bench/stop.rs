//! A requested end: results so far are reported, the current run is discarded.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a measurement. Clones share one flag, which every thread of a run checks.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// End it, soon.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether an end was requested.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The result `of` a run, or `None` if it was stopped, because its figures then reflect the stop.
    pub(super) fn unless_set<T>(&self, of: io::Result<T>) -> io::Result<Option<T>> {
        if self.is_set() { Ok(None) } else { of.map(Some) }
    }
}

impl From<Arc<AtomicBool>> for Stop {
    /// A flag set elsewhere, for example by a signal handler.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}
