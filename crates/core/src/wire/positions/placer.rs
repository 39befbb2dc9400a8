//! Gives each frame its position in the stream.
//!
//! ```text
//!   position    0 1 2 3 ········ 4 5 4 6 ·· 7        time jumps back: the count goes on from 7
//!   gaps                 ▲missing    └reordered
//! ```
//!
//! A jump of more than a second counts only if the next frame confirms it; otherwise, the header is damaged, and the
//! frame gets the position after the one before it. After a jump back, the count continues, because with a sequence
//! number that returns, every frame would be a duplicate.

use super::clock::{FrameClock, NEAR};
use crate::wire::frame::FrameTime;

/// Places frames, in the order in which they are sent.
#[derive(Clone, Debug)]
pub struct Placer {
    clock: FrameClock,
    /// What is taken from the position by time.
    base: Option<i64>,
    /// The time before, where the rate is unknown.
    before: Option<FrameTime>,
    last: i64,
    front: i64,
    /// Lowest and highest frame number.
    extent: Option<(i64, i64)>,
    frames: u64,
    gaps: u64,
    missing: u64,
    longest: u64,
    late: u64,
    untimed: u64,
    returns: u64,
}

impl Placer {
    /// Before the first frame.
    #[must_use]
    pub fn new(clock: FrameClock) -> Placer {
        Placer {
            clock,
            base: None,
            before: None,
            last: -1,
            front: -1,
            extent: None,
            frames: 0,
            gaps: 0,
            missing: 0,
            longest: 0,
            late: 0,
            untimed: 0,
            returns: 0,
        }
    }

    /// Rate and threads.
    #[must_use]
    pub fn clock(&self) -> &FrameClock {
        &self.clock
    }

    /// The position of `frame`; `next` is the frame after it, if there is one. Frames that are out of order at the very
    /// beginning may have positions before 0.
    pub fn place(&mut self, frame: &[u8], next: Option<&[u8]>) -> i64 {
        self.frames += 1;
        self.grow(frame);
        let behind = self.last + 1;
        let counted = self.counted(frame);
        self.untimed += u64::from(counted.is_none());
        let at = match counted {
            None => behind,
            Some((number, position)) => self.timed(number, position, next, behind),
        };
        if at > self.front {
            let missing = at.abs_diff(self.front) - 1;
            if missing > 0 {
                self.gaps += 1;
                self.missing += missing;
                self.longest = self.longest.max(missing);
            }
            self.front = at;
        } else {
            self.late += 1;
            // A repeated frame fills no gap.
            self.missing = self.missing.saturating_sub(u64::from(at != self.last));
        }
        self.last = at;
        at
    }

    fn timed(&mut self, number: i64, position: i64, next: Option<&[u8]>, behind: i64) -> i64 {
        let second = self.clock.second();
        let Some(base) = self.base else {
            let lowest = match next.map(|next| self.counted(next)) {
                Some(Some((_, next))) if next.abs_diff(position) <= second.unsigned_abs() => {
                    next.min(position)
                }
                None => position,
                // Not confirmed.
                Some(_) => {
                    self.untimed += 1;
                    return behind;
                }
            };
            let base = lowest.saturating_sub(behind);
            self.base = Some(base);
            self.note(number);
            self.front = position.saturating_sub(base) - 1;
            return self.front + 1;
        };
        let at = position.saturating_sub(base);
        let jump = at.saturating_sub(self.front);
        let near =
            |position: &(i64, i64)| position.1.saturating_sub(base).abs_diff(at) <= second.unsigned_abs();
        if jump.unsigned_abs() > second.unsigned_abs() {
            if !next.and_then(|next| self.counted(next)).as_ref().is_some_and(near) {
                self.untimed += 1;
                return behind;
            }
            if jump < 0 {
                let behind = self.front + 1;
                self.base = Some(position - behind);
                self.returns += 1;
                self.note(number);
                return behind;
            }
        }
        self.note(number);
        at
    }

    /// If the rate is unknown, a second is as long as the highest number so far, and grows with higher numbers.
    fn grow(&mut self, frame: &[u8]) {
        let clock = &mut self.clock;
        let time = clock.stamps.time(frame, clock.near).filter(|_| clock.fps().is_none());
        if let (Some(time), Some(before)) = (time, std::mem::replace(&mut self.before, time))
            && time.unix_seconds == before.unix_seconds
            && (clock.count_fps..clock.count_fps.saturating_add(NEAR)).contains(&time.frame)
        {
            let old = clock.number(before);
            clock.count_fps = time.frame + 1;
            let new = clock.number(before);
            let by = old.zip(new).map_or(0, |(old, new)| new.1 - old.1);
            self.base = self.base.map(|base| base.saturating_add(by));
            // One pass has one rate.
            self.extent = None;
        }
    }

    fn note(&mut self, number: i64) {
        let (low, high) = self.extent.unwrap_or((number, number));
        self.extent = Some((low.min(number), high.max(number)));
    }

    /// Frame number and position by time; `None` without a time, or for a thread that does not belong to the stream.
    fn counted(&self, frame: &[u8]) -> Option<(i64, i64)> {
        let clock = &self.clock;
        let counted = clock.stamps.count(frame, clock.near, clock.count_fps)?;
        clock.place(counted)
    }

    /// Number of frames of a thread from the first to the last time; a further pass begins after them.
    #[must_use]
    pub fn pass_frames(&self) -> u64 {
        let by_time = self.extent.map_or(0, |(low, high)| high.abs_diff(low) + 1);
        by_time.max(u64::try_from(self.front + 1).unwrap_or(0).div_ceil(self.clock.lanes())).max(1)
    }

    /// Number of positions without a frame between the first and the last.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Rows of such places, and the longest one.
    #[must_use]
    pub fn gaps(&self) -> (u64, u64) {
        (self.gaps, self.longest)
    }

    /// Frames without a time that can be: fill without a header, damaged headers.
    #[must_use]
    pub fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Jumps back by more than a second.
    #[must_use]
    pub fn returns(&self) -> u64 {
        self.returns
    }

    /// Whether frames follow each other in time, but for some that are out of order.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.clock.has_rows && self.late.saturating_mul(8) <= self.frames
    }
}
