//! A lock that a reader keeps for a batch of packets.
//!
//! ```text
//!   value there ── take ──▶ taken: one reader uses it without a lock ── put, at the end of its batch ──▶ there
//!       └────────── with ──▶ used under the lock, once two readers have wanted it at the same time
//! ```
//!
//! Every operation on a lock waits until the bytes copied past the cache are in memory: about half a microsecond, as much as the
//! copy of a packet of 9000 bytes itself. So a stream that is alone locks once in a batch. Streams that fill the same memory take
//! turns, packet run by packet run.

use skyhaul_io::copy;
use skyhaul_io::lock::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// See [the module](self).
#[derive(Debug)]
pub struct BatchLock<T> {
    /// `None` while it is taken.
    value: Mutex<Option<T>>,
    put: Condvar,
    /// Two readers have wanted it at the same time: none takes it any more.
    contended: AtomicBool,
}

impl<T> BatchLock<T> {
    /// A lock of this value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(Some(value)), put: Condvar::new(), contended: AtomicBool::new(false) }
    }

    /// The value's place, when nobody has taken it. Whoever has puts it back after a batch.
    fn place(&self, contends: bool) -> MutexGuard<'_, Option<T>> {
        let mut value = lock(&self.value);
        while value.is_none() {
            if contends {
                self.contended.store(true, Ordering::Relaxed);
            }
            value = self.put.wait(value).unwrap_or_else(PoisonError::into_inner);
        }
        value
    }

    /// Use the value now and then, not for packets. Waits until the batch that has it is over.
    pub fn look<R>(&self, used: impl FnOnce(&mut T) -> R) -> R {
        self.used(false, used)
    }

    fn used<R>(&self, contends: bool, used: impl FnOnce(&mut T) -> R) -> R {
        loop {
            if let Some(value) = &mut *self.place(contends) {
                return used(value);
            }
        }
    }
}

/// A reader's use of a [`BatchLock`]. It puts the value back when it is dropped.
#[derive(Debug)]
pub struct BatchHold<T> {
    lock: Arc<BatchLock<T>>,
    taken: Option<T>,
}

impl<T> BatchHold<T> {
    /// Nothing is taken yet.
    #[must_use]
    pub fn new(lock: Arc<BatchLock<T>>) -> Self {
        Self { lock, taken: None }
    }

    /// Use the value; it stays taken until [`put`](Self::put), unless others want it, too.
    #[inline]
    pub fn with<R>(&mut self, used: impl FnOnce(&mut T) -> R) -> R {
        if self.taken.is_none() {
            let mut place = self.lock.place(true);
            if !self.lock.contended.load(Ordering::Relaxed) {
                self.taken = place.take();
            }
        }
        let Some(value) = &mut self.taken else { return self.lock.used(true, used) };
        let done = used(value);
        if self.lock.contended.load(Ordering::Relaxed) {
            self.put();
        }
        done
    }

    /// The batch is over.
    #[inline]
    pub fn put(&mut self) {
        let Some(value) = self.taken.take() else { return };
        // Before others see what was written.
        copy::fence();
        *lock(&self.lock.value) = Some(value);
        self.lock.put.notify_all();
    }
}

impl<T> Drop for BatchHold<T> {
    fn drop(&mut self) {
        self.put();
    }
}

#[cfg(test)]
mod tests;
