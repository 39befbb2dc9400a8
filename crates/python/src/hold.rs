//! References to Python objects that any thread may drop, even during a fork.
//!
//! A reference dropped by a thread without the interpreter goes into a list of pyo3's, which has its own lock. So
//! everything that such a thread may drop is a [`Hold`], and none is released during a fork.

use pyo3::prelude::*;
use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// Read-locked by threads while they release Python objects.
static LETTING_GO: RwLock<()> = RwLock::new(());

/// A reference to a Python object, which any thread may drop.
pub(crate) struct Hold<T>(Option<Py<T>>);

impl<T> Hold<T> {
    pub(crate) fn new(object: Py<T>) -> Self {
        Self(Some(object))
    }
}

impl<T> Deref for Hold<T> {
    type Target = Py<T>;

    fn deref(&self) -> &Py<T> {
        self.0.as_ref().expect("it is released only when dropped")
    }
}

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        let _none_forks = LETTING_GO.read().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.take());
    }
}

/// Maximum time that a fork waits for threads that release objects. They take microseconds, unless a destructor waits for
/// the forking thread.
const PATIENCE: Duration = Duration::from_millis(100);

/// Block releases until the guard is dropped; `None` if a release takes too long.
pub(crate) fn none_lets_go() -> Option<RwLockWriteGuard<'static, ()>> {
    let begun = Instant::now();
    loop {
        match LETTING_GO.try_write() {
            Ok(guard) => break Some(guard),
            Err(TryLockError::Poisoned(guard)) => break Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_micros(50));
            }
            Err(TryLockError::WouldBlock) => break None,
        }
    }
}
