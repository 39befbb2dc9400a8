//! Bytes that lay unread: whether a receiver's application reads what its kernel has.
//!
//! ```text
//!   quick reader    waits · · ·│data│read      · · ·│data│read     it is woken by the data: their age is 0
//!   reader pauses   read│data│· · · · ·│read   │data│· · ·│read    the last byte came long before: all of it is late
//! ```
//!
//! The gap between two reads does not tell these apart: a small window also brings data with gaps. The age of the last byte does, and is asked
//! for only behind a gap, so a busy flow pays nothing.
//!
//! Limits: where data still come when a pause ends, they hide it. Then the window was not full, and its reader cost nothing.

use std::time::Duration;

/// Data are late if nobody read them for this long: one tick of the slowest kernels' clocks, and no usual wait for a CPU.
const LATE: Duration = Duration::from_millis(10);

/// What a flow's reads found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LateReads {
    /// Bytes that were late.
    pub(super) bytes: u64,
    /// The read before was late and left data behind.
    more: bool,
    /// There was one before.
    begun: bool,
}

impl LateReads {
    /// Take in a read of `bytes` at `gap` behind the one before, which filled its buffer or not; `age` says how long ago the last data
    /// came.
    pub(super) fn read(
        &mut self,
        bytes: usize,
        gap: Duration,
        full: bool,
        age: impl FnOnce() -> Option<Duration>,
    ) {
        let late = if self.begun && gap < LATE { self.more } else { age().is_some_and(|age| age >= LATE) };
        self.bytes += if late { bytes as u64 } else { 0 };
        (self.more, self.begun) = (late && full, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_millis(90);

    #[test]
    fn data_that_wake_their_reader_are_not_late() {
        let mut reads = LateReads::default();
        for _ in 0..10 {
            reads.read(1000, GAP, false, || Some(Duration::from_millis(4)));
            reads.read(1000, Duration::from_millis(1), false, || panic!("a busy flow is not asked"));
        }
        reads.read(1000, GAP, false, || None);
        assert_eq!(reads.bytes, 0);
    }

    #[test]
    fn what_lay_unread_is_late_to_its_last_byte() {
        let mut reads = LateReads::default();
        reads.read(4000, GAP, true, || Some(GAP));
        reads.read(4000, Duration::ZERO, true, || None);
        reads.read(500, Duration::ZERO, false, || None);
        // What came then.
        reads.read(4000, Duration::ZERO, true, || None);
        assert_eq!(reads.bytes, 8500);
    }
}
