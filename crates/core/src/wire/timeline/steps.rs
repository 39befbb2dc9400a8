//! From one frame of a thread to its next: does the time advance as the place does?

use super::{Apart, BELIEVED, Beyond, Change, Doubt, Lane, MOST_LANES, Sighting, State, Step, Timeline};
use crate::wire::frame::FrameTime;

/// Least number of steps that must agree before another number of threads is accepted.
const AGREED: u64 = 64;
/// After this many consecutive frames with the same time, the clock counts as stopped.
const STILL: u64 = 4;
/// Frame numbers from a frame of a thread to its next one, at most.
const MAX_PACE: u64 = 64;
/// Steps that are judged together.
const TOGETHER: u64 = 64;
/// Steps, of those, that do not fit in a stream whose threads do not alternate regularly.
const IRREGULAR: u32 = 16;

impl Timeline {
    /// Frames of one thread in a number of seconds, if known.
    #[must_use]
    pub fn rate(&self) -> Option<(u64, u64)> {
        self.rate
    }

    /// The frame rate is now known from elsewhere.
    pub fn set_rate(&mut self, frames: u32) {
        if self.rate.is_none() && frames > 0 {
            self.rate = Some((u64::from(frames), 1));
            self.count_seconds(frames);
        }
    }

    /// The frame rate by which frames were placed is wrong, and not known.
    pub fn forget_rate(&mut self) {
        self.rate = None;
        self.counts.rates += 1;
    }

    /// Seconds have this number of frames from now on.
    pub fn change_rate(&mut self, frames: u32, at: FrameTime) {
        self.dispute_rate(frames, at);
        self.rate = Some((u64::from(frames), 1));
        self.beyond = None;
    }

    /// Seconds have this number of frames; frames are placed by another rate all the same.
    pub fn dispute_rate(&mut self, frames: u32, at: FrameTime) {
        self.counts.rates += 1;
        self.change(Change::Rate { assumed: self.rate.map(|(rate, _)| rate), frames, at });
    }

    /// Frames from one time to another; `None` across seconds of unknown length.
    #[inline]
    fn elapsed(&self, from: FrameTime, to: FrameTime) -> Option<i64> {
        let frames = i64::from(to.frame) - i64::from(from.frame);
        if from.unix_seconds == to.unix_seconds {
            return Some(frames);
        }
        let (rate, seconds) = self.rate?;
        let begin = |second: i64| (i128::from(second) * i128::from(rate)).div_euclid(i128::from(seconds));
        i64::try_from(begin(to.unix_seconds) - begin(from.unix_seconds) + i128::from(frames)).ok()
    }

    /// By how many frames a time may be off.
    #[inline]
    fn slack(&self) -> i128 {
        match self.rate {
            Some((rate, seconds)) if !self.alternates => i128::from((rate / seconds / 4).max(1)),
            None if !self.alternates => 4096,
            // The first frame of a second lies within it.
            Some((_, seconds)) if seconds > 1 => 1,
            _ => 0,
        }
    }

    #[inline]
    pub(super) fn step(&self, last: (u64, FrameTime), place: u64, time: FrameTime) -> Step {
        if !self.numbered {
            return Step::Fits;
        }
        let (group, places) = (i128::from(self.group), i128::from(place) - i128::from(last.0));
        let (elapsed, seconds) = match self.elapsed(last.1, time) {
            Some(elapsed) => (elapsed, 0),
            None => {
                let seconds = time.unix_seconds.saturating_sub(last.1.unix_seconds);
                (i64::from(time.frame) - i64::from(last.1.frame), seconds)
            }
        };
        let off = i128::from(elapsed) * group - places * i128::from(self.pace);
        // Nearly every frame, without a division.
        if seconds == 0 && off.abs() <= self.slack() * group {
            return Step::Fits;
        }
        let frames = i64::try_from(off).unwrap_or(if off > 0 { i64::MAX } else { i64::MIN });
        let by = Apart { seconds, frames };
        if self.is_possible(self.in_frames(by), last.1, time) { Step::Unknown } else { Step::Off(by) }
    }

    /// From places to frame numbers, away from zero, because less than a frame is also an error.
    fn in_frames(&self, by: Apart) -> Apart {
        let group = i64::try_from(self.group).unwrap_or(i64::MAX);
        let rest = i64::from(by.frames % group != 0) * by.frames.signum();
        Apart { frames: by.frames / group + rest, ..by }
    }

