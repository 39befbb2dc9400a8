//! Items in order, from any number of threads to any number of threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A first-in, first-out queue between threads. Nothing bounds it: its users bound how many items exist.
pub struct Fifo<T> {
    items: Mutex<VecDeque<T>>,
    more: Condvar,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), more: Condvar::new() }
    }
}

impl<T> Fifo<T> {
    /// Add `item` at the end.
    pub fn push(&self, item: T) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).push_back(item);
        self.more.notify_one();
    }

    /// The first item, if there is one now.
    #[must_use]
    pub fn try_pop(&self) -> Option<T> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// The first item, waiting for it at most `time`.
    #[must_use]
    pub fn pop(&self, time: Duration) -> Option<T> {
        let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.more.wait_timeout_while(items, time, |items| items.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }
}
