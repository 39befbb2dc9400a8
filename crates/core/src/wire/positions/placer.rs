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
//!
//! Frames in a row may have the same wrong second and confirm each other. So a jump waits for the frames behind it: where
//! the times of its thread return to what they were, and left just the places of the frames between, it is none.
//!
//! ```text
//!   second      7  7  7 39 39 39  7  7               frame numbers 4 to 11 of one thread
//!   position    0  1  2  3  4  5  6  7               three odd frames, three places
//! ```
//!
//! Where other frames are missing among them, they must have one second, and their numbers must be free in that of their
//! neighbours. At the beginning and at the end of the frames, one side is not there. There, the frames must have one second, and their
//! numbers must continue within a second: a scan or a gap begins with a second, or has several.
//!
//! Limits: up to [`MAX_AHEAD`] frames wait; and frames are looked at for each frame [`LOOKS_EARNED`] times on average, so that
//! a file of jumps alone costs no more.

mod odd;

use super::clock::{FrameClock, NEAR};
use crate::wire::frame::FrameTime;
use crate::wire::stamps::Counted;
use std::collections::VecDeque;

/// Frames with wrong times, one behind the other, that keep their places.
pub const MAX_AHEAD: usize = 1024;
/// Looks at frames that wait, earned with each frame, and the most that are saved.
const LOOKS_EARNED: u64 = 4;
const MAX_LOOKS: u64 = 64 * MAX_AHEAD as u64;