    /// The number of frames per second has become known.
    fn count_seconds(&mut self, frames: u32) {
        let places = u64::from(frames).saturating_mul(self.group);
        self.lanes.iter_mut().for_each(|lane| lane.count_seconds(places));
    }

    /// Whether seconds can have such a number of frames that a time is not off at all: more than the numbers of both frames.
    fn is_possible(&self, by: Apart, from: FrameTime, to: FrameTime) -> bool {
        let least = i128::from(from.frame.max(to.frame)) + 1;
        by.seconds > 0 && i128::from(by.seconds) * least + i128::from(by.frames) <= self.slack()
    }

    /// The next frame of a thread, which follows `last`.
    pub(super) fn advance(&mut self, at: usize, last: (u64, FrameTime), seen: &Sighting) {
        self.watch_rate(last, seen);
        match self.step(last, seen.place, seen.time) {
            Step::Unknown => {}
            Step::Fits => {
                self.count_step(false);
                (self.other_group, self.other_pace) = ((0, 0), (0, 0));
                self.fits = self.fits.saturating_add(1);
                self.lanes[at].still = 0;
                if let Some(doubt) = self.lanes[at].doubt.take() {
                    self.settle(doubt);
                }
            }
            Step::Off(by) => self.doubt(at, last, seen, by),
        }
    }

    /// A step that does not fit.
    #[cold]
    #[inline(never)]
    fn doubt(&mut self, at: usize, last: (u64, FrameTime), seen: &Sighting, by: Apart) {
        let before = self.lanes[at].doubt.map_or(Apart::default(), |doubt| doubt.by);
        let sum = Apart {
            seconds: before.seconds.saturating_add(by.seconds),
            frames: before.frames.saturating_add(by.frames),
        };
        let from = self.lanes[at].doubt.map_or(last.1, |doubt| doubt.from);
        let is_back = sum == Apart::default() || self.is_possible(self.in_frames(sum), from, seen.time);
        let is_part = !by.frames.unsigned_abs().is_multiple_of(self.group);
        let lane = &mut self.lanes[at];
        let was_doubted = lane.is_doubted();
        let near = seen.place.saturating_add(seen.place - last.0);
        let new = Doubt { from: last.1, to: seen.time, near: (last.0, near), by: sum, steps: 0, is_part };
        let doubt = lane.doubt.get_or_insert(new);
        doubt.is_part |= is_part;
        doubt.by = sum;
        doubt.steps = doubt.steps.saturating_add(1);
        if is_back {
            // The time is right again: the frames between were odd, or the clock had stopped.
            let odd = doubt.steps.saturating_sub(1).max(1);
            self.counts.odd_frames += if lane.still < STILL { odd } else { 0 };
            lane.doubt = None;
        } else {
            doubt.to = seen.time;
        }
        if seen.time == last.1 {
            lane.still = lane.still.saturating_add(1);
            let is_new = lane.still == STILL;
            let is_told =
                self.stopped.is_some_and(|place| seen.place.saturating_sub(place) <= TOGETHER * self.group);
            if is_new && !is_told {
                self.counts.stops += 1;
                self.stopped = Some(seen.place);
                self.change(Change::Stopped(seen.time));
            }
            return;
        }
        lane.still = 0;
        // The first of them agrees with none before.
        let vote = u64::from(was_doubted);
        if !self.vote_pace(last, seen, vote) && !self.vote_group(last, seen, vote) {
            self.count_step(true);
        }
    }

    /// Steps that must agree: each thread has its turns.
    fn enough(&self) -> u64 {
        AGREED.max(BELIEVED * self.lanes.len() as u64)
    }

    /// If all threads take their turns as before, and frame numbers advance by another number in each, seconds have another number
    /// of frames. Returns whether this step agrees with the previous one.
    fn vote_pace(&mut self, last: (u64, FrameTime), seen: &Sighting, vote: u64) -> bool {
        let frames = self.elapsed(last.1, seen.time).and_then(|frames| u64::try_from(frames).ok());
        let is_turn = seen.place - last.0 == self.group && self.alternates;
        let Some(pace) = frames.filter(|frames| is_turn && (1..=MAX_PACE).contains(frames)) else {
            self.other_pace = (0, 0);
            return false;
        };
        let is_same = self.other_pace.0 == pace;
        let votes = if is_same { self.other_pace.1 } else { 0 };
        self.other_pace = (pace, votes.saturating_add(vote));
        if self.other_pace.1 < self.enough() {
            return is_same;
        }
        self.other_pace = (0, 0);
        self.lanes.iter_mut().for_each(|lane| lane.doubt = None);
        let before = std::mem::replace(&mut self.pace, pace);
        // A sender may always have counted so.
        let Some((rate, 1)) = self.rate.filter(|_| self.fits >= AGREED) else { return is_same };
        if let Ok(frames) = u32::try_from(rate.saturating_mul(pace) / before)
            && frames > 0
        {
            self.rate = Some((u64::from(frames), 1));
            self.ends = None;
            self.counts.rates += 1;
            self.change(Change::Rate { assumed: Some(rate), frames, at: seen.time });
        }
        is_same
    }

