//! Errors that wait for `error?`: the pending bit of `status?`, and the queue behind it.

use crate::placement::Nanos;
use std::collections::VecDeque;

/// Maximum number of errors that wait; the oldest make room.
pub const MAX_PENDING_ERRORS: usize = 64;

/// Number of an error in `error?`: a recording could not begin.
pub const ERROR_NOT_STARTED: u32 = 1001;
/// Number of an error in `error?`: a recording ended without being asked to, or lost data.
pub const ERROR_ENDED: u32 = 1002;
/// Number of an error in `error?`: a transfer ended without being asked to, or sent fill.
pub const ERROR_TRANSFER: u32 = 1003;

/// An error that waits to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VsiError {
    /// Its number.
    pub number: u32,
    /// What happened.
    pub message: String,
    /// When it happened first, UNIX.
    pub first: Nanos,
    /// When it happened last.
    pub last: Nanos,
    /// How often.
    pub count: u64,
}

/// Errors that wait, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct VsiErrors {
    queue: VecDeque<VsiError>,
}

impl VsiErrors {
    /// Adds an error. One that waits already is counted.
    pub fn add(&mut self, number: u32, message: &str, now: Nanos) {
        let same = |error: &&mut VsiError| error.number == number && error.message == message;
        if let Some(error) = self.queue.iter_mut().find(same) {
            (error.last, error.count) = (now, error.count + 1);
            return;
        }
        if self.queue.len() >= MAX_PENDING_ERRORS {
            self.queue.pop_front();
        }
        let message = message.to_owned();
        self.queue.push_back(VsiError { number, message, first: now, last: now, count: 1 });
    }

    /// Returns the oldest.
    #[must_use]
    pub fn peek(&self) -> Option<&VsiError> {
        self.queue.front()
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<VsiError> {
        self.queue.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_errors_are_counted_and_the_queue_is_bounded() {
        let mut errors = VsiErrors::default();
        errors.add(1, "disk full", Nanos(5));
        errors.add(1, "disk full", Nanos(9));
        let error = errors.pop().unwrap();
        assert_eq!((error.first, error.last, error.count), (Nanos(5), Nanos(9), 2));
        for number in 0..1000 {
            errors.add(number, "x", Nanos(0));
        }
        assert_eq!(errors.peek().unwrap().number, 1000 - MAX_PENDING_ERRORS as u32);
    }
}
