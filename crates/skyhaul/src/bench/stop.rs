//! An end that was asked for: what was measured so far is told, and the run under way is not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a measurement. Clones are the same; every thread of a run looks at it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// End it, soon.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody wants an end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `of`, which no figure can be made of if it was stopped: whatever came of it, came of the stopping. `None`: stopped.
    pub(super) fn unless_set<T>(&self, of: io::Result<T>) -> io::Result<Option<T>> {
        if self.is_set() { Ok(None) } else { of.map(Some) }
    }
}

impl From<Arc<AtomicBool>> for Stop {
    /// A flag that somebody else sets, such as a signal's handler.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}