/// A frame that has no position yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time: Option<FrameTime>,
    counted: Option<Counted>,
    /// Its position, where its time is wrong.
    kept: Option<i64>,
}

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
    /// The highest position of each thread.
    of_threads: Vec<Option<i64>>,
    waiting: VecDeque<Waiting>,
    /// How many may wait behind the first one.
    ahead: usize,
    /// The first one is known to [`Placer::grow`], and as many behind it were looked at, with so many odd frames of its thread.
    is_known: bool,
    looked: usize,
    odd: i64,
    /// Frames at the beginning that have one second.
    beginning: Option<usize>,
    looks: u64,
    looks_left: u64,
    has_ended: bool,
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
            of_threads: vec![None; clock.threads.len()],
            clock,
            base: None,
            before: None,
            last: -1,
            front: -1,
            waiting: VecDeque::new(),
            ahead: MAX_AHEAD,
            is_known: false,
            looked: 0,
            odd: 1,
            beginning: None,
            looks: 0,
            looks_left: MAX_LOOKS,
            has_ended: false,
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

    /// Lets fewer frames wait, because the caller must keep them: 1 to [`MAX_AHEAD`].
    #[must_use]
    pub fn with_ahead(self, frames: usize) -> Placer {
        Placer { ahead: frames.clamp(1, MAX_AHEAD), ..self }
    }

    /// Rate and threads.
    #[must_use]
    pub fn clock(&self) -> &FrameClock {
        &self.clock
    }

    /// The next frame. It waits until [`Placer::poll`] gives its position.
    pub fn add(&mut self, frame: &[u8]) {
        let FrameClock { stamps, near, count_fps, .. } = self.clock;
        let time = stamps.time(frame, near, Some(count_fps));
        self.waiting.push_back(Waiting { time, counted: stamps.count(frame, near, count_fps), kept: None });
        self.looks_left = (self.looks_left + LOOKS_EARNED).min(MAX_LOOKS);
    }

    /// There are no more frames.
    pub fn finish(&mut self) {
        self.has_ended = true;
    }

    /// The position of the first frame that waits; `None` if there is none, or its position depends on the frames behind it. Frames
    /// that are out of order at the very beginning may have positions before 0.
    pub fn poll(&mut self) -> Option<i64> {
        let head = *self.waiting.front()?;
        if !std::mem::replace(&mut self.is_known, true) {
            self.grow(head.time);
        }
        let at = self.decide(&head)?;
        self.waiting.pop_front();
        (self.is_known, self.looked, self.odd, self.beginning) = (false, 0, 1, None);
        self.frames += 1;
        self.count(at);
        if let Some(last) = self.rank(&head).and_then(|rank| self.of_threads.get_mut(rank)) {
            *last = (*last).max(Some(at));
        }
        Some(at)
    }

    fn count(&mut self, at: i64) {
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
    }

    /// The position of the first frame that waits; `None` if that depends on more frames.
    fn decide(&mut self, head: &Waiting) -> Option<i64> {
        let behind = self.last + 1;
        if let Some(at) = head.kept {
            self.untimed += 1;
            self.note_repaired(at);
            return Some(at);
        }
        let Some((number, position)) = self.counted(head) else {
            self.untimed += 1;
            return Some(behind);
        };
        match self.base {
            None => self.begin(number, position),
            Some(base) => self.timed(number, position, base),
        }
    }

    /// The first frame with a time.
    fn begin(&mut self, number: i64, position: i64) -> Option<i64> {
        if !self.knows_next() {
            return None;
        }
        let (behind, second) = (self.last + 1, self.clock.second().unsigned_abs());
        let lowest = match self.waiting.get(1).map(|next| self.counted(next)) {
            Some(Some((_, next))) if next.abs_diff(position) <= second => next.min(position),
            None => position,
            // Not confirmed.
            Some(_) => {
                self.untimed += 1;
                return Some(behind);
            }
        };
        let Some((odd, right)) = self.odd_beginning(number)? else {
            let base = lowest.saturating_sub(behind);
            self.base = Some(base);
            self.front = position.saturating_sub(base) - 1;
            self.note(number);
            return Some(self.front + 1);
        };
        self.keep_beginning(odd, right);
        let first = [0, 1].map(|n| self.waiting.get(n).and_then(|first| first.kept).unwrap_or(right));
        let base = first[0].min(first[1]).saturating_sub(behind);
        self.base = Some(base);
        self.waiting.iter_mut().for_each(|frame| frame.kept = frame.kept.map(|at| at.saturating_sub(base)));
        let at = first[0].saturating_sub(base);
        self.front = at - 1;
        self.untimed += 1;
        self.note_repaired(at);
        Some(at)
    }

    /// A frame with a time, behind others.
    fn timed(&mut self, number: i64, position: i64, base: i64) -> Option<i64> {
        let second = self.clock.second();
        let at = position.saturating_sub(base);
        let jump = at.saturating_sub(self.front);
        let is_jump = jump.unsigned_abs() > second.unsigned_abs();
        let is_back = !is_jump && self.is_a_second_back(at);
        if (is_jump || is_back) && self.has_odd_time(base, is_back)? {
            let kept = self.waiting.front()?.kept?;
            self.untimed += 1;
            self.note_repaired(kept);
            return Some(kept);
        }
        if is_jump {
            if !self.knows_next() {
                return None;
            }
            let behind = self.last + 1;
            let next = self.waiting.get(1).and_then(|next| self.counted(next));
            let near = |position: i64| position.saturating_sub(base).abs_diff(at) <= second.unsigned_abs();
            if !next.is_some_and(|(_, next)| near(next)) {
                self.untimed += 1;
                return Some(behind);
            }
            if jump < 0 {
                let behind = self.front + 1;
                self.base = Some(position - behind);
                self.returns += 1;
                self.note(number);
                return Some(behind);
            }
        }
        self.note(number);
        Some(at)
    }

    /// Whether the frame behind the first one that waits is known, or that there is none.
    fn knows_next(&self) -> bool {
        self.waiting.len() > 1 || self.has_ended
    }

    /// One of the frames that may wait.
    fn visible(&self, n: usize) -> Option<Waiting> {
        self.waiting.get(n).filter(|_| n < self.limit()).copied()
    }

    /// Whether no more frames may wait.
    fn is_full(&self) -> bool {
        self.waiting.len() >= self.limit()
    }

    /// As many odd frames as may wait, and a turn of all threads behind them.
    fn limit(&self) -> usize {
        self.ahead.saturating_add(usize::try_from(self.clock.lanes()).unwrap_or(usize::MAX))
    }

    /// One look at a frame that waits.
    fn may_look(&mut self) -> bool {
        let may = self.looks_left > 0;
        self.looks_left -= u64::from(may);
        self.looks += u64::from(may);
        may
    }

    fn begins_second(&self, frame: &Waiting) -> bool {
        self.counted(frame).is_some_and(|(number, _)| number.rem_euclid(i64::from(self.clock.count_fps)) == 0)
    }

    fn lanes(&self) -> i64 {
        i64::try_from(self.clock.lanes()).unwrap_or(i64::MAX)
    }

    /// Where the thread of a frame is among the threads.
    fn rank(&self, of: &Waiting) -> Option<usize> {
        let (_, position) = self.counted(of)?;
        usize::try_from(position.rem_euclid(self.lanes())).ok()
    }

    /// The highest position of its thread.
    fn last_of(&self, of: &Waiting) -> Option<i64> {
        *self.of_threads.get(self.rank(of)?)?
    }

    /// If the rate is unknown, a second is as long as the highest number so far, and grows with higher numbers.
    fn grow(&mut self, time: Option<FrameTime>) {
        let clock = &mut self.clock;
        let time = time.filter(|_| clock.fps().is_none());
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

    /// The number of a frame whose time is wrong, by its position.
    fn note_repaired(&mut self, at: i64) {
        let position = at.saturating_add(self.base.unwrap_or_default());
        self.note(position.div_euclid(self.lanes()));
    }

    /// Frame number and position by time; `None` without a time, or for a thread that does not belong to the stream.
    fn counted(&self, of: &Waiting) -> Option<(i64, i64)> {
        match self.clock.fps() {
            Some(_) => self.clock.place(of.counted?),
            // A second may have grown meanwhile.
            None => self.clock.number(of.time?),
        }
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

    /// Looks at frames that wait, and how many wait.
    #[cfg(test)]
    pub(super) fn work(&self) -> (u64, usize) {
        (self.looks, self.waiting.len())
    }
}