    /// If all frame numbers advance by another number of places, a thread has begun or stopped. Returns whether this
    /// step agrees with the previous one.
    fn vote_group(&mut self, last: (u64, FrameTime), seen: &Sighting, vote: u64) -> bool {
        let places = seen.place - last.0;
        let frames = self.elapsed(last.1, seen.time).and_then(|frames| u64::try_from(frames).ok());
        let group = frames
            .filter(|&frames| frames > 0 && places.is_multiple_of(frames))
            .map(|frames| places / frames);
        let is_possible =
            |&group: &u64| group.is_multiple_of(self.parts) && group / self.parts <= MOST_LANES as u64;
        let Some(group) = group.filter(is_possible) else {
            self.other_group = (0, 0);
            return false;
        };
        let is_same = self.other_group.0 == group;
        let votes = if is_same { self.other_group.1 } else { 0 };
        self.other_group = (group, votes.saturating_add(vote));
        if self.other_group.1 >= self.enough() {
            let before = std::mem::replace(&mut self.group, group);
            self.other_group = (0, 0);
            self.lanes.iter_mut().for_each(|lane| lane.doubt = None);
            self.lose_silent(seen, before);
        }
        is_same
    }

    /// Times are as regular as before, from another time on.
    fn settle(&mut self, doubt: Doubt) {
        let by = self.in_frames(doubt.by);
        if by.seconds == 0 && i128::from(by.frames).abs() <= self.slack() {
            return;
        }
        // All threads jump at a time.
        let is_told = self
            .jumped
            .is_some_and(|(by, (begin, end))| by == doubt.by && doubt.near.0 <= end && begin <= doubt.near.1);
        self.jumped = Some((doubt.by, doubt.near));
        if is_told {
            return;
        }
        // A time that jumps does so by whole frames.
        if doubt.is_part && by.seconds == 0 && self.alternates {
            return self.settle_part(doubt);
        }
        self.counts.jumps += 1;
        self.change(Change::Jump { from: doubt.from, to: doubt.to, by });
    }

    /// Turns had fewer or more frames than there are threads, and times are as regular as before.
    fn settle_part(&mut self, doubt: Doubt) {
        if doubt.by.frames < 0 {
            // The header of another thread's frame was damaged.
            self.counts.odd_frames += 1;
            return;
        }
        // Threads that were lost are reported.
        if self.lanes.iter().any(|lane| lane.state == State::Absent) {
            return;
        }
        // The others count frame by frame.
        let skipped = |doubt: Doubt| {
            let frames = u64::try_from(self.elapsed(doubt.from, doubt.to)?).ok()?;
            frames.checked_sub(doubt.steps.saturating_mul(self.pace)).filter(|&frames| frames > 0)
        };
        let of_lane = |lane: &Lane| Some((skipped(lane.doubt?)?, lane.doubt?));
        let most = self.lanes.iter().filter_map(of_lane).max_by_key(|(frames, _)| *frames);
        let (from, to) = most.map_or((doubt.from, doubt.to), |(_, doubt)| (doubt.from, doubt.to));
        let thread = most.map(|(_, doubt)| doubt.from.thread);
        self.counts.frame_gaps += 1;
        self.change(Change::FramesMissing { thread, frames: doubt.by.frames.unsigned_abs(), from, to });
    }

    /// The counter restarted: do times continue, or return? Two frames in a row must agree, because one may be damaged.
    pub(super) fn compare_with_former(&mut self, at: usize, time: FrameTime) {
        let Some((from, first)) = self.lanes[at].former else { return };
        if (time.unix_seconds, time.frame) >= (from.unix_seconds, from.frame) {
            self.lanes[at].former = None;
            return;
        }
        let Some(to) = first else {
            self.lanes[at].former = Some((from, Some(time)));
            return;
        };
        self.lanes[at].former = None;
        // All threads return at a time.
        if std::mem::replace(&mut self.is_return_told, true) {
            return;
        }
        let by = match self.elapsed(from, to) {
            Some(frames) => Apart { seconds: 0, frames: frames.saturating_sub(1) },
            None => Apart {
                seconds: to.unix_seconds.saturating_sub(from.unix_seconds),
                frames: i64::from(to.frame) - i64::from(from.frame) - 1,
            },
        };
        self.counts.jumps += 1;
        self.change(Change::Jump { from, to, by });
    }

