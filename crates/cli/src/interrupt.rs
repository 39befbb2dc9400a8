//! Ctrl-C and SIGTERM: the first signal requests a clean end, the second ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Marks a report of an incomplete measurement.
pub(crate) const INTERRUPTED: &str = "INTERRUPTED: measured until then";

/// Set by the first signal.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listen for signals from here on.
    pub(crate) fn listen() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // In this order: the second signal finds the flag set and ends the program.
            signal_hook::flag::register_conditional_shutdown(signal, 1, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Self(flag))
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
