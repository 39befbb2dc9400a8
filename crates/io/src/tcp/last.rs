//! The end of a port with its last connection.

use std::time::Duration;

/// Watches for the end of the last connection of a port, for readers that end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndWithLast {
    /// Otherwise the reader continues to listen.
    is_wanted: bool,
    /// Consecutive polls without a connection, after there had been one.
    alone: u32,
}

impl EndWithLast {
    /// With `is_wanted`, the reader ends with the last connection.
    #[must_use]
    pub fn new(is_wanted: bool) -> Self {
        Self { is_wanted, alone: 0 }
    }

    /// How long the next poll may wait. Without connections there is one more poll, immediately: the next connection may be pending.
    #[must_use]
    pub fn wait(&self, wait: Duration) -> Duration {
        if self.is_wanted && self.alone > 0 { Duration::ZERO } else { wait }
    }

    /// After a poll: connections accepted so far, and those that are open.
    pub fn note_poll(&mut self, accepted: u64, open: usize) {
        self.alone = if accepted > 0 && open == 0 { self.alone.saturating_add(1) } else { 0 };
    }

    /// Whether the reader ends.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.is_wanted && self.alone > 1
    }
}
