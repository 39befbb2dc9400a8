//! The ticks of events.
//!
//! ```text
//!   counted   start, start + step, start + 2 step, …    several sources that count alike send parts of the same events
//!   clock     microseconds since 1970                   what E2SAR and udplbd do; a balancer knows where ticks are
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

/// Gives events their ticks, which always ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// The next one, and the step to the one after it.
    Counted {
        /// The next tick.
        next: u64,
        /// From one to the next.
        step: u64,
    },
    /// The clock's.
    Clock {
        /// The least tick that may follow.
        least: u64,
    },
}

impl Default for Ticks {
    fn default() -> Self {
        Ticks::Clock { least: 0 }
    }
}

impl Ticks {
    /// Ticks per second of the clock.
    pub const CLOCK_RATE: u32 = 1_000_000;

    /// The next tick, at `now` in microseconds since 1970. Two events of one microsecond get ticks in a row.
    pub fn take(&mut self, now: u64) -> u64 {
        match self {
            Ticks::Counted { next, step } => std::mem::replace(next, next.wrapping_add(*step)),
            Ticks::Clock { least } => {
                let tick = now.max(*least);
                *least = tick.saturating_add(1);
                tick
            }
        }
    }

    /// The next tick, which is not taken.
    #[must_use]
    pub fn peek(&self, now: u64) -> u64 {
        let mut copy = *self;
        copy.take(now)
    }
}

/// Nanoseconds since 1970.
pub(super) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Microseconds since 1970.
pub(super) fn unix_micros() -> u64 {
    unix_nanos() / 1000
}
