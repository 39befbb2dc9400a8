//! Ranges of ticks.
//!
//! A thread compares each tick with the range that is [settled](super::Settled) for it, so this is two numbers and no more.

/// A range of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRange {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl TickRange {
    /// No ticks.
    pub const NONE: TickRange = TickRange { first: 1, last: 0 };
    /// All ticks.
    pub const ALL: TickRange = TickRange { first: 0, last: u64::MAX };

    /// Whether `tick` is one of them.
    #[inline]
    #[must_use]
    pub fn contains(self, tick: u64) -> bool {
        self.first <= tick && tick <= self.last
    }

    /// The first and the last tick. In an empty range the first is above the last.
    #[must_use]
    pub fn ends(self) -> (u64, u64) {
        (self.first, self.last)
    }
}
