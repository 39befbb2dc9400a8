//! What other threads say to a sending thread, and how it waits.

use super::SendStats;
use crate::control::Progress;
use skyhaul_core::placement::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What other threads say to the one that sends.
#[derive(Debug)]
pub struct Control {
    /// Jobs with lower numbers are cancelled.
    pub cancelled_below: AtomicU64,
    /// Bits per second.
    pub rate: AtomicU64,
    /// When the wait for a gap in the data ends, nanoseconds of the sender's clock; 0 without one.
    pub resumes: AtomicU64,
    /// What was sent so far.
    pub stats: Mutex<SendStats>,
    /// Where receivers control the rate: the state for each.
    pub progress: Mutex<Vec<Progress>>,
    nap: Mutex<()>,
    wake: Condvar,
}

impl Control {
    /// Nothing is cancelled; `rate` in bits per second.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        Self {
            cancelled_below: AtomicU64::new(0),
            rate: AtomicU64::new(rate),
            resumes: AtomicU64::new(0),
            stats: Mutex::default(),
            progress: Mutex::default(),
            nap: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Whether job `number` is cancelled.
    #[inline]
    pub fn is_cancelled(&self, number: u64) -> bool {
        number < self.cancelled_below.load(Ordering::Relaxed)
    }

    /// Wake a sender that waits for its time.
    pub fn wake(&self) {
        drop(self.nap.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_all();
    }

    /// The counts, to read or to add to.
    pub fn stats(&self) -> MutexGuard<'_, SendStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time, and waiting for it.
pub trait Clock: Send {
    /// Nanoseconds since the clock began.
    fn now(&self) -> Nanos;
    /// Sleep until about `due`, or until something changed (`still` is false).
    fn wait(&self, due: Nanos, control: &Control, still: &dyn Fn() -> bool);
}

/// This machine's clock, counted from an instant.
#[derive(Debug)]
pub struct Real(pub Instant);

impl Clock for Real {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A little longer than needed where that is soon: to sleep and be woken costs some µs of CPU time, so at high
    /// rates some trains go out together, and the pacer keeps the rate.
    fn wait(&self, due: Nanos, control: &Control, still: &dyn Fn() -> bool) {
        const SHORTEST: Duration = Duration::from_micros(60);
        const SHORT: Duration = Duration::from_millis(2);
        /// Not everything that ends a wait also wakes it.
        const LONGEST: Duration = Duration::from_millis(50);
        let left = Duration::from_nanos(due.0.saturating_sub(self.now().0));
        if left <= SHORT {
            std::thread::sleep(left.max(SHORTEST));
            return;
        }
        let nap = control.nap.lock().unwrap_or_else(PoisonError::into_inner);
        if still() {
            drop(control.wake.wait_timeout(nap, left.min(LONGEST)));
        }
    }
}
