//! Objects of Python's that any thread may drop, also while the process is forked.
//!
//! What a thread drops of Python's without the interpreter waits in a list of pyo3's, and the list has a lock that is not
//! ours. So whatever such a thread may drop is a [`Hold`], and none is let go while the process is forked.

use pyo3::prelude::*;
use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// Read by threads while they let go of objects of Python's.
static LETTING_GO: RwLock<()> = RwLock::new(());

/// A hold on an object of Python's, which any thread may drop.
pub(crate) struct Hold<T>(Option<Py<T>>);

impl<T> Hold<T> {
    pub(crate) fn new(object: Py<T>) -> Self {
        Self(Some(object))
    }
}

impl<T> Deref for Hold<T> {
    type Target = Py<T>;

    fn deref(&self) -> &Py<T> {
        self.0.as_ref().expect("it is let go at its end only")
    }
}

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        let _none_forks = LETTING_GO.read().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.take());
    }
}

/// A fork waits no longer than this for threads that let go. They take microseconds, but where an object's own end waits for
/// whoever forks.
const PATIENCE: Duration = Duration::from_millis(100);

/// From now on nobody lets go, until this is dropped; none if somebody does for too long.
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
