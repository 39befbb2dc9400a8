//! What one thread has ready for others.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Items in order, for any number of threads at both ends. Bounded by the number of items that exist.
pub(crate) struct Lane<T> {
    items: Mutex<VecDeque<T>>,
    more: Condvar,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), more: Condvar::new() }
    }
}

impl<T> Lane<T> {
    pub(crate) fn push(&self, item: T) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).push_back(item);
        self.more.notify_one();
    }

    /// The first, if there is one now.
    pub(crate) fn try_pop(&self) -> Option<T> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// The first, waiting for it at most `time`.
    pub(crate) fn pop(&self, time: Duration) -> Option<T> {
        let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.more.wait_timeout_while(items, time, |items| items.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }
}