    #[inline]
    fn count_step(&mut self, is_off: bool) {
        self.steps = self.steps << 1 | u64::from(is_off);
        self.taken = self.taken.saturating_add(1);
        if self.alternates && self.steps.count_ones() >= IRREGULAR {
            self.alternates = false;
            self.lanes.iter_mut().for_each(|lane| lane.doubt = None);
            // What looked like jumps was the order of the frames.
            if self.taken <= 2 * TOGETHER {
                self.counts.jumps = 0;
                self.counts.odd_frames = 0;
                self.changes.retain(|change| !matches!(change, Change::Jump { .. }));
            }
        }
    }

    /// A frame number beyond the rate disproves it: several, because a header may be damaged. Where places are by time, nothing else
    /// does.
    #[inline]
    pub(super) fn watch_numbers(&mut self, time: FrameTime) {
        let rate = self.rate.filter(|(_, seconds)| *seconds == 1).map_or(u64::MAX, |(rate, _)| rate);
        if self.beyond.is_some_and(|beyond| beyond.second != time.unix_seconds) {
            self.judge_beyond(time);
        }
        if u64::from(time.frame) < rate {
            return;
        }
        let (second, highest) = (time.unix_seconds, time.frame);
        let beyond = self.beyond.get_or_insert(Beyond { second, frames: 0, highest, step: u32::MAX });
        beyond.frames += 1;
        if time.frame > beyond.highest {
            beyond.step = beyond.step.min(time.frame - beyond.highest);
            beyond.highest = time.frame;
        }
    }

    /// The second with such numbers is over, or the stream.
    pub(super) fn judge_beyond(&mut self, at: FrameTime) {
        let Some(beyond) = self.beyond.take().filter(|beyond| beyond.frames >= BELIEVED) else { return };
        let Some(frames) = beyond.highest.checked_add(beyond.step) else { return };
        // Its steps may have shown it before.
        if self.rate.is_none_or(|(rate, seconds)| seconds > 1 || u64::from(beyond.highest) < rate) {
            return;
        }
        let assumed = self.rate.replace((u64::from(frames), 1)).map(|(rate, _)| rate);
        self.counts.rates += 1;
        self.change(Change::Rate { assumed, frames, at });
    }

    /// Learns the number of frames in a second from its end.
    fn watch_rate(&mut self, last: (u64, FrameTime), seen: &Sighting) {
        let (from, to) = (last.1, seen.time);
        let places = seen.place - last.0;
        let is_end =
            from.unix_seconds.checked_add(1) == Some(to.unix_seconds) && places.is_multiple_of(self.group);
        if !is_end || !self.alternates || self.rate.is_some_and(|(_, seconds)| seconds > 1) {
            return;
        }
        let frames = u64::from(from.frame) + places / self.group * self.pace;
        let Some(frames) = frames.checked_sub(u64::from(to.frame)).and_then(|n| u32::try_from(n).ok()) else {
            return;
        };
        let is_plausible = frames > from.frame.max(to.frame) && frames < 1 << 24;
        if !is_plausible || self.rate == Some((u64::from(frames), 1)) {
            self.ends = None;
            return;
        }
        let agreed = self.ends.filter(|ends| ends.0 == frames);
        let seconds = match agreed {
            Some((_, second, seconds)) if second == to.unix_seconds => seconds,
            Some((.., seconds)) => seconds + 1,
            None => 1,
        };
        self.ends = Some((frames, to.unix_seconds, seconds));
        // If the first frame of a second is next to the last one of the previous second, the rate is certain.
        let is_sure = self.rate.is_none() && places == self.group && to.frame == 0;
        if seconds < 2 && !is_sure {
            return;
        }
        let assumed = self.rate.replace((u64::from(frames), 1)).map(|(rate, _)| rate);
        self.ends = None;
        self.counts.rates += u64::from(assumed.is_some());
        match assumed {
            // What did not fit may have been the rate.
            Some(_) => self.lanes.iter_mut().for_each(|lane| lane.doubt = None),
            None => self.count_seconds(frames),
        }
        self.change(Change::Rate { assumed, frames, at: to });
    }
}
