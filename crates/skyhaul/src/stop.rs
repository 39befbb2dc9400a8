//! A request to end work, shared by the threads that do it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a measurement or a copy. Clones share one flag, which every thread of a run checks: what is finished is reported,
/// and the current run is discarded.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Request the end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was requested.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The result of a run, or `None` if it was stopped, because its figures then reflect the stop.
    ///
    /// # Errors
    ///
    /// The error of the run, unless it was stopped.
    pub fn unless_set<T>(&self, run: io::Result<T>) -> io::Result<Option<T>> {
        if self.is_set() { Ok(None) } else { run.map(Some) }
    }
}

impl From<Arc<AtomicBool>> for StopFlag {
    /// A flag set elsewhere, for example by a signal handler.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}
