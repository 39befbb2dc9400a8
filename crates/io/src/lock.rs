//! Locks that ignore poison, on purpose.
//!
//! A thread that panics reports that itself, and what it was responsible for is marked as failed. The data behind its
//! locks (counters, queues, reports) stay valid between any two statements, so other threads continue with them, and can
//! still report what happened.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks `mutex`, also if a thread panicked while it held the lock.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `condvar` is notified, also if a thread panics meanwhile.
#[inline]
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits while `condition` holds, at most `time`, also if a thread panics meanwhile.
#[inline]
pub fn wait_while<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Duration,
    condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    condvar.wait_timeout_while(guard, time, condition).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_lock_others_out() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let panics = || {
                let _held = lock(&mutex);
                panic!("for this test");
            };
            scope.spawn(panics).join().is_err()
        });
        assert!(panicked && mutex.is_poisoned());
        *lock(&mutex) += 1;
        let guard = wait_while(&Condvar::new(), lock(&mutex), Duration::from_secs(9), |value| *value < 2);
        assert_eq!(*guard, 2);
    }
}
